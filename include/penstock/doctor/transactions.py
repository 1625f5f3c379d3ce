"""Judges whether an open transaction holds records back. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.doctor.facts import compare
from penstock.doctor.intervals import MINUTE, write_duration
from penstock.errors import MOST_NAMED, name_few, name_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.doctor.commands import Commands
    from penstock.doctor.facts import Finding
    from penstock.kafka.batches.open_transactions import OpenTransaction

# Kafka's own limit, transaction.max.timeout.ms. No producer may have asked for more.
LONGEST = 15 * MINUTE


def judge_transactions(found: Sequence[OpenTransaction], now: datetime, commands: Commands) -> Finding:
    """Judge the open transactions. Records behind one cannot be loaded, and may be deleted before it ends."""
    late = [each for each in found if each.began_at is not None and now - each.began_at > LONGEST]
    undated = [each for each in found if each.began_at is None]
    unknown = dict.fromkeys(why for each in (*late, *undated) for why in each.unknown)
    return compare(
        "topic",
        "open transactions",
        name_ranges([describe_transaction(each, now) for each in (*late, *undated) or found]) or "none",
        f"none for longer than {write_duration(LONGEST)}",
        fits=not late and not undated,
        otherwise="wrong" if late else "warning",
        told="the records behind it are not loaded until it ends, and retention may delete them first"
        + "".join(f"; not known: {each}" for each in name_few(list(unknown))),
        change="end it at its producer, or let Kafka abort it: "
        + " and ".join(
            commands.abort_transaction(each.partition, each.first_offset) for each in (late or undated)[:MOST_NAMED]
        ),
    )


def describe_transaction(found: OpenTransaction, now: datetime) -> str:
    """Describe how many offsets a transaction holds back, since when, and its producer."""
    return (
        f"an open transaction holds back {found.held_back} offsets of partition {found.partition} from offset "
        f"{found.first_offset} on, {_describe_age(found.began_at, now)}; "
        f"producer id {'not known' if found.producer_id is None else found.producer_id}, "
        f"transactional id {found.transactional_id or 'not known'}"
    )


def _describe_age(began_at: datetime | None, now: datetime) -> str:
    if began_at is None:
        return "since an unknown time"
    # The clocks of the brokers may differ from the own clock.
    return f"for {write_duration(max(now - began_at, timedelta()))}"
