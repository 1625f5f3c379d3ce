-- What the holes of published ranges are. A row names all holes of a window of offsets of one load; where a range
-- changes hands, windows that lie inside what the load keeps of it stay true.

create table penstock.naming (
    load_id     bigint not null references penstock.load,
    partition   int not null,
    offsets     int8range not null check (not isempty(offsets)),
    aborted     bigint not null check (aborted >= 0),
    marker      bigint not null check (marker >= 0),
    compacted   bigint not null check (compacted >= 0),
    unexplained bigint not null check (unexplained >= 0),
    gone        bigint not null check (gone >= 0),
    named_at    timestamptz not null default now(),
    primary key (load_id, partition, offsets),
    constraint naming_never_overlaps exclude using gist (
        int8range(load_id, load_id, '[]') with &&,
        int4range(partition, partition, '[]') with &&,
        offsets with &&)
);
comment on table penstock.naming is 'What a second reader of the log found at the offsets without a row.';
comment on column penstock.naming.gone is 'Holes that the log no longer held when they were to be named.';

create table penstock.unexplained (
    load_id   bigint not null references penstock.load,
    partition int not null,
    offsets   int8range not null check (not isempty(offsets)),
    why       text not null,
    found_at  timestamptz not null default now(),
    primary key (load_id, partition, offsets)
);
comment on table penstock.unexplained is 'The holes that nothing in the log explains; of one naming, the first hundred ranges.';

create view penstock.holes as
select p.name as pipeline, c.generation_id as generation, c.load_id, c.partition,
       lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, k.kind, k.holes
from penstock.coverage c
join penstock.pipeline p using (pipeline_id)
cross join lateral (
    select coalesce(sum(n.aborted), 0)::bigint as aborted, coalesce(sum(n.marker), 0)::bigint as marker,
           coalesce(sum(n.compacted), 0)::bigint as compacted, coalesce(sum(n.unexplained), 0)::bigint as unexplained,
           coalesce(sum(n.gone), 0)::bigint as gone
    from penstock.naming n
    where n.load_id = c.load_id and n.partition = c.partition and n.offsets <@ c.offsets) n
cross join lateral (values
    ('aborted', n.aborted), ('marker', n.marker), ('compacted', n.compacted), ('unexplained', n.unexplained),
    ('gone', n.gone), ('unnamed', c.holes - n.aborted - n.marker - n.compacted - n.unexplained - n.gone)
) as k (kind, holes)
where k.holes > 0;
comment on view penstock.holes is 'How many holes of each kind every published range has; of those not looked at yet, `unnamed`.';

create view penstock.unexplained_holes as
select p.name as pipeline, c.generation_id as generation, c.load_id, c.partition,
       lower(u.offsets * c.offsets) as from_offset, upper(u.offsets * c.offsets) as until_offset, u.why, u.found_at
from penstock.coverage c
join penstock.pipeline p using (pipeline_id)
join penstock.unexplained u on u.load_id = c.load_id and u.partition = c.partition and u.offsets && c.offsets;
