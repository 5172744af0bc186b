"""The backend `pbs`, installed as a package and found by its entry point; its jobs run through a stand-in for PBS."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATIENCE = 120.0
COMMANDS = ("qsub", "qstat", "qdel", "qsig", "pbsdsh")
ARGS = ["a b", "it's", '"', "$HOME", "`id`", "%n%h", "*", "", "two\nlines", "\t", "ü", "--", "\\"]

WHO = """
import json, os
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS"
seen = {name: os.environ[name] for name in names.split()}
with open(f"who.{seen['RANK']}", "w") as file:
    json.dump({**seen, "host": os.uname().nodename}, file)
print("3: x" + "y" * 3000)
print("end of rank", seen["RANK"])
"""
# Ends when a file says how; on TERM it saves first, as a training script does.
WAITS = """
import os, signal, sys, time
rank = os.environ["RANK"]
def save(*_):
    open(f"saved.{rank}", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGUSR1, lambda *_: print("got USR1", flush=True))
print("ready", flush=True)
while not (os.path.exists("go") and rank == "3"):
    time.sleep(0.05)
print("last words", flush=True)
if len(sys.argv) > 1:
    os.kill(os.getpid(), int(sys.argv[1]))
sys.exit(7)
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it, in a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "ddpkit_pbs.py"):  # setuptools writes beside its sources
        (source / name).write_text((HERE.parent / name).read_text())
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*argv, "--target", str(target), str(source)], check=True, timeout=PATIENCE)
    return target


class Cluster:
    """Two hosts of a stand-in, and what is typed on its login node."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder, self.home = folder, folder / "pbs"
        self.home.mkdir()
        binaries = folder / "bin"
        binaries.mkdir()
        for name in COMMANDS:
            program = binaries / name
            program.write_text(f"#!{sys.executable}\n" + (HERE / "standin/pbs.py").read_text().partition("\n")[2])
            program.chmod(0o755)
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        self.env = {
            **kept,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": f"{site}:{ROOT}",
            "XDG_STATE_HOME": str(folder / "state"),
            "NO_COLOR": "1",
            "STANDIN_PBS_BIN": str(binaries),
            "STANDIN_PBS_HOME": str(self.home),
            "STANDIN_PBS_HOSTS": "localhost 127.0.0.2",
        }

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ddpkit", *args],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *args: str) -> tuple[int, str]:
        command = self.start(*args)
        text = command.communicate(timeout=PATIENCE)[0]
        return command.returncode, text

    def living(self) -> list[str]:
        """Command lines of processes in this cluster's folder, ranks among them."""
        found = []
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdigit() and (path / "cwd").readlink() == self.folder:
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return [line for line in found if "job.py" in line and "ddpkit launch" not in line]


