"""The drills of the examples, and the table of what they survive, which is filled by real drills alone.

`make test-interop` leaves one file for each example in a folder. As a program this puts them into `drills.json`, and
prints the table: drills.py FOLDER.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TABLE = Path(__file__).parent / "drills.json"
ROWS = ("clean", "exit", "usr1", "term", "kill", "stop", "save-kill", "disk", "resume", "slow")  # `node` needs hosts
EXAMPLES = {  # each with the distribution of its library
    "ddp": "torch",
    "fsdp2": "torch",
    "lightning": "lightning",
    "accelerate": "accelerate",
    "hf_trainer": "transformers",
    "deepspeed": "deepspeed",
}
NOT_TRIED = "not tried"

Table = dict[str, dict[str, str]]  # by example: the version of its library, and the state of each row


def read() -> Table:
    """The table of the last drills."""
    return dict(json.loads(TABLE.read_text())) if TABLE.exists() else {}


def merge(table: Table, drills: Table) -> Table:
    """The table with these drills in place of older ones. A row that was not tried stays as it was."""
    found = {name: dict(row) for name, row in table.items()}
    for name, row in drills.items():
        old = found.setdefault(name, {})
        old |= {each: state for each, state in row.items() if state != NOT_TRIED or each not in old}
    return {name: found[name] for name in EXAMPLES if name in found}


def render(table: Table) -> str:
    """The table as it stands in the guide."""
    lines = [f"| example | {' | '.join(f'`{row}`' for row in ROWS)} |", "|" + "---|" * (len(ROWS) + 1)]
    for name, row in table.items():
        lines.append(f"| {name}, {EXAMPLES[name]} {row['version']} | {' | '.join(row[each] for each in ROWS)} |")
    return "\n".join(lines) + "\n"


def main(folder: Path) -> None:
    table = merge(read(), {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))})
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    print(render(table))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
