"""Declarations from files: every mistake at once, each with file and line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.declaration import yaml_lines
from penstock.declaration.yaml_lines import read_yaml
from penstock.errors import DeclarationError, WrongUseError
from penstock.orchestration import declared
from penstock.pipeline import Pipeline, read_each, read_named, read_pipeline, read_pipelines

SAMPLES = Path(__file__).parents[2] / "include" / "pipelines"
GOOD = """\
name: orders
topic: orders
value: json
columns:
  id: {type: bigint}
target: analytics.orders
"""


def refuse(folder: Path, text: str | bytes, name: str = "orders.yaml") -> list[str]:
    """The lines that a file with this text is refused with, without its folder."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DeclarationError) as refused:
        read_pipeline(path)
    assert refused.value.exit_code == 2
    return refused.value.what.replace(f"{folder}/", "").split("\n")


def test_every_mistake_of_a_file_is_told_at_once_in_the_order_of_its_lines(tmp_path: Path) -> None:
    told = refuse(
        tmp_path,
        dedent("""\
        name: orders
        topc: orders
        value: avro
        columns:
          id: {type: bigit}
          weird key:
            type: text
            requird: true
          id: {type: text}
        indexes:
          - [id]
          - [idd]
        target: analytics.orders
        max_records_per_partition: 0
        checks:
          - {expect: expect_column_values_to_be_unique, column: id}
          - expect: expect_column_values_to_be_unique
            column: idd
        """),
    )
    assert [line.split("; ")[0].split(" (did")[0] for line in told] == [
        "orders.yaml:1: topic: is missing",
        "orders.yaml:2: topc: unknown name",
        "orders.yaml:3: value: cannot be 'avro'",
        "orders.yaml:5: columns.id.type: no type 'bigit'",
        "orders.yaml:6: columns.'weird key': 'weird key' is no column name",
        "orders.yaml:8: columns.'weird key'.requird: unknown name",
        "orders.yaml:9: columns.id: written twice, first in line 5",
        "orders.yaml:12: indexes[1][0]: no column 'idd'",
        "orders.yaml:14: max_records_per_partition: 0 is too little",
        "orders.yaml:18: checks[1].column: no column 'idd'",
    ]
    assert all("; allowed: " in line for line in told)


def test_two_pipelines_cannot_share_a_target_and_the_first_stays(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "returns.yaml").write_text(GOOD.replace("name: orders", "name: returns"))
    first, second = read_each(tmp_path).values()
    assert isinstance(first, Pipeline)
    assert isinstance(second, DeclarationError)
    assert second.what.replace(f"{tmp_path}/", "") == (
        "returns.yaml:6: target: analytics.orders is the target of orders.yaml too; allowed: one pipeline a target"
    )


BROKEN = [
    ("", "orders.yaml:1: no YAML: the file is empty"),
    ("# nothing\n", "orders.yaml:1: no YAML: the file is empty"),
    ("name: orders\n  topic: x\n", "orders.yaml:2: no YAML: mapping values are not allowed"),
    ("name: orders\ntopic: [a\n", "orders.yaml:2: no YAML: did not find expected ',' or ']'"),
    ("name: orders\n\ttopic: x\n", "orders.yaml:2: no YAML: found a tab character"),
    ("name: a\n---\nname: b\n", "orders.yaml:2: no YAML: but found another document"),
    ("é: é\nname: \x07\n", "orders.yaml:2: no YAML: control characters are not allowed (U+0007)"),
    (b"name: a\ntopic: \xff\n", "orders.yaml:2: not UTF-8"),
    ("name: a\n" + "x: " + "[" * 100_000, "orders.yaml:2: no YAML: nested deeper than 20 levels"),
    ("- a\n", "orders.yaml:1: must be a mapping, not a list"),
    ("orders\n", "orders.yaml:1: must be a mapping, not 'orders'"),
]


