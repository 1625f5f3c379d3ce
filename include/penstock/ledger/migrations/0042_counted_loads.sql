-- A daily verification counts the rows of new loads and of those that were counted long ago. Each load remembers when.

alter table penstock.load add column counted_at timestamptz, add column moved_at timestamptz;
comment on column penstock.load.counted_at is
    'When a verification last found all rows of the load as published; null if it has not, or if they were moved since.';
comment on column penstock.load.moved_at is
    'When rows of the load were last merged, replaced or found at fault: an older verification does not count.';

alter table penstock.verification add column loads_skipped bigint;
comment on column penstock.verification.loads_skipped is
    'How many loads were not counted, because an earlier verification counted them within the declared days.';

create or replace view penstock.verifications as
select p.name as pipeline, v.verification_id, v.actor, v.share, v.began_at, v.ended_at, v.ranges, v.rows, v.chunks,
       v.chunks_held, v.chunks_reread,
       (select count(*) from penstock.fault f where f.verification_id = v.verification_id) as faults,
       v.rows_compared, v.loads_skipped
from penstock.verification v join penstock.pipeline p using (pipeline_id);
