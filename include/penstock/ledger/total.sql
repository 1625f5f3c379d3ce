-- name: count_load
-- Adds a published load to what its pipeline has published.
insert into penstock.total as t (pipeline_id, since, loads, rows, quarantined, holes, filtered)
select pipeline_id, planned_at, 1, coalesce(rows, 0), coalesce(quarantined, 0), coalesce(holes, 0),
       coalesce(filtered, 0)
from penstock.load where load_id = %(load_id)s
on conflict (pipeline_id) do update
set loads = t.loads + excluded.loads, rows = t.rows + excluded.rows,
    quarantined = t.quarantined + excluded.quarantined, holes = t.holes + excluded.holes,
    filtered = t.filtered + excluded.filtered

-- name: count_phases
-- Adds the durations of a published load to those of its pipeline.
insert into penstock.phase_total as t (pipeline_id, phase, loads, seconds, buckets)
select l.pipeline_id, p.phase, 1, p.seconds,
       (select array_agg((bucket = width_bucket(p.seconds, penstock.phase_bounds()))::int::bigint order by bucket)
        from generate_series(0, cardinality(penstock.phase_bounds())) bucket)
from penstock.phases p join penstock.load l using (load_id)
where l.load_id = %(load_id)s
on conflict (pipeline_id, phase) do update
set loads = t.loads + excluded.loads, seconds = t.seconds + excluded.seconds,
    buckets = (select array_agg(b.old + b.new order by b.place)
               from unnest(t.buckets, excluded.buckets) with ordinality b (old, new, place))

-- name: read_values
-- Every counter and every gauge.
select name, kind, pipeline, value, since from penstock.metrics where kind <> 'histogram' order by name, pipeline

-- name: read_durations
-- The durations of each phase of each pipeline, and the bounds of their buckets.
select p.name as pipeline, h.phase, h.loads, h.seconds, h.buckets, penstock.phase_bounds() as bounds, t.since
from penstock.phase_total h
join penstock.total t using (pipeline_id)
join penstock.pipeline p using (pipeline_id)
order by p.name, h.phase
