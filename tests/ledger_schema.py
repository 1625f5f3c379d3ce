"""The ledger's schema as PostgreSQL's catalog has it, one line a fact."""

from __future__ import annotations

import tempfile
from pathlib import Path

import psycopg

FILE = Path(__file__).with_suffix(".txt")
COMMAND = ".venv/bin/python tests/ledger_schema.py"

FACTS = """
select format('schema %s', nspname) from pg_namespace where nspname ~ '^penstock'
union all
select format('%s %s.%s', case c.relkind when 'r' then 'table' when 'v' then 'view' when 'S' then 'sequence'
                                         else c.relkind::text end, n.nspname, c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname ~ '^penstock' and c.relkind not in ('i', 't')
union all
select format('column %s.%s.%s %s%s%s%s', n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
              case when a.attnotnull then ' not null' else '' end,
              case a.attidentity when '' then '' else ' identity ' || a.attidentity::text end,
              coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where n.nspname ~ '^penstock' and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped
union all
select format('constraint %s on %s: %s', conname, conrelid::regclass, pg_get_constraintdef(k.oid))
from pg_constraint k join pg_namespace n on n.oid = k.connamespace where n.nspname ~ '^penstock' and contype <> 'n'
union all
select format('index %s', indexdef) from pg_indexes where schemaname ~ '^penstock'
union all
select format('view %s.%s is %s', schemaname, viewname, regexp_replace(definition, '\\s+', ' ', 'g'))
from pg_views where schemaname ~ '^penstock'
union all
select format('function %s is %s', p.oid::regprocedure, regexp_replace(pg_get_functiondef(p.oid), '\\s+', ' ', 'g'))
from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname ~ '^penstock'
union all
select format('trigger %s', pg_get_triggerdef(t.oid)) from pg_trigger t join pg_class c on c.oid = t.tgrelid
join pg_namespace n on n.oid = c.relnamespace where n.nspname ~ '^penstock' and not t.tgisinternal
"""


def describe_ledger(db: str) -> list[str]:
    """Describe the ledger of a database."""
    with psycopg.connect(db) as connection:
        return sorted(fact for (fact,) in connection.execute(FACTS.encode()))


def main() -> None:
    from penstock.ledger.connection import migrate
    from penstock_stack import ports
    from penstock_stack.postgres import Postgres

    with tempfile.TemporaryDirectory() as folder:
        server = Postgres(Path(folder) / "postgres", *ports.choose(1))
        try:
            server.start()
            db = server.create_database("ledger")
            migrate(db)
            FILE.write_text("\n".join(describe_ledger(db)) + "\n")
        finally:
            server.stop("immediate")


if __name__ == "__main__":
    main()
