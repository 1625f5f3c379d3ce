-- name: count_attempt
-- Counts an attempt by partition. {staged} is the attempt's table; its rows are read once for all partitions and all
-- checks. They are read a second time only if the table has no key, or if rows are outside the plan or in one of
-- several ranges of a partition: those are counted through the key.
with keyed as (
    select exists (
        select from pg_index i
        where i.indrelid = to_regclass(%(table)s) and i.indisunique and i.indisvalid and i.indimmediate
          and i.indpred is null and i.indexprs is null and i.indnatts = 2
          and (select count(*) from pg_attribute a
               where a.attrelid = i.indrelid and a.attnum = any (i.indkey::int2[]) and a.attnotnull
                 and a.attname in ('_partition', '_offset')) = 2) as proven
),
plan as (
    select partition, from_offset, until_offset from penstock.load_range where load_id = %(load_id)s
),
chunk as (
    select partition, from_offset, until_offset, holes, filtered,
           max(until_offset) over (partition by partition order by from_offset, until_offset, task
                                   rows between unbounded preceding and 1 preceding) as reached
    from penstock.stage_task where load_id = %(load_id)s and attempt = %(attempt)s
),
staged as materialized (
    select _partition as partition, count(*) as rows, min(_offset) as first_offset, max(_offset) as last_offset,
           sum({row_hash}) as row_hash, min(_timestamp) as first_at, max(_timestamp) as last_at
    from {staged} group by _partition
),
quarantined as (
    select partition, count(*) as records, min(record_timestamp) as first_at, max(record_timestamp) as last_at
    from penstock.quarantine where load_id = %(load_id)s and attempt = %(attempt)s group by partition
),
twice as (
    select partition, count(*) as offsets
    from (select _partition as partition from {staged}
          where not (select proven from keyed) group by _partition, _offset having count(*) > 1) t
    group by partition
),
in_both as (
    select q.partition, count(*) as offsets
    from penstock.quarantine q join {staged} s on s._partition = q.partition and s._offset = q."offset"
    where q.load_id = %(load_id)s and q.attempt = %(attempt)s group by q.partition
),
ranged as (
    select p.partition, p.from_offset, p.until_offset - p.from_offset as planned,
           case when s.partition is null then 0
                when s.first_offset >= p.from_offset and s.last_offset < p.until_offset then s.rows
                else (select count(*) from {staged} x where x._partition = p.partition
                        and x._offset >= p.from_offset and x._offset < p.until_offset) end as rows,
           (select count(*) from penstock.quarantine q
            where q.load_id = %(load_id)s and q.attempt = %(attempt)s and q.partition = p.partition
              and q."offset" >= p.from_offset and q."offset" < p.until_offset) as quarantined,
           c.holes, c.filtered, c.read
    from plan p
    left join staged s on s.partition = p.partition
    cross join lateral (
        select coalesce(sum(c.holes), 0) as holes, coalesce(sum(c.filtered), 0) as filtered,
               coalesce(sum(c.until_offset - c.from_offset), 0) as read
        from chunk c where c.partition = p.partition
          and c.from_offset >= p.from_offset and c.until_offset <= p.until_offset) c
),
planned as (
    select partition, sum(planned) as planned, sum(rows) as rows, sum(quarantined) as quarantined, sum(holes) as holes,
           sum(filtered) as filtered, sum(abs(planned - rows - quarantined - holes - filtered)) as unaccounted, sum(abs(planned - read)) as unread,
           min(from_offset) as from_offset
    from ranged group by partition
),
chunked as (
    select partition, count(*) as chunks, count(*) filter (where from_offset < reached) as overlapping
    from chunk group by partition
)
select n.partition,
       coalesce(p.planned, 0)::bigint as planned,
       coalesce(p.rows, 0)::bigint as rows,
       coalesce(p.quarantined, 0)::bigint as quarantined,
       coalesce(p.holes, 0)::bigint as holes,
       coalesce(p.filtered, 0)::bigint as filtered,
       coalesce(p.unaccounted, 0)::bigint as unaccounted,
       (coalesce(s.rows, 0) - coalesce(p.rows, 0))::bigint as rows_outside,
       (coalesce(q.records, 0) - coalesce(p.quarantined, 0))::bigint as quarantined_outside,
       coalesce(t.offsets, 0) as twice,
       coalesce(b.offsets, 0) as in_both,
       (select proven from keyed) as keyed,
       coalesce(c.chunks, 0) as chunks,
       coalesce(c.overlapping, 0) as overlapping,
       coalesce(p.unread, 0)::bigint as unread,
       p.from_offset,
       (select o.position from penstock.position o join penstock.load l using (generation_id)
        where l.load_id = %(load_id)s and o.partition = n.partition) as position,
       coalesce(s.row_hash, 0) as row_hash,
       (extract(epoch from least(s.first_at, q.first_at)) * 1000)::bigint as first_ms,
       (extract(epoch from greatest(s.last_at, q.last_at)) * 1000)::bigint as last_ms
