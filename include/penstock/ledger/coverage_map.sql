-- name: count_unexplained
-- The unexplained holes of the loads of a generation by partition.
select u.partition, sum(upper(u.offsets) - lower(u.offsets))::bigint as offsets
from penstock.unexplained u join penstock.load l using (load_id)
where l.generation_id = %(generation_id)s and l.published_at is not null group by u.partition

-- name: find_times
-- About two hundred live loads at equal distances in time: where each partition was, and the time of its first record
-- there. For loads from before that time was kept, it is the time of the publish.
with bounds as (
    select min(published_at) as began_at, greatest(max(published_at) - min(published_at), interval '1 second') as length
    from penstock.load where pipeline_id = %(pipeline_id)s and published_at is not null
),
steps as (
    select distinct l.load_id, l.published_at
    from bounds b
    cross join generate_series(0, 200) as step (n)
    cross join lateral (
        select load_id, published_at from penstock.load
        where pipeline_id = %(pipeline_id)s and kind = 'live' and generation_id = %(generation_id)s
          and published_at >= b.began_at + step.n * b.length / 200
        order by published_at limit 1) l
)
select r.partition, r.from_offset as "offset", coalesce(r.first_at, s.published_at) as at
from steps s join penstock.load_range r using (load_id)
where r.partition = any (%(partitions)s)
order by 1, 2

-- name: sum_cells
-- The covered offsets of partitions by the cell in which their ranges begin. %(cells)s is a JSON array of partitions with
-- the first offsets of their cells. The index coverage_by_partition holds all of these columns.
with wanted as materialized (
    select p.partition, (select array_agg(e.value::bigint order by e.value::bigint)
                         from jsonb_array_elements_text(p.starts) e) as starts
    from jsonb_to_recordset(%(cells)s) as p (partition int, starts jsonb)
)
select partition, width_bucket(lower(c.offsets), w.starts) as cell, min(lower(c.offsets)) as from_offset,
       max(upper(c.offsets)) as until_offset, sum(upper(c.offsets) - lower(c.offsets))::bigint as offsets,
       sum(c.rows)::bigint as rows, sum(c.quarantined)::bigint as quarantined, sum(c.holes)::bigint as holes,
       min(c.load_id) as first_load, max(c.load_id) as last_load, count(*) as ranges,
       sum(c.filtered)::bigint as filtered
from wanted w join penstock.coverage c using (partition)
where c.generation_id = %(generation_id)s
group by partition, width_bucket(lower(c.offsets), w.starts)

-- name: read_ranges_at
-- The covered ranges that hold some offsets. %(places)s is a JSON array.
select c.partition, s.cell, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset,
       upper(c.offsets) - lower(c.offsets) as offsets, c.rows, c.quarantined, c.holes, c.load_id as first_load,
       c.load_id as last_load, 1::bigint as ranges, c.filtered
from penstock.generation g
cross join jsonb_to_recordset(%(places)s) as s (partition int, cell int, "offset" bigint)
join penstock.coverage c
     on int4range(c.pipeline_id, c.pipeline_id, '[]') && int4range(g.pipeline_id, g.pipeline_id, '[]')
    and int4range(c.generation_id, c.generation_id, '[]') && int4range(g.generation_id, g.generation_id, '[]')
    and int4range(c.partition, c.partition, '[]') && int4range(s.partition, s.partition, '[]')
    and c.offsets && int8range(s."offset", s."offset" + 1)
where g.generation_id = %(generation_id)s

-- name: place_quarantined
-- The quarantined records of ranges of several cells, by cell. %(ranges)s is a JSON array of such ranges.
with wanted as materialized (
    select p.partition, (select array_agg(e.value::bigint order by e.value::bigint)
                         from jsonb_array_elements_text(p.starts) e) as starts
    from jsonb_to_recordset(%(cells)s) as p (partition int, starts jsonb)
)
select r.partition, r.from_offset, width_bucket(q."offset", w.starts) as cell, count(*) as records
from jsonb_to_recordset(%(ranges)s) as r (load_id bigint, partition int, from_offset bigint, until_offset bigint)
join wanted w using (partition)
join penstock.load l on l.load_id = r.load_id
join penstock.quarantine q on q.load_id = l.load_id and q.attempt = l.attempt and q.partition = r.partition
     and q."offset" >= r.from_offset and q."offset" < r.until_offset
group by 1, 2, 3

-- name: read_pieces
-- Offsets that are not covered and have a reason: lost, planned by an unfinished load, or rolled back. And unexplained
-- holes, which are covered.
with planned as (
    select r.partition, range_agg(int8range(r.from_offset, r.until_offset)) as offsets, max(l.load_id) as load_id
    from penstock.load l join penstock.load_range r using (load_id)
    where l.pipeline_id = %(pipeline_id)s and l.generation_id = %(generation_id)s and r.partition = any (%(partitions)s)
      and l.state in ('planned', 'staging', 'staged', 'validated', 'held')
    group by r.partition
),
aside as (
    select a.partition, range_agg(a.offsets) as offsets, max(l.load_id) as load_id
    from penstock.load l join penstock.aside a using (load_id)
    where l.pipeline_id = %(pipeline_id)s and l.generation_id = %(generation_id)s and a.partition = any (%(partitions)s)
      and l.state = 'rolled_back'
    group by a.partition
),
open as (
    select w.partition, w.offsets - coalesce((
               select range_agg(c.offsets) from penstock.coverage c
               where int4range(c.pipeline_id, c.pipeline_id, '[]')
                     && int4range(%(pipeline_id)s::int, %(pipeline_id)s::int, '[]')
                 and int4range(c.generation_id, c.generation_id, '[]')
                     && int4range(%(generation_id)s::int, %(generation_id)s::int, '[]')
                 and int4range(c.partition, c.partition, '[]') && int4range(w.partition, w.partition, '[]')
                 and c.offsets && range_merge(w.offsets)), '{}') as offsets, w.load_id, w.kind
    from (select *, 'pending' as kind from planned union all select *, 'rolled_back' from aside) w
)
select 'lost' as kind, partition, lower(offsets) as from_offset, upper(offsets) as until_offset, null::bigint as load_id
from penstock.loss where generation_id = %(generation_id)s and partition = any (%(partitions)s)
union all
select 'pending', p.partition, lower(piece), upper(piece), p.load_id
from open p cross join lateral unnest(p.offsets) as piece where p.kind = 'pending'
union all
select 'rolled_back', a.partition, lower(piece), upper(piece), a.load_id
from open a
left join open p on p.partition = a.partition and p.kind = 'pending'
cross join lateral unnest(a.offsets - coalesce(p.offsets, '{}')) as piece
where a.kind = 'rolled_back'
union all
select 'unexplained_hole', c.partition, lower(u.offsets), upper(u.offsets), u.load_id
from penstock.unexplained u
join penstock.coverage c on c.load_id = u.load_id and c.partition = u.partition and u.offsets <@ c.offsets
where c.generation_id = %(generation_id)s and u.partition = any (%(partitions)s)
order by 2, 3
