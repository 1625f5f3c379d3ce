"""The mirror of the positions in Kafka: a consumer group that Penstock writes and never reads.

Burrow, Redpanda Console and lag exporters compare the offsets of consumer groups with the ends of the logs. The ledger
stays the only source of the positions, so an error here is logged and changes nothing: the next run commits again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import psycopg

from penstock.errors import PenstockError
from penstock.kafka.consumer_group import commit_offsets
from penstock.ledger.connection import explain, open_ledger
from penstock.ledger.generation import read_newest_generation_of, read_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)

# A load waits at most this long for a broker that does not answer.
SECONDS = 5.0


def mirror_positions(uri: str, kafka: Mapping[str, str], pipeline: Pipeline) -> None:
    """Commit the positions of a pipeline to its `mirror_group`, if one is declared."""
    if pipeline.mirror_group is None:
        return
    try:
        offsets = _read_positions(uri, pipeline.name)
        if offsets:
            commit_offsets(kafka, pipeline.mirror_group, pipeline.topic, offsets, SECONDS)
    except PenstockError as error:
        _warn(pipeline, error.what)
    except psycopg.Error as error:
        _warn(pipeline, explain(error).what)


def _read_positions(uri: str, pipeline: str) -> dict[int, int]:
    with open_ledger(uri) as connection:
        generation = read_newest_generation_of(connection, pipeline)
        if generation is None:
            return {}
        return {each.partition: each.position for each in read_positions(connection, generation.generation_id)}


def _warn(pipeline: Pipeline, why: str) -> None:
    log.warning("%s: its positions are not in the consumer group %s: %s.", pipeline.name, pipeline.mirror_group, why)
