-- The history of checks of a period, for dashboards of all pipelines. All results of an attempt are recorded in one
-- transaction and have one time, so the view groups by it, and a condition on it reaches the table.

create or replace view penstock.quality_history as
select p.name as pipeline, l.load_id, l.kind as load_kind, l.state, k.checked_at, k.kind, k.expectation, k."column",
       k.suite, k.check_id, k.severity, bool_and(k.success) as success,
       coalesce(max(case when k.partition is null and jsonb_typeof(k.observed -> 'partitions') = 'number'
                         then (k.observed ->> 'partitions')::bigint end),
                count(*) filter (where k.partition is not null and not k.success)) as partitions_failed,
       coalesce(sum(k.figure) filter (where k.partition is null), sum(k.figure)) as figure,
       min(k.ordinal) as ordinal
from penstock.check_result k
join penstock.load l on l.load_id = k.load_id and l.attempt = k.attempt
join penstock.pipeline p using (pipeline_id)
group by p.name, l.load_id, k.checked_at, k.kind, k.expectation, k."column", k.suite, k.check_id, k.severity;

-- Results are added in the order of their time, so the index needs a few pages for millions of them.
create index check_result_by_time on penstock.check_result using brin (checked_at);
