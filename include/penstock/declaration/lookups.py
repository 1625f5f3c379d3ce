"""The lookups of checks in earlier loads, each of which needs an index of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.declaration.parts import Check


@dataclass(frozen=True, slots=True, order=True)
class Lookup:
    """Columns whose values are looked up, then columns whose least or greatest value is taken."""

    keys: tuple[str, ...]
    rest: tuple[str, ...] = ()

    def serves(self, other: Lookup) -> bool:
        """Whether an index for this lookup serves another one as well."""
        return self.keys == other.keys and self.rest[: len(other.rest)] == other.rest


def find_lookups(checks: Iterable[Check]) -> list[Lookup]:
    """Find the lookups of some checks; an index that serves several of them is listed once."""
    wanted = {_lookup(check) for check in checks if check.arguments.get("across") is not None}
    return sorted(lookup for lookup in wanted if not any(other != lookup and other.serves(lookup) for other in wanted))


def _lookup(check: Check) -> Lookup:
    given = check.arguments
    if check.expect == "expect_business_id_unique":
        return Lookup(tuple(given["columns"]))
    key = (given["key"],) if given.get("key") is not None else ()
    value = given.get("order_by") or given.get("sequence")
    return Lookup(key, ("_partition", value) if value else ("_partition",))
