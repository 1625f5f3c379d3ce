-- Fingerprints, taken when a range is loaded: of what the log held, chunk by chunk, and of the rows that came of it.

alter table penstock.stage_task add column log_hash bigint;
comment on column penstock.stage_task.log_hash is
    'A sum of hashes over offset, key and value of each record of the chunk; null if it was staged before they were taken.';

alter table penstock.load_range add column row_hash numeric;
alter table penstock.coverage add column row_hash numeric;
alter table penstock.aside add column row_hash numeric;
comment on column penstock.coverage.row_hash is
    'A sum of hashes over the range''s rows; null if they were loaded before fingerprints were taken.';
