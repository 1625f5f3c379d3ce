"""PostgreSQL prints every type as the declaration spells it."""

from __future__ import annotations

import psycopg

from penstock.declaration.columns import FAMILIES, parse_type

ARGUMENTS = {"numeric": "(12,2)", "varchar": "(20)", "char": "(3)"}


def test_every_type_is_spelled_as_format_type_prints_it(db: str) -> None:
    with psycopg.connect(db) as connection:
        for name, family in FAMILIES.items():
            type_ = parse_type(name + ARGUMENTS.get(family, ""))
            connection.execute(f"create temporary table sample (it {type_.sql})")
            printed = connection.execute(
                "select format_type(atttypid, atttypmod) from pg_attribute "
                "where attrelid = 'sample'::regclass and attname = 'it'"
            ).fetchone()
            connection.execute("drop table sample")
            assert printed == (type_.sql,)
