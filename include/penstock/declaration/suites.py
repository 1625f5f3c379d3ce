"""The files that declarations of a folder share: suites of checks, statements of results, and defaults.

A suite is a file of the folder `suites` beside the declarations; the file `quality.yaml` beside them holds the
defaults. Both are written into the declaration before it is validated, so that a load keeps its checks in the ledger
whatever happens to the files. Each part remembers its file and line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, StrictStr, ValidationError

from penstock.declaration.mistakes import clip, describe_errors, suggest
from penstock.declaration.parts import STRICT
from penstock.declaration.yaml_lines import Document, read_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.declaration.mistakes import Place

FOLDER, DEFAULTS_FILE = "suites", "quality.yaml"
RESULTS = "results"
SUFFIXES = (".yaml", ".yml", ".json")
# The checks of the file of defaults are those of a suite of this name.
DEFAULTS = "defaults"
SUITE_NAME = r"[a-z][a-z0-9_]{0,49}"
# The words of Great Expectations for the severities of a declaration.
_SEVERITIES = {"critical": "error"}


class SuiteFile(BaseModel):
    """A suite: checks that any pipeline may name."""

    model_config = STRICT

    description: StrictStr | None = Field(default=None, description="the purpose of the suite, in a few words")
    checks: Annotated[tuple[Any, ...], Field(min_length=1)] = Field(
        description="a list of checks, written as in the declaration of a pipeline"
    )


class DefaultsFile(BaseModel):
    """The defaults of all pipelines of a folder."""

    model_config = STRICT

    checks: tuple[Any, ...] = Field(
        default=(), description="a list of checks that every pipeline gets after its own, written as there"
    )
    suites: tuple[StrictStr, ...] = Field(default=(), description="a list of suites that every pipeline gets")
    rules: tuple[Any, ...] = Field(
        default=(),
        description="a list of rules that every pipeline gets after its own; a rule of the same name replaces one",
    )
    dedupe: Any = Field(default=None, description="dedupe of the pipelines that do not declare it")
    alerts: Any = Field(default=None, description="alerts of the pipelines that do not declare it")
    max_quarantined: Any = Field(default=None, description="max_quarantined of the pipelines that do not declare it")
    keep_quarantine_days: Any = Field(
        default=None, description="keep_quarantine_days of the pipelines that do not declare it"
    )
    keep_check_results_days: Any = Field(
        default=None, description="keep_check_results_days of the pipelines that do not declare it"
    )


SETTINGS = tuple(name for name in DefaultsFile.model_fields if name not in ("checks", "suites", "rules"))


class Found(NamedTuple):
    """One mistake with its file and line."""

    path: Path
    place: Place
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Source:
    """The file that a part of a declaration comes from, and its place there."""

    path: Path
    document: Document
    place: Place

    def find(self, rest: Place) -> Place:
        """Find a place within the part: a suite of Great Expectations writes the arguments of a check as `kwargs`."""
        if self.place[:1] != ("expectations",) or rest[:1] in ((), ("severity",)):
            return (*self.place, *rest)
        return (*self.place, "type") if rest == ("expect",) else (*self.place, "kwargs", *rest)


@dataclass
class Combined:
    """A declaration with the checks of its suites and with the defaults, and the mistakes that were found so far."""

    path: Path
    document: Document
    data: Any
    mistakes: list[Found]
    unread: set[Place]
    sources: dict[Place, Source] = field(default_factory=dict)  # by the place in the data

    def locate(self, place: Place, what: str) -> Found:
        """Locate a mistake in the file that it was written in."""
        known = next((size for size in (2, 1) if place[:size] in self.sources), 0)
        if not known:
            return Found(self.path, place, self.document.line(place), what)
        source = self.sources[place[:known]]
        there = source.find(place[known:])
        return Found(source.path, there, source.document.line(there), f"used by {self.path.stem}: {what}")

    def refuse(self, place: Place, what: str) -> None:
        """Add a mistake of the declaration's own file. The models report no other mistake there."""
        self.unread.add(place)
        self.mistakes.append(Found(self.path, place, self.document.line(place), what))


