"""The documents that the page's routes answer with. The command line's `--json` has the same words and figures."""

# FastAPI reads the annotations when the program runs, so they are not postponed here.
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penstock.model.health import Word

Axis = Literal["offset", "time"]
CellKind = Literal[
    "published",
    "quarantined",
    "hole",
    "filtered",
    "unexplained_hole",
    "lost",
    "gap",
    "rolled_back",
    "expired",
    "pending",
    "not_loaded",
]
Trend = Literal["rising", "falling", "steady"]
LoadAction = Literal["approve", "discard", "rollback", "undo", "replay"]


class Document(BaseModel):
    """The base of all documents."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Panel(Document):
    """The base of the documents of a panel."""

    sql: str = Field(description="the query on the ledger's views that shows the rows of this panel")


class Action(Document):
    """The next step as a button: a run of a DAG, or a place to look at."""

    kind: Literal["settle", "accept_loss", "load", "fill_gaps", "replace", "look"] = Field(
        description="settle: answer the request about `load`; the others but look start a run of `dag_id`"
    )
    label: str = Field(description="the text of the button")
    dag_id: str = Field(description="the DAG to start, or to look at")
    conf: dict[str, Any] = Field(default={}, description="the parameters of the run, as far as they are known")
    load: int | None = Field(default=None, description="the load that the step concerns")


class NewestLoad(Document):
    """The newest load of a pipeline."""

    load: int
    kind: str
    state: str
    planned_at: datetime
    published_at: datetime | None


class RecentLoad(Document):
    """One of the last loads, as a square."""

    load: int
    kind: str
    state: str
    quarantined: int | None


class PipelineEntry(Document):
    """A row of the list of pipelines."""

    name: str = Field(description="the pipeline's name, which is the id of its DAG")
    topic: str | None = Field(description="null if the declaration is invalid")
    target: str | None
    state: Word = Field(description="the health in one word, as in `penstock status`")
    cause: str
    next_step: str
    action: Action | None = Field(description="the next step as a button; null if there is nothing to do")
    lag: int | None = Field(description="offsets that are not loaded yet; null without a sample")
    oldest_seconds: float | None = Field(description="the age of the oldest record that is not loaded")
    trend: Trend | None = Field(description="the lag compared with an hour ago; null without samples of then")
    load: NewestLoad | None = Field(description="the newest load, of any kind")
    recent: list[RecentLoad] = Field(description="the last ten loads, the newest first")
    quarantined: int = Field(description="records of published loads in the quarantine whose contents are kept")
    headroom_hours: float | None = Field(description="hours until Kafka deletes the first record that is not loaded")
    schedule: str | None
    owner: str | None
    tags: list[str]
    sampled_at: datetime | None = Field(description="when Kafka was last asked about this pipeline")
    counted_at: datetime | None = Field(description="when quarantined records and gaps were last counted")


class Pipelines(Document):
    """The pipelines whose DAGs the user may read."""

    now: datetime = Field(description="the server's clock")
    sampled_at: datetime | None = Field(description="the oldest of the pipelines' samples")
    pipelines: list[PipelineEntry]


class Generation(Document):
    """The incarnation of the topic that is loaded."""

    generation: int
    cluster_id: str
    topic_id: str


class Point(Document):
    """The lag at a moment."""

    at: datetime
    lag: int | None
    oldest_seconds: float | None


class Eta(Document):
    """When the pipeline has caught up, at the rate of its last loads."""

    at: datetime | None = Field(description="null if nothing waits, or if there is no rate")
    formula: str = Field(description="how the time was computed, in words")


class HeadroomTile(Document):
    """The shortest time until Kafka deletes records that are not loaded."""

    hours: float | None
    partition: int | None
    told: str


class OpenTransactionTile(Document):
    """The oldest open transaction that holds records back."""

    seconds: float | None = Field(description="its age; null if its begin is unknown")
    partition: int
    held_back: int = Field(description="the offsets behind it")


class QuarantineTile(Document):
    """The quarantine of a pipeline."""

    records: int = Field(description="records whose contents are kept")
    loads: int
    new: int = Field(description="records of the newest published load")


class VerificationTile(Document):
    """The last verification."""

    verification: int
    at: datetime
    state: Literal["proven", "faulty", "running"]
    share: float
    faults: int


class Tiles(Document):
    """The figures at the top of a pipeline's page."""

    lag: int | None
    oldest_seconds: float | None
    trend: list[Point] = Field(description="the last 24 hours, the oldest first")
    eta: Eta
    headroom: HeadroomTile
    open_transaction: OpenTransactionTile | None
    quarantined: QuarantineTile
    gaps: int
    lost: int
    verification: VerificationTile | None


