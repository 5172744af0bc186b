"""What `ddpkit emit` prints is run for real where there is no ddpkit: over ssh, pdsh and SLURM, on two nodes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from hostile import ARGS, ENV, PROBE

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0
AGAIN = [pytest.mark.torch, pytest.mark.thorough]
HOSTILE = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
# Every way in, with a starter: the words of the launch.
RANKS = ["-o", "starter=ranks"]
WAYS = [
    pytest.param(["-b", "local"], id="local"),
    pytest.param(["-b", "ssh", "node1", "node2", *RANKS], id="ssh"),
    pytest.param(["-b", "pdsh", "node1", "node2", *RANKS], id="pdsh"),
    pytest.param(["-b", "slurm", "-N", "2"], id="slurm"),
    pytest.param(["-b", "ssh", "node1", "node2"], id="ssh-torchrun", marks=AGAIN),
    pytest.param(["-b", "pdsh", "node1", "node2"], id="pdsh-torchrun", marks=AGAIN),
    pytest.param(["-b", "legacy", "node1", "node2"], id="legacy", marks=AGAIN),
    pytest.param(["-b", "slurm-torchrun", "-N", "2"], id="slurm-torchrun", marks=AGAIN),
]
# The last rank ends with a code when all are there; the others, and a child in a session of its own, would stay.
DIES = """
import os, signal, subprocess, sys, time
from pathlib import Path

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if "SLURM_JOB_ID" not in os.environ:  # SLURM finds such a child with cgroups alone, which the lab has not
    subprocess.Popen(["sleep", "87654"], start_new_session=True)
Path(f"there.{rank}").touch()
if rank == world - 1 and sys.argv[1] != "stay":
    while len(list(Path().glob("there.*"))) < world:
        time.sleep(0.02)
    os._exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
