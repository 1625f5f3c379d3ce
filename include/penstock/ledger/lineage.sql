-- name: read_times
-- When a load was planned and published; no row while it is not published.
select planned_at, published_at from penstock.load where load_id = %(load_id)s and published_at is not null

-- name: read_move
-- The newest rollback of a load, or the newest undo of one, by its number and its time.
select event_id, at from penstock.event where load_id = %(load_id)s and what = %(what)s order by event_id desc limit 1

-- name: summarize_checks
-- The expectations of the attempt of a load, each once: an expectation succeeds if it succeeds in all partitions.
select r.expectation, r."column", r.severity, bool_and(r.success) as success
from penstock.check_result r join penstock.load l using (load_id)
where r.load_id = %(load_id)s and r.attempt = l.attempt
group by r.kind, r.expectation, r."column", r.severity, r.check_id
order by min(r.ordinal)
