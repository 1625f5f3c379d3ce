"""Next steps: what a message recommends to a person, grouped by noun.

A text follows the word "Next:": it is an imperative, with a command that can be pasted where there is one. It is a
function where it names a pipeline, a load or something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.errors import HoldKind
    from penstock.model.load import Kind

# Nothing to do
NOTHING = "nothing to do"
WAIT_FOR_OTHER_PROCESS = "nothing to do if the other process continues; `penstock status` shows the state of the load."
WAIT_FOR_OTHER_ATTEMPT = (
    "nothing to do if another attempt or load continues; `penstock status` shows the state of the load."
)
NEXT_RUN_CONTINUES = "nothing to do: the next run continues."
NEXT_RUN_RECORDS_LOSS = "nothing to do: the next run records the loss, as declared, and continues."
REPORT_DEFECT = "report this defect of Penstock."

# Kafka
AWAIT_SAMPLE = "wait a minute. If no sample comes, start the DAG penstock_sample, and read the log of its run."
CHECK_BROKERS = "check that the brokers run and can be reached: `penstock doctor`."
CHECK_BROKERS_AND_RIGHTS = (
    "check that the brokers run and can be reached, that the topic exists, and that the user may read it: "
    "`penstock doctor`."
)
CHECK_BROKERS_THEN_STAGE = "check that the brokers run and that the topic exists, then try the stage step again."
CHECK_BROKERS_THEN_ADOPT = "check that the brokers run, then run `penstock adopt` again."
CORRECT_KAFKA_SETTINGS = "correct the settings (PENSTOCK_KAFKA; in Airflow, the pipeline's Kafka connection)."
CORRECT_CERTIFICATES = "correct the ssl.* settings, so that they name PEM files that can be read."
USE_NATIVE_READER = "declare `reader: native`, or use other settings."
QUARANTINE_BY_NATIVE_READER = "declare `reader: native`, which quarantines such a record, then start a new run."
OTHER_SETTINGS_FOR_HOLES = (
    "run `penstock holes` with other settings in PENSTOCK_KAFKA: those of a separate user who may read the topic."
)
HOLES_OF_UNKNOWN_CODEC = "install a newer version of Penstock; this version cannot name the holes of this batch."
REPORT_CLIENT_TEXT = "find out what happened to the topic, and report the text: a newer client may have another one."
GIVE_TOPIC_AND_ISOLATION = (
    'give both options, such as .option("topic", "orders").option("isolation", "read_committed").'
)
GIVE_RANGES = 'give JSON such as [[0, 0, 1000], [1, 0, 1000]]; "until" is the first offset that is not read.'

# A kept Spark server
CHECK_SPARK_SERVER = (
    "check that the server runs and that its token is the same (SPARK_CONNECT_AUTHENTICATE_TOKEN), then try again; or "
    "set PENSTOCK_SPARK_MASTER=local[*] to load without it."
)
GIVE_SPARK_SERVER = "give sc://host:port, or sc://host:port/;use_ssl=true behind a proxy with TLS."
USE_SAME_SPARK = "install the same version of Spark on both sides, or set PENSTOCK_SPARK_MASTER=local[*]."
SERVE_WITH_KAFKA_SOURCE = (
    "start the server by `penstock serve-spark` in a folder with the jars (.jars/spark), or set "
    "PENSTOCK_SPARK_MASTER=local[*]."
)
TRANSFORM_WITHOUT_SERVER = (
    "set PENSTOCK_SPARK_MASTER to local[*] or spark://host:7077 for this pipeline, and run it again."
)
SECURE_SERVER = (
    "set it for the server and for those who load: `export SPARK_CONNECT_AUTHENTICATE_TOKEN=$(openssl rand -hex 32)`."
)

# The log of a pipeline
RUN_AFTER_LOSS = (
    "start a new run: it stops and says what is lost, or records it, as `on_loss` declares. Raise the topic's "
    "retention if this happens again."
)
SEE_STATUS_THEN_RETRY = "look at `penstock status`, then try again."
SEE_STATUS_OR_WAIT_FOR_TRANSACTION = (
    "see the state of the pipeline: `penstock status`. If an open transaction holds an end back, wait for its end."
)
ADOPT_WITHOUT_FROM = "run `penstock adopt` again without --from."


def resolve_hold(kind: HoldKind, pipeline: str) -> str:
    """How to end a hold of a pipeline."""
    if kind == "log_lost":
        return (
            "find out why the records are missing (retention, deleted records); then run "
            f"`penstock accept-loss {pipeline} --why …` (in Airflow: the DAG penstock_accept_loss). It records what is "
            "lost, and the next run continues from the log's start."
        )
    if kind == "log_cut":
        return (
            "find out what truncated the log (an unclean leader election, a restored broker); then run "
            f"`penstock adopt {pipeline} --why …`, which continues from the offset where it was truncated."
        )
    return (
        f"find out who changed the topic; then run `penstock adopt {pipeline} --why …` to continue with the new topic, "
        "or bring the old topic back."
    )


def look_at_adoption_again(pipeline: str) -> str:
    """The log changed between the preview of an adoption and the decision."""
    return f"look at the log again: `penstock adopt {pipeline} --why …`."


# Pipelines
def run_pipeline(pipeline: str) -> str:
    """A pipeline that has loaded nothing yet."""
    return f"run `penstock run {pipeline}`."


def run_pipeline_or_dag(pipeline: str) -> str:
    """A pipeline that waits for its next run."""
    return f"run `penstock run {pipeline}`, or trigger its DAG"


def fix_then_run(pipeline: str) -> str:
    """A pipeline whose last load failed."""
    return f"fix the cause, then {run_pipeline_or_dag(pipeline)}"


def await_schedule_or_run(pipeline: str) -> str:
    """A pipeline with offsets that are not loaded yet."""
    return f"wait for the next scheduled run, or {run_pipeline_or_dag(pipeline)}"


def resume_stalled(pipeline: str) -> str:
    """A load that no process works on."""
    return (
        f"run `penstock run {pipeline}`. Airflow tries the task again while it has retries left; after that, clear the "
        "failed task"
    )


def correct_declaration(pipeline: str) -> str:
    """A declaration with mistakes."""
    return f"correct the declaration, then run `penstock check {pipeline}`"


def fill_gaps(pipeline: str) -> str:
    """Gaps that somebody may have left on purpose."""
    return f"{NOTHING}, or load the gaps: `penstock backfill {pipeline} --gaps`"


def replace_faulty_range(pipeline: str) -> str:
    """Faults that a verification found."""
    return (
        "see penstock.faults; load the faulty offsets again: "
        f"`penstock backfill {pipeline} --offsets PARTITION:FROM-UNTIL --replace`; "
        f"then run `penstock verify {pipeline}`"
    )


def replace_refused_rows(pipeline: str) -> str:
    """Leaves that cannot be merged because of their rows."""
    return (
        "look at the rows of these leaves, and correct them or load them again from the log: "
        f"`penstock backfill {pipeline} --offsets PARTITION:FROM-UNTIL --replace`. The next maintenance tries these "
        "leaves again."
    )


OTHER_TARGET_OR_NAME = (
    "declare another target, or use the name of the other pipeline (see penstock.pipeline): what it has loaded is "
    "recorded under that name."
)

# Loads
LIST_LOADS = "list the loads: select * from penstock.loads."
SEE_CURRENT_LOAD = "see which load is current: `penstock status`."
SEE_HELD_LOADS = "see which loads are held: `penstock status`. Only a held load can be approved."
SEE_OPEN_LOADS = "see which loads are unfinished: `penstock status`. Only an unfinished load can be discarded."
SEE_STATUS_THEN_DECIDE = "look at `penstock status`, then decide again."
RETRY_STAGE = "try the stage step again."
RETRY_STAGE_WITH_NEW_ATTEMPT = "try the stage step again; it begins a new attempt."
RETRY_STAGE_THEN_COMPARE = "try the stage step again; if this happens again, compare the log's end with the plan."
RETRY_STAGE_AFTER_LOG = "look into the driver's log, then try the stage step again."
RETRY_STAGE_AFTER_REFUSAL = "try the stage step again: the next attempt finds the record, and quarantines it."
RETRY_PUBLISH = "try the publish step again."
RETRY_PUBLISH_LATER = "when PostgreSQL is back, try the publish step again."
RETRY_PUBLISH_AFTER_UNKNOWN = (
    "when PostgreSQL is back, try the publish step again: it looks up the outcome first, and never publishes twice."
)
RUN_AFTER_OTHER_LOAD = "start a new run; it plans from where the other load ended."
RUN_OR_BACKFILL_AGAIN = "start a new run, or request a new backfill."
SEE_QUARANTINE = "see the reasons in penstock.quarantine; correct the declaration or the limit, then start a new run."
DISCARD_THEN_RUN = (
    "discard the load (`penstock discard LOAD --why …`), then start a new run: it plans what the log still has."
)
CORRECT_RULE = (
    "correct the rule in the declaration (`penstock check` tries each rule), then start a new run; or retry the "
    "validate step if the database was not available."
)
CORRECT_OR_QUARANTINE = "correct the declaration or the limit, or let the records go to the quarantine."
GIVE_WHO_AND_WHY = 'pass --why "…" (and --who, if it is not you).'
DISCARD_INSTEAD = (
    "discard a load that is not published: `penstock discard LOAD --why …`. Only a published load can be rolled back."
)
UNDO_ROLLED_BACK_ONLY = "see penstock.loads for loads that were rolled back: only such a load can be brought back."
WAIT_FOR_LOAD = "wait, or look at its run"


def settle_held(load: int, kind: Kind = "live") -> str:
    """A load that waits for a person. Only a live load is planned again by the next run."""
    if kind == "redrive":
        return settle_redrive(load)
    if kind != "live":
        return (
            f"publish it as it is: `penstock approve {load} --why …`, or give it up: `penstock discard {load} --why …` "
            "(a backfill can load the same offsets again)."
        )
    return (
        f"publish it as it is: `penstock approve {load} --why …`, or give it up: `penstock discard {load} --why …` "
        "(its offsets are loaded again), or change the declaration: the next run then plans again."
    )


def after_discard(kind: Kind) -> str:
    """The consequence of discarding a load, as a clause."""
    if kind == "live":
        return "the pipeline's next run loads the same offsets again"
    return "the records stay in the quarantine" if kind == "redrive" else "a backfill can load the same offsets again"


def settle_staged(load: int, pipeline: str, run_id: str) -> str:
    """An unfinished load that has read its ranges whole."""
    return (
        f"publish it: clear its task, or `penstock run {pipeline} --run-id {run_id}` (if it is held, "
        f"`penstock approve {load} --why …`); or give it up: `penstock discard {load} --why …`."
    )


def await_successor(load: int, run_id: str) -> str:
    """A load that another one has replaced."""
    return f"let load {load} (run {run_id}) finish, or start a new run."


def reload_rolled_back(pipeline: str) -> str:
    """A rollback whose rows are deleted."""
    return (
        f"load its offsets again: `penstock backfill {pipeline} --gaps`. The rows that the rollback kept are deleted."
    )


# Backfills
LIST_BACKFILLS = "list the backfills: select * from penstock.backfills."
CHOOSE_OTHER_OFFSETS = (
    "choose other offsets, or all gaps (`--gaps`), or replace what was published (`--replace`). An interrupted "
    "backfill continues by `--resume` with its number, which `select * from penstock.backfills` lists."
)
AWAIT_BACKFILL = "let it end; penstock.backfills shows its progress."
CHOOSE_ONE_WAY = "choose one way, and leave the others' fields empty."
GIVE_OFFSETS_OR_TIMES = "give offsets (partition:from-until), or a time to start from (and one to end at), or all gaps."
CHOOSE_BIGGER_LOADS = "give more records per load, or fewer offsets."
WRITE_OFFSETS = "write partition:from-until, such as 0:1000-2000."
WRITE_TIME = "write it as 2026-01-31T00:00:00Z."
START_AT_1970 = "give a time from 1970-01-01T00:00:00Z on: no record is older."
SWAP_TIMES = "swap the two times."


def resume_backfills(pipeline: str, backfills: Sequence[str]) -> str:
    """Backfills that have not ended; `backfills` names them, or how many more there are."""
    commands = [
        each if each.startswith("and ") else f"`penstock backfill {pipeline} --resume {each}`" for each in backfills
    ]
    return f"wait for their end; if no process works on them, resume them: {', '.join(commands)}"


def resume_without_airflow(pipeline: str, backfill_id: int) -> str:
    """A backfill with more loads than Airflow takes; the command line has no such limit."""
    return f"`penstock backfill {pipeline} --resume {backfill_id}`"


def raise_records_per_load(records: int) -> str:
    """A backfill with more loads than Airflow takes; `records` is the least cap that fits."""
    return f"trigger the DAG with `records_per_load` of {records} or more, or use `penstock backfill`."


def fill_rest_or_roll_back(pipeline: str) -> str:
    """A rollback that cannot be undone, because other loads hold some of its offsets."""
    return f"load the rest: `penstock backfill {pipeline} --gaps`; or roll those loads back first."


# Spark
READ_DRIVER_LOG = (
    "look into the driver's log (in Airflow: the log of the task; on the command line: run again with --verbose)."
)
FIND_KILLER = "find out who killed it (a person, or the kernel because memory ran out), then try again."
RUN_SETUP = "run `make setup`."
NO_CLASS_ARCHIVE = "nothing to do: drivers start without the archive, only slower."


def copy_jars(folder: Path) -> str:
    """An installation without a checkout."""
    return f"run `make setup` in a checkout of Penstock, then copy its folder .jars/spark to {folder}."


# PostgreSQL
CHECK_POSTGRES = "check that PostgreSQL runs, and PENSTOCK_DB (in Airflow: the connection penstock_db)."
CHECK_POSTGRES_RIGHTS = "check the database and the rights of the role in PENSTOCK_DB, then try again."
CHECK_POSTGRES_THEN_VERIFY = "check that PostgreSQL runs and has space, then run `penstock verify` again."
CHECK_POSTGRES_THEN_STAGE = "check that PostgreSQL runs, then try the stage step again."
CORRECT_URI_OPTION = "correct the option in the URI (in Airflow: in the extra of the connection penstock_db)."
FREE_DISK = "make room on the disk of PostgreSQL, then try again."
FREE_DISK_THEN_STAGE = "make room on the disk of PostgreSQL, then try the stage step again."
RUN_AFTER_OUTAGE = "run again when PostgreSQL is back: published loads stay, and the rest is planned again."
FIND_LOCK = (
    "try again, and find the session that holds the lock meanwhile: select w.pid as waits, b.pid as holds, "
    "b.application_name, b.state, b.xact_start from pg_stat_activity w, unnest(pg_blocking_pids(w.pid)) as h(pid) join "
    "pg_stat_activity b on b.pid = h.pid where w.application_name like 'penstock%'; end it: select "
    "pg_terminate_backend(PID)."
)
FIND_LONG_TRANSACTIONS = "look in pg_stat_activity for long transactions on the table, then try again."
FIND_LONG_TRANSACTIONS_OF_MERGE = (
    "look in pg_stat_activity for long transactions; the next maintenance starts the merge again."
)


def end_sessions(pids: Sequence[int]) -> str:
    """Sessions that hold a lock."""
    ends = ", ".join(f"select pg_terminate_backend({pid})" for pid in pids)
    return f"wait until these sessions end, or end them ({ends}), then try again."


def grant_stats_then_maintain(statement: str) -> str:
    """A role that cannot see the snapshots of other roles."""
    return f"let a superuser run `{statement};`, then run `penstock maintain` again."


# The ledger
MIGRATE_ONCE = "run `penstock migrate`, once."
INSTALL_NEWER = "install the version that migrated the ledger, or a newer one."
INSTALL_RELEASE_AGAIN = "install Penstock again as it was released: the text of a migration never changes."
SEE_COVERED = "find the load that covers them: select * from penstock.covered."
AWAIT_OTHER_PROCESSES = "let the pipeline's other processes end (penstock.loads shows their loads), then try again."


def migrate_as_owner(owner: str) -> str:
    """A role that may not migrate."""
    return f"run `penstock migrate` with PENSTOCK_DB of a superuser, or of a member of {owner}."


# The target
DECLARE_NEW_TARGET = "declare a target that does not exist yet; Penstock creates it."
ALIGN_TARGET = "change the declaration, or the table, or declare another target."
COMPARE_TARGET = (
    "compare the target with the declaration (`penstock check`); correct the table or the declaration, then start a "
    "new run."
)
RENAME_TABLES = "rename some of these tables, then try again."
KEEP_ATTEMPT_AND_REPORT = "report this defect of Penstock, and keep the attempt's table."
LOOK_AT_PARTITIONS = "look at the partitions of the target: the leaf was detached or dropped by hand."
NEXT_MAINTENANCE_MERGES = "nothing to do: the next maintenance starts the merge again."
MAINTENANCE_CONTINUES = "nothing to do: the other process continues."


def bring_target_back(statement: str | None) -> str:
    """A target that was dropped or renamed; `statement` renames it back."""
    back = f"rename it back ({statement})" if statement else "restore the table from a backup"
    return f"{back}; or, to load again from the log, declare a new pipeline: another name and another target."


def remove_obstacles(statements: Sequence[str]) -> str:
    """Objects at the target, made by hand, that a load cannot pass."""
    return (
        f"take it off ({' '.join(statements)}), then start a new run. The declaration's `checks` can state what a "
        "CHECK constraint states."
    )


# Quarantine
CHOOSE_QUARANTINED_RECORDS = (
    "choose records by --at, --load, --reason, --rule, --since or --until; or all of them by --all."
)
WRITE_PLACE = "write PARTITION:OFFSET, such as 0:1000."
EXPORT_TO_FILE = "pass --to with the path of a file that you may write."


def list_quarantine(pipeline: str) -> str:
    """A selection without records."""
    return f"see the quarantined records: `penstock quarantine list {pipeline}`."


def redrive_again(pipeline: str, load: int) -> str:
    """A redrive whose records were returned to the quarantine."""
    return f"bring the records back by a new redrive: `penstock quarantine redrive {pipeline} …` (load {load} stays)."


def redrive_rest(pipeline: str) -> str:
    """A redrive some of whose records were dropped or brought back meanwhile."""
    return (
        f"redrive those that are left: `penstock quarantine redrive {pipeline} …`; "
        f"`penstock quarantine list {pipeline}` shows them."
    )


def settle_redrive(load: int) -> str:
    """A redrive that a check holds."""
    return (
        f"publish it as it is: `penstock approve {load} --why …`, or give it up: `penstock discard {load} --why …` "
        "(its records stay in the quarantine)."
    )


# Verification
FIND_WHO_CHANGED_ROWS = "find out who changed the rows."
COMPARE_ROWS = (
    "compare the rows with their records; a range that is loaded again gets the values that this version decodes."
)
RESTORE_EARLIER_GENERATION = (
    "restore rows from a backup, or roll the load back: the log of an earlier generation no longer exists."
)
DELETE_ROWS_DROPPED = (
    "delete the rows of loads in `penstock.dropped_rows` by hand: `delete from <target> where _load_id = …`. These "
    "loads cannot be replaced."
)
DELETE_ROWS_OUTSIDE = "delete the rows outside the ranges of their loads by hand; prove-what-is-there.md has the SQL."
CHECK_BROKERS_THEN_VERIFY = (
    "check that the brokers run, then run `penstock verify` again: retention may have deleted some of the records."
)


def replace_range(pipeline: str) -> str:
    """Rows that differ from their records in the log of today."""
    return (
        f"load a range again: `penstock backfill {pipeline} --offsets PARTITION:FROM-UNTIL --replace`, if the log "
        "still has it."
    )


def preview_adoption(pipeline: str) -> str:
    """Another topic has the name of the pipeline's topic."""
    return f"see what it means to continue with the topic of today: `penstock adopt {pipeline}`."


