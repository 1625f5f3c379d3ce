"""The instruments: the name, the unit and the meaning of each metric. Their values come from `penstock.metrics`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Instrument:
    """A metric. Each value has the attribute `pipeline`, those of a histogram also `phase`."""

    name: str
    kind: Kind
    unit: str
    meaning: str


DURATION = Instrument(
    "penstock.phase.duration",
    "histogram",
    "s",
    "how long the phases `stage`, `validate` and `publish` of published loads took",
)
INSTRUMENTS = (
    Instrument("penstock.loads", "counter", "{load}", "published loads of all kinds"),
    Instrument("penstock.rows", "counter", "{row}", "rows of published loads"),
    Instrument("penstock.quarantined", "counter", "{record}", "records that published loads sent to the quarantine"),
    Instrument("penstock.holes", "counter", "{offset}", "offsets without a visible record in published loads"),
    Instrument("penstock.filtered", "counter", "{record}", "records that transforms filtered in published loads"),
    DURATION,
    Instrument("penstock.lag.records", "gauge", "{record}", "offsets that are not loaded yet"),
    Instrument("penstock.lag.seconds", "gauge", "s", "the age of the oldest record that is not loaded yet"),
    Instrument(
        "penstock.headroom.seconds",
        "gauge",
        "s",
        "the time until Kafka may delete the oldest record that is not loaded yet; no value while none waits",
    ),
    Instrument(
        "penstock.transaction.open.seconds",
        "gauge",
        "s",
        "the age of the oldest open transaction that holds records back; 0 without one",
    ),
    Instrument("penstock.quarantine.records", "gauge", "{record}", "records in the quarantine, without dropped ones"),
    Instrument(
        "penstock.gaps.offsets", "gauge", "{offset}", "offsets below the positions that the table does not hold"
    ),
    Instrument("penstock.sample.age.seconds", "gauge", "s", "the time since Kafka answered the sampler last"),
    Instrument("penstock.incidents", "gauge", "{incident}", "incidents that have not ended, muted ones included"),
)
