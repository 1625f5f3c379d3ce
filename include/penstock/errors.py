"""The errors of Penstock.

An error says what happened, names pipeline, load and offsets, and gives the next step. Its class decides the exit code
of the command line, and whether Airflow may try the task again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from penstock.model.ranges import Range

# Messages name at most five ranges, because a topic may have thousands of partitions.
MOST_NAMED = 5
HoldKind = Literal["log_lost", "log_cut", "other_topic"]


def name_few(named: Sequence[object], most: int = MOST_NAMED) -> list[str]:
    """The first names, and the number of the others: for ranges, and for texts of which each range has one."""
    few = [str(each) for each in named[:most]]
    return [*few, f"and {len(named) - most:,} more"] if len(named) > most else few


def name_ranges(named: Sequence[object], most: int = MOST_NAMED, between: str = "; ") -> str:
    """The first names, and the number of the others, in one line."""
    return between.join(name_few(named, most))


def name_partitions(partitions: Collection[int]) -> str:
    """Name partitions: the first five, and the number of the others."""
    named = ", ".join(str(number) for number in sorted(partitions)[:MOST_NAMED])
    more = len(partitions) - MOST_NAMED
    return f"partitions {named} and {more} more" if more > 0 else f"partitions {named}"


class PenstockError(Exception):
    """Penstock stopped."""

    exit_code: ClassVar[int] = 1
    may_retry: ClassVar[bool] = True
    # The next step of an error that gets none when it is raised.
    advice: ClassVar[str] = ""

    def __init__(
        self,
        what: str = "",
        *,
        pipeline: str | None = None,
        load: int | None = None,
        ranges: Sequence[Range] = (),
        next_step: str = "",
    ) -> None:
        self.what = what or (self.__doc__ or "").splitlines()[0]
        self.pipeline = pipeline
        self.load = load
        self.ranges = tuple(ranges)
        self.next_step = next_step or self.advice
        super().__init__(str(self))

    def __str__(self) -> str:
        where = " ".join(
            part
            for part in (
                self.pipeline or "",
                f"load {self.load}" if self.load is not None else "",
                name_ranges(self.ranges, between=", "),
            )
            if part
        )
        message = f"{where}: {self.what}" if where else self.what
        if not self.next_step:
            return message
        if "\n" in message:  # a list of mistakes, one a line
            return f"{message}\nNext: {self.next_step}"
        return f"{message.removesuffix('.')}. Next: {self.next_step}"

    def fill(self, pipeline: str | None, load: int | None = None, ranges: Sequence[Range] = ()) -> Self:
        """Name the pipeline, the load and its ranges where the error does not name them itself."""
        self.pipeline = self.pipeline or pipeline
        if self.load is None:
            self.load = load
        if self.load == load and not self.ranges:
            self.ranges = tuple(ranges)
        return self


class WrongUseError(PenstockError):
    """The request is not valid."""

    exit_code = 2
    may_retry = False


class DeclarationError(WrongUseError):
    """The declaration of a pipeline is not valid."""

    advice = "correct the declaration, then run `penstock check`."


class HeldError(PenstockError):
    """A load waits for a person."""

    exit_code = 3
    may_retry = False


class LogLostError(PenstockError):
    """The log no longer holds records that the pipeline has to load."""

    exit_code = 4
    may_retry = False
    # The kind of the hold that a pipeline gets when its plan stops with this error.
    hold: ClassVar[HoldKind] = "log_lost"


class LogTruncatedError(LogLostError):
    """The log ends before the position: it no longer holds records that were loaded."""

    hold = "log_cut"


class IdentityError(LogLostError):
    """The topic is not the one that the pipeline has loaded before."""

    hold = "other_topic"


class OutcomeUnknownError(PenstockError):
    """COMMIT of the publish transaction was sent, and its outcome could not be looked up."""

    exit_code = 5


class FencedError(PenstockError):
    """Another load or attempt has replaced this one."""

    exit_code = 6
    may_retry = False
    advice = "see which load is current: `penstock status`."


class ProofError(PenstockError):
    """The table differs from the published rows, or records are about to be lost."""

    may_retry = False


class MergeError(PenstockError):
    """Leaves of a target cannot be merged."""

    may_retry = False


class KafkaError(PenstockError):
    """Kafka did not answer a request."""


class ReadError(PenstockError):
    """A reader did not read its range whole."""


class StageError(PenstockError):
    """The staged rows are not the planned ranges."""


class TransformError(PenstockError):
    """The transform of a pipeline failed, or made rows that the records do not account for."""

    may_retry = False


class RejectedRecordError(PenstockError):
    """A load rejected more records than the pipeline allows."""

    may_retry = False


class ChecksCrashedError(PenstockError):
    """The checks could not run. A check that crashes is an error and never passes."""


class ResultError(PenstockError):
    """The statements of a result failed. The rows of the load are right, and a person decides."""

    may_retry = False


class RuleCrashedError(ChecksCrashedError):
    """A rule could not run. A rule that cannot run is an error and never passes."""
