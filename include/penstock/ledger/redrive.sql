-- name: choose_records
-- Quarantined records of the generation that is loaded now whose contents are still there, after a place.
select q.load_id as source_load, q.partition, q."offset"
from penstock.quarantined q join penstock.load l using (load_id)
where {chosen} and q.dropped_at is null
  -- The counts of the rows that are left of such a load could not be computed any more.
  and not exists (select from penstock.dropped_load d where d.load_id = q.load_id)
  and l.generation_id = (select max(g.generation_id) from penstock.generation g where g.pipeline_id = l.pipeline_id)
  -- The quarantine has no place for the timestamp of such a record.
  and not (q.reason = 'bad_timestamp' and q.record_timestamp is null)
  and (q.load_id, q.partition, q."offset") > (%(after_load)s, %(after_partition)s, %(after_offset)s)
order by q.load_id, q.partition, q."offset" limit %(most)s

-- name: plan_records
-- Records which load quarantined each record of a redrive.
insert into penstock.redriven (load_id, partition, "offset", source_load, source_attempt)
select %(load_id)s, p.partition, p."offset", p.source_load, l.attempt
from unnest(%(partitions)s::int[], %(offsets)s::bigint[], %(sources)s::bigint[]) as p (partition, "offset", source_load)
join penstock.load l on l.load_id = p.source_load

-- name: read_records
-- The records of a redrive in the quarantine, in their order after a place.
select r.partition, r."offset", q.key, q.value, q.headers,
       coalesce((extract(epoch from q.record_timestamp) * 1000)::bigint, -1) as millis
from penstock.redriven r
join penstock.quarantine q on q.load_id = r.source_load and q.attempt = r.source_attempt
     and q.partition = r.partition and q."offset" = r."offset" and q.dropped_at is null
where r.load_id = %(load_id)s and (r.partition, r."offset") > (%(partition)s, %(after)s)
order by r.partition, r."offset" limit %(most)s

-- name: list_passing
-- The places of the rows of {staged}.
select _partition as partition, _offset as "offset" from {staged} order by 1, 2

-- name: count_rejected
-- The records that a redrive quarantined again, by reason and rule.
select reason, rule, count(*) as records from penstock.quarantine
where load_id = %(load_id)s and attempt = %(attempt)s group by reason, rule order by reason, rule

-- name: take_records
-- Takes the records of a redrive out of the quarantine, and keeps them for a rollback. A record is taken only if the load
-- that quarantined it still covers its offset.
with taken as (
    delete from penstock.quarantine q
    using penstock.redriven r
    where r.load_id = %(load_id)s and q.load_id = r.source_load and q.attempt = r.source_attempt
      and q.partition = r.partition and q."offset" = r."offset" and q.dropped_at is null
      and exists (select from penstock.coverage c
                  where c.load_id = r.source_load and c.partition = r.partition and c.offsets @> r."offset")
    returning q.*
)
update penstock.redriven r
set reason = t.reason, detail = t.detail, rule = t.rule, first_partition = t.first_partition, first_offset = t.first_offset,
    key = t.key, value = t.value, headers = t.headers, record_timestamp = t.record_timestamp
from taken t
where r.load_id = %(load_id)s and r.source_load = t.load_id and r.partition = t.partition and r."offset" = t."offset"

-- name: give_back
-- Returns the records of a redrive that is rolled back to the quarantine of the loads that had quarantined them. Such a
-- load covers their offsets again, also if later redrives or replays had taken all that it covered. If it is rolled back
-- itself, the undo of its rollback covers them; after its keeping time there is no undo, and the records stay here.
with given as (
    delete from penstock.redriven r
    using penstock.aside a, penstock.load s
    where r.load_id = %(load_id)s and a.load_id = r.load_id and a.partition = r.partition and a.offsets @> r."offset"
      and s.load_id = r.source_load and s.attempt = r.source_attempt
      and (s.state in ('published', 'superseded')
           or s.state = 'rolled_back' and exists (select from penstock.aside k where k.load_id = s.load_id))
    returning r.*, s.state <> 'rolled_back' as is_covered
),
quarantined as (
    insert into penstock.quarantine (load_id, attempt, partition, "offset", reason, detail, rule, first_partition,
                                     first_offset, key, value, headers, record_timestamp)
    select source_load, source_attempt, partition, "offset", reason, detail, rule, first_partition, first_offset, key,
           value, headers, record_timestamp
    from given
),
covered as (
    insert into penstock.coverage
        (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, row_hash, first_at, last_at)
    select l.pipeline_id, l.generation_id, g.partition, int8range(g."offset", g."offset" + 1), g.source_load, 0, 1, 0, 0,
           g.record_timestamp, g.record_timestamp
    from given g join penstock.load l on l.load_id = g.source_load
    where g.is_covered
),
kept as (
    insert into penstock.aside (load_id, partition, offsets, rows, quarantined, holes, row_hash, first_at, last_at)
    select source_load, partition, int8range("offset", "offset" + 1), 0, 1, 0, 0, record_timestamp, record_timestamp
    from given where not is_covered
)
select source_load, is_covered, count(*) as records from given group by source_load, is_covered order by source_load

-- name: forget_copies
-- Deletes the records that a redrive quarantined again. They are copies: the records themselves stay in the quarantine.
delete from penstock.quarantine where load_id = %(load_id)s

-- name: find_open_redrives
-- The open redrives of a pipeline that no process works on. A held one waits for a person.
select load_id from penstock.load
where pipeline_id = %(pipeline_id)s and kind = 'redrive'
  and state in ('planned', 'staging', 'staged', 'validated', 'held') and state <> 'held'
  and not exists (select from pg_locks k
                  where k.locktype = 'advisory' and k.database = (select oid from pg_database
                                                                  where datname = current_database())
                    and (k.classid::bigint << 32 | k.objid::bigint) = hashtextextended('penstock work ' || load_id, 0))
order by load_id

-- name: find_failed_redrives
-- The failed redrives of a pipeline that have an open incident.
select distinct l.load_id from penstock.incident i join penstock.load l using (load_id)
where i.pipeline = %(pipeline)s and i.ended_at is null and l.kind = 'redrive' and l.state = 'failed'
order by l.load_id

-- name: find_loads_beside
-- The loads that now cover offsets of the loads that quarantined the records of a redrive: these loads themselves, and the
-- replays and redrives that have taken some of their offsets.
select distinct c.load_id
from (select distinct source_load from penstock.redriven where load_id = %(load_id)s) v
join penstock.load l on l.load_id = v.source_load
join penstock.load_range w on w.load_id = v.source_load
join penstock.coverage c on c.pipeline_id = l.pipeline_id and c.generation_id = l.generation_id
     and c.partition = w.partition and c.offsets && int8range(w.from_offset, w.until_offset)
order by c.load_id
