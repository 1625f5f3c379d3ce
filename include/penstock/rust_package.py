"""The package of the record path in Rust (`native/`), which is optional."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


@cache
def find_package() -> ModuleType | None:
    """Find the package; None if it is not installed, or not for this machine."""
    try:
        import penstock_native
    except ImportError:
        return None
    return penstock_native


def require_package() -> ModuleType:
    """The package, for code that runs only where it is installed."""
    package = find_package()
    assert package is not None  # noqa: S101 - an encoder has been made before
    return package
