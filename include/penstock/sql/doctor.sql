-- name: read_known
-- Each pipeline with the topic it has loaded so far and its positions; no row before its first plan.
select p.name, g.cluster_id, g.topic_id,
       coalesce(json_object_agg(s.partition, s.position) filter (where s.partition is not null), '{}') as positions
from penstock.pipeline p
join lateral (select * from penstock.generation where pipeline_id = p.pipeline_id
              order by generation_id desc limit 1) g on true
left join penstock.position s on s.generation_id = g.generation_id
where p.name = any(%(names)s)
group by p.name, g.cluster_id, g.topic_id
