"""`ddpkit drill` of each example: what it survives is what the table in docs/how-to/drill.md says.

`make test-interop` runs them. A drill starts its script about 15 times, and takes minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import drills
import pytest
from test_interop import CELLS, PYTHON, ROOT, USERS

pytestmark = pytest.mark.interop


def version(distribution: str) -> str:
    program = f"from importlib.metadata import version; print(version({distribution!r}))"
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip().partition("+")[0]


@pytest.mark.parametrize("name", drills.EXAMPLES)
def test_an_example_survives_what_the_guide_says(name: str, clean_environ: dict[str, str], tmp_path: Path) -> None:
    library, arguments = drills.EXAMPLES[name]
    place = ("--python", str(PYTHON), "--env", f"TORCH_EXTENSIONS_DIR={USERS['TORCH_EXTENSIONS_DIR']}")
    script = (str(ROOT / "examples" / name / "train.py"), *arguments.split())
    argv = [sys.executable, "-m", "ddpkit", "drill", *drills.OPTIONS, *place, "--json", "--", *script]
    done = subprocess.run(argv, env=clean_environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    rows = {row["row"]: row for row in json.loads(done.stdout)["rows"]}
    states = {name: rows[name]["state"] for name in drills.ROWS}
    folder = CELLS / "drills"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"version": version(library), **states}))
    tried = {row: state for row, state in states.items() if state != drills.NOT_TRIED}
    known = drills.read().get(name, {})
    assert tried == {row: known.get(row) for row in tried}, json.dumps(rows, indent=1)
