-- Gaps are asked for partition by partition.
create index coverage_by_partition on penstock.coverage (generation_id, partition);
