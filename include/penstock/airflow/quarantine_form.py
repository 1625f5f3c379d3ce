"""The fields of a form that choose quarantined records, and the selection that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.ledger.quarantine import Selection

SELECTION = ("reason", "rule", "load_id", "at", "since", "until")
SELECTION_FIELDS = (*SELECTION, "everything")
TIME = "A time with a zone, such as 2026-01-31T00:00:00Z."


def selection_fields() -> dict[str, Param]:
    """The fields of a form that choose quarantined records of a pipeline."""
    return {
        "reason": _text("Reason", "Only records with this reason, such as bad_json or rule."),
        "rule": _text("Rule", "Only records that failed this rule."),
        "load_id": Param(
            None, type=["null", "integer"], minimum=1, title="Load", description="Only records of this load."
        ),
        "at": _text("Place", "Only the record at partition:offset."),
        "since": _time("Since", "Only loads published since then."),
        "until": _time("Until", "Only loads published before then."),
        "everything": Param(
            default=False, type="boolean", title="Everything", description="All quarantined records of the pipeline."
        ),
    }


def _text(title: str, description: str) -> Param:
    return Param(None, type=["null", "string"], title=title, description=description)


def _time(title: str, description: str) -> Param:
    return Param(None, type=["null", "string"], format="date-time", title=title, description=f"{description} {TIME}")


def read_form(params: Mapping[str, Any]) -> Selection:
    """Read the selection of a form; all records are chosen only if the form says so."""
    from penstock.decide.quarantine import read_selection, refuse_everything

    selection = read_selection(params["pipeline"], *(params[name] for name in SELECTION))
    refuse_everything(selection, everything=params["everything"])
    return selection
