-- What is past its keeping time is dropped, and the ledger stays quick with thousands of loads.

alter table penstock.quarantine add column dropped_at timestamptz;
comment on column penstock.quarantine.dropped_at is
    'When the record''s content was dropped, its keeping time being over; its place and its reason stay.';
create or replace view penstock.quarantined as
select p.name as pipeline, q.load_id, q.partition, q."offset", q.reason, q.key, q.value, q.headers, q.record_timestamp,
       q.detail, q.dropped_at
from penstock.quarantine q
join penstock.load l on l.load_id = q.load_id and l.attempt = q.attempt
join penstock.coverage c on c.load_id = q.load_id and c.partition = q.partition and c.offsets @> q."offset"
join penstock.pipeline p on p.pipeline_id = l.pipeline_id;

-- A run looks for its load among all that there ever were; what is unfinished is asked for by every status and backfill.
create index load_by_run on penstock.load (pipeline_id, run_id, load_id);
create index load_unfinished on penstock.load (pipeline_id, load_id)
    where state in ('planned', 'staging', 'staged', 'validated', 'held', 'failed');
