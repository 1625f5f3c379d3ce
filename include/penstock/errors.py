"""Every way in which Penstock stops.

An error says what happened, to which pipeline, partition and offsets, and what to do next. Its class decides the exit
code of the command line and whether Airflow may try the task again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from penstock.model.ranges import Range

# A text for people names at most so many ranges: a topic may have thousands of partitions.
MOST_NAMED = 5
HoldKind = Literal["log_lost", "log_cut", "other_topic"]


def name_few(named: Sequence[object], most: int = MOST_NAMED) -> list[str]:
    """The first names, and how many more there are: for ranges, and for whatever there is one of for each range."""
    few = [str(each) for each in named[:most]]
    return [*few, f"and {len(named) - most:,} more"] if len(named) > most else few


def name_ranges(named: Sequence[object], most: int = MOST_NAMED, between: str = "; ") -> str:
    """The same in one line."""
    return between.join(name_few(named, most))


def name_partitions(partitions: Collection[int]) -> str:
    """Name partitions; the first five of many."""
    named = ", ".join(str(number) for number in sorted(partitions)[:MOST_NAMED])
    more = len(partitions) - MOST_NAMED
    return f"partitions {named} and {more} more" if more > 0 else f"partitions {named}"


class PenstockError(Exception):
    """Penstock stopped."""

    exit_code: ClassVar[int] = 1
    may_retry: ClassVar[bool] = True
    # The next step of an error that is raised without one.
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
    """What was asked for makes no sense."""

    exit_code = 2
    may_retry = False


class DeclarationError(WrongUseError):
    """The declaration of a pipeline is wrong."""

    advice = "correct the declaration, then run `penstock check`."


class HeldError(PenstockError):
    """A load waits for a person."""

    exit_code = 3
    may_retry = False


class LogLostError(PenstockError):
    """The log no longer holds what the pipeline has to load."""

    exit_code = 4
    may_retry = False
    # What the pipeline is held for when a plan stops with this.
    hold: ClassVar[HoldKind] = "log_lost"


class LogCutError(LogLostError):
    """The log ends before the position: it no longer holds what was loaded from it."""

    hold = "log_cut"


class IdentityError(LogLostError):
    """The topic is not the one that the pipeline has loaded so far."""

    hold = "other_topic"


class OutcomeUnknownError(PenstockError):
    """The publish transaction was sent, and nobody could be asked whether it committed."""

    exit_code = 5


class FencedError(PenstockError):
    """Another load has taken over."""

    exit_code = 6
    may_retry = False
    advice = "`penstock status` shows which load is current."


class ProofError(PenstockError):
    """What was published is not what is there, or is about to be lost."""

    may_retry = False


class MergeError(PenstockError):
    """Leaves of a target cannot be merged."""

    may_retry = False


class KafkaError(PenstockError):
    """Kafka did not answer as needed."""


class ReadError(PenstockError):
    """A reader could not hand over its range whole."""


class StageError(PenstockError):
    """What was staged is not what was planned."""


class RejectedRecordError(PenstockError):
    """A load rejected more records than the pipeline allows."""

    may_retry = False


class ChecksCrashedError(PenstockError):
    """The checks could not be run; a check that crashes is an error, never a pass."""
