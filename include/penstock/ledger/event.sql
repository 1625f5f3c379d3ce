-- name: record_event
-- Records who did what, and why.
insert into penstock.event (actor, pipeline_id, load_id, what, why)
values (%(actor)s, %(pipeline_id)s, %(load_id)s, %(what)s, %(why)s)

-- name: was_approved
-- Whether a person has approved the load before. An approval that was interrupted can then continue.
select exists (select from penstock.event where load_id = %(load_id)s and what = 'approved') as approved
