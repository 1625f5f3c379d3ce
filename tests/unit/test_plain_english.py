"""Comments, docstrings, descriptions of SQL, messages and pages avoid the words that CONTRIBUTING.md forbids.

ALLOWED lists the files that still hold such words. The list only shrinks: remove a file when it is clean, add none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CODE = ("include", "tests", "bench", "dags", "spark_jobs")

# The first word of a sentence, a heading, a cell or an item of a list; `rest` ends with the mark of the sentence's end.
OPENING = re.compile(
    r"(?:\A|[.!?|]\s+|\n\s*\n|^#+ |^\s*(?:[-*]|\d+\.) )\**"
    r"(?P<words>What|Who(?:ever)?|Whatever|Rather|Else)\b(?P<rest>[^.!?|]*[.!?|]?)",
    re.MULTILINE,
)
BANNED = re.compile(
    r"\b(?P<words>told|untold|unfit|mend|mends|mended|anew|whoever|goes\s+on|gone|lacks)\b", re.IGNORECASE
)
IS_NO = re.compile(
    r"(?<!there )(?<!There )\b(?P<words>(?:is|are|was|were)\s+no\s+(?!longer\b|more\b|later\b|less\b|earlier\b)\w+)"
)
QUOTED_CODE = re.compile(r"^```.*?^```|(`+)[^`]+?\1", re.MULTILINE | re.DOTALL)
PROSE_KEYWORDS = {"next_step", "help", "description"}

ALLOWED: set[str] = {
    "docs/how-to/connect-to-your-cluster.md",
    "docs/how-to/declare-a-pipeline.md",
    "docs/how-to/deploy-by-compose.md",
    "docs/how-to/read-ranges-from-spark.md",
    "docs/how-to/tell-holes-apart.md",
    "docs/reference/command-line.md",
    "docs/reference/declaration.md",
    "docs/reference/poison.md",
    "include/penstock/airflow/alerts.py",
    "include/penstock/airflow/connections.py",
    "include/penstock/airflow/dags/backfill.py",
    "include/penstock/airflow/dags/maintenance.py",
    "include/penstock/airflow/dags/pipeline.py",
    "include/penstock/airflow/notifier.py",
    "include/penstock/airflow/stage_operator.py",
    "include/penstock/airflow/steps/__init__.py",
    "include/penstock/airflow/steps/accept_loss.py",
    "include/penstock/airflow/steps/audit.py",
    "include/penstock/airflow/steps/backfill.py",
    "include/penstock/airflow/steps/load.py",
    "include/penstock/airflow/steps/maintenance.py",
    "include/penstock/airflow/steps/settle.py",
    "include/penstock/alerts/__init__.py",
    "include/penstock/alerts/due.py",
    "include/penstock/alerts/outbox.py",
    "include/penstock/backfill/choice.py",
    "include/penstock/backfill/estimate.py",
    "include/penstock/backfill/plan.py",
    "include/penstock/backfill/request.py",
    "include/penstock/backfill/run.py",
    "include/penstock/decide/__init__.py",
    "include/penstock/decide/accept_loss.py",
    "include/penstock/decide/adopt.py",
    "include/penstock/decide/rollback.py",
    "include/penstock/decide/settle.py",
    "include/penstock/declaration/__init__.py",
    "include/penstock/declaration/files.py",
    "include/penstock/declaration/json_path.py",
    "include/penstock/declaration/mistakes.py",
    "include/penstock/declaration/parts.py",
    "include/penstock/declaration/pipeline.py",
    "include/penstock/declaration/relations.py",
    "include/penstock/declaration/schedules.py",
    "include/penstock/declaration/schema.py",
    "include/penstock/declaration/yaml_lines.py",
    "include/penstock/doctor/answers.py",
    "include/penstock/doctor/copies.py",
    "include/penstock/doctor/examination.py",
    "include/penstock/doctor/facts.py",
    "include/penstock/doctor/judgement.py",
    "include/penstock/doctor/retention.py",
    "include/penstock/doctor/transactions.py",
    "include/penstock/doctor/unloaded.py",
    "include/penstock/errors.py",
    "include/penstock/holes/__init__.py",
    "include/penstock/holes/examination.py",
    "include/penstock/holes/kinds.py",
    "include/penstock/holes/record.py",
    "include/penstock/kafka/__init__.py",
    "include/penstock/kafka/batches/open_transactions.py",
    "include/penstock/kafka/batches/reader.py",
    "include/penstock/kafka/batches/spans.py",
    "include/penstock/kafka/readers/contract.py",
    "include/penstock/kafka/readers/java_settings.py",
    "include/penstock/kafka/readers/native.py",
    "include/penstock/ledger/backfill.sql",
    "include/penstock/ledger/check_result.sql",
    "include/penstock/ledger/connection.py",
    "include/penstock/ledger/coverage.py",
    "include/penstock/ledger/coverage.sql",
    "include/penstock/ledger/hold.sql",
    "include/penstock/ledger/hole.sql",
    "include/penstock/ledger/load.py",
    "include/penstock/ledger/load.sql",
    "include/penstock/ledger/maintenance.sql",
    "include/penstock/ledger/migration.py",
    "include/penstock/ledger/stage_task.sql",
    "include/penstock/ledger/verification.sql",
    "include/penstock/load/log_fit.py",
    "include/penstock/load/loss.py",
    "include/penstock/load/plan.py",
    "include/penstock/load/publish.py",
    "include/penstock/load/replacement.py",
    "include/penstock/load/task.py",
    "include/penstock/load/validate.py",
    "include/penstock/maintenance/retention.py",
    "include/penstock/maintenance/run.py",
    "include/penstock/model/health.py",
    "include/penstock/model/load.py",
    "include/penstock/model/log.py",
    "include/penstock/model/plan.py",
    "include/penstock/model/ranges.py",
    "include/penstock/quality/checker.py",
    "include/penstock/quality/counts.py",
    "include/penstock/quality/observation.py",
    "include/penstock/quality/suite.py",
    "include/penstock/settings.py",
    "include/penstock/spark/driver.py",
    "include/penstock/spark/first_failure.py",
    "include/penstock/spark/submit.py",
    "include/penstock/target/assignment.py",
    "include/penstock/target/postgres/leaf_list.py",
    "include/penstock/target/postgres/leaves.py",
    "include/penstock/target/postgres/levels.py",
    "include/penstock/target/postgres/merge.py",
    "include/penstock/target/postgres/preparation.py",
    "include/penstock/target/postgres/table.py",
    "include/penstock/target/postgres/table.sql",
    "include/penstock/verify/chunks.py",
    "include/penstock/verify/faults.py",
    "include/penstock/verify/findings.py",
    "include/penstock/verify/location.py",
    "include/penstock/verify/reread.py",
    "include/penstock/verify/row_counts.py",
    "include/penstock/verify/run.py",
    "include/penstock_stack/airflow.py",
    "include/penstock_stack/airflow_environment.py",
    "include/penstock_stack/broker.py",
    "include/penstock_stack/demo/summary.py",
    "include/penstock_stack/embedded.py",
    "include/penstock_stack/postgres.py",
    "include/penstock_stack/processes.py",
    "tests/dags/test_connections.py",
    "tests/integration/test_airflow.py",
    "tests/integration/test_asking_first.py",
    "tests/integration/test_copy.py",
    "tests/integration/test_dropping.py",
    "tests/integration/test_holes.py",
    "tests/integration/test_loss.py",
    "tests/integration/test_merging.py",
    "tests/integration/test_publish.py",
    "tests/integration/test_status.py",
    "tests/integration/test_tiling.py",
    "tests/integration/test_verify.py",
    "tests/unit/test_alerts.py",
    "tests/unit/test_backfill_choosing.py",
    "tests/unit/test_compose.py",
    "tests/unit/test_decoding.py",
    "tests/unit/test_doctor_judging.py",
    "tests/unit/test_holes_naming.py",
    "tests/unit/test_plan.py",
    "tests/unit/test_proof_next_steps.py",
    "tests/unit/test_rights_of_the_loader.py",
}

Text = tuple[int, str]


def find_words(prose: str) -> Iterator[tuple[int, str]]:
    """The line within the prose, and the words that are not allowed there."""
    bare = QUOTED_CODE.sub(lambda found: re.sub(r"[^\n]", "`", found[0]), prose)
    for pattern in (OPENING, BANNED, IS_NO):
        for found in pattern.finditer(bare):
            if pattern is not OPENING or not found["rest"].endswith("?"):
                yield bare.count("\n", 0, found.start("words")), " ".join(found["words"].split())


def read_prose(path: Path) -> Iterator[Text]:
    """Each piece of prose of a file, with the line where it begins."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, text
    elif path.suffix == ".sql":
        yield from join_lines([(line, row) for line, row in enumerate(text.splitlines(), 1)], "--", "name: ")
    else:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        yield from join_lines(comments, "#", "noqa", "type: ", "fmt: ")
        tree = ast.parse(text)
        yield from read_docstrings(tree)
        yield from read_messages(tree)


