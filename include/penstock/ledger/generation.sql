-- name: read_newest_generation
-- The generation that is loaded now.
select pipeline_id, generation_id, cluster_id, topic_id, epoch from penstock.generation
where pipeline_id = %(pipeline_id)s order by generation_id desc limit 1

-- name: read_newest_generation_of
-- The generation that is loaded now, by the name of its pipeline; no row before the first plan.
select p.pipeline_id, g.generation_id, g.cluster_id, g.topic_id, g.epoch
from penstock.pipeline p join penstock.generation g using (pipeline_id)
where p.name = %(pipeline)s order by g.generation_id desc limit 1

-- name: find_generation
-- The newest generation of a topic id; no row if the topic was never loaded.
select pipeline_id, generation_id, cluster_id, topic_id, epoch from penstock.generation
where pipeline_id = %(pipeline_id)s and cluster_id = %(cluster_id)s and topic_id = %(topic_id)s
order by generation_id desc limit 1

-- name: open_generation
-- Opens a generation. The epoch counts how often the same topic id was adopted.
insert into penstock.generation (pipeline_id, cluster_id, topic_id, epoch)
values (%(pipeline_id)s, %(cluster_id)s, %(topic_id)s, %(epoch)s) returning generation_id

-- name: read_positions
-- The positions of a generation.
select partition, position, origin, leader_epoch from penstock.position where generation_id = %(generation_id)s order by partition

-- name: summarize_generation
-- The position of each partition of a generation, and how many of its offsets are covered.
select o.partition, o.position, coalesce(sum(upper(c.offsets) - lower(c.offsets)), 0)::bigint as covered
from penstock.position o
join penstock.generation g using (generation_id)
left join penstock.coverage c on c.pipeline_id = g.pipeline_id and c.generation_id = g.generation_id
      and c.partition = o.partition
where o.generation_id = %(generation_id)s
group by o.partition, o.position order by o.partition

-- name: open_positions
-- Inserts the first position of partitions. %(positions)s is a JSON array.
insert into penstock.position (generation_id, partition, position, origin, leader_epoch)
select %(generation_id)s, o.partition, o.position, o.origin, o.leader_epoch
from jsonb_to_recordset(%(positions)s) as o (partition int, position bigint, origin bigint, leader_epoch int)

-- name: move_positions
-- Moves each position from the start of the load's range to its end (compare-and-set). The caller checks that the
-- positions of all ranges came back.
update penstock.position o
set position = r.until_offset, load_id = r.load_id, moved_at = now(), leader_epoch = r.leader_epoch
from penstock.load_range r
where r.load_id = %(load_id)s and o.generation_id = %(generation_id)s
  and o.partition = r.partition and o.position = r.from_offset
returning r.partition, r.from_offset, r.until_offset

-- name: find_last_load
-- The load that moved a partition to its position; null if no load has moved it.
select load_id from penstock.position where generation_id = %(generation_id)s and partition = %(partition)s
