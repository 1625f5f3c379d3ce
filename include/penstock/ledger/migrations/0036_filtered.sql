-- Transforms: records that a transform filtered are a fourth kind beside rows, quarantined records and holes.

alter table penstock.load
    add column filtered          bigint check (filtered >= 0),
    add column transform_sha256  text check (transform_sha256 ~ '^[0-9a-f]{64}$');
comment on column penstock.load.filtered is 'How many records the transform made no row of; 0 without a transform.';
comment on column penstock.load.transform_sha256 is
    'The SHA-256 of the file of the transform that staged the current attempt; null without a transform.';
alter table penstock.load_range add column filtered bigint check (filtered >= 0);
alter table penstock.stage_task add column filtered bigint not null default 0 check (filtered >= 0);
alter table penstock.aside add column filtered bigint not null default 0;
alter table penstock.total add column filtered bigint not null default 0;
alter table penstock.coverage
    add column filtered bigint not null default 0 check (filtered >= 0),
    drop constraint coverage_adds_up,
    add constraint coverage_adds_up check (rows + quarantined + holes + filtered = upper(offsets) - lower(offsets));
update penstock.load set filtered = 0 where rows is not null;
update penstock.load_range set filtered = 0 where rows is not null;

drop index penstock.coverage_by_partition;
create index coverage_by_partition on penstock.coverage (generation_id, partition)
    include (offsets, load_id, rows, quarantined, holes, filtered);

create table penstock.filtered (
    load_id     bigint not null references penstock.load,
    attempt     int not null,
    partition   int not null,
    from_offset bigint not null,
    places      bytea not null,
    primary key (load_id, attempt, partition, from_offset)
);
comment on table penstock.filtered is 'The offsets of records that a transform filtered.';
comment on column penstock.filtered.places is
    'A bit for each of the next 4,096 offsets or fewer, by get_bit(): 1 is filtered. A row costs 512 bytes, so it is never compressed.';

create table penstock.decoded (
    load_id bigint not null references penstock.load,
    attempt int not null,
    task    int not null,
    places  bytea not null,
    hashes  bytea not null,
    primary key (load_id, attempt, task)
);
comment on table penstock.decoded is
    'While a load with a transform is staged: the offsets of a chunk that were decoded, a bit each, and a hash of 32 bits over offset, timestamp and key of each.';

alter table penstock.decoded alter column hashes set storage external;

create table penstock.written (
    load_id bigint not null references penstock.load,
    attempt int not null,
    part    int not null,
    task    int not null,
    rows    bigint not null,
    places  bytea not null,
    hash    bigint not null,
    refused jsonb not null,
    primary key (load_id, attempt, part, task)
);
comment on table penstock.written is
    'While a load with a transform is staged: the offsets of a chunk that a task has written as rows, the sum of their hashes, and the offsets that the table refused. The key lets one try of each task through.';

create view penstock.filtered_records as
select p.name as pipeline, f.load_id, f.partition, f.from_offset + bit.place as "offset"
from penstock.filtered f
join penstock.load l on l.load_id = f.load_id and l.attempt = f.attempt
join penstock.pipeline p using (pipeline_id)
cross join lateral generate_series(0, 8 * length(f.places) - 1) as bit (place)
join penstock.coverage c on c.load_id = f.load_id and c.partition = f.partition and c.offsets @> f.from_offset + bit.place
where get_bit(f.places, bit.place) = 1;
comment on view penstock.filtered_records is 'The records of published ranges that a transform filtered.';

create or replace view penstock.loads as
select p.name as pipeline, l.load_id, l.kind, l.state, l.attempt, l.rows, l.quarantined, l.planned_at, l.published_at,
       l.cause, l.holes, l.run_id, l.application_id, l.staged_at, l.validated_at, l.superseded_by, l.filtered,
       l.transform_sha256
from penstock.load l join penstock.pipeline p using (pipeline_id);

create or replace view penstock.ranges as
select p.name as pipeline, r.load_id, l.generation_id as generation, r.partition, r.from_offset, r.until_offset,
       r.rows, r.quarantined, r.holes, r.first_at, r.last_at, r.filtered
from penstock.load_range r
join penstock.load l using (load_id)
join penstock.pipeline p using (pipeline_id);

create or replace view penstock.covered as
select p.name as pipeline, c.generation_id as generation, c.partition,
       lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id, c.rows, c.quarantined, c.holes,
       c.first_at, c.last_at, c.filtered
from penstock.coverage c join penstock.pipeline p using (pipeline_id);

