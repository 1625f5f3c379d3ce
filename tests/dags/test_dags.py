"""The DAGs as Airflow parses them: their tasks, tags and pages, and the limits of parsing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copy
from typing import Any

import pytest

from declaring import write_declaration

REPOSITORY = Path(__file__).parents[2]
TASKS = ["plan", "stage", "validate", "publish"]
OWN = {
    "penstock_notices",
    "penstock_settle",
    "penstock_backfill",
    "penstock_backfill_cancel",
    "penstock_accept_loss",
    "penstock_audit",
    "penstock_maintenance",
    "penstock_rebuild",
    "penstock_redrive",
    "penstock_sample",
    "penstock_rollback",
    "penstock_quarantine_drop",
    "penstock_verify",
}
BROKEN = "name: broken\ntopic: clicks\nvalue: avro\ncolumns:\n  id: {type: bigfoot}\ntarget: analytics.clicks\n"


def describe(pipelines: Path, folder: Path, file: str = "", **variables: str) -> dict[str, Any]:
    """Parse the repository's DAG folder, or a file of it, in a process of its own."""
    report = folder / "report.json"
    environment = os.environ | {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PENSTOCK_PIPELINES": str(pipelines),
        **variables,
    }
    script = Path(__file__).with_name("describe_dags.py")
    argv = [sys.executable, str(script), str(REPOSITORY / "dags" / file), str(report)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(report.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The repository's own DAGs."""
    return describe(REPOSITORY / "include" / "pipelines", tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def orders(parsed: dict[str, Any]) -> dict[str, Any]:
    """The DAG of the sample pipeline."""
    return dict(parsed["dags"]["orders"]["dag"])


def tasks_of(dag: dict[str, Any]) -> dict[str, Any]:
    """The tasks of a serialized DAG, by id."""
    return {task["__var"]["task_id"]: task["__var"] for task in dag["tasks"]}


def plain(value: Any) -> Any:
    """A serialized value without its envelope."""
    return value["__var"] if isinstance(value, dict) and "__var" in value else value


def test_every_declared_pipeline_has_a_dag_and_no_file_fails_to_import(parsed: dict[str, Any]) -> None:
    declared = {path.stem for path in (REPOSITORY / "include" / "pipelines").glob("*.yaml")}
    assert parsed["errors"] == {}
    assert set(parsed["dags"]) == declared | OWN


def test_each_step_of_a_load_has_a_link_to_its_load(parsed: dict[str, Any], orders: dict[str, Any]) -> None:
    backfill = tasks_of(parsed["dags"]["penstock_backfill"]["dag"])
    steps = [tasks_of(orders)[name] for name in TASKS]
    steps += [backfill[f"load.{name}"] for name in TASKS if name != "plan"]
    assert [plain(task["_operator_extra_links"]) for task in steps] == [{"Load": "_link_LoadLink"}] * 7


def test_parsing_imports_no_heavy_package_and_opens_no_connection(parsed: dict[str, Any]) -> None:
    assert parsed["heavy"] == []


def test_every_dag_has_tags_and_a_page_and_its_tasks_have_an_owner(parsed: dict[str, Any]) -> None:
    for described in parsed["dags"].values():
        dag = described["dag"]
        assert "penstock" in plain(dag["tags"])
        assert dag["doc_md"].startswith("# ")
        assert dag.get("catchup", False) is False
        defaults = plain(dag["default_args"])
        assert defaults["owner"]


def test_a_pipeline_runs_its_four_steps_in_order_and_one_run_at_a_time(orders: dict[str, Any]) -> None:
    tasks = tasks_of(orders)
    assert list(tasks) == TASKS
    following = {name: sorted(task.get("downstream_task_ids", [])) for name, task in tasks.items()}
    assert following["validate"] == ["publish"]
    assert following["stage"] == ["validate"]
    assert set(following["plan"]) == {"stage", "validate", "publish"}  # each gets the load's id
    assert orders["max_active_runs"] == 1
    assert plain(orders["timetable"])["expression"] == "0 * * * *"


def test_a_pipeline_refuses_the_backfill_of_airflow_and_names_its_own(orders: dict[str, Any]) -> None:
    allowed = set(plain(orders["allowed_run_types"]))
    assert "backfill" not in allowed
    assert {"scheduled", "manual", "asset_triggered", "operator_triggered"} <= allowed
    assert "(/dags/penstock_backfill)" in orders["doc_md"]


def test_waiting_records_start_a_pipeline_beside_its_schedule(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    when = {"min_records": 1000, "max_wait": "15m"}
    write_declaration(pipelines, "clicks", name="timed", load_when=when)
    write_declaration(pipelines, "clicks", name="untimed", load_when=when, schedule=None, target="a.untimed")
    parsed = describe(pipelines, tmp_path)
    assert parsed["errors"] == {}
    timed, untimed = (json.dumps(parsed["dags"][name]["dag"]["timetable"]) for name in ("timed", "untimed"))
    assert "AssetOrTimeSchedule" in timed
    assert "0 * * * *" in timed
    assert "penstock://untimed/waiting" in untimed
    assert "1,000 offsets wait or a record waits for 15m" in parsed["dags"]["timed"]["dag"]["doc_md"]


@pytest.mark.parametrize(
    ("file", "dag", "task", "tasks"),
    [
        ("penstock_pipelines.py", "two", "plan", TASKS),
        ("penstock_audit.py", "penstock_audit", "verify_two", ["verify_two", "examine_two"]),
        ("penstock_maintenance.py", "penstock_maintenance", "two", ["two"]),
        ("penstock_verify.py", "penstock_verify", "verify", ["verify"]),
    ],
)
def test_the_start_of_a_task_makes_one_dag_and_reads_one_declaration_at_most(
    tmp_path: Path, file: str, dag: str, task: str, tasks: list[str]
) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name in ("two", "three", "zero"):
        write_declaration(pipelines, "clicks", name=name, target=f"analytics.{name}")
    context = {"_AIRFLOW_PARSING_CONTEXT_DAG_ID": dag, "_AIRFLOW_PARSING_CONTEXT_TASK_ID": task}
    started = describe(pipelines, tmp_path, file, **context)
    assert started["errors"] == {}
    assert list(started["dags"]) == [dag]
    assert list(tasks_of(started["dags"][dag]["dag"])) == tasks
    # The texts of files before it are searched for its target; none of them is read as a declaration.
    assert set(started["pipelines"]) <= {"two.yaml", "three.yaml"}
    assert describe(pipelines, tmp_path, file)["pipelines"] == ["three.yaml", "two.yaml", "zero.yaml"]


def test_stages_take_slots_of_the_pool_that_the_environment_names(tmp_path: Path, orders: dict[str, Any]) -> None:
    pipelines = REPOSITORY / "include" / "pipelines"
    named = describe(pipelines, tmp_path, "penstock_pipelines.py", PENSTOCK_STAGE_POOL="shared")
    pools = {name: task.get("pool") for name, task in tasks_of(named["dags"]["orders"]["dag"]).items()}
    assert pools.pop("stage") == "shared"
    assert "shared" not in pools.values()
    # A pool that does not exist would hold the stages back, and default_pool always exists.
    assert tasks_of(orders)["stage"].get("pool", "default_pool") == "default_pool"


def test_a_spread_schedule_keeps_a_minute_of_its_own(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name in ("orders", "clicks"):
        write_declaration(pipelines, "clicks", name=name, target=f"analytics.{name}", spread=True)
    write_declaration(pipelines, "clicks", name="nightly", spread=True, schedule="0 3 * * mon-fri", target="a.nightly")
    dags = describe(pipelines, tmp_path, "penstock_pipelines.py")["dags"]
    crons = {name: plain(each["dag"]["timetable"])["expression"] for name, each in dags.items()}
    assert crons == {"orders": "28 * * * *", "clicks": "55 * * * *", "nightly": "46 3 * * mon-fri"}
    assert f"on the schedule `{crons['orders']}`" in dags["orders"]["dag"]["doc_md"]


def test_whole_hours_have_a_task_only_if_they_are_published(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    write_declaration(pipelines, "clicks", name="hourly", publish_hours=True)
    tasks = tasks_of(describe(pipelines, tmp_path)["dags"]["hourly"]["dag"])
    assert list(tasks) == [*TASKS, "hours"]
    assert tasks["publish"]["downstream_task_ids"] == ["hours"]
    assert tasks["hours"]["trigger_rule"] == "none_failed"


def test_a_pipeline_with_a_window_can_ignore_it_once(parsed: dict[str, Any], tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    write_declaration(pipelines, "clicks", name="nightly", window="22:00-06:00 Europe/Berlin")
    dag = describe(pipelines, tmp_path)["dags"]["nightly"]["dag"]
    [[name, form]] = dag["params"]
    assert (name, form["default"], plain(form["schema"])["type"]) == ("ignore_window", False, "boolean")
    assert "within 22:00-06:00 Europe/Berlin" in dag["doc_md"]
    assert not parsed["dags"]["orders"]["dag"].get("params")


def test_retries_of_tasks_are_limited_and_their_delay_grows(orders: dict[str, Any]) -> None:
    defaults = plain(orders["default_args"])
    assert defaults["retries"] == 3
    assert defaults["retry_exponential_backoff"] > 1
    assert plain(defaults["execution_timeout"]) == 120 * 60


def test_each_pipeline_has_a_daily_maintenance_task_without_dependencies(parsed: dict[str, Any]) -> None:
    dag = parsed["dags"]["penstock_maintenance"]["dag"]
    tasks = tasks_of(dag)
    assert set(tasks) == set(parsed["dags"]) - OWN
    assert not any(task.get("downstream_task_ids") for task in tasks.values())
    assert plain(dag["timetable"])["expression"] == "23 3 * * *"


def test_the_page_of_a_pipeline_describes_its_load_and_next_steps(orders: dict[str, Any]) -> None:
    page = orders["doc_md"]
    for text in ("`orders`", "`analytics.orders`", "`numeric(12,2)`", "expect_column_values_to_be_between", "discard"):
        assert text in page


POLICY = """\
from airflow.exceptions import AirflowClusterPolicyViolation

def dag_policy(dag):
    if dag.dag_id == "refused":
        raise AirflowClusterPolicyViolation("this site takes no such DAG")
"""


def test_a_refused_dag_is_an_import_error_and_the_other_dags_stay(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "airflow_local_settings.py").write_text(POLICY, encoding="utf-8")
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name in ("good", "refused"):
        write_declaration(pipelines, "clicks", name=name)
    parsed = describe(pipelines, tmp_path)
    assert set(parsed["dags"]) == {"good", *OWN}
    assert list(parsed["errors"]) == ["penstock_broken_declarations.py"]
    error = parsed["errors"]["penstock_broken_declarations.py"]
    assert "refused: its DAG cannot be made: AirflowClusterPolicyViolation: this site takes no such DAG" in error


def test_long_topics_become_different_tags_that_airflow_takes(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    topics = {"short": "t" * 100, "long": "t" * 101, "longer": "t" * 249}
    for name, topic in topics.items():
        write_declaration(pipelines, topic, name=name)
    parsed = describe(pipelines, tmp_path)
    assert parsed["errors"] == {}
    tags = {name: set(plain(parsed["dags"][name]["dag"]["tags"])) - {"penstock", "append"} for name in topics}
    assert tags["short"] == {"t" * 100}
    (long,), (longer,) = tags["long"], tags["longer"]
    assert (len(long), len(longer)) == (100, 100)
    assert long != longer
    assert long.startswith("t" * 80)


def test_an_invalid_declaration_is_an_import_error_and_valid_pipelines_stay(tmp_path: Path) -> None:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name in ("orders.yaml", "results/sales_by_hour.sql"):
        (pipelines / name).parent.mkdir(exist_ok=True)
        copy(REPOSITORY / "include" / "pipelines" / name, pipelines / name)
    (pipelines / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    parsed = describe(pipelines, tmp_path)
    assert set(parsed["dags"]) == {"orders", *OWN}
    assert list(parsed["errors"]) == ["penstock_broken_declarations.py"]
    error = parsed["errors"]["penstock_broken_declarations.py"]
    assert "broken.yaml:3: value" in error
    assert "broken.yaml:5: columns.id.type" in error
    assert "orders.yaml" not in error
