"""The task that asks a person to approve or to discard a held load, and ends when the load is no longer held.

The task is a human-in-the-loop task: Airflow lists it under Required Actions. Airflow's own operator waits without a
trigger, so nothing but an answer ends its task. Here the task is deferred to a trigger, which looks for the end of the
hold in the ledger. Airflow accepts the answer of a deferred task as well, and resumes the task at once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.execution_time.hitl import get_hitl_detail_content_detail, upsert_hitl_detail
from airflow.triggers.base import BaseTrigger, TriggerEvent

from penstock.airflow.connections import read_db
from penstock.airflow.failures import deciding_retries
from penstock.airflow.runs import find_person, refuse_unknown, why_field
from penstock.airflow.steps.settle import APPROVE, ASK, DISCARD, FIELDS
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow.sdk.definitions.context import Context

log = logging.getLogger(__name__)
OPTIONS = {"Approve": APPROVE, "Discard": DISCARD}
# A request ends within a minute after its hold. Each look is one short connection to the ledger.
SECONDS_BETWEEN_LOOKS = 20.0


class SettleOperator(HITLOperator):  # type: ignore[misc]
    """Returns the decision, the person and the reason; None if the load is no longer held.

    A decision in the form of the run is returned at once. Otherwise the task waits for an answer.
    """

    def __init__(self, **arguments: Any) -> None:  # noqa: ANN401 - arguments of Airflow's operator
        # A timeout of the site for all tasks would become a timeout of the answer: a person takes days if need be.
        super().__init__(
            subject="Approve or discard a held load", options=list(OPTIONS), execution_timeout=None, **arguments
        )

    def execute(self, context: Context) -> dict[str, str] | None:
        """Return the decision of the form, or write the request and wait for an answer."""
        params = context["params"]
        with deciding_retries(load=params["load_id"]):
            refuse_unknown(context, FIELDS)
            if params["decision"] != ASK:
                return _decision(params["decision"], find_person(context), params["why"] or "")
            held = self._write_request(params["load_id"])
        if not held:
            return None
        self._wait(context)
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, str] | None:
        """Return the answer. An answer without a reason settles nothing: the request is open again."""
        load_id = context["params"]["load_id"]
        if "ended" in event:
            log.info("load %s is %s; there is nothing to decide any more.", load_id, event["ended"])
            return None
        person = (event["responded_by_user"] or {}).get("name") or "airflow"
        why = str((event["params_input"] or {}).get("why") or "").strip()
        if not why:
            log.warning("%s gave no reason for load %s; the request is open again.", person, load_id)
            with deciding_retries(load=load_id):
                held = self._write_request(load_id)
            if held:
                self._wait(context)
            return None
        return _decision(OPTIONS[event["chosen_options"][0]], person, why)

    def _write_request(self, load_id: int) -> bool:
        """Write the texts of the request; False if the load is not held."""
        from penstock.airflow.settle_request import MOST_CHECKS, write_body, write_subject
        from penstock.ledger.check_result import count_failed_checks, read_failed_checks
        from penstock.ledger.connection import open_ledger
        from penstock.ledger.load import read_load
        from penstock.target.postgres.attempt import attempt_table

        with open_ledger(read_db()) as connection:
            load = read_load(connection, load_id)
            failed = read_failed_checks(connection, load_id, MOST_CHECKS)
            count = count_failed_checks(connection, load_id)
        if load.state != "held":
            log.info("load %s is %s; there is nothing to decide.", load_id, load.state)
            return False
        self.subject = write_subject(load)
        staged = attempt_table(load.load_id, load.attempt).as_string(None).replace('"', "")
        self.body = write_body(load, failed, count, staged)
        return True

    def _wait(self, context: Context) -> None:
        ti_id = context["ti"].id
        # The field has no value until a person fills it, and Airflow validates the parameters of a task when it starts.
        self.params = ParamsDict({"why": why_field()})
        upsert_hitl_detail(
            ti_id=ti_id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            params=self.serialized_params,
        )
        log.info("waiting for an answer: %s", self.subject)
        self.defer(trigger=HoldTrigger(str(ti_id), context["params"]["load_id"]), method_name="execute_complete")


class HoldTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires when a load is no longer held, or was answered before its task was deferred."""

    def __init__(self, ti_id: str, load_id: int) -> None:
        super().__init__()
        self.ti_id = ti_id
        self.load_id = load_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and its arguments, from which the triggerer makes the trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"ti_id": self.ti_id, "load_id": self.load_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look for an answer once, then at the load until its hold ends.

        Airflow resumes a deferred task when it is answered. Only an answer from before is left to the trigger.
        """
        event = await asyncio.to_thread(self._find_answer)
        while event is None:
            event = await asyncio.to_thread(self._find_end)
            if event is None:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        yield TriggerEvent(event)

    def _find_answer(self) -> dict[str, Any] | None:
        answer = get_hitl_detail_content_detail(ti_id=UUID(self.ti_id))
        if not (answer.response_received and answer.chosen_options):
            return None
        person = answer.responded_by_user
        return {
            "chosen_options": list(answer.chosen_options),
            "params_input": answer.params_input,
            "responded_by_user": {"id": person.id, "name": person.name} if person else None,
        }

    def _find_end(self) -> dict[str, Any] | None:
        state = self._read_state()
        return None if state in (None, "held") else {"ended": state}

    def _read_state(self) -> str | None:
        """The state of the load; None if the ledger does not answer now, because a request must survive an outage."""
        from penstock.ledger.connection import concerning, connect
        from penstock.ledger.load import read_state

        try:
            with concerning(load=self.load_id), connect(read_db()) as connection:
                return read_state(connection, self.load_id)
        except PenstockError as error:
            log.warning("%s The next look is in %d s.", error, SECONDS_BETWEEN_LOOKS)
            return None


def _decision(decision: str, who: str, why: str) -> dict[str, str]:
    return {"decision": decision, "who": who, "why": why}
