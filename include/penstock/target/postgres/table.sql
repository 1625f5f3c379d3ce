-- name: read_columns
-- The columns of the target: name, type as PostgreSQL spells it, and whether the column is not null.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as not_null
from pg_attribute a
join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s and c.relname = %(table)s and a.attnum > 0 and not a.attisdropped
order by a.attnum

-- name: find_default_partition
-- The default partition of the target, if there is one.
select n.nspname as schema, c.relname as name
from pg_partitioned_table p
join pg_class c on c.oid = p.partdefid
join pg_namespace n on n.oid = c.relnamespace
where p.partrelid = to_regclass(%(target)s)

-- name: find_free_name
-- The first name that no table, index, sequence, view or type of the schema has. PostgreSQL creates a type of the same
-- name for every table.
select wanted.name
from unnest(%(names)s::text[]) with ordinality as wanted (name, place)
where not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where n.nspname = %(schema)s and c.relname = wanted.name)
  and not exists (select from pg_type t join pg_namespace n on n.oid = t.typnamespace
                  where n.nspname = %(schema)s and t.typname = wanted.name)
order by wanted.place
limit 1
