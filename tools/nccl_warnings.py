"""List NCCL's warnings that the catalogue of known failures does not match, for a new version of NCCL.

    git clone --depth 1 --branch v2.28.9-1 https://github.com/NVIDIA/nccl
    python tools/nccl_warnings.py nccl

Each warning is a format of `WARN(` in the source. Its fields are filled with examples before the catalogue is searched.
Not every warning needs an entry: choose those that a user can cause, or can fix.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ddpkit.diagnosis.catalogue import ENTRIES
from ddpkit.diagnosis.catalogue.matcher import Matcher

SOURCES = (".c", ".cc", ".cu", ".cpp", ".h", ".hpp")
LITERAL = r'"(?:[^"\\]|\\.)*"'
# The format: string literals, with macros such as PRIx64 and parameters of macros between them.
WARNING = re.compile(rf"\bWARN\(\s*({LITERAL}(?:{LITERAL}|\s|\w+)*)[,)]")
FIELD = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?([a-zA-Z%])")
EXAMPLES = {"%": "%", "s": "word", "c": "c", "p": "0x7f0000000000", "x": "1a", "X": "1A", "f": "1.0", "g": "1.0"}


def formats(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the format of each warning in a C or C++ source."""
    for found in WARNING.finditer(text):
        parts = [text_of(part) for part in re.findall(rf"{LITERAL}|\w+", found[1])]
        yield text.count("\n", 0, found.start()) + 1, "".join(parts).strip()


def text_of(part: str) -> str:
    """Return the text of a string literal, the letter of a macro such as PRIx64, else an example."""
    if part.startswith('"'):
        return part[1:-1].replace('\\"', '"').replace("\\n", " ")
    return part[3] if part.startswith("PRI") else "word"


def example(form: str) -> str:
    """Return the warning with an example in each field, as a log has it."""
    return "NCCL WARN " + FIELD.sub(lambda field: EXAMPLES.get(field[1], "1"), form)


def unmatched(root: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and format of each warning below `root` that no pattern matches."""
    matcher = Matcher.of([each for each in ENTRIES if each.id != "nccl-warning"])  # it matches each of them
    for path in sorted(each for each in root.rglob("*") if each.suffix in SOURCES):
        for line, form in formats(path.read_text(errors="replace")):
            if matcher.best(example(form)) is None:
                yield path.relative_to(root), line, form


def main(argv: list[str]) -> int:
    """Print the warnings without an entry, and their number."""
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        sys.stderr.write(f"usage: {Path(__file__).name} DIRECTORY_OF_NCCL\n")
        return 2
    found = list(unmatched(Path(argv[0])))
    for path, line, form in found:
        print(f"{path}:{line}: {form}")
    print(f"{len(found)} warnings without an entry")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
