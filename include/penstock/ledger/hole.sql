-- name: find_loads_to_name
-- The published loads of a generation whose holes are not known to be all named, and those of %(again)s; all, if it is
-- null.
select l.load_id
from penstock.load l
where l.pipeline_id = %(pipeline_id)s and l.generation_id = %(generation_id)s and l.state = 'published'
  and (%(again)s::bigint[] is null or l.load_id = any (%(again)s::bigint[])
       or not exists (select from penstock.named_load m where m.load_id = l.load_id))
order by l.load_id

-- name: lock_loads
-- Locks loads, without those that another transaction changes now.
select load_id from penstock.load where load_id = any (%(loads)s::bigint[]) and state = 'published'
order by load_id for no key update skip locked

-- name: forget_named
-- Forgets that the holes of some loads are all named. The transaction holds the locks of the loads.
delete from penstock.named_load where load_id = any (%(loads)s::bigint[])

-- name: remember_named
-- Remembers those of some loads whose holes are all named. The transaction holds the locks of the loads since an earlier
-- statement: this one sees what others have changed before.
insert into penstock.named_load (load_id, aborted, marker, compacted, unexplained, gone)
select l.load_id, coalesce(sum(h.holes) filter (where h.kind = 'aborted'), 0),
       coalesce(sum(h.holes) filter (where h.kind = 'marker'), 0),
       coalesce(sum(h.holes) filter (where h.kind = 'compacted'), 0),
       coalesce(sum(h.holes) filter (where h.kind = 'unexplained'), 0),
       coalesce(sum(h.holes) filter (where h.kind = 'gone'), 0)
from unnest(%(loads)s::bigint[]) as l (load_id)
left join penstock.holes h using (load_id)
group by l.load_id
having bool_or(h.kind = 'unnamed') is not true
returning load_id

-- name: find_unnamed
-- Ranges of some loads with more holes than are named, without the pieces that were examined before. If all pieces were,
-- the whole range is examined again: a row was deleted since. Where the rows were dropped after their keeping time nothing
-- tells a hole from a row.
select c.load_id, c.partition, lower(piece) as from_offset, upper(piece) as until_offset, c.coverage_id
from penstock.coverage c
cross join lateral (
    select coalesce(sum(aborted + marker + compacted + unexplained + gone), 0) as holes,
           coalesce(range_agg(n.offsets), '{}') as offsets
    from penstock.naming n
    where n.load_id = c.load_id and n.partition = c.partition and n.offsets <@ c.offsets) named
cross join lateral unnest(case when named.offsets @> c.offsets then int8multirange(c.offsets)
                               else int8multirange(c.offsets) - named.offsets end) as piece
where c.load_id = any (%(loads)s::bigint[]) and c.holes > 0 and c.holes > named.holes
  and not exists (select from penstock.dropped_load d where d.load_id = c.load_id)
order by c.partition, from_offset

-- name: find_unexplained
-- Pieces with unexplained holes that are still covered. They are examined again, because the cause may have been fixed, but
-- not where the rows were dropped after their keeping time.
select n.load_id, n.partition, lower(n.offsets) as from_offset, upper(n.offsets) as until_offset, c.coverage_id
from penstock.naming n
join penstock.coverage c on c.load_id = n.load_id and c.partition = n.partition and n.offsets <@ c.offsets
where c.pipeline_id = %(pipeline_id)s and c.generation_id = %(generation_id)s and n.unexplained > 0
  and not exists (select from penstock.dropped_load d where d.load_id = c.load_id)
order by n.partition, from_offset

