-- name: compare_upsert
-- Compares the winners among the rows of the target with an upsert, for the keys with a hash below a bound. Values are
-- compared byte by byte.
select count(*)::bigint as keys,
       count(*) filter (where r._found is null)::bigint as missing,
       count(*) filter (where w._found is null)::bigint as extra,
       count(*) filter (where r._found and w._found and record_image_ne(row({winner_values}), row({result_values})))::bigint as different
from (select *, true as _found from penstock_ranked where _place = 1 and not _deleted) w
full join (select *, true as _found
           from {table} left join (select {key}, true as _left_out from penstock_left_out) o using ({key})
           where abs({hash}) %% 1000000 < %(below)s and _left_out is null) r using ({key})

-- name: compare_guards
-- Compares the deletions that win and the rows that were overtaken with the guards, for the keys with a hash below a
-- bound. Guards of a deleted key may have been dropped after their time, all at once.
select count(*)::bigint as keys,
       count(*) filter (where r._found is null and not (%(were_dropped)s and exists (
           select from penstock_ranked d where d._place = 1 and d._deleted and ({winner_key}) = ({deleted_key}))
           and not exists (select from {guards} g where ({guard_key}) = ({winner_key}))))::bigint as missing,
       count(*) filter (where w._found is null)::bigint as extra,
       count(*) filter (where r._found and w._found
           and record_image_ne(row(w._deleted, {winner_values}), row(r._deleted, {result_values})))::bigint as different
from (select *, true as _found from penstock_ranked where _place > 1 or _deleted) w
full join (select *, true as _found
           from {guards} left join (select {key}, true as _left_out from penstock_left_out) o using ({key})
           where abs({hash}) %% 1000000 < %(below)s and _left_out is null) r
     using ({key}, _generation, _partition)

-- name: leave_out_dropped
-- The keys of an upsert that rest on rows which were dropped from the target after their keeping time.
create temporary table penstock_left_out on commit drop as
select distinct {key}
from (select {key}, _generation, _partition, _offset from {table}
      union all select {key}, _generation, _partition, _offset from {guards}) k
join (select c.generation_id as _of_generation, c.partition as _of_partition, range_agg(c.offsets) as _dropped
      from penstock.coverage c join penstock.dropped_load d using (load_id)
      where d.pipeline_id = {pipeline_id} group by 1, 2) d
    on d._of_generation = k._generation and d._of_partition = k._partition and d._dropped @> k._offset

-- name: forget_left_out
-- Takes these keys out of the ranked rows.
delete from penstock_ranked where ({key}) in (select {key} from penstock_left_out)

-- name: name_rows
-- All rows of the target, under the name that a check query uses.
create temporary view rows as select * from {target}

-- name: prepare_wanted
-- A table for the rows that a check query gives.
create temporary table penstock_wanted on commit drop as select {columns} from {table} with no data

-- name: compare_statements
-- Compares the rows that a check query gives with a result.
select count(*)::bigint as keys,
       count(*) filter (where r._found is null)::bigint as missing,
       count(*) filter (where w._found is null)::bigint as extra,
       count(*) filter (where r._found and w._found and ({wanted}) is distinct from ({found}))::bigint as different
from (select *, true as _found from penstock_wanted) w
full join (select *, true as _found from {table}) r using ({key})

-- name: drop_wanted
-- Drops both.
drop view rows; drop table penstock_wanted
