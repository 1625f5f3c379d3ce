-- name: read_load
-- One load with its pipeline and the identity of the log it was planned on.
select l.load_id, l.pipeline_id, p.name as pipeline, l.generation_id, l.kind, l.state, l.attempt, l.run_id,
       l.declaration, l.cause, l.rows, l.quarantined, l.holes, l.superseded_by, g.cluster_id, g.topic_id,
       l.application_id, l.backfill_id
from penstock.load l
join penstock.pipeline p using (pipeline_id)
join penstock.generation g on g.generation_id = l.generation_id
where l.load_id = %(load_id)s

-- name: read_load_ranges
-- The plan of a load.
select partition, from_offset, until_offset from penstock.load_range
where load_id = %(load_id)s order by partition, from_offset

-- name: register_pipeline
-- The pipeline's row, made or brought up to date with its declaration.
insert into penstock.pipeline as p (name, topic, target, declaration)
values (%(name)s, %(topic)s, %(target)s, %(declaration)s)
on conflict (name) do update
    set topic = excluded.topic, target = excluded.target, declaration = excluded.declaration, changed_at = now()
    where p.declaration is distinct from excluded.declaration

-- name: lock_pipeline
-- The one lock of plan and publish. It lets foreign keys through (no key update).
select pipeline_id, declaration from penstock.pipeline where name = %(name)s for no key update

-- name: find_load_of_run
-- The load that a run owns, or the newest it owned.
select load_id, state from penstock.load
where pipeline_id = %(pipeline_id)s and run_id = %(run_id)s
order by load_id desc limit 1

-- name: find_open_live_load
-- The unfinished live load of a pipeline; the index load_live allows one.
select load_id, state, declaration, cause, run_id from penstock.load
where pipeline_id = %(pipeline_id)s and kind = 'live'
  and state in ('planned', 'staging', 'staged', 'validated', 'held')

-- name: supersede_load
-- Fence: whoever still works on this load finds it ended.
update penstock.load
set state = 'superseded', ended_at = now(), cause = %(cause)s
where load_id = %(load_id)s and state = %(state)s

-- name: name_successor
-- Which load took over from a superseded one.
update penstock.load set superseded_by = %(successor)s where load_id = %(load_id)s and state = 'superseded'

-- name: newest_generation
-- The incarnation of the topic that is loaded.
select generation_id, cluster_id, topic_id, epoch from penstock.generation
where pipeline_id = %(pipeline_id)s order by generation_id desc limit 1

-- name: open_generation
-- A new incarnation of the topic, and how often this very topic has been adopted.
insert into penstock.generation (pipeline_id, cluster_id, topic_id, epoch)
values (%(pipeline_id)s, %(cluster_id)s, %(topic_id)s, %(epoch)s) returning generation_id

-- name: read_positions
-- Restore: the next offset of each partition.
select partition, position, origin, leader_epoch from penstock.position where generation_id = %(generation_id)s

-- name: open_position
-- A partition seen for the first time; the caller checks that one row came out.
insert into penstock.position (generation_id, partition, position, origin, leader_epoch)
values (%(generation_id)s, %(partition)s, %(position)s, %(origin)s, %(leader_epoch)s)

-- name: move_position
-- Compare-and-set: the caller checks that one row came out.
update penstock.position
set position = %(until_offset)s, load_id = %(load_id)s, moved_at = now(),
    leader_epoch = (select r.leader_epoch from penstock.load_range r
                    where r.load_id = %(load_id)s and r.partition = %(partition)s and r.from_offset = %(from_offset)s)
where generation_id = %(generation_id)s and partition = %(partition)s and position = %(from_offset)s

-- name: create_load
-- An immutable plan.
insert into penstock.load (pipeline_id, generation_id, kind, run_id, declaration, backfill_id)
values (%(pipeline_id)s, %(generation_id)s, %(kind)s, %(run_id)s, %(declaration)s, %(backfill_id)s) returning load_id

-- name: create_load_range
-- One range of the plan.
insert into penstock.load_range (load_id, partition, from_offset, until_offset, leader_epoch)
values (%(load_id)s, %(partition)s, %(from_offset)s, %(until_offset)s, %(leader_epoch)s)

