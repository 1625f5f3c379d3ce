-- Which text of each migration was applied; and the events of a hold, which each run of a pipeline looks for.

alter table penstock.migration add column checksum text;
comment on column penstock.migration.checksum is
    'The SHA-256 of the text that was applied. Those of migrations from before this column are those of the upgrade.';

create index event_by_hold on penstock.event (hold_id) where hold_id is not null;
