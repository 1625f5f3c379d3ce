-- Rules: a row that fails a rule goes to the quarantine with the rule's name. A later copy of a row goes there with the
-- place of the first copy.

alter table penstock.quarantine
    add column rule            text,
    add column first_partition int,
    add column first_offset    bigint,
    add constraint quarantine_rule check ((reason = 'rule') = (rule is not null)),
    add constraint quarantine_first check ((first_partition is null) = (first_offset is null));
comment on column penstock.quarantine.rule is 'The name of the rule that the row failed; the reason is then `rule`.';
comment on column penstock.quarantine.first_offset is
    'The offset of the first copy, in first_partition; the reason is then `duplicate`.';

alter table penstock.check_result drop constraint check_result_kind_check;
alter table penstock.check_result
    add constraint check_result_kind_check check (kind in ('builtin', 'declared', 'rule'));

create or replace view penstock.quarantined as
select p.name as pipeline, q.load_id, q.partition, q."offset", q.reason, q.key, q.value, q.headers, q.record_timestamp,
       q.detail, q.dropped_at, q.rule, q.first_partition, q.first_offset
from penstock.quarantine q
join penstock.load l on l.load_id = q.load_id and l.attempt = q.attempt
join penstock.coverage c on c.load_id = q.load_id and c.partition = q.partition and c.offsets @> q."offset"
join penstock.pipeline p on p.pipeline_id = l.pipeline_id;
