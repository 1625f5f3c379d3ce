-- Holds of a pipeline, and losses: what stops it before any load is planned, and who decided what became of it.

create table penstock.hold (
    hold_id     int generated always as identity primary key,
    pipeline_id int not null references penstock.pipeline,
    kind        text not null check (kind in ('log_lost', 'log_cut', 'other_topic')),
    cause       text not null,
    began_at    timestamptz not null default now(),
    ended_at    timestamptz,
    ended_by    text,
    check (ended_at is not null or ended_by is null)
);
comment on table penstock.hold is 'A pipeline that loads nothing because the log does not fit what was loaded so far.';
comment on column penstock.hold.ended_by is 'What ended it; null if it became a hold of another kind.';
-- A pipeline is held once at a time, however many of its runs find it so.
create unique index hold_open on penstock.hold (pipeline_id) where ended_at is null;

-- One alert of each kind for a hold, whatever is tried again.
alter table penstock.event add column hold_id int references penstock.hold;
create unique index event_alerted_once_for_a_hold on penstock.event (hold_id, what) where what like 'alerted:%';

alter table penstock.loss
    add column actor      text not null default 'penstock',
    add column why        text,
    add column alerted_at timestamptz,
    -- What is lost is lost once; that it was never published either, the positions see to.
    add constraint loss_never_overlaps exclude using gist (
        int4range(pipeline_id, pipeline_id, '[]') with &&,
        int4range(generation_id, generation_id, '[]') with &&,
        int4range(partition, partition, '[]') with &&,
        offsets with &&);
comment on column penstock.loss.actor is 'Who gave the offsets up: a person, or penstock by the pipeline''s on_loss.';

create or replace view penstock.losses as
select p.name as pipeline, x.generation_id as generation, x.partition,
       lower(x.offsets) as from_offset, upper(x.offsets) as until_offset, x.reason, x.found_at, x.actor, x.why
from penstock.loss x join penstock.pipeline p using (pipeline_id);

create view penstock.holds as
select p.name as pipeline, h.hold_id, h.kind, h.cause, h.began_at, h.ended_at, h.ended_by
from penstock.hold h join penstock.pipeline p using (pipeline_id);
