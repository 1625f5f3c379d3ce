-- name: take_work_lock
-- Takes the shared session lock of a process that works on a load. Shared: it blocks no other process.
select pg_advisory_lock_shared(hashtextextended(%(work)s, 0))