def wait_until(event: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not event():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def read_until(command: subprocess.Popen[str], text: str, times: int = 1) -> str:
    """Lines of a command until `text` has come so many times. What takes too long is ended, and has failed."""
    assert command.stdout is not None
    seen = ""
    limit = threading.Timer(PATIENCE, command.terminate)
    limit.start()
    try:
        while seen.count(text) < times:
            line = command.stdout.readline()
            assert line, f"ended before {text!r}:\n{seen}"
            seen += line
    finally:
        limit.cancel()
    return seen


@pytest.fixture
def pbs(tmp_path: Path, site: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, site)
    yield cluster
    for path in cluster.home.glob("*/job.json"):
        if json.loads(path.read_text())["state"] != "F":
            subprocess.run(["qdel", path.parent.name], env=cluster.env, check=False)
    wait_until(
        lambda: all(json.loads(path.read_text())["state"] == "F" for path in cluster.home.glob("*/job.json")),
        "jobs that do not end",
    )


def test_it_is_found_by_its_entry_point(pbs: Cluster) -> None:
    code, text = pbs.run("backends")
    assert code == 0, text
    assert re.search(r"^ *pbs ", text, re.MULTILINE), text
    code, text = pbs.run("backends", "pbs")
    assert code == 0, text
    assert "A PBS job in which pbsdsh starts each rank" in text
    assert "walltime" in text
    code, text = pbs.run("launch", "-b", "pbs", "-o", "waltime=1:00:00", "--dry-run", "--", "true")
    assert code == 121, text
    assert "did you mean 'walltime'?" in text


def test_the_dry_run_is_the_golden_one(pbs: Cluster) -> None:
    (pbs.folder / "train.py").touch()
    options = "queue=workq account=team walltime=2:00:00 cpus_per_task=4 ngpus=2 mem=64gb".split()
    given = [word for option in options for word in ("-o", option)]
    words = ["-o", "setup=module load cuda", "--env", "NCCL_DEBUG=WARN", "--", "train.py", "--note", "it's $5"]
    code, text = pbs.run("launch", "-b", "pbs", "-N", "2", *given, "--dry-run", *words)
    assert code == 0, text
    text = text.replace(str(pbs.folder), "/data/project").replace(sys.executable, "/opt/venv/bin/python")
    text = re.sub(r"\d{8}-\d{6}-train-[0-9a-f]{4}", "20260131-235959-train-3fa9", text)
    golden = HERE / "golden.sh"
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    assert not list(pbs.home.glob("*/job.json")), "a dry run submits nothing"


def test_ranks_are_right(pbs: Cluster) -> None:
    (pbs.folder / "job.py").write_text(WHO)
    code, text = pbs.run("launch", "-b", "pbs", "-N", "2", "-n", "2", "--", "job.py")
    assert code == 0, text
    seen = [json.loads((pbs.folder / f"who.{rank}").read_text()) for rank in range(4)]
    assert len({who["MASTER_PORT"] for who in seen}) == 1
    for rank, who in enumerate(seen):
        assert (who["RANK"], who["WORLD_SIZE"], who["LOCAL_WORLD_SIZE"]) == (str(rank), "4", "2")
        assert (who["LOCAL_RANK"], who["NODE_RANK"]) == (str(rank % 2), str(rank // 2))
        assert who["GROUP_RANK"] == who["NODE_RANK"]
        assert (who["MASTER_ADDR"], who["OMP_NUM_THREADS"]) == ("localhost", "1")
        host = who["host"]
        assert f"[{rank} {host}] end of rank {rank}\n" in text
        assert f"[{rank} {host}] 3: x{'y' * 3000}\n" in text
    assert "ddpkit: done in" in text
    code, shown = pbs.run("logs", "--rank", "2")
    assert (code, "end of rank 2" in shown, "end of rank 1" in shown) == (0, True, False)
    code, shown = pbs.run("ps")
    assert "done" in shown


def test_hostile_words_arrive(pbs: Cluster) -> None:
    (pbs.folder / "job.py").write_text("import json, sys\njson.dump(sys.argv[1:], open('seen', 'w'))\n")
    code, text = pbs.run("launch", "-b", "pbs", "--", "job.py", *ARGS)
    assert code == 0, text
    assert json.loads((pbs.folder / "seen").read_text()) == ARGS


def test_a_secret_stands_in_no_file(pbs: Cluster) -> None:
    (pbs.folder / "job.py").write_text("import os\nprint('key ends in', os.environ['WANDB_API_KEY'][-4:])\n")
    pbs.env["WANDB_API_KEY"] = "deadbeef-0123"
    code, text = pbs.run("launch", "-b", "pbs", "--env", "WANDB_API_KEY", "--", "job.py")
    assert code == 0, text
    assert "key ends in 0123" in text
    for path in pbs.folder.glob("logs/**/*"):
        assert path.is_dir() or b"deadbeef" not in path.read_bytes(), path


@pytest.mark.parametrize(("how", "code", "words"), [((), 7, "exit code 7"), (("9",), 137, "killed by signal 9")])
def test_the_first_failure_ends_the_job(how: tuple[str, ...], code: int, words: str, pbs: Cluster) -> None:
    (pbs.folder / "job.py").write_text(WAITS)
    command = pbs.start("launch", "-b", "pbs", "-N", "2", "-n", "2", "--", "job.py", *how)
    text = read_until(command, "] ready", times=4)
    (pbs.folder / "go").touch()
    text += command.communicate(timeout=PATIENCE)[0]
    assert command.returncode == code, text
    (verdict,) = [line for line in text.splitlines() if "failed first" in line]
    assert "rank 3 on" in verdict
    assert words in verdict
    assert text.count("last words") == 1, text
    assert sorted(path.name for path in pbs.folder.glob("saved.*")) == ["saved.0", "saved.1", "saved.2"]
    assert pbs.living() == []
    (job,) = pbs.home.glob("*/job.json")
    assert json.loads(job.read_text())["exit"] == code


def test_stop_is_qdel_and_ranks_may_save(pbs: Cluster) -> None:
    (pbs.folder / "job.py").write_text(WAITS)
    code, text = pbs.run("launch", "-b", "pbs", "-N", "2", "-n", "2", "--detach", "--", "job.py")
    assert code == 0, text
    assert "; to stop it: ddpkit stop " in text
    wait_until(lambda: pbs.run("logs")[1].count("ready") == 4, "four ranks")
    code, text = pbs.run("status")
    assert "job 1.standin runs on localhost/0*2+127.0.0.2/0*2" in text, text
    assert pbs.run("stop", "--dry-run") == (0, "qdel 1.standin\n")
    code, text = pbs.run("stop")
    assert code == 0, text
    assert "stopped" in text
    assert sorted(path.name for path in pbs.folder.glob("saved.*")) == [f"saved.{rank}" for rank in range(4)]
    assert pbs.living() == []
    code, text = pbs.run("ps", "--json")
    assert [run["state"] for run in json.loads(text)["runs"]] == ["stopped"], text


def test_a_job_that_waits_says_why_and_a_signal_is_passed_on(pbs: Cluster) -> None:
    (pbs.folder / "job.py").write_text(WAITS)
    (pbs.home / "hold").write_text("Insufficient amount of resource: ngpus")
    command = pbs.start("launch", "-b", "pbs", "-N", "1", "-n", "4", "--", "job.py")
    read_until(command, "waits in the queue: Not Running: Insufficient amount of resource: ngpus")
    (pbs.home / "hold").unlink()
    read_until(command, "] ready", times=4)
    command.send_signal(signal.SIGUSR1)
    read_until(command, "] got USR1", times=4)
    (pbs.folder / "go").touch()
    text = command.communicate(timeout=PATIENCE)[0]
    assert command.returncode == 7, text


def test_what_cannot_run_as_requested_waits_until_its_user_ends_it(pbs: Cluster) -> None:
    command = pbs.start("launch", "-b", "pbs", "-N", "3", "--", "true")
    read_until(command, "Can Never Run: Insufficient amount of resource: ncpus, and cannot start as requested")
    command.send_signal(signal.SIGTERM)
    text = command.communicate(timeout=PATIENCE)[0]
    assert command.returncode == 143, text


def test_what_qsub_refuses(pbs: Cluster) -> None:
    code, text = pbs.run("launch", "-b", "pbs", "-o", "queue=nope", "--", "true")
    assert code == 123, text
    assert "qsub rejected the job: Unknown queue: nope" in text
    pbs.env["PATH"] = os.environ["PATH"]
    code, text = pbs.run("launch", "-b", "pbs", "--", "true")
    assert (code, "qsub not found on this machine" in text) == (123, True), text
