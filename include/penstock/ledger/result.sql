-- name: read_results
-- The results of a pipeline, in the order in which they were declared.
select result_id, pipeline_id, table_name, definition, state, built_until, build_to, guards_dropped_at from penstock.result
where pipeline_id = %(pipeline_id)s order by result_id

-- name: has_published
-- Whether a load of the pipeline was ever published.
select exists (select from penstock.coverage where pipeline_id = %(pipeline_id)s)
    or exists (select from penstock.load where pipeline_id = %(pipeline_id)s and state = 'rolled_back') as has_published

-- name: add_result
-- Adds a result of a pipeline.
insert into penstock.result (pipeline_id, table_name, definition, state, current_since)
values (%(pipeline_id)s, %(table_name)s, %(definition)s, %(state)s, case when %(state)s = 'current' then now() end)
returning result_id

-- name: remove_results
-- Removes results; their tables stay.
delete from penstock.result where result_id = any (%(result_ids)s)

-- name: mark_changed
-- Notes the load that has changed the results.
update penstock.result set load_id = %(load_id)s where result_id = any (%(result_ids)s)

-- name: mark_guards_dropped
-- Notes that guards of a result were dropped after their time.
update penstock.result set guards_dropped_at = now() where result_id = %(result_id)s

-- name: begin_building
-- Begins the rebuild of a result with the loads that are published now.
insert into penstock.result (pipeline_id, table_name, definition, state, built_until, build_to)
select %(pipeline_id)s::bigint, %(table_name)s, %(definition)s, 'building', 0,
       coalesce((select max(load_id) from penstock.load where pipeline_id = %(pipeline_id)s::bigint), 0)
returning result_id

-- name: find_piece
-- The next loads of a rebuild, up to a number of rows: the last of them, and their rows. Null if none is left.
select max(load_id) as until_load, coalesce(sum(rows), 0)::bigint as rows
from (select load_id, rows, sum(rows) over (order by load_id) - rows as rows_before
      from (select load_id, sum(rows) as rows from penstock.coverage
            where pipeline_id = %(pipeline_id)s and load_id > %(built_until)s and load_id <= %(build_to)s
            group by load_id) l) l
where rows_before < %(most)s

-- name: mark_built
-- Notes how far a rebuild has read.
update penstock.result set built_until = %(until_load)s where result_id = %(result_id)s

-- name: finish_building
-- building -> current.
update penstock.result set state = 'current', current_since = now(), built_until = null, build_to = null
where result_id = %(result_id)s
