-- name: read_backlogs
-- The positions of each pipeline by partition, and whether it can plan now: not while a live load is open or while the
-- log does not fit. A pipeline without positions was never planned.
select wanted.name as pipeline,
       coalesce((select json_object_agg(s.partition, s.position) from penstock.position s
                 where s.generation_id = (select max(g.generation_id) from penstock.generation g
                                          where g.pipeline_id = p.pipeline_id)), '{}') as positions,
       exists (select from penstock.load l
               where l.pipeline_id = p.pipeline_id and l.kind = 'live'
                 and l.state in ('planned', 'staging', 'staged', 'validated', 'held'))
       or exists (select from penstock.hold h where h.pipeline_id = p.pipeline_id and h.ended_at is null) as is_busy
from unnest(%(names)s::text[]) as wanted (name)
left join penstock.pipeline p on p.name = wanted.name
