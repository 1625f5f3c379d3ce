-- What each published range holds, so that a range can change hands, be taken out and come back, and still add up.

alter table penstock.coverage
    add column rows        bigint check (rows >= 0),
    add column quarantined bigint check (quarantined >= 0),
    add column holes       bigint check (holes >= 0);
update penstock.coverage c set rows = r.rows, quarantined = r.quarantined, holes = r.holes
from penstock.load_range r
where r.load_id = c.load_id and r.partition = c.partition and r.from_offset = lower(c.offsets);
alter table penstock.coverage
    alter column rows set not null,
    alter column quarantined set not null,
    alter column holes set not null,
    add constraint coverage_adds_up check (rows + quarantined + holes = upper(offsets) - lower(offsets));

create table penstock.aside (
    load_id      bigint not null references penstock.load,
    partition    int not null,
    offsets      int8range not null,
    rows         bigint not null,
    quarantined  bigint not null,
    holes        bigint not null,
    primary key (load_id, partition, offsets)
);
comment on table penstock.aside is 'The coverage of loads that were rolled back, for as long as their rows are kept.';

create schema penstock_kept;
comment on schema penstock_kept is 'The rows of loads that were rolled back, a table a load, until their time is over.';
alter table penstock.load add column kept_until timestamptz;
comment on column penstock.load.kept_until is 'Until when the rows of a rolled-back load are kept; null if there are none.';

create or replace view penstock.covered as
select p.name as pipeline, c.generation_id as generation, c.partition,
       lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id, c.rows, c.quarantined, c.holes
from penstock.coverage c join penstock.pipeline p using (pipeline_id);

-- Of a load that another has replaced in part, only what it still covers.
create or replace view penstock.quarantined as
select p.name as pipeline, q.load_id, q.partition, q."offset", q.reason, q.key, q.value, q.headers, q.record_timestamp,
       q.detail
from penstock.quarantine q
join penstock.load l on l.load_id = q.load_id and l.attempt = q.attempt
join penstock.coverage c on c.load_id = q.load_id and c.partition = q.partition and c.offsets @> q."offset"
join penstock.pipeline p on p.pipeline_id = l.pipeline_id;
