-- name: read_known
-- Each pipeline with the topic it has loaded so far, its positions, and the partitions of its target; no row before its
-- first plan.
select p.name, g.cluster_id, g.topic_id,
       (select count(*) from pg_inherits where inhparent = to_regclass(asked.target)) as leaves,
       coalesce(json_object_agg(s.partition, s.position) filter (where s.partition is not null), '{}') as positions
from unnest(%(names)s::text[], %(targets)s::text[]) as asked (name, target)
join penstock.pipeline p on p.name = asked.name
join lateral (select * from penstock.generation where pipeline_id = p.pipeline_id
              order by generation_id desc limit 1) g on true
left join penstock.position s on s.generation_id = g.generation_id
group by p.name, g.cluster_id, g.topic_id, asked.target
