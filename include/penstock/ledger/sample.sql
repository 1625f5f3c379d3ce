-- name: read_known
-- Where the next load of each partition starts, and the newest sample of it. %(names)s are pipelines; those without a
-- plan and without a sample have no row.
select w.name as pipeline, m.*
from unnest(%(names)s::text[]) as w (name)
left join penstock.pipeline p on p.name = w.name
cross join lateral (
    select partition, o.position, k.last_stable_offset, k.oldest_offset, k.oldest_at, k.open_since
    from (select * from penstock.position
          where generation_id = (select max(g.generation_id) from penstock.generation g
                                 where g.pipeline_id = p.pipeline_id)) o
    full join (select * from penstock.partition_sample where pipeline = w.name) k using (partition)) m

-- name: find_old_retention
-- The time of the ledger's clock, and those of some pipelines whose topic's retention was read too long ago.
select clock_timestamp() as now,
       (select coalesce(array_agg(w.name), '{}') from unnest(%(names)s::text[]) as w (name)
        where not exists (select from penstock.sample s where s.pipeline = w.name
                            and s.retention_at > clock_timestamp() - %(every)s::interval)) as names

-- name: record_samples
-- Records what Kafka answered about pipelines, or why it did not. %(samples)s is a JSON array; without an answer the
-- offsets of the last answer stay.
insert into penstock.sample as s (pipeline, taken_at, answered_at, error, cluster_id, topic_id, retention, retention_at)
select x.pipeline, %(at)s::timestamptz, case when x.error is null then %(at)s::timestamptz end, x.error, x.cluster_id, x.topic_id, x.retention,
       case when x.retention is not null then %(at)s::timestamptz end
from jsonb_to_recordset(%(samples)s)
     as x (pipeline text, error text, cluster_id text, topic_id text, retention jsonb)
on conflict (pipeline) do update
    set taken_at = excluded.taken_at, answered_at = coalesce(excluded.answered_at, s.answered_at),
        error = excluded.error, cluster_id = coalesce(excluded.cluster_id, s.cluster_id),
        topic_id = coalesce(excluded.topic_id, s.topic_id), retention = coalesce(excluded.retention, s.retention),
        retention_at = coalesce(excluded.retention_at, s.retention_at)

-- name: record_partitions
-- Records the sampled partitions. %(partitions)s is a JSON array.
insert into penstock.partition_sample (pipeline, partition, log_start, log_end, last_stable_offset, high_watermark,
                                       oldest_offset, oldest_at, open_since)
select x.* from jsonb_to_recordset(%(partitions)s)
     as x (pipeline text, partition int, log_start bigint, log_end bigint, last_stable_offset bigint,
           high_watermark bigint, oldest_offset bigint, oldest_at timestamptz, open_since timestamptz)
on conflict (pipeline, partition) do update
    set log_start = excluded.log_start, log_end = excluded.log_end, last_stable_offset = excluded.last_stable_offset,
        high_watermark = excluded.high_watermark, oldest_offset = excluded.oldest_offset,
        oldest_at = excluded.oldest_at, open_since = excluded.open_since

-- name: forget_partitions
-- Deletes the samples of partitions that a topic no longer has. %(partitions)s is the JSON array of those it has.
delete from penstock.partition_sample k
where k.pipeline = any (%(names)s)
  and not exists (select from jsonb_to_recordset(%(partitions)s) as x (pipeline text, partition int)
                  where x.pipeline = k.pipeline and x.partition = k.partition)

-- name: record_history
-- Adds a point to the lag of pipelines. %(points)s is a JSON array.
insert into penstock.sample_history (pipeline, at, lag, oldest_seconds)
select x.pipeline, %(at)s::timestamptz, x.lag, x.oldest_seconds
from jsonb_to_recordset(%(points)s) as x (pipeline text, lag bigint, oldest_seconds float8)
on conflict do nothing

-- name: thin_history
-- Bounds the history: of points older than a day the first of each hour stays, for 30 days.
delete from penstock.sample_history h
where h.at < now() - interval '30 days'
   or h.at between now() - interval '48 hours' and now() - interval '24 hours'
      and exists (select from penstock.sample_history e
                  where e.pipeline = h.pipeline and e.at >= date_trunc('hour', h.at) and e.at < h.at)

-- name: find_uncounted
-- The pipelines whose ledger has changed since their gaps and their quarantine were counted. A publish that began before
-- another one may commit after it and leave no trace in `state`: after an hour everything is counted again.
select w.name as pipeline, g.generation_id, x.state
from unnest(%(names)s::text[]) as w (name)
join penstock.pipeline p on p.name = w.name
join penstock.sample s on s.pipeline = w.name
cross join lateral (select max(generation_id) as generation_id from penstock.generation
                    where pipeline_id = p.pipeline_id) g
cross join lateral (
    select concat_ws(' ', g.generation_id,
                     (select l.published_at from penstock.load l where l.pipeline_id = p.pipeline_id
                        and l.published_at is not null order by l.published_at desc limit 1),
                     (select e.event_id from penstock.event e where e.pipeline_id = p.pipeline_id
                      order by e.event_id desc limit 1),
                     (select max(m.loss_id) from penstock.loss m where m.pipeline_id = p.pipeline_id)) as state) x
where s.counted is distinct from x.state or s.counted_at < now() - interval '1 hour'

-- name: count_gaps
-- Counts the gaps of each partition and the quarantine of one pipeline: it reads all of its coverage.
with covered as (select partition, sum(upper(offsets) - lower(offsets)) as offsets from penstock.coverage
                 where generation_id = %(generation_id)s group by partition),
lost as (select partition, sum(upper(offsets) - lower(offsets)) as offsets from penstock.loss
         where generation_id = %(generation_id)s group by partition),
gaps as (select o.partition, greatest(0, o.position - least(o.origin, o.position) - coalesce(c.offsets, 0)
                                         - coalesce(x.offsets, 0)) as offsets
         from penstock.position o left join covered c using (partition) left join lost x using (partition)
         where o.generation_id = %(generation_id)s),
by_partition as (
    update penstock.partition_sample k
    set gaps = g.offsets,
        gap_ranges = case when g.offsets > 0 then (
            select range_agg(int8range(a.from_offset, a.until_offset)) from penstock.gaps a
            where a.pipeline = %(pipeline)s and a.generation = %(generation_id)s and a.partition = g.partition) end
    from gaps g
    where k.pipeline = %(pipeline)s and k.partition = g.partition and (g.offsets > 0 or k.gaps > 0)),
quarantine as (select count(*) as records, count(distinct load_id) as loads from penstock.quarantined
               where pipeline = %(pipeline)s and dropped_at is null)
update penstock.sample
set gaps = (select coalesce(sum(offsets), 0) from gaps), quarantined = q.records, quarantined_loads = q.loads,
    counted = %(state)s, counted_at = clock_timestamp()
from quarantine q where pipeline = %(pipeline)s

-- name: record_targets
-- Records which targets take no load, and why. %(targets)s is a JSON array of all examined pipelines.
update penstock.sample s set bad_target = x.what, bad_target_next_step = x.next_step
from jsonb_to_recordset(%(targets)s) as x (pipeline text, what text, next_step text)
where s.pipeline = x.pipeline and (s.bad_target, s.bad_target_next_step) is distinct from (x.what, x.next_step)
