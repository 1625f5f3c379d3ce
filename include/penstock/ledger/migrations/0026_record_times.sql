-- The times of the records in each range, and the time until which each partition is loaded: they say which hours are whole.

alter table penstock.load_range
    add column first_at     timestamptz,
    add column last_at      timestamptz,
    add column loaded_until timestamptz;
comment on column penstock.load_range.first_at is
    'The earliest timestamp of a record in the range, quarantined ones included. Null if no record has one, or for loads '
    'from before this column.';
comment on column penstock.load_range.last_at is 'The latest timestamp of a record in the range.';
comment on column penstock.load_range.loaded_until is
    'If the range ends at the end of the log: the time at which Kafka was asked for that end. Else null.';

alter table penstock.coverage add column first_at timestamptz, add column last_at timestamptz;
alter table penstock.aside add column first_at timestamptz, add column last_at timestamptz;
comment on column penstock.coverage.first_at is
    'The earliest timestamp of a record that its load planned in a range around these offsets; last_at is the latest.';

alter table penstock.position add column loaded_until timestamptz;
comment on column penstock.position.loaded_until is
    'All records that Kafka had at this time are below the position. Null if no plan has found out yet.';

alter table penstock.generation
    add column hours_from      timestamptz,
    add column hours_until     timestamptz,
    add column announced_from  timestamptz,
    add column announced_until timestamptz,
    add column announced_by    text;
comment on column penstock.generation.hours_from is 'The first hour of which all records that the log held are loaded.';
comment on column penstock.generation.hours_until is
    'The end of the last such hour: each partition is loaded until then or longer.';
comment on column penstock.generation.announced_until is
    'Until when the run announced_by published whole hours as an event of Airflow; it began at announced_from.';

create index load_rolled_back on penstock.load (pipeline_id, load_id) where state = 'rolled_back';

create view penstock.hours as
select p.name as pipeline, g.generation_id as generation, h.hour,
       not exists (select from penstock.load l
                   join penstock.load_range r using (load_id)
                   where l.pipeline_id = g.pipeline_id and l.generation_id = g.generation_id and l.state = 'rolled_back'
                     and r.first_at < h.hour + interval '1 hour' and r.last_at >= h.hour
                     and not int8multirange(int8range(r.from_offset, r.until_offset))
                             <@ coalesce((select range_agg(c.offsets) from penstock.coverage c
                                          where int4range(c.pipeline_id, c.pipeline_id, '[]')
                                                && int4range(g.pipeline_id, g.pipeline_id, '[]')
                                            and int4range(c.generation_id, c.generation_id, '[]')
                                                && int4range(g.generation_id, g.generation_id, '[]')
                                            and int4range(c.partition, c.partition, '[]')
                                                && int4range(r.partition, r.partition, '[]')
                                            and c.offsets && int8range(r.from_offset, r.until_offset)),
                                         '{}')) as whole
from penstock.generation g
join penstock.pipeline p using (pipeline_id)
cross join lateral generate_series(g.hours_from, g.hours_until - interval '1 hour', interval '1 hour') as h (hour);

create or replace view penstock.covered as
select p.name as pipeline, c.generation_id as generation, c.partition,
       lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.load_id, c.rows, c.quarantined, c.holes,
       c.first_at, c.last_at
from penstock.coverage c join penstock.pipeline p using (pipeline_id);

create or replace view penstock.ranges as
select p.name as pipeline, r.load_id, l.generation_id as generation, r.partition, r.from_offset, r.until_offset,
       r.rows, r.quarantined, r.holes, r.first_at, r.last_at
from penstock.load_range r
join penstock.load l using (load_id)
join penstock.pipeline p using (pipeline_id);

create or replace view penstock.positions as
select p.name as pipeline, g.generation_id as generation, o.partition, o.position, o.origin, o.load_id, o.moved_at,
       o.loaded_until
from penstock.position o join penstock.generation g using (generation_id) join penstock.pipeline p using (pipeline_id);
