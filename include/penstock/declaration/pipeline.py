"""The declaration of a pipeline: one YAML file, one topic, one target."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from penstock.declaration.alerts import Route, Routes, check_connection
from penstock.declaration.columns import ColumnType
from penstock.declaration.consistency import expand, find_mistakes
from penstock.declaration.durations import parse_duration
from penstock.declaration.files import describe_mistake, list_files, read_each_file, read_file, read_one_of
from penstock.declaration.formats import KeyFormat, ValueFormat
from penstock.declaration.mistakes import Mistake, Place, clip, describe_errors
from penstock.declaration.parts import KEPT, STRICT, Check, Column, PathField, Quality, Target, TargetField
from penstock.declaration.results import Result
from penstock.declaration.rules import Dedupe, HoldAbove, Rule
from penstock.declaration.schedules import check_schedule, spread
from penstock.declaration.starts import LoadingHours, LoadWhen, check_hours, parse_hours
from penstock.declaration.transforms import TransformField
from penstock.errors import DeclarationError, WrongUseError

__all__ = [
    "Check",
    "Column",
    "ColumnType",
    "Pipeline",
    "Rule",
    "Target",
    "read_each",
    "read_named",
    "read_pipeline",
    "read_pipelines",
]

Start = Literal["earliest", "latest"] | datetime
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Airflow shows both on one line of its list of DAGs, and stores each tag of each DAG in a row.
MOST_DESCRIPTION, MOST_TAGS = 1_000, 50
MOST_GROUP = 249
_START = "earliest, latest, or an ISO time with a zone such as 2026-01-31T00:00:00Z"


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", name):
        raise ValueError(
            f"{clip(name)} is not a valid pipeline name; allowed: a lower-case letter, "
            "then lower-case letters, digits and _, at most 50 characters"
        )
    if name.startswith("penstock_"):
        raise ValueError(
            f"{clip(name)} begins with penstock_, reserved for Penstock's own DAGs; allowed: any other name"
        )
    return name


def _check_topic(topic: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic) or topic in (".", ".."):
        raise ValueError(f"{clip(topic)} is not a topic name; allowed: letters, digits, '.', '_' and '-', at most 249")
    return topic


def _check_words(text: str) -> str:
    if not text.strip() or len(text) > 100:
        raise ValueError(f"{clip(text)} is not a valid name; allowed: 1 to 100 characters")
    return text


def _check_description(text: str, info: ValidationInfo) -> str:
    if len(text) > MOST_DESCRIPTION and not _is_kept(info):
        raise ValueError(f"{len(text):,} characters; allowed: at most {MOST_DESCRIPTION:,}")
    return text


def _check_tags(tags: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if len(tags) > MOST_TAGS and not _is_kept(info):
        raise ValueError(f"{len(tags):,} tags; allowed: at most {MOST_TAGS}")
    return tags


def _check_group(text: str) -> str:
    if not text.strip() or len(text.encode()) > MOST_GROUP:
        raise ValueError(f"{clip(text)} is not the name of a consumer group; allowed: 1 to {MOST_GROUP} bytes")
    return text


def _check_duration(text: str) -> str:
    parse_duration(text)
    return text


def _check_schedule(schedule: str, info: ValidationInfo) -> str:
    return schedule if _is_kept(info) else check_schedule(schedule)


def _check_window(text: str, info: ValidationInfo) -> str:
    return text if _is_kept(info) else check_hours(text)


def _is_kept(info: ValidationInfo) -> bool:
    return info.context is KEPT


def _read_start(value: object) -> Start:
    if value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise ValueError(f"{clip(value)} is not a valid start; allowed: {_START}") from error
    if moment.tzinfo is None:
        raise ValueError(f"{clip(value)} has no time zone; allowed: {_START}")
    # Before 1970 the milliseconds are negative, and Kafka reads -1 as latest.
    if moment < _EPOCH:
        raise ValueError(f"{clip(value)} is before 1970; allowed: {_START}")
    return moment


def _write_start(start: Start) -> str:
    return start.isoformat() if isinstance(start, datetime) else start


Name = Annotated[StrictStr, AfterValidator(_check_name)]
Topic = Annotated[StrictStr, AfterValidator(_check_topic)]
Connection = Annotated[StrictStr, AfterValidator(check_connection)]
Words = Annotated[StrictStr, AfterValidator(_check_words)]
Duration = Annotated[StrictStr, AfterValidator(_check_duration)]
Group = Annotated[StrictStr, AfterValidator(_check_group)]
Hours = Annotated[StrictStr, AfterValidator(_check_window)]
Schedule = Annotated[StrictStr, AfterValidator(_check_schedule)]
Count = Annotated[StrictInt, Field(ge=0, le=2**63 - 1)]
StartField = Annotated[
    Start,
    PlainValidator(_read_start),
    PlainSerializer(_write_start, return_type=str),
    WithJsonSchema({"type": "string"}),
]
Index = Annotated[tuple[StrictStr, ...], Field(min_length=1, max_length=32)]


class Pipeline(BaseModel):
    """One pipeline: what to load, from where, into which table, and what to check."""

    model_config = STRICT

    name: Name = Field(description="the pipeline's name, also that of its file: lower-case letters, digits and _")
    topic: Topic = Field(description="the Kafka topic to load")
    kafka: Connection = Field(default="kafka_default", description="the id of the Airflow connection to Kafka")
    schedule: Schedule | None = Field(
        default="@hourly",
        description="when to load: five cron fields, a preset such as @hourly, or null for by hand only",
    )
    spread: StrictBool = Field(
        default=False,
        description="load at a minute of the hour that depends on the pipeline's name alone, in place of minute 0, so "
        "that many pipelines do not start at once",
    )
    load_when: LoadWhen | None = Field(
        default=None,
        description="{min_records, max_wait}: waiting records that start a load between the times of the schedule; "
        "null for the schedule alone",
    )
    window: Hours | None = Field(
        default=None,
        description="the hours of the day in which loads may start, such as 22:00-06:00 Europe/Berlin (by default "
        "UTC); null for any time",
    )
    rate: Annotated[StrictInt, Field(ge=1, le=10**9)] | None = Field(
        default=None, description="the most records per second that a load reads, over all tasks; null for no limit"
    )
    start: StartField = Field(
        default="earliest", description="where the first load starts: earliest, latest, or an ISO time with a zone"
    )
    max_records_per_partition: Annotated[StrictInt, Field(ge=1, le=2**63 - 1)] = Field(
        default=5_000_000,
        description="the most records that a load reads from a partition; the next load reads on",
    )
    value: ValueFormat = Field(description=f"the format of the records' values: {', '.join(get_args(ValueFormat))}")
    key: KeyFormat | None = Field(
        default=None, description="keep the record's key in the column _key, as text or as bytes"
    )
    tombstones: Literal["poison", "keep"] = Field(
        default="poison",
        description="the treatment of a record without value: poison, or keep it as a row with its key",
    )
    key_columns: dict[StrictStr, PathField] | None = Field(
        default=None,
        description="tombstones: keep: a mapping of columns to their paths in the record's key, which is JSON",
    )
    reader: Literal["native", "spark"] = Field(
        default="native", description="the reader of the log: native (librdkafka) or spark (Spark's own Kafka source)"
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="read_committed leaves out the records of open and aborted transactions"
    )
    columns: Annotated[tuple[Column, ...], Field(min_length=1, max_length=1500)] = Field(
        description="a mapping of column names to {type, path, required, unit}, in the order of the table"
    )
    transform: TransformField | None = Field(
        default=None,
        description="a function of PySpark, module:function in the folder of transforms, that makes the rows from the "
        "decoded columns; null for none",
    )
    input: Annotated[tuple[Column, ...], Field(min_length=1, max_length=1500)] | None = Field(
        default=None,
        description="the decoded columns, a mapping as in `columns`, where the transform makes other columns; null if "
        "they are those of `columns`",
    )
    target: TargetField = Field(description="the table to load, by this pipeline alone: schema.table")
    mode: Literal["append"] = Field(default="append", description="how rows are added to the table: append")
    indexes: tuple[Index, ...] = Field(
        default=(),
        description="a list of indexes, each a list of column names; an index cannot hold texts of over 2,600 bytes",
    )
    results: tuple[Result, ...] = Field(
        default=(),
        description="a list of tables that are derived from the rows and published with them, each {table, mode: "
        "upsert or sql, key, …}",
    )
    rules: tuple[Rule, ...] = Field(
        default=(),
        description="a list of rules, each {name: …, where: SQL, or expect: … and its arguments}; a row that fails a "
        "rule goes to the quarantine",
    )
    dedupe: Dedupe | None = Field(
        default=None,
        description="{by: columns, within: a duration}: later copies of a row go to the quarantine; null keeps copies",
    )
    checks: tuple[Check, ...] = Field(
        default=(),
        description="a list of checks, each {expect: …, severity: error, warning or info, and its arguments}",
    )
    suites: tuple[StrictStr, ...] = Field(
        default=(), description="a list of suites, each the name of a file with checks in the folder suites"
    )
    quality: Quality = Field(
        default=Quality(), description="{defaults: false} leaves out the defaults of all pipelines in quality.yaml"
    )
    checks_read: tuple[TargetField, ...] = Field(
        default=(), description="a list of tables, schema.table, that the checks may read besides the load's rows"
    )
    poison: Literal["quarantine", "stop"] = Field(
        default="quarantine",
        description="the treatment of a record that cannot become a row: quarantine it, or stop the load",
    )
    max_quarantined: Count | None = Field(
        default=None, description="a load that would quarantine more records than this fails; null for no limit"
    )
    keep_rolled_back_days: Annotated[StrictInt, Field(ge=1, le=36_500)] = Field(
        default=30, description="how many days the rows of a rolled back load are kept for an undo"
    )
    keep_rows_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(
        default=None,
        description="how many days after their publish the rows of the target are kept, if only the results matter; "
        "null for ever",
    )
    keep_quarantine_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(
        default=None,
        description="how many days the quarantined records of a published load are kept whole; their offsets and "
        "reasons are kept longer; null for ever",
    )
    keep_check_results_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(
        default=400, description="how many days the results of checks on ended loads are kept; null for ever"
    )
    keep_tasks_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(
        default=400,
        description="how many days the ledger keeps the chunks of ended loads and their fingerprints; a verification "
        "does not read older records again, also if the log still holds them; null for ever",
    )
    prove_within_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(
        default=30,
        description="the daily audit counts the rows of new loads, and the rows of every load again within this many "
        "days, at least ten million rows a day; null for all rows every day",
    )
    on_loss: Literal["stop", "record"] = Field(
        default="stop",
        description="the reaction if the log has lost offsets after the position: stop until a person decides, or "
        "record the loss, alert and continue",
    )
    owner: Words = Field(default="penstock", description="the owner of the pipeline")
    tags: Annotated[tuple[Words, ...], AfterValidator(_check_tags)] = Field(
        default=(), description="a list of tags for Airflow's pages, at most 50"
    )
    description: Annotated[StrictStr, AfterValidator(_check_description)] | None = Field(
        default=None, description="the purpose of the pipeline, in a few words; at most 1,000 characters"
    )
    alerts: Routes = Field(
        default=(),
        description="the id of the Airflow connection to which alerts are sent, or a list of {to, severity, remind}",
    )
    overdue_intervals: Annotated[StrictInt, Field(ge=1, le=1000)] | None = Field(
        default=3,
        description="how many intervals of the schedule may pass without a published load, or a run that finds nothing "
        "new, before the pipeline is overdue; null for any number",
    )
    deadline: Duration | None = Field(
        default=None,
        description="how long a load may take, from the time of the schedule or the start of its run to its end, "
        "before the pipeline is overdue, such as 2h; null for overdue_intervals instead",
    )
    publish_hours: StrictBool = Field(
        default=False,
        description="update Airflow's asset penstock://<name>/hours with each hour that is whole in all partitions",
    )
    headroom: Duration | None = Field(
        default=None,
        description="the least time for which Kafka must still keep the records that wait, such as 24h; null for an "
        "interval of the schedule",
    )
    mirror_group: Group | None = Field(
        default=None,
        description="a consumer group to which the positions are committed after each load, for tools that show lag; "
        "Penstock never reads it",
    )
    retries: Annotated[StrictInt, Field(ge=0, le=100)] = Field(
        default=3, description="how many times Airflow retries a failed task"
    )
    timeout_minutes: Annotated[StrictInt, Field(ge=1, le=10_080)] = Field(
        default=120, description="the timeout of a task in minutes"
    )

    @property
    def times(self) -> str | None:
        """The schedule as Airflow runs it: with `spread`, at a minute of its own."""
        return spread(self.schedule, self.name) if self.schedule and self.spread else self.schedule

    @property
    def index_entries(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each index that a row must fit into: declared indexes, and the keys of upserts and guards."""
        keys = ((*result.key, "_generation", "_partition") for result in self.results if result.mode == "upsert")
        return (*self.indexes, *keys)

    @property
    def decoded(self) -> tuple[Column, ...]:
        """The columns that are read from a record."""
        return self.columns if self.input is None else self.input

    @property
    def loading_hours(self) -> LoadingHours | None:
        """The hours of the day in which loads may start; None for any time."""
        return None if self.window is None else parse_hours(self.window)

    @property
    def closed_time(self) -> timedelta:
        """How long on a day no load may start."""
        return self.loading_hours.closed if self.loading_hours else timedelta(0)

    @classmethod
    def read_kept(cls, given: str | Mapping[str, Any]) -> Self:
        """Read a declaration that the ledger keeps, as JSON or as its value. Newer rules are not applied."""
        if isinstance(given, str):
            return cls.model_validate_json(given, context=KEPT)
        return cls.model_validate(given, context=KEPT)

    @model_validator(mode="wrap")
    @classmethod
    def _report_mistakes(cls, given: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Report the mistakes inside the parts and the mistakes between the parts together."""
        if isinstance(given, cls):
            return handler(given)
        if not isinstance(given, Mapping):
            what = f"must be a mapping, not {clip(given)}; allowed: {', '.join(cls.model_fields)}"
            raise _to_validation_error([Mistake((), what)])
        plain = _dump_parts(given)
        written, mistakes = expand(plain)
        if not _is_kept(info):
            mistakes += find_mistakes(written, plain)
        try:
            read = handler(written)
        except ValidationError as error:
            mistakes = [*describe_errors(error, allowed_names), *mistakes]
        else:
            if not mistakes:
                return read
        raise _to_validation_error(mistakes)


def _to_validation_error(mistakes: Iterable[Mistake]) -> ValidationError:
    """Make pydantic's error of mistakes, so that a declaration in Python fails with the messages of one in YAML."""
    details = [
        # pydantic reads curly brackets as placeholders, but replaces them only by a context, and there is none.
        InitErrorDetails(type=PydanticCustomError("declaration", what), loc=place, input=None)
        for place, what in mistakes
    ]
    return ValidationError.from_exception_data(Pipeline.__name__, details, hide_input=True)


def allowed_names(place: Place) -> dict[str, str]:
    """List the names that are allowed at a place of a declaration, each with its meaning."""
    if place[:1] in (("columns",), ("input",)) and len(place) == 2:
        return _describe_fields(Column, "name")
    if place[:1] == ("checks",) and len(place) == 2:
        return {
            "expect": "the name of an expectation",
            "severity": "error, warning or info",
            "column": "a column's name",
        }
    if place[:1] in _ENTRIES and len(place) == 2:
        return _describe_fields(_ENTRIES[place[:1]])
    if place in _PARTS:
        return _describe_fields(_PARTS[place])
    if place[:1] == ("dedupe",) or (place[:1] == ("rules",) and len(place) > 1):
        model = HoldAbove if place[-1] == "hold_above" else Dedupe if place[0] == "dedupe" else Rule
        return _describe_fields(model, "arguments")
    return {} if place else _describe_fields(Pipeline)


# The models of the entries of lists.
_ENTRIES: dict[Place, type[BaseModel]] = {("alerts",): Route, ("results",): Result}
_PARTS: dict[Place, type[BaseModel]] = {("load_when",): LoadWhen, ("quality",): Quality}


def _describe_fields(model: type[BaseModel], *hidden: str) -> dict[str, str]:
    return {name: field.description or "" for name, field in model.model_fields.items() if name not in hidden}


def _dump_parts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn columns and checks that are models (from Python) into mappings, as YAML gives them."""
    return {
        name: [_dump(part) for part in value] if isinstance(value, list | tuple) else value
        for name, value in given.items()
    }


def _dump(part: object) -> object:
    return part.model_dump() if isinstance(part, BaseModel) else part


def read_pipeline(path: Path) -> Pipeline:
    """Read one declaration; a DeclarationError lists the mistakes, with file and line."""
    return read_file(path, Pipeline)


def read_each(folder: Path) -> dict[Path, Pipeline | DeclarationError]:
    """Read every declaration of a folder. A file with mistakes gives its error and does not affect the others."""
    read = read_each_file(folder, Pipeline)
    loaded_by: dict[str, Path] = {}
    for path, each in read.items():
        if isinstance(each, Pipeline):
            first = loaded_by.setdefault(str(each.target), path)
            if first != path:
                read[path] = _report_shared_target(path, each, first)
    return read


def read_named(folder: Path, name: str) -> Pipeline:
    """Read the declaration of one pipeline as `read_each` does. Mistakes in other files are ignored."""
    files = list_files(folder)
    path = next((path for path in files if path.stem == name), None)
    if path is None:
        raise WrongUseError(
            f"no pipeline named {name} in {folder}; there are: {', '.join(path.stem for path in files) or 'none'}.",
            next_step="check the name, or set PENSTOCK_PIPELINES to the folder of your YAML files.",
        )
    read = read_one_of(files, path, Pipeline)
    if isinstance(read, DeclarationError):
        raise read
    for other in files[: files.index(path)]:
        if _may_load(other, read.target):
            clash = read_one_of(files, other, Pipeline)
            if isinstance(clash, Pipeline) and clash.target == read.target:
                raise _report_shared_target(path, read, other)
    return read


def _may_load(path: Path, target: Target) -> bool:
    """Search the text of a file for the target, so that a thousand files are not parsed to read one pipeline."""
    try:
        return str(target).encode() in path.read_bytes()
    except OSError:
        return False


def _report_shared_target(path: Path, pipeline: Pipeline, first: Path) -> DeclarationError:
    what = f"{pipeline.target} is also the target of {first}; allowed: one pipeline a target"
    return DeclarationError(describe_mistake(path, ("target",), what))


def read_pipelines(folder: Path) -> dict[str, Pipeline]:
    """Read every declaration of a folder by name; a DeclarationError lists the mistakes of all files."""
    read = read_each(folder)
    errors = [error for error in read.values() if isinstance(error, DeclarationError)]
    if errors:
        raise join_errors(errors)
    return {each.name: each for each in read.values() if isinstance(each, Pipeline)}


def join_errors(errors: Iterable[DeclarationError]) -> DeclarationError:
    """Join the mistakes of several files. A mistake of a suite that several files name is listed once."""
    return DeclarationError("\n".join(dict.fromkeys(line for error in errors for line in error.what.split("\n"))))
