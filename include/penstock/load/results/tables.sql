-- name: table_exists
-- Whether a table exists.
select to_regclass(%(table)s) is not null as table_exists

-- name: schema_exists
-- Whether a schema exists.
select to_regnamespace(quote_ident(%(schema)s)) is not null as schema_exists

-- name: is_own
-- Whether a table has the comment of the pipeline's results; no row if there is no table.
select obj_description(c.oid, 'pg_class') is not distinct from %(comment)s as is_own
from pg_class c where c.oid = to_regclass(%(table)s)
