"""The table of a load's states agrees with the UPDATE statements of the ledger."""

from __future__ import annotations

import re
from pathlib import Path

import penstock
from penstock.model.load import END_STATES, OPEN_STATES, STAGED_STATES, TRANSITIONS, LoadState

LEDGER = Path(str(penstock.__file__)).parent / "ledger"
STATEMENT = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
LIST = re.compile(r"state in \(([^)]*)\)")
# The caller gives the state that these statements leave: the state in which it has read the load.
LEFT_BY_CALLER = {
    "begin_attempt": {LoadState.PLANNED, LoadState.STAGING},
    "fail_load": set(OPEN_STATES) - {LoadState.HELD},
    "hold_load": {LoadState.STAGED, LoadState.VALIDATED},
    "supersede_load": set(OPEN_STATES),
    "discard_load": set(OPEN_STATES),
}


def test_the_updates_in_sql_make_exactly_the_changes_of_the_table() -> None:
    made = set()
    for name, text in _read_updates():
        assert "state =" in text.partition("where ")[2] or LIST.search(text), (
            f"{name} does not name the state it leaves"
        )
        made |= {(left, becomes) for left in _find_left(name, text) for becomes in _find_new(text)}

    assert made == {(left, becomes) for left, allowed in TRANSITIONS.items() for becomes in allowed}


def test_every_state_is_in_the_table_and_is_either_open_or_an_end() -> None:
    assert set(TRANSITIONS) == set(LoadState) == {*OPEN_STATES, *END_STATES}
    assert not set(OPEN_STATES) & set(END_STATES)


def test_the_open_and_the_failed_loads_can_be_discarded() -> None:
    discarded = {state for state in LoadState if LoadState.DISCARDED in TRANSITIONS[state]}
    assert discarded == {*OPEN_STATES, LoadState.FAILED}


def test_no_state_after_staged_leads_back_to_staging() -> None:
    reached, waiting = set(), [LoadState.STAGED]
    while waiting:
        state = waiting.pop()
        if state not in reached:
            reached.add(state)
            waiting += TRANSITIONS[state]

    assert not reached & {LoadState.PLANNED, LoadState.STAGING}
    assert set(STAGED_STATES) <= reached


def test_the_lists_of_open_states_in_sql_are_the_open_states() -> None:
    for path in LEDGER.glob("*.sql"):
        for listed in LIST.findall(path.read_text(encoding="utf-8")):
            states = {LoadState(state) for state in re.findall(r"'(\w+)'", listed)}
            if LoadState.PLANNED in states:
                assert states - {LoadState.FAILED} == set(OPEN_STATES), path.name


def test_the_ledger_allows_exactly_these_states() -> None:
    schema = (LEDGER / "migrations" / "0001_ledger.sql").read_text(encoding="utf-8")
    allowed = re.search(r"check \(state in \((.*?)\)\)", schema, re.DOTALL)

    assert allowed is not None
    assert re.findall(r"'(\w+)'", allowed[1]) == list(LoadState)


def _read_updates() -> list[tuple[str, str]]:
    statements = [found for path in LEDGER.glob("*.sql") for found in STATEMENT.findall(path.read_text("utf-8"))]
    return [(name, text) for name, text in statements if re.search(r"update penstock\.load( l)?\s+set state =", text)]


def _find_left(name: str, text: str) -> set[LoadState]:
    condition = text.partition("where ")[2]
    listed = LIST.search(condition)
    named = re.findall(r"'(\w+)'", listed[1]) if listed else re.findall(r"\bstate = '(\w+)'", text)[1:]
    return {LoadState(state) for state in named} or LEFT_BY_CALLER[name]


def _find_new(text: str) -> set[LoadState]:
    chosen = re.search(r"set state = case kind when 'live' then '(\w+)' else '(\w+)'", text)
    one = re.search(r"set state = '(\w+)'", text)
    return {LoadState(state) for state in (chosen.groups() if chosen else one.groups() if one else ())}
