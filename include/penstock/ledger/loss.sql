-- name: record_losses
-- Records losses, with who accepted them and why. %(losses)s is a JSON array.
insert into penstock.loss (pipeline_id, generation_id, partition, offsets, reason, actor, why)
select %(pipeline_id)s, %(generation_id)s, x.partition, int8range(x.from_offset, x.until_offset), x.reason, %(actor)s, %(why)s
from jsonb_to_recordset(%(losses)s) as x (partition int, from_offset bigint, until_offset bigint, reason text, place int)
order by x.place

-- name: move_positions_over_losses
-- Moves each position from the start of a loss to its end (compare-and-set). The load that moved the position before
-- stays recorded. The caller checks that the positions of all losses came back.
update penstock.position o set position = x.until_offset, moved_at = now()
from jsonb_to_recordset(%(losses)s) as x (partition int, from_offset bigint, until_offset bigint)
where o.generation_id = %(generation_id)s and o.partition = x.partition and o.position = x.from_offset
returning x.partition, x.from_offset, x.until_offset

-- name: read_last_timestamp
-- The time of the last row that a load published of a partition. The primary key of {target} finds it.
select _timestamp from {target} where _load_id = %(load_id)s and _partition = %(partition)s
order by _offset desc limit 1
