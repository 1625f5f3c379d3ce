"""The record path in Rust against its reference in Python: random declarations, random and broken records.

`make fuzz` runs this file for millions of records. A record that Rust takes must be one that the reference takes, and
the bytes of both rows must be equal.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
import time
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa

from column_samples import EDGES, EVERY_SPELLING
from penstock.declaration.columns import parse_type
from penstock.model.records import Batch
from penstock.records.decoder import Decoded, Decoder, Layout, row_types
from penstock.records.fingerprint import LogFingerprint
from penstock.records.formats.base import Field
from penstock.records.rust import RustDecoder, RustEncoder, encode_rows
from penstock.records.tombstones import Tombstones
from penstock.rust_package import find_package

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.declaration.columns import ColumnType, Family
    from penstock.declaration.formats import KeyFormat

BATCH = 1_000
STEPS = ("a", "b", "a b", "ä", "", "value", "_", "A")  # msgspec takes no quote and no backslash in a name
CHARACTERS = "abc xyz,:{}[]0123456789.eE+-äß漢😀\x7f\u2028"
ESCAPES = (
    "\\n",
    "\\u00e4",
    "\\ud83d\\ude00",
    '\\"',
    "\\\\",
    "\\/",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "\\x",
    "\\b",
    "\\u12",
)
TIMES = (1_700_000_000_000, 0, -1, -2, 2**62, -(2**62), 9_224_318_016_000_000 // 1000, -210_866_803_200_001)
WORDS = [edge for edge in EDGES if len(edge) < 1_000]
LONG = [edge for edge in EDGES if len(edge) >= 1_000]


def make_layout(dice: random.Random) -> Layout:
    """A random declaration: nested, overlapping and required paths, every type, indexes, keys and tombstones."""
    fields = []
    for place in range(dice.randint(1, 8)):
        type_ = parse_type(dice.choice(EVERY_SPELLING))
        steps = STEPS if dice.random() < 0.1 else [f"{step}{place % 3}" for step in STEPS]
        path = tuple(dice.choice(steps) for _ in range(dice.choice((1, 1, 1, 2, 3))))
        if type_.family in ("json", "jsonb") and dice.random() < 0.1:
            path = ()
        unit = dice.choice(("s", "ms", "us")) if type_.family.startswith("timestamp") and dice.random() < 0.5 else None
        fields.append(Field(f"c{place}", type_, path, required=dice.random() < 0.3, unit=unit))
    key: KeyFormat | None = dice.choice((None, "text", "bytes"))
    names = [field.name for field in fields] + (["_key"] if key else [])
    indexes = [tuple(dice.sample(names, dice.randint(1, len(names)))) for _ in range(dice.choice((0, 0, 1, 2)))]
    tombstones = Tombstones((fields[0],), is_json=True) if dice.random() < 0.2 else None
    return Layout(tuple(fields), "json", key, tuple(indexes), tombstones)


def make_text(dice: random.Random) -> str:
    pieces = [dice.choice(CHARACTERS) for _ in range(dice.choice((0, 1, 3, 9, 30)))]
    if dice.random() < 0.2:
        pieces.insert(dice.randint(0, len(pieces)), dice.choice(ESCAPES))
    if dice.random() < 0.01:
        pieces = [dice.choice("xä")] * dice.choice((900, 1_300, 2_700))
    return '"' + "".join(pieces) + '"'


def make_number(dice: random.Random) -> str:
    digits = dice.choice((1, 2, 3, 5, 10, 15, 17, 18, 19, 20, 30, 37, 38, 39, 60))
    text = dice.choice(("", "", "", "-")) + str(dice.randint(0, 10**digits) // dice.choice((1, 10, 10**5)))
    if dice.random() < 0.5:
        text += "." + "".join(dice.choice("0000123456789") for _ in range(dice.choice((1, 2, 3, 6, 10, 18, 38))))
    if dice.random() < 0.2:
        text += (
            dice.choice("eE")
            + dice.choice(("", "+", "-"))
            + str(dice.choice((0, 1, 2, 5, 10, 38, 200, 308, 400, 5_000)))
        )
    return text


def make_moment(dice: random.Random) -> str:
    year = dice.choice((1, 1600, 1900, 1969, 1970, 2000, 2024, 9999, dice.randint(0, 9999)))
    day = f"{year:04}-{dice.randint(1, 12):02}-"
    day += f"{dice.choice((1, 28, 29, 30, 31, dice.randint(0, 40))):02}"
    clock = f"{dice.randint(0, 24):02}:{dice.choice((0, 59, dice.randint(0, 61))):02}"
    if dice.random() < 0.8:
        clock += f":{dice.choice((0, 59, dice.randint(0, 61))):02}"
        if dice.random() < 0.5:
            clock += "." + "".join(dice.choice("0123456789") for _ in range(dice.choice((0, 1, 3, 6, 7, 9))))
    zone = dice.choice(("", "Z", "Z", "+00:00", "-05:30", "+0100", "+02", "+24:00", "-23:59", "z"))
    return '"' + dice.choice((day, clock, day + "T" + clock, day + " " + clock, day + "T" + clock + zone)) + '"'


def make_any(dice: random.Random, depth: int = 0) -> str:
    makers: list[Callable[[random.Random], str]] = [make_text, make_number, make_moment, lambda _: dice.choice(WORDS)]
    if depth < 3 and dice.random() < 0.4:
        inner = [make_any(dice, depth + 1) for _ in range(dice.randint(0, 3))]
        if dice.random() < 0.5:
            return "[" + dice.choice((",", " , ", ",\n")).join(inner) + "]"
        return "{" + ", ".join(f"{make_text(dice)}: {value}" for value in inner) + "}"
    return dice.choice(makers)(dice)


def make_value(dice: random.Random, field: Field, noise: float) -> str:
    """The JSON of a column's value. With `noise` it is null, near to a value that fits, or anything."""
    if dice.random() >= noise:
        return make_fit(dice, field)
    chance = dice.random()
    if chance < 0.2:
        return "null"
    if chance < 0.4:
        return make_any(dice)
    if chance < 0.41:
        return dice.choice(LONG)
    return make_near(dice, field)


