-- name: read_pipelines
-- Each pipeline with its newest generation, its newest live load and whether a process works on it, its open hold, its
-- gaps and losses, its held redrives, why the last run of that load failed, and its faults: those of the newest
-- verification, and changes of the log found since the last verification that read all of the log again. Gaps are counted
-- on request: that reads all of the coverage.
select p.name, g.generation_id, g.cluster_id, g.topic_id,
       l.load_id, l.state, l.cause, l.transform_sha256, work.since, work.idle_seconds, work.somebody_works, h.kind as hold, h.cause as hold_cause, h.began_at,
       case when %(count_gaps)s
            then (select coalesce(sum(x.until_offset - x.from_offset), 0)::bigint from penstock.gaps x
                  where x.pipeline = p.name and x.generation = g.generation_id) else 0 end as gaps,
       (select coalesce(sum(x.until_offset - x.from_offset), 0)::bigint from penstock.losses x
        where x.pipeline = p.name and x.generation = g.generation_id) as lost,
       (select array_agg(distinct b.backfill_id order by b.backfill_id) from penstock.load b
        where b.pipeline_id = p.pipeline_id and b.backfill_id is not null
          and b.state in ('planned', 'staging', 'staged', 'validated', 'held', 'failed')) as backfills,
       (select array_agg(b.load_id order by b.load_id) from penstock.load b
        where b.pipeline_id = p.pipeline_id and b.kind = 'redrive' and b.state = 'held') as held_redrives,
       (select array_agg(r.table_name order by r.result_id) from penstock.result r
        where r.pipeline_id = p.pipeline_id and r.state <> 'current') as waiting_results,
       found.verification_id, found.faults, found.first_fault, failing.message as failure, failing.next_step as failure_step
from penstock.pipeline p
left join lateral (select * from penstock.generation where pipeline_id = p.pipeline_id
                   order by generation_id desc limit 1) g on true
left join lateral (select * from penstock.load where pipeline_id = p.pipeline_id and kind = 'live'
                     and state not in ('superseded', 'discarded', 'rolled_back')
                   order by load_id desc limit 1) l on true
cross join lateral (
    select moment.since, extract(epoch from clock_timestamp() - moment.since)::float as idle_seconds,
           exists (select from pg_locks k
                   where k.locktype = 'advisory' and k.granted and k.objsubid = 1
                     and k.database = (select oid from pg_database where datname = current_database())
                     and (k.classid::bigint << 32 | k.objid::bigint)
                         in (hashtextextended('penstock work ' || l.load_id, 0),
                             hashtextextended('penstock work ' || l.load_id || ' ' || l.attempt, 0))) as somebody_works
    from (select case l.state
                     when 'planned' then l.planned_at
                     when 'staging' then greatest(l.staging_at,
                         (select max(t.staged_at) from penstock.stage_task t
                          where t.load_id = l.load_id and t.attempt = l.attempt))
                     when 'staged' then l.staged_at
                     when 'validated' then l.validated_at end as since) moment) work
left join lateral (select i.message, i.next_step from penstock.incident i
                   where i.pipeline = p.name and i.ended_at is null and i.load_id = l.load_id
                     and case when l.state = 'held' then i.kind = 'held_load' else i.kind = any(%(failures)s) end
                   order by i.last_seen_at desc limit 1) failing on true
left join penstock.hold h on h.pipeline_id = p.pipeline_id and h.ended_at is null
cross join lateral (select max(verification_id) as newest, max(verification_id) filter (where share = 1) as newest_whole
                    from penstock.verification where pipeline_id = p.pipeline_id and ended_at is not null) v
cross join lateral (select max(f.verification_id) as verification_id, count(*) as faults,
                           (array_agg(f.told order by f.verification_id desc, f.ordinal))[1] as first_fault
                    from penstock.fault f join penstock.verification w using (verification_id)
                    where w.pipeline_id = p.pipeline_id and w.ended_at is not null
                      and (w.verification_id = v.newest
                           or f.kind = 'log_changed' and w.verification_id >= coalesce(v.newest_whole, 0))) found
where p.name = any(%(names)s)

-- name: read_progress
-- The progress of the load of a pipeline that is being staged.
select partition, planned, done, rows_per_second from penstock.progress
where load_id = (select max(load_id) from penstock.loads where pipeline = %(pipeline)s and state = 'staging')
order by partition

-- name: read_known
-- Each pipeline with the topic that it has loaded so far, its positions, and how many leaves its target has; no row
-- before its first plan.
select p.name, g.cluster_id, g.topic_id,
       (select count(*) from pg_inherits where inhparent = to_regclass(wanted.target)) as leaves,
       coalesce(json_object_agg(s.partition, s.position) filter (where s.partition is not null), '{}') as positions
from unnest(%(names)s::text[], %(targets)s::text[]) as wanted (name, target)
join penstock.pipeline p on p.name = wanted.name
join lateral (select * from penstock.generation where pipeline_id = p.pipeline_id
              order by generation_id desc limit 1) g on true
left join penstock.position s on s.generation_id = g.generation_id
group by p.name, g.cluster_id, g.topic_id, wanted.target
