-- The history of checks: which suite a check came from, which check it was, and its main figure.

alter table penstock.check_result add column suite text, add column check_id text, add column figure numeric;
comment on column penstock.check_result.suite is
    'The suite that the check came from: a file of checks, or `defaults`. Null for checks of the declaration itself.';
comment on column penstock.check_result.check_id is
    'The same for the same expectation with the same arguments, so that results of several loads can be compared.';
comment on column penstock.check_result.figure is
    'The main figure of the observed ones: the number of wrong records or offsets, or the value that was compared.';

create or replace view penstock.check_results as
select p.name as pipeline, k.load_id, k.expectation, k.partition, k.severity, k.success, k.observed, k."column", k.kind,
       k.attempt, k.checked_at, k.suite, k.check_id, k.figure
from penstock.check_result k join penstock.load l using (load_id) join penstock.pipeline p using (pipeline_id);

-- A row with a null partition is the result of the whole load, and counts the partitions that failed.
create view penstock.quality_history as
select p.name as pipeline, l.load_id, l.kind as load_kind, l.state, min(k.checked_at) as checked_at, k.kind,
       k.expectation, k."column", k.suite, k.check_id, k.severity, bool_and(k.success) as success,
       coalesce(max(case when k.partition is null and jsonb_typeof(k.observed -> 'partitions') = 'number'
                         then (k.observed ->> 'partitions')::bigint end),
                count(*) filter (where k.partition is not null and not k.success)) as partitions_failed,
       coalesce(sum(k.figure) filter (where k.partition is null), sum(k.figure)) as figure,
       min(k.ordinal) as ordinal
from penstock.check_result k
join penstock.load l on l.load_id = k.load_id and l.attempt = k.attempt
join penstock.pipeline p using (pipeline_id)
group by p.name, l.load_id, k.kind, k.expectation, k."column", k.suite, k.check_id, k.severity;
comment on view penstock.quality_history is 'The result of each check on each load, in one row.';