def make_fit(dice: random.Random, field: Field) -> str:
    """A value that fits its column."""
    return make_epoch(dice) if field.unit else FITS[field.type.family](dice, field.type)


def make_near(dice: random.Random, field: Field) -> str:
    """A value near to one that fits its column."""
    if field.unit:
        return dice.choice((str(dice.randint(-(10**19), 10**19)), make_number(dice)))
    return NEAR[field.type.family](dice, field.type)


def make_epoch(dice: random.Random) -> str:
    return str(dice.randint(-(10**9), 10**10)) + dice.choice(("", "", ".5", ".123456789"))


def fit_whole(dice: random.Random, type_: ColumnType) -> str:
    top = 2 ** (BITS[type_.family] - 1)
    return str(dice.choice((0, 1, top - 1, -top, dice.randint(-top, top - 1))))


def near_whole(dice: random.Random, type_: ColumnType) -> str:
    top = 2 ** (BITS[type_.family] - 1)
    return dice.choice((str(top), str(-top - 1), "-0", "1.0", "1e2", str(10 * top), "00", make_number(dice)))


def fit_float(dice: random.Random, _: ColumnType) -> str:
    return repr(dice.uniform(-1, 1) * 10 ** dice.randint(-30, 30))


def near_float(dice: random.Random, _: ColumnType) -> str:
    power = dice.choice((-323, -310, -46, -45, 38, 39, 307))
    return dice.choice((make_number(dice), repr(dice.uniform(-1, 1) * 10**power)))


def fit_numeric(dice: random.Random, type_: ColumnType) -> str:
    scale = type_.scale or 0
    text = str(dice.randint(0, 10 ** ((type_.precision or 1) - scale) - 1))
    text += f".{dice.randint(0, 10**scale - 1):0{scale}}" if scale else ""
    return dice.choice((text, f"-{text}", f'"{text}"', f"{text}e0", f"{text}0" if scale else text))


def near_numeric(dice: random.Random, _: ColumnType) -> str:
    return dice.choice((make_number(dice), f'"{make_number(dice)}"', f'"0{make_number(dice)}"'))


def fit_moment(dice: random.Random, type_: ColumnType) -> str:
    day = f"{dice.randint(1, 9999):04}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"
    clock = f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:{dice.randint(0, 59):02}"
    clock += dice.choice(("", ".5", ".1234567"))
    zone = dice.choice(("Z", "+01:00", "-0530"))
    moment = f"{day}{dice.choice('T ')}{clock}"
    texts = {"date": day, "time": clock, "timestamp": moment, "timestamptz": moment + zone}
    return f'"{texts[type_.family]}"'


def fit_text(dice: random.Random, type_: ColumnType) -> str:
    count = dice.randint(0, min(type_.length or 30, 30))
    return '"' + "".join(dice.choice(CHARACTERS) for _ in range(count)) + '"'


