-- Verification compares records with their rows: for each chunk that is read again, the rows that its records give.

alter table penstock.reread
    add column covered  int8multirange,
    add column rows     bigint,
    add column row_hash numeric;
comment on column penstock.reread.covered is
    'The offsets of the chunk that its load still covers: only their rows are compared. Null if no row is compared.';

alter table penstock.verification add column rows_compared bigint;
comment on column penstock.verification.rows_compared is
    'How many rows were decoded again from their records and compared with the target.';

create or replace view penstock.verifications as
select p.name as pipeline, v.verification_id, v.actor, v.share, v.began_at, v.ended_at, v.ranges, v.rows, v.chunks,
       v.chunks_held, v.chunks_reread,
       (select count(*) from penstock.fault f where f.verification_id = v.verification_id) as faults,
       v.rows_compared
from penstock.verification v join penstock.pipeline p using (pipeline_id);
