"""Printed texts that lead to an entry of the catalogue: for each id, pairs of a text and its source.

Each file has the name of the catalogue's module whose entries it is for. `== ID` begins an entry, `-- SOURCE` an
example: the lines after it are what was printed. A source is a public link, or a version and one of `run`, `source` and
`documented`: "torch 2.6, run".
"""

from pathlib import Path


def _read(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    entries = {}
    for block in text.removeprefix("== ").removesuffix("\n").split("\n== "):
        name, *examples = block.split("\n-- ")
        assert name not in entries, f"{name} is there twice"
        pairs = (each.split("\n", 1) for each in examples)
        entries[name] = tuple((printed, source) for source, printed in pairs)
    return entries


EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {}
for _path in sorted(Path(__file__).parent.glob("*.txt")):
    _examples = _read(_path.read_text(encoding="utf-8"))
    assert EXAMPLES.keys().isdisjoint(_examples), f"{_path.name}: the id has examples in another file"
    EXAMPLES |= _examples
