-- Redrives: loads of records that come back from the quarantine.

alter table penstock.load drop constraint load_kind_check;
alter table penstock.load
    add constraint load_kind_check check (kind in ('live', 'backfill', 'replay', 'redrive'));

create table penstock.redriven (
    load_id          bigint not null references penstock.load,
    partition        int not null,
    "offset"         bigint not null,
    source_load      bigint not null references penstock.load,
    source_attempt   int not null,
    reason           text,
    detail           text,
    rule             text,
    first_partition  int,
    first_offset     bigint,
    key              bytea,
    value            bytea,
    headers          jsonb,
    record_timestamp timestamptz,
    primary key (load_id, partition, "offset")
);
comment on table penstock.redriven is
    'The records of a redrive, and the load that quarantined each. The publish moves them here from the quarantine.';
comment on column penstock.redriven.reason is 'Null until the redrive is published.';
