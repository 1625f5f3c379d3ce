-- The ledger: what every pipeline planned, staged, checked and published, in the database that holds the results.

comment on schema penstock is 'The ledger of Penstock: loads, positions, coverage, and the views over them.';
create schema penstock_stage;
comment on schema penstock_stage is 'One table for each attempt at staging a load. Nothing here is published.';

create table penstock.pipeline (
    pipeline_id int generated always as identity primary key,
    name        text not null unique,
    topic       text not null,
    target      text not null,
    declaration jsonb not null,
    created_at  timestamptz not null default now(),
    changed_at  timestamptz not null default now()
);
comment on table penstock.pipeline is 'One topic to one target. Its row is the lock of every plan and every publish.';

create table penstock.generation (
    generation_id int generated always as identity primary key,
    pipeline_id   int not null references penstock.pipeline,
    cluster_id    text not null,
    topic_id      text not null,
    opened_at     timestamptz not null default now(),
    unique (pipeline_id, cluster_id, topic_id),
    unique (pipeline_id, generation_id)
);
comment on table penstock.generation is 'One incarnation of the topic; the newest is the one that is loaded.';

create table penstock.load (
    load_id        bigint generated always as identity primary key,
    pipeline_id    int not null references penstock.pipeline,
    generation_id  int not null,
    kind           text not null check (kind in ('live', 'backfill', 'replay')),
    state          text not null default 'planned' check (state in (
                       'planned', 'staging', 'staged', 'validated', 'held',
                       'published', 'failed', 'superseded', 'discarded', 'rolled_back')),
    run_id         text not null,
    attempt        int not null default 0 check (attempt >= 0),
    declaration    jsonb not null,
    application_id text,
    rows           bigint check (rows >= 0),
    quarantined    bigint check (quarantined >= 0),
    holes          bigint check (holes >= 0),
    cause          text,
    superseded_by  bigint references penstock.load,
    planned_at     timestamptz not null default now(),
    staging_at     timestamptz,
    staged_at      timestamptz,
    validated_at   timestamptz,
    held_at        timestamptz,
    published_at   timestamptz,
    ended_at       timestamptz,
    foreign key (pipeline_id, generation_id) references penstock.generation (pipeline_id, generation_id)
);
comment on table penstock.load is 'One attempt-proof unit of work: an immutable plan of ranges, and how far it has come.';
comment on column penstock.load.declaration is 'The declaration the load was planned by; later edits do not touch it.';
-- A run owns at most one load that is alive or published, so that a retried plan finds it again.
create unique index load_run on penstock.load (pipeline_id, run_id)
    where state not in ('failed', 'superseded', 'discarded', 'rolled_back');
-- At most one live load of a pipeline is unfinished.
create unique index load_live on penstock.load (pipeline_id)
    where kind = 'live' and state in ('planned', 'staging', 'staged', 'validated', 'held');
create index load_by_pipeline on penstock.load (pipeline_id, load_id);

create table penstock.position (
    generation_id int not null references penstock.generation,
    partition     int not null check (partition >= 0),
    position      bigint not null check (position >= 0),
    origin        bigint not null check (origin >= 0),
    load_id       bigint references penstock.load,
    moved_at      timestamptz not null default now(),
    primary key (generation_id, partition)
);
comment on column penstock.position.position is 'The next offset a live load starts from.';
comment on column penstock.position.origin is 'The log start when the partition was first seen: gaps count from here.';

create table penstock.load_range (
    load_id      bigint not null references penstock.load,
    partition    int not null check (partition >= 0),
    from_offset  bigint not null check (from_offset >= 0),
    until_offset bigint not null,
    rows         bigint check (rows >= 0),
    quarantined  bigint check (quarantined >= 0),
    holes        bigint check (holes >= 0),
    check (from_offset < until_offset),
    primary key (load_id, partition, from_offset)
);

create table penstock.stage_task (
    load_id      bigint not null references penstock.load,
    attempt      int not null,
    task         int not null,
    partition    int not null,
    from_offset  bigint not null,
    until_offset bigint not null,
    rows         bigint not null check (rows >= 0),
    quarantined  bigint not null check (quarantined >= 0),
    holes        bigint not null check (holes >= 0),
    staged_at    timestamptz not null default clock_timestamp(),
    primary key (load_id, attempt, task)
);
comment on table penstock.stage_task is
    'Written by a Spark task in the transaction of its rows: the key lets one try of each task through.';

create table penstock.coverage (
    coverage_id   bigint generated always as identity primary key,
    pipeline_id   int not null references penstock.pipeline,
    generation_id int not null references penstock.generation,
    partition     int not null check (partition >= 0),
    offsets       int8range not null check (not isempty(offsets) and lower(offsets) >= 0 and upper(offsets) is not null),
    load_id       bigint not null references penstock.load,
    constraint coverage_never_overlaps exclude using gist (
        int4range(pipeline_id, pipeline_id, '[]') with &&,
        int4range(generation_id, generation_id, '[]') with &&,
        int4range(partition, partition, '[]') with &&,
        offsets with &&)
);
comment on table penstock.coverage is 'The published ranges. The last guard: no offset can be published twice.';
create index coverage_by_load on penstock.coverage (load_id);

create table penstock.loss (
    loss_id       bigint generated always as identity primary key,
    pipeline_id   int not null references penstock.pipeline,
    generation_id int not null references penstock.generation,
    partition     int not null check (partition >= 0),
    offsets       int8range not null check (not isempty(offsets)),
    reason        text not null,
    found_at      timestamptz not null default now()
);