"""


class Emitted:
    """A script made on the login host, and run there with nothing of ddpkit on PATH."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder

    def emit(self, way: list[str], before: list[str], script: list[str]) -> Path:
        argv = [sys.executable, "-m", "ddpkit", "emit", *way, "-n", "2", "--grace", "1", *before, "--", *script]
        path = self.folder / "run.sh"
        with path.open("wb") as file:
            done = subprocess.run(
                self.lab.argv("login", argv, self.folder),
                env={**self.lab.environ(), "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                timeout=PATIENCE,
                check=False,
            )
        assert done.returncode == 0, done.stderr.decode()
        checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert checker is not None
        checked = subprocess.run([checker, str(path)], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert checked.returncode == 0, checked.stdout
        assert str(ROOT / "ddpkit") not in path.read_text(errors="replace"), "a path into the package"
        assert not (self.folder / "logs").exists(), "nothing was started"
        return path

    def start(self, path: Path, **env: str) -> subprocess.Popen[str]:
        """Start it; a job is waited for by sbatch."""
        runs = ["sbatch", "--wait"] if "#SBATCH" in path.read_text(errors="replace") else ["bash"]
        environ = {**self.lab.environ(), "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **env}
        found = self.lab.argv("login", ["sh", "-c", "command -v ddpkit"], self.folder)
        assert subprocess.run(found, env=environ, stdout=subprocess.DEVNULL, check=False).returncode != 0
        return subprocess.Popen(
            self.lab.argv("login", ["setsid", "--wait", *runs, str(path)], self.folder),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )

    def run(self, path: Path, **env: str) -> tuple[int, str]:
        process = self.start(path, **env)
        text, _ = process.communicate(timeout=PATIENCE)
        for log in self.folder.glob("slurm-*.out"):
            text += log.read_text(errors="replace")
        return process.returncode, text

    def left(self) -> dict[str, list[str]]:
        """What still runs on each host of what was started here."""
        ours = ("job.py", "torch.distributed", "b64decode", "sleep 87654", "run.sh")
        hosts = ("node1", "node2", "login")
        found = {h: [line for line in self.lab.processes(h).values() if any(o in line for o in ours)] for h in hosts}
        return {host: lines for host, lines in found.items() if lines}


def wait_for(event: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not event():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def emitted(idle_lab: Lab, tmp_path: Path) -> Emitted:
    return Emitted(idle_lab, tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_hostile_words_arrive(way: list[str], emitted: Emitted) -> None:
    (emitted.folder / "job.py").write_text(PROBE)
    path = emitted.emit(way, HOSTILE, ["job.py", *ARGS])
    code, text = emitted.run(path)
    assert code == 0, text
    world = 2 if "local" in way else 4
    assert sorted(each.name for each in emitted.folder.glob("seen.*")) == [f"seen.{rank}" for rank in range(world)]
    for rank in range(world):
        seen = json.loads((emitted.folder / f"seen.{rank}").read_text())
        assert seen["argv"] == ARGS
        assert seen["env"] == ENV
    assert not (emitted.folder / "pwned").exists()
    wait_for(lambda: not emitted.left())


@pytest.mark.parametrize("way", WAYS)
def test_the_first_failure_ends_all(way: list[str], emitted: Emitted) -> None:
    (emitted.folder / "job.py").write_text(DIES)
    path = emitted.emit(way, [], ["job.py", "7"])
    begun = time.monotonic()
    code, text = emitted.run(path)
    assert code == 7, text
    if "slurm" not in way[1]:
        assert "the first to fail was rank " + ("1 on login" if "local" in way else "3 on node2") in text
    # SLURM gives ranks that do not obey its KillWait, and sbatch --wait looks rarely; torchrun alone waits for 300 s.
    assert time.monotonic() - begun < 200
    wait_for(lambda: not emitted.left())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("way", WAYS[:3])
@pytest.mark.thorough_for("ssh-2", "pdsh-2", "pdsh-15", "local-2")
def test_its_end_is_the_end_of_all(way: list[str], number: signal.Signals, emitted: Emitted) -> None:
    (emitted.folder / "job.py").write_text(DIES)
    path = emitted.emit(way, [], ["job.py", "stay"])
    process = emitted.start(path)
    world = 2 if "local" in way else 4
    wait_for(lambda: len(list(emitted.folder.glob("there.*"))) == world or process.poll() is not None)
    assert process.poll() is None, process.communicate()[0]
    pids = sorted(pid for pid, line in emitted.lab.processes("login").items() if line.endswith(f"bash {path}"))
    emitted.lab.run("login", "kill", f"-{number.value}", str(pids[0]))
    text, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(number, -9), text
    wait_for(lambda: not emitted.left())


@pytest.mark.parametrize("way", WAYS[:4])
def test_secrets_come_from_the_environment(way: list[str], emitted: Emitted) -> None:
    (emitted.folder / "job.py").write_text(
        "import os\nopen('key.' + os.environ['RANK'], 'w').write(os.environ['WANDB_API_KEY'])\n"
    )
    path = emitted.emit(way, ["--env", "WANDB_API_KEY=never-written"], ["job.py"])
    assert "never-written" not in path.read_text()
    code, text = emitted.run(path)
    assert code != 0
    assert "WANDB_API_KEY" in text
    assert not list(emitted.folder.glob("key.*"))
    code, text = emitted.run(path, WANDB_API_KEY="it's $a 'secret'")
    assert code == 0, text
    assert {each.read_text() for each in emitted.folder.glob("key.*")} == {"it's $a 'secret'"}


def test_a_node_that_is_gone(emitted: Emitted) -> None:
    (emitted.folder / "job.py").write_text(DIES)
    path = emitted.emit(["-b", "ssh", "node1", "node2", *RANKS], [], ["job.py", "stay"])
    path.write_text(path.read_text().replace("ConnectTimeout=5 node2", "ConnectTimeout=5 node99"))
    code, text = emitted.run(path)
    assert code == 255, text
    assert "the first to fail was node2 (ssh has no connection to it)" in text
    wait_for(lambda: not emitted.left())


STANDINS = ROOT / "tests/standins"
INSIDE = [
    pytest.param("slurm", "apptainer", id="apptainer"),
    pytest.param("slurm", "enroot", id="enroot", marks=AGAIN),
    pytest.param("slurm", "pyxis", id="pyxis", marks=AGAIN),
    pytest.param("slurm-torchrun", "apptainer", id="torchrun-apptainer", marks=AGAIN),
]


@pytest.mark.parametrize(("backend", "runtime"), INSIDE)
def test_a_job_in_containers(backend: str, runtime: str, idle_lab: Lab, tmp_path: Path) -> None:
    """The words and the variables arrive inside, and the first failure is the job's exit code."""
    for name in ("work", "images", "bin"):
        (tmp_path / name).mkdir()
    bins = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    image = tmp_path / "images" / ("torch.sif" if runtime == "apptainer" else "torch.sqsh")
    # What an image does not see by itself is hidden from it.
    image.write_text(json.dumps({"env": {"PATH": bins, "RANK": "9"}, "hide": str(tmp_path / "work")}))
    for name in ("enroot", "apptainer", *(["srun"] if runtime == "pyxis" else [])):
        (tmp_path / "bin" / name).symlink_to(STANDINS / name)
    emitted = Emitted(idle_lab, tmp_path / "work")
    way = ["-b", backend, "-N", "2", "-o", f"container={image}", "-o", f"container_runtime={runtime}"]
    way += ["-o", f"container_name={tmp_path.name}"] if runtime == "enroot" else []
    there = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin:/usr/sbin:/sbin", "ENROOT_DATA_PATH": f"{tmp_path}/enroot"}
    (emitted.folder / "job.py").write_text(PROBE)
    path = emitted.emit(way, ["--env", "MINE=it's $5; *"], ["job.py", *ARGS])
    try:
        done, text = emitted.run(path, **there)
        assert done == 0, text
        for rank in range(4):
            seen = json.loads((emitted.folder / f"seen.{rank}").read_text())
            assert seen["argv"] == ARGS
        (emitted.folder / "job.py").write_text(
            "import os, sys, time\nif os.environ['RANK'] == '2':\n    assert os.environ['MINE'] == \"it's $5; *\"\n"
            "    sys.exit(7)\ntime.sleep(3600)\n"
        )
        done, text = emitted.run(path, **there)
        assert done == 7, text
    finally:
        Path(f"/tmp/ddpkit-{os.getuid()}-{tmp_path.name}.lock").unlink(missing_ok=True)
