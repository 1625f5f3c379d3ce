-- name: read_load
-- One load with its pipeline and the identity of the topic that it was planned on.
select l.load_id, l.pipeline_id, p.name as pipeline, l.generation_id, l.kind, l.state, l.attempt, l.run_id,
       d.declaration, l.cause, l.rows, l.quarantined, l.holes, l.filtered, l.transform_sha256, l.superseded_by, g.cluster_id, g.topic_id,
       l.application_id, l.backfill_id
from penstock.load l
join penstock.declaration d using (declaration_id)
join penstock.pipeline p using (pipeline_id)
join penstock.generation g on g.generation_id = l.generation_id
where l.load_id = %(load_id)s

-- name: read_state
-- The state of a load.
select state from penstock.load where load_id = %(load_id)s

-- name: read_load_ranges
-- The ranges of a load's plan.
select partition, from_offset, until_offset from penstock.load_range
where load_id = %(load_id)s order by partition, from_offset

-- name: read_staged_ranges
-- The ranges of a load with the number of rows, quarantined records, holes and filtered records in each.
select partition, from_offset as "from", until_offset as until, rows, quarantined, holes, filtered
from penstock.ranges where load_id = %(load_id)s order by 1, 2

-- name: find_load_of_run
-- The newest load that a run has planned.
select load_id, state from penstock.load
where pipeline_id = %(pipeline_id)s and run_id = %(run_id)s
order by load_id desc limit 1

-- name: find_open_live_load
-- The open live load of a pipeline; the unique index load_live allows one at most.
select load_id, state, declaration, cause, run_id from penstock.load join penstock.declaration using (declaration_id)
where pipeline_id = %(pipeline_id)s and kind = 'live'
  and state in ('planned', 'staging', 'staged', 'validated', 'held')

-- name: find_open_loads
-- The open loads of a target: their tables may still be attached to it, so no merged leaf may take their place.
select load_id from penstock.load join penstock.declaration using (declaration_id)
where state in ('planned', 'staging', 'staged', 'validated', 'held') and declaration ->> 'target' = %(target)s
order by load_id

-- name: supersede_load
-- Fences an open load: a process that still works on the load finds it ended.
update penstock.load
set state = 'superseded', ended_at = now(), cause = %(cause)s
where load_id = %(load_id)s and state = %(state)s

-- name: name_successor
-- Records which load replaced a superseded load.
update penstock.load set superseded_by = %(successor)s where load_id = %(load_id)s and state = 'superseded'

-- name: supersede_failed_load
-- A resumed backfill replaces a failed load by a new load of the same ranges.
update penstock.load set state = 'superseded', superseded_by = %(successor)s, ended_at = now()
where load_id = %(load_id)s and state = 'failed'

-- name: supersede_replaced_loads
-- Ends published loads that no longer cover anything, because a replay has replaced all of their ranges.
update penstock.load l set state = 'superseded', superseded_by = %(successor)s, ended_at = now()
where load_id = any (%(load_ids)s) and state = 'published'
  and not exists (select from penstock.coverage c where c.load_id = l.load_id)

-- name: end_open_loads
-- Ends the open loads of a pipeline that adopts another log, in which their offsets mean other records.
update penstock.load
set state = case kind when 'live' then 'superseded' else 'discarded' end, ended_at = now(), cause = %(cause)s
where pipeline_id = %(pipeline_id)s and state in ('planned', 'staging', 'staged', 'validated', 'held')
returning load_id, state

-- name: keep_declaration
-- Stores a declaration, unless an equal one is stored; its number. A declaration names its pipeline, whose row the caller
-- has locked, so nobody stores an equal one at the same time.
with given as (
    select d.declaration, sha256(convert_to(d.declaration::text, 'UTF8')) as digest
    from (select %(declaration)s::jsonb as declaration) d
),
stored as (
    insert into penstock.declaration (digest, declaration)
    select digest, declaration from given
    where not exists (select from penstock.declaration known where known.digest = given.digest)
    returning declaration_id
)
select declaration_id from stored
union all
select declaration_id from penstock.declaration join given using (digest)

-- name: create_load
-- Inserts a load. Its plan never changes.
insert into penstock.load (pipeline_id, generation_id, kind, run_id, declaration_id, backfill_id)
values (%(pipeline_id)s, %(generation_id)s, %(kind)s, %(run_id)s, %(declaration_id)s, %(backfill_id)s) returning load_id

-- name: create_load_ranges
-- Inserts the ranges of a plan. %(ranges)s is a JSON array.
insert into penstock.load_range (load_id, partition, from_offset, until_offset, leader_epoch, loaded_until)
select %(load_id)s, r.partition, r.from_offset, r.until_offset, r.leader_epoch, r.loaded_until
from jsonb_to_recordset(%(ranges)s)
     as r (partition int, from_offset bigint, until_offset bigint, leader_epoch int, loaded_until timestamptz)

