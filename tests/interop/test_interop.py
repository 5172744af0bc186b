"""Scripts of other libraries under every backend, in the lab: each library finds the ranks that ddpkit made.

`make test-interop` runs them with a Python of its own, which has the libraries and nothing of ddpkit.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster import LOGIN, Lab
from launching import wait_until_gone
from table import LIBRARIES, WAYS, Way, reason

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
PYTHON = Path(os.environ.get("DDPKIT_INTEROP_PYTHON", ROOT / ".venv-interop/bin/python"))
CELLS = Path(os.environ.get("DDPKIT_INTEROP_CELLS", ROOT / ".venv-interop/cells"))
PATIENCE = 540.0  # a library takes many seconds to import, on each rank
NPROC = 2
# Accelerate, and transformers with it, asks to be told that there is no GPU. DeepSpeed compiles into a folder.
USERS = {
    "ACCELERATE_USE_CPU": "true",
    "OMP_NUM_THREADS": "1",
    "TORCH_EXTENSIONS_DIR": str(PYTHON.parents[1] / "extensions"),
}
CLOSE = 1e-4  # rounding, over 24 or 48 steps
# Which of its environments Lightning finds, by who starts the ranks: the first two believe RANK or SLURM_PROCID.
LIGHTNING = {
    "ddpkit": "TorchElasticEnvironment",
    "torchrun": "TorchElasticEnvironment",
    "srun": "SLURMEnvironment",
}
SAID = re.compile(r"^\[(\d+) (\S+)\] interop (\{.*\})$", re.MULTILINE)

pytestmark = pytest.mark.interop


@dataclass(frozen=True, kw_only=True)
class Done:
    code: int
    text: str
    seconds: float


def launch(lab: Lab, folder: Path, way: Way, script: str, *args: str, **env: str) -> Done:
    """One `ddpkit launch` on the login host, to its end."""
    assert PYTHON.exists(), f"{PYTHON} is not there: make test-interop makes it"
    given = [word for name, value in {**USERS, **env}.items() for word in ("--env", f"{name}={value}")]
    words = ["launch", *way.words, "-n", str(NPROC), "--python", str(PYTHON), *given, "--", str(SCRIPTS / script)]
    command = [*way.before, sys.executable, "-m", "ddpkit", *words, *args]
    # Else each of a hundred launchers would compile ddpkit again.
    environ = {name: value for name, value in lab.environ().items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.monotonic()
    process = subprocess.Popen(
        lab.argv(LOGIN, command, folder),
        env={**environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        text, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        # The launcher, or the salloc before it, is nsenter's child. It ends its ranks.
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGTERM)
        text, _ = process.communicate()
        text = f"no end in {PATIENCE:g} s\n{text}"
    return Done(code=process.returncode, text=text, seconds=time.monotonic() - start)


def said(done: Done) -> list[dict[str, Any]]:
    """What the ranks said, in order, each line under the rank and host that ddpkit put in front."""
    found = sorted((int(rank), host, json.loads(text)) for rank, host, text in SAID.findall(done.text))
    for rank, host, words in found:
        assert words["env"]["RANK"] == str(rank), words
        assert words["host"] == host, words
    return [words for _, _, words in found]


def judge(done: Done, way: Way) -> None:
    """The library's ranks are the environment's, its sum is of all, and it trained one model with all their data."""
    assert done.code == 0, done.text
    ranks, world = said(done), NPROC * way.nnodes
    assert [words["rank"] for words in ranks] == list(range(world)), done.text
    for words in ranks:
        env = words["env"]
        assert words["rank"] == int(env["RANK"]), words
        assert words["local_rank"] == int(env["LOCAL_RANK"]) == words["rank"] % NPROC, words
        assert words["world_size"] == int(env["WORLD_SIZE"]) == world, words
        assert words["main"] is (words["rank"] == 0), words
        assert words.get("local_main", words["local_rank"] == 0) is (words["local_rank"] == 0), words
        assert words.get("node_rank", int(env["NODE_RANK"])) == int(env["NODE_RANK"]) == words["rank"] // NPROC, words
        assert words["device"] == words["placed"], words
        assert words["device"] in ("cpu", f"cuda:{words['local_rank']}"), words
        assert words["total"] == world * (world + 1) / 2, words
        # What one process learns of all ranks' batches: ranks that train by themselves are thousands of times farther.
        assert words["apart"] < CLOSE, f"apart from what one process learns: {words}"
        if "guessed" in words:
            assert words["guessed"] == LIGHTNING[way.by], words
        if "held" in words:  # a rank holds its shard, and no more
            assert words["held"] < words["whole"], words
        if "restored" in words:
            assert words["writers"] == list(range(world)), words
            assert words["restored"] == words["written"] != words["parameters"], words
    if "held" in ranks[0]:
        assert sum(words["held"] for words in ranks) == ranks[0]["whole"]
    hosts = [words["host"] for words in ranks]
    assert len(set(hosts)) == way.nnodes
    assert all(len(set(hosts[first : first + NPROC])) == 1 for first in range(0, world, NPROC)), hosts
    assert len({words["parameters"] for words in ranks}) == 1, [words["parameters"] for words in ranks]
    assert sum(words["losses"][1] for words in ranks) < sum(words["losses"][0] for words in ranks)


def keep(library: str, way: str, done: Done, problem: str) -> None:
    """Leave the cell for the table."""
    versions = re.findall(r'interop \{"library": "[^"]*", "version": "([^"]*)"', done.text)
    cell = {
        "library": library,
        "version": versions[0] if versions else "?",
        "way": way,
        "ok": not problem,
        "seconds": round(done.seconds, 1),
        "problem": problem,
    }
    CELLS.mkdir(parents=True, exist_ok=True)
    (CELLS / f"{library}-{way}.json".replace(" ", "_")).write_text(json.dumps(cell))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_library_finds_its_ranks(library: str, way: str, idle_lab: Lab, tmp_path: Path) -> None:
    its, how = LIBRARIES[library], WAYS[way]
    args = [word.format(nproc=NPROC, nnodes=how.nnodes) for word in its.args]
    done = launch(idle_lab, tmp_path, how, its.script, *args)
    try:
        judge(done, how)
    except AssertionError as problem:
        keep(library, way, done, reason(done.text, str(problem)))
        raise
    keep(library, way, done, "")


@pytest.mark.parametrize("library", ["Lightning Fabric", "Lightning Trainer"])
def test_ranks_of_one_node_in_a_job_script_are_not_tasks_of_slurm(library: str, idle_lab: Lab, tmp_path: Path) -> None:
    """There SLURM_PROCID is 0 and SLURM_NTASKS 2 for whoever reads it: Lightning would take both ranks for rank 0."""
    before = ("srun", "-N1", "-n1", "--overlap")
    for place in ((), before):
        way = Way(words=(), by="ddpkit", nnodes=1, before=("salloc", "-Q", "-N1", "--ntasks-per-node=2", *place))
        judge(launch(idle_lab, tmp_path, way, LIBRARIES[library].script, "2", "1"), way)


@pytest.mark.parametrize("way", ["ssh", "ssh ranks", "slurm job", "slurm-torchrun step"])
@pytest.mark.parametrize("library", ["Accelerate", "Lightning Trainer"])
def test_a_rank_that_fails_ends_the_run(library: str, way: str, idle_lab: Lab, tmp_path: Path) -> None:
    its, how = LIBRARIES[library], WAYS[way]
    args = [word.format(nproc=NPROC, nnodes=how.nnodes) for word in its.args]
    done = launch(idle_lab, tmp_path, how, its.script, *args, FAIL_ON_RANK="3")
    assert done.code == 1, done.text
    verdict = done.text[done.text.rindex("ddpkit: ") - 2000 :]
    assert re.search(r"rank 3\b.*exit code 1", verdict), done.text
    assert "no step for rank 3" in verdict, done.text
    wait_until_gone(idle_lab, its.script)


def test_without_a_word_that_there_is_no_gpu_accelerate_trains_alone(idle_lab: Lab, tmp_path: Path) -> None:
    """What the guide warns of. When this fails, Accelerate has learned it, and the guide's words can go."""
    way = WAYS["local torchrun"]
    done = launch(idle_lab, tmp_path, way, "hf_accelerate.py", ACCELERATE_USE_CPU="false")
    assert done.code == 0, done.text
    assert [words["world_size"] for words in said(done)] == [1, 1]
    with pytest.raises(AssertionError):
        judge(done, way)


