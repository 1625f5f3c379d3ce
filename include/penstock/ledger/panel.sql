-- name: group_quarantined
-- The quarantined records of published loads by reason and rule. A load that covers all of a partition's range needs one
-- look at the coverage, whatever the number of its records.
with chosen as (
    select q.load_id, q.partition, q."offset", q.reason, q.rule, q.dropped_at, l.published_at
    from penstock.load l
    join penstock.quarantine q on q.load_id = l.load_id and q.attempt = l.attempt
    where l.pipeline_id = %(pipeline_id)s and l.published_at is not null
      and exists (select from penstock.coverage c where c.load_id = q.load_id and c.partition = q.partition
                    and c.offsets @> q."offset")
)
select reason, rule, count(*) as records, count(dropped_at) as dropped, count(distinct load_id) as loads,
       min(published_at) as first_at, max(published_at) as last_at,
       (array_agg(format('%%s:%%s', partition, "offset") order by load_id desc, partition, "offset"))[1:5] as first
from chosen group by reason, rule order by records desc, reason, rule

-- name: list_quarantined
-- Quarantined records of published loads, the newest load first; without their contents.
select q.load_id as load, q.partition, q."offset", q.record_timestamp as timestamp, q.reason, q.rule, q.detail,
       q.first_partition, q.first_offset, q.dropped_at, q.key
from penstock.load l
join penstock.quarantine q on q.load_id = l.load_id and q.attempt = l.attempt
where l.pipeline_id = %(pipeline_id)s and l.published_at is not null
  and (%(reason)s::text is null or q.reason = %(reason)s) and (%(rule)s::text is null or q.rule = %(rule)s)
  and exists (select from penstock.coverage c where c.load_id = q.load_id and c.partition = q.partition
                and c.offsets @> q."offset")
order by q.load_id desc, q.partition, q."offset" limit %(most)s offset %(skip)s

-- name: count_quarantined
-- The number of these records.
select count(*) as records
from penstock.load l
join penstock.quarantine q on q.load_id = l.load_id and q.attempt = l.attempt
where l.pipeline_id = %(pipeline_id)s and l.published_at is not null
  and (%(reason)s::text is null or q.reason = %(reason)s) and (%(rule)s::text is null or q.rule = %(rule)s)
  and exists (select from penstock.coverage c where c.load_id = q.load_id and c.partition = q.partition
                and c.offsets @> q."offset")

-- name: list_events
-- The events of a pipeline, the newest first.
select at, what, load_id as load, actor, why from penstock.event
where pipeline_id = %(pipeline_id)s order by event_id desc limit %(most)s offset %(skip)s

-- name: count_events
-- The number of events of a pipeline.
select count(*) as events from penstock.event where pipeline_id = %(pipeline_id)s

-- name: list_losses
-- The losses of a pipeline, the newest first.
select partition, lower(offsets) as "from", upper(offsets) as until, reason, found_at, actor, why
from penstock.loss where pipeline_id = %(pipeline_id)s order by loss_id desc limit %(most)s

-- name: list_holds
-- The holds of a pipeline, the newest first.
select hold_id as hold, kind, cause, began_at, ended_at, ended_by
from penstock.hold where pipeline_id = %(pipeline_id)s order by hold_id desc limit %(most)s

-- name: list_backfills
-- The backfills of a pipeline that have not ended, and the last ten.
select b.backfill_id as backfill, b.asked, b.replace, b.actor, b.planned_at, b.run_id, s.loads, s.loads_done,
       s.loads_stopped, s.loads_open, s.offsets, s.offsets_done, s.rows, s.seconds
from (select * from penstock.backfill where pipeline_id = %(pipeline_id)s
        and (backfill_id in (select backfill_id from penstock.backfill where pipeline_id = %(pipeline_id)s
                             order by backfill_id desc limit 10)
             or backfill_id in (select u.backfill_id from penstock.load u
                                where u.pipeline_id = %(pipeline_id)s and u.backfill_id is not null
                                  and u.state in ('planned', 'staging', 'staged', 'validated', 'held')))) b
cross join lateral (
    select count(*) as loads, count(l.published_at) as loads_done,
           count(*) filter (where l.state in ('failed', 'held', 'discarded')) as loads_stopped,
           count(*) filter (where l.state in ('planned', 'staging', 'staged', 'validated', 'held')) as loads_open,
           coalesce(sum(r.offsets), 0)::bigint as offsets,
           coalesce(sum(r.offsets) filter (where l.published_at is not null), 0)::bigint as offsets_done,
           coalesce(sum(l.rows) filter (where l.published_at is not null), 0)::bigint as rows,
           extract(epoch from max(l.published_at) - min(l.staging_at))::float8 as seconds
    from penstock.load l
    cross join lateral (select sum(until_offset - from_offset) as offsets from penstock.load_range
                        where load_id = l.load_id) r
    where l.backfill_id = b.backfill_id and (l.state <> 'superseded' or l.published_at is not null)) s
order by b.backfill_id desc