@pytest.mark.parametrize(("text", "told"), BROKEN)
def test_a_file_that_is_no_mapping_in_yaml_is_one_mistake_with_its_line(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    lines = refuse(tmp_path, text)
    assert len(lines) == 1
    assert lines[0].startswith(told)
    assert "; allowed: " in lines[0]


STRICTER = [
    ("owner: &anchor me\ntags: [*anchor]", "orders.yaml:8: tags[0]: an alias of an earlier part"),
    ("owner: a\nowner: b", "orders.yaml:8: owner: written twice, first in line 7"),
    ("owner: !!python/object:os.system x", "orders.yaml:7: owner: the tag 'tag:yaml.org,2002:python/object:os.system'"),
    ("retries: !!int many", "orders.yaml:7: retries: 'many' cannot be read as int"),
    (f"retries: {'9' * 5000}", "orders.yaml:7: retries: '99999"),
    ("? [a]\n: b", "orders.yaml:7: a list or mapping as a name"),
    ('description: "a\\0b"', "orders.yaml:7: description: a NUL or half a character"),
]


@pytest.mark.parametrize(("line", "told"), STRICTER)
def test_what_yaml_allows_and_a_declaration_does_not_is_told_once_with_its_line(
    tmp_path: Path, line: str, told: str
) -> None:
    lines = refuse(tmp_path, GOOD + line + "\n")
    assert len(lines) == 1
    assert lines[0].startswith(told)


def test_the_python_parser_gives_the_same_lines_where_the_c_parser_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = yaml_lines._CoreLoader.resolve
    texts = [text for text, _ in BROKEN if isinstance(text, str)] + [GOOD + line for line, _ in STRICTER]
    by_c = [read_yaml(text) for text in texts]
    monkeypatch.setattr(yaml_lines, "_Loader", yaml.SafeLoader)
    monkeypatch.setattr(yaml_lines, "_CoreLoader", type("_Core", (yaml.SafeLoader,), {"resolve": resolve}))
    for text, fast in zip(texts, by_c, strict=True):
        slow = read_yaml(text)
        assert slow.data == fast.data
        assert [place for place, _, _ in slow.mistakes] == [place for place, _, _ in fast.mistakes]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2026-01-31", "2026-01-31"),
        ("012", 12),
        ("0x1F", 31),
        ("1e3", 1000.0),
        ("True", True),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("-.inf", float("-inf")),
        ("1_000", "1_000"),
    ],
)
def test_plain_words_mean_what_yaml_1_2_says(written: str, value: object) -> None:
    document = read_yaml(f"a: {written}\n")
    assert document.mistakes == []
    assert document.data == {"a": value}


def test_a_column_may_be_named_like_a_word_of_yaml_1_1(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD.replace("  id:", "  no: {type: text}\n  y: {type: text}\n  id:"))
    assert [column.name for column in read_pipeline(path).columns] == ["no", "y", "id"]


def test_a_byte_order_mark_and_windows_line_ends_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_pipeline(path).name == "orders"


def test_the_file_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/orders.yaml").write_text("name: orders\n")
    with pytest.raises(DeclarationError, match=r"\Asub/orders\.yaml:1: topic: is missing"):
        read_pipeline(Path("sub/orders.yaml"))


def test_a_missing_file_or_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="no such file or directory"):
        read_pipeline(tmp_path / "none.yaml")
    with pytest.raises(DeclarationError, match="is a directory"):
        read_pipeline(tmp_path)
    with pytest.raises(DeclarationError, match="no such folder"):
        read_pipelines(tmp_path / "none")


def test_a_folder_is_read_by_name_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "refunds.yml").write_text(GOOD.replace("orders", "refunds"))
    (tmp_path / "orders.sql").write_text("select 1")
    (tmp_path / ".hidden.yaml").write_text("nothing")
    assert list(read_pipelines(tmp_path)) == ["orders", "refunds"]


def test_the_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.replace("name: orders", "name: a").replace("json", "avro"))
    (tmp_path / "b.yaml").write_text("{")
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "other.yaml").write_text(GOOD.replace("bigint", "bigit"))
    with pytest.raises(DeclarationError) as refused:
        read_pipelines(tmp_path)
    told = refused.value.what.replace(f"{tmp_path}/", "").split("\n")
    assert [line.split(": ")[0] for line in told] == ["a.yaml:3", "b.yaml:1", "other.yaml:1", "other.yaml:5"]
    assert told[2] == "other.yaml:1: name: 'orders' is not the name of the file; allowed: other"


