"""A rank under ddpkit is the same Python process as without ddpkit, but for what `docs/concepts.md` lists.

`DDPKIT_TORCH_PYTHONS="/venv-a/bin/python /venv-b/bin/python" pytest tests/node/test_unmodified.py` compares with other
versions of torch as well.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT

STATE = Path(__file__).with_name("python_state.py")
PYTHONS = [sys.executable, *os.environ.get("DDPKIT_TORCH_PYTHONS", "").split()]
HANDLER = 1 << (signal.SIGRTMIN + 11 - 1)
# Variables of the launcher's own; the others say where the rank is, or are defaults that a user may set.
OWN = {"DDPKIT_RUN"}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    return {name: each for key in value for name, each in flat(value[key], f"{path}/{key}").items()}


def differences(rank: dict[str, Any], bare: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not the same, as it is in the rank and without ddpkit."""
    one, other = flat(rank), flat(bare)
    return {
        path: (one.get(path, "absent"), other.get(path, "absent"))
        for path in sorted({*one, *other})
        if one.get(path, "absent") != other.get(path, "absent")
    }


def bare_states(python: str, folder: Path, environment: dict[str, str], words: list[str]) -> list[dict[str, Any]]:
    """The states of a run with the variables of a rank, but those of ddpkit's own."""
    env = {name: value for name, value in environment.items() if name not in OWN}
    command = [python, str(STATE), "bare.json", *words]
    stdin = subprocess.DEVNULL  # and a session of its own, as a rank
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=stdin, capture_output=True, start_new_session=True, check=False
    )
    assert done.returncode == 0, done.stderr
    states: list[dict[str, Any]] = json.loads((folder / "bare.json").read_text())
    return states


