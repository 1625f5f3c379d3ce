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

-- name: read_partitions
-- The partitions of the target, and what they are partitioned into: schema and name.
select n.nspname, c.relname
from pg_partition_tree(to_regclass(%(target)s)) t
join pg_class c on c.oid = t.relid
join pg_namespace n on n.oid = c.relnamespace
where t.level > 0
order by c.oid

-- name: read_default_partition
-- The default partition of the target, if there is one: schema and name.
select n.nspname, c.relname
from pg_partitioned_table p
join pg_class c on c.oid = p.partdefid
join pg_namespace n on n.oid = c.relnamespace
where p.partrelid = to_regclass(%(target)s)

-- name: read_indexed_columns
-- The columns of each index of the target that orders all rows by columns alone.
select array_agg(a.attname::text order by k.place)
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_am m on m.oid = c.relam and m.amname = 'btree'
cross join unnest(i.indkey::int2[]) with ordinality as k (number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = to_regclass(%(target)s) and i.indisvalid and i.indpred is null and i.indexprs is null
  and i.indnatts = i.indnkeyatts
group by i.indexrelid

-- name: find_free_name
-- The first name that no table, index, sequence, view or type of the schema has. A table brings a type of its name.
select wanted.name
from unnest(%(names)s::text[]) with ordinality as wanted (name, place)
where not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where n.nspname = %(schema)s and c.relname = wanted.name)
  and not exists (select from pg_type t join pg_namespace n on n.oid = t.typnamespace
                  where n.nspname = %(schema)s and t.typname = wanted.name)
order by wanted.place
limit 1

-- name: find_taken_indexes
-- Indexes of a table whose names are taken in another schema.
select c.relname
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass(%(table)s)
  and exists (select from pg_class o join pg_namespace n on n.oid = o.relnamespace
              where n.nspname = %(schema)s and o.relname = c.relname)
order by c.oid

-- name: look_again
-- Within a transaction PostgreSQL shows the sessions as it has shown them before, unless it is asked to look again.
select pg_stat_clear_snapshot()

-- name: find_holders
-- Sessions and prepared transactions that hold a lock of some mode on some tables, those longest in a transaction first.
-- A lock that nobody waits for blocks nobody: pg_blocking_pids does not know it.
select l.pid, p.gid as prepared, coalesce(a.usename, p.owner)::text as role, a.application_name as application,
       coalesce(a.xact_start, p.prepared) as since, a.query as statement
from (select distinct pid, virtualtransaction from pg_locks
      where locktype = 'relation' and granted and pid is distinct from pg_backend_pid()
        and database = (select oid from pg_database where datname = current_database())
        and relation in (select to_regclass(name) from unnest(%(tables)s::text[]) name)
        and mode = any (%(modes)s)) l
left join pg_stat_activity a on a.pid = l.pid
left join pg_prepared_xacts p on l.pid is null and l.virtualtransaction = '-1/' || p.transaction
order by since nulls last, l.pid
