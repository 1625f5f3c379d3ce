"""When an open transaction is a finding, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from penstock.doctor.commands import Commands
from penstock.doctor.transactions import LONGEST, describe_transaction, judge_transactions
from penstock.kafka.batches.open_transactions import BY_THE_RECORD, NOT_LISTED, OpenTransaction

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
COMMANDS = Commands("broker:9092", "orders")
YOUNG = OpenTransaction("orders", 3, 100, 150, 7, 1, "payments", NOW - LONGEST)
LATE = replace(YOUNG, began_at=NOW - timedelta(minutes=42), unknown=(NOT_LISTED, BY_THE_RECORD))


def test_no_open_transaction_is_ok() -> None:
    finding = judge_transactions([], NOW, COMMANDS)
    assert (finding.level, finding.found, finding.told, finding.change) == ("ok", "none", "", "")


def test_a_transaction_within_the_limit_of_kafka_is_shown_and_ok() -> None:
    finding = judge_transactions([YOUNG], NOW, COMMANDS)
    assert finding.level == "ok"
    assert finding.found == (
        "an open transaction holds back 50 offsets of partition 3 from offset 100 on, for 15 min; producer id 7, "
        "transactional id payments"
    )


def test_a_transaction_over_the_limit_is_wrong_and_has_the_command_that_ends_it() -> None:
    finding = judge_transactions([YOUNG, LATE], NOW, COMMANDS)
    assert finding.level == "wrong"
    assert finding.found == describe_transaction(LATE, NOW)
    assert "for 42 min" in finding.found
    assert NOT_LISTED in finding.told
    assert BY_THE_RECORD in finding.told
    assert finding.change.endswith("abort --topic orders --partition 3 --start-offset 100")


def test_a_transaction_of_unknown_age_is_a_warning_and_never_ok() -> None:
    unknown = replace(YOUNG, producer_id=None, transactional_id=None, began_at=None, unknown=("whose it is",))
    finding = judge_transactions([unknown], NOW, COMMANDS)
    assert finding.level == "warning"
    assert "since an unknown time; producer id not known, transactional id not known" in str(finding.found)
    assert "whose it is" in finding.told


def test_a_clock_that_is_ahead_of_ours_gives_no_negative_time() -> None:
    ahead = replace(YOUNG, began_at=NOW + timedelta(hours=1))
    assert "for 0 s" in describe_transaction(ahead, NOW)
