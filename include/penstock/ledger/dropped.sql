-- name: find_old_leaves
-- The leaves of a target of which every load was published more than so many days ago, and is not open. Leaves whose
-- loads are unknown are left out.
select leaf.name, leaf.from_load, leaf.until_load
from unnest(%(names)s::text[], %(from_loads)s::bigint[], %(until_loads)s::bigint[]) as leaf (name, from_load, until_load)
where exists (select from penstock.coverage c
              where c.pipeline_id = %(pipeline_id)s and c.load_id >= leaf.from_load and c.load_id < leaf.until_load)
  and not exists (select from penstock.load l
                  where l.pipeline_id = %(pipeline_id)s and l.load_id >= leaf.from_load and l.load_id < leaf.until_load
                    and (l.state in ('planned', 'staging', 'staged', 'validated', 'held')
                         or l.published_at >= now() - make_interval(days => %(days)s)))
order by leaf.from_load

-- name: record_dropped
-- Records the loads whose rows were dropped with a leaf. A load whose rollback can be undone keeps its rows elsewhere.
insert into penstock.dropped_load (load_id, pipeline_id, leaf)
select distinct c.load_id, c.pipeline_id, %(leaf)s
from penstock.coverage c
where c.pipeline_id = %(pipeline_id)s and c.load_id >= %(from_load)s and c.load_id < %(until_load)s
  -- A merge of leaves around a leaf that was dropped spans its loads.
  and not exists (select from penstock.dropped_load d where d.load_id = c.load_id)

-- name: count_dropped
-- The number of loads of a pipeline whose rows were dropped.
select count(*) as loads from penstock.dropped_load where pipeline_id = %(pipeline_id)s

-- name: find_dropped
-- Those of some loads whose rows were dropped.
select load_id from penstock.dropped_load where load_id = any (%(loads)s) order by load_id