class Shared:
    """The suites and the defaults of a folder of declarations. Each file is read once."""

    def __init__(self, folder: Path) -> None:
        """Name the folder of the declarations; no file is read before a declaration uses it."""
        self.folder = folder
        self._suites: dict[str, Part] = {}
        self._defaults: Part | None = None

    def names(self) -> list[str]:
        """List the names of the suites."""
        folder = self.folder / FOLDER
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        return [path.stem for path in found if path.suffix in SUFFIXES and _is_suite(path.stem)]

    def read_suite(self, name: str) -> Part | None:
        """Read a suite; None if there is no such file."""
        if name not in self._suites:
            paths = [self.folder / FOLDER / f"{name}{suffix}" for suffix in SUFFIXES]
            found = [path for path in paths if path.exists()]
            if not found:
                return None
            self._suites[name] = _read_part(found[0], SuiteFile)
            self._suites[name].mistakes.extend(
                Found(other, (), 1, f"is also the suite {found[0].name}; allowed: one file a suite")
                for other in found[1:]
            )
        return self._suites[name]

    def read_defaults(self) -> Part | None:
        """Read the defaults; None if there is no such file."""
        path = self.folder / DEFAULTS_FILE
        if self._defaults is None and path.exists():
            self._defaults = _read_part(path, DefaultsFile)
        return self._defaults


@dataclass(frozen=True, slots=True)
class Part:
    """A suite, or the file of defaults: its data by the names of a declaration, and its mistakes."""

    path: Path
    document: Document
    data: Mapping[str, Any]
    mistakes: list[Found]

    def checks(self, suite: str) -> Iterator[tuple[dict[str, Any], Source]]:
        """Each check as a declaration writes it, with its source."""
        list_ = "expectations" if "expectations" in self.data else "checks"
        for at, given in enumerate(self.data.get(list_, ())):
            check = _from_expectation(given) if list_ == "expectations" else given
            yield {**check, "suite": suite}, Source(self.path, self.document, (list_, at))


def combine(path: Path, document: Document, shared: Shared) -> Combined:
    """Combine a declaration with its suites and with the defaults."""
    mistakes = [Found(path, *mistake) for mistake in document.mistakes]
    combined = Combined(path, document, document.data, mistakes, set(document.unread))
    if not isinstance(document.data, dict):
        return combined
    combined.data = dict(document.data)
    _refuse_own_suite(combined)
    _add_statements(combined, shared)
    suites = _add_named(combined, shared)
    quality = document.data.get("quality")
    defaults = shared.read_defaults()
    if defaults is None or (isinstance(quality, dict) and quality.get("defaults") is False):
        return combined
    for name in SETTINGS:
        if name in defaults.data and name not in document.data:
            combined.data[name] = defaults.data[name]
            combined.sources[(name,)] = Source(defaults.path, defaults.document, (name,))
    _add_checks(combined, defaults, DEFAULTS)
    _add_rules(combined, defaults)
    for at, name in enumerate(defaults.data.get("suites", ())):
        part, what = _find_suite(shared, name)
        if part is None:
            line = defaults.document.line(("suites", at))
            combined.mistakes.append(Found(defaults.path, ("suites", at), line, what))
        elif name not in suites:
            _add_checks(combined, part, name)
    return combined


def _add_statements(combined: Combined, shared: Shared) -> None:
    """Write the statements of results into the declaration, from their files in the folder `results`."""
    results = combined.data.get("results")
    if not isinstance(results, list):
        return
    combined.data["results"] = [dict(each) if isinstance(each, dict) else each for each in results]
    for at, result in enumerate(combined.data["results"]):
        name = result.get("sql") if isinstance(result, dict) else None
        if not isinstance(name, str):
            continue
        path = shared.folder / RESULTS / name
        if not re.fullmatch(r"[a-z0-9_]+\.sql", name) or not path.is_file():
            found = sorted(each.name for each in (shared.folder / RESULTS).glob("*.sql"))
            allowed = ", ".join(found) or f"the name of a file in {shared.folder / RESULTS}"
            combined.refuse(
                ("results", at, "sql"), f"there is no file {clip(name)}{suggest(name, found)}; allowed: {allowed}"
            )
            result["statements"] = ""
        elif "statements" in result:
            combined.refuse(("results", at, "statements"), "a file has the statements already; allowed: either")
        else:
            result["statements"] = path.read_text(encoding="utf-8")


def _refuse_own_suite(combined: Combined) -> None:
    """Refuse checks that claim to come from a suite."""
    checks = combined.data.get("checks")
    for at, check in enumerate(checks if isinstance(checks, list) else ()):
        if isinstance(check, dict) and "suite" in check:
            combined.refuse(("checks", at, "suite"), "unknown name; allowed: the name of the suite under `suites`")


def _add_named(combined: Combined, shared: Shared) -> list[str]:
    """Add the suites that the declaration names; their names."""
    names = combined.data.get("suites")
    added: list[str] = []
    for at, name in enumerate(names if isinstance(names, list) else ()):
        if not isinstance(name, str):
            continue
        part, what = _find_suite(shared, name)
        if part is None:
            combined.refuse(("suites", at), what)
        elif name in added:
            combined.refuse(("suites", at), f"the suite {name} is named twice; allowed: once")
        else:
            added.append(name)
            _add_checks(combined, part, name)
            if part.mistakes:
                combined.unread.add(("suites", at))
    return added


