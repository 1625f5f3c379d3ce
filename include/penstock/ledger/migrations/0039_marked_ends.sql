-- An hour is whole by what Kafka had at a time. A load that takes less than the log holds says nothing about the records
-- that it leaves: a producer may have written them with an earlier timestamp.

alter table penstock.position add column marked_at timestamptz, add column marked_end bigint;
comment on column penstock.position.marked_end is
    'The end of the log at the time marked_at, open transactions included. When the position has passed it, the partition '
    'is loaded until marked_at.';
