"""Containers on nodes that are reached by ssh and pdsh: the supervisor of a node is in there, and is asked in there.

`tests/standins` stands in for podman, as in `tests/launchers/test_containers.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from conftest import PATIENCE
from hostile import ARGS, ENV, PROBE

ROOT = Path(__file__).parents[2]
STANDINS = ROOT / "tests/standins"
FAIL = """
import os, sys, time
print("in the image:", os.environ["IN_IMAGE"], flush=True)
if os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(3600)
"""


@pytest.fixture
def launch(lab: Lab, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run `ddpkit launch ARGS` in a folder of its own; the nodes' podman is the stand-in."""
    (tmp_path / "work").mkdir()
    (tmp_path / "images").mkdir()
    inside = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "IN_IMAGE": "yes"}
    image = {"env": inside, "hide": str(tmp_path / "work"), "greeting": "== a banner ==\n"}
    (tmp_path / "images/plain").write_text(json.dumps(image))
    start_up = lab.folder / "bashrc"
    before = start_up.read_text()
    start_up.write_text(f'export PATH="{STANDINS}:$PATH" STANDIN_IMAGES="{tmp_path}/images"\n{before}')

    def run(backend: str, *args: str) -> Any:
        words = ["-b", backend, "node1", "node2", "-n", "1", "-o", "container=plain", "-o", "container_runtime=podman"]
        argv = [sys.executable, "-m", "ddpkit", "launch", *words, *args]
        env = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return lab.run("login", *argv, cwd=tmp_path / "work", env=env, check=False, timeout=PATIENCE)

    yield run
    start_up.write_text(before)


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_hostile_words_arrive(backend: str, launch: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(PROBE)
    env = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    done = launch(backend, "-o", "starter=ranks", *env, "--", "job.py", *ARGS)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert json.loads((tmp_path / f"work/seen.{rank}").read_text()) == {"argv": ARGS, "env": ENV}


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_the_first_failure_ends_all(backend: str, lab: Lab, launch: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(FAIL)
    done = launch(backend, "-o", "starter=ranks", "--", "job.py")
    assert done.returncode == 7, done.stderr
    assert "rank 1 on node2 failed first" in done.stderr
    assert "in the image: yes" in done.stdout
    assert not [line for host in ("node1", "node2") for line in lab.processes(host).values() if "job.py" in line]


def test_an_image_that_is_not_there(launch: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(FAIL)
    (tmp_path / "images/plain").unlink()
    done = launch("ssh", "-o", "starter=ranks", "--", "job.py")
    assert done.returncode == 123, done.stderr
    assert "2 of 2 nodes failed the checks, and nothing was started" in done.stderr
    assert "plain" in done.stderr
