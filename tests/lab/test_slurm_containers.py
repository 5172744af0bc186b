"""`ddpkit launch` on a real SLURM, its ranks in containers that stand-ins for enroot, pyxis and apptainer hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Lab
from hostile import ARGS
from launching import BACKENDS, SALLOC, Launch, on_nodes, wait_until_gone

STANDINS = Path(__file__).parents[1] / "standins"
RUNTIMES = ["enroot", "pyxis", "apptainer"]
torch = pytest.mark.torch
Start = Callable[..., Launch]

REDUCE = """
import json, os, sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
with open("seen." + os.environ["RANK"], "w") as file:
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "total": total.item()}, file)
dist.destroy_process_group()
"""
FAIL = """
import os, sys, time
print("ready", flush=True)
while os.environ["RANK"] == "3":
    if os.path.exists("go"):
        sys.exit(7)
    time.sleep(0.02)
time.sleep(3600)
"""


@pytest.fixture
def inside(idle_lab: Lab, tmp_path: Path) -> Iterator[Start]:
    """Start `ddpkit launch` on the login host, in a folder that a container does not see by itself."""
    for name in ("work", "images"):
        (tmp_path / name).mkdir()
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    image = {"env": {"PATH": path, "NCCL_DEBUG": "IMAGE", "RANK": "9"}, "hide": str(tmp_path / "work")}
    for name in ("torch.sqsh", "torch.sif"):
        (tmp_path / "images" / name).write_text(json.dumps(image))
    # pyxis is a plugin of srun: where it is not wanted, neither is its stand-in.
    for name in ("enroot", "apptainer", "srun"):
        folder = tmp_path / "bin" / ("pyxis" if name == "srun" else "all")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(STANDINS / name)
    started: list[Launch] = []

    def run(runtime: str, *args: str, before: tuple[str, ...] = ()) -> Launch:
        bins = f"{tmp_path}/bin/all:{tmp_path}/bin/{runtime}:{idle_lab.environ()['PATH']}"
        env = ["env", f"PATH={bins}", f"ENROOT_DATA_PATH={tmp_path}/enroot", "WANDB_API_KEY=key-0123"]
        image = tmp_path / "images" / ("torch.sif" if runtime == "apptainer" else "torch.sqsh")
        words = ["-o", f"container={image}", "-o", f"container_runtime={runtime}", "-N", "2", "-n", "2"]
        words += ["-o", f"container_name={tmp_path.name}"] if runtime == "enroot" else []
        started.append(Launch(idle_lab, tmp_path / "work", [*words, *args], [*env, *before]))
        return started[-1]

    yield run
    for each in started:
        each.close()
    Path(f"/tmp/ddpkit-{os.getuid()}-{tmp_path.name}.lock").unlink(missing_ok=True)
    shutil.rmtree(tmp_path / "enroot", ignore_errors=True)


@torch
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "before", [pytest.param((), id="login"), pytest.param(tuple(SALLOC), id="salloc", marks=pytest.mark.thorough)]
)
@pytest.mark.thorough_for(
    "login-torchrun-enroot",
    "login-torchrun-apptainer",
    "login-preload-pyxis",
    "login-preload-enroot",
    "login-srun-apptainer",
)
@pytest.mark.thorough_for("login-srun-pyxis")
def test_ranks_meet(backend: str, runtime: str, before: tuple[str, ...], inside: Start, tmp_path: Path) -> None:
    """Two nodes, two ranks on each; the words, the variables and the whole torch set are inside."""
    (tmp_path / "work/job.py").write_text(REDUCE)
    given = ["--env", "NCCL_DEBUG=WARN", "--env", "MINE=it's $5; *", "--env", "WANDB_API_KEY"]
    command = inside(runtime, "-b", backend, *given, "--observe", "start", "--", "job.py", *ARGS, before=before)
    assert command.end() == 0, command.tail
    for rank in range(4):
        seen = json.loads((tmp_path / f"work/seen.{rank}").read_text())
        assert seen["argv"] == ARGS
        assert seen["total"] == 10
        wanted: dict[str, object] = {}
        wanted |= {"RANK": rank, "LOCAL_RANK": rank % 2, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 2, "NODE_RANK": rank // 2}
        wanted |= {"NCCL_DEBUG": "WARN", "MINE": "it's $5; *", "WANDB_API_KEY": "key-0123"}
        assert {name: seen["env"].get(name) for name in wanted} == {name: str(value) for name, value in wanted.items()}
    for path in filter(Path.is_file, (tmp_path / "work").glob("logs/*/**/*")):
        assert b"key-0123" not in path.read_bytes(), path
    (marks,) = (tmp_path / "work").glob("logs/*/marks/events")
    events = [json.loads(line) for line in marks.read_text().splitlines()]
    assert {each["rank"] for each in events if (each["e"], each.get("name")) == ("mark", "group")} == {0, 1, 2, 3}
    if runtime == "enroot":  # its own output is not a rank's
        spoken = [line for line in command.lines if "[INFO] Extracting" in line]
        assert len(spoken) == 2, command.text
        assert all(re.match(r"\[enroot (node[12]|\?)\] ", line) for line in spoken)
        for log in (tmp_path / "work").glob("logs/*/rank_*.log"):
            assert "[INFO]" not in log.read_text()
            assert "begins" not in log.read_text()
    if runtime == "enroot":  # made once on each node, however many ranks asked for it
        calls = (tmp_path / "enroot/calls").read_text().splitlines()
        assert len([call for call in calls if call.endswith(" create")]) == 2
        assert len([call for call in calls if call.endswith(" start")]) == (4 if backend == "slurm" else 2)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.thorough_for("torchrun-apptainer", "torchrun-enroot", "preload-pyxis", "preload-apptainer")
def test_first_failure(backend: str, runtime: str, inside: Start, tmp_path: Path, idle_lab: Lab) -> None:
    (tmp_path / "work/job.py").write_text(FAIL)
    command = inside(runtime, "-b", backend, "--", "job.py")
    command.wait_for("] ready", times=4)
    assert set(on_nodes(idle_lab, "job.py")) == {"node1", "node2"}
    (tmp_path / "work/go").touch()
    assert command.end() == 7, command.tail
    (verdict,) = [line for line in command.lines if "failed first" in line]
    assert "rank 3 on node2" in verdict
    wait_until_gone(idle_lab, "job.py")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_stop_gives_the_ranks_their_grace(runtime: str, inside: Start, tmp_path: Path, idle_lab: Lab) -> None:
    text = "import signal, sys, time\n"
    text += "signal.signal(signal.SIGTERM, lambda *_: (print('saving', flush=True), sys.exit(0)))\n"
    (tmp_path / "work/job.py").write_text(text + "print('ready', flush=True)\nwhile True:\n    time.sleep(3600)\n")
    command = inside(runtime, "-b", "slurm", "--", "job.py", before=tuple(SALLOC))
    command.wait_for("] ready", times=4)
    command.signal(idle_lab, 15)
    assert command.end() == 143, command.tail
    # SLURM signals every process of a step, and apptainer passes on what it gets: a rank may be told twice.
    assert all(any(line.startswith(f"[{rank} ") and "] saving" in line for line in command.lines) for rank in range(4))
    wait_until_gone(idle_lab, "job.py")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_that_does_not_start(runtime: str, inside: Start, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text("open('ran', 'w')\n")
    missing = tmp_path / "images" / ("no.sif" if runtime == "apptainer" else "no.sqsh")
    command = inside(runtime, "-b", "slurm", "-o", f"container={missing}", "--", "job.py")
    assert command.end() != 0
    assert str(missing) in command.text
    assert not (tmp_path / "work/ran").exists()
