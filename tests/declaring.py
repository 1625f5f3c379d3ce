"""Declarations for tests: a small valid one, and changes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from penstock.declaration.pipeline import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"id": {"type": "bigint", "path": "$.id", "required": True}, "note": {"type": "text", "path": "$.note"}}

# Orders with a customer, and two results of them: the newest order of each customer, and the number of orders.
CUSTOMERS = {**COLUMNS, "customer": {"type": "text"}, "op": {"type": "text"}}
NEWEST = {"table": "analytics.newest", "mode": "upsert", "key": ["customer"], "deleted_when": "op = 'D'"}
COUNTS = {
    "table": "analytics.counts",
    "mode": "sql",
    "key": ["customer"],
    "columns": {"customer": "text", "orders": "bigint"},
    "statements": """
        insert into result as r (customer, orders)
        select customer, sum(sign) from (select customer, 1 as sign from added
                                         union all select customer, -1 from removed) changed
        group by customer
        on conflict (customer) do update set orders = r.orders + excluded.orders;
        delete from result where orders = 0""",
}


def describe(topic: str, **changes: Any) -> dict[str, Any]:
    """A declaration as in a YAML file; its target has the name of the pipeline."""
    name = changes.get("name", "orders")
    return {
        "name": name,
        "topic": topic,
        "value": "json",
        "columns": COLUMNS,
        "target": f"analytics.{name}",
        **changes,
    }


def declare(topic: str, **changes: Any) -> Pipeline:
    """The same declaration, read."""
    return Pipeline.model_validate(describe(topic, **changes))


def write_declaration(folder: Path, topic: str, **changes: Any) -> Path:
    """The same declaration, as a file."""
    described = describe(topic, **changes)
    path = folder / f"{described['name']}.yaml"
    path.write_text(yaml.safe_dump(described, sort_keys=False))
    return path
