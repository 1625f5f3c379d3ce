-- name: read_overviews
-- Each of some pipelines with its newest sample: its lag and its oldest record at today's positions, the partitions whose
-- position does not fit the log, the lag of an hour ago, and the last ten loads. A position that moved after the sample
-- was taken proves that the log reaches at least so far.
select w.name, s.taken_at, s.answered_at, s.error, s.cluster_id, s.topic_id, s.retention, s.bad_target,
       s.bad_target_next_step, s.counted_at, coalesce(s.gaps, 0) as gaps, coalesce(s.quarantined, 0) as quarantined,
       coalesce(s.quarantined_loads, 0) as quarantined_loads, g.opened_at > s.answered_at as is_adopted_since,
       k.lag, k.oldest_at, k.faulty, earlier.lag as earlier_lag, recent.loads as recent,
       coalesce(open.busy, false) as busy, clock_timestamp() as now
from unnest(%(names)s::text[]) as w (name)
left join penstock.sample s on s.pipeline = w.name
left join penstock.pipeline p on p.name = w.name
left join lateral (select generation_id, opened_at from penstock.generation where pipeline_id = p.pipeline_id
                   order by generation_id desc limit 1) g on true
left join lateral (
    select sum(m.lag)::bigint as lag, min(m.oldest_at) filter (where m.lag > 0 and m.oldest_offset >= m.start) as oldest_at,
           json_agg(json_build_object('partition', m.partition, 'position', m.position, 'log_start', m.log_start,
                                      'log_end', m.log_end))
               filter (where m.position > m.log_end or m.position < m.log_start
                             or m.log_end is null and m.moved_at <= s.answered_at) as faulty
    from (select partition, o.position, o.moved_at, e.log_start, e.oldest_at, e.oldest_offset, e.log_end,
                 coalesce(o.position, e.log_start) as start,
                 greatest(0, e.log_end - coalesce(o.position, e.log_start)) as lag
          from (select partition, log_start, oldest_at, oldest_offset, log_end from penstock.partition_sample
                where pipeline = w.name) k
          full join (select partition, position, moved_at from penstock.position
                     where generation_id = g.generation_id) o using (partition)
          cross join lateral (
              select k.log_start, k.oldest_at, k.oldest_offset,
                     case when o.moved_at > s.answered_at then greatest(k.log_end, o.position) else k.log_end end
                         as log_end) e) m
    where s.answered_at is not null) k on true
left join lateral (select h.lag from penstock.sample_history h
                   where h.pipeline = w.name and h.at between now() - interval '2 hours' and now() - interval '1 hour'
                   order by h.at desc limit 1) earlier on true
left join lateral (
    select json_agg(json_build_object('load', r.load_id, 'kind', r.kind, 'state', r.state, 'quarantined', r.quarantined,
                                      'planned_at', r.planned_at, 'published_at', r.published_at) order by r.load_id desc)
               as loads
    from (select * from penstock.load where pipeline_id = p.pipeline_id order by load_id desc limit 10) r) recent on true
left join lateral (select exists (select from penstock.load b where b.pipeline_id = p.pipeline_id
                                    and b.state in ('planned', 'staging', 'staged', 'validated', 'held')
                                    and b.state <> 'held') as busy) open on true

-- name: read_partitions
-- The partitions of a pipeline: position and sample. The log reaches a position that moved after the sample was taken.
select partition, o.position, o.origin, k.log_start,
       case when o.moved_at > s.answered_at or k.log_end is null then greatest(k.log_end, o.position) else k.log_end end
           as log_end,
       k.last_stable_offset, k.high_watermark, k.oldest_offset, k.oldest_at, k.open_since, coalesce(k.gaps, 0) as gaps
from (select * from penstock.partition_sample where pipeline = %(pipeline)s) k
full join (select o.* from penstock.position o
           where o.generation_id = (select max(g.generation_id) from penstock.generation g
                                    join penstock.pipeline p using (pipeline_id) where p.name = %(pipeline)s)) o
    using (partition)
left join penstock.sample s on s.pipeline = %(pipeline)s
order by partition

-- name: read_trend
-- The lag of the last 24 hours, one point for each ten minutes at most.
select distinct on (floor(extract(epoch from at) / 600)) at, lag, oldest_seconds
from penstock.sample_history
where pipeline = %(pipeline)s and at > now() - interval '24 hours'
order by floor(extract(epoch from at) / 600), at desc

-- name: read_newest_verification
-- The newest verification of a pipeline, also one that runs.
select v.verification_id, v.began_at, v.ended_at, v.share,
       (select count(*) from penstock.fault f where f.verification_id = v.verification_id) as faults
from penstock.verification v join penstock.pipeline p using (pipeline_id)
where p.name = %(pipeline)s order by v.verification_id desc limit 1
