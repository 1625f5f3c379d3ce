"""Errors keep their fields between processes, and their messages are short."""

from __future__ import annotations

import psycopg
import pytest

from noticing import make_notice
from penstock import errors
from penstock.alerts.message import write_notice
from penstock.errors import FencedError, HeldError, LogLostError, PenstockError, StageError, name_few, name_ranges
from penstock.ledger.connection import concerning, explain, keep_cause
from penstock.model.ranges import Range
from penstock.spark.error_transport import DONE, DriverOutput, RemoteCause, TaskError, format_error, recover_error

RANGES = (Range(0, 5, 9), Range(3, 0, 2**53))
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError)]
MANY = [Range(partition, 1_000_000_000, 2_000_000_000) for partition in range(1_000)]


def make_error(kind: type[PenstockError]) -> PenstockError:
    error = kind(
        "two\nlines, {braces} and 'quotes'",
        pipeline="orders",
        load=7,
        ranges=RANGES,
        next_step='do "this" \u2028 now.',
    )
    error.__cause__ = ValueError("the reason\nand what a row holds")
    return error


def assert_same(found: PenstockError | None, sent: PenstockError) -> None:
    assert found is not None
    assert type(found) is type(sent)
    assert (found.what, found.pipeline, found.load, found.ranges, found.next_step) == (
        sent.what, sent.pipeline, sent.load, sent.ranges, sent.next_step
    )  # fmt: skip
    assert str(found) == str(sent)
    assert isinstance(found.__cause__, RemoteCause)
    assert str(found.__cause__) == "ValueError: the reason"


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_keeps_every_field_to_the_driver_and_to_the_submitter(kind: type[PenstockError]) -> None:
    sent = make_error(kind)
    trace = f"Traceback:\n  raise\npenstock.spark.error_transport.TaskError: {TaskError(sent)}\n\n\tat org.apache.spark"
    arrived = recover_error(trace)
    assert_same(arrived, sent)

    assert arrived is not None
    output = DriverOutput()
    lines = ["a line of Spark\n", *format_error(arrived).splitlines(keepends=True)]
    assert [line.strip() for line in output.read_lines(lines)] == [
        "a line of Spark",
        f"penstock: {' '.join(str(sent).split())}",
    ]
    assert_same(output.find_error(1), sent)


def test_a_task_s_error_in_spark_s_log_is_not_the_driver_s_error() -> None:
    output = DriverOutput()
    lost = f"WARN TaskSetManager: Lost task 0.0: TaskError: {TaskError(make_error(LogLostError))}\n"
    assert list(output.read_lines([lost])) == [lost]
    assert type(output.find_error(-9)) is StageError
    assert "killed by signal 9" in str(output.find_error(-9))


@pytest.mark.parametrize(("until_done", "read"), [(False, ["one\n", "two\n"]), (True, ["one\n"])])
def test_who_asks_for_it_reads_a_driver_until_its_job_is_done(until_done: bool, read: list[str]) -> None:
    output, lines = DriverOutput(), iter(["one\n", DONE, "two\n"])
    assert list(output.read_lines(lines, until_done=until_done)) == read
    assert output.is_done
    assert list(lines) == (["two\n"] if until_done else []), "a line that nobody reads can stop the driver"


def test_the_exit_code_gives_the_class_of_an_error_without_a_document() -> None:
    output = DriverOutput()
    assert list(output.read_lines(["at last\n", "\n"])) == ["at last\n", "\n"]
    assert isinstance(output.find_error(3), HeldError)
    assert type(output.find_error(137)) is StageError
    assert "exit code 137: at last" in str(output.find_error(137))


def test_only_empty_fields_of_an_error_are_filled() -> None:
    with pytest.raises(StageError) as bare, concerning("orders", 7):
        raise StageError("what", ranges=RANGES[:1])
    assert (bare.value.pipeline, bare.value.load, bare.value.ranges) == ("orders", 7, RANGES[:1])
    other = FencedError("what", pipeline="clicks", load=8).fill("orders", 7, RANGES)
    assert (other.pipeline, other.load, other.ranges) == ("clicks", 8, ())
    assert other.next_step


def test_a_message_names_at_most_five_ranges_and_counts_the_others() -> None:
    assert name_ranges(RANGES) == "partition 0 offsets [5, 9); partition 3 offsets [0, 9007199254740992)"
    assert name_few(range(5)) == ["0", "1", "2", "3", "4"]
    assert name_few(range(6)) == ["0", "1", "2", "3", "4", "and 1 more"]
    assert name_few([]) == []
    assert name_ranges(MANY).endswith("partition 4 offsets [1000000000, 2000000000); and 995 more")


def test_the_message_of_an_error_over_a_thousand_partitions_is_short() -> None:
    error = StageError("what happened.", pipeline="orders", load=7, ranges=MANY, next_step="try again.")
    assert len(str(error)) < 500
    assert len(write_notice(make_notice(message=error.what, ranges=error.ranges)).body) < 500
    lines = list(DriverOutput().read_lines(format_error(error).splitlines()))
    assert len("".join(lines)) < 500
    arrived = recover_error(str(TaskError(error)))
    assert arrived is not None
    assert arrived.ranges == tuple(MANY)


def test_an_error_of_postgresql_about_a_value_does_not_show_the_value() -> None:
    invalid = psycopg.errors.InvalidTextRepresentation('invalid input syntax for type integer: "4711-secret"')
    assert "4711" not in str(explain(invalid))
    assert "SQLSTATE 22P02" in str(explain(invalid))
    assert keep_cause(invalid) is None
    locked = psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
    assert keep_cause(locked) is locked
    with pytest.raises(PenstockError) as raised, concerning("orders", 7):
        raise locked
    assert raised.value.__cause__ is locked
    assert str(raised.value).startswith("orders load 7: another session holds a lock: canceling statement")