def compare(python: str, options: list[str], words: list[str], ddpkit: DDPKIT, folder: Path) -> list[dict[str, Any]]:
    """The differences at the script's begin, and after training. What differs between two bare runs is none."""
    done = ddpkit(
        "launch", "-n", "1", "--python", python, "--numa", "off", "--env", "PYTHONHASHSEED=0", *options,
        "--", str(STATE), "rank.json", *words,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ranks: list[dict[str, Any]] = json.loads((folder / "rank.json").read_text())
    bare, again = (bare_states(python, folder, ranks[0]["environment"], words) for _ in range(2))
    noise = [differences(*pair) for pair in zip(bare, again, strict=True)]
    assert all(len(each) < 50 for each in noise), noise
    found = [differences(rank, other) for rank, other in zip(ranks, bare, strict=True)]
    return [{path: one[path] for path in one.keys() - other.keys()} for one, other in zip(found, noise, strict=True)]


def check_remains(found: dict[str, tuple[Any, Any]]) -> None:
    """The handler of faulthandler, its file in memory, and the id of the run: nothing else."""
    rank, bare = found.pop("/signals/SigCgt")
    assert int(rank, 16) ^ int(bare, 16) == HANDLER
    rank, bare = found.pop("/descriptors")
    more = list(rank)
    for each in bare:
        more.remove(each)
    assert more == ["/memfd:ddpkit-N-N (deleted) inheritable False"]
    assert {path for path in found if path.startswith("/environment/")} == {f"/environment/{name}" for name in OWN}
    assert {path: pair for path, pair in found.items() if not path.startswith("/environment/")} == {}


@pytest.mark.parametrize("starter", ["ranks", pytest.param("torchrun", marks=pytest.mark.torch)])
def test_the_begin_of_a_script(starter: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (found,) = compare(sys.executable, ["-o", f"starter={starter}"], [], ddpkit, tmp_path)
    check_remains(found)


@pytest.mark.torch
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
@pytest.mark.thorough_for("torchrun")
def test_a_script_that_trained(starter: str, python: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    for found in compare(python, ["-o", f"starter={starter}"], ["torch"], ddpkit, tmp_path):
        check_remains(found)


@pytest.mark.torch
def test_what_is_observed_would_be_seen(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """The comparison finds each change that `--observe` makes, as the docs list them."""
    begin, trained = compare(sys.executable, ["--observe", "all"], ["torch"], ddpkit, tmp_path)
    assert "/hooks/meta_path" in begin
    modules = begin.pop("/hooks/modules", ([], []))[0]
    assert not [name for name in modules if name.partition(".")[0] == "ddpkit"]
    assert "/hooks/path_importer_cache" not in begin
    changed = {path.removeprefix("/attributes/") for path in trained}
    assert {"os._exit", "torch.distributed.rendezvous.rendezvous"} <= changed
    assert "torch.distributed.distributed_c10d._World.default_pg.fset" in changed
    assert {"torch.optim.optimizer._global_optimizer_post_hooks", "/threads/of the kernel", "/hooks/atexit"} <= changed


def test_nothing_at_all(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """With DDPKIT_DUMP=0 the handler and its file are not there either."""
    (found,) = compare(sys.executable, ["--env", "DDPKIT_DUMP=0"], [], ddpkit, tmp_path)
    assert set(found) == {f"/environment/{name}" for name in OWN}


TELLS = """
import json, os, sys
names = ("PYTHONPATH", "PWD", "DDPKIT_HOOK")
told = {"environment": {name: os.environ.get(name) for name in names}, "path": sys.path}
print("told", json.dumps(told), flush=True)
"""


def told(output: str) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(re.search(r"told (\{.*\})", output)[1])  # type: ignore[index]
    return state


@pytest.mark.new_python
@pytest.mark.torch
@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
@pytest.mark.thorough_for("torchrun")
@pytest.mark.parametrize(
    ("python_path", "flags"),
    [(":lib", []), ("lib:", []), ("lib", ["-I"]), ("lib", ["-sEB"]), ("lib", ["-W", "error", "-S"])],
    ids=["begin", "end", "I", "E", "S"],
)
def test_what_python_reads_of_the_environment(
    python_path: str, flags: list[str], starter: str, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """Also an empty entry, which is the current directory; and a Python with options that ignore PYTHONPATH or site."""
    (tmp_path / "tells.py").write_text(TELLS)
    command = [sys.executable, *flags, "tells.py"]
    env = {"PYTHONPATH": python_path, "PWD": str(tmp_path)}
    bare = subprocess.run(command, cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, check=True)
    done = ddpkit("launch", "-n", "1", "-o", f"starter={starter}", "--", *command, env=env)
    assert told(done.stdout) == told(bare.stdout), done.stdout + done.stderr


def test_the_directory_has_the_name_by_which_it_was_reached(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """As a shell and torchrun leave it; a directory that PWD does not lead to has its own name."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "tells.py").write_text(TELLS)
    link = tmp_path / "link"
    link.symlink_to("project")
    real = str(tmp_path / "project")
    for pwd, expected in ((str(link), str(link)), (str(tmp_path), real), ("project", real)):
        done = ddpkit("launch", "-n", "1", "--", "tells.py", cwd=link, env={"PWD": pwd})
        assert told(done.stdout)["environment"]["PWD"] == expected, done.stdout + done.stderr


# What torchrun tells its own processes, as docs/migrate/torchrun.md lists it: not of the place of a rank.
OF_TORCHRUN = {"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE"}
OF_TORCHRUN |= {"TORCH_NCCL_ASYNC_ERROR_HANDLING"}
ALIKE = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE"
ALIKE += " TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS"


@pytest.mark.torch
def test_a_rank_has_the_variables_of_torchrun(ddpkit: DDPKIT, tmp_path: Path) -> None:
    script = "import json, os, sys\njson.dump(dict(os.environ), open(sys.argv[1] + os.environ['RANK'], 'w'))\n"
    (tmp_path / "job.py").write_text(script)
    done = ddpkit("launch", "-n", "2", "--", "job.py", "rank")
    assert done.returncode == 0, done.stderr
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "job.py",
        "by_hand",
    ]
    subprocess.run(torchrun, cwd=tmp_path, check=True, capture_output=True)
    for number in "01":
        rank, other = (json.loads((tmp_path / f"{name}{number}").read_text()) for name in ("rank", "by_hand"))
        assert {name for name in other if name.startswith("TORCH")} - rank.keys() == OF_TORCHRUN
        assert {name: rank[name] for name in ALIKE.split()} == {name: other[name] for name in ALIKE.split()}


def test_retries_are_the_most_restarts(ddpkit: DDPKIT, tmp_path: Path) -> None:
    script = "import os\nprint('most', os.environ['TORCHELASTIC_MAX_RESTARTS'], flush=True)\nos._exit(75)\n"
    (tmp_path / "job.py").write_text(script)
    done = ddpkit("launch", "-n", "1", "--retries", "1", "--", "job.py")
    assert done.stdout.count("most 1") == 2, done.stdout + done.stderr