create or replace view penstock.progress as
select p.name as pipeline, l.load_id, l.attempt, r.partition,
       sum(r.until_offset - r.from_offset)::bigint as planned,
       coalesce(t.done, 0)::bigint as done, coalesce(t.rows, 0)::bigint as rows,
       coalesce(t.quarantined, 0)::bigint as quarantined, coalesce(t.holes, 0)::bigint as holes,
       l.staging_at as started_at, t.last_at,
       coalesce(t.rows / nullif(extract(epoch from t.last_at - l.staging_at), 0), 0)::bigint as rows_per_second,
       coalesce(t.filtered, 0)::bigint as filtered
from penstock.load l
join penstock.pipeline p using (pipeline_id)
join penstock.load_range r using (load_id)
left join lateral (
    select sum(s.until_offset - s.from_offset) as done, sum(s.rows) as rows, sum(s.quarantined) as quarantined,
           sum(s.holes) as holes, max(s.staged_at) as last_at, sum(s.filtered) as filtered
    from penstock.stage_task s
    where s.load_id = l.load_id and s.attempt = l.attempt and s.partition = r.partition) t on true
group by p.name, l.load_id, r.partition, t.done, t.rows, t.quarantined, t.holes, t.last_at, t.filtered;

create or replace view penstock.metrics as
select m.name, m.kind, p.name as pipeline, null::text as phase, null::double precision as bound, m.value, t.since
from penstock.total t
join penstock.pipeline p using (pipeline_id)
cross join lateral (values
    ('penstock.loads', 'counter', t.loads::double precision),
    ('penstock.rows', 'counter', t.rows),
    ('penstock.quarantined', 'counter', t.quarantined),
    ('penstock.holes', 'counter', t.holes),
    ('penstock.filtered', 'counter', t.filtered)) m (name, kind, value)
union all
select m.name, 'histogram', p.name, h.phase, null, m.value, t.since
from penstock.phase_total h
join penstock.total t using (pipeline_id)
join penstock.pipeline p using (pipeline_id)
cross join lateral (values
    ('penstock.phase.duration.count', h.loads::double precision),
    ('penstock.phase.duration.sum', h.seconds)) m (name, value)
union all
select 'penstock.phase.duration.bucket', 'histogram', p.name, h.phase, (penstock.phase_bounds())[b.place],
       sum(b.loads) over (partition by h.pipeline_id, h.phase order by b.place), t.since
from penstock.phase_total h
join penstock.total t using (pipeline_id)
join penstock.pipeline p using (pipeline_id)
cross join lateral unnest(h.buckets) with ordinality b (loads, place)
union all
select 'penstock.incidents', 'gauge', p.name, null, null, count(i.incident_id), null
from penstock.pipeline p
left join penstock.incident i on i.pipeline = p.name and i.ended_at is null
group by p.name
union all
select m.name, 'gauge', s.pipeline, null, null, m.value, null
from penstock.sample s
cross join lateral (
    select coalesce(sum(w.waiting), 0)::double precision as lag,
           min(w.oldest_at) filter (where w.waiting > 0 and w.oldest_offset >= w.from_offset) as oldest_at,
           min(w.open_since) as open_since
    from (select k.oldest_offset, k.oldest_at, k.open_since, coalesce(o.position, k.log_start) as from_offset,
                 greatest(0, k.log_end - coalesce(o.position, k.log_start)) as waiting
          from penstock.partition_sample k
          left join penstock.position o
                 on o.partition = k.partition
                and o.generation_id = (select max(g.generation_id) from penstock.generation g
                                       join penstock.pipeline q using (pipeline_id) where q.name = s.pipeline)
          where k.pipeline = s.pipeline) w) k
cross join lateral (
    select case when k.oldest_at is not null then greatest(0, extract(epoch from now() - k.oldest_at)) end as oldest_seconds,
           (s.retention ->> 'retention.ms')::double precision / 1000 as kept_seconds) a
cross join lateral (values
    ('penstock.lag.records', k.lag),
    ('penstock.lag.seconds', case when k.lag = 0 then 0 else a.oldest_seconds end),
    ('penstock.headroom.seconds', case when s.retention ->> 'cleanup.policy' like '%delete%' and a.kept_seconds >= 0
                                            and a.oldest_seconds is not null
                                       then greatest(0, a.kept_seconds - a.oldest_seconds) end),
    ('penstock.transaction.open.seconds',
     case when k.open_since is null then 0 else greatest(0, extract(epoch from now() - k.open_since)) end),
    ('penstock.quarantine.records', s.quarantined),
    ('penstock.gaps.offsets', s.gaps)) m (name, value)
where s.answered_at > now() - interval '10 minutes' and m.value is not null
union all
select 'penstock.sample.age.seconds', 'gauge', pipeline, null, null,
       extract(epoch from now() - answered_at)::double precision, null
from penstock.sample where answered_at is not null;
comment on view penstock.metrics is
    'The metrics that Penstock exports, for exporters that read SQL. Buckets are cumulative, as those of Prometheus.';
