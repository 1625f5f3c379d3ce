-- name: register_pipeline
-- Inserts the row of a pipeline, or updates it if the declaration has changed.
insert into penstock.pipeline as p (name, topic, target, declaration)
values (%(name)s, %(topic)s, %(target)s, %(declaration)s)
on conflict (name) do update
    set topic = excluded.topic, target = excluded.target, declaration = excluded.declaration, changed_at = now()
    where p.declaration is distinct from excluded.declaration

-- name: lock_pipeline
-- Locks the row of a pipeline: plan, publish and every decision of a person take this lock. FOR NO KEY UPDATE does not
-- block the foreign keys that point to the row.
select pipeline_id from penstock.pipeline where name = %(name)s for no key update

-- name: lock_pipeline_now
-- Takes the same lock, or raises an error at once: the session that holds it may wait for a lock of this session.
select from penstock.pipeline where pipeline_id = %(pipeline_id)s for no key update nowait

-- name: mark_up_to_date
-- Records that a plan found nothing new to load. The transaction holds the lock of the row already.
update penstock.pipeline set up_to_date_at = now() where pipeline_id = %(pipeline_id)s

-- name: find_pipeline
-- The number of a pipeline; no row before its first plan.
select pipeline_id from penstock.pipeline where name = %(name)s
