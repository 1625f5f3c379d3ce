-- Leaves that maintenance cannot merge: it leaves them out at once the next time, and merges the others.

create table penstock.left_out (
    pipeline_id int not null references penstock.pipeline,
    from_load   bigint not null,
    until_load  bigint not null,
    leaf        text not null,
    reason      text not null,
    found_at    timestamptz not null default now(),
    primary key (pipeline_id, from_load)
);
comment on table penstock.left_out is
    'Leaves whose rows PostgreSQL refuses to copy or to index. Each maintenance tries them alone before it merges.';
