-- Samples of the logs, taken by a task every minute, so that no page view sends a request to Kafka.

create table penstock.sample (
    pipeline             text primary key,
    taken_at             timestamptz not null,
    answered_at          timestamptz,
    error                text,
    cluster_id           text,
    topic_id             text,
    retention            jsonb,
    retention_at         timestamptz,
    bad_target           text,
    bad_target_next_step text,
    counted              text,
    counted_at           timestamptz,
    gaps                 bigint not null default 0,
    quarantined          bigint not null default 0,
    quarantined_loads    bigint not null default 0
);
comment on table penstock.sample is
    'The newest sample of a pipeline. It is named by its pipeline, because a pipeline has a log before its first plan.';
comment on column penstock.sample.answered_at is 'When Kafka last answered; the offsets are those of that time.';
comment on column penstock.sample.counted is
    'The state of the ledger at the time of the counts: they are made again only if it has changed.';

create table penstock.partition_sample (
    pipeline           text not null references penstock.sample on delete cascade,
    partition          int not null,
    log_start          bigint not null,
    log_end            bigint not null,
    last_stable_offset bigint not null,
    high_watermark     bigint not null,
    oldest_offset      bigint,
    oldest_at          timestamptz,
    open_since         timestamptz,
    gaps               bigint not null default 0,
    primary key (pipeline, partition)
);
comment on column penstock.partition_sample.log_end is 'The end of the log at the isolation of the pipeline.';
comment on column penstock.partition_sample.oldest_offset is
    'The first visible record from the position of the sample on; it is the oldest while the position is not beyond it.';

create table penstock.sample_history (
    pipeline       text not null,
    at             timestamptz not null,
    lag            bigint,
    oldest_seconds double precision,
    primary key (pipeline, at)
);

create index sample_history_by_time on penstock.sample_history (at);

create view penstock.samples as
select s.pipeline, k.partition, k.log_start, k.log_end, k.last_stable_offset, k.high_watermark, k.oldest_offset,
       k.oldest_at, k.open_since, s.answered_at, s.taken_at, s.error
from penstock.sample s left join penstock.partition_sample k using (pipeline);

create view penstock.lag_history as select pipeline, at, lag, oldest_seconds from penstock.sample_history;

create view penstock.events as
select p.name as pipeline, e.event_id, e.at, e.load_id, e.actor, e.what, e.why
from penstock.event e join penstock.pipeline p using (pipeline_id);

create index event_by_pipeline on penstock.event (pipeline_id, event_id);
