-- name: find_stage_tasks
-- Whether the attempt ($2) of the load ($1) still counts, and what some try of the tasks $3 to $4 has committed
-- already. Another driver of the same attempt may have changed the state of the load while these tasks ran.
select l.attempt = $2::int and l.state in ('staging', 'staged', 'validated', 'held', 'published') as current,
       t.task, t.rows, t.quarantined, t.holes, t.partition, t.from_offset, t.until_offset, t.log_hash
from penstock.load l
left join penstock.stage_task t on t.load_id = l.load_id and t.attempt = $2::int and t.task between $3::int and $4::int
where l.load_id = $1::bigint

-- name: settle_stage_tasks
-- Records tasks: one try of each task succeeds, and only while its attempt counts; no row comes back for the other
-- tries. The tasks ($3) are JSON, so that one statement records a whole group.
insert into penstock.stage_task
    (load_id, attempt, task, partition, from_offset, until_offset, rows, quarantined, holes, log_hash, path)
select $1::bigint, $2::int, t.task, t.partition, t.from_offset, t.until_offset, t.rows, t.quarantined, t.holes,
       t.log_hash, t.path
from json_to_recordset($3::text::json)
     as t (task int, partition int, from_offset bigint, until_offset bigint, rows bigint, quarantined bigint,
           holes bigint, log_hash bigint, path text)
where exists (select from penstock.load where load_id = $1::bigint and attempt = $2::int and state = 'staging')
on conflict do nothing
returning task

-- name: read_stage_tasks
-- The counts of an attempt's tasks.
select task, partition, from_offset, until_offset, rows, quarantined, holes, filtered from penstock.stage_task
where load_id = %(load_id)s and attempt = %(attempt)s order by task

-- name: lock_staging
-- Makes two drivers of one attempt finish one after the other. The planner can still lock the row of the load.
select pg_advisory_xact_lock(hashtextextended(%(name)s, 0))
