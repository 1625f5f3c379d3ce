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
set position = r.until_offset, load_id = r.load_id, moved_at = now(), leader_epoch = r.leader_epoch,
    loaded_until = greatest(o.loaded_until, r.loaded_until, case when r.until_offset >= o.marked_end then o.marked_at end),
    marked_at = case when r.until_offset < o.marked_end then o.marked_at end,
    marked_end = case when r.until_offset < o.marked_end then o.marked_end end
from penstock.load_range r join penstock.load l using (load_id)
where r.load_id = %(load_id)s and o.generation_id = %(generation_id)s
  and o.partition = r.partition and o.position = r.from_offset
returning r.partition, r.from_offset, r.until_offset

-- name: see_ends
-- Records the ends of the log at a time. %(ends)s is a JSON array. A partition whose position is not below the end is
-- loaded until that time. Any other keeps its end until its position has passed it, and only then takes a later end.
update penstock.position o
set loaded_until = greatest(o.loaded_until, case when o.position >= e.high then %(at)s::timestamptz
                                                 when o.position >= o.marked_end then o.marked_at end),
    marked_at = case when o.position >= e.high then null
                   when o.position < o.marked_end then o.marked_at else %(at)s::timestamptz end,
    marked_end = case when o.position >= e.high then null when o.position < o.marked_end then o.marked_end else e.high end
from jsonb_to_recordset(%(ends)s) as e (partition int, high bigint)
where o.generation_id = %(generation_id)s and o.partition = e.partition

-- name: advance_hours
-- Moves the end of the whole hours to the last full hour until which every partition is loaded. The first time it also
-- finds the first hour: that of the earliest record. A partition whose first records were not loaded, or had been deleted
-- from the log before, counts from the hour after its earliest record.
update penstock.generation g
set hours_until = w.until,
    hours_from = coalesce(g.hours_from, (
        select greatest(min(f.hour), max(f.hour + interval '1 hour') filter (
                   where o.origin > 0
                      or not exists (select from penstock.coverage h
                                     where h.generation_id = o.generation_id and h.partition = o.partition
                                       and h.offsets @> o.origin)))
        from penstock.position o
        cross join lateral (select date_trunc('hour', min(c.first_at), 'UTC') as hour from penstock.coverage c
                            where c.generation_id = o.generation_id and c.partition = o.partition) f
        where o.generation_id = g.generation_id and o.origin < o.position), w.until)
from (select date_trunc('hour', min(loaded_until), 'UTC') as until from penstock.position
      where generation_id = %(generation_id)s having count(*) = count(loaded_until)) w
where g.generation_id = %(generation_id)s and (g.hours_until is null or g.hours_until < w.until)

-- name: announce_hours
-- Records that a run announces the whole hours that no other run has announced; a retry of the run gets the same hours.
update penstock.generation g
set announced_from = case when g.announced_by = %(run_id)s then g.announced_from
                          else coalesce(g.announced_until, g.hours_from) end,
    announced_until = g.hours_until, announced_by = %(run_id)s
where g.hours_until > g.hours_from and (g.announced_by = %(run_id)s or g.announced_until is distinct from g.hours_until)
  and g.generation_id = (select n.generation_id from penstock.generation n join penstock.pipeline p using (pipeline_id)
                         where p.name = %(pipeline)s order by n.generation_id desc limit 1)
returning g.announced_from as since, g.announced_until as until

-- name: list_whole_hours
-- The last whole hours of a time, in their order. Hours with a gap of a rolled back load are left out.
select hour
from (select hour from penstock.hours
      where pipeline = %(pipeline)s and hour >= %(since)s and hour < %(until)s and whole
        and generation = (select max(g.generation_id) from penstock.generation g
                          join penstock.pipeline p using (pipeline_id) where p.name = %(pipeline)s)
      order by hour desc limit %(most)s) last
order by hour

-- name: find_last_load
-- The load that moved a partition to its position; null if no load has moved it.
select load_id from penstock.position where generation_id = %(generation_id)s and partition = %(partition)s
