-- With transactional producers each range of each load has a hole, and each daily verification looked at all of them: it
-- found none without a name, and summed them by kind. Loads are remembered now whose holes are all named.

create table penstock.named_load (
    load_id     bigint primary key references penstock.load,
    aborted     bigint not null,
    marker      bigint not null,
    compacted   bigint not null,
    unexplained bigint not null,
    gone        bigint not null
);
comment on table penstock.named_load is
    'Loads with a name for each hole of what they cover while they are published, and the number of holes by kind. Who changes '
    'the names, or what a published load covers, locks the load and deletes its row.';
