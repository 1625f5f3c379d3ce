-- name: role_exists
-- Whether the server has a role.
select exists (select from pg_roles where rolname = %(role)s) as found

-- name: may_become
-- Whether this session may take a role.
select exists (select from pg_roles where rolname = %(role)s and pg_has_role(session_user, oid, 'member')) as may

-- name: read_strength
-- The rights that a role (without its name: the role of this session) has and must not have: the first of each kind.
select r.rolname as name, r.rolsuper as is_superuser,
       coalesce((select pg_has_role(r.oid, c.oid, 'usage') from pg_roles c where c.rolname = 'penstock_checker'), false)
           as is_checker,
       (select s.rolname from pg_roles s
        where s.rolname = any (%(strong)s) and s.oid <> r.oid and pg_has_role(r.oid, s.oid, 'member')
        order by 1 limit 1) as strong,
       (select c.oid::regclass::text
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = any (%(schemas)s::text[] || array['penstock', 'penstock_stage', 'penstock_kept', 'penstock_results'])
          and c.relkind in ('r', 'p', 'v') and has_schema_privilege(r.oid, n.oid, 'usage')
          and has_table_privilege(r.oid, c.oid, 'insert, update, delete, truncate')
        limit 1) as writable
from pg_roles r where r.rolname = coalesce(%(role)s::text, session_user)

-- name: may_read
-- Whether a role may read a table; null where there is no such schema or table.
select (select has_schema_privilege(%(role)s, n.oid, 'usage') from pg_namespace n where n.nspname = %(schema)s) as may_use,
       (select has_table_privilege(%(role)s, c.oid, 'select')
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %(schema)s and c.relname = %(table)s and c.relkind in ('r', 'p', 'v', 'm', 'f')) as may_read
