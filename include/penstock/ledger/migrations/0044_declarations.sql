-- Each declaration is stored once, whatever number of loads were planned by it: ten years of hourly loads of a pipeline
-- held 87,600 copies.

create table penstock.declaration (
    declaration_id bigint generated always as identity primary key,
    digest         bytea not null unique,
    declaration    jsonb not null
);
comment on table penstock.declaration is 'The declarations that loads were planned by. A row never changes.';
comment on column penstock.declaration.digest is 'The SHA-256 of the declaration as text; it finds an equal declaration.';

insert into penstock.declaration (digest, declaration)
select sha256(convert_to(declaration::text, 'UTF8')), declaration
from penstock.load group by declaration order by min(load_id);

alter table penstock.load add column declaration_id bigint references penstock.declaration;
update penstock.load l set declaration_id = d.declaration_id
from penstock.declaration d where d.digest = sha256(convert_to(l.declaration::text, 'UTF8'));
alter table penstock.load alter column declaration_id set not null, drop column declaration;
comment on column penstock.load.declaration_id is 'The declaration the load was planned by; later edits do not touch it.';
