-- name: end_losing_tries
-- Ends the sessions of stage tasks that still hold an attempt's table. Every chunk is written by now, so each such
-- session belongs to a try that lost.
select pg_terminate_backend(a.pid)
from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'relation' and l.database = (select oid from pg_database where datname = current_database())
  and l.relation = to_regclass(%(table)s) and a.application_name = 'penstock stage' and a.pid <> pg_backend_pid()

-- name: raise_sort_memory
-- Gives this transaction the memory for building indexes that the server or the role configures, within bounds.
select set_config('maintenance_work_mem', least(greatest(setting::bigint, %(least)s), %(most)s) || 'kB', true)
from pg_settings where name = 'maintenance_work_mem'

-- name: is_granted
-- Whether a role may read a table by a grant to this very role.
select exists (select from pg_class c cross join lateral aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
               where c.oid = to_regclass(%(table)s) and r.rolname = %(role)s) as granted
