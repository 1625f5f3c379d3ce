"""The jars that pom.xml names: their folder, and the check of their pinned checksums."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from penstock.errors import WrongUseError

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / ".jars"
CHECKSUMS = PROJECT / "jars.sha256"


def find_jars(use: str, folder: Path = FOLDER) -> list[Path]:
    """Find the jars of one use: broker, spark or bench."""
    found = sorted((folder / use).glob("*.jar"))
    if not found:
        raise WrongUseError(f"the jars in {folder / use} are missing.", next_step="run `make setup`.")
    return found


def verify_jars(folder: Path = FOLDER, checksums: Path = CHECKSUMS) -> int:
    """Compare every jar with its pinned checksum, refuse a changed, missing or extra jar, and return their number."""
    pinned = read_checksums(checksums)
    present = {str(path.relative_to(folder)): path for path in sorted(folder.glob("*/*.jar"))}
    wrong = [f"{name} is missing" for name in pinned.keys() - present.keys()]
    wrong += [f"{name} is not pinned" for name in present.keys() - pinned.keys()]
    wrong += [
        f"{name} has another checksum than the pinned one"
        for name in pinned.keys() & present.keys()
        if digest(present[name]) != pinned[name]
    ]
    if wrong:
        raise WrongUseError(
            f"the jars are not the pinned ones: {'; '.join(sorted(wrong))}.",
            next_step=f"remove {folder} and run `make setup`; never use these jars.",
        )
    return len(pinned)


def read_checksums(path: Path) -> dict[str, str]:
    """Read lines in the format of sha256sum: the digest, two blanks, the name."""
    lines = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    return {name.strip(): digest for digest, name in lines}


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main(argv: list[str]) -> int:
    """Check the jars of a folder, by default the project's, and print one line."""
    try:
        count = verify_jars(Path(argv[0]) if argv else FOLDER)
    except WrongUseError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stderr.write(f"{count} jars are the pinned ones\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
