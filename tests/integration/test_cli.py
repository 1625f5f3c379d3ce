"""The command line: its documents, its exit codes, its messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from declaring import declare, write_declaration
from fix_kafka import MakeTopic
from fix_loads import stage_rows
from penstock.cli.main import app
from penstock.load.plan import plan_load
from penstock_stack.broker import Broker
from penstock_stack.postgres import Postgres
from privileges import superuser
from producing import Account


class Cli:
    """Runs commands in this process, against one pair of services and one folder of declarations."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self.folder = Path(environment["PENSTOCK_PIPELINES"])

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, arguments, env=self.environment)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def document(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        code, out, _ = self(*arguments, "--json")
        return code, json.loads(out)


@pytest.fixture
def cli(db: str, kafka: Broker, tmp_path: Path) -> Cli:
    return Cli({"PENSTOCK_DB": db, "PENSTOCK_KAFKA": kafka.bootstrap, "PENSTOCK_PIPELINES": str(tmp_path)})


def test_status_shows_position_log_and_lag_of_each_partition(cli: Cli, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(cli.folder, account.topic)
    account.send_orders(10, partition=0)
    plan_load(cli.environment["PENSTOCK_DB"], {"bootstrap.servers": kafka.bootstrap}, declare(account.topic), "run")

    code, document = cli.document("status")

    assert code == 0
    (status,) = document["pipelines"]
    assert (status["name"], status["state"], status["cause"]) == ("orders", "loading", "load 1 is planned")
    first, second = status["partitions"]
    assert {key: first[key] for key in ("partition", "position", "log_start", "end", "lag")} == {
        "partition": 0, "position": 0, "log_start": 0, "end": 10, "lag": 10,
    }  # fmt: skip
    assert 0 <= first["lag_seconds"] < 300
    assert (second["lag"], second["lag_seconds"]) == (0, 0.0)


def test_status_of_a_pipeline_that_never_ran_shows_what_the_log_holds(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    write_declaration(cli.folder, account.topic)
    account.send_orders(7)

    _, document = cli.document("status", "orders")

    assert document["pipelines"][0]["state"] == "new"
    assert document["pipelines"][0]["partitions"][0]["lag"] == 7


def test_status_shows_all_pipelines_although_one_topic_is_missing(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    write_declaration(cli.folder, make_topic(1))
    write_declaration(cli.folder, "no_such_topic", name="lost")

    code, document = cli.document("status")

    assert code == 0
    assert {status["name"]: status["state"] for status in document["pipelines"]} == {"orders": "new", "lost": "unknown"}


def test_status_shows_a_lost_log_and_plan_refuses_it_with_exit_code_4(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    write_declaration(cli.folder, account.topic)
    plan_load(cli.environment["PENSTOCK_DB"], {"bootstrap.servers": kafka.bootstrap}, declare(account.topic), "run")
    account.send_orders(10)
    account.delete_before(6)

    code, document = cli.document("plan", "orders")
    assert code == 4
    assert document["state"] == "log_lost"
    assert document["ranges"] == [{"partition": 0, "from": 0, "until": 6}]
    assert document["next_step"]
    _, status = cli.document("status")
    assert status["pipelines"][0]["state"] == "log_lost"
    assert "offsets [0, 6) are lost" in status["pipelines"][0]["cause"]


def test_plan_shows_the_ranges_and_writes_nothing(cli: Cli, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    write_declaration(cli.folder, account.topic)
    account.send_orders(7)

    code, document = cli.document("plan", "orders")

    assert code == 0
    assert document == {
        "load": None, "state": "preview", "ranges": [{"partition": 0, "from": 0, "until": 7, "offsets": 7}],
    }  # fmt: skip
    with psycopg.connect(cli.environment["PENSTOCK_DB"]) as connection:
        assert connection.execute("select count(*) from penstock.load").fetchone() == (0,)
        assert connection.execute("select count(*) from penstock.position").fetchone() == (0,)


def test_run_over_an_empty_topic_succeeds_with_an_empty_document(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    write_declaration(cli.folder, make_topic(1))

    code, document = cli.document("run", "orders")

    assert (code, document["load"], document["state"]) == (0, None, "empty")


def test_an_unknown_pipeline_is_wrong_use_and_the_error_names_the_known_ones(cli: Cli, make_topic: MakeTopic) -> None:
    write_declaration(cli.folder, make_topic(1))

    code, document = cli.document("run", "oders")

    assert code == 2
    assert "no pipeline named oders" in document["error"]
    assert "there are: orders" in document["error"]


def test_check_reports_every_mistake_with_its_line_and_exit_code_2(cli: Cli) -> None:
    (cli.folder / "orders.yaml").write_text("name: orders\ntopc: orders\ntarget: orders\n")

    code, _, messages = cli("check", "--offline")

    assert code == 2
    assert "orders.yaml:2" in messages
    assert "topic" in messages
    assert "orders.yaml:3" in messages


def test_an_invalid_declaration_stops_no_command_for_another_pipeline(cli: Cli, make_topic: MakeTopic) -> None:
    write_declaration(cli.folder, make_topic(1))
    (cli.folder / "broken.yaml").write_text("name: broken\ntopc: clicks\n")

    assert cli.document("run", "orders")[1]["state"] == "empty"
    assert cli.document("status", "orders")[0] == 0
    for command in ("plan", "run", "verify", "holes", "backfill", "maintain"):
        code, document = cli.document(command, "broken", *(["--gaps"] if command == "backfill" else []))
        (refused,) = document.get("pipelines", [document])
        assert (command, code, refused["state"]) == (command, 2, "refused")
        assert "broken.yaml:2: topc" in refused["error"]


def test_status_doctor_and_maintain_of_all_show_an_invalid_declaration(cli: Cli, make_topic: MakeTopic) -> None:
    write_declaration(cli.folder, make_topic(1))
    broken = write_declaration(cli.folder, make_topic(2), name="broken")
    assert cli.document("run", "broken")[0] == 0
    broken.write_text(broken.read_text() + "topc: clicks\n")

    code, document = cli.document("status")
    shown = {status["name"]: status for status in document["pipelines"]}
    assert (code, shown["orders"]["state"], shown["broken"]["state"]) == (2, "new", "broken")
    assert "topc: unknown name" in shown["broken"]["cause"]
    assert "penstock check broken" in shown["broken"]["next_step"]
    assert [(each["position"], each["end"]) for each in shown["broken"]["partitions"]] == [(0, None), (0, None)]
    _, out, _ = cli("status")
    assert "broken  broken" in out

    code, document = cli.document("doctor")
    examined = {diagnosis["name"]: diagnosis["findings"] for diagnosis in document["pipelines"]}
    assert code == 2
    assert len(examined["orders"]) > 1
    assert [(found["setting"], found["level"]) for found in examined["broken"]] == [("declaration", "wrong")]

    code, document = cli.document("maintain")
    maintained = {each["pipeline"]: each for each in document["pipelines"]}
    assert (code, maintained["broken"]["state"], maintained["orders"]["merges"]) == (2, "refused", 0)

    code, document = cli.document("check")
    assert (code, "topc: unknown name" in document["error"]) == (2, True)


def test_one_error_names_all_missing_settings() -> None:
    done = CliRunner().invoke(app, ["status"], env={"PENSTOCK_DB": "", "PENSTOCK_KAFKA": ""})

    assert done.exit_code == 2
    assert "PENSTOCK_DB and PENSTOCK_KAFKA are not set" in done.stderr


def test_without_a_ledger_status_names_migrate_and_two_migrations_do_no_harm(
    cli: Cli, postgres: Postgres, make_topic: MakeTopic
) -> None:
    uri = postgres.create_database("without_ledger")
    try:
        bare = Cli({**cli.environment, "PENSTOCK_DB": uri})
        write_declaration(cli.folder, make_topic(1))

        code, document = bare.document("status")
        assert (code, document["next_step"]) == (2, "run `penstock migrate`, once.")
        code, document = bare.document("migrate")
        assert code == 0
        assert "0001_ledger.sql" in document["applied"]
        assert bare.document("migrate") == (0, {"applied": [], "refused": []})
    finally:
        postgres.drop_database("without_ledger")


def test_check_compares_declarations_with_the_services(cli: Cli, make_topic: MakeTopic) -> None:
    write_declaration(cli.folder, make_topic(3))
    write_declaration(cli.folder, "no_such_topic", name="lost")
    with psycopg.connect(cli.environment["PENSTOCK_DB"]) as connection:
        connection.execute("create schema analytics; create table analytics.lost (id int)")

    code, document = cli.document("check")

    assert code == 2
    findings = {(finding["pipeline"], finding["what"]): finding for finding in document["findings"]}
    assert findings["orders", "target analytics.orders"]["told"] == "will be created"
    assert not findings["lost", "topic no_such_topic"]["fits"]
    assert "is not a table partitioned by range" in findings["lost", "target analytics.lost"]["told"]


def test_check_lets_postgresql_judge_regular_expressions(cli: Cli, make_topic: MakeTopic) -> None:
    regexes = {"expect": "expect_column_values_to_match_regex_list", "column": "note"}
    checks = [{**regexes, "regex_list": ["a", r"\m(?<=a+)b"]}, {**regexes, "regex_list": ["b", "(?P<name>a)"]}]
    write_declaration(cli.folder, make_topic(1), checks=checks)

    code, document = cli.document("check")

    (wrong,) = [finding for finding in document["findings"] if not finding["fits"]]
    assert (code, wrong["what"]) == (2, "checks[1] expect_column_values_to_match_regex_list")
    assert wrong["told"] == "'(?P<name>a)': invalid regular expression: invalid embedded option"


@pytest.mark.parametrize("command", ["approve", "discard"])
def test_settling_a_load_that_does_not_exist_is_wrong_use(cli: Cli, command: str) -> None:
    code, document = cli.document(command, "99", "--why", "because")

    assert code == 2
    assert "there is no load 99" in document["error"]


def test_an_unreachable_database_is_reported_without_its_password(cli: Cli) -> None:
    away = Cli({**cli.environment, "PENSTOCK_DB": "postgresql://u:canary@127.0.0.1:9/none"})

    code, out, messages = away("migrate", "--json")

    assert code == 1
    assert "cannot be reached" in messages
    assert "canary" not in out + messages


def test_a_run_applies_the_suites_that_it_names_and_the_defaults_of_its_folder(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    write_declaration(cli.folder, account.topic, suites=["finance"], rules=[{"name": "known", "where": "id <> 7"}])
    write_declaration(cli.folder, account.topic, name="plain", quality={"defaults": False})
    (cli.folder / "suites").mkdir()
    between = "expect: expect_column_values_to_be_between, column: id"
    (cli.folder / "suites" / "finance.yaml").write_text(
        f"checks:\n- {{{between}, max_value: 4, severity: warning}}\n- {{{between}, min_value: 1}}\n"
    )
    (cli.folder / "quality.yaml").write_text(
        "checks: [{expect: expect_table_row_count_to_be_between, max_value: 100}]\n"
        "rules: [{name: known, where: id <> 8}, {name: positive, where: id > 0}]\n"
        "dedupe: {by: [id]}\nalerts: oncall\n"
    )
    account.send([b'{"id": %d}' % number for number in (-1, 5, 5, 7, 8)])

    assert cli.document("run", "orders")[1]["state"] == "published"

    def query(text: str) -> list[Any]:
        with psycopg.connect(superuser(cli.environment["PENSTOCK_DB"])) as connection:
            return connection.execute(text.encode()).fetchall()

    assert query("select id from analytics.orders order by 1") == [(5,), (8,)]
    assert query('select "offset", reason, rule from penstock.quarantined order by 1') == [
        (0, "rule", "positive"), (2, "duplicate", None), (3, "rule", "known"),
    ]  # fmt: skip
    assert query(
        "select expectation, suite, severity, success from penstock.check_results where suite is not null order by 2, 3"
    ) == [
        ("expect_table_row_count_to_be_between", "defaults", "error", True),
        ("expect_column_values_to_be_between", "finance", "error", True),
        ("expect_column_values_to_be_between", "finance", "warning", False),
    ]
    assert query("select kind, route from penstock.notices") == [("digest", "oncall")]
    assert cli.document("run", "plain")[1]["state"] == "published"
    assert query("select count(*) from analytics.plain") == [(5,)]


def test_a_load_is_verified_rolled_back_and_backfilled_as_two_loads(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    write_declaration(cli.folder, account.topic)
    assert cli.document("verify", "orders") == (0, {"pipeline": "orders", "verification": None, "state": "empty"})
    account.send_orders(20)
    _, loaded = cli.document("run", "orders")

    code, proven = cli.document("verify", "orders")  # its Spark driver reads the log again
    assert (code, proven["state"], proven["chunks_reread"], proven["faults"]) == (0, "proven", 1, [])
    code, rolled = cli.document("rollback", str(loaded["load"]), "--why", "a mistake")
    whole = {"partition": 0, "from": 0, "until": 20, "offsets": 20}
    assert (code, rolled) == (0, {"load": loaded["load"], "state": "rolled_back", "ranges": [whole]})
    code, preview = cli.document("backfill", "orders", "--gaps", "--dry-run", "--records-per-load", "15")
    assert (code, preview["state"], preview["ranges"], len(preview["loads"])) == (0, "preview", [whole], 2)
    assert preview["seconds"] > 0

    code, done = cli.document("backfill", "orders", "--gaps", "--records-per-load", "15", "--parallel", "2")
    assert (code, done) == (0, {"backfill": 1, "state": "done", "loads": 2, "loads_done": 2, "offsets": 20,
                                "offsets_done": 20, "rows": 20})  # fmt: skip
    code, nothing = cli.document("backfill", "orders", "--gaps")
    assert (code, nothing["state"]) == (0, "empty")
    code, _, messages = cli("backfill", "orders", "--offsets", "0:0-5")
    assert code == 2
    assert "has published it; choose all gaps, or replace the range" in messages
    for also in (["--gaps"], ["--dry-run"], ["--replace"], ["--records-per-load", "5"]):
        code, _, messages = cli("backfill", "orders", "--resume", "1", *also)
        assert code == 2
        assert "pass --resume" in messages
    code, _, messages = cli("rollback", str(loaded["load"]), "--why", "no", "--undo")
    assert code == 6
    assert "have loaded some of its offsets again" in messages


def test_the_document_of_run_names_a_log_lost_while_the_load_was_staged(
    cli: Cli, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(cli.folder, account.topic)
    for partition in (0, 1):
        account.send_orders(10, partition=partition)
    db = cli.environment["PENSTOCK_DB"]
    load = plan_load(db, {"bootstrap.servers": kafka.bootstrap}, declare(account.topic), "planned").load
    assert load is not None
    account.delete_before(6, partition=1)

    code, out, messages = cli("run", "orders", "--run-id", "planned", "--json")

    document = json.loads(out)
    error, next_step = document.pop("error"), document.pop("next_step")
    assert document == {
        "load": load.load_id,
        "state": "log_lost",
        "pipeline": "orders",
        "ranges": [{"partition": 1, "from": 0, "until": 6}],
        "exit_code": 4,
    }
    assert code == 4
    assert error.startswith(f"topic {account.topic}: the log of partition 1 starts at offset 6 now")
    assert "Next:" not in error
    assert next_step.startswith("start a new run: it stops and says what is lost")
    assert (
        messages.splitlines()[-1] == f"orders load {load.load_id} partition 1 offsets [0, 6): {error} Next: {next_step}"
    )
    with psycopg.connect(db) as connection:
        (cause,) = connection.execute("select cause from penstock.loads").fetchone() or ()
    assert cause == messages.splitlines()[-1]


@pytest.mark.parametrize("command", ["approve", "discard"])
def test_an_error_of_postgresql_names_the_load_its_pipeline_and_its_ranges(cli: Cli, command: str) -> None:
    db = cli.environment["PENSTOCK_DB"]
    load_id = stage_rows(db)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("alter table penstock.event rename column why to reason")
        connection.execute("update penstock.load set state = 'held'")

    code, document = cli.document(command, str(load_id), "--why", "a test")

    assert code == 1
    assert document["error"].startswith('PostgreSQL: column "why" of relation "event" does not exist')
    assert document["next_step"].startswith("check the database")
    assert (document["load"], document["pipeline"]) == (load_id, "orders")
    assert [(each["partition"], each["from"], each["until"]) for each in document["ranges"]] == [
        (0, 0, 100), (1, 500, 700)
    ]  # fmt: skip
