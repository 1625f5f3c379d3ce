-- name: lock_migrations
-- Makes two migrations of one database wait for each other.
select pg_advisory_xact_lock(%(lock)s)

-- name: has_migrations
-- Whether the ledger exists.
select to_regclass('penstock.migration') is not null

-- name: read_applied
-- The migrations that were applied, with their checksums. The table has no column `checksum` before migration 0015.
select name, to_jsonb(m) ->> 'checksum' as checksum from penstock.migration m order by name

-- name: create_schema
-- Creates the schema.
create schema if not exists penstock

-- name: create_migrations
-- Creates the table of the applied migrations.
create table if not exists penstock.migration (name text primary key, applied_at timestamptz not null default now())

-- name: record_migration
-- Records that a migration was applied.
insert into penstock.migration (name) values (%(name)s)

-- name: record_checksums
-- Records the checksums of migrations that have none.
update penstock.migration m set checksum = known.checksum
from unnest(%(names)s::text[], %(checksums)s::text[]) as known (name, checksum)
where known.name = m.name and m.checksum is null
