-- name: read_pipelines
-- Each pipeline with its newest generation and its newest live load.
select p.name, p.pipeline_id, g.generation_id, g.cluster_id, g.topic_id,
       l.load_id, l.state, l.cause
from penstock.pipeline p
left join lateral (select * from penstock.generation where pipeline_id = p.pipeline_id
                   order by generation_id desc limit 1) g on true
left join lateral (select * from penstock.load where pipeline_id = p.pipeline_id and kind = 'live'
                     and state not in ('superseded', 'discarded', 'rolled_back')
                   order by load_id desc limit 1) l on true
where p.name = any(%(names)s)

-- name: read_positions
-- Where each partition of a generation stands.
select partition, position from penstock.position where generation_id = %(generation_id)s order by partition

-- name: read_progress
-- How far the load that is being staged has come.
select partition, planned, done, rows_per_second from penstock.progress
where load_id = (select max(load_id) from penstock.loads where pipeline = %(pipeline)s and state = 'staging')
order by partition
