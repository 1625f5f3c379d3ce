-- The number of covered offsets of each partition, so that the gaps of a partition without a gap take no time, whatever
-- number of ranges cover it. Triggers keep it: every change of the coverage changes it in the same statement.

alter table penstock.position add column covered bigint not null default 0;
comment on column penstock.position.covered is 'How many offsets of the partition are covered.';

update penstock.position o
set covered = c.offsets
from (select generation_id, partition, sum(upper(offsets) - lower(offsets)) as offsets
      from penstock.coverage group by generation_id, partition) c
where o.generation_id = c.generation_id and o.partition = c.partition;

create function penstock.count_covered() returns trigger language plpgsql as $$
begin
    if tg_op <> 'INSERT' then
        update penstock.position o set covered = o.covered - c.offsets
        from (select generation_id, partition, sum(upper(offsets) - lower(offsets)) as offsets
              from uncovered group by generation_id, partition) c
        where o.generation_id = c.generation_id and o.partition = c.partition;
    end if;
    if tg_op <> 'DELETE' then
        update penstock.position o set covered = o.covered + c.offsets
        from (select generation_id, partition, sum(upper(offsets) - lower(offsets)) as offsets
              from newly_covered group by generation_id, partition) c
        where o.generation_id = c.generation_id and o.partition = c.partition;
    end if;
    return null;
end $$;
comment on function penstock.count_covered() is 'Keeps penstock.position.covered.';

create trigger count_inserted after insert on penstock.coverage
    referencing new table as newly_covered for each statement execute function penstock.count_covered();
create trigger count_deleted after delete on penstock.coverage
    referencing old table as uncovered for each statement execute function penstock.count_covered();
create trigger count_updated after update on penstock.coverage
    referencing old table as uncovered new table as newly_covered
    for each statement execute function penstock.count_covered();

create or replace view penstock.gaps as
select p.name as pipeline, g.generation_id as generation, o.partition,
       lower(gap) as from_offset, upper(gap) as until_offset
from penstock.position o
join penstock.generation g using (generation_id)
join penstock.pipeline p using (pipeline_id)
cross join lateral unnest(case when o.covered = o.position - least(o.origin, o.position) then '{}' else
    int8multirange(int8range(least(o.origin, o.position), o.position))
    - coalesce((select range_agg(c.offsets) from penstock.coverage c
                where c.pipeline_id = g.pipeline_id and c.generation_id = g.generation_id
                  and c.partition = o.partition), '{}')
    - coalesce((select range_agg(x.offsets) from penstock.loss x
                where x.pipeline_id = g.pipeline_id and x.generation_id = g.generation_id
                  and x.partition = o.partition), '{}') end
) as gap;
