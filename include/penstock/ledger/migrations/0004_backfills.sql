-- Backfills: ranges that a person asked for, cut into loads that are each published for themselves.

create table penstock.backfill (
    backfill_id      int generated always as identity primary key,
    pipeline_id      int not null references penstock.pipeline,
    run_id           text not null,
    asked            text not null,
    replace          boolean not null,
    offsets_per_load bigint not null check (offsets_per_load > 0),
    actor            text not null,
    planned_at       timestamptz not null default now(),
    unique (pipeline_id, run_id)
);
comment on table penstock.backfill is 'What a person asked to be loaded once more, or for the first time after all.';

alter table penstock.load add column backfill_id int references penstock.backfill;
comment on column penstock.load.backfill_id is 'The backfill that the load is a part of; null for live loads.';
create index load_by_backfill on penstock.load (backfill_id) where backfill_id is not null;

create view penstock.backfills as
select p.name as pipeline, b.backfill_id, b.asked, b.replace, b.actor, b.planned_at,
       count(*) as loads, count(l.published_at) as loads_done,
       count(*) filter (where l.state in ('failed', 'held', 'discarded')) as loads_stopped,
       sum(r.offsets)::bigint as offsets,
       coalesce(sum(r.offsets) filter (where l.published_at is not null), 0)::bigint as offsets_done,
       coalesce(sum(l.rows) filter (where l.published_at is not null), 0)::bigint as rows,
       min(l.staging_at) as started_at, max(l.published_at) as last_published_at
from penstock.backfill b
join penstock.pipeline p using (pipeline_id)
join penstock.load l using (backfill_id)
cross join lateral (select sum(until_offset - from_offset) as offsets
                    from penstock.load_range where load_id = l.load_id) r
-- A load that failed and was planned anew counts once: as the new one.
where l.state <> 'superseded' or l.published_at is not null
group by p.name, b.backfill_id;
comment on view penstock.backfills is 'How far each backfill has come.';
