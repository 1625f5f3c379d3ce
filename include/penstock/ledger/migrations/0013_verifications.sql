-- Verifications: what was looked at again, by whom, and what was found.

create table penstock.verification (
    verification_id int generated always as identity primary key,
    pipeline_id     int not null references penstock.pipeline,
    actor           text not null,
    share           double precision not null check (share between 0 and 1),
    began_at        timestamptz not null default now(),
    ended_at        timestamptz,
    ranges          bigint,
    rows            bigint,
    chunks          bigint,
    chunks_held     bigint,
    chunks_reread   bigint
);
comment on column penstock.verification.share is 'Which share of what the log still holds was to be read again.';
comment on column penstock.verification.ended_at is 'Null while it runs, and for ever if it was cut short.';

create table penstock.fault (
    verification_id int not null references penstock.verification,
    ordinal         int not null,
    kind            text not null,
    generation_id   int references penstock.generation,
    load_id         bigint references penstock.load,
    partition       int,
    offsets         int8range,
    told            text not null,
    primary key (verification_id, ordinal)
);

create table penstock.reread (
    verification_id int not null references penstock.verification,
    load_id         bigint not null,
    attempt         int not null,
    task            int not null,
    records         bigint,
    log_hash        bigint,
    primary key (verification_id, load_id, task),
    foreign key (load_id, attempt, task) references penstock.stage_task
);
comment on table penstock.reread is
    'The chunks that a verification reads again, and what the other reader found. Kept while the verification runs.';

create view penstock.verifications as
select p.name as pipeline, v.verification_id, v.actor, v.share, v.began_at, v.ended_at, v.ranges, v.rows, v.chunks,
       v.chunks_held, v.chunks_reread,
       (select count(*) from penstock.fault f where f.verification_id = v.verification_id) as faults
from penstock.verification v join penstock.pipeline p using (pipeline_id);

create view penstock.faults as
select p.name as pipeline, f.verification_id, v.began_at as found_at, f.kind, f.generation_id as generation, f.load_id,
       f.partition, lower(f.offsets) as from_offset, upper(f.offsets) as until_offset, f.told
from penstock.fault f
join penstock.verification v using (verification_id)
join penstock.pipeline p using (pipeline_id);
