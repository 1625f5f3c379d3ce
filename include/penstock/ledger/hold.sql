-- name: begin_hold
-- A pipeline that waits for a person from now on.
insert into penstock.hold (pipeline_id, kind, cause) values (%(pipeline_id)s, %(kind)s, %(cause)s)

-- name: renew_hold
-- The same hold, found again: its cause as it is now. No row, if there is none of this kind.
update penstock.hold set cause = %(cause)s
where pipeline_id = %(pipeline_id)s and kind = %(kind)s and ended_at is null

-- name: end_hold
-- The pipeline goes on; without `ended_by`, it is held for something else from now on.
update penstock.hold set ended_at = now(), ended_by = %(ended_by)s
where pipeline_id = %(pipeline_id)s and ended_at is null

-- name: find_untold_holds
-- Holds of which an alert is due: of the beginning while it lasts, of the end if the beginning was told.
select h.hold_id, h.kind, h.cause, h.ended_by, h.ended_at is not null as ended
from penstock.hold h join penstock.pipeline p using (pipeline_id)
cross join lateral (
    select coalesce(bool_or(e.what = 'alerted:hold_began'), false) as began,
           coalesce(bool_or(e.what = 'alerted:hold_ended'), false) as ended
    from penstock.event e where e.hold_id = h.hold_id) told
where p.name = %(pipeline)s
  and (h.ended_at is null and not told.began or h.ended_by is not null and told.began and not told.ended)
order by h.hold_id

-- name: claim_hold_alert
-- The right to send an alert of a hold, once for each kind, and only while it is true.
insert into penstock.event (actor, pipeline_id, hold_id, what)
select 'penstock', h.pipeline_id, h.hold_id, 'alerted:' || %(kind)s
from penstock.hold h
where h.hold_id = %(hold_id)s
  and case %(kind)s when 'hold_began' then h.ended_at is null else h.ended_by is not null end
on conflict (hold_id, what) where what like 'alerted:%%' do nothing
returning event_id

-- name: find_untold_losses
-- Losses that no person gave up, and that nobody has been told of.
select x.loss_id, x.partition, lower(x.offsets) as from_offset, upper(x.offsets) as until_offset, x.reason
from penstock.loss x join penstock.pipeline p using (pipeline_id)
where p.name = %(pipeline)s and x.actor = 'penstock' and x.alerted_at is null
order by 1

-- name: claim_loss_alert
-- The right to tell of losses, once. Another that claims them at the same time waits, and gets none of them.
update penstock.loss set alerted_at = now()
where loss_id = any(%(loss_ids)s) and alerted_at is null
returning loss_id
