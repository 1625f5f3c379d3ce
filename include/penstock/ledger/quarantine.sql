-- name: create_set_aside
-- Creates a temporary table for records that leave an attempt's table: they are read from the log before the
-- transaction that moves them.
create temporary table if not exists set_aside (
    partition       int not null,
    "offset"        bigint not null,
    reason          text not null,
    detail          text not null,
    rule            text,
    first_partition int,
    first_offset    bigint,
    key             bytea,
    value           bytea,
    headers         jsonb not null,
    primary key (partition, "offset")
)

-- name: empty_set_aside
-- Empties that table.
delete from pg_temp.set_aside

-- name: fill_set_aside
-- Fills that table.
copy pg_temp.set_aside (partition, "offset", reason, detail, rule, first_partition, first_offset, key, value, headers)
from stdin

-- name: move_to_quarantine
-- Moves rows of an attempt's table {staged} to the quarantine, with the records that were set aside, and changes the
-- counts of their tasks, of their ranges and of the load. A row that another process has moved before is not in {staged}
-- any more.
with moved as (
    delete from {staged} s
    using pg_temp.set_aside a
    where s._partition = a.partition and s._offset = a."offset"
    returning a.partition, a."offset", a.reason, a.detail, a.rule, a.first_partition, a.first_offset, a.key, a.value,
              a.headers, s._timestamp
),
quarantined as (
    insert into penstock.quarantine (load_id, attempt, partition, "offset", reason, detail, rule, first_partition,
                                     first_offset, key, value, headers, record_timestamp)
    select %(load_id)s, %(attempt)s, partition, "offset", reason, detail, rule, first_partition, first_offset, key, value,
           headers, _timestamp
    from moved
),
by_task as (
    update penstock.stage_task t
    set rows = t.rows - n.records, quarantined = t.quarantined + n.records
    from (select c.task, count(*) as records
          from moved m
          join penstock.stage_task c on c.load_id = %(load_id)s and c.attempt = %(attempt)s
               and c.partition = m.partition and m."offset" >= c.from_offset and m."offset" < c.until_offset
          group by c.task) n
    where t.load_id = %(load_id)s and t.attempt = %(attempt)s and t.task = n.task
),
by_range as (
    update penstock.load_range r
    set rows = r.rows - n.records, quarantined = r.quarantined + n.records
    from (select c.partition, c.from_offset, count(*) as records
          from moved m
          join penstock.load_range c on c.load_id = %(load_id)s
               and c.partition = m.partition and m."offset" >= c.from_offset and m."offset" < c.until_offset
          group by c.partition, c.from_offset) n
    where r.load_id = %(load_id)s and r.partition = n.partition and r.from_offset = n.from_offset
)
update penstock.load l
set rows = l.rows - n.records, quarantined = l.quarantined + n.records
from (select count(*) as records from moved) n
where l.load_id = %(load_id)s and l.attempt = %(attempt)s and l.state = 'staged'
returning n.records

-- name: count_moved
-- The rows of an attempt that each rule has moved to the quarantine, and the copies of rows.
select coalesce(rule, 'dedupe') as rule, count(*) as records from penstock.quarantine
where load_id = %(load_id)s and attempt = %(attempt)s and reason in ('rule', 'duplicate') group by 1

-- name: list_quarantined
-- The quarantined records of published loads, counted by load, reason and rule, with the places of the first five.
select q.load_id as load, l.kind, l.published_at, q.reason, q.rule, count(*) as records, count(q.dropped_at) as dropped,
       (array_agg(format('%%s:%%s', q.partition, q."offset") order by q.partition, q."offset"))[1:5] as first
from penstock.quarantined q join penstock.load l using (load_id)
where {chosen}
group by q.load_id, l.kind, l.published_at, q.reason, q.rule
order by q.load_id desc, q.reason, q.rule

-- name: read_quarantined
-- Quarantined records of published loads, after a place in the order of loads, partitions and offsets.
select q.load_id as load, q.partition, q."offset", q.reason, q.rule, q.detail, q.record_timestamp as timestamp,
       q.first_partition, q.first_offset, q.dropped_at, q.key, q.value, q.headers
from penstock.quarantined q join penstock.load l using (load_id)
where {chosen} and (q.load_id, q.partition, q."offset") > (%(after_load)s, %(after_partition)s, %(after_offset)s)
order by q.load_id, q.partition, q."offset" limit %(most)s

-- name: drop_quarantined
-- Drops the contents of quarantined records by a person's decision. Their offsets and reasons stay, because every offset
-- is accounted for. Returns the number of records of each load.
with dropped as (
    update penstock.quarantine t
    set key = null, value = null, headers = '[]', detail = 'dropped by a person', dropped_at = now()
    from penstock.quarantined q join penstock.load l using (load_id)
    where {chosen} and q.dropped_at is null
      and t.load_id = q.load_id and t.attempt = l.attempt and t.partition = q.partition and t."offset" = q."offset"
    returning t.load_id
)
select load_id, count(*) as records from dropped group by load_id order by load_id