def join_lines(lines: list[Text], mark: str, *ignored: str) -> Iterator[Text]:
    """Comments on successive lines are one piece of prose."""
    piece: list[str] = []
    last = 0
    for line, row in lines:
        words = row.strip().removeprefix(mark).strip()
        if not row.strip().startswith(mark) or words.startswith(ignored):
            continue
        if piece and line != last + 1:
            yield last - len(piece) + 1, "\n".join(piece)
            piece = []
        piece.append(words)
        last = line
    if piece:
        yield last - len(piece) + 1, "\n".join(piece)


def read_docstrings(tree: ast.Module) -> Iterator[Text]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield node.body[0].lineno, docstring


def read_messages(tree: ast.Module) -> Iterator[Text]:
    """String literals that are given to an error, or as a next step, a help text or a description."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [word.value for word in node.keywords if word.arg in PROSE_KEYWORDS]
            for argument in [*node.args, *given] if name.endswith("Error") else given:
                yield from read_literals(argument)


def read_literals(node: ast.AST) -> Iterator[Text]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
        yield node.lineno, "".join(str(part) for part in parts)
    else:
        for child in ast.iter_child_nodes(node):
            yield from read_literals(child)


@cache
def list_files() -> list[str]:
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for folder in CODE:
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".sql"}]
    names = [str(path.relative_to(ROOT)) for path in sorted(paths)]
    # The text of a released migration never changes.
    return [name for name in names if "/migrations/" not in name and not name.startswith("tests/ledger_")]


def find_all(name: str) -> list[str]:
    return [
        f"{name}:{start + line}: {words}"
        for start, prose in read_prose(ROOT / name)
        for line, words in sorted(find_words(prose))
    ]


def test_no_prose_outside_the_list_holds_forbidden_words() -> None:
    found = [mistake for name in list_files() if name not in ALLOWED for mistake in find_all(name)]
    assert found == [], "write these in plain English (see CONTRIBUTING.md, The language):\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("prose", "words"),
    [
        ("A load. What is left is dropped.", ["What"]),
        ("- Whoever reads\n- nobody", ["Whoever", "Whoever"]),
        ("One.\nElse: fenced.", ["Else"]),
        ("| state | What it is |", ["What"]),
        ("What is left? Nothing.", []),
        ("It was told, and the log goes\non.", ["told", "goes on"]),
        ("`told` is a column; so is told_at.", []),
        ("```\nWhat\n```", []),
        ("17 is no number.", ["is no number"]),
        ("There is no load, and it is no longer held.", []),
    ],
)
def test_forbidden_words_are_found_outside_code_and_questions(prose: str, words: list[str]) -> None:
    assert sorted(found for _, found in find_words(prose)) == sorted(words)


def test_comments_docstrings_and_messages_are_prose(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(
        '"""Module."""\nx = "no prose"  # first\n# second\n\n# third\nraise LoadError(f"of {x}", next_step="do")\n',
        encoding="utf-8",
    )
    assert list(read_prose(path)) == [(2, "first\nsecond"), (5, "third"), (1, "Module."), (6, "of x"), (6, "do")]
