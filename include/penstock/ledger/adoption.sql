-- name: read_covered_below
-- Which load covers which offsets of a partition below an offset. All generations of the same topic id count, each up
-- to the offset from which the next one was loaded.
with same as (
    select e.generation_id, e.epoch, e.pipeline_id from penstock.generation g
    join penstock.generation e using (pipeline_id, cluster_id, topic_id)
    where g.generation_id = %(generation_id)s
)
select lower(c.offsets) as from_offset, least(upper(c.offsets), valid.until_offset) as until_offset, c.load_id
from same g
cross join lateral (
    select least(%(below)s, min(o.origin)) as until_offset
    from same later join penstock.position o on o.generation_id = later.generation_id
    where later.epoch > g.epoch and o.partition = %(partition)s) valid
join penstock.coverage c on c.pipeline_id = g.pipeline_id and c.generation_id = g.generation_id
where c.partition = %(partition)s and lower(c.offsets) < valid.until_offset
order by 1

-- name: find_row_down
-- The last row of a load within offsets, at or below a given offset, with its time in milliseconds. The primary key of
-- {target} finds it.
select _offset as "offset", (extract(epoch from _timestamp) * 1000)::bigint as timestamp from {target}
where _load_id = %(load_id)s and _partition = %(partition)s and _offset >= %(from_offset)s and _offset <= %(at)s
  and _offset < %(until_offset)s
order by _offset desc limit 1

-- name: find_row_up
-- The first row of a load within offsets, with its time in milliseconds.
select _offset as "offset", (extract(epoch from _timestamp) * 1000)::bigint as timestamp from {target}
where _load_id = %(load_id)s and _partition = %(partition)s and _offset >= %(from_offset)s and _offset < %(until_offset)s
order by _offset limit 1