create table penstock.quarantine (
    load_id          bigint not null references penstock.load,
    attempt          int not null,
    partition        int not null,
    "offset"         bigint not null,
    reason           text not null,
    detail           text not null,
    key              bytea,
    value            bytea,
    headers          jsonb not null default '[]',
    record_timestamp timestamptz,
    primary key (load_id, attempt, partition, "offset")
);
comment on table penstock.quarantine is 'Records that could not become rows, kept whole, of every attempt.';

create table penstock.check_result (
    load_id     bigint not null references penstock.load,
    attempt     int not null,
    ordinal     int not null,
    kind        text not null check (kind in ('builtin', 'declared')),
    expectation text not null,
    partition   int,
    "column"    text,
    severity    text not null check (severity in ('error', 'warning')),
    success     boolean not null,
    observed    jsonb not null default '{}',
    checked_at  timestamptz not null default now(),
    primary key (load_id, attempt, ordinal)
);

create table penstock.event (
    event_id    bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    actor       text not null,
    pipeline_id int not null references penstock.pipeline,
    load_id     bigint references penstock.load,
    what        text not null,
    why         text
);
comment on table penstock.event is 'Who did what to which load, and why.';
create index event_by_load on penstock.event (load_id);

-- Views for people and dashboards. Their columns stay; new ones come at the end.

create view penstock.loads as
select p.name as pipeline, l.load_id, l.kind, l.state, l.attempt, l.rows, l.quarantined, l.planned_at, l.published_at,
       l.cause, l.holes, l.run_id, l.application_id, l.staged_at, l.validated_at, l.superseded_by
from penstock.load l join penstock.pipeline p using (pipeline_id);

create view penstock.ranges as
select p.name as pipeline, r.load_id, l.generation_id as generation, r.partition, r.from_offset, r.until_offset,
       r.rows, r.quarantined, r.holes
from penstock.load_range r join penstock.load l using (load_id) join penstock.pipeline p using (pipeline_id);

create view penstock.positions as
select p.name as pipeline, g.generation_id as generation, o.partition, o.position, o.origin, o.load_id, o.moved_at
from penstock.position o join penstock.generation g using (generation_id) join penstock.pipeline p using (pipeline_id);

create view penstock.covered as
select p.name as pipeline, c.generation_id as generation, c.partition,
       lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id
from penstock.coverage c join penstock.pipeline p using (pipeline_id);

create view penstock.losses as
select p.name as pipeline, x.generation_id as generation, x.partition,
       lower(x.offsets) as from_offset, upper(x.offsets) as until_offset, x.reason, x.found_at
from penstock.loss x join penstock.pipeline p using (pipeline_id);

create view penstock.gaps as
select p.name as pipeline, g.generation_id as generation, o.partition,
       lower(gap) as from_offset, upper(gap) as until_offset
from penstock.position o
join penstock.generation g using (generation_id)
join penstock.pipeline p using (pipeline_id)
cross join lateral unnest(
    int8multirange(int8range(least(o.origin, o.position), o.position))
    - coalesce((select range_agg(c.offsets) from penstock.coverage c
                where c.pipeline_id = g.pipeline_id and c.generation_id = g.generation_id
                  and c.partition = o.partition), '{}')
    - coalesce((select range_agg(x.offsets) from penstock.loss x
                where x.pipeline_id = g.pipeline_id and x.generation_id = g.generation_id
                  and x.partition = o.partition), '{}')
) as gap;

create view penstock.quarantined as
select p.name as pipeline, q.load_id, q.partition, q."offset", q.reason, q.key, q.value, q.headers, q.record_timestamp,
       q.detail
from penstock.quarantine q
join penstock.load l on l.load_id = q.load_id and l.attempt = q.attempt and l.state = 'published'
join penstock.pipeline p using (pipeline_id);

create view penstock.check_results as
select p.name as pipeline, k.load_id, k.expectation, k.partition, k.severity, k.success, k.observed, k."column", k.kind,
       k.attempt, k.checked_at
from penstock.check_result k join penstock.load l using (load_id) join penstock.pipeline p using (pipeline_id);

create view penstock.progress as
select p.name as pipeline, l.load_id, l.attempt, r.partition,
       sum(r.until_offset - r.from_offset)::bigint as planned,
       coalesce(t.done, 0)::bigint as done, coalesce(t.rows, 0)::bigint as rows,
       coalesce(t.quarantined, 0)::bigint as quarantined, coalesce(t.holes, 0)::bigint as holes,
       l.staging_at as started_at, t.last_at,
       coalesce(t.rows / nullif(extract(epoch from t.last_at - l.staging_at), 0), 0)::bigint as rows_per_second
from penstock.load l
join penstock.pipeline p using (pipeline_id)
join penstock.load_range r using (load_id)
left join lateral (
    select sum(s.until_offset - s.from_offset) as done, sum(s.rows) as rows, sum(s.quarantined) as quarantined,
           sum(s.holes) as holes, max(s.staged_at) as last_at
    from penstock.stage_task s
    where s.load_id = l.load_id and s.attempt = l.attempt and s.partition = r.partition) t on true
group by p.name, l.load_id, r.partition, t.done, t.rows, t.quarantined, t.holes, t.last_at;
comment on view penstock.progress is 'How far each load has come, by partition: a row of stage_task is a chunk that is done.';