def test_ranks_that_train_alone_and_do_not_say_so_are_found(idle_lab: Lab, tmp_path: Path) -> None:
    """All that they tell is right, and they end alike. Only the weights of one process with all batches are others."""
    done = launch(idle_lab, tmp_path, WAYS["local"], "alone.py")
    with pytest.raises(AssertionError, match="apart from what one process learns"):
        judge(done, WAYS["local"])
    assert min(words["apart"] for words in said(done)) > 100 * CLOSE, done.text


@pytest.mark.parametrize(("library", "way"), [("Lightning Fabric", "local"), ("Lightning Trainer", "ssh ranks")])
def test_lightning_compares_its_width_with_the_launch(library: str, way: str, idle_lab: Lab, tmp_path: Path) -> None:
    """One device a node, and two ranks there: else rank 0 of each node would train to the end without the others."""
    how = WAYS[way]
    done = launch(idle_lab, tmp_path, how, LIBRARIES[library].script, "1", str(how.nnodes))
    assert done.code == 1, done.text
    assert f"does not match the world size ({NPROC * how.nnodes})" in done.text, done.text
    assert not said(done), done.text


def test_lightning_trains_alone_where_it_is_told_of_one_device_and_no_strategy(idle_lab: Lab, tmp_path: Path) -> None:
    """What the guide warns of: on a CPU devices="auto" is 1. When this fails, the guide's words can go."""
    way = WAYS["local torchrun"]
    done = launch(idle_lab, tmp_path, way, "lightning_trainer.py", "auto", "1", "auto")
    assert done.code == 0, done.text
    assert [words["world_size"] for words in said(done)] == [1, 1]
    with pytest.raises(AssertionError):
        judge(done, way)
