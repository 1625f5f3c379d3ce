-- Records take one of two paths to their table: the one in Rust, or the one in Python. The ledger says which.

alter table penstock.stage_task add column path text;
comment on column penstock.stage_task.path is 'Which path the records of the task took: rust or python.';
alter table penstock.load add column path text;
comment on column penstock.load.path is 'Which path the records of the load took: rust, python, or both.';

create or replace view penstock.loads as
select p.name as pipeline, l.load_id, l.kind, l.state, l.attempt, l.rows, l.quarantined, l.planned_at, l.published_at,
       l.cause, l.holes, l.run_id, l.application_id, l.staged_at, l.validated_at, l.superseded_by, l.filtered,
       l.transform_sha256, l.path
from penstock.load l join penstock.pipeline p using (pipeline_id);