class PartitionFigures(Document):
    """One partition, as in `penstock status`."""

    partition: int
    position: int | None
    log_start: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None


class PipelinePage(Panel, PipelineEntry):
    """The head and the tiles of a pipeline's page."""

    description: str | None
    generation: Generation | None = Field(description="null before the first plan")
    since: datetime | None = Field(description="since when the load or the hold is in this state")
    kafka: str | None = Field(description="the id of the Airflow connection")
    tiles: Tiles
    partitions: list[PartitionFigures] = Field(description="at most 1,000, the greatest lag first")
    busy: bool = Field(description="whether a load or a backfill runs, so that the page asks again every 5 s")


class Rights(Document):
    """The buttons that the user may use on the page of a pipeline. Airflow checks each action again."""

    may_start: list[str] = Field(description="the DAGs of the page's buttons of which the user may start runs")
    may_see_contents: bool = Field(description="whether the user may see the contents of quarantined records")


class Cell(Document):
    """Neighbouring offsets of a partition as one cell of the map."""

    from_: int = Field(alias="from")
    until: int
    kind: CellKind = Field(description="the kind of its offsets that needs the most attention")
    count: int = Field(description="the offsets of that kind in the cell")
    load: int | None = Field(description="the load, if the cell's offsets belong to one load")
    loads: int = Field(description="the number of loads with offsets in the cell")
    detail: str = Field(description="what the cell holds, in words")
    from_time: datetime | None = Field(default=None, description="with axis=time: the begin of the cell's period")
    until_time: datetime | None = Field(default=None, description="with axis=time: the end of the cell's period")


class PartitionMap(Document):
    """A row of the map."""

    partition: int
    from_: int = Field(alias="from", description="the first offset that the pipeline accounts for")
    until: int = Field(description="the end of the log at the last sample, or the position if it is higher")
    log_start: int | None
    lag: int | None
    position: int
    cells: list[Cell] = Field(description="at most 200, without space between them")


class LegendEntry(Document):
    """The number of offsets of a kind in the shown partitions."""

    kind: CellKind
    offsets: int


class Coverage(Panel):
    """The coverage map: at most 25 partitions a page, those with trouble first."""

    axis: Axis
    page: int
    pages: int
    partitions: list[PartitionMap]
    legend: list[LegendEntry] = Field(description="all kinds; the sum is `total`, the sum of until - from")
    total: int
    sampled_at: datetime | None


class Phase(Document):
    """A phase of a load, and how long it took or takes."""

    phase: Literal["wait", "stage", "validate", "held", "publish"]
    seconds: float
    ended: bool


class LoadEntry(Document):
    """A row of the list of loads."""

    load: int
    kind: str
    state: str
    planned_at: datetime
    published_at: datetime | None
    offsets: int
    partitions: int
    rows: int | None
    quarantined: int | None
    holes: int | None
    filtered: int | None = Field(description="the records that the transform made no row of")
    cause: str | None
    run_id: str
    run_link: str | None = Field(description="the path of the run in Airflow; null if it ran elsewhere")
    who: str | None = Field(description="the person who decided or requested it, if the ledger knows")
    phases: list[Phase]
    attempts: int
    backfill: int | None
    superseded_by: int | None


class Loads(Panel):
    """The loads of a pipeline, the newest first, 25 a page."""

    page: int
    pages: int
    total: int
    loads: list[LoadEntry]


class RangeEntry(Document):
    """A range of a load's plan with its counts."""

    partition: int
    from_: int = Field(alias="from")
    until: int
    rows: int | None
    quarantined: int | None
    holes: int | None
    filtered: int | None


