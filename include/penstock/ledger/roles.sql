-- name: find_missing_roles
-- Statements that create the roles that the server does not have. No role may log in by itself.
select format('create role %%I nologin', name) as statement
from unnest(%(names)s::text[]) as name
where not exists (select from pg_roles where rolname = name)

-- name: find_missing_memberships
-- Statements that make one role a member of another. The owner of a ledger from before the roles keeps its rights as a
-- loader. A role that migrates without being a superuser acts as the owner.
with wanted (role, member) as (
    select r, m from unnest(%(roles)s::text[], %(members)s::text[]) as w (r, m)
    union all
    select %(loader)s::text, o.rolname
    from pg_namespace n join pg_roles o on o.oid = n.nspowner
    where n.nspname = 'penstock' and not o.rolsuper and o.rolname <> %(owner)s::text
    union all
    select %(owner)s::text, rolname from pg_roles where rolname = current_user and rolcreaterole and not rolsuper
)
select format('grant %%I to %%I', w.role, w.member) as statement
from wanted w
where not exists (select from pg_auth_members a
                  where a.roleid = (select oid from pg_roles where rolname = w.role)
                    and a.member = (select oid from pg_roles where rolname = w.member)
                    and (to_jsonb(a) ->> 'set_option') is distinct from 'false')

-- name: find_other_owners
-- Statements that give the ledger to its owner. Tables of attempts and kept rows belong to the role that loads.
select format('alter schema %%I owner to %%I', n.nspname, %(owner)s::text) as statement
from pg_namespace n join pg_roles o on o.oid = n.nspowner
where n.nspname in ('penstock', 'penstock_stage', 'penstock_kept', 'penstock_results') and o.rolname <> %(owner)s::text
union all
select format('alter %%s penstock.%%I owner to %%I', case c.relkind when 'v' then 'view' else 'table' end, c.relname, %(owner)s::text)
from pg_class c join pg_roles o on o.oid = c.relowner
where c.relnamespace = to_regnamespace('penstock') and c.relkind in ('r', 'v') and o.rolname <> %(owner)s::text
union all
select format('alter function %%s owner to %%I', p.oid::regprocedure, w.owner)
from pg_proc p join pg_roles o on o.oid = p.proowner
cross join lateral (select case p.proname when 'run_result' then %(writer)s::text else %(owner)s::text end as owner) w
where p.pronamespace = to_regnamespace('penstock') and o.rolname <> w.owner
union all
select format('grant execute on function %%s to %%I', p.oid::regprocedure, %(loader)s::text)
from pg_proc p
where p.pronamespace = to_regnamespace('penstock') and p.proname = 'run_result'
  and not exists (select from aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee
                  where r.rolname = %(loader)s::text and a.privilege_type = 'EXECUTE')

-- name: read_relations
-- The tables and views of the ledger.
select relname as name, relkind = 'v' as is_view from pg_class
where relnamespace = to_regnamespace('penstock') and relkind in ('r', 'v') order by relname

-- name: find_missing_table_grants
-- Statements that grant the rights that the roles need on tables and views of the ledger.
select format('grant %%s on penstock.%%I to %%I', string_agg(w.privilege, ', ' order by w.privilege), w.relation, w.role)
       as statement
from unnest(%(roles)s::text[], %(relations)s::text[], %(privileges)s::text[]) as w (role, relation, privilege)
join pg_class c on c.relnamespace = to_regnamespace('penstock') and c.relname = w.relation
where not exists (select from aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
                  where r.rolname = w.role and a.privilege_type = upper(w.privilege))
group by w.relation, w.role order by w.role, w.relation

-- name: find_missing_column_grants
-- The statement that grants all columns of a view except some.
select format('grant select (%%s) on penstock.%%I to %%I', string_agg(format('%%I', t.attname), ', ' order by t.attnum),
              %(view)s::text, %(role)s::text) as statement
from pg_attribute t
where t.attrelid = to_regclass('penstock.' || quote_ident(%(view)s)) and t.attnum > 0 and t.attname <> all (%(hidden)s)
  and not exists (select from aclexplode(t.attacl) a join pg_roles r on r.oid = a.grantee where r.rolname = %(role)s)
having count(*) > 0

-- name: find_missing_schema_grants
-- Statements that grant the rights that the roles need on the schemas.
select format('grant %%s on schema %%I to %%I', string_agg(w.privilege, ', ' order by w.privilege), w.schema, w.role)
       as statement
from unnest(%(roles)s::text[], %(schemas)s::text[], %(privileges)s::text[]) as w (role, schema, privilege)
join pg_namespace n on n.nspname = w.schema
where not exists (select from aclexplode(n.nspacl) a join pg_roles r on r.oid = a.grantee
                  where r.rolname = w.role and a.privilege_type = upper(w.privilege))
group by w.schema, w.role order by w.role, w.schema

-- name: find_missing_database_grants
-- Statements that grant the rights that the roles need on this database; rights of PUBLIC count too.
select format('grant %%s on database %%I to %%I', string_agg(w.privilege, ', ' order by w.privilege), d.datname, w.role)
       as statement
from unnest(%(roles)s::text[], %(privileges)s::text[]) as w (role, privilege)
join pg_database d on d.datname = current_database()
where not exists (select from aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
                  left join pg_roles r on r.oid = a.grantee
                  where (a.grantee = 0 or r.rolname = w.role) and a.privilege_type = upper(w.privilege))
group by d.datname, w.role order by w.role

-- name: read_own_role
-- The role of this session, and its attributes that matter to Penstock.
select current_user::text as name, rolsuper as is_superuser, pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_snapshots
from pg_roles where rolname = current_user

-- name: hand_over_tables
-- Makes the loader the owner of targets, leaves and tables of loads that a superuser created: the loader has to attach
-- and drop them.
do $$
declare
    found record;
begin
    for found in
        with recursive target (oid) as (
            select c.oid
            from penstock.pipeline p
            join pg_class c on c.oid = to_regclass(quote_ident(split_part(p.target, '.', 1)) || '.'
                                                   || quote_ident(split_part(p.target, '.', 2)))
            union
            select i.inhrelid from pg_inherits i join target t on t.oid = i.inhparent
        )
        select c.oid::regclass as name
        from pg_class c join pg_roles o on o.oid = c.relowner
        where o.rolsuper and c.relkind in ('r', 'p')
          and (c.oid in (select oid from target)
               or c.relnamespace in (to_regnamespace('penstock_stage'), to_regnamespace('penstock_kept')))
    loop
        execute format('alter table %%s owner to penstock_loader', found.name);
    end loop;
    for found in
        select distinct n.nspname as name
        from penstock.pipeline p join pg_namespace n on n.nspname = split_part(p.target, '.', 1)
    loop
        execute format('grant usage, create on schema %%I to penstock_loader', found.name);
    end loop;
end $$
