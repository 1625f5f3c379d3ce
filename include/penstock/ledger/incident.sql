-- name: see_incident
-- Opens an incident with its notices, or counts another sighting of the open incident. A load counts once, whatever is
-- tried again. A mute of the same trouble continues.
with seen as (
    insert into penstock.incident as i (pipeline, kind, key, severity, load_id, ranges, message, next_step, link,
                                        ended_at, ended_by, ended_why, muted_until, muted_by, muted_why)
    select %(pipeline)s, %(kind)s, %(key)s, %(severity)s, %(load_id)s::bigint, %(ranges)s::jsonb, %(message)s, %(next_step)s,
           %(link)s, case when %(is_over)s then now() end, case when %(is_over)s then 'penstock' end,
           case when %(is_over)s then 'it is recorded' end, m.muted_until, m.muted_by, m.muted_why
    from (select) once
    left join lateral (
        select muted_until, muted_by, muted_why from penstock.incident
        where pipeline = %(pipeline)s and kind = %(kind)s and key = %(key)s and muted_until > now()
        order by incident_id desc limit 1) m on true
    on conflict (pipeline, kind, key) where ended_at is null do update
        set last_seen_at = now(), message = excluded.message, next_step = excluded.next_step, ranges = excluded.ranges,
            times_seen = i.times_seen + (excluded.load_id is null or excluded.load_id is distinct from i.load_id)::int,
            load_id = excluded.load_id, link = coalesce(excluded.link, i.link)
    returning incident_id, severity, xmax = 0 as is_new
)
insert into penstock.notice (incident_id, kind, route, remind_after, due_at, next_attempt_at)
select s.incident_id, d.kind, r.route, make_interval(secs => r.remind_seconds), d.due_at, d.due_at
from seen s
cross join lateral (
    select case s.severity when 'warning' then 'digest' else 'opened' end as kind,
           case s.severity when 'warning' then date_trunc('day', now() - %(digest_at)s::interval) + interval '1 day' + %(digest_at)s::interval
                           else now() end as due_at) d
cross join jsonb_to_recordset(%(routes)s) as r (route text, remind_seconds double precision)
where s.is_new
returning notice_id

-- name: end_incidents
-- Ends the open incidents of a pipeline. Notices of their begin that nobody got are deleted; the others get a notice of
-- the end. The lock makes a notice that is being sent count as sent. Without a reason, another incident replaces them.
with ended as (
    update penstock.incident
    set ended_at = now(), ended_by = %(ended_by)s, ended_why = %(why)s
    where pipeline = %(pipeline)s and ended_at is null
      and (%(kinds)s::text[] is null or kind = any(%(kinds)s::text[]))
      and (%(keys)s::text[] is null or key = any(%(keys)s::text[]))
      and not (key = any(%(except_keys)s::text[]))
      and (%(except_prefix)s::text is null or not starts_with(key, %(except_prefix)s::text))
    returning incident_id
), known as (
    select n.notice_id, n.incident_id, n.kind, n.route, n.attempts, n.sent_at
    from penstock.notice n join ended using (incident_id) for update of n
), dropped as (
    delete from penstock.notice n using known k
    where n.notice_id = k.notice_id and k.sent_at is null and k.kind in ('opened', 'reminder')
)
insert into penstock.notice (incident_id, kind, route, due_at, next_attempt_at)
select incident_id, 'ended', route, now(), now() from known
where kind = 'opened' and attempts > 0 and %(why)s::text is not null

-- name: link_incidents
-- Adds the link to the run, and the next step that fits there, to open incidents that have no link yet.
update penstock.incident set link = %(link)s, next_step = coalesce(nullif(%(next_step)s, ''), next_step)
where pipeline = %(pipeline)s and kind = any(%(kinds)s) and ended_at is null and link is null
  and (load_id is null or load_id = coalesce(%(load_id)s::bigint, load_id))

-- name: read_incidents
-- The newest incidents of a pipeline, or of all; the open ones, or those that have ended too.
select incident_id as incident, pipeline, kind, severity, state, load_id as load, ranges, message, next_step, link, opened_at,
       last_seen_at, times_seen, ended_at, ended_by, ended_why, muted_until, muted_by, muted_why
from penstock.incidents
where (%(pipeline)s::text is null or pipeline = %(pipeline)s) and (%(ended)s or ended_at is null)
  and (%(incident_id)s::bigint is null or incident_id = %(incident_id)s::bigint)
order by incident_id desc limit %(most)s

-- name: change_mute
-- Mutes an open incident until a time, or ends its mute, and keeps who decided and why. The event needs a pipeline that
-- was planned before.
with muted as (
    update penstock.incident
    set muted_until = %(until)s, muted_by = case when %(until)s::timestamptz is not null then %(who)s end,
        muted_why = case when %(until)s::timestamptz is not null then %(why)s end
    where incident_id = %(incident_id)s and ended_at is null
    returning incident_id, pipeline
), event as (
    insert into penstock.event (actor, pipeline_id, what, why)
    select %(who)s, p.pipeline_id,
           case when %(until)s::timestamptz is null then 'unmuted' else 'muted' end || ' incident ' || m.incident_id, %(why)s
    from muted m join penstock.pipeline p on p.name = m.pipeline
)
select incident_id from muted

