-- name: table_exists
-- Whether a table exists.
select to_regclass(%(table)s) is not null as table_exists

-- name: schema_exists
-- Whether a schema exists.
select to_regnamespace(quote_ident(%(schema)s)) is not null as schema_exists
