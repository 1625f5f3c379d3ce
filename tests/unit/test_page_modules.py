"""The modules of the page fit each other: no build step would find a name that is imported and not there."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.airflow.page.rights import ACTIONS

FOLDER = Path(__file__).parents[2] / "include" / "penstock" / "airflow" / "page" / "ui"
MODULES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.js"))}
IMPORT = re.compile(r'import \{([^}]*)\} from "([^"]*)";')
EXPORT = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.MULTILINE)
EXPORTED_LIST = re.compile(r"^export const \{([^}]*)\}", re.MULTILINE)
LONGEST_LINE = 120


def test_every_imported_name_is_exported_and_used() -> None:
    wrong = []
    for file, text in MODULES.items():
        body = IMPORT.sub("", text)
        for names, source in IMPORT.findall(text):
            exported = read_exports(source.removeprefix("./"))
            for name in filter(None, map(str.strip, names.split(","))):
                if name not in exported:
                    wrong.append(f"{file}: {source} exports no {name}")
                if not re.search(rf"\b{name}\b", body):
                    wrong.append(f"{file}: {name} is not used")
    assert wrong == []


def test_every_component_is_defined_or_imported() -> None:
    missing = [
        f"{file}: {name}"
        for file, text in MODULES.items()
        for name in set(re.findall(r"\bh\(\s*([A-Z]\w*)", text))
        if not re.search(rf"import \{{[^}}]*\b{name}\b[^}}]*\}}|(?:function|const) {name}\b", text)
    ]
    assert missing == []


def test_every_exported_name_is_used() -> None:
    imported = {
        name.strip() for text in MODULES.values() for names, _ in IMPORT.findall(text) for name in names.split(",")
    }
    dead = [
        f"{file}: {name}"
        for file, text in MODULES.items()
        for name in read_exports(file)
        if name not in imported and len(re.findall(rf"\b{name}\b", text)) == 1
    ]
    assert dead == []


def test_modules_load_nothing_from_other_hosts_and_have_short_lines() -> None:
    foreign = [file for file, text in MODULES.items() if re.search(r"https?://|\beval\(|innerHTML", text)]
    long = [
        f"{file}:{number}"
        for file, text in MODULES.items()
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert (foreign, long) == ([], [])


def test_the_buttons_ask_for_the_rights_that_the_server_describes() -> None:
    written = re.search(r"const DAGS = \[([^\]]*)\]", MODULES["actions.js"])
    assert written is not None
    assert tuple(re.findall(r'"(\w+)"', written.group(1))) == ACTIONS
    started = {dag for text in MODULES.values() for dag in re.findall(r'"(penstock_(?!db)\w+)"', text)}
    assert started == set(ACTIONS)


def read_exports(file: str) -> set[str]:
    """The names that a module exports."""
    text = MODULES[file]
    listed = (name.split(":")[-1].strip() for names in EXPORTED_LIST.findall(text) for name in names.split(","))
    return {*EXPORT.findall(text), *listed}
