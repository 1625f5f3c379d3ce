-- name: read_results
-- The results of a pipeline, in the order in which they were declared.
select result_id, pipeline_id, table_name, definition, state, built_until, build_to, guards_dropped_at from penstock.result
where pipeline_id = %(pipeline_id)s order by result_id

-- name: has_published
-- Whether a load of the pipeline was ever published.
select exists (select from penstock.generation g join penstock.coverage c using (generation_id)
               where g.pipeline_id = %(pipeline_id)s)
    or exists (select from penstock.load where pipeline_id = %(pipeline_id)s and state = 'rolled_back') as has_published

-- name: add_result
-- Adds a result of a pipeline.
insert into penstock.result (pipeline_id, table_name, definition, state, current_since)
values (%(pipeline_id)s, %(table_name)s, %(definition)s, %(state)s, case when %(state)s = 'current' then now() end)
returning result_id

-- name: remove_results
-- Removes results; their tables stay.
delete from penstock.result where result_id = any (%(result_ids)s)

-- name: mark_changed
-- Notes the load that has changed the results.
update penstock.result set load_id = %(load_id)s where result_id = any (%(result_ids)s)

-- name: mark_guards_dropped
-- Notes that guards of a result were dropped after their time.
update penstock.result set guards_dropped_at = now() where result_id = %(result_id)s

-- name: begin_building
-- Begins the rebuild of a result with the loads that are published now.
insert into penstock.result (pipeline_id, table_name, definition, state, built_until, build_to)
select %(pipeline_id)s::bigint, %(table_name)s, %(definition)s, 'building', 0,
       coalesce((select max(load_id) from penstock.load where pipeline_id = %(pipeline_id)s::bigint), 0)
returning result_id

-- name: find_piece
-- The next loads of a rebuild, up to a number of rows and a thousand loads: the last of them, and their rows. Null if
-- none is left. The coverage of later loads is not read: publishes wait for this.
select max(load_id) as until_load, coalesce(sum(rows), 0)::bigint as rows
from (select l.load_id, c.rows, sum(c.rows) over (order by l.load_id) - c.rows as rows_before
      from (select load_id from penstock.load o
            where pipeline_id = %(pipeline_id)s and load_id > %(built_until)s and load_id <= %(build_to)s
              and exists (select from penstock.coverage where load_id = o.load_id)
            order by load_id limit 1000) l
      cross join lateral (select sum(rows) as rows from penstock.coverage where load_id = l.load_id) c) l
where rows_before < %(most)s

-- name: mark_built
-- Notes how far a rebuild has read.
update penstock.result set built_until = %(until_load)s where result_id = %(result_id)s

-- name: finish_building
-- building -> current.
update penstock.result set state = 'current', current_since = now(), built_until = null, build_to = null
where result_id = %(result_id)s

-- name: list_results
-- The tables of a pipeline's results. A result that waits or is being rebuilt stands beside the current one of its table,
-- which still changes with each load. The number of rows is the estimate of the catalog: no row is counted. A check query
-- needs all rows of the target, so it proves nothing where old rows were dropped.
with here as (
    select n.table_name as name, c.result_id is not null as is_current, coalesce(p.state, 'current') as state,
           coalesce(c.definition, p.definition) as definition, coalesce(p.declared_at, c.declared_at) as declared_at,
           c.current_since, c.load_id, p.built_until, p.build_to
    from (select distinct table_name from penstock.result where pipeline_id = %(pipeline_id)s) n
    left join penstock.result c on c.table_name = n.table_name and c.state = 'current'
    left join lateral (select * from penstock.result r where r.table_name = n.table_name and r.state <> 'current'
                       order by r.result_id desc limit 1) p on true
)
select h.name as "table", h.definition ->> 'mode' as mode,
       array(select jsonb_array_elements_text(h.definition -> 'key')) as key, h.state, h.is_current,
       h.definition ->> 'mode' = 'upsert' or h.definition ->> 'check' is not null and not d.has_dropped as is_provable,
       e.rows, h.declared_at, h.current_since,
       coalesce(h.load_id, (select l.load_id from penstock.load l
                            where l.pipeline_id = %(pipeline_id)s and l.published_at <= h.current_since
                            order by l.load_id desc limit 1)) as load,
       h.built_until, h.build_to, b.rows_read, b.rows_to_read,
       v.verification_id, v.ended_at as verified_at, v.share, v.fault
from here h
cross join (select exists (select from penstock.dropped_load where pipeline_id = %(pipeline_id)s) as has_dropped) d
left join lateral (
    select case when c.reltuples >= 0 and c.relpages > 0
                then round(c.reltuples * pg_relation_size(c.oid) / current_setting('block_size')::int / c.relpages)::bigint
                else pg_stat_get_live_tuples(c.oid) end as rows
    from pg_class c where c.oid = to_regclass(h.name)) e on h.is_current
left join lateral (
    select coalesce(sum(l.rows) filter (where l.load_id <= h.built_until), 0)::bigint as rows_read,
           coalesce(sum(l.rows), 0)::bigint as rows_to_read
    from penstock.load l
    where l.pipeline_id = %(pipeline_id)s and l.state = 'published' and l.load_id <= h.build_to) b on h.state = 'building'
left join lateral (
    select v.verification_id, v.ended_at, v.share,
           (select substr(f.told, length(h.name) + 10) from penstock.fault f
            where f.verification_id = v.verification_id and f.kind = 'result' and starts_with(f.told, 'result ' || h.name || ': ')
            order by f.ordinal limit 1) as fault
    from penstock.verification v
    -- Without a column of the target no result is compared.
    where v.pipeline_id = %(pipeline_id)s and v.ended_at is not null and v.began_at >= h.current_since
      and not exists (select from penstock.fault f where f.verification_id = v.verification_id
                        and f.kind = 'rows_changed' and f.told like 'the target %% has no column %%')
    order by v.verification_id desc limit 1) v on true
order by 1
