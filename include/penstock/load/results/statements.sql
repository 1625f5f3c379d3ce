-- name: name_added
-- The rows that the transaction makes visible.
create temporary view added as select * from {target} where {is_added}

-- name: name_removed
-- The rows that the transaction takes away.
create temporary view removed as select * from {removed} where {is_removed}

-- name: name_result
-- The table of the result. A view of this form takes every write.
create temporary view result as select {columns} from {table}

-- name: drop_names
-- Drops the three names.
drop view added, removed, result
