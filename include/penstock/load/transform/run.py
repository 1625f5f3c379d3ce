"""A load with a transform in the Spark driver: open the decoded records, run the function, write what it returns."""

from __future__ import annotations

import hashlib
import linecache
import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from penstock import advice
from penstock.declaration.transforms import find_file, split_transform
from penstock.errors import TransformError
from penstock.kafka.readers.contract import find_reader
from penstock.ledger.connection import open_ledger
from penstock.ledger.stage_task import read_stage_tasks
from penstock.ledger.transform import (
    forget_accounts,
    read_accounts,
    read_refused,
    record_filtered,
    record_transform,
    settle_accounts,
)
from penstock.load.transform.account import balance
from penstock.load.transform.columns import exchanged_types, fit_columns, receive
from penstock.load.transform.decode import decode_group, quarantine_refused, record_group
from penstock.load.transform.failure import explain_call
from penstock.load.transform.write import RESULT, make_writer
from penstock.records.decoder import target_layout_of
from penstock.spark.driver import find_newest_job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from pyspark.sql import DataFrame

    from penstock.ledger.connection import Connection
    from penstock.load.transform.decode import Wanted
    from penstock.model.load import Load
    from penstock.model.ranges import Chunk
    from penstock.settings import Settings
    from penstock.spark.executors import Executors
    from penstock.target.assignment import Assignment

# Functions such as hour() read moments in this zone, whatever the machine's own is.
SESSION = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.maxRecordsPerBatch": "10000"}
# The chunks whose accounts are in memory at the same time: 2.1 MB each at most, besides the parts that wrote them.
CHUNKS_AT_ONCE = 8


def stage_transformed(
    settings: Settings, spark: Executors, load: Load, assignment: Assignment, groups: Sequence[Sequence[Chunk]]
) -> None:
    """Stage the chunks of a load through its transform."""
    transform = load.declaration.transform or ""
    path = find_file(transform, settings.find_transforms())
    function, sha256 = load_function(transform, path)
    with open_ledger(settings.db) as connection:
        record_transform(connection, load.load_id, load.attempt, sha256)
    session = spark.open_session(SESSION)
    reader, source = find_reader(load.declaration.reader), assignment.source
    chunks = [chunk for group in groups for chunk in group]
    given = exchanged_types(assignment.layout)
    frame = reader.open_frame(session, source, groups, partial(decode_group, assignment), given)
    layout = target_layout_of(load.declaration)
    made = fit_columns(call(function, receive(frame, assignment.layout), transform, path), layout, transform)
    made.mapInArrow(make_writer(assignment, layout, chunks), RESULT).collect()
    _record_left_out(settings, spark, load, assignment, groups)
    with open_ledger(settings.db) as connection:
        refused = read_refused(connection, load.load_id, load.attempt)
        holed = [task.task for task in read_stage_tasks(connection, load.load_id, load.attempt) if task.holes]
    reader.confirm_holes(source, chunks, holed)
    wanted: Wanted = {}
    for each in refused:
        found = {int(offset): (reason, detail) for offset, (reason, detail) in each.refused.items()}
        wanted.setdefault(each.task, {}).update(found)
    again = [group for group in groups if any(chunk.task in wanted for chunk in group)]
    if again:
        reader.stage_groups(spark, source, again, partial(quarantine_refused, assignment, wanted))


def load_function(transform: str, path: Path) -> tuple[Callable[[DataFrame], DataFrame], str]:
    """Load the function of a transform from its file, and hash the very text that is run.

    Tasks get its functions by value. So the executors need no copy of the file, and no worker that Spark keeps can hold
    an older version of it.
    """
    from pyspark import cloudpickle

    module_name, name = split_transform(transform)
    text = path.read_bytes()
    module = ModuleType(f"penstock_transform_{module_name}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    linecache.checkcache(str(path))
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - the file is code of the pipeline's owner
    except Exception as error:
        raise explain_call(error, transform, str(path)) from error
    cloudpickle.register_pickle_by_value(module)
    function = getattr(module, name)
    if not callable(function):
        raise TransformError(f"{path}: {name} is not a function.", next_step=advice.CORRECT_TRANSFORM)
    return function, hashlib.sha256(text).hexdigest()


def call(function: Callable[[DataFrame], DataFrame], frame: DataFrame, transform: str, path: Path) -> DataFrame:
    """Call the function of a transform.

    It may have read rows, for example by `count()`. An error of Spark is then explained as that of a task, and no
    message is quoted, because it may hold a value.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    newest = find_newest_job(frame.sparkSession.sparkContext)
    try:
        made = function(frame)
    except Exception as error:
        if find_newest_job(frame.sparkSession.sparkContext) == newest:
            raise explain_call(error, transform, str(path)) from error
        if isinstance(error, (PySparkException, Py4JError)):
            raise
        raise explain_call(error, transform, str(path), quotes=False) from None
    if not isinstance(made, DataFrame):
        what = f"the transform {transform} returned {type(made).__name__}, not a DataFrame."
        raise TransformError(what, next_step=advice.CORRECT_TRANSFORM)
    return made


def _record_left_out(
    settings: Settings, spark: Executors, load: Load, assignment: Assignment, groups: Sequence[Sequence[Chunk]]
) -> None:
    """Read and record the groups that Spark did not read to their end: it reads no more than the transform needs."""
    with open_ledger(settings.db) as connection:
        known = {task.task for task in read_stage_tasks(connection, load.load_id, load.attempt)}
    left = [group for group in groups if any(chunk.task not in known for chunk in group)]
    if left:
        reader = find_reader(load.declaration.reader)
        reader.stage_groups(spark, assignment.source, left, partial(record_group, assignment))


def balance_load(connection: Connection, load: Load, attempt: int) -> None:
    """Compare what was decoded with what the transform made, chunk by chunk, and record what it filtered."""
    after = -1
    while chunks := read_accounts(connection, load.load_id, attempt, after, CHUNKS_AT_ONCE):
        after = chunks[-1].task
        pieces: list[dict[str, Any]] = []
        accounts: list[dict[str, Any]] = []
        for chunk in chunks:
            try:
                account = balance(chunk.task, chunk.range, chunk.places, chunk.hashes, chunk.written)
            except TransformError as error:
                error.fill(load.pipeline, load.load_id)
                raise
            accounts.append(
                {"task": account.task, "rows": account.rows, "refused": account.refused, "filtered": account.filtered}
            )
            pieces += [
                {"partition": chunk.partition, "from_offset": start, "places": places.hex()}
                for start, places in account.pieces
            ]
        settle_accounts(connection, load.load_id, attempt, accounts)
        if pieces:
            record_filtered(connection, load.load_id, attempt, pieces)
    forget_accounts(connection, load.load_id)
