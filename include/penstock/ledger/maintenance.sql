-- name: find_pipeline
-- The pipeline, if it has planned anything yet.
select pipeline_id from penstock.pipeline where name = %(name)s

-- name: lock_maintenance
-- For as long as the session lasts: one process maintains a pipeline. False if another does.
select pg_try_advisory_lock(hashtextextended('penstock maintain ' || %(pipeline_id)s, 0)) as locked

-- name: lock_pipeline_now
-- The lock of plan and publish, or an error: who has it may wait for what this session holds.
select from penstock.pipeline where pipeline_id = %(pipeline_id)s for no key update nowait

-- name: read_leaves
-- The partitions of the target: bounds, bytes as the planner knows them, and how many loads each has ever held.
select leaf.schema, leaf.name, leaf.from_load, leaf.until_load, leaf.size,
       (select count(*) from penstock.load l
        where l.load_id >= leaf.from_load and l.load_id < leaf.until_load
          and l.pipeline_id = %(pipeline_id)s and l.published_at is not null) as loads
from (select n.nspname as schema, c.relname as name, b.bounds[1]::bigint as from_load, b.bounds[2]::bigint as until_load,
             greatest(c.relpages, 0) * current_setting('block_size')::bigint as size
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
      join pg_namespace n on n.oid = c.relnamespace
      cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                      $$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$$) as b (bounds)
      where i.inhparent = to_regclass(%(target)s) and c.relkind = 'r' and b.bounds is not null) leaf
order by leaf.from_load

-- name: find_unfinished
-- Loads that may still be attached to the target: no merged leaf may take their place.
select load_id from penstock.load
where state in ('planned', 'staging', 'staged', 'validated', 'held') and declaration ->> 'target' = %(target)s
order by load_id

-- name: find_past_kept
-- Loads that were rolled back, and whose rows have been kept for as long as was declared.
select load_id from penstock.load
where pipeline_id = %(pipeline_id)s and state = 'rolled_back' and kept_until < now() order by load_id

-- name: end_keeping
-- The rows of a load that was rolled back are kept no longer; the caller checks that one row came out.
update penstock.load set kept_until = null
where load_id = %(load_id)s and state = 'rolled_back' and kept_until < now()

-- name: forget_aside
-- What an undo would have covered again.
delete from penstock.aside where load_id = %(load_id)s

-- name: drop_uncounted
-- Quarantined records that never counted, or count no more: of attempts that were not the last, of loads that ended in
-- another way than published. They are kept for a while, for whoever looks for the cause.
delete from penstock.quarantine q
using penstock.load l
where l.load_id = q.load_id and l.pipeline_id = %(pipeline_id)s
  and l.ended_at < now() - make_interval(days => %(days)s)
  and (q.attempt <> l.attempt or l.state in ('failed', 'superseded', 'discarded')
       or l.state = 'rolled_back' and l.kept_until is null)

-- name: empty_quarantine
-- Quarantined records past their time: what they held goes. Where each was, and why, stays: the offsets add up by it.
update penstock.quarantine q
set key = null, value = null, headers = '[]', detail = 'dropped after its time', dropped_at = now()
from penstock.load l
where l.load_id = q.load_id and l.pipeline_id = %(pipeline_id)s and q.dropped_at is null
  and l.published_at < now() - make_interval(days => %(days)s)

-- name: drop_old_tasks
-- What tasks of attempts wrote that were not the last.
delete from penstock.stage_task t
using penstock.load l
where l.load_id = t.load_id and l.pipeline_id = %(pipeline_id)s and t.attempt < l.attempt

-- name: find_stray_merges
-- Tables of merges of this pipeline that ended before their table became a leaf.
select c.relname as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral regexp_match(c.relname, '^merge_(\d+)_\d+$') as found
join penstock.load l on l.load_id = found[1]::bigint
where n.nspname = 'penstock_stage' and c.relkind = 'r' and l.pipeline_id = %(pipeline_id)s

-- name: read_left_out
-- The leaves that an earlier maintenance could not merge, with the reason.
select from_load, until_load, leaf, reason from penstock.left_out where pipeline_id = %(pipeline_id)s order by from_load

-- name: leave_out
-- A leaf cannot be merged.
insert into penstock.left_out (pipeline_id, from_load, until_load, leaf, reason)
values (%(pipeline_id)s, %(from_load)s, %(until_load)s, %(leaf)s, %(reason)s)
on conflict (pipeline_id, from_load) do update
set until_load = excluded.until_load, leaf = excluded.leaf, reason = excluded.reason, found_at = now()

-- name: take_in
-- A leaf can be merged again, or is not there any more.
delete from penstock.left_out where pipeline_id = %(pipeline_id)s and from_load = %(from_load)s
