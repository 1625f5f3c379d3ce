-- name: cover_ranges
-- Covers the ranges of a published load. The exclusion constraint refuses an offset that is covered already.
insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, filtered,
                               row_hash, first_at, last_at)
select l.pipeline_id, l.generation_id, r.partition, int8range(r.from_offset, r.until_offset), l.load_id,
       r.rows, r.quarantined, r.holes, coalesce(r.filtered, 0), r.row_hash, r.first_at, r.last_at
from penstock.load l join penstock.load_range r using (load_id)
where l.load_id = %(load_id)s

-- name: uncover_overlaps
-- Deletes the coverage of other loads that overlaps the ranges of a load. The caller covers again what those loads
-- keep.
delete from penstock.coverage c
using penstock.load l join penstock.load_range r using (load_id)
where l.load_id = %(load_id)s and c.pipeline_id = l.pipeline_id and c.generation_id = l.generation_id
  and c.partition = r.partition and c.offsets && int8range(r.from_offset, r.until_offset)
returning c.load_id, c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.rows, c.row_hash

-- name: cover_rest
-- Covers a piece of a range that a load keeps; the caller has counted and hashed the rows of the piece. Its times are
-- those of the planned range around it, which are bounds of the piece's own.
insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, filtered,
                               row_hash, first_at, last_at)
select l.pipeline_id, l.generation_id, %(partition)s, int8range(%(from_offset)s, %(until_offset)s), l.load_id,
       %(rows)s, q.records, %(until_offset)s - %(from_offset)s - %(rows)s - q.records - f.records, f.records, %(row_hash)s,
       t.first_at, t.last_at
from penstock.load l
cross join lateral (select min(first_at) as first_at, max(last_at) as last_at from penstock.load_range
                    where load_id = l.load_id and partition = %(partition)s
                      and from_offset < %(until_offset)s and until_offset > %(from_offset)s) t
cross join lateral (select count(*) as records from penstock.quarantine
                    where load_id = l.load_id and attempt = l.attempt and partition = %(partition)s
                      and "offset" >= %(from_offset)s and "offset" < %(until_offset)s) q
cross join lateral (select count(*) as records
                    from penstock.filtered f cross join lateral generate_series(0, 8 * length(f.places) - 1) bit
                    where f.load_id = l.load_id and f.attempt = l.attempt and f.partition = %(partition)s
                      and f.from_offset > %(from_offset)s - 4096 and f.from_offset < %(until_offset)s
                      and f.from_offset + bit >= %(from_offset)s and f.from_offset + bit < %(until_offset)s
                      and get_bit(f.places, bit) = 1) f
where l.load_id = %(load_id)s

-- name: read_difference
-- Whether a load covers other ranges of a partition, and the difference that is recorded for the load there.
select exists (select from penstock.coverage where load_id = %(load_id)s and partition = %(partition)s) as covers_more,
       d.row_hash, d.rows
from (values (1)) as one left join penstock.difference d on d.load_id = %(load_id)s and d.partition = %(partition)s

-- name: forget_difference
-- Deletes the difference of a load in a partition: the load no longer covers anything there, or a new difference
-- follows.
delete from penstock.difference where load_id = %(load_id)s and partition = %(partition)s

-- name: record_difference
-- Records by how much the remaining rows of a load differ from what was published: some rows were altered before
-- others were replaced.
insert into penstock.difference (load_id, partition, row_hash, rows)
values (%(load_id)s, %(partition)s, %(row_hash)s, %(rows)s)


-- name: set_aside
-- Moves the coverage of a load that is rolled back to penstock.aside.
with taken as (delete from penstock.coverage where load_id = %(load_id)s
               returning load_id, partition, offsets, rows, quarantined, holes, filtered, row_hash, first_at,
               last_at)
insert into penstock.aside (load_id, partition, offsets, rows, quarantined, holes, filtered, row_hash, first_at,
               last_at)
select * from taken
returning partition, lower(offsets) as from_offset, upper(offsets) as until_offset

-- name: find_covered_again
-- The offsets of a rolled back load that other loads now cover.
select c.partition, lower(c.offsets * a.offsets) as from_offset, upper(c.offsets * a.offsets) as until_offset, c.load_id
from penstock.aside a
join penstock.load l using (load_id)
join penstock.coverage c on c.pipeline_id = l.pipeline_id and c.generation_id = l.generation_id
     and c.partition = a.partition and c.offsets && a.offsets
where a.load_id = %(load_id)s order by 1, 2

-- name: bring_back
-- Moves the coverage of a load back from penstock.aside: its rollback is undone.
with kept as (delete from penstock.aside where load_id = %(load_id)s
              returning load_id, partition, offsets, rows, quarantined, holes, filtered, row_hash, first_at,
               last_at)
insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, filtered,
                               row_hash, first_at, last_at)
select l.pipeline_id, l.generation_id, k.partition, k.offsets, k.load_id, k.rows, k.quarantined, k.holes, k.filtered,
       k.row_hash, k.first_at, k.last_at
from kept k join penstock.load l using (load_id)
returning partition, lower(offsets) as from_offset, upper(offsets) as until_offset

-- name: forget_aside
-- Deletes the coverage that an undo of a rollback would restore.
delete from penstock.aside where load_id = %(load_id)s

-- name: read_gaps
-- Offsets below the positions that are neither covered nor lost.
select partition, from_offset, until_offset from penstock.gaps
where pipeline = %(pipeline)s and generation = %(generation_id)s order by 1, 2

-- name: read_counted_gaps
-- The gaps of a generation as the sampler has counted them: to find them reads all of the coverage.
select k.partition, lower(gap) as from_offset, upper(gap) as until_offset
from penstock.partition_sample k cross join lateral unnest(k.gap_ranges) as gap
where k.pipeline = %(pipeline)s order by 1, 2

-- name: read_covered_within
-- The published ranges that overlap some spans, each with its load. %(spans)s is a JSON array.
select c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id
from penstock.generation g
cross join jsonb_to_recordset(%(spans)s) as s (partition int, from_offset bigint, until_offset bigint)
join penstock.coverage c
     on int4range(c.pipeline_id, c.pipeline_id, '[]') && int4range(g.pipeline_id, g.pipeline_id, '[]')
    and int4range(c.generation_id, c.generation_id, '[]') && int4range(g.generation_id, g.generation_id, '[]')
    and int4range(c.partition, c.partition, '[]') && int4range(s.partition, s.partition, '[]')
    and c.offsets && int8range(s.from_offset, s.until_offset)
where g.generation_id = %(generation_id)s and s.from_offset < s.until_offset
order by 1, 2

-- name: read_covered
-- The published ranges of a generation, each with its load.
select c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id
from penstock.coverage c
where c.pipeline_id = %(pipeline_id)s and c.generation_id = %(generation_id)s order by 1, 2

-- name: read_dropped
-- The published ranges of a generation whose rows were dropped after their keeping time, each with its load.
select c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id
from penstock.coverage c join penstock.dropped_load d using (load_id)
where c.pipeline_id = %(pipeline_id)s and c.generation_id = %(generation_id)s order by 1, 2

-- name: read_covered_by_load
-- The ranges of a partition that a load covers; none if its rows were dropped after their keeping time.
select partition, lower(offsets) as from_offset, upper(offsets) as until_offset from penstock.coverage c
where load_id = %(load_id)s and partition = %(partition)s
  and not exists (select from penstock.dropped_load d where d.load_id = c.load_id) order by 2

-- name: find_published
-- The number of loads that are published in a target, and the tables that hold them although no pipeline has them as its
-- target: such a table is the target under another name. For each table the statements that rename it back.
with published as (select distinct c.load_id from penstock.coverage c
                   join penstock.load l using (load_id)
                   join penstock.declaration d using (declaration_id)
                   join penstock.pipeline p on p.pipeline_id = l.pipeline_id
                   where p.name = %(pipeline)s and d.declaration ->> 'target' = format('%%s.%%s', %(schema)s::text, %(table)s::text))
select (select count(*) from published) as loads,
       array_agg(distinct found.name) as renamed_tables, array_agg(distinct found.back) as rename_statements
from (select format('%%I.%%I', n.nspname, c.relname) as name,
             case when n.nspname <> %(schema)s
                  then format('alter table %%I.%%I set schema %%I; ', n.nspname, c.relname, %(schema)s) else '' end
             || case when c.relname <> %(table)s
                     then format('alter table %%I.%%I rename to %%I;', %(schema)s, c.relname, %(table)s)
                     else '' end as back
        from pg_partitioned_table t
        join pg_class c on c.oid = t.partrelid
        join pg_namespace n on n.oid = c.relnamespace
        join pg_inherits i on i.inhparent = c.oid
        join pg_class leaf on leaf.oid = i.inhrelid
        cross join lateral regexp_match(pg_get_expr(leaf.relpartbound, leaf.oid),
                                        $$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$$) as b (bounds)
        where pg_get_partkeydef(c.oid) = 'RANGE (_load_id)'
          and not exists (select from penstock.pipeline p where p.target = format('%%s.%%s', n.nspname, c.relname))
          and exists (select from published where load_id >= b.bounds[1]::bigint and load_id < b.bounds[2]::bigint)) found
