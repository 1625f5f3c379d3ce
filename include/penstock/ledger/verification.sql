-- name: read_partitions
-- The partitions of every generation with the ranges that are covered, lost or a gap. A partition is left out if nothing
-- of it is lost, and if its covered ranges, which never overlap, have as many offsets as lie between its origin and its
-- position, and begin and end there, and the position counts as many: then each offset is covered once.
select g.generation_id as generation, o.partition, least(o.origin, o.position) as origin, o.position,
       (select coalesce(json_agg(json_build_array(lower(c.offsets), upper(c.offsets))), '[]') from penstock.coverage c
        where c.generation_id = g.generation_id and c.partition = o.partition) as covered,
       (select coalesce(json_agg(json_build_array(lower(x.offsets), upper(x.offsets))), '[]') from penstock.loss x
        where x.generation_id = g.generation_id and x.partition = o.partition) as lost,
       (select coalesce(json_agg(json_build_array(a.from_offset, a.until_offset)), '[]') from penstock.gaps a
        where a.generation = g.generation_id and a.partition = o.partition and a.pipeline = p.name) as gaps,
       o.covered as counted
from penstock.pipeline p
join penstock.generation g using (pipeline_id)
join penstock.position o using (generation_id)
cross join lateral (
    select coalesce(sum(upper(c.offsets) - lower(c.offsets)), 0) as covered, min(lower(c.offsets)) as first,
           max(upper(c.offsets)) as until
    from penstock.coverage c where c.generation_id = g.generation_id and c.partition = o.partition) k
where p.name = %(pipeline)s
  and (k.covered <> o.covered or k.covered <> o.position - least(o.origin, o.position)
       or k.first < o.origin or k.until > o.position
       or exists (select from penstock.loss x where x.generation_id = g.generation_id and x.partition = o.partition))
order by 1, 2

-- name: find_leaves
-- The leaves with the loads that they hold, and when all of these loads were counted last; null if one of them was not. A
-- load without a leaf stands alone, and so does a leaf without a published load. Loads whose rows were dropped with one
-- leaf stay together.
with leaf as (
    select i.inhparent, b.bounds[1]::bigint as from_load, b.bounds[2]::bigint as until_load
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                    $$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$$) as b (bounds)
    where b.bounds is not null
),
held as (
    select leaf.inhparent, coalesce(leaf.from_load, min(l.load_id)) as from_load,
           coalesce(leaf.until_load, max(l.load_id) + 1) as until_load, count(*) as loads,
           coalesce(sum(l.rows), 0)::bigint as rows,
           case when bool_and(l.counted_at is not null) then min(l.counted_at) end as counted_at
    from penstock.load l
    join penstock.declaration declared using (declaration_id)
    join penstock.pipeline p using (pipeline_id)
    left join leaf on leaf.inhparent = to_regclass(declared.declaration ->> 'target')
        and l.load_id >= leaf.from_load and l.load_id < leaf.until_load
    left join penstock.dropped_load d using (load_id)
    where p.name = %(pipeline)s
      and (l.state = 'published' or exists (select from penstock.coverage c where c.load_id = l.load_id))
    group by leaf.inhparent, leaf.from_load, leaf.until_load,
             case when leaf.from_load is null then coalesce(d.leaf, l.load_id::text) end
)
select from_load, until_load, loads, rows, counted_at from held
union all
select leaf.from_load, leaf.until_load, 0, 0, null
from leaf join penstock.pipeline p on leaf.inhparent = to_regclass(p.target)
where p.name = %(pipeline)s
  and not exists (select from held h where h.inhparent = leaf.inhparent and h.from_load = leaf.from_load)
order by 1

-- name: mark_counted
-- Records that all rows of loads were found as published, unless rows were moved since the verification began, or another
-- transaction changes the load now.
with still as (
    select l.load_id, v.began_at
    from penstock.verification v join penstock.load l using (pipeline_id)
    where v.verification_id = %(verification_id)s and l.load_id = any (%(loads)s) and (l.moved_at is null or l.moved_at < v.began_at)
    order by l.load_id for no key update of l skip locked
)
update penstock.load l set counted_at = still.began_at from still where l.load_id = still.load_id