-- name: begin_attempt
-- Begins the next attempt. The attempt before it no longer counts, even if its processes still run.
update penstock.load
set state = 'staging', attempt = attempt + 1, staging_at = now(), application_id = null, cause = null,
    transform_sha256 = null
where load_id = %(load_id)s and state = %(state)s and attempt = %(attempt)s returning attempt

-- name: record_application
-- Records which Spark application stages an attempt.
update penstock.load set application_id = %(application_id)s
where load_id = %(load_id)s and attempt = %(attempt)s and state = 'staging'

-- name: sum_stage_tasks
-- Sums the counts of an attempt's tasks into the ranges of the plan. A range is updated only if its tasks cover all of
-- its offsets.
update penstock.load_range r
set rows = s.rows, quarantined = s.quarantined, holes = s.holes, filtered = s.filtered
from (select r2.partition, r2.from_offset, sum(t.rows) as rows, sum(t.quarantined) as quarantined, sum(t.holes) as holes,
             sum(t.filtered) as filtered
      from penstock.load_range r2
      join penstock.stage_task t on t.load_id = r2.load_id and t.partition = r2.partition
           and t.from_offset >= r2.from_offset and t.until_offset <= r2.until_offset
      where t.load_id = %(load_id)s and t.attempt = %(attempt)s
      group by r2.partition, r2.from_offset
      having sum(t.until_offset - t.from_offset) = max(r2.until_offset - r2.from_offset)) s
where r.load_id = %(load_id)s and r.partition = s.partition and r.from_offset = s.from_offset

-- name: finish_staging
-- staging -> staged, for the current attempt only.
update penstock.load l
set state = 'staged', staged_at = now(), rows = s.rows, quarantined = s.quarantined, holes = s.holes,
    filtered = s.filtered,
    path = (select case when count(distinct t.path) > 1 then 'both' else max(t.path) end from penstock.stage_task t
            where t.load_id = l.load_id and t.attempt = l.attempt)
from (select coalesce(sum(rows), 0) as rows, coalesce(sum(quarantined), 0) as quarantined,
             coalesce(sum(holes), 0) as holes, coalesce(sum(filtered), 0) as filtered
      from penstock.load_range where load_id = %(load_id)s) s
where l.load_id = %(load_id)s and l.state = 'staging' and l.attempt = %(attempt)s

-- name: pass_checks
-- staged -> validated, for the current attempt only. A failed run may have left a cause.
update penstock.load set state = 'validated', validated_at = now(), cause = null
where load_id = %(load_id)s and state = 'staged' and attempt = %(attempt)s

-- name: hold_load
-- staged or validated -> held: a check or a result failed, and a person decides.
update penstock.load set state = 'held', held_at = now(), cause = %(cause)s
where load_id = %(load_id)s and state = %(state)s and attempt = %(attempt)s

-- name: release_load
-- held -> validated: a person approved the load.
update penstock.load set state = 'validated', validated_at = now()
where load_id = %(load_id)s and state = 'held'

-- name: discard_load
-- Ends an open load by a person's decision. The next load plans its offsets again.
update penstock.load set state = 'discarded', ended_at = now()
where load_id = %(load_id)s and state = %(state)s

-- name: fail_load
-- Ends a load that failed: another attempt would fail for the same reason, or no later run continues it.
update penstock.load set state = 'failed', ended_at = now(), cause = %(cause)s
where load_id = %(load_id)s and state = %(state)s and attempt = %(attempt)s

-- name: note_cause
-- Records why the run of an unfinished load failed; the next attempt, or the next decision, overwrites it. A validated load
-- may hold the cause of its hold, which stays.
update penstock.load set cause = %(cause)s
where load_id = %(load_id)s and (state = 'planned' or state = 'staging' or state = 'staged')

-- name: publish_load
-- validated -> published: the last statement of the publish transaction.
update penstock.load set state = 'published', published_at = now(), ended_at = now()
where load_id = %(load_id)s and state = 'validated' and attempt = %(attempt)s

-- name: roll_back_load
-- published -> rolled_back. The rows are kept for some days.
update penstock.load
set state = 'rolled_back', ended_at = now(), cause = %(why)s, kept_until = now() + make_interval(days => %(days)s)
where load_id = %(load_id)s and state = 'published'

-- name: republish_load
-- rolled_back -> published: the rollback is undone.
update penstock.load
set state = 'published', ended_at = published_at, cause = null, kept_until = null, counted_at = null
where load_id = %(load_id)s and state = 'rolled_back'

-- name: republish_sources
-- superseded -> published: these loads cover records again that a redrive had taken.
update penstock.load l set state = 'published', superseded_by = null, ended_at = published_at, counted_at = null
where l.load_id = any (%(loads)s::bigint[]) and l.state = 'superseded'
