-- name: find_backfill_of_run
-- The backfill that a run has planned before.
select backfill_id from penstock.backfill where pipeline_id = %(pipeline_id)s and run_id = %(run_id)s

-- name: create_backfill
-- What was asked, by whom.
insert into penstock.backfill (pipeline_id, run_id, asked, replace, offsets_per_load, actor)
values (%(pipeline_id)s, %(run_id)s, %(asked)s, %(replace)s, %(offsets_per_load)s, %(actor)s) returning backfill_id

-- name: read_backfill
-- One backfill with its pipeline.
select b.backfill_id, b.pipeline_id, p.name as pipeline, b.asked, b.replace, b.run_id
from penstock.backfill b join penstock.pipeline p using (pipeline_id) where b.backfill_id = %(backfill_id)s

-- name: read_backfill_loads
-- The loads of a backfill, in their order; a load that was planned anew is there as the new one.
select load_id, state from penstock.load
where backfill_id = %(backfill_id)s and (state <> 'superseded' or published_at is not null)
order by load_id

-- name: read_covered
-- The published ranges of a generation.
select c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id
from penstock.coverage c
where c.pipeline_id = %(pipeline_id)s and c.generation_id = %(generation_id)s order by 1, 2

-- name: read_planned
-- The ranges of unfinished backfills and replays: they are about to be covered.
select r.partition, r.from_offset, r.until_offset, r.load_id, l.backfill_id
from penstock.load_range r join penstock.load l using (load_id)
where l.pipeline_id = %(pipeline_id)s and l.generation_id = %(generation_id)s and l.kind <> 'live'
  and l.state in ('planned', 'staging', 'staged', 'validated', 'held') order by 1, 2

-- name: lock_backfill
-- For as long as the session lasts: one process runs a backfill. False if another does.
select pg_try_advisory_lock(hashtextextended('penstock backfill ' || %(backfill_id)s, 0)) as locked

-- name: read_past
-- The newest published loads: how long so many offsets took.
select r.offsets::bigint as offsets, extract(epoch from l.published_at - l.staging_at)::float8 as seconds
from penstock.load l
cross join lateral (select sum(until_offset - from_offset) as offsets
                    from penstock.load_range where load_id = l.load_id) r
where l.pipeline_id = %(pipeline_id)s and l.published_at is not null
order by l.load_id desc limit 20

-- name: plan_anew
-- A load that failed for good gives way to another over the same ranges.
update penstock.load set state = 'superseded', superseded_by = %(successor)s, ended_at = now()
where load_id = %(load_id)s and state = 'failed'

-- name: read_progress
-- How far a backfill has come.
select loads, loads_done, loads_stopped, offsets, offsets_done, rows,
       extract(epoch from last_published_at - started_at)::float8 as seconds
from penstock.backfills where backfill_id = %(backfill_id)s
