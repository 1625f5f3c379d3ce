"""The documentation names only existing things: links, commands, options, files, views, reasons, exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import psycopg
import pytest
import typer
from docs.make_reference import PAGE, write_page

import penstock
from penstock import errors
from penstock.cli.main import app
from penstock.cli.output import STATES
from penstock.declaration.own_expectations import OWN_EXPECTATIONS
from penstock.ledger.migration import read_migrations
from penstock.model.health import Word
from penstock.quality.expectations import LIVE_LOADS
from penstock.records.rejection import Reason

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Folders and files that docs may name as code, in backticks.
OURS = re.compile(
    r"`((?:include|tests|docs|dags|bench|spark_jobs|include/pipelines)/[\w./-]*|[\w-]+\.(?:toml|xml|lock|sha256))`"
)
COMMAND = re.compile(r"(?:^|[`&|] ?|cli )(?:penstock|docker compose run --rm cli) ([a-z][^`\n#|&>]*)", re.MULTILINE)


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def reference(name: str) -> str:
    return read(ROOT / "docs" / "reference" / f"{name}.md")


def anchors(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", read(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands() -> dict[tuple[str, ...], typer.models.TyperInfo | typer.models.CommandInfo]:
    """Every command with its words."""
    found: dict[tuple[str, ...], typer.models.TyperInfo | typer.models.CommandInfo] = {}
    for info in app.registered_commands:
        found[(_name(info),)] = info
    for group in app.registered_groups:
        assert group.typer_instance
        for info in group.typer_instance.registered_commands:
            found[(str(group.name), _name(info))] = info
    return found


def _name(info: typer.models.CommandInfo) -> str:
    return info.name or str(getattr(info.callback, "__name__", ""))


def options() -> dict[tuple[str, ...], set[str]]:
    """The options of every command."""
    root = typer.main.get_command(app)
    found: dict[tuple[str, ...], set[str]] = {}
    for words in commands():
        command = root
        for word in words:
            command = command.commands[word]  # type: ignore[attr-defined]
        found[words] = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_an_existing_page_and_heading(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        wanted = (page.parent / path).resolve() if path else page
        assert wanted.exists(), target
        assert not anchor or anchor in anchors(wanted), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_file_of_the_repository_exists(page: Path) -> None:
    assert [name for name in OURS.findall(read(page)) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_command_exists_with_its_options(page: Path) -> None:
    known = options()
    for written in COMMAND.findall(read(page)):
        words = shlex.split(written.split("<<")[0].replace("[", " ").replace("]", " ").replace("…", " x "))
        name = tuple(words[:2]) if tuple(words[:2]) in known else tuple(words[:1])
        assert name in known, written
        assert {word for word in words if word.startswith("--")} <= known[name] | {"--help"}, written


def test_every_command_and_every_option_is_in_the_reference() -> None:
    page = reference("command-line")
    for words, names in options().items():
        assert f"`penstock {' '.join(words)}" in page, words
        assert [name for name in names - {"--help"} if name.startswith("--") and name not in page] == [], words


def test_every_exit_code_and_every_word_is_in_the_reference() -> None:
    page = reference("command-line")
    codes = {each.exit_code for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "exit_code")}
    assert {int(code) for code in re.findall(r"^\| (\d) \|", page, re.MULTILINE)} == {0, *codes}
    assert [word for word in (*STATES.values(), *get_args(Word)) if f"`{word}`" not in page] == []


def test_the_page_of_the_declaration_is_made_from_the_schema() -> None:
    assert read(PAGE) == write_page(), "run `python docs/make_reference.py`"


def test_every_reason_of_rejection_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \|", reference("poison"), re.MULTILINE)
    assert sorted(explained) == sorted(get_args(Reason))


def test_every_built_in_check_is_explained() -> None:
    explained = re.findall(r"^\| `(expect_\w+)` \|", reference("checks"), re.MULTILINE)
    assert explained == [*(each.expectation_type for each in LIVE_LOADS), *OWN_EXPECTATIONS]


def test_every_view_of_the_ledger_is_explained_with_its_columns(db: str) -> None:
    explained = dict(re.findall(r"^\| `penstock\.(\w+)` \| [^|]+ \| `([^`]+)` \|", reference("ledger"), re.MULTILINE))
    with psycopg.connect(db) as connection:
        views = connection.execute(
            "select c.relname, string_agg(a.attname, ', ' order by a.attnum) from pg_class c"
            " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0"
            " where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v' group by c.relname"
        ).fetchall()
    assert explained == dict(views)


def test_every_state_of_a_load_and_of_a_result_is_explained() -> None:
    schema = b"\n".join(read_migrations().values()).decode()
    check = " ".join(re.findall(r"check \(state in \((.*?)\)\)", schema, re.DOTALL))
    explained = set(re.findall(r"^\| `(\w+)` \| ", reference("ledger"), re.MULTILINE))
    assert set(re.findall(r"'(\w+)'", check)) <= explained


def test_every_exported_name_is_explained() -> None:
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    assert [name for name in penstock.__all__ if f"`{name}" not in page] == []


def test_every_built_in_expectation_is_exported() -> None:
    assert [kind.__name__ for kind in LIVE_LOADS if kind.__name__ not in penstock.__all__] == []
