-- name: refresh_session_view
-- Makes the next query on pg_stat_activity in this transaction show the sessions as they are now.
select pg_stat_clear_snapshot()

-- name: find_holders
-- Sessions and prepared transactions that hold a lock of given modes on given tables; the longest transactions come
-- first. pg_blocking_pids does not serve here: it needs a session that waits at this moment.
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
