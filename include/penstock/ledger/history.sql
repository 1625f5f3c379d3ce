-- name: find_window_start
-- The first of the loads that were published within a window before a load: of a time before its plan (%(time)s), or of a
-- number of loads (%(loads)s). Loads are not published in the order of their plans, because a backfill may wait for a
-- person. Null if there is no such load: the window is empty. 0 if no published load is before it: all rows are in the
-- window then.
with checked as (select load_id, pipeline_id, generation_id, planned_at from penstock.load where load_id = %(load_id)s),
earlier as (
    select o.load_id
    from checked l join penstock.load o using (pipeline_id)
    where o.published_at >= l.planned_at - %(time)s::interval and o.load_id <> l.load_id
      and (o.generation_id = l.generation_id or not %(same_generation)s)
    union all
    (select o.load_id
     from checked l join penstock.load o using (pipeline_id)
     where o.published_at is not null and o.load_id <> l.load_id
       and (o.generation_id = l.generation_id or not %(same_generation)s)
     order by o.load_id desc limit coalesce(%(loads)s::int, 0))
)
select case when min(e.load_id) = (select o.load_id from checked l join penstock.load o using (pipeline_id)
                                   where o.published_at is not null order by o.load_id limit 1)
            then 0 else min(e.load_id) end as first_load
from earlier e

-- name: find_first_load
-- The first load of the generation of a load.
select min(o.load_id) as load_id
from penstock.load l join penstock.load o using (pipeline_id, generation_id) where l.load_id = %(load_id)s

-- name: read_usual_volumes
-- The rows of earlier live loads that were planned at the same hour of one of the past weeks. Loads that were held or
-- rolled back are left out, because their volume may have been the reason.
select o.rows
from penstock.load l
join penstock.load o on o.pipeline_id = l.pipeline_id and o.load_id <> l.load_id and o.kind = 'live'
    and o.published_at >= l.planned_at - make_interval(weeks => %(weeks)s, days => 1) and o.held_at is null
    and o.state = 'published'
join generate_series(1, %(weeks)s::int) as week (n)
    on o.planned_at between l.planned_at - make_interval(weeks => n) - interval '30 minutes'
                        and l.planned_at - make_interval(weeks => n) + interval '30 minutes'
where l.load_id = %(load_id)s and o.rows is not null
order by o.load_id

-- name: find_added_partitions
-- The partitions that were first seen after their generation was opened.
select o.partition
from penstock.position o join penstock.generation g using (generation_id)
where o.generation_id = %(generation_id)s and o.seen_at > g.opened_at order by o.partition

-- name: read_chunks_read_twice
-- The chunks of an attempt that were read a second time, with both counts and fingerprints of their records.
select t.partition, t.from_offset, t.until_offset, t.rows + t.quarantined as records, t.log_hash as hash,
       s.records as again_records, s.log_hash as again_hash
from penstock.second_reading s join penstock.stage_task t using (load_id, attempt, task)
where s.load_id = %(load_id)s and s.attempt = %(attempt)s
order by t.partition, t.from_offset

-- name: record_second_reading
-- Records the count and the fingerprint of chunks that were read a second time; of two drivers of one attempt, the
-- first records a chunk. %(chunks)s is a JSON array.
insert into penstock.second_reading (load_id, attempt, task, records, log_hash)
select %(load_id)s, %(attempt)s, c.task, c.records, c.log_hash
from jsonb_to_recordset(%(chunks)s) as c (task int, records bigint, log_hash bigint)
on conflict do nothing
