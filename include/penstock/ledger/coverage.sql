-- name: cover_ranges
-- Coverage of a published load: the exclusion constraint refuses any offset that is covered already.
insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, row_hash)
select l.pipeline_id, l.generation_id, r.partition, int8range(r.from_offset, r.until_offset), l.load_id,
       r.rows, r.quarantined, r.holes, r.row_hash
from penstock.load l join penstock.load_range r using (load_id)
where l.load_id = %(load_id)s

-- name: uncover_overlaps
-- What other loads hold of a load's ranges loses its coverage; what they keep beside is put down again.
delete from penstock.coverage c
using penstock.load l join penstock.load_range r using (load_id)
where l.load_id = %(load_id)s and c.pipeline_id = l.pipeline_id and c.generation_id = l.generation_id
  and c.partition = r.partition and c.offsets && int8range(r.from_offset, r.until_offset)
returning c.load_id, c.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.rows, c.row_hash

-- name: cover_rest
-- A piece that a load keeps of a range that it covered; the caller has counted and hashed the rows of the piece.
insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, row_hash)
select l.pipeline_id, l.generation_id, %(partition)s, int8range(%(from_offset)s, %(until_offset)s), l.load_id,
       %(rows)s, q.records, %(until_offset)s - %(from_offset)s - %(rows)s - q.records, %(row_hash)s
from penstock.load l
cross join lateral (select count(*) as records from penstock.quarantine
                    where load_id = l.load_id and attempt = l.attempt and partition = %(partition)s
                      and "offset" >= %(from_offset)s and "offset" < %(until_offset)s) q
where l.load_id = %(load_id)s

-- name: read_standing
-- Whether a load covers anything of a partition besides, and the difference that it has there.
select exists (select from penstock.coverage where load_id = %(load_id)s and partition = %(partition)s) as beside,
       d.row_hash, d.rows
from (values (1)) as one left join penstock.difference d on d.load_id = %(load_id)s and d.partition = %(partition)s

-- name: forget_difference
-- Nothing of it is left, or it is about to be written anew.
delete from penstock.difference where load_id = %(load_id)s and partition = %(partition)s

-- name: keep_difference
-- Rows had been changed when some of them were replaced: what the load still covers must not look as if it fitted.
insert into penstock.difference (load_id, partition, row_hash, rows)
values (%(load_id)s, %(partition)s, %(row_hash)s, %(rows)s)

-- name: supersede_replaced
-- A published load that covers nothing any more: another has replaced all of it.
update penstock.load l set state = 'superseded', superseded_by = %(successor)s, ended_at = now()
where load_id = %(load_id)s and state = 'published'
  and not exists (select from penstock.coverage c where c.load_id = l.load_id)

-- name: set_aside
-- The coverage of a load that is rolled back.
with taken as (delete from penstock.coverage where load_id = %(load_id)s
               returning load_id, partition, offsets, rows, quarantined, holes, row_hash)
insert into penstock.aside (load_id, partition, offsets, rows, quarantined, holes, row_hash) select * from taken
returning partition, lower(offsets) as from_offset, upper(offsets) as until_offset

-- name: find_brought_again
-- What other loads have brought of the ranges of a load that was rolled back.
select c.partition, lower(c.offsets * a.offsets) as from_offset, upper(c.offsets * a.offsets) as until_offset, c.load_id
from penstock.aside a
join penstock.load l using (load_id)
join penstock.coverage c on c.pipeline_id = l.pipeline_id and c.generation_id = l.generation_id
     and c.partition = a.partition and c.offsets && a.offsets
where a.load_id = %(load_id)s order by 1, 2

-- name: bring_back
-- The coverage of a load whose rollback is undone.
with kept as (delete from penstock.aside where load_id = %(load_id)s
              returning load_id, partition, offsets, rows, quarantined, holes, row_hash)
insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes, row_hash)
select l.pipeline_id, l.generation_id, k.partition, k.offsets, k.load_id, k.rows, k.quarantined, k.holes, k.row_hash
from kept k join penstock.load l using (load_id)
returning partition, lower(offsets) as from_offset, upper(offsets) as until_offset

-- name: roll_back_load
-- Taken out by a person: its rows are kept aside for a while.
update penstock.load
set state = 'rolled_back', ended_at = now(), cause = %(why)s, kept_until = now() + make_interval(days => %(days)s)
where load_id = %(load_id)s and state = 'published'

-- name: republish_load
-- A rollback undone.
update penstock.load set state = 'published', ended_at = published_at, cause = null, kept_until = null
where load_id = %(load_id)s and state = 'rolled_back'

-- name: read_gaps
-- What lies below the positions and is neither covered nor lost.
select partition, from_offset, until_offset from penstock.gaps
where pipeline = %(pipeline)s and generation = %(generation_id)s order by 1, 2