def fit_base64(dice: random.Random, _: ColumnType) -> str:
    return f'"{base64.b64encode(dice.randbytes(dice.randint(0, 9))).decode()}"'


def near_base64(dice: random.Random, _: ColumnType) -> str:
    text = base64.b64encode(dice.randbytes(dice.randint(1, 9))).decode()
    near = (text[:-1], text[:-1] + dice.choice("=A/-_ "), text + "=", text.replace("A", "B"))
    return f'"{dice.choice(near)}"'


def fit_uuid(dice: random.Random, _: ColumnType) -> str:
    return f'"{UUID(bytes=dice.randbytes(16))}"'


def near_uuid(dice: random.Random, _: ColumnType) -> str:
    text = str(UUID(bytes=dice.randbytes(16)))
    near = (text.upper(), text.replace("-", ""), text[:-1], "{" + text + "}", text[:-1] + "g")
    return f'"{dice.choice(near)}"'


def fit_document(dice: random.Random, _: ColumnType) -> str:
    return json.dumps({"a": [1, None, {"b": "x"}], "ä": dice.randint(0, 9) / 4}, ensure_ascii=dice.random() < 0.5)


BITS = {"smallint": 16, "integer": 32, "bigint": 64}
Make: TypeAlias = "Callable[[random.Random, ColumnType], str]"
# How a value is made that fits a group of types, and one that may not fit.
MAKERS: dict[tuple[Family, ...], tuple[Make, Make]] = {
    ("smallint", "integer", "bigint"): (fit_whole, near_whole),
    ("real", "double"): (fit_float, near_float),
    ("numeric",): (fit_numeric, near_numeric),
    ("date", "time", "timestamp", "timestamptz"): (fit_moment, lambda dice, _: make_moment(dice)),
    ("text", "varchar", "char"): (fit_text, lambda dice, _: make_text(dice)),
    ("boolean",): (lambda dice, _: dice.choice(("true", "false")), lambda dice, _: dice.choice(("1", '"true"', "tru"))),
    ("bytea",): (fit_base64, near_base64),
    ("uuid",): (fit_uuid, near_uuid),
    ("json", "jsonb"): (fit_document, lambda dice, _: make_any(dice)),
}
FITS = {family: fit for families, (fit, _) in MAKERS.items() for family in families}
NEAR = {family: near for families, (_, near) in MAKERS.items() for family in families}


def make_record(dice: random.Random, layout: Layout) -> bytes:
    """One record, whose members stand in the order of the declaration or in another one."""
    tree: dict[str, object] = {}
    root = ""
    noise = dice.choice((0, 0, 0.05, 0.3))
    for field in layout.fields:
        if not field.path:
            root = make_value(dice, field, noise)
        elif dice.random() < 0.95:
            node = tree
            for step in field.path[:-1]:
                found = node.setdefault(step, {})
                node = found if isinstance(found, dict) else {}
            if not isinstance(node.get(field.path[-1]), dict):
                node[field.path[-1]] = make_value(dice, field, noise)
    if root and dice.random() < 0.2:
        return root.encode(errors="surrogatepass")
    return write_object(dice, tree).encode(errors="surrogatepass")


def write_object(dice: random.Random, tree: dict[str, object]) -> str:
    members = []
    for name, value in tree.items():
        text = write_object(dice, value) if isinstance(value, dict) else str(value)
        members.append((json.dumps(name, ensure_ascii=dice.random() < 0.1), text))
    chance = dice.random()
    if chance < 0.1:
        members.append((make_text(dice), make_any(dice)))
    elif chance < 0.15:
        dice.shuffle(members)
    elif chance < 0.18 and members:
        members.append(dice.choice(members))
    elif chance < 0.2:
        return dice.choice(("null", "[]", make_any(dice)))
    space = dice.choice(("", "", " ", "\n\t "))
    return "{" + ",".join(f"{space}{name}{space}:{space}{value}{space}" for name, value in members) + "}"


def damage(dice: random.Random, record: bytes) -> bytes:
    """A record with some bytes removed, replaced, added, or exchanged."""
    at, until = sorted((dice.randint(0, len(record)), dice.randint(0, len(record))))
    chance = dice.random()
    if chance < 0.3:
        return record[:at] + dice.randbytes(dice.randint(0, 2)) + record[at + 1 :]
    if chance < 0.6:
        return (
            record[:at]
            + dice.choice(('"', "\\", "{", "}", "[", ",", "0", ".", "e", "-", " ", "\\u")).encode()
            + record[at:]
        )
    return record[:at] + record[until:] if chance < 0.8 else record[:at] + record[at:until] * 2 + record[until:]