-- name: count_again
-- Forgets that loads were counted: their rows were moved or replaced, or a verification found a fault.
update penstock.load l set counted_at = null, moved_at = clock_timestamp()
from unnest(%(loads)s::int8range[]) as moved (loads), penstock.pipeline p
where p.name = %(pipeline)s and l.pipeline_id = p.pipeline_id
  and l.load_id >= lower(moved.loads) and l.load_id < upper(moved.loads)

-- name: find_odd_loads
-- Loads that contradict the ranges they cover.
with covered as (
    select l.load_id, l.generation_id, l.state, c.partition, c.offsets, c.rows, c.quarantined, c.holes,
           c.filtered
    from penstock.coverage c join penstock.load l using (load_id) join penstock.pipeline p on p.pipeline_id = l.pipeline_id
    where p.name = %(pipeline)s and %(loads)s::int8multirange @> l.load_id
)
select load_id, generation_id,
       format('the load is %%s, and covers partition %%s offsets %%s.', state, partition, offsets) as message
from covered where state <> 'published'
union all
select load_id, generation_id,
       format('the load covers partition %%s offsets %%s, which are not in its plan.', partition, offsets)
from covered c
where not exists (select from penstock.load_range r where r.load_id = c.load_id and r.partition = c.partition
                    and int8range(r.from_offset, r.until_offset) @> c.offsets)
union all
select c.load_id, c.generation_id,
       format('the load covers partition %%s offsets %%s with other counts than its tasks.', c.partition, c.offsets)
from covered c
join penstock.load_range r on r.load_id = c.load_id and r.partition = c.partition
     and int8range(r.from_offset, r.until_offset) = c.offsets
where (r.rows, r.quarantined, r.holes, coalesce(r.filtered, 0))
      is distinct from (c.rows, c.quarantined, c.holes, c.filtered)
union all
select l.load_id, l.generation_id, 'the load is published, and covers nothing.'
from penstock.load l join penstock.pipeline p using (pipeline_id)
where p.name = %(pipeline)s and l.state = 'published' and %(loads)s::int8multirange @> l.load_id
  and not exists (select from penstock.coverage c where c.load_id = l.load_id)
union all
select l.load_id, l.generation_id, 'the counts of the load are not the sums of its ranges.'
from penstock.load l join penstock.pipeline p using (pipeline_id)
cross join lateral (select sum(r.rows) as rows, sum(r.quarantined) as quarantined, sum(r.holes) as holes,
                           sum(coalesce(r.filtered, 0)) as filtered
                    from penstock.load_range r where r.load_id = l.load_id) s
where p.name = %(pipeline)s and l.state = 'published' and %(loads)s::int8multirange @> l.load_id
  and (l.rows, l.quarantined, l.holes, coalesce(l.filtered, 0))
      is distinct from (s.rows, s.quarantined, s.holes, s.filtered)
order by 1

-- name: find_covering_loads
-- The loads that cover a range of a pipeline, each with the leaf that holds its rows, or held them until it was dropped.
select l.load_id, l.generation_id, declared.declaration::text as declaration, coalesce(leaf.name, d.leaf) as leaf
from penstock.load l
join penstock.declaration declared using (declaration_id)
join penstock.pipeline p using (pipeline_id)
left join (select i.inhparent, i.inhrelid::regclass::text as name, b.bounds[1]::bigint as from_load,
                  b.bounds[2]::bigint as until_load
           from pg_inherits i
           join pg_class c on c.oid = i.inhrelid
           cross join lateral regexp_match(pg_get_expr(c.relpartbound, c.oid),
                                           $$FROM \('?(\d+)'?\) TO \('?(\d+)'?\)$$) as b (bounds)) leaf
    on leaf.inhparent = to_regclass(declared.declaration ->> 'target')
   and l.load_id >= leaf.from_load and l.load_id < leaf.until_load
left join penstock.dropped_load d using (load_id)
where p.name = %(pipeline)s and %(loads)s::int8multirange @> l.load_id
  and exists (select from penstock.coverage c where c.load_id = l.load_id)
order by l.load_id

-- name: find_declarations
-- The different declarations of the loads that cover a range of a pipeline.
select distinct declared.declaration::text
from penstock.load l
join penstock.declaration declared using (declaration_id)
join penstock.pipeline p using (pipeline_id)
where p.name = %(pipeline)s and exists (select from penstock.coverage c where c.load_id = l.load_id)

