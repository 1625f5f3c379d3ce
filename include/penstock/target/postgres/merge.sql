-- name: read_clock
-- The clock of the server, by which PostgreSQL dates transactions.
select clock_timestamp() as moment

-- name: read_indexes
-- The indexes of the target: whether unique, and the part of CREATE INDEX that follows the name of the table.
select d.is_unique, substr(d.statement, strpos(d.statement, d.table_part) + length(d.table_part)) as definition
from (select i.indisunique as is_unique, pg_get_indexdef(i.indexrelid) as statement, i.indexrelid,
             format(' ON ONLY %%I.%%I ', n.nspname, c.relname) as table_part
      from pg_index i
      join pg_class c on c.oid = i.indrelid
      join pg_namespace n on n.oid = c.relnamespace
      where i.indrelid = to_regclass(%(target)s)
        and not exists (select from pg_constraint k where k.conindid = i.indexrelid)) d
where strpos(d.statement, d.table_part) > 0
order by d.indexrelid

-- name: find_waiting
-- Sessions that wait for a lock of this session.
select pid from pg_stat_activity
where datname = current_database() and wait_event_type = 'Lock' and pg_backend_pid() = any (pg_blocking_pids(pid))

-- name: find_older_snapshot
-- A transaction that began before a moment and still reads by its snapshot: it may not see later changes.
select pid from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
  and application_name <> 'penstock maintain' and backend_xmin is not null and xact_start < %(moment)s
limit 1
