-- name: sum_rows
-- The number of rows that a load has of a range in {table}, and the sum of their hashes.
select count(*) as rows, coalesce(sum({row_hash}), 0) as row_hash from {table}
where _load_id = %(load_id)s and _partition = %(partition)s and _offset >= %(from_offset)s and _offset < %(until_offset)s

-- name: delete_rows
-- Deletes the rows that a load has of a range from {table}.
delete from {table}
where _load_id = %(load_id)s and _partition = %(partition)s and _offset >= %(from_offset)s and _offset < %(until_offset)s

-- name: move_rows
-- Moves the rows that a load has of a range from {table} into {into}, which has the same columns in the same order.
with moved as (delete from {table}
               where _load_id = %(load_id)s and _partition = %(partition)s
                 and _offset >= %(from_offset)s and _offset < %(until_offset)s
               returning *)
insert into {into} select * from moved
