-- name: compare_upsert
-- Compares the winners among the rows of the target with an upsert, for the keys with a hash below a bound.
select count(*)::bigint as keys,
       count(*) filter (where r._found is null)::bigint as missing,
       count(*) filter (where w._found is null)::bigint as extra,
       count(*) filter (where r._found and w._found and ({winner_values}) is distinct from ({result_values}))::bigint as different
from (select *, true as _found from penstock_ranked where _place = 1 and not _deleted) w
full join (select *, true as _found from {table} where abs({hash}) %% 1000000 < %(below)s) r using ({key})

-- name: compare_guards
-- Compares the deletions that win and the rows that were overtaken with the guards, for the keys with a hash below a
-- bound. Guards of a deleted key may have been dropped after their time, all at once.
select count(*)::bigint as keys,
       count(*) filter (where r._found is null and not (%(were_dropped)s and exists (
           select from penstock_ranked d where d._place = 1 and d._deleted and ({winner_key}) = ({deleted_key}))
           and not exists (select from {guards} g where ({guard_key}) = ({winner_key}))))::bigint as missing,
       count(*) filter (where w._found is null)::bigint as extra,
       count(*) filter (where r._found and w._found
           and (w._deleted, {winner_values}) is distinct from (r._deleted, {result_values}))::bigint as different
from (select *, true as _found from penstock_ranked where _place > 1 or _deleted) w
full join (select *, true as _found from {guards} where abs({hash}) %% 1000000 < %(below)s) r
     using ({key}, _generation, _partition)

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
