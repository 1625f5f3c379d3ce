-- Rows of old loads that maintenance drops where only the results matter. The coverage of these loads stays, with the
-- counts and the fingerprints of the rows.

create table penstock.dropped_load (
    load_id     bigint primary key references penstock.load,
    pipeline_id bigint not null references penstock.pipeline,
    leaf        text not null,
    dropped_at  timestamptz not null default now()
);
create index on penstock.dropped_load (pipeline_id);
comment on table penstock.dropped_load is 'The loads whose rows were dropped after keep_rows_days.';

create view penstock.dropped_rows as
select p.name as pipeline, c.generation_id as generation, d.load_id, c.partition, lower(c.offsets) as from_offset,
       upper(c.offsets) as until_offset, c.rows, c.row_hash, d.leaf, d.dropped_at
from penstock.dropped_load d
join penstock.pipeline p using (pipeline_id)
join penstock.coverage c using (load_id);
comment on view penstock.dropped_rows is
    'Ranges whose rows were published, and dropped after keep_rows_days: the counts and fingerprints that they had.';