def make_batch(dice: random.Random, layout: Layout, count: int = BATCH) -> Batch:
    records: list[bytes | None] = [make_record(dice, layout) for _ in range(count)]
    for place in range(count):
        chance = dice.random()
        if chance < 0.15:
            records[place] = damage(dice, records[place] or b"")
        elif chance < 0.152:
            records[place] = None
    keys = [
        dice.choice((None, b"", b"key", "ä".encode(), b"\xff", b"\0", b'{"a": 1}', b"k" * 2_700)) for _ in range(count)
    ]
    return make_batch_of(
        records, keys, [dice.choice(TIMES) if dice.random() < 0.01 else TIMES[0] for _ in range(count)]
    )


def make_batch_of(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None, times: Sequence[int] | None = None
) -> Batch:
    """A batch of partition 3 from offset 100 on."""
    count = len(values)
    return Batch(
        partition=3,
        offsets=np.arange(100, 100 + count),
        timestamps=np.array(times if times is not None else [TIMES[0]] * count, np.int64),
        values=values,
        keys=keys if keys is not None else [None] * count,
        headers=lambda _: [],
    )


def compare(layout: Layout, batch: Batch) -> int:
    """Compare both paths record by record; returns how many records Rust takes itself."""
    package = find_package()
    assert package is not None, "penstock_native is not installed"
    rows, uncertain, log_hash = RustEncoder(package, layout, 7).encode_certain(batch)
    decoded = Decoder(layout, 7).decode(batch)
    left = set((batch.offsets[uncertain]).tolist())
    wrong = [record.offset for record in decoded.rejected if record.offset not in left]
    assert not wrong, f"Rust takes {describe(layout, batch, wrong[0])}"
    is_kept = [offset not in left for offset in decoded.rows["_offset"].to_pylist()]
    kept = decoded.rows.filter(pa.array(is_kept, pa.bool_()))
    if rows != encode_rows(package, kept, row_types(layout)):
        raise AssertionError(find_difference(layout, batch, left))
    fingerprint = LogFingerprint()
    fingerprint.add_batch(batch)
    assert fingerprint.hash == log_hash
    compare_columns(RustDecoder(package, layout, 7).decode(batch)[0], decoded)
    return len(batch.offsets) - len(uncertain)


def compare_columns(found: Decoded, wanted: Decoded) -> None:
    """Compare the columns that a transform gets from both paths, and the rejected records."""
    for name in wanted.rows.schema.names:
        one, other = found.rows[name], wanted.rows[name]
        assert one.equals(other), f"column {name} of type {other.type}: {one} instead of {other}"
    assert found.rejected == wanted.rejected


def find_difference(layout: Layout, batch: Batch, left: set[int]) -> str:
    """Find the first record that both paths read differently."""
    package = find_package()
    assert package is not None
    for place, offset in enumerate(batch.offsets.tolist()):
        one = Batch(
            batch.partition, batch.offsets[place : place + 1], batch.timestamps[place : place + 1],
            [batch.values[place]], [batch.keys[place]], batch.headers,
        )  # fmt: skip
        rows, uncertain, _ = RustEncoder(package, layout, 7).encode_certain(one)
        if offset in left or uncertain:
            continue
        wanted = encode_rows(package, Decoder(layout, 7).decode(one).rows, row_types(layout))
        if rows != wanted:
            return f"different bytes: {rows!r} instead of {wanted!r} of {describe(layout, batch, offset)}"
    return "different bytes, only together"


def describe(layout: Layout, batch: Batch, offset: int) -> str:
    columns = [(field.type.sql, field.path, field.unit, field.required) for field in layout.fields]
    place = int(np.searchsorted(batch.offsets, offset))
    return f"{batch.values[place]!r} with key {batch.keys[place]!r} as {columns}, indexes {layout.indexes}"


def run(records: int, seed: int) -> int:
    """Compare so many random records; returns how many of them Rust takes itself."""
    dice = random.Random(seed)
    taken = 0
    for _ in range(-(-records // BATCH)):
        layout = make_layout(dice)
        taken += compare(layout, make_batch(dice, layout))
    return taken


def main(arguments: Sequence[str]) -> int:
    """Compare until the given number of records; prints the seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    chosen = parser.parse_args(arguments)
    sys.stdout.write(f"seed {chosen.seed}\n")
    began = time.monotonic()
    taken = run(chosen.records, chosen.seed)
    sys.stdout.write(
        f"{chosen.records:,} records in {time.monotonic() - began:.0f} s, {taken:,} taken by Rust, no difference\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
