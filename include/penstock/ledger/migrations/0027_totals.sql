-- What each pipeline has published so far, for metrics: counters that never fall, and the durations of phases. The
-- publish transaction counts, because a sum over the loads of ten years each minute would cost too much.

create table penstock.total (
    pipeline_id int primary key references penstock.pipeline,
    since       timestamptz not null,
    loads       bigint not null,
    rows        bigint not null,
    quarantined bigint not null,
    holes       bigint not null
);
comment on table penstock.total is
    'The loads that a pipeline has published since a time, and their counts. A load that was rolled back stays counted.';

create table penstock.phase_total (
    pipeline_id int not null references penstock.pipeline,
    phase       text not null check (phase in ('stage', 'validate', 'publish')),
    loads       bigint not null,
    seconds     double precision not null,
    buckets     bigint[] not null,
    primary key (pipeline_id, phase)
);
comment on column penstock.phase_total.buckets is
    'The number of loads by duration: up to the first bound of penstock.phase_bounds, ..., and above the last one.';

create function penstock.phase_bounds() returns double precision[]
language sql immutable parallel safe return array[1, 5, 15, 60, 300, 900, 3600]::double precision[];

create view penstock.phases as
select q.name as pipeline, l.load_id, p.phase, extract(epoch from p.until_at - p.from_at)::double precision as seconds
from penstock.load l
join penstock.pipeline q using (pipeline_id)
cross join lateral (values
    ('stage', l.staging_at, l.staged_at),
    ('validate', l.staged_at, coalesce(l.held_at, l.validated_at)),
    ('publish', l.validated_at, l.published_at)) p (phase, from_at, until_at)
where p.from_at is not null and p.until_at is not null;
comment on view penstock.phases is
    'How long each phase of a load took. The time for which a held load waited for a person is in none of them.';

insert into penstock.total
select pipeline_id, min(planned_at), count(*), coalesce(sum(rows), 0), coalesce(sum(quarantined), 0),
       coalesce(sum(holes), 0)
from penstock.load where published_at is not null group by pipeline_id;

insert into penstock.phase_total
select pipeline_id, phase, sum(loads), sum(seconds), array_agg(loads order by bucket)
from (select k.pipeline_id, k.phase, bucket, count(p.load_id) as loads, coalesce(sum(p.seconds), 0) as seconds
      from (select pipeline_id, phase from penstock.total cross join unnest(array['stage', 'validate', 'publish']) phase) k
      cross join generate_series(0, cardinality(penstock.phase_bounds())) bucket
      left join (select l.pipeline_id, v.load_id, v.phase, v.seconds,
                        width_bucket(v.seconds, penstock.phase_bounds()) as bucket
                 from penstock.phases v join penstock.load l using (load_id) where l.published_at is not null) p
             using (pipeline_id, phase, bucket)
      group by k.pipeline_id, k.phase, bucket) counted
group by pipeline_id, phase;

create view penstock.metrics as
select m.name, m.kind, p.name as pipeline, null::text as phase, null::double precision as bound, m.value, t.since
from penstock.total t
join penstock.pipeline p using (pipeline_id)
cross join lateral (values
    ('penstock.loads', 'counter', t.loads::double precision),
    ('penstock.rows', 'counter', t.rows),
    ('penstock.quarantined', 'counter', t.quarantined),
    ('penstock.holes', 'counter', t.holes)) m (name, kind, value)
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
