-- name: run_result
-- Runs statements of a result as the role of results.
select penstock.run_result(%(statements)s)

-- name: read_session
-- The traces that statements can leave besides rows: objects of the role of results, temporary relations, settings,
-- prepared statements, and cursors that outlive the transaction. Names are qualified, because a temporary relation hides
-- one of the catalog. Settings of the planner and of memory change no result; those with a dot belong to libraries,
-- which add them when they are loaded.
select (select pg_catalog.count(*) from pg_catalog.pg_shdepend d join pg_catalog.pg_roles r on r.oid = d.refobjid
        where d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass and r.rolname = %(writer)s and d.deptype = 'o'
          and d.dbid = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
       ) as objects,
       (select coalesce(pg_catalog.string_agg(relname, ' ' order by relname), '') from pg_catalog.pg_class
        where relnamespace = pg_catalog.pg_my_temp_schema()) as "temporary relations",
       (select pg_catalog.md5(pg_catalog.string_agg(name || '=' || setting, ' ' order by name))
        from pg_catalog.pg_settings where pg_catalog.strpos(name, '.') = 0
           and category not like 'Query Tuning%%' and category not like 'Resource Usage%%') as settings,
       (select coalesce(pg_catalog.string_agg(name || statement, ' ' order by name), '')
        from pg_catalog.pg_prepared_statements) as "prepared statements",
       (select pg_catalog.count(*) from pg_catalog.pg_cursors where is_holdable) as cursors
