"""Local settings of Airflow for tests: the guest may read the DAG `clicks`, and no other.

The simple auth manager has no rights by DAG, and `airflow standalone` allows no other auth manager.
"""

from __future__ import annotations

import sys
from typing import Any

GUEST, MAY_READ = "guest", "clicks"


def restrict_guest() -> None:
    """Let the auth manager of this process refuse other DAGs to the guest."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    decide = SimpleAuthManager.is_authorized_dag

    def is_authorized_dag(self: Any, *, user: Any, details: Any = None, **asked: Any) -> bool:
        if user.get_name() == GUEST and (details is None or details.id != MAY_READ):
            return False
        return bool(decide(self, user=user, details=details, **asked))

    SimpleAuthManager.is_authorized_dag = is_authorized_dag


if "api-server" in sys.argv:
    restrict_guest()
