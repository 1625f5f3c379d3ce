-- Facts for the checks on data: when a partition was first seen, chunks that were read a second time, and loads by the
-- time they were published.

alter table penstock.check_result
    drop constraint check_result_severity_check,
    add constraint check_result_severity check (severity in ('error', 'warning', 'info'));

-- Without a value for the positions that exist already: it is not known when their partitions were first seen.
alter table penstock.position add column seen_at timestamptz;
alter table penstock.position alter column seen_at set default now();
comment on column penstock.position.seen_at is
    'When the partition was first seen. A partition that was seen after its generation was added to the topic.';

create table penstock.second_reading (
    load_id  bigint not null,
    attempt  int not null,
    task     int not null,
    records  bigint not null check (records >= 0),
    log_hash bigint not null,
    primary key (load_id, attempt, task),
    foreign key (load_id, attempt, task) references penstock.stage_task on delete cascade
);
comment on table penstock.second_reading is
    'Chunks that the other reader read a second time before the load was published, with the fingerprint of their records.';

create index load_by_publication on penstock.load (pipeline_id, published_at) where published_at is not null;
