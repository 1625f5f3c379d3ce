-- name: read_columns
-- The columns of the target as PostgreSQL spells them.
select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
from pg_attribute a
join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s and c.relname = %(table)s and a.attnum > 0 and not a.attisdropped
order by a.attnum

-- name: find_missing_columns
-- What the target has and a table lacks: columns that were added after the table was made.
select a.attname, format_type(a.atttypid, a.atttypmod)
from pg_attribute a
where a.attrelid = to_regclass(%(target)s) and a.attnum > 0 and not a.attisdropped
  and not exists (select from pg_attribute k
                  where k.attrelid = to_regclass(%(table)s) and k.attname = a.attname and not k.attisdropped)
order by a.attnum

-- name: read_kind
-- What the target is: a table partitioned by range of _load_id, or something else.
select coalesce(pg_get_partkeydef(c.oid), '') = 'RANGE (_load_id)'
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %(schema)s and c.relname = %(table)s

-- name: end_merges
-- A merge copies leaves of the target: it holds them as they are. Whoever changes them ends it; it starts again some day.
select pg_terminate_backend(a.pid, 5000)
from pg_stat_activity a
where a.datname = current_database() and a.application_name = 'penstock maintain' and a.pid <> pg_backend_pid()
  and exists (select from pg_locks l join pg_inherits i on i.inhrelid = l.relation
              where l.pid = a.pid and l.locktype = 'relation' and i.inhparent = to_regclass(%(target)s))

-- name: find_stale_tables
-- Tables of attempts that are not current, or whose load has ended. Published ones have left this schema.
select c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
cross join lateral regexp_match(c.relname, '^load_(\d+)_(\d+)$') as found
join penstock.load l on l.load_id = found[1]::bigint
where n.nspname = 'penstock_stage' and c.relkind = 'r'
  and (l.attempt <> found[2]::int
       or l.state not in ('planned', 'staging', 'staged', 'validated', 'held'))

-- name: check_rights
-- May this role create leaves beside the target (or its schema), and attach to it?
select coalesce(
           (select has_schema_privilege(n.oid, 'create') from pg_namespace n where n.nspname = %(schema)s),
           has_database_privilege(current_database(), 'create')),
       coalesce(
           (select pg_has_role(c.relowner, 'usage') from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = %(schema)s and c.relname = %(table)s),
           true)