from (select partition from plan union select partition from staged union select partition from quarantined
      union select partition from chunk) n
left join planned p using (partition)
left join staged s using (partition)
left join quarantined q using (partition)
left join twice t using (partition)
left join in_both b using (partition)
left join chunked c using (partition)
order by n.partition

-- name: try_regex
-- Raises an error if PostgreSQL cannot read a regular expression.
select '' ~ %(regex)s::text

-- name: read_declaration
-- The declaration that a load was planned by.
select declaration from penstock.load join penstock.declaration using (declaration_id) where load_id = %(load_id)s

-- name: forget_checks
-- Deletes the results of an earlier run of the checks on the same attempt.
delete from penstock.check_result where load_id = %(load_id)s and attempt = %(attempt)s

-- name: record_checks
-- Records the results of expectations, of one partition or of the whole load. %(results)s is a JSON array.
insert into penstock.check_result
    (load_id, attempt, ordinal, kind, expectation, partition, "column", severity, success, observed, suite, check_id,
     figure)
select %(load_id)s, %(attempt)s, r.ordinal, r.kind, r.expectation, r.partition, r."column", r.severity, r.success,
       r.observed, r.suite, r.check_id, r.figure
from jsonb_to_recordset(%(results)s)
     as r (ordinal int, kind text, expectation text, partition int, "column" text, severity text, success boolean,
           observed jsonb, suite text, check_id text, figure numeric)

-- name: keep_sums
-- Stores the fingerprint of each partition's rows and the times of its records, where the plan has one range of the
-- partition. Times come as milliseconds: a timestamp after the year 9999 has no value in Python.
update penstock.load_range r
set row_hash = h.row_hash, first_at = timestamptz 'epoch' + h.first_ms * interval '1 millisecond',
    last_at = timestamptz 'epoch' + h.last_ms * interval '1 millisecond'
from unnest(%(partitions)s::int[], %(row_hashes)s::numeric[], %(firsts_ms)s::bigint[], %(lasts_ms)s::bigint[])
     as h (partition, row_hash, first_ms, last_ms)
where r.load_id = %(load_id)s and r.partition = h.partition
  and not exists (select from penstock.load_range o
                  where o.load_id = r.load_id and o.partition = r.partition and o.from_offset <> r.from_offset)

-- name: keep_sums_by_key
-- Stores the same of ranges that share a partition with others: each range is read through the key. The ranges are
-- chosen first, so that no row is read for a plan with one range of each partition.
with shared as materialized (
    select r.partition, r.from_offset, r.until_offset
    from penstock.load_range r
    where r.load_id = %(load_id)s
      and exists (select from penstock.load_range o
                  where o.load_id = r.load_id and o.partition = r.partition and o.from_offset <> r.from_offset)
),
summed as materialized (
    select k.partition, k.from_offset, s.row_hash, least(s.first_at, q.first_at) as first_at,
           greatest(s.last_at, q.last_at) as last_at
    from shared k
    cross join lateral (select coalesce(sum({row_hash}), 0) as row_hash, min(_timestamp) as first_at,
                               max(_timestamp) as last_at
                        from {staged}
                        where _partition = k.partition and _offset >= k.from_offset and _offset < k.until_offset) s
    cross join lateral (select min(record_timestamp) as first_at, max(record_timestamp) as last_at
                        from penstock.quarantine
                        where load_id = %(load_id)s and partition = k.partition
                          and attempt = (select attempt from penstock.load where load_id = %(load_id)s)
                          and "offset" >= k.from_offset and "offset" < k.until_offset) q
)
update penstock.load_range r
set row_hash = s.row_hash, first_at = s.first_at, last_at = s.last_at
from summed s
where r.load_id = %(load_id)s and r.partition = s.partition and r.from_offset = s.from_offset

