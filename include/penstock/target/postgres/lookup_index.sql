-- name: read_lookup_indexes
-- The lookup indexes of a target, by their comments: %(comment)s, then their terms.
select n.nspname as schema, c.relname as name, substr(d.description, length(%(comment)s) + 1) as terms
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_description d on d.objoid = c.oid and d.classoid = 'pg_class'::regclass and d.objsubid = 0
where i.indrelid = to_regclass(%(target)s) and starts_with(d.description, %(comment)s) and i.indisvalid
order by c.oid