class Progress(Document):
    """The progress of staging a partition."""

    partition: int
    planned: int
    done: int
    rows_per_second: int
    eta_seconds: float | None


class CheckEntry(Document):
    """The result of a check on the load's current attempt; `observed` holds figures and places, no values."""

    expectation: str
    column: str | None
    partition: int | None
    severity: str
    success: bool
    kind: str
    suite: str | None
    figures: str = Field(description="what was observed, in words")


class EventEntry(Document):
    """A decision or an event, with the person and the reason."""

    at: datetime
    kind: str
    load: int | None
    actor: str
    why: str | None
    what: str


class DeclarationChange(Document):
    """A field of the declaration that differs from that of the load before."""

    field: str
    before: str | None
    after: str | None


class LoadPage(Panel, LoadEntry):
    """One load in full."""

    pipeline: str
    application_id: str | None
    ranges: list[RangeEntry] = Field(description="at most 1,000")
    more_ranges: bool = Field(description="whether the load has more ranges than these")
    progress: list[Progress]
    checks: list[CheckEntry] = Field(description="failed ones first; at most 500")
    events: list[EventEntry]
    declaration_changes: list[DeclarationChange]
    actions: list[LoadAction] = Field(description="what the state of the load allows")


class ResultRebuild(Document):
    """A rebuild under way."""

    load: int = Field(description="the last load whose rows were read")
    until_load: int = Field(description="the last load to read; later loads change the new table themselves")
    rows: int = Field(description="the rows that were read")
    rows_to_read: int = Field(description="about so many rows will be read")


class ResultVerification(Document):
    """The last verification of a result."""

    verification: int
    at: datetime
    share: float
    fault: str | None = Field(description="what differs from the rows of the target; null if nothing does")


class ResultEntry(Document):
    """A table that is derived from the rows of the target, as `penstock results --json`."""

    table: str
    mode: str
    key: list[str]
    state: Literal["declared", "waiting", "building", "current"] = Field(
        description="declared: the next load creates the table; waiting: it needs a rebuild; building: a rebuild runs, "
        "or was interrupted"
    )
    changes_with_loads: bool = Field(
        description="whether loads change the table; by its earlier definition, if the state is waiting or building"
    )
    rows: int | None = Field(description="the estimate of PostgreSQL's catalog; nothing is counted")
    load: int | None = Field(description="the load that the table stands at")
    declared_at: datetime | None
    current_since: datetime | None
    rebuild: ResultRebuild | None
    provable: bool = Field(
        description="whether a verification can compare it: an upsert, or a result with a check and all rows"
    )
    verification: ResultVerification | None = Field(description="null if none has ended since the result is current")
    next_step: str | None


class Results(Panel):
    """The results of a pipeline."""

    pipeline: str
    results: list[ResultEntry]


class QualityResult(Document):
    """The result of a check on a load."""

    load: int
    load_kind: str
    state: str
    checked_at: datetime
    success: bool
    partitions_failed: int
    figure: float | None


class QualityCheck(Document):
    """A check, and its results on the last loads."""

    expectation: str
    column: str | None
    suite: str | None
    check_id: str | None
    kind: str
    severity: str
    failed: int
    results: list[QualityResult]


class Quality(Panel):
    """The history of the checks, as `penstock quality --json`, the oldest load first."""

    pipeline: str
    loads: list[int]
    checks: list[QualityCheck]
    failures: list[dict[str, Any]] = Field(description="with `expectation`: the figures where it failed")


class QuarantineGroup(Document):
    """Quarantined records of one reason."""

    reason: str
    rule: str | None
    records: int
    dropped: int = Field(description="the records whose contents were dropped")
    loads: int
    first_at: datetime | None = Field(description="when the first of the loads was published")
    last_at: datetime | None
    first: list[str] = Field(description="the places of the first five of the newest load: partition:offset")


class Quarantine(Panel):
    """The quarantine by reason and rule."""

    records: int
    groups: list[QuarantineGroup]