-- name: find_holes
-- The holes of a window of a load, neighbouring holes as one: the offsets between rows of {target}, quarantined
-- records and filtered ones. All are found by their keys.
select before + 1 as from_offset, held as until_offset
from (select held, lag(held, 1, %(from_offset)s - 1) over (order by held) as before
      from (select _offset as held from {target}
            where _load_id = %(load_id)s and _partition = %(partition)s
              and _offset >= %(from_offset)s and _offset < %(until_offset)s
            union all
            select q."offset" from penstock.quarantine q join penstock.load l using (load_id, attempt)
            where q.load_id = %(load_id)s and q.partition = %(partition)s
              and q."offset" >= %(from_offset)s and q."offset" < %(until_offset)s
            union all
            select f.from_offset + bit
            from penstock.filtered f join penstock.load l using (load_id, attempt)
            cross join lateral generate_series(0, 8 * length(f.places) - 1) bit
            where f.load_id = %(load_id)s and f.partition = %(partition)s
              and f.from_offset > %(from_offset)s - 4096 and f.from_offset < %(until_offset)s
              and f.from_offset + bit >= %(from_offset)s and f.from_offset + bit < %(until_offset)s
              and get_bit(f.places, bit) = 1
            union all
            select %(until_offset)s) as all_held) as neighbours
where held - before > 1 order by held

-- name: lock_load
-- Locks a load, if it is published.
select load_id from penstock.load where load_id = %(load_id)s and state = 'published' for no key update

-- name: forget_naming
-- Deletes what was recorded about the holes of these offsets before.
delete from penstock.naming
where load_id = %(load_id)s and partition = %(partition)s and offsets && int8range(%(from_offset)s, %(until_offset)s)

-- name: forget_unexplained
-- Deletes the unexplained holes of these offsets that are explained now. The others keep their date.
delete from penstock.unexplained u
where u.load_id = %(load_id)s and u.partition = %(partition)s
  and u.offsets && int8range(%(from_offset)s, %(until_offset)s)
  and not (u.offsets = any (%(still)s::int8range[]))

-- name: record_naming
-- Records the holes of a piece by kind, if its load has covered the piece since it was found: a rollback takes the rows
-- away, and its undo covers the offsets again.
insert into penstock.naming (load_id, partition, offsets, aborted, marker, compacted, unexplained, gone)
select %(load_id)s, %(partition)s, int8range(%(from_offset)s, %(until_offset)s),
       %(aborted)s, %(marker)s, %(compacted)s, %(unexplained)s, %(gone)s
where exists (select from penstock.coverage c
              where c.coverage_id = %(coverage_id)s and c.load_id = %(load_id)s and c.partition = %(partition)s
                and c.offsets @> int8range(%(from_offset)s, %(until_offset)s))
on conflict do nothing

-- name: record_unexplained
-- Records holes that nothing explains. %(holes)s is a JSON array.
insert into penstock.unexplained (load_id, partition, offsets, why)
select %(load_id)s, %(partition)s, int8range(u.from_offset, u.until_offset), u.why
from jsonb_to_recordset(%(holes)s) as u (from_offset bigint, until_offset bigint, why text)
on conflict do nothing

-- name: read_unexplained
-- All unexplained holes of a generation.
select load_id, partition, from_offset, until_offset, why from penstock.unexplained_holes
where pipeline = %(pipeline)s and generation = %(generation_id)s order by partition, from_offset

-- name: sum_holes
-- The holes of a generation by kind: of the loads that are remembered as named, and of the other ones.
select kind, sum(holes)::bigint as holes
from (select k.kind, k.holes
      from penstock.pipeline p
      join penstock.load l using (pipeline_id)
      join penstock.named_load m using (load_id)
      cross join lateral (values ('aborted', m.aborted), ('marker', m.marker), ('compacted', m.compacted),
                                 ('unexplained', m.unexplained), ('gone', m.gone)) as k (kind, holes)
      where p.name = %(pipeline)s and l.generation_id = %(generation_id)s and l.state = 'published'
      union all
      select h.kind, h.holes
      from penstock.pipeline p
      join penstock.load l using (pipeline_id)
      join penstock.holes h using (load_id)
      where p.name = %(pipeline)s and l.generation_id = %(generation_id)s and l.state = 'published'
        and not exists (select from penstock.named_load m where m.load_id = l.load_id)) as found
where holes > 0 group by kind order by kind

-- name: count_holes
-- The holes of a generation by load, partition and kind.
select load_id as load, partition, from_offset as "from", until_offset as until, kind, holes from penstock.holes
where pipeline = %(pipeline)s and generation = %(generation_id)s order by load_id, partition, from_offset, kind
