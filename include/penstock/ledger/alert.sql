-- name: find_due_holds
-- Holds of a pipeline with an alert that is due: of the begin while the hold lasts; of the end, if the alert of the
-- begin was delivered.
select h.hold_id, h.kind, h.cause, h.ended_by, h.ended_at is not null as ended
from penstock.hold h join penstock.pipeline p using (pipeline_id)
cross join lateral (
    select coalesce(bool_or(e.what = 'alerted:hold_began'), false) as began,
           coalesce(bool_or(e.what = 'alerted:hold_ended'), false) as ended
    from penstock.event e where e.hold_id = h.hold_id) told
where p.name = %(pipeline)s
  and (h.ended_at is null and not told.began or h.ended_by is not null and told.began and not told.ended)
order by h.hold_id

-- name: find_due_losses
-- Losses that were recorded without a person's decision and that no alert has reported.
select x.loss_id, x.partition, lower(x.offsets) as from_offset, upper(x.offsets) as until_offset, x.reason
from penstock.loss x join penstock.pipeline p using (pipeline_id)
where p.name = %(pipeline)s and x.actor = 'penstock' and x.alerted_at is null
order by 1

-- name: claim_load_alert
-- Claims the right to send an alert of a load: once for each load and kind, and only while the alert is true. Another
-- session that claims it at the same time waits for this transaction, and gets the right if it rolls back.
insert into penstock.event (actor, pipeline_id, load_id, what)
select 'penstock', l.pipeline_id, l.load_id, 'alerted:' || %(kind)s
from penstock.load l
where l.load_id = %(load_id)s
  and case %(kind)s when 'hold_began' then l.state = 'held'
                    when 'hold_ended' then l.state <> 'held' and l.held_at is not null
                    else l.state <> 'published' end
on conflict (load_id, what) where what like 'alerted:%%' do nothing
returning event_id

-- name: claim_hold_alert
-- Claims the right to send an alert of a hold: once for each hold and kind, and only while the alert is true.
insert into penstock.event (actor, pipeline_id, hold_id, what)
select 'penstock', h.pipeline_id, h.hold_id, 'alerted:' || %(kind)s
from penstock.hold h
where h.hold_id = %(hold_id)s
  and case %(kind)s when 'hold_began' then h.ended_at is null else h.ended_by is not null end
on conflict (hold_id, what) where what like 'alerted:%%' do nothing
returning event_id

-- name: claim_loss_alert
-- Claims the right to report losses, once. Another session that claims them at the same time waits, and gets none of
-- them.
update penstock.loss set alerted_at = now()
where loss_id = any(%(loss_ids)s) and alerted_at is null
returning loss_id
