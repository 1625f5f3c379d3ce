-- name: find_copies
-- The rows of {staged} with an earlier copy, which has the same {ids}: in the load, and there among the rows of one
-- {source}, the copy of the lowest partition and offset is the first; in {target} a row that is {near}, outside the
-- ranges that the load itself covers. A row without an id has no copies: {known}.
with repeated as (
    select {ids} from {staged} s where {known} group by {ids} having count(*) > 1
),
ranked as (
    select s._partition, s._offset, row_number() over copies as place,
           first_value(s._partition) over copies as first_partition, first_value(s._offset) over copies as first_offset
    from {staged} s join repeated using ({ids})
    window copies as (partition by {ids}, {source} order by s._partition, s._offset)
),
earlier as (
    select distinct on (s._partition, s._offset) s._partition, s._offset, t._partition as first_partition,
           t._offset as first_offset
    from {staged} s join {target} t using ({ids})
    where {near}
      and not exists (select from penstock.load_range r
                      join penstock.load l on l.load_id = r.load_id
                      join penstock.load x on x.load_id = t._load_id and x.generation_id = l.generation_id
                      where r.load_id = %(load_id)s and r.partition = t._partition
                        and t._offset >= r.from_offset and t._offset < r.until_offset)
    order by s._partition, s._offset, t._load_id, t._partition, t._offset
)
select coalesce(e._partition, c._partition) as partition, coalesce(e._offset, c._offset) as "offset",
       coalesce(e.first_partition, c.first_partition) as first_partition,
       coalesce(e.first_offset, c.first_offset) as first_offset, count(*) over () as copies
from earlier e
full join (select * from ranked where place > 1) c on c._partition = e._partition and c._offset = e._offset
order by 1, 2 limit %(most)s
