-- name: check_table_rights
-- Whether this role may create a table in a schema, or the schema itself, and owns the table if it exists.
select coalesce((select has_schema_privilege(n.oid, 'USAGE') and has_schema_privilege(n.oid, 'CREATE') from pg_namespace n where n.nspname = %(schema)s),
                has_database_privilege(current_database(), 'CREATE')) as may_create,
       coalesce((select pg_has_role(c.relowner, 'USAGE')
                 from pg_class c join pg_namespace n on n.oid = c.relnamespace
                 where n.nspname = %(schema)s and c.relname = %(table)s), true) as is_owner