-- name: count_rows
-- The rows of loads by the ranges they cover, with the known difference of the load; rows outside the ranges are
-- returned as strays. A load whose rows were dropped after their keeping time has none.
with covered as (
    select c.load_id, c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset,
           case when g.load_id is null then c.rows else 0 end as rows,
           case when g.load_id is null then c.row_hash else 0 end as row_hash, g.load_id is not null as dropped,
           c.quarantined,
           (select count(*) from penstock.quarantine q join penstock.load l using (load_id, attempt)
            where q.load_id = c.load_id and q.partition = c.partition and c.offsets @> q."offset") as in_quarantine
    from penstock.coverage c left join penstock.dropped_load g using (load_id) where c.load_id = any (%(loads)s)
),
-- A load that a redrive or a replay has taken many offsets from covers many ranges: the range of a row is found by
-- halving, and not by comparing the row with each range.
bounds as (
    select load_id, partition, array_agg(from_offset order by from_offset) as starts,
           array_agg(until_offset order by from_offset) as ends
    from covered group by load_id, partition
),
held as (
    select t.load_id, t.partition, case when t._offset < b.ends[width_bucket(t._offset, b.starts)]
                                 then b.starts[width_bucket(t._offset, b.starts)] end as from_offset,
           count(*) as rows, sum(t.hash) as row_hash, min(t._offset) as first, max(t._offset) as last
    from (select _load_id as load_id, _partition as partition, _offset, {row_hash} as hash
          from {target}
          where _load_id between %(first)s and %(last)s and _load_id = any (%(loads)s)) t
    left join bounds b using (load_id, partition)
    group by 1, 2, 3
)
select c.load_id, c.partition, c.from_offset, c.until_offset, c.rows as expected, coalesce(h.rows, 0) as found,
       c.row_hash as expected_hash, coalesce(h.row_hash, 0) as found_hash, c.quarantined as expected_quarantined,
       c.in_quarantine as found_quarantined, d.rows as difference, d.row_hash as difference_hash, false as stray
from covered c
left join held h using (load_id, partition, from_offset)
left join penstock.difference d on d.load_id = c.load_id and d.partition = c.partition and not c.dropped
union all
select load_id, partition, first, last + 1, 0, rows, 0, row_hash, 0, 0, null, null, true from held where from_offset is null
order by 1, 2, 3

-- name: find_orphans
-- Rows of loads that cover nothing of this pipeline.
select t._load_id as load_id, t._partition as partition, count(*) as rows, min(t._offset) as from_offset,
       max(t._offset) + 1 as until_offset
from {target} t
where not exists (select from penstock.coverage c join penstock.pipeline p using (pipeline_id)
                  where p.name = %(pipeline)s and c.load_id = t._load_id)
  and t._load_id >= %(first)s and t._load_id < %(until)s
group by 1, 2 order by 1, 2 limit 100

-- name: begin_verification
-- Begins a verification.
insert into penstock.verification (pipeline_id, actor, share)
select pipeline_id, %(actor)s, %(share)s from penstock.pipeline where name = %(pipeline)s
returning verification_id

-- name: end_verification
-- Ends a verification with its counts. %(share)s is the share of the chunks that chosen offsets came to.
update penstock.verification
set ended_at = now(), ranges = %(ranges)s, rows = %(rows)s, chunks = %(chunks)s, chunks_held = %(chunks_held)s,
    chunks_reread = %(chunks_reread)s, rows_compared = %(rows_compared)s, share = coalesce(%(share)s, share),
    loads_skipped = %(loads_skipped)s
where verification_id = %(verification_id)s

-- name: record_faults
-- Records the faults that were found. %(faults)s is a JSON array.
insert into penstock.fault (verification_id, ordinal, kind, generation_id, load_id, partition, offsets, told)
select %(verification_id)s, f.ordinal, f.kind, f.generation_id, f.load_id, f.partition,
       int8range(f.from_offset, f.until_offset), f.told
from jsonb_to_recordset(%(faults)s)
     as f (ordinal int, kind text, generation_id int, load_id bigint, partition int, from_offset bigint,
           until_offset bigint, told text)

