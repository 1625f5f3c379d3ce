-- name: record_loss
-- Offsets that are given up, and by whom.
insert into penstock.loss (pipeline_id, generation_id, partition, offsets, reason, actor, why)
values (%(pipeline_id)s, %(generation_id)s, %(partition)s, int8range(%(from_offset)s, %(until_offset)s), %(reason)s,
        %(actor)s, %(why)s)

-- name: pass_over_loss
-- Compare-and-set: the caller checks that one row came out. Which load came before stays known.
update penstock.position set position = %(until_offset)s, moved_at = now()
where generation_id = %(generation_id)s and partition = %(partition)s and position = %(from_offset)s

-- name: find_last_load
-- The load that brought a partition to its position.
select load_id from penstock.position where generation_id = %(generation_id)s and partition = %(partition)s

-- name: read_last_timestamp
-- The time of the last record that a load published of a partition; {target} is read through its key.
select _timestamp from {target} where _load_id = %(load_id)s and _partition = %(partition)s
order by _offset desc limit 1