-- name: sample_rows_outside
-- Some staged offsets of a partition that are not in the plan.
select s._offset as found from {staged} s
where s._partition = %(partition)s
  and not exists (select from penstock.load_range r where r.load_id = %(load_id)s and r.partition = s._partition
                    and s._offset >= r.from_offset and s._offset < r.until_offset)
order by s._offset limit %(most)s

-- name: sample_quarantined_outside
-- Some quarantined offsets of a partition that are not in the plan.
select q."offset" as found from penstock.quarantine q
where q.load_id = %(load_id)s and q.attempt = %(attempt)s and q.partition = %(partition)s
  and not exists (select from penstock.load_range r where r.load_id = q.load_id and r.partition = q.partition
                    and q."offset" >= r.from_offset and q."offset" < r.until_offset)
order by q."offset" limit %(most)s

-- name: sample_twice
-- Some offsets of a partition that were staged twice, or both staged and quarantined.
select found from (
    select s._offset as found from {staged} s where s._partition = %(partition)s group by s._offset having count(*) > 1
    union
    select q."offset" from penstock.quarantine q
    join {staged} s on s._partition = q.partition and s._offset = q."offset"
    where q.load_id = %(load_id)s and q.attempt = %(attempt)s and q.partition = %(partition)s) o
order by found limit %(most)s

-- name: sample_unaccounted
-- Some chunks of a partition whose counts do not match the tables: the missing offsets are in these chunks.
select array[c.from_offset, c.until_offset] as found
from penstock.stage_task c
where c.load_id = %(load_id)s and c.attempt = %(attempt)s and c.partition = %(partition)s
  and c.until_offset - c.from_offset - c.holes - c.filtered
      <> (select count(*) from {staged} s
          where s._partition = c.partition and s._offset >= c.from_offset and s._offset < c.until_offset)
       + (select count(*) from penstock.quarantine q
          where q.load_id = c.load_id and q.attempt = c.attempt and q.partition = c.partition
            and q."offset" >= c.from_offset and q."offset" < c.until_offset)
order by c.from_offset limit %(most)s

-- name: lock_load
-- Locks the row of a load: two validations of one attempt wait for each other. Foreign keys are not blocked.
select load_id from penstock.load where load_id = %(load_id)s for no key update

-- name: count_warnings
-- How many checks with severity warning failed for the current attempt: a check of several partitions counts once.
select count(*) as warnings from penstock.check_result k join penstock.load l using (load_id, attempt)
where k.load_id = %(load_id)s and k.severity = 'warning' and not k.success and k.partition is null

-- name: read_failed_checks
-- The first failed checks of the current attempt: those that hold the load, then the others, in their order.
select k.kind, k.expectation, k.partition, k."column", k.severity, k.success, k.observed, k.suite, k.check_id
from penstock.check_result k join penstock.load l using (load_id, attempt)
where k.load_id = %(load_id)s and not k.success
order by k.severity <> 'error', k.ordinal limit %(most)s

-- name: count_failed_checks
-- How many checks failed for the current attempt.
select count(*) as failed from penstock.check_result k join penstock.load l using (load_id, attempt)
where k.load_id = %(load_id)s and not k.success

-- name: find_checked
-- The last loads of a pipeline whose current attempt was checked.
select l.load_id
from penstock.load l
cross join lateral (select from penstock.check_result k where k.load_id = l.load_id and k.attempt = l.attempt limit 1) c
where l.pipeline_id = %(pipeline_id)s
order by l.load_id desc limit %(last)s

-- name: read_history
-- The results of the checks on some loads, one row for each load and check.
select load_id, load_kind, state, checked_at, kind, expectation, "column", suite, check_id, severity, success,
       partitions_failed, figure::float8 as figure
from penstock.quality_history
where pipeline = %(pipeline)s and load_id = any (%(load_ids)s::bigint[])
order by load_id, ordinal

-- name: read_failures
-- The figures of an expectation where it failed, in some loads.
select k.load_id, k.expectation, k."column", k.check_id, k.partition, k.observed
from penstock.check_result k join penstock.load l on l.load_id = k.load_id and l.attempt = k.attempt
where k.load_id = any (%(load_ids)s::bigint[]) and k.expectation = %(expectation)s and not k.success
order by k.load_id, k.ordinal
