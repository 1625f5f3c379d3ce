-- name: find_removed_keys
-- The keys of the rows that a transaction takes away: their newest row is found again among the rows of the target.
create temporary table penstock_affected on commit drop as
select distinct {key} from {removed} where ({key}) is not null

-- name: name_added_rows
-- The rows of a load. A key that also lost a row is left to the search in the target.
create temporary view penstock_rows as
select r.*, l.generation_id as _generation
from {target} r join penstock.load l on l.load_id = r._load_id
where {added} {except_affected}

-- name: name_rows_of_keys
-- The rows of the target with an affected key, of all loads.
create temporary view penstock_rows as
select r.*, l.generation_id as _generation
from {target} r join penstock.load l on l.load_id = r._load_id
where ({row_key}) in (select {key} from penstock_affected)

-- name: name_rows_of_share
-- The rows of the target of a share of the keys, of all loads.
create temporary view penstock_rows as
select r.*, l.generation_id as _generation
from {target} r join penstock.load l on l.load_id = r._load_id
where abs({hash}) %% 1000000 < {below}

-- name: prepare_tops
-- A table for the newest row of each key and partition.
create temporary table penstock_tops on commit drop as
select {columns}, false as _deleted from {table} with no data

-- name: pick_tops
-- The newest row of each key in each partition: offsets give the order within a partition. It runs as the role of
-- results, because the condition of deletions is SQL of the declaration. The newest offsets are found first, so that no
-- whole rows are sorted.
insert into penstock_tops ({columns}, _deleted)
select {sources}, coalesce(({deleted})::boolean, false)
from penstock_rows
join (select {key}, _generation, _partition, max(_offset) as _offset
      from penstock_rows where ({key}) is not null group by {key}, _generation, _partition) newest
    using ({key}, _generation, _partition, _offset)

-- name: add_contested_keys
-- Keys whose winner is not found by comparing two rows of one partition: a deletion, several partitions or generations,
-- or a row that was kept beside the table.
insert into penstock_affected
select {key} from (
    select {key} from penstock_tops group by {key} having count(*) > 1 or bool_or(_deleted)
    union
    select {key} from penstock_tops t join {table} r using ({key})
    where (r._generation, r._partition) <> (t._generation, t._partition)
    union
    select {key} from penstock_tops join {guards} using ({key})) k

-- name: upsert_plain
-- Writes the rows of all other keys in the order of the key; an offset that is not higher changes nothing.
insert into {table} as r ({columns})
select {columns} from penstock_tops t
where not exists (select from penstock_affected a where ({affected_key}) = ({top_key}))
order by {key}
on conflict ({key}) do update set {assignments} where r._offset < excluded._offset

-- name: add_known_tops
-- Adds what the result already knows of the contested keys: the visible row, and the rows that are kept beside it.
insert into penstock_tops ({columns}, _deleted)
select {columns}, false from {table} join penstock_affected using ({key})
union all
select {columns}, _deleted from {guards} join penstock_affected using ({key})

-- name: find_all_keys
-- All keys of the picked rows.
create temporary table penstock_affected on commit drop as select distinct {key} from penstock_tops

-- name: rank_tops
-- The newest row of each affected key and partition in the newest generation of the key, and its place among the
-- partitions: the later timestamp wins, then the higher partition.
create temporary table penstock_ranked on commit drop as
select {columns}, _deleted, row_number() over (partition by {key} order by _timestamp desc nulls last, _partition desc) as _place
from (select distinct on ({key}, _partition) {columns}, _deleted
      from (select t.*, max(_generation) over (partition by {key}) as _newest
            from penstock_tops t join penstock_affected a using ({key})) t
      where _generation = _newest
      order by {key}, _partition, _offset desc) t

-- name: remove_affected
-- Removes what the result knew of the affected keys, where another row wins now.
delete from {table} r using penstock_affected a
where ({row_key}) = ({affected_key})
  and not exists (select from penstock_ranked w
                  where ({winner_key}) = ({row_key}) and w._place = 1 and not w._deleted)

