-- name: list_loads
-- Loads of a pipeline, the newest first, with their offsets and the person who decided last or requested them.
select l.load_id as load, l.kind, l.state, l.planned_at, l.staging_at, l.staged_at, l.validated_at, l.held_at,
       l.published_at, l.ended_at, r.offsets, r.partitions, l.rows, l.quarantined, l.holes, l.filtered, l.cause, l.run_id,
       l.application_id, l.attempt as attempts, l.backfill_id as backfill, l.superseded_by, l.kept_until,
       coalesce(e.actor, b.actor) as who, clock_timestamp() as now
from (select * from penstock.load
      where pipeline_id = %(pipeline_id)s and (%(kind)s::text is null or kind = %(kind)s)
        and (%(state)s::text is null or state = %(state)s) and (%(load_id)s::bigint is null or load_id = %(load_id)s)
      order by load_id desc limit %(most)s offset %(skip)s) l
cross join lateral (select coalesce(sum(until_offset - from_offset), 0)::bigint as offsets,
                           count(distinct partition) as partitions
                    from penstock.load_range where load_id = l.load_id) r
left join penstock.backfill b on b.backfill_id = l.backfill_id
left join lateral (select actor from penstock.event where load_id = l.load_id and actor not in ('penstock', 'airflow')
                   order by event_id desc limit 1) e on true
order by l.load_id desc

-- name: count_loads
-- The number of loads of a pipeline of a kind and in a state.
select count(*) as loads from penstock.load
where pipeline_id = %(pipeline_id)s and (%(kind)s::text is null or kind = %(kind)s)
  and (%(state)s::text is null or state = %(state)s)

-- name: read_ranges
-- The first ranges of a load's plan with their counts.
select partition, from_offset as "from", until_offset as until, rows, quarantined, holes, filtered
from penstock.load_range where load_id = %(load_id)s order by partition, from_offset limit %(most)s

-- name: read_progress
-- The progress of staging a load, by partition; the time that is left by the rate so far.
select partition, planned, done, rows_per_second,
       case when done > 0 then extract(epoch from last_at - started_at) * (planned - done) / done end::float8
           as eta_seconds
from penstock.progress where load_id = %(load_id)s order by (planned - done) desc, partition limit %(most)s

-- name: read_checks
-- The results of the checks on the current attempt of a load, the failed ones first.
select k.expectation, k."column", k.partition, k.severity, k.success, k.kind, k.suite, k.observed
from penstock.check_result k join penstock.load l on l.load_id = k.load_id and l.attempt = k.attempt
where k.load_id = %(load_id)s order by k.success, k.ordinal limit %(most)s

-- name: read_load_events
-- The events of a load, the newest first.
select at, what, load_id as load, actor, why from penstock.event
where load_id = %(load_id)s order by event_id desc limit %(most)s

-- name: compare_declarations
-- The fields of a load's declaration that differ from those of the load before, as JSON.
select key as field, b.value::text as before, a.value::text as after
from (select key, value from penstock.load l join penstock.declaration d using (declaration_id)
      cross join lateral jsonb_each(d.declaration)
      where l.load_id = %(load_id)s) a
full join (select key, value from penstock.load l join penstock.declaration d using (declaration_id)
           cross join lateral jsonb_each(d.declaration)
           where l.load_id = (select max(o.load_id) from penstock.load o
                              where o.pipeline_id = %(pipeline_id)s and o.load_id < %(load_id)s)) b using (key)
where a.value is distinct from b.value
  and exists (select from penstock.load o where o.pipeline_id = %(pipeline_id)s and o.load_id < %(load_id)s)
order by key
