-- name: has_same_columns
-- Whether two tables have the same columns, and primary keys over the same columns.
select coalesce(
    (select array_agg((a.attname, a.atttypid, a.atttypmod)::text order by a.attname) from pg_attribute a
     where a.attrelid = to_regclass(%(one)s) and a.attnum > 0 and not a.attisdropped)
    = (select array_agg((a.attname, a.atttypid, a.atttypmod)::text order by a.attname) from pg_attribute a
       where a.attrelid = to_regclass(%(other)s) and a.attnum > 0 and not a.attisdropped)
    and (select array_agg(a.attname order by a.attname) from pg_index i
         join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
         where i.indrelid = to_regclass(%(one)s) and i.indisprimary)
      = (select array_agg(a.attname order by a.attname) from pg_index i
         join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
         where i.indrelid = to_regclass(%(other)s) and i.indisprimary), false) as is_same

-- name: delete_extra_rows
-- Deletes the rows whose key the new table does not have.
delete from {table} r where not exists (select from {built} b where ({new_key}) = ({old_key}))

-- name: write_other_rows
-- Writes the rows of the new table that the current one does not have, or has with other values.
insert into {table} as r ({columns})
select {columns} from {built} b
where not exists (select from {table} r where ({old_key}) = ({new_key}) and record_image_eq(row({old}), row({new})))
order by {key}
on conflict ({key}) do update set {assignments}

-- name: count_rows
-- Counts the rows of the new table.
select count(*) as rows from {built}