# Alerts
SEE_WARNINGS = "see penstock.check_results; the load is published. Correct the data, or the check in the declaration."


def find_out_why_overdue(pipeline: str) -> str:
    """A pipeline that publishes nothing, and whose runs report nothing."""
    return (
        "find out whether its runs start (the scheduler, a paused DAG, a run that waits): "
        f"`penstock status {pipeline}` shows the state; `penstock run {pipeline}` loads now."
    )


READ_LOG_OF_RUN = "read the log of the task, then clear the task to try again."
PIPELINE_CONTINUES = "nothing to do: the pipeline continues."
ACCEPT_OR_PREVENT_LOSS = (
    "nothing to do if this loss is acceptable; otherwise raise the topic's retention, load more often, or declare "
    "`on_loss: stop`."
)
WRITE_ALERT_CONNECTION = 'write it as Airflow does, such as {"conn_type": "generic", "password": "json://host/path"}.'
LIST_INCIDENTS = "list the incidents: `penstock incidents`."
GIVE_END_OF_MUTE = "give --for a duration such as 30m, 12h or 7d, or --until a time such as 2026-01-31T00:00:00Z."
WRITE_ALERT_TARGET = "write it as apprise documents it, such as json://host/path, with blanks encoded as %20."

# Transforms
KEEP_LINEAGE = (
    "let the transform keep `_partition`, `_offset`, `_timestamp` and `_key` of each row as they are, and make at most "
    "one row of a record; then run the pipeline again."
)
CORRECT_TRANSFORM = "correct the transform, then run the pipeline again."
COMPARE_TRANSFORM = "compare the columns that the transform makes with `columns` in the declaration."