-- name: find_chunks
-- The chunks of the generation that is loaded now, of loads that still cover some of their offsets, with the
-- fingerprints of the log. A chunk before the start of its partition's log is left out. The loads are found by what they
-- cover of the log, so that the chunks of years before it are not read.
with log as (
    select g.pipeline_id, g.generation_id, o.partition, coalesce(given.start, 0) as start
    from penstock.pipeline p
    join lateral (select pipeline_id, generation_id from penstock.generation where pipeline_id = p.pipeline_id
                  order by generation_id desc limit 1) g on true
    join penstock.position o using (generation_id)
    left join unnest(%(partitions)s::int[], %(starts)s::bigint[]) as given (partition, start) using (partition)
    where p.name = %(pipeline)s
),
held as (
    select distinct c.load_id
    from log join penstock.coverage c
      on int4range(c.pipeline_id, c.pipeline_id, '[]') && int4range(log.pipeline_id, log.pipeline_id, '[]')
     and int4range(c.generation_id, c.generation_id, '[]') && int4range(log.generation_id, log.generation_id, '[]')
     and int4range(c.partition, c.partition, '[]') && int4range(log.partition, log.partition, '[]')
     and c.offsets && int8range(log.start, null)
)
select t.load_id, t.attempt, t.task, t.partition, t.from_offset, t.until_offset,
       t.rows + t.quarantined + t.filtered as records, t.log_hash, declared.declaration ->> 'reader' as reader,
       declared.declaration ->> 'isolation' as isolation
from held
join penstock.load l using (load_id)
join penstock.stage_task t using (load_id, attempt)
join penstock.declaration declared using (declaration_id)
join log on log.partition = t.partition
where t.until_offset > log.start
  and exists (select from penstock.coverage c where c.load_id = t.load_id and c.partition = t.partition
                and c.offsets && int8range(t.from_offset, t.until_offset))
order by t.partition, t.from_offset, t.load_id

-- name: count_chunks
-- The number of chunks of the generation that is loaded now, of loads that still cover some of their offsets.
with newest as (
    select g.pipeline_id, g.generation_id
    from penstock.generation g join penstock.pipeline p using (pipeline_id) where p.name = %(pipeline)s
    order by g.generation_id desc limit 1
)
select count(*)
from newest
join penstock.load l using (pipeline_id, generation_id)
join penstock.stage_task t using (load_id, attempt)
where exists (select from penstock.coverage c where c.load_id = t.load_id and c.partition = t.partition
                and c.offsets && int8range(t.from_offset, t.until_offset))

-- name: find_chunks_of_attempt
-- The chunks of an attempt, with the fingerprints of the log.
select t.load_id, t.attempt, t.task, t.partition, t.from_offset, t.until_offset,
       t.rows + t.quarantined + t.filtered as records, t.log_hash, declared.declaration ->> 'reader' as reader,
       declared.declaration ->> 'isolation' as isolation
from penstock.stage_task t join penstock.load l using (load_id)
join penstock.declaration declared using (declaration_id)
where t.load_id = %(load_id)s and t.attempt = %(attempt)s
order by t.partition, t.from_offset

-- name: request_chunks
-- Requests chunks to be read again. If rows are to be compared, it records which of the offsets the load still covers.
-- Rows that a transform made cannot be made again by decoding.
insert into penstock.reread (verification_id, load_id, attempt, task, covered)
select %(verification_id)s, t.load_id, t.attempt, t.task,
       case when %(compare)s and declared.declaration ->> 'transform' is null
             and not exists (select from penstock.dropped_load d where d.load_id = t.load_id) then (
           select coalesce(range_agg(c.offsets * int8range(t.from_offset, t.until_offset)), '{}')
           from penstock.coverage c
           where c.load_id = t.load_id and c.partition = t.partition
             and c.offsets && int8range(t.from_offset, t.until_offset)) end
from unnest(%(loads)s::bigint[], %(attempts)s::int[], %(tasks)s::int[]) as requested (load_id, attempt, task)
join penstock.stage_task t using (load_id, attempt, task)
join penstock.load l on l.load_id = t.load_id
join penstock.declaration declared using (declaration_id)

