-- name: find_backfill_of_run
-- The backfill that a run has planned before.
select backfill_id from penstock.backfill where pipeline_id = %(pipeline_id)s and run_id = %(run_id)s

-- name: create_backfill
-- Inserts a backfill: what was requested, and by whom.
insert into penstock.backfill (pipeline_id, run_id, asked, replace, offsets_per_load, actor)
values (%(pipeline_id)s, %(run_id)s, %(asked)s, %(replace)s, %(offsets_per_load)s, %(actor)s) returning backfill_id

-- name: read_backfill
-- One backfill with the name of its pipeline.
select p.name as pipeline, b.run_id
from penstock.backfill b join penstock.pipeline p using (pipeline_id) where b.backfill_id = %(backfill_id)s

-- name: read_backfill_loads
-- The loads of a backfill, in their order. Of a failed load that was planned again, only the new load is listed.
select load_id, state from penstock.load
where backfill_id = %(backfill_id)s and (state <> 'superseded' or published_at is not null)
order by load_id

-- name: cancel_backfill
-- Ends the open and the failed loads of a backfill by a person's decision, with an event of each load. A process that
-- works on one of them publishes nothing.
with ended as (
    update penstock.load set state = 'discarded', ended_at = now()
    where backfill_id = %(backfill_id)s and state in ('planned', 'staging', 'staged', 'validated', 'held', 'failed')
    returning pipeline_id, load_id
), event as (
    insert into penstock.event (actor, pipeline_id, load_id, what, why)
    select %(actor)s, pipeline_id, load_id, 'discarded', %(why)s from ended order by load_id
)
select load_id from ended order by load_id

-- name: read_planned
-- The ranges of open backfills and replays, which will cover them.
select r.partition, r.from_offset, r.until_offset, r.load_id, l.backfill_id
from penstock.load_range r join penstock.load l using (load_id)
where l.pipeline_id = %(pipeline_id)s and l.generation_id = %(generation_id)s and l.kind <> 'live'
  and l.state in ('planned', 'staging', 'staged', 'validated', 'held') order by 1, 2

-- name: lock_backfill
-- Takes the session lock of the one process that runs a backfill; false if another session holds it.
select pg_try_advisory_lock(hashtextextended('penstock backfill ' || %(backfill_id)s, 0)) as locked

-- name: find_first_offsets
-- Where each partition was when the first load ran whose records can be as new as a time: the first range with a record
-- of that time or newer. A load that was published before has none, if no record is dated in the future.
with first_load as (
    select l.load_id, l.generation_id from penstock.generation g
    join penstock.load l on l.pipeline_id = g.pipeline_id and l.published_at >= %(at)s
    where g.generation_id = %(generation_id)s and l.generation_id = g.generation_id and l.kind = 'live'
    order by l.published_at limit 1
)
select o.partition, r.from_offset
from first_load f
join penstock.position o using (generation_id)
cross join lateral (
    select x.from_offset from penstock.load_range x join penstock.load l using (load_id)
    where x.load_id >= f.load_id and x.partition = o.partition and l.kind = 'live' and l.published_at is not null
      and l.generation_id = f.generation_id and (x.last_at is null or x.last_at >= %(at)s)
    order by x.load_id limit 1) r

-- name: read_durations
-- The newest published loads: how many offsets, and how many seconds they took.
select r.offsets::bigint as offsets, extract(epoch from l.published_at - l.staging_at)::float8 as seconds
from penstock.load l
cross join lateral (select sum(until_offset - from_offset) as offsets
                    from penstock.load_range where load_id = l.load_id) r
where l.pipeline_id = %(pipeline_id)s and l.published_at is not null
order by l.load_id desc limit 20

-- name: read_progress
-- The progress of a backfill.
select loads, loads_done, loads_stopped, offsets, offsets_done, rows,
       extract(epoch from last_published_at - started_at)::float8 as seconds
from penstock.backfills where backfill_id = %(backfill_id)s
