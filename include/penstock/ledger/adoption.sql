-- name: find_generation
-- The newest generation of this very topic, if it was loaded before.
select generation_id, cluster_id, topic_id, epoch from penstock.generation
where pipeline_id = %(pipeline_id)s and cluster_id = %(cluster_id)s and topic_id = %(topic_id)s
order by generation_id desc limit 1

-- name: summarize_generation
-- Where each partition of a generation stands, and how many of its offsets are in the table.
select o.partition, o.position, coalesce(sum(upper(c.offsets) - lower(c.offsets)), 0)::bigint as covered
from penstock.position o
join penstock.generation g using (generation_id)
left join penstock.coverage c on c.pipeline_id = g.pipeline_id and c.generation_id = g.generation_id
      and c.partition = o.partition
where o.generation_id = %(generation_id)s
group by o.partition, o.position order by o.partition

-- name: read_covered
-- Which load brought which offsets of a partition below an offset: of this very topic in all its epochs, each up to
-- where the next one took over.
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
-- The last row of a load from an offset up to another, with its time in milliseconds; {target} is read through its key.
select _offset as "offset", (extract(epoch from _timestamp) * 1000)::bigint as timestamp from {target}
where _load_id = %(load_id)s and _partition = %(partition)s and _offset >= %(from_offset)s and _offset <= %(at)s
  and _offset < %(until_offset)s
order by _offset desc limit 1

-- name: find_row_up
-- The first row of a load from an offset on, with its time in milliseconds.
select _offset as "offset", (extract(epoch from _timestamp) * 1000)::bigint as timestamp from {target}
where _load_id = %(load_id)s and _partition = %(partition)s and _offset >= %(from_offset)s and _offset < %(until_offset)s
order by _offset limit 1

-- name: end_open_loads
-- Loads of what was loaded before: their offsets mean other records now.
update penstock.load
set state = case kind when 'live' then 'superseded' else 'discarded' end, ended_at = now(), cause = %(cause)s
where pipeline_id = %(pipeline_id)s and state in ('planned', 'staging', 'staged', 'validated', 'held')
returning load_id, state