def _is_suite(name: str) -> bool:
    return re.fullmatch(SUITE_NAME, name) is not None and name != DEFAULTS


def _find_suite(shared: Shared, name: str) -> tuple[Part | None, str]:
    """Find a suite, or say why there is none."""
    part = shared.read_suite(name) if _is_suite(name) else None
    if part is not None:
        return part, ""
    names = shared.names()
    allowed = ", ".join(names) or f"the name of a file in {shared.folder / FOLDER}"
    return None, f"there is no suite {clip(name)}{suggest(name, names)}; allowed: {allowed}"


def _add_checks(combined: Combined, part: Part, suite: str) -> None:
    combined.mistakes += [mistake for mistake in part.mistakes if mistake not in combined.mistakes]
    own = combined.data.get("checks", [])
    if not isinstance(own, list):
        return
    checks = list(own)
    for check, source in part.checks(suite):
        combined.sources["checks", len(checks)] = source
        checks.append(check)
    combined.data["checks"] = checks


def _add_rules(combined: Combined, defaults: Part) -> None:
    """Add the default rules whose names the declaration's own rules do not have."""
    own = combined.data.get("rules", [])
    if not isinstance(own, list):
        return
    names = {rule.get("name") for rule in own if isinstance(rule, dict)}
    rules = list(own)
    for at, rule in enumerate(defaults.data.get("rules", ())):
        if not isinstance(rule, dict) or rule.get("name") not in names:
            combined.sources["rules", len(rules)] = Source(defaults.path, defaults.document, ("rules", at))
            rules.append(rule)
    combined.data["rules"] = rules


def _read_part(path: Path, model: type[SuiteFile | DefaultsFile]) -> Part:
    document = read_document(path)
    mistakes = [Found(path, *mistake) for mistake in document.mistakes]
    if () in document.unread:
        return Part(path, document, {}, mistakes)
    written = document.data
    if model is SuiteFile and isinstance(written, dict) and "expectations" in written:
        mistakes += _find_wrong_expectations(path, document, written["expectations"])
        return Part(path, document, {} if mistakes else written, mistakes)
    try:
        model.model_validate(written)
    except ValidationError as error:
        mistakes += [
            Found(path, place, document.line(place), what)
            for place, what in describe_errors(error, lambda place: {} if place else _meanings(model))
        ]
    mistakes += [
        Found(path, place, document.line(place), what)
        for at, check in enumerate(_list(written, "checks"))
        for place, what in _find_wrong_check(at, check)
    ]
    return Part(path, document, written if isinstance(written, dict) and not mistakes else {}, mistakes)


def _find_wrong_check(at: int, check: object) -> Iterator[tuple[Place, str]]:
    if not isinstance(check, dict):
        yield ("checks", at), f"must be a mapping, not {clip(check)}; allowed: expect, severity and arguments"
    elif "suite" in check:
        yield ("checks", at, "suite"), "unknown name; allowed: no suite"


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    return {name: field.description or "" for name, field in model.model_fields.items()}


def _list(written: object, name: str) -> list[Any]:
    found = written.get(name) if isinstance(written, dict) else None
    return found if isinstance(found, list) else []


def _find_wrong_expectations(path: Path, document: Document, given: object) -> list[Found]:
    """Find entries of a suite in the JSON of Great Expectations without a type or kwargs."""
    if not isinstance(given, list) or not given:
        what = f"must be a list of at least one, not {clip(given)}; allowed: expectations with type and kwargs"
        return [Found(path, ("expectations",), document.line(("expectations",)), what)]
    wrong = [
        ("expectations", at)
        for at, each in enumerate(given)
        if not (isinstance(each, dict) and isinstance(each.get("type"), str) and isinstance(each.get("kwargs"), dict))
    ]
    return [
        Found(path, place, document.line(place), "is not an expectation; allowed: a mapping with type and kwargs")
        for place in wrong
    ]


def _from_expectation(given: Mapping[str, Any]) -> dict[str, Any]:
    """Write an expectation of Great Expectations' JSON as a check. Its notes and its id are left out."""
    severity = given.get("severity") or "critical"
    kwargs = {name: value for name, value in given["kwargs"].items() if name != "batch_id"}
    return {**kwargs, "expect": given["type"], "severity": _SEVERITIES.get(severity, severity)}