# Results
GRANT_RESULT_RIGHTS = (
    "create the schema for the role, or `grant create on schema …` to it; a table that exists must belong to it."
)
CORRECT_RESULT_SQL = "correct the SQL of the result in the declaration, then run `penstock check` again."
ROWS_DROPPED = "choose loads and offsets whose rows are kept: `select * from penstock.dropped_rows` lists the others."
ROWS_DROPPED_OF_RESULT = "load the topic again into another pipeline and target, and declare the result there."
OTHER_RESULT_TABLE = "declare another table for the result, or rename the table that exists."
LOOK_AT_RESULTS = "see the result's state in the view `penstock.results`."
DROP_DEPENDENT_VIEWS = "drop the views that depend on the table, rebuild again, then create the views again."


def correct_result(pipeline: str, table: str) -> str:
    """Statements of a result that fail."""
    return f"correct the result in the declaration, then `penstock rebuild {pipeline} {table}`."


def rebuild_result(pipeline: str) -> str:
    """A result that differs from the rows."""
    return f"`penstock rebuild {pipeline} <table>` writes what differs in a result."


def rebuild_waiting(pipeline: str, table: str) -> str:
    """A result that waits for its first rebuild, or for one by its new definition."""
    return f"`penstock rebuild {pipeline} {table}` computes it from the rows of the target."


def continue_rebuild(pipeline: str, table: str) -> str:
    """A rebuild that runs or was interrupted."""
    return f"wait for the rebuild; if it was interrupted, `penstock rebuild {pipeline} {table}` continues it."


def correct_table(pipeline: str, table: str) -> str:
    """A table that differs from what the rows give."""
    return f"`penstock rebuild {pipeline} {table}` writes the rows that differ."


def name_result(tables: Sequence[str]) -> str:
    """A table that is not a result."""
    return f"name a result of the declaration: {', '.join(tables) or 'it declares none'}."
