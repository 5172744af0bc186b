"""`--stage` in SLURM jobs: `sbcast` brings an archive to the nodes, which unpack it once, before the ranks start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import conda_prefix
import pytest
from cluster import NODES, Lab
from launching import DDPKIT, ROOT, SALLOC, Launch, torch
from test_heal import JOB as HEALED
from test_heal_slurm import SALLOC as WITH_SPARE

STAGE = "ddpkit-stage-0"
JOB = """
import os, sys
import part
print("ran", os.environ["RANK"], os.uname().nodename, part.TEXT, part.__file__, os.getcwd(), sys.prefix, flush=True)
"""


@pytest.fixture
def disk(idle_lab: Lab, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project on the shared disk, and a small disk of each node."""
    place = tmp_path_factory.mktemp("local")
    (folder / "job.py").write_text(JOB)
    (folder / "part.py").write_text("TEXT = 'one'\n")
    (folder / ".gitignore").write_text("logs/\n")
    for host in NODES:
        idle_lab.run(host, "mount", "-t", "tmpfs", "-o", "size=100M,nr_inodes=2000", "none", str(place))
    yield place
    for host in NODES:
        idle_lab.run(host, "umount", "-l", str(place))


def argv(disk: Path, *more: str, stage: str = "--stage") -> list[str]:
    return ["-N", "2", "-n", "1", stage, "--stage-dir", str(disk), *more, "--", "job.py"]


def ran(command: Launch) -> list[list[str]]:
    assert command.end() == 0, command.tail
    found = sorted(re.findall(r"ran (\d) (\S+) (\S+) (\S+) (\S+) (\S+)", command.text))
    assert [rank for rank, *_ in found] == ["0", "1"], command.text
    assert len({host for _, host, *_ in found}) == 2
    return [list(words[2:]) for words in found]


PLACES = [
    pytest.param("slurm-srun", [], id="job"),
    pytest.param("slurm-srun", SALLOC, id="allocation"),
    pytest.param("slurm-torchrun", SALLOC, id="torchrun", marks=torch),
]


@pytest.mark.parametrize(("backend", "before"), PLACES)
def test_ranks_run_from_the_local_disk(
    backend: str, before: list[str], launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab
) -> None:
    args = ["-b", backend, *argv(disk)]
    first = ran(launch(*args, before=before))
    for text, file, cwd, _ in first:
        assert text == "one"
        assert file.startswith(f"{disk}/{STAGE}/project-")
        assert cwd == str(folder)
    assert not list(disk.iterdir())  # the login host has no copy
    start = report(idle_lab, folder)
    assert "2 of 2 nodes copied files (--stage); slowest: node" in start["words"]
    assert {node["copies"][0]["size"] for node in start["nodes"]} == {len(JOB) + len("TEXT = 'one'\nlogs/\n")}
    for row in start["rows"]:
        names = [each["phase"] for each in row["segments"]]
        assert names[: names.index("start")] == ["prepared", "staged"]  # without torch, a rank writes no file
    assert ran(launch(*args, before=before)) == first
    assert "Local copies (--stage) were present on all nodes" in report(idle_lab, folder)["words"]
    (folder / "part.py").write_text("TEXT = 'two'\n")
    assert [words[0] for words in ran(launch(*args, before=before))] == ["two", "two"]
    host = next(each for each in NODES if _ls(idle_lab, each, disk))
    assert len(copies(idle_lab, host, disk)) == 2
    assert not [name for name in _ls(idle_lab, host, disk / STAGE).split() if ".tar-" in name or ".new-" in name]


def report(lab: Lab, folder: Path) -> dict[str, Any]:
    """The start in the report of the newest run."""
    (newest, *_) = sorted(folder.glob("logs/*/"), key=lambda path: -path.stat().st_ctime)
    shown = lab.run("login", *DDPKIT, "report", str(newest), "--json", env={"PYTHONPATH": str(ROOT)})
    start: dict[str, Any] = json.loads(shown.stdout)["start"]
    return start


def copies(lab: Lab, host: str, disk: Path) -> list[str]:
    """Names of the complete copies on a node."""
    found = lab.run(host, "sh", "-c", f"ls {disk}/{STAGE}/*/.ddpkit-complete 2> /dev/null || true").stdout
    return [path.split("/")[-2] for path in found.split()]


def _ls(lab: Lab, host: str, disk: Path) -> str:
    return lab.run(host, "ls", str(disk)).stdout


@pytest.mark.parametrize("kind", ["venv", "conda"])
def test_an_environment(kind: str, launch: Callable[..., Launch], disk: Path, tmp_path: Path, idle_lab: Lab) -> None:
    env = tmp_path / "shared-env"
    if kind == "venv":
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
        args = argv(disk, "--python", str(env / "bin/python"), stage="--stage=env")
    else:
        env.mkdir()
        args = argv(disk, stage=f"--stage={conda_prefix.pack(env)}")
        for host in NODES:
            idle_lab.run(host, "mount", "-o", "remount,size=400M,nr_inodes=9000", str(disk))
    for *_, prefix in ran(launch("-b", "slurm-srun", *args, before=SALLOC)):
        assert prefix.startswith(f"{disk}/{STAGE}/env-")