class QuarantinedRecord(Document):
    """A quarantined record without its contents."""

    load: int
    partition: int
    offset: int
    timestamp: datetime | None
    reason: str
    rule: str | None
    detail: str | None = Field(description="null where the text could quote the record")
    first: str | None = Field(description="of a copy: the place of the first record")
    dropped_at: datetime | None
    key_hash: str | None = Field(description="the same for the same key; not the key")


class QuarantinedRecords(Panel):
    """Quarantined records, the newest load first, 50 a page."""

    page: int
    pages: int
    total: int
    records: list[QuarantinedRecord]


class Payload(Document):
    """The contents of a quarantined record. The ledger keeps who saw them."""

    pipeline: str
    load: int
    partition: int
    offset: int
    key: str | None = None
    key_base64: str | None = None
    value: str | None = None
    value_base64: str | None = None
    headers: list[dict[str, str]]
    dropped_at: datetime | None


class PreviewRange(Document):
    """Offsets that a backfill would load, or that it leaves out."""

    partition: int
    from_: int = Field(alias="from")
    until: int
    offsets: int
    load: int | None = None
    backfill: int | None = None


class BackfillPreview(Document):
    """The loads that a backfill would make, as `backfill --dry-run --json`; the log is that of the last sample."""

    state: Literal["preview", "empty", "refused"]
    pipeline: str
    offsets: int
    seconds: float | None
    ranges: list[PreviewRange]
    loads: list[list[PreviewRange]] = Field(description="at most 100")
    load_count: int
    replaced: list[PreviewRange]
    planned: list[PreviewRange]
    gone: list[PreviewRange]
    error: str | None = Field(description="with state refused: the reason")
    next_step: str | None
    sampled_at: datetime | None


class BackfillEntry(Document):
    """The progress of a backfill, as `backfill --json`."""

    backfill: int
    state: Literal["done", "stopped", "running"]
    asked: str
    replace: bool
    actor: str
    planned_at: datetime
    loads: int
    loads_done: int
    loads_stopped: int
    offsets: int
    offsets_done: int
    rows: int
    offsets_per_second: float | None
    eta_seconds: float | None
    run_link: str | None


class Backfills(Panel):
    """The backfills that run, and the last ten."""

    backfills: list[BackfillEntry]


class NoticeEntry(Document):
    """A notice about an incident to a receiver."""

    kind: Literal["opened", "reminder", "ended", "digest"]
    route: str = Field(description="the receiver, by the name of its route in the declaration")
    state: Literal["sent", "waiting", "failing"] = Field(description="failing: the last attempt failed")
    due_at: datetime
    attempts: int
    sent_at: datetime | None
    next_attempt_at: datetime | None = Field(description="null if it is sent")
    last_error: str | None


class IncidentEntry(Document):
    """An incident, as in `penstock incidents --json`, and its newest five notices."""

    incident: int
    pipeline: str
    kind: str
    severity: str
    state: Literal["open", "muted", "ended"]
    load: int | None
    ranges: list[PreviewRange]
    message: str
    next_step: str
    link: str | None
    opened_at: datetime
    last_seen_at: datetime
    times_seen: int
    ended_at: datetime | None
    ended_by: str | None
    ended_why: str | None
    muted_until: datetime | None
    muted_by: str | None
    muted_why: str | None
    notices: list[NoticeEntry] = Field(description="the newest first; none if no receiver is declared")


class Incidents(Panel):
    """The newest fifty incidents."""

    incidents: list[IncidentEntry]


class LossEntry(Document):
    """Offsets that the log no longer had."""

    partition: int
    from_: int = Field(alias="from")
    until: int
    reason: str
    found_at: datetime
    actor: str
    why: str | None


class HoldEntry(Document):
    """A period in which the pipeline loaded nothing, because the log did not fit."""

    hold: int
    kind: str
    cause: str
    began_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    next_step: str | None = Field(description="of an open hold")


class Events(Panel):
    """Decisions and events, the newest first, 50 a page; the newest 50 losses and holds."""

    page: int
    pages: int
    events: list[EventEntry]
    losses: list[LossEntry]
    holds: list[HoldEntry]


class Mistake(Document):
    """The answer to a request that cannot be served."""

    error: str
    next_step: str
