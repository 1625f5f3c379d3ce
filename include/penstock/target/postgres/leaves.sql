-- name: find_leaf
-- The partition of the target that holds the rows of a load, and whether it holds this load only.
select schema, name, from_load = %(load_id)s and until_load = %(load_id)s + 1 as is_exclusive
from (select n.nspname as schema, c.relname as name, b.bounds[1]::bigint as from_load, b.bounds[2]::bigint as until_load
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
      join pg_namespace n on n.oid = c.relnamespace
      cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                      $$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$$) as b (bounds)
      where i.inhparent = to_regclass(%(target)s)) leaf
where %(load_id)s >= from_load and %(load_id)s < until_load

-- name: find_missing_columns
-- Columns of the target that a table does not have: they were added after the table was created.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type
from pg_attribute a
where a.attrelid = to_regclass(%(target)s) and a.attnum > 0 and not a.attisdropped
  and not exists (select from pg_attribute k
                  where k.attrelid = to_regclass(%(table)s) and k.attname = a.attname and not k.attisdropped)
order by a.attnum

-- name: find_taken_indexes
-- Indexes of a table whose names are taken in another schema.
select c.relname as name
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass(%(table)s)
  and exists (select from pg_class o join pg_namespace n on n.oid = o.relnamespace
              where n.nspname = %(schema)s and o.relname = c.relname)
order by c.oid

-- name: end_merges
-- Ends the sessions of a merge that hold locks on leaves of the target.
select pg_terminate_backend(a.pid, 5000)
from pg_stat_activity a
where a.datname = current_database() and a.application_name = 'penstock maintain' and a.pid <> pg_backend_pid()
  and exists (select from pg_locks l join pg_inherits i on i.inhrelid = l.relation
              where l.pid = a.pid and l.locktype = 'relation' and i.inhparent = to_regclass(%(target)s))
