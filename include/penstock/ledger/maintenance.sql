-- name: lock_maintenance
-- Takes the session lock of the one process that maintains a pipeline; false if another session holds it.
select pg_try_advisory_lock(hashtextextended('penstock maintain ' || %(pipeline_id)s, 0)) as locked


-- name: read_leaves
-- The leaves of a target: their bounds, their size in bytes as the planner knows it, and how many published loads fall
-- into each.
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


-- name: find_past_kept
-- Loads that were rolled back and whose keeping time is over.
select load_id from penstock.load
where pipeline_id = %(pipeline_id)s and state = 'rolled_back' and kept_until < now() order by load_id

-- name: end_keeping
-- Records that the rows of a rolled back load are dropped. The caller checks that one row was updated.
update penstock.load set kept_until = null
where load_id = %(load_id)s and state = 'rolled_back' and kept_until < now()

-- name: drop_uncounted
-- Deletes quarantined records that do not count: of attempts before the last one, and of loads that ended without
-- being published. They are kept for some days, for the search for a cause.
delete from penstock.quarantine q
using penstock.load l
where l.load_id = q.load_id and l.pipeline_id = %(pipeline_id)s
  and l.ended_at < now() - make_interval(days => %(days)s)
  and (q.attempt <> l.attempt or l.state in ('failed', 'superseded', 'discarded')
       or l.state = 'rolled_back' and l.kept_until is null)

-- name: empty_quarantine
-- Empties quarantined records after their keeping time. Their offsets and reasons stay, because every offset is
-- accounted for.
update penstock.quarantine q
set key = null, value = null, headers = '[]', detail = 'dropped after its time', dropped_at = now()
from penstock.load l
where l.load_id = q.load_id and l.pipeline_id = %(pipeline_id)s and q.dropped_at is null
  and l.published_at < now() - make_interval(days => %(days)s)

-- name: empty_redriven
-- Drops the records that redrives keep for a rollback, after the keeping time of quarantined records.
delete from penstock.redriven r
using penstock.load l, penstock.load s
where l.load_id = r.load_id and l.pipeline_id = %(pipeline_id)s and s.load_id = r.source_load
  and (s.published_at < now() - make_interval(days => %(days)s) or l.state in ('discarded', 'superseded'))

-- name: drop_old_accounts
-- Deletes the accounts of a transform by attempts that no longer stage a load.
with decoded as (
    delete from penstock.decoded d using penstock.load l
    where l.load_id = d.load_id and l.pipeline_id = %(pipeline_id)s and (d.attempt < l.attempt or l.state <> 'staging')
),
written as (
    delete from penstock.written w using penstock.load l
    where l.load_id = w.load_id and l.pipeline_id = %(pipeline_id)s and (w.attempt < l.attempt or l.state <> 'staging')
)
delete from penstock.filtered f using penstock.load l
where l.load_id = f.load_id and l.pipeline_id = %(pipeline_id)s and f.attempt < l.attempt

-- name: drop_old_tasks
-- Deletes the counts of attempts before the last one.
delete from penstock.stage_task t
using penstock.load l
where l.load_id = t.load_id and l.pipeline_id = %(pipeline_id)s and t.attempt < l.attempt

-- name: drop_tasks_past_kept
-- Deletes the counts and fingerprints of the tasks of loads that have ended, after their keeping time. The sums stay in the
-- ranges of the load. A chunk that a verification reads at this moment stays.
delete from penstock.stage_task t
using penstock.load l
where l.load_id = t.load_id and l.pipeline_id = %(pipeline_id)s
  and l.ended_at < now() - make_interval(days => %(days)s)
  and not exists (select from penstock.reread r
                  where r.load_id = t.load_id and r.attempt = t.attempt and r.task = t.task)

-- name: drop_check_results
-- Deletes the results of checks on loads that have ended, after their keeping time. Each load is looked up through the
-- key: the table holds the results of all pipelines, and most old loads have none left.
delete from penstock.check_result k
where k.load_id = any (array(
    select l.load_id
    from penstock.load l
    cross join lateral (select from penstock.check_result r where r.load_id = l.load_id limit 1) found
    where l.pipeline_id = %(pipeline_id)s and l.planned_at < now() - make_interval(days => %(days)s)
      and l.state not in ('planned', 'staging', 'staged', 'validated', 'held')))
  and k.checked_at < now() - make_interval(days => %(days)s)

-- name: find_stray_merges
-- Tables of interrupted merges of a pipeline: they never became leaves.
select c.relname as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral regexp_match(c.relname, '^merge_(\d+)_\d+$') as found
join penstock.load l on l.load_id = found[1]::bigint
where n.nspname = 'penstock_stage' and c.relkind = 'r' and l.pipeline_id = %(pipeline_id)s

-- name: read_left_out
-- The leaves that an earlier maintenance could not merge.
select from_load, until_load, leaf, reason from penstock.left_out where pipeline_id = %(pipeline_id)s order by from_load

-- name: record_left_out
-- Records that a leaf cannot be merged, and why.
insert into penstock.left_out (pipeline_id, from_load, until_load, leaf, reason)
values (%(pipeline_id)s, %(from_load)s, %(until_load)s, %(leaf)s, %(reason)s)
on conflict (pipeline_id, from_load) do update
set until_load = excluded.until_load, leaf = excluded.leaf, reason = excluded.reason, found_at = now()

-- name: forget_left_out
-- Deletes that record: the leaf can be merged again, or does not exist any more.
delete from penstock.left_out where pipeline_id = %(pipeline_id)s and from_load = %(from_load)s

-- name: find_stale_tables
-- Tables of attempts that are not the current ones of their loads, or whose loads have ended. The table of a published
-- attempt has left this schema.
select c.relname as name
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral regexp_match(c.relname, '^load_(\d+)_(\d+)$') as found
join penstock.load l on l.load_id = found[1]::bigint
where n.nspname = 'penstock_stage' and c.relkind = 'r'
  and (l.attempt <> found[2]::int
       or l.state not in ('planned', 'staging', 'staged', 'validated', 'held'))