-- name: remove_affected_guards
-- Removes the kept rows of the affected keys.
delete from {guards} r using penstock_affected a where ({row_key}) = ({affected_key})

-- name: write_winners
-- Writes the winners; a row that is there already stays as it is. Rows are compared byte by byte, because json has no
-- other comparison.
insert into {table} as r ({columns})
select {columns} from penstock_ranked where _place = 1 and not _deleted order by {key}
on conflict ({key}) do update set {assignments} where record_image_ne(row({old_values}), row({new_values}))

-- name: keep_others
-- Keeps deletions that win, and the newest rows of the other partitions.
insert into {guards} ({columns}, _deleted)
select {columns}, _deleted from penstock_ranked where _place > 1 or _deleted

-- name: has_times
-- Whether a table of guards says since when it has kept each row.
select exists (select from pg_attribute where attrelid = to_regclass(%(guards)s) and attname = '_kept_since') as has_times

-- name: drop_guards
-- Drops the guards of keys that are deleted since more than so many days. A key with a row keeps its guards: they are
-- the newest rows of other partitions, and may win later.
delete from {guards} g
where not exists (select from {table} r where ({row_key}) = ({key}))
  and not exists (select from {guards} o
                  where ({other_key}) = ({key}) and o._kept_since >= now() - make_interval(days => %(days)s))

-- name: count_lost_keys
-- The affected keys whose newest row of a partition was taken away, while a row below it may be among those that were
-- dropped from the target. If all rows of the newest generation of a key are missing, any dropped row of an earlier one counts.
with known as (
    select {key}, _generation, _partition, _offset from {table} join penstock_affected using ({key})
    union all
    select {key}, _generation, _partition, _offset from {guards} join penstock_affected using ({key})
),
dropped as materialized (
    select c.generation_id as _of_generation, c.partition as _of_partition, range_agg(c.offsets) as _dropped
    from penstock.coverage c join penstock.dropped_load d using (load_id)
    where c.generation_id in (select _generation from known)
    group by 1, 2
),
late as materialized (
    select g.generation_id from penstock.generation g
    where g.generation_id in (select _generation from known)
      and exists (select from penstock.dropped_load d join penstock.load l using (load_id)
                  where d.pipeline_id = g.pipeline_id and l.generation_id < g.generation_id)
),
taken as (
    select {key}, _generation, k._offset, coalesce(t._next_offset, -1) as _next_offset, d._dropped
    from known k
    left join (select {key}, _generation, _partition, _offset as _next_offset from penstock_tops) t
        using ({key}, _generation, _partition)
    left join dropped d on d._of_generation = k._generation and d._of_partition = k._partition
    where (d._dropped @> k._offset) is not true
)
select count(distinct ({known_key})) as keys
from taken k
where k._next_offset < k._offset
  and (k._dropped && int8range(k._next_offset + 1, k._offset)
       or (k._generation in (select generation_id from late)
           and not exists (select from penstock_tops t where ({top_key}) = ({known_key})
                             and t._generation = k._generation)))

-- name: add_dropped_tops
-- Adds what the result knows of the affected keys from rows that were dropped from the target.
with known as (
    select {columns}, false as _deleted from {table} join penstock_affected using ({key})
    union all
    select {columns}, _deleted from {guards} join penstock_affected using ({key})
),
dropped as materialized (
    select c.generation_id as _of_generation, c.partition as _of_partition, range_agg(c.offsets) as _dropped
    from penstock.coverage c join penstock.dropped_load d using (load_id)
    where c.generation_id in (select _generation from known)
    group by 1, 2
)
insert into penstock_tops ({columns}, _deleted)
select {columns}, _deleted
from known k
join dropped d on d._of_generation = k._generation and d._of_partition = k._partition and d._dropped @> k._offset
