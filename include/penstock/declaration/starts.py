"""When a pipeline loads, besides its schedule: as soon as enough records wait, or a record waits too long."""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, Field, StrictInt, StrictStr, model_validator

from penstock.declaration.durations import parse_duration
from penstock.declaration.mistakes import clip
from penstock.declaration.parts import STRICT

# The triggerer looks every ten seconds, so it cannot keep a shorter wait.
SHORTEST_WAIT = timedelta(minutes=1)


def _check_wait(text: str | None) -> str | None:
    if text is not None and parse_duration(text) < SHORTEST_WAIT:
        raise ValueError(f"{clip(text)} is too short; allowed: 1m or longer")
    return text


class LoadWhen(BaseModel):
    """The waiting records that start a load before its schedule does."""

    model_config = STRICT

    min_records: Annotated[StrictInt, Field(ge=1, le=2**63 - 1)] | None = Field(
        default=None, description="load when at least so many offsets wait; null for any number"
    )
    max_wait: Annotated[StrictStr | None, AfterValidator(_check_wait)] = Field(
        default=None,
        description="load when the oldest waiting record is older than this, such as 15m; null for any age",
    )

    @model_validator(mode="after")
    def _need_one(self) -> Self:
        if self.min_records is None and self.max_wait is None:
            raise ValueError("neither min_records nor max_wait is given; allowed: one of them, or both")
        return self

    @property
    def longest_wait(self) -> timedelta | None:
        """The age of the oldest waiting record at which a load starts."""
        return None if self.max_wait is None else parse_duration(self.max_wait)