-- name: find_overdue
-- Pipelines whose last success is longer ago than their limit: a published live load, or a plan that found nothing new.
-- A pipeline with other open trouble of %(causes)s that stops its live loads is not reported twice. A ledger counts from
-- its first day with incidents, because older plans that found nothing left no trace.
select w.pipeline, s.since, now() - s.since as age
from unnest(%(names)s::text[], %(seconds)s::float8[]) as w (pipeline, seconds)
join penstock.pipeline p on p.name = w.pipeline
cross join lateral (
    select greatest(p.created_at, p.up_to_date_at,
                    (select applied_at from penstock.migration where name = '0019_incidents.sql'),
                    (select l.published_at from penstock.load l
                     where l.pipeline_id = p.pipeline_id and l.kind = 'live' and l.published_at is not null
                     order by l.load_id desc limit 1)) as since) s
where now() - s.since > make_interval(secs => w.seconds)
  and not exists (select from penstock.incident i
                  where i.pipeline = w.pipeline and i.ended_at is null and i.kind = any(%(causes)s)
                    and not exists (select from penstock.load l where l.load_id = i.load_id and l.kind <> 'live'))
order by w.pipeline

-- name: find_due_routes
-- The routes that have notices to send now.
select distinct route from penstock.notice where sent_at is null and next_attempt_at <= clock_timestamp()

-- name: claim_notices
-- Leases notices to this process. If it dies, another process sends them after the lease. No lock is held while a notice
-- is sent, so no change of state waits for a receiver. A mute holds back everything except the end.
with due as (
    select n.notice_id
    from penstock.notice n join penstock.incident i using (incident_id)
    where n.sent_at is null and n.next_attempt_at <= clock_timestamp() and n.route = any(%(routes)s)
      and (n.kind = 'digest') = %(digests)s
      and (n.kind = 'ended' or i.muted_until is null or i.muted_until <= now())
      and (n.kind <> 'reminder' or i.ended_at is null)
    order by n.next_attempt_at, n.notice_id limit %(most)s
    for update of n skip locked
), claimed as (
    update penstock.notice n
    set attempts = attempts + 1, next_attempt_at = clock_timestamp() + %(lease)s::interval
    from due where n.notice_id = due.notice_id
    returning n.*
)
select c.notice_id, c.kind as notice, c.route, c.attempts, i.incident_id, i.pipeline, i.kind, i.key, i.load_id as load,
       i.ranges, i.message, i.next_step, i.link, i.opened_at, i.last_seen_at, i.times_seen, i.ended_at, i.ended_by, i.ended_why
from claimed c join penstock.incident i using (incident_id)
order by c.notice_id

-- name: finish_notices
-- Records that notices were sent, and schedules the next reminder of incidents that are still open.
with sent as (
    update penstock.notice set sent_at = clock_timestamp(), last_error = null
    where notice_id = any(%(notice_ids)s) and sent_at is null
    returning *
)
insert into penstock.notice (incident_id, kind, route, remind_after, due_at, next_attempt_at)
select s.incident_id, case s.kind when 'digest' then 'digest' else 'reminder' end, s.route, s.remind_after,
       d.due_at, d.due_at
from sent s
join penstock.incident i using (incident_id)
cross join lateral (
    select case s.kind when 'digest' then date_trunc('day', s.sent_at + s.remind_after - %(digest_at)s::interval) + %(digest_at)s::interval
                       else s.sent_at + s.remind_after end as due_at) d
where s.kind <> 'ended' and s.remind_after is not null and i.ended_at is null

-- name: postpone_notices
-- Returns notices that no receiver took. The wait doubles with each attempt, up to an hour.
update penstock.notice
set last_error = %(error)s,
    next_attempt_at = clock_timestamp() + least(interval '30 seconds' * power(2, least(attempts, 10) - 1), interval '1 hour')
where notice_id = any(%(notice_ids)s) and sent_at is null

-- name: return_notices
-- Returns notices that were claimed and not tried, because their receiver did not answer another notice, or because the
-- time of the process was over.
update penstock.notice
set attempts = attempts - 1, next_attempt_at = clock_timestamp() + interval '30 seconds'
where notice_id = any(%(notice_ids)s) and sent_at is null

-- name: list_notices
-- The newest notices of each of some incidents, the newest first.
select n.incident_id as incident, n.kind, n.route, n.due_at, n.attempts, n.next_attempt_at, n.last_error, n.sent_at
from (select *, row_number() over (partition by incident_id order by notice_id desc) as place from penstock.notice
      where incident_id = any (%(incident_ids)s)) n
where n.place <= %(most)s order by n.notice_id desc
