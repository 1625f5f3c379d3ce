-- name: begin_hold
-- The pipeline is blocked from now on: a person decides.
insert into penstock.hold (pipeline_id, kind, cause) values (%(pipeline_id)s, %(kind)s, %(cause)s)

-- name: renew_hold
-- Updates the cause of the open hold of the same kind; no row is updated if there is none.
update penstock.hold set cause = %(cause)s
where pipeline_id = %(pipeline_id)s and kind = %(kind)s and ended_at is null

-- name: end_hold
-- Ends the open hold of a pipeline, and returns its name if there was one. Without `ended_by`, a hold of another kind replaces it.
update penstock.hold h set ended_at = now(), ended_by = %(ended_by)s
where pipeline_id = %(pipeline_id)s and ended_at is null
returning (select p.name from penstock.pipeline p where p.pipeline_id = h.pipeline_id)
