-- Incidents: one cause of trouble of a pipeline each, from its first sight to its end. Notices: the outbox of messages.

create table penstock.incident (
    incident_id  bigint generated always as identity primary key,
    pipeline     text not null,
    kind         text not null,
    key          text not null,
    severity     text not null check (severity in ('error', 'warning', 'info')),
    load_id      bigint references penstock.load,
    ranges       jsonb not null default '[]',
    message      text not null,
    next_step    text not null,
    link         text,
    opened_at    timestamptz not null default now(),
    last_seen_at timestamptz not null default now(),
    times_seen   int not null default 1 check (times_seen > 0),
    ended_at     timestamptz,
    ended_by     text,
    ended_why    text,
    muted_until  timestamptz,
    muted_by     text,
    muted_why    text,
    check (ended_at is not null or ended_by is null),
    check ((muted_until is null) = (muted_by is null) and (muted_by is null) = (muted_why is null))
);
comment on table penstock.incident is 'One cause of trouble of one pipeline, whatever number of runs meet it.';
comment on column penstock.incident.pipeline is 'The name. A pipeline whose first plan fails has no row in penstock.pipeline.';
comment on column penstock.incident.ended_why is 'Null if an incident of another kind replaced it.';
create unique index incident_open on penstock.incident (pipeline, kind, key) where ended_at is null;
create index incident_by_key on penstock.incident (pipeline, kind, key, incident_id);

create table penstock.notice (
    notice_id       bigint generated always as identity primary key,
    incident_id     bigint not null references penstock.incident,
    kind            text not null check (kind in ('opened', 'reminder', 'ended', 'digest')),
    route           text not null,
    remind_after    interval,
    due_at          timestamptz not null,
    next_attempt_at timestamptz not null,
    attempts        int not null default 0 check (attempts >= 0),
    last_error      text,
    sent_at         timestamptz
);
comment on table penstock.notice is 'The outbox: messages that are due, are being sent, or were sent.';
comment on column penstock.notice.route is 'The id of the connection that holds the receivers.';
comment on column penstock.notice.next_attempt_at is
    'While a process sends the notice, the end of its lease: then another process may send the notice.';
create unique index notice_once on penstock.notice (incident_id, kind, route) where kind in ('opened', 'ended');
create index notice_due on penstock.notice (next_attempt_at) where sent_at is null;

-- The open trouble of a ledger from before the incidents, and which of it was alerted.
insert into penstock.incident (pipeline, kind, key, severity, message, next_step, opened_at, last_seen_at, ended_at, ended_by, ended_why)
select p.name, case h.kind when 'other_topic' then 'other_topic' else 'blocked_pipeline' end, 'hold ' || h.hold_id, 'error', h.cause,
       case when h.kind = 'log_lost' then format('run `penstock accept-loss %s --why …`.', p.name)
            else format('run `penstock adopt %s --why …`.', p.name) end,
       h.began_at, coalesce(h.ended_at, now()), h.ended_at,
       case when h.ended_at is not null then 'penstock' end, h.ended_by
from penstock.hold h join penstock.pipeline p using (pipeline_id)
where h.ended_at is null
   or h.ended_by is not null
      and exists (select from penstock.event e where e.hold_id = h.hold_id and e.what = 'alerted:hold_began')
      and not exists (select from penstock.event e where e.hold_id = h.hold_id and e.what = 'alerted:hold_ended');
insert into penstock.incident (pipeline, kind, key, severity, load_id, message, next_step, opened_at)
select p.name, 'held_load', 'load ' || l.load_id, 'error', l.load_id, coalesce(l.cause, 'a check failed'),
       format('publish it: `penstock approve %1$s --why …`, or give it up: `penstock discard %1$s --why …`.', l.load_id),
       coalesce(l.held_at, now())
from penstock.load l join penstock.pipeline p using (pipeline_id)
where l.state = 'held';
insert into penstock.incident (pipeline, kind, key, severity, ranges, message, next_step, opened_at, ended_at, ended_by, ended_why)
select p.name, 'loss', 'losses before the upgrade', 'error',
       jsonb_agg(jsonb_build_object('partition', x.partition, 'from_offset', lower(x.offsets), 'until_offset', upper(x.offsets))
                 order by x.loss_id),
       format('%s ranges of offsets are lost', count(*)), 'see penstock.losses.', min(x.found_at), now(), 'penstock', 'recorded'
from penstock.loss x join penstock.pipeline p using (pipeline_id)
where x.actor = 'penstock' and x.alerted_at is null
group by p.name;
insert into penstock.notice (incident_id, kind, route, remind_after, due_at, next_attempt_at, attempts, sent_at)
select i.incident_id, 'opened', p.declaration ->> 'alerts', interval '24 hours', i.opened_at, now(), past.times, past.at
from penstock.incident i join penstock.pipeline p on p.name = i.pipeline
cross join lateral (
    select count(*)::int as times, max(e.at) as at from penstock.event e
    where e.what = 'alerted:hold_began'
      and (e.load_id = i.load_id or 'hold ' || e.hold_id = i.key)) past
where p.declaration ->> 'alerts' is not null;
insert into penstock.notice (incident_id, kind, route, due_at, next_attempt_at)
select i.incident_id, 'ended', n.route, i.ended_at, now()
from penstock.incident i join penstock.notice n using (incident_id)
where i.ended_at is not null and i.kind <> 'loss' and n.sent_at is not null;
insert into penstock.notice (incident_id, kind, route, remind_after, due_at, next_attempt_at)
select i.incident_id, 'reminder', n.route, n.remind_after, now() + n.remind_after, now() + n.remind_after
from penstock.incident i join penstock.notice n using (incident_id)
where i.ended_at is null and n.sent_at is not null;
-- A hold is an incident of its pipeline: the next hold of the same kind is another incident.
update penstock.incident set key = 'log_lost' where key like 'hold %' and ended_at is null and next_step like '%accept-loss%';
update penstock.incident set key = 'log_cut' where key like 'hold %' and ended_at is null and kind = 'blocked_pipeline';
update penstock.incident set key = 'other_topic' where key like 'hold %' and ended_at is null;

create view penstock.incidents as
select i.pipeline, i.incident_id, i.kind, i.severity,
       case when i.ended_at is not null then 'ended' when i.muted_until > now() then 'muted' else 'open' end as state,
       i.load_id, i.ranges, i.message, i.next_step, i.link, i.opened_at, i.last_seen_at, i.times_seen, i.ended_at, i.ended_by,
       i.ended_why, i.muted_until, i.muted_by, i.muted_why, i.key
from penstock.incident i;
comment on view penstock.incidents is 'The trouble of each pipeline, since when, how often, and the next step.';

create view penstock.notices as
select i.pipeline, n.incident_id, n.notice_id, n.kind, n.route, n.due_at, n.attempts, n.next_attempt_at, n.last_error, n.sent_at
from penstock.notice n join penstock.incident i using (incident_id);
comment on view penstock.notices is 'The messages about incidents: due, sent, or refused by their receiver.';

alter table penstock.pipeline add column up_to_date_at timestamptz;
comment on column penstock.pipeline.up_to_date_at is 'When a plan last found nothing new to load.';
