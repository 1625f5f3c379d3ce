"""Lineage from Airflow's tasks: the events of loads and of rollbacks, and the asset that stands for a table."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from airflow.sdk import Asset, get_current_context

from penstock.settings import read_lineage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.lineage.emit import Receiver
    from penstock.model.load import Load
    from penstock.model.ranges import Range


def emit_lineage(uri: str, kafka: Mapping[str, str], load_id: int) -> None:
    """Emit the events of a load, by the settings of Airflow's OpenLineage provider or by the variables OPENLINEAGE_….

    Without either nothing is sent. Never raises.
    """
    from penstock.lineage.emit import emit_published

    connect = _find_receiver()
    if connect is not None:
        emit_published(uri, kafka, load_id, connect)


def emit_lineage_of_move(uri: str, load: Load, ranges: Sequence[Range]) -> None:
    """Emit the events of a rollback, or of its undo, that has moved these ranges, by the same settings."""
    from penstock.lineage.emit import emit_moved

    connect = _find_receiver()
    if connect is not None:
        emit_moved(uri, load, ranges, connect)


def table_asset(uri: str, load: Load) -> Asset:
    """The asset that stands for the table of a load, with the URI that other tools of lineage give it."""
    from penstock.ledger.connection import open_ledger
    from penstock.lineage.names import name_table

    with open_ledger(uri) as connection:
        return Asset(name_table(connection, load.declaration.target).uri)


def _find_receiver() -> Callable[[], Receiver] | None:
    if _has_provider():
        return _make_receiver_of_airflow
    from penstock.lineage.emit import make_receiver

    namespace = read_lineage(os.environ)
    return None if namespace is None else partial(make_receiver, namespace)


def _has_provider() -> bool:
    """Whether Airflow's provider is installed, and configured."""
    try:
        from airflow.providers.openlineage.api import is_openlineage_active
    except ModuleNotFoundError:
        return False
    return bool(is_openlineage_active())


def _make_receiver_of_airflow() -> Receiver:
    from airflow.providers.openlineage.api import emit
    from airflow.providers.openlineage.plugins import macros

    from penstock.lineage.emit import Receiver
    from penstock.lineage.facts import Parent

    task = get_current_context()["ti"]
    namespace = macros.lineage_job_namespace()
    parent = Parent(namespace, macros.lineage_job_name(task), macros.lineage_run_id(task))
    return Receiver(namespace, emit, parent)