-- name: find_requested_chunks
-- The chunks that a verification wants to read again. If rows are compared: the covered offsets, and the offsets that
-- PostgreSQL or a rule refused as rows, so that they are not compared.
select t.load_id, t.attempt, t.task, t.partition, t.from_offset, t.until_offset,
       t.rows + t.quarantined + t.filtered as records, t.log_hash, declared.declaration ->> 'reader' as reader,
       declared.declaration ->> 'isolation' as isolation, p.topic,
       (select jsonb_agg(jsonb_build_array(lower(o), upper(o))) from unnest(r.covered) o) as covered,
       (select array_agg(q."offset") from penstock.quarantine q
        where q.load_id = t.load_id and q.attempt = t.attempt and q.partition = t.partition
          and q."offset" >= t.from_offset and q."offset" < t.until_offset
          and q.reason in ('refused_by_database', 'rule', 'duplicate')) as refused
from penstock.reread r
join penstock.stage_task t using (load_id, attempt, task)
join penstock.load l on l.load_id = t.load_id
join penstock.declaration declared using (declaration_id)
join penstock.pipeline p using (pipeline_id)
where r.verification_id = %(verification_id)s
order by t.partition, t.from_offset, t.load_id

-- name: find_requested_declarations
-- The declarations of the chunks whose rows are compared, each with its loads.
select declared.declaration::text as declaration, array_agg(distinct l.load_id) as loads
from penstock.reread r join penstock.load l using (load_id)
join penstock.declaration declared using (declaration_id)
where r.verification_id = %(verification_id)s and r.covered is not null
group by 1

-- name: record_reread
-- Records what another reader found in chunks. %(chunks)s is a JSON array.
update penstock.reread r
set records = c.records, log_hash = c.log_hash, rows = c.rows, row_hash = c.row_hash
from jsonb_to_recordset(%(chunks)s)
     as c (load_id bigint, task int, records bigint, log_hash bigint, rows bigint, row_hash numeric)
where r.verification_id = %(verification_id)s and r.load_id = c.load_id and r.task = c.task

-- name: read_reread
-- The sums that another reader found in the requested chunks.
select load_id, task, records, log_hash, rows, row_hash from penstock.reread where verification_id = %(verification_id)s

-- name: sum_covered
-- The rows of the target in the chunks whose rows are compared, for loads whose rows are hashed alike.
select r.load_id, r.task, sum(held.rows)::bigint as rows, sum(held.row_hash) as row_hash
from penstock.reread r
join penstock.stage_task s using (load_id, attempt, task)
cross join unnest(r.covered) as covered (offsets)
cross join lateral (
    select count(*) as rows, coalesce(sum({row_hash}), 0) as row_hash from {target} held_row
    where held_row._load_id = r.load_id and held_row._partition = s.partition
      and held_row._offset >= lower(covered.offsets) and held_row._offset < upper(covered.offsets)) held
where r.verification_id = %(verification_id)s and r.load_id = any (%(loads)s)
group by 1, 2

-- name: forget_reread
-- Deletes the requests of a verification that is over.
delete from penstock.reread where verification_id = %(verification_id)s

-- name: create_rebuilt
-- Creates a temporary table for rebuilt rows: their records are decoded again. Each COMMIT empties it. Its columns have the
-- types that the load declares: those of the target may have been widened since.
create temporary table rebuilt on commit delete rows as select {columns} with no data

-- name: hash_rebuilt
-- The fingerprint of the rebuilt rows.
select count(*), coalesce(sum({row_hash}), 0)::text from pg_temp.rebuilt

-- name: compare_rebuilt
-- The offsets of a range at which {target} differs from the rebuilt rows. Extra rows of {target} are
-- listed only on request ($5 is false), because a compacted log has fewer records.
select "offset", kind, count(*) over () as all_of_them
from (select coalesce(t._offset, a._offset) as "offset",
             case when a._offset is null then 'too many' when t._offset is null then 'missing' else 'changed' end as kind
      from (select _offset, {row_hash} as hash from {target}
            where _load_id = $1::bigint and _partition = $2::int and _offset >= $3::bigint and _offset < $4::bigint) t
      full join (select _offset, {row_hash} as hash from pg_temp.rebuilt) a using (_offset)
      where t.hash is distinct from a.hash and (a._offset is not null or not $5::boolean)) d
order by 1 limit 20

-- name: read_quarantined_offsets
-- The offsets of a range that a load quarantined, and whether their rows were refused after decoding.
select "offset", reason in ('refused_by_database', 'rule', 'duplicate') as refused
from penstock.quarantine q join penstock.load l using (load_id, attempt)
where q.load_id = %(load_id)s and q.partition = %(partition)s
  and "offset" >= %(from_offset)s and "offset" < %(until_offset)s