-- name: be_at_work
-- Shared: who works on a load keeps nobody away. The lock is the session's.
select pg_advisory_lock_shared(hashtextextended(%(work)s, 0))

-- name: begin_attempt
-- A new try: the one before it, should it still live, is no longer current.
update penstock.load
set state = 'staging', attempt = attempt + 1, staging_at = now(), application_id = null, cause = null
where load_id = %(load_id)s and state = %(state)s and attempt = %(attempt)s returning attempt

-- name: record_application
-- Which Spark application stages the attempt.
update penstock.load set application_id = %(application_id)s
where load_id = %(load_id)s and attempt = %(attempt)s and state = 'staging'

-- name: sum_stage_tasks
-- What the tasks of an attempt wrote, summed into the ranges of its plan.
update penstock.load_range r
set rows = s.rows, quarantined = s.quarantined, holes = s.holes
from (select r2.partition, r2.from_offset, sum(t.rows) as rows, sum(t.quarantined) as quarantined, sum(t.holes) as holes
      from penstock.load_range r2
      join penstock.stage_task t on t.load_id = r2.load_id and t.partition = r2.partition
           and t.from_offset >= r2.from_offset and t.until_offset <= r2.until_offset
      where t.load_id = %(load_id)s and t.attempt = %(attempt)s
      group by r2.partition, r2.from_offset
      having sum(t.until_offset - t.from_offset) = max(r2.until_offset - r2.from_offset)) s
where r.load_id = %(load_id)s and r.partition = s.partition and r.from_offset = s.from_offset

-- name: finish_staging
-- Staged: only the current attempt gets through.
update penstock.load l
set state = 'staged', staged_at = now(), rows = s.rows, quarantined = s.quarantined, holes = s.holes
from (select coalesce(sum(rows), 0) as rows, coalesce(sum(quarantined), 0) as quarantined,
             coalesce(sum(holes), 0) as holes
      from penstock.load_range where load_id = %(load_id)s) s
where l.load_id = %(load_id)s and l.state = 'staging' and l.attempt = %(attempt)s

-- name: pass_checks
-- Validated: the staged rows of this attempt passed.
update penstock.load set state = 'validated', validated_at = now()
where load_id = %(load_id)s and state = 'staged' and attempt = %(attempt)s

-- name: hold_load
-- Held: a check failed; a person decides.
update penstock.load set state = 'held', held_at = now(), cause = %(cause)s
where load_id = %(load_id)s and state = 'staged' and attempt = %(attempt)s

-- name: release_load
-- Approved by a person: on to publish.
update penstock.load set state = 'validated', validated_at = now()
where load_id = %(load_id)s and state = 'held'

-- name: discard_load
-- Discarded by a person: its ranges are planned again by the next load.
update penstock.load set state = 'discarded', ended_at = now()
where load_id = %(load_id)s and state = %(state)s

-- name: fail_load
-- Failed for good: trying again would end the same way.
update penstock.load set state = 'failed', ended_at = now(), cause = %(cause)s
where load_id = %(load_id)s and state = %(state)s and attempt = %(attempt)s

-- name: publish_load
-- Published: the last statement of the one transaction.
update penstock.load set state = 'published', published_at = now(), ended_at = now()
where load_id = %(load_id)s and state = 'validated' and attempt = %(attempt)s

-- name: forget_checks
-- The results of an earlier run of the same checks on the same attempt.
delete from penstock.check_result where load_id = %(load_id)s and attempt = %(attempt)s

-- name: record_check
-- One expectation, of one partition or of the whole load.
insert into penstock.check_result
    (load_id, attempt, ordinal, kind, expectation, partition, "column", severity, success, observed)
values (%(load_id)s, %(attempt)s, %(ordinal)s, %(kind)s, %(expectation)s, %(partition)s, %(column)s, %(severity)s,
        %(success)s, %(observed)s)

-- name: record_event
-- Who did what, and why.
insert into penstock.event (actor, pipeline_id, load_id, what, why)
values (%(actor)s, %(pipeline_id)s, %(load_id)s, %(what)s, %(why)s)
