-- Indexes for the page: a view of 25 partitions with 10,000 loads reads the index alone, in the order of the partitions.

drop index penstock.coverage_by_partition;
create index coverage_by_partition on penstock.coverage (generation_id, partition)
    include (offsets, load_id, rows, quarantined, holes);

-- A load of 200 partitions has 200 ranges: the one of a quarantined record is found by its partition.
drop index penstock.coverage_by_load;
create index coverage_by_load on penstock.coverage (load_id, partition);

alter table penstock.partition_sample add column gap_ranges int8multirange;
comment on column penstock.partition_sample.gap_ranges is 'The gaps that were counted; null if there are none.';
