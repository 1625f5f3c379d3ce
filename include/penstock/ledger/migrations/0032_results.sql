-- Results: tables that are derived from the rows of a target, in the transaction that publishes the rows.

create schema penstock_results;
comment on schema penstock_results is
    'What results need beside their tables: deletions and overtaken rows of upserts, and tables that are being rebuilt.';

create table penstock.result (
    result_id     bigint generated always as identity primary key,
    pipeline_id   bigint not null references penstock.pipeline,
    table_name    text not null,
    definition    jsonb not null,
    state         text not null check (state in ('waiting', 'building', 'current')),
    declared_at   timestamptz not null default now(),
    current_since timestamptz,
    load_id       bigint,
    built_until   bigint,
    build_to      bigint,
    check ((state = 'building') = (built_until is not null and build_to is not null)),
    unique (table_name, state)
);
create index on penstock.result (pipeline_id);
comment on table penstock.result is
    'The results of pipelines. A changed or added result waits for a rebuild; until then the table follows the current definition.';
comment on column penstock.result.built_until is 'The last load whose rows a rebuild has read.';
comment on column penstock.result.build_to is 'The last load that was published when the rebuild began: later ones change the new table themselves.';
comment on column penstock.result.load_id is 'The load whose publish, replay or rollback changed the result last.';

create view penstock.results as
select p.name as pipeline, r.table_name as "table", r.definition ->> 'mode' as mode, r.state, r.declared_at, r.current_since, r.load_id
from penstock.result r join penstock.pipeline p using (pipeline_id);
comment on view penstock.results is
    'A table that is derived from the rows of a pipeline: current, waiting for a rebuild, or being built.';

-- The SQL of results runs as a role that may touch the relations it is given and nothing else. PostgreSQL refuses
-- SET ROLE inside a function that runs as its owner, so a statement cannot leave this role.
create function penstock.run_result(statements text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if current_user <> 'penstock_result_writer' then
        raise insufficient_privilege using
            message = 'the function penstock.run_result belongs to ' || current_user || ', not to penstock_result_writer',
            hint = 'run penstock migrate as a superuser, or the statements that it prints';
    end if;
    execute statements;
end
$$;
revoke all on function penstock.run_result(text) from public;
comment on function penstock.run_result(text) is
    'Runs the statements of a result as the role penstock_result_writer, in the transaction of the publish.';