def test_one_name_in_two_files_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "orders.yml").write_text("# again\n" + GOOD)
    with pytest.raises(DeclarationError, match=r"orders\.yml:1: orders is declared in .*orders\.yaml too"):
        read_pipelines(tmp_path)


def test_a_broken_file_leaves_the_others_be(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("{")
    (tmp_path / "orders.yaml").write_text(GOOD)
    read = read_each(tmp_path)
    assert isinstance(read[tmp_path / "broken.yaml"], DeclarationError)
    assert isinstance(read[tmp_path / "orders.yaml"], Pipeline)


def test_a_named_pipeline_is_read_beside_broken_files_and_refused_only_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.yaml").write_text("{ analytics.orders")
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "a_folder.yaml").mkdir()
    assert read_named(tmp_path, "orders").name == "orders"
    with pytest.raises(DeclarationError, match=r"broken\.yaml:1: no YAML"):
        read_named(tmp_path, "broken")
    with pytest.raises(WrongUseError, match=r"no pipeline named oders in .*; there are: a_folder, broken, orders"):
        read_named(tmp_path, "oders")
    # The tasks of Airflow read in the same way.
    monkeypatch.setenv("PENSTOCK_PIPELINES", str(tmp_path))
    assert declared.read_named("orders").name == "orders"
    with pytest.raises(DeclarationError, match=r"broken\.yaml:1"):
        declared.read_named("broken")


def test_a_named_pipeline_is_refused_if_an_earlier_file_has_its_target(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(GOOD)
    (tmp_path / "returns.yaml").write_text(GOOD.replace("name: orders", "name: returns"))
    assert read_named(tmp_path, "orders").name == "orders"
    with pytest.raises(DeclarationError, match=r"returns\.yaml:6: target: analytics\.orders is the target of .*orders"):
        read_named(tmp_path, "returns")


def test_at_most_twenty_mistakes_of_a_file_are_told_and_the_others_are_counted(tmp_path: Path) -> None:
    unknown = "".join(f"unknown_{number}: 1\n" for number in range(25))
    told = refuse(tmp_path, GOOD + unknown)
    assert len(told) == 21
    assert told[19].startswith("orders.yaml:26: unknown_19: unknown name")
    assert told[20] == "orders.yaml: and 5 more mistakes"
    assert len(refuse(tmp_path, GOOD + unknown.replace("unknown_24: 1\n", "").split("unknown_20")[0])) == 20


def test_the_samples_are_right() -> None:
    assert list(read_pipelines(SAMPLES)) == ["access_log", "orders"]


def test_a_password_never_reaches_the_error_nor_its_cause(tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(GOOD + "alerts: mailto://user:canary@host\npassword: canary\n")
    with pytest.raises(DeclarationError) as refused:
        read_pipeline(path)
    error: BaseException | None = refused.value
    while error is not None:
        assert "canary" not in repr(error)
        error = error.__cause__ or error.__context__


any_yaml = st.one_of(
    st.binary(),
    st.text().map(str.encode),
    # Text near to a declaration finds more than noise does.
    st.lists(
        st.sampled_from([*GOOD.splitlines(), "  - x", "checks:", "? a", "&a", "*a", "[", "]", "{", "}", "'", "|", "\t"])
    )
    .map("\n".join)
    .map(str.encode),
    st.tuples(st.integers(0, len(GOOD)), st.text(max_size=3)).map(lambda cut: (GOOD[: cut[0]] + cut[1]).encode()),
)


@given(any_yaml)
def test_any_text_is_a_pipeline_or_a_declaration_error(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text)
    try:
        read_pipeline(path)
    except DeclarationError as error:
        assert all(line.startswith(f"{path}:") and line.isprintable() for line in error.what.split("\n"))  # noqa: PT017
