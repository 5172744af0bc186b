"""The examples of the Python interface: the sweep's table, and the notebook's cells."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any

import pytest
from program import MARK, PATIENCE, marked, run_to_end, wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.live


def test_the_sweep_prints_a_table(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    done = run_to_end([sys.executable, str(EXAMPLES / "sweep.py")], cwd=tmp_path, env=clean_environ, check=True)
    head, *rows, _ = done.stdout.splitlines()
    assert head.split() == ["rate", "state", "code", "seconds", "loss"]
    assert [row.split()[:3] for row in rows] == [["0.1", "done", "0"], ["0.3", "done", "0"], ["1.5", "failed", "1"]]
    assert "FloatingPointError: loss is" in rows[2]
    assert "rank " in rows[2]
    assert done.stderr == ""
    assert len(list((tmp_path / "logs").iterdir())) == 3


@pytest.fixture
def client(tmp_path: Path, clean_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A notebook's client whose kernel has its folder and environment from the test."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    mark = f"kernel {secrets.token_hex(8)}"
    env = {**clean_environ, MARK: mark, "IPYTHONDIR": str(tmp_path / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    made = nbclient.NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}})
    made.ddpkit_env, made.ddpkit_mark = env, mark
    return made


def shown(cell: Any) -> str:
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])
    )


@pytest.mark.filterwarnings("default")
def test_the_notebook_runs(client: Any) -> None:
    client.execute(env=client.ddpkit_env)
    cells = [shown(cell) for cell in client.nb.cells if cell.cell_type == "code"]
    assert cells[0] == "done 0\n"
    assert sorted(line.partition("] ")[2] for line in cells[1].splitlines()) == [
        "hello from rank 0 of 2",
        "hello from rank 1 of 2",
    ]
    assert "rank 1 on " in cells[2]
    assert "ValueError: no data for rank 1" in cells[2]
    assert cells[3] == "still running\nstopped\n"
    assert cells[4].startswith("#!/bin/sh\n# ddpkit run ")
    wait_until(lambda: not marked(client.ddpkit_mark), lambda: marked(client.ddpkit_mark))


@pytest.mark.filterwarnings("default")
def test_the_notebook_of_calls_runs(client: Any) -> None:
    client.nb = __import__("nbformat").read(EXAMPLES / "calls.ipynb", as_version=4)
    client.execute(env=client.ddpkit_env)
    cells = [shown(cell) for cell in client.nb.cells if cell.cell_type == "code"]
    assert cells[0] == "[270, 640]"
    assert sorted(line.partition("] ")[2] for line in cells[1].splitlines()) == ["rank 0 calls", "rank 1 calls"]
    assert cells[2].startswith("1 ValueError no data\nrank 1 on ")
    assert cells[3] == "1 [10]\n2 [40]\n3 [90]\n"
    assert cells[4] == "[10]"
    wait_until(lambda: not marked(client.ddpkit_mark), lambda: marked(client.ddpkit_mark))
