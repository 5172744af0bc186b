"""The drill that each example's README names: what survives is what the table in docs/how-to/drill.md says.

`make test-interop` runs them. A drill starts its script about 15 times, and takes 5 to 15 minutes.
"""

from __future__ import annotations

import json
import re
import shlex
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
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (written,) = re.findall(r"^ddpkit (drill .*)$", (ROOT / "examples" / name / "README.md").read_text(), re.MULTILINE)
    place = ("--python", str(PYTHON), "--env", f"TORCH_EXTENSIONS_DIR={USERS['TORCH_EXTENSIONS_DIR']}")
    options = ("--json", "--no-preflight", "--grace", "60", *place)
    argv = [sys.executable, "-m", "ddpkit", "drill", *options, *shlex.split(written)[1:]]
    done = subprocess.run(argv, env=clean_environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    rows = {row["row"]: row for row in json.loads(done.stdout)["rows"]}
    states = {row: rows[row]["state"] for row in drills.ROWS}
    folder = CELLS / "drills"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"version": version(drills.EXAMPLES[name]), **states}))
    tried = {row: state for row, state in states.items() if state != drills.NOT_TRIED}
    known = drills.read().get(name, {})
    assert tried == {row: known.get(row) for row in tried}, json.dumps(rows, indent=1)
