-- Guards of deleted keys are dropped after a declared time; the proof of a result must know that some are missing.

alter table penstock.result add column guards_dropped_at timestamptz;
comment on column penstock.result.guards_dropped_at is
    'When maintenance last dropped guards of keys that were deleted long ago; null if it never has.';