def test_what_is_not_ddpkits_stays_and_a_copy_in_use_as_well(
    launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab
) -> None:
    for host in NODES:
        idle_lab.run(
            host, "sh", "-c", f"cd {disk} && mkdir imagenet-1k my-checkpoints && touch my-checkpoints/x X-1.lock"
        )
    (folder / "wait.py").write_text(
        "import os, time, part\nprint('ready', part.__file__, flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.05)\nimport late\nprint('late', late.TEXT, flush=True)\n"
    )
    (folder / "late.py").write_text("TEXT = 'import'\n")
    place = ["-N", "1", "-n", "1", "--stage", "--stage-dir", str(disk), "--nodelist", "node1"]
    user = launch("-b", "slurm-srun", *place, "--sbatch=--oversubscribe", "--", "wait.py")
    user.wait_for("ready")
    (used,) = copies(idle_lab, "node1", disk)
    for text in "abcd":
        (folder / "part.py").write_text(f"TEXT = {text!r}\n")
        other = launch(
            "-b", "ssh", "node1", "-n", "1", "--stage", "--stage-dir", str(disk), "-o", "starter=ranks", "--", "job.py"
        )
        assert other.end() == 0, other.tail
    assert used in copies(idle_lab, "node1", disk)
    assert len(copies(idle_lab, "node1", disk)) == 4
    (folder / "go").touch()
    assert user.end() == 0, user.tail
    assert "late import" in user.text
    left = _ls(idle_lab, "node1", disk).split()
    assert sorted(left) == sorted(["imagenet-1k", "my-checkpoints", "X-1.lock", STAGE])


def test_what_a_script_saved_beside_its_file_is_not_removed(
    launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab
) -> None:
    text = "import part\nif part.TEXT == 'a': open(__file__ + '.saved', 'w').write('weeks')\n"
    (folder / "job.py").write_text(text)
    place = ["-n", "1", "--stage", "--stage-dir", str(disk)]
    ssh, slurm = ["-b", "ssh", "node1", "-o", "starter=ranks"], ["-b", "slurm-srun", "-N", "1", "--nodelist", "node1"]
    for text, words in (("a", ssh), ("b", ssh), ("c", ssh), ("d", slurm)):
        (folder / "part.py").write_text(f"TEXT = {text!r}\n")
        last = launch(*words, *place, "--", "job.py")
        assert last.end() == 0, last.tail
    (saved,) = idle_lab.run("node1", "sh", "-c", f"ls {disk}/{STAGE}/*/job.py.saved").stdout.split()
    assert f"note: node1: not removed: old copies in which a script wrote (files: 1): {saved}" in last.text


@pytest.mark.parametrize("before", [[], WITH_SPARE], ids=["job", "allocation"])
def test_the_second_attempt_runs_from_the_same_copy(
    before: list[str], launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text(f"{HEALED}\nimport part\nprint('from', part.__file__, flush=True)\n")
    run = launch("-b", "slurm", "--grace", "1", "--retries", "2", "--spares", "1", *argv(disk), before=before)
    run.wait_for("ready 1", times=2)
    (folder / "part.py").write_text("TEXT = 'changed'\n")  # no node makes another copy
    rank = max(pid for pid, line in idle_lab.processes("node2").items() if line.endswith("job.py"))
    idle_lab.run("node2", "kill", "-9", str(rank))
    run.wait_for("ready 2", times=2)
    (folder / "go.2").touch()
    assert run.end() == 0, run.text
    assert run.text.count(f"from {disk}/{STAGE}/project-") == 2
    assert {each: len(copies(idle_lab, each, disk)) for each in ("node1", "node2")} == {"node1": 1, "node2": 1}


@pytest.mark.parametrize("before", [[], WITH_SPARE], ids=["job", "allocation"])
def test_a_spare_replaces_a_node_that_cannot_stage(
    before: list[str], launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab
) -> None:
    (folder / "job.py").write_text("import os\nprint('ran on', os.uname().nodename, flush=True)\n")
    idle_lab.run("node2", "mount", "-o", "remount,ro", str(disk))
    run = launch("-b", "slurm", "--retries", "2", "--spares", "1", *argv(disk), before=before)
    assert run.end() == 0, run.text
    assert run.text.count("ran on node") == 2
    first, second = run.record["attempts"]
    assert (first["decision"]["action"], first["decision"]["hosts"]) == ("replace", ["node2"])
    assert second["hosts"] == ["node1", "node3"]


def test_a_job_runs_what_was_submitted(launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab) -> None:
    """A file that changes while the job waits is another job's."""
    run = launch("-b", "slurm", "--sbatch=--hold", *argv(disk))
    run.wait_for("JobHeldUser")
    (folder / "part.py").write_text("TEXT = 'changed'\n")
    idle_lab.run("login", "scontrol", "release", *idle_lab.run("login", "squeue", "-ho%i").stdout.split())
    assert [words[0] for words in ran(run)] == ["one", "one"]


@pytest.mark.parametrize(
    ("before", "fault", "said"),
    [
        (SALLOC, f"mkdir -m 700 {STAGE}; chown 1234 {STAGE}", "cannot stage in .*: it belongs to user 1234"),
        ([], "head -c 90000000 /dev/zero > other || true", r"\S+ has \d+ MB and \d+ files free; the copy needs \d+ MB"),
        (SALLOC, "mount -o remount,ro .", "cannot stage in .*: read-only file system"),
    ],
    ids=["foreign", "full", "read-only"],
)
def test_a_disk_that_cannot_be_used(
    before: list[str], fault: str, said: str, launch: Callable[..., Launch], folder: Path, disk: Path, idle_lab: Lab
) -> None:
    with (folder / "big.bin").open("wb") as file:
        file.truncate(30 << 20)
    for host in NODES:
        idle_lab.run(host, "sh", "-c", f"cd {disk}; {fault}")
    command = launch("-b", "slurm-srun", *argv(disk), before=before)
    assert command.end() == 123, command.tail
    assert set(re.findall(rf"ddpkit: error: (\w+): {said}", command.text)) <= set(NODES)
    assert re.search(rf"ddpkit: error: \w+: {said}.*\n.*hint: add --stage-dir", command.text), command.text
    assert "rank 0" not in command.text
    assert "ran " not in command.text
