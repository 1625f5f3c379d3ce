-- What rows lacked to be those that were published when others of their load were replaced.

create table penstock.difference (
    load_id   bigint not null references penstock.load,
    partition int not null,
    row_hash  numeric not null,
    rows      bigint not null,
    primary key (load_id, partition)
);
comment on table penstock.difference is
    'Rows had been changed behind Penstock''s back when a part of them was replaced. In which of the ranges that the load '
    'still covers they lie nobody knows: the fingerprints and counts of those, and this, add up to what was published.';
