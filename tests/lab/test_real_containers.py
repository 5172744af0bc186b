"""Ranks in containers of real runtimes, podman and apptainer, under each backend that has them.

The image is a skeleton: directories and a few files. `/usr`, Python and the package come from the node, as mounts. The
hosts need the runtime: Debian has podman in each release, and apptainer in unstable (LAB_SLURM=26.05) alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from conftest import PATIENCE

ROOT = Path(__file__).parents[2]
NODES = ("node1", "node2")
MOUNTS = ",".join(f"{path}:{path}:ro" for path in dict.fromkeys(("/usr", sys.base_prefix, sys.prefix, str(ROOT))))
PLACES: dict[str, dict[str, Any]] = {
    "local": {"nproc_per_node": 2},
    "ssh": {"nproc_per_node": 1, "hosts": [*NODES]},
    "pdsh": {"nproc_per_node": 1, "hosts": [*NODES]},
}
JOB: dict[str, Any] = {"nproc_per_node": 1, "nnodes": 2}  # of SLURM
torch = pytest.mark.torch
Run = Callable[..., "subprocess.CompletedProcess[str]"]

# crun refuses a version 2 beside version 1, and a limit above the user's own.
PODMAN = """
umount /sys/fs/cgroup/unified 2>/dev/null
own={own}/$(hostname) && mkdir -p $own
printf '[storage]\\ndriver="overlay"\\ngraphroot="%s/graph"\\nrunroot="%s/run"\\n' $own $own > $own/storage.conf
limits='default_ulimits=["nofile=1024:1024","nproc=4096:4096"]'
printf '[containers]\\ncgroups="disabled"\\n%s\\n[engine]\\ntmp_dir="%s/tmp"\\n' "$limits" $own > $own/containers.conf
. {own}/environ
tar -C {image} -c . | podman import -q - localhost/skeleton
"""
# Of each host; a name in a shared directory. It is short: sockets below it have at most 108 characters, and podman
# waits 20 s for the end of a container that has a longer one.
ENVIRON = """
export CONTAINERS_STORAGE_CONF={own}/$(hostname)/storage.conf
: ${{CONTAINERS_CONF:={own}/$(hostname)/containers.conf}}; export CONTAINERS_CONF
"""
SHOW = """
import os
print(open("/etc/in-image").read().strip(), os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
"""
FAIL = """
import os, sys, time
if os.environ["RANK"] == os.environ.get("BAD", "1"):
    sys.exit(7)
time.sleep(3600)
"""
REDUCE = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("total", total.item(), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(params=["podman", "apptainer"])
def runtime(request: pytest.FixtureRequest, lab: Lab) -> str:
    name: str = request.param
    if lab.run("login", "sh", "-c", f"command -v {name}", check=False).returncode != 0:
        pytest.skip(f"the lab's hosts have no {name}: apt-get install podman, or LAB_SLURM=26.05 for apptainer")
    return name


@pytest.fixture
def own() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="podman-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture
def inside(runtime: str, idle_lab: Lab, own: Path, tmp_path: Path) -> Iterator[Run]:
    """Run `ddpkit launch` on the login host, in a directory of its own, with the skeleton as the image."""
    image = tmp_path / "image"
    for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run", "var/tmp", "root"):
        (image / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (image / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group"):
        (image / "etc" / name).write_bytes(Path("/etc", name).read_bytes())
    (image / "etc/in-image").write_text("rank inside:\n")
    work = tmp_path / "work"
    work.mkdir()
    start_up = idle_lab.folder / "bashrc"
    before = start_up.read_text()
    if runtime == "podman":
        (own / "environ").write_text(ENVIRON.format(own=own))
        for host in (*NODES, "login"):
            idle_lab.run(host, "sh", "-c", PODMAN.format(own=own, image=image))
        start_up.write_text(f". {own}/environ\n{before}")
    options = {"container": str(image) if runtime == "apptainer" else "localhost/skeleton"}
    options["container_runtime"] = runtime
    if runtime == "apptainer":
        options["container_args"] = "--userns --contain --env=TMPDIR=/tmp"

    def run(way: str, *args: str, mounts: str = "", program: str = "") -> subprocess.CompletedProcess[str]:
        """Launch, or run a program whose argument is the keywords of that launch."""
        backend, _, starter = way.partition(" ")
        if backend.startswith("slurm") and runtime == "podman":
            pytest.skip("podman has no way into a SLURM task")
        settings = {**options, "container_mounts": f"{MOUNTS}{mounts}"}
        if starter == "preload":
            settings |= {"preload": "json"} if backend == "slurm" else {"preload": "json", "starter": "ranks"}
        elif starter:
            settings["starter"] = starter
        if program:
            keywords = {"backend": backend, **PLACES.get(backend, JOB), "python": sys.executable, "options": settings}
            words = ["-c", program, json.dumps(keywords)]
        else:
            place = PLACES.get(backend, JOB)
            given = ["-b", backend, "-n", str(place["nproc_per_node"]), "--python", sys.executable]
            given += ["-N", "2"] if place is JOB else place.get("hosts", [])
            given += [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
            words = ["-m", "ddpkit", "launch", *given, *args]
        source = f". {own}/environ\n" if runtime == "podman" else ""
        command = ["sh", "-c", f'{source}exec "$@"', "sh", sys.executable, *words]
        return idle_lab.run("login", *command, cwd=work, env={"NO_COLOR": "1"}, check=False, timeout=PATIENCE)

    yield run
    start_up.write_text(before)


thorough = pytest.mark.thorough
RANKS = ["local", "ssh ranks", pytest.param("pdsh ranks", marks=thorough), "slurm"]
FORKED = ["local preload", "ssh preload", pytest.param("pdsh preload", marks=thorough), "slurm preload"]
TORCHRUN = ["local torchrun", "ssh torchrun", pytest.param("pdsh torchrun", marks=thorough), "slurm-torchrun"]


@pytest.mark.parametrize("way", RANKS + FORKED)
def test_ranks_run_inside(way: str, inside: Run, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(SHOW)
    done = inside(way, "--", "job.py")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = sorted(line.partition("rank inside: ")[2] for line in done.stdout.splitlines())
    assert shown == ["0 of 2", "1 of 2"], done.stdout


CALL = """
import json, os, sys
import ddpkit
def work(word):
    import os
    if word == "fail" and os.environ["RANK"] == "1":
        raise ValueError("no data")
    return [open("/etc/in-image").read().strip(), int(os.environ["RANK"]), word]
keywords = json.loads(sys.argv[1])
print(json.dumps(ddpkit.call(work, "x" * 9, **keywords)))
try:
    ddpkit.call(work, "fail", **keywords)
except ddpkit.RankError as error:
    print(json.dumps([error.rank, error.kind, error.reason]))
print(len([path for path in ddpkit.runs()[0].folder.rglob("*") if path.parent.name == "call"]))
"""


@pytest.mark.parametrize("way", RANKS)
def test_a_function_is_called_inside(way: str, inside: Run) -> None:
    """Its values, and the exception of a rank; nothing of it is left."""
    done = inside(way, program=CALL)
    assert done.returncode == 0, done.stdout + done.stderr
    values, failure, left = map(json.loads, done.stdout.splitlines())
    assert values == [["rank inside:", rank, "x" * 9] for rank in range(2)]
    assert failure == [1, "ValueError", "no data"]
    assert left == 0


@torch
@pytest.mark.parametrize("way", TORCHRUN)
def test_torchrun_runs_inside(way: str, inside: Run, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(REDUCE)
    done = inside(way, "--", "job.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("total 2.0") == 2, done.stdout


@pytest.mark.parametrize("way", RANKS + FORKED)
def test_the_first_failure_ends_all(way: str, inside: Run, idle_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(FAIL)
    done = inside(way, "--", "job.py")
    assert done.returncode == 7, done.stdout + done.stderr
    assert "rank 1 on " in done.stderr
    left = [line for host in (*NODES, "login") for line in idle_lab.processes(host).values() if "job.py" in line]
    assert not left


FAULTS = {
    "mount": "/nothere cannot be mounted into the container",
    "python": "/opt/none/python",
    "script": "other.py",
    "image": "cannot be read on that node",
    "hook": "a hook of the container runtime failed before the container started",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", RANKS)
def test_a_fault_is_named(fault: str, way: str, runtime: str, inside: Run, own: Path, tmp_path: Path) -> None:
    other, bad = tmp_path / "other.py", tmp_path / "bad.sif"
    (tmp_path / "work/job.py").write_text(SHOW)
    words = ["--", "job.py"]
    if fault == "python":
        words = ["--python", "/opt/none/python", *words]
    elif fault == "script":
        other.write_text(SHOW)
        words = ["--", str(other)]
    elif fault == "image":
        if runtime == "podman":
            pytest.skip("an image of podman is not a file")
        bad.write_text("no image\n")
        words = ["-o", f"container={bad}", *words]
    elif fault == "hook":
        if runtime == "apptainer" or way != "local":
            pytest.skip("podman on this host has the hook")
        hook = tmp_path / "hook.sh"
        hook.write_text("#!/bin/sh\necho no driver here >&2\nexit 3\n")
        hook.chmod(0o755)
        (tmp_path / "hooks").mkdir()
        text = f'{{"version":"1.0.0","hook":{{"path":"{hook}"}},"when":{{"always":true}},"stages":["prestart"]}}'
        (tmp_path / "hooks/hook.json").write_text(text)
        conf = own / "login/containers.conf"
        conf.write_text(f'{conf.read_text()}hooks_dir=["{tmp_path}/hooks"]\n')
    done = inside(way, *words, mounts=",/nothere:/data" if fault == "mount" else "")
    assert done.returncode not in (0, 121), done.stdout + done.stderr
    assert FAULTS[fault] in done.stderr, done.stdout + done.stderr
    assert " ?] " not in done.stdout, done.stdout  # each line has its host
    if fault == "script":
        assert f"--container-mounts {'DIR:DIR' if 'failed first' in done.stderr else tmp_path}" in done.stderr
