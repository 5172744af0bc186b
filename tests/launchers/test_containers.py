"""Ranks in containers on this machine. `tests/standins` stands in for docker, podman, apptainer and enroot.

The stand-ins refuse what the real programs do not know, give a container the environment that the documents say and
nothing else, and hide the working folder from a container that does not mount it. docker's containers are a daemon's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import MARK, Command
from hostile import ARGS, ENV, PROBE
from program import run_to_end
from test_plan import ASKED, HELD, JOB, JOB_INSIDE, TWO, make

from ddpkit.errors import UsageError
from ddpkit.launchers.containers import Enroot, Want
from ddpkit.launchers.shell import Secret
from ddpkit.node import supervisor
from ddpkit.node.rpc import Programs
from ddpkit.node.seal import Seal

STANDINS = Path(__file__).parents[1] / "standins"
RUNTIMES = ["docker", "podman", "apptainer", "enroot"]
Start = Callable[..., Command]

WAIT = """
import os, signal, subprocess, sys, time
def save(*_):
    print("saving", flush=True)
    sys.exit(0)
if sys.argv[1] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, save)
subprocess.Popen(["sleep", "3600"], start_new_session=True)
print("ready", flush=True)
while True:
    time.sleep(3600)
"""


@pytest.fixture
def world(tmp_path: Path, clean_environ: dict[str, str]) -> Iterator[dict[str, str]]:
    """Variables with which the stand-ins are found, and work; the docker daemon runs."""
    (tmp_path / "work").mkdir()
    (tmp_path / "images").mkdir()
    image = {
        "env": {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "NCCL_DEBUG": "IMAGE", "IN_IMAGE": "yes"},
        "hide": str(tmp_path / "work"),
        "greeting": "== a banner ==\n",
    }
    for name in ("plain", "torch.sqsh", "torch.sif"):
        (tmp_path / "images" / name).write_text(json.dumps(image))
    env = {
        "PATH": f"{STANDINS}:{os.environ['PATH']}",
        "STANDIN_IMAGES": str(tmp_path / "images"),
        "STANDIN_DOCKER": str(tmp_path / "docker.sock"),
        "ENROOT_DATA_PATH": str(tmp_path / "enroot"),
    }
    daemon = subprocess.Popen([STANDINS / "docker", "daemon"], env={**clean_environ, **env}, stdout=subprocess.PIPE)
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == b"ready\n"
    yield env
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()
    Path(f"/tmp/ddpkit-{os.getuid()}-{tmp_path.name}.lock").unlink(missing_ok=True)


def container(runtime: str, tmp_path: Path) -> list[str]:
    image = {"apptainer": "torch.sif", "enroot": "torch.sqsh"}.get(runtime)
    words = ["-o", f"container={tmp_path / 'images' / image if image else 'plain'}"]
    words += ["-o", f"container_runtime={runtime}"]
    if runtime == "enroot":
        words += ["-o", f"container_name={tmp_path.name}"]
    if runtime != "apptainer":  # it passes everything; the others need it by name
        words += ["-o", f"container_args=--env {MARK}"]
    return words


@pytest.fixture
def inside(tmp_path: Path, world: dict[str, str], start: Start) -> Start:
    """Start `ddpkit launch -n 2` in a container."""

    def run(runtime: str, *args: str) -> Command:
        return start("launch", "-n", "2", *container(runtime, tmp_path), *args, cwd=tmp_path / "work", env=world)

    return run


CALLS = """
import functools, json, os, sys
import ddpkit
def work(item):
    if os.environ["DDPKIT_ATTEMPT"] == "1":
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    return item, int(os.environ["RANK"]), os.environ["IN_IMAGE"]
options = dict(word.partition("=")[::2] for word in sys.argv[1:])
settings = {"nproc_per_node": 2, "options": options, "retries": 1}
found = [ddpkit.call(work, 7, **settings), *ddpkit.map(work, [8, 9], at_once=1, **settings)]
print(json.dumps(found))
"""


@pytest.mark.parametrize("runtime", ["podman", "apptainer"])
def test_calls_in_a_container_with_another_attempt(
    runtime: str, world: dict[str, str], clean_environ: dict[str, str], tmp_path: Path
) -> None:
    """The function comes and its values go by the connection: the container sees no directory of the launcher."""
    (tmp_path / "work/calls.py").write_text(CALLS)
    words = [word for word in container(runtime, tmp_path) if word != "-o"]
    env = {**clean_environ, **world, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = [sys.executable, "calls.py", *words]
    done = subprocess.run(
        argv, cwd=tmp_path / "work", env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[[item, rank, "yes"] for rank in (0, 1)] for item in (7, 8, 9)]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_hostile_words_arrive(runtime: str, inside: Start, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(PROBE)
    given = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    command = inside(runtime, *given, "--", "job.py", *ARGS)
    assert command.end() == 0, command.tail
    for rank in ("0", "1"):
        seen = json.loads((tmp_path / f"work/seen.{rank}").read_text())
        assert seen == {"argv": ARGS, "env": ENV}
    assert f"[{runtime} " in command.text  # the banner, which is no event of the supervisor
    assert "== a banner ==" in command.text
    assert not (tmp_path / "work/pwned").exists()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_dry_run_is_the_run(
    runtime: str, inside: Start, tmp_path: Path, world: dict[str, str], clean_environ: dict[str, str]
) -> None:
    (tmp_path / "work/job.py").write_text(PROBE)
    command = inside(runtime, "--env", "HOSTILE_1=it's $5", "--dry-run", "--", "job.py", *ARGS)
    assert command.end() == 0, command.tail
    text = command.text + "\n"
    env = {**clean_environ, **world, MARK: command.mark}
    subprocess.run(["sh"], input=text, text=True, env=env, cwd="/", timeout=120, check=True)
    for rank in ("0", "1"):
        seen = json.loads((tmp_path / f"work/seen.{rank}").read_text())
        assert seen == {"argv": ARGS, "env": {"HOSTILE_1": "it's $5"}}


ENDS = [("sys.exit(7)", 7, "exit code 7"), ("os.kill(os.getpid(), 9)", 137, "killed by signal 9")]
ENVIRON = """
import json, os, pathlib
pathlib.Path("env." + os.environ["RANK"]).write_text(json.dumps(dict(os.environ)))
"""


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_whose_variables_a_rank_sees(runtime: str, tmp_path: Path, world: dict[str, str], start: Start) -> None:
    (tmp_path / "work/job.py").write_text(ENVIRON)
    env = {**world, "NCCL_SOCKET_IFNAME": "eth9", "NCCL_DEBUG": "HOST", "RANK": "77", "WANDB_API_KEY": "key-0123"}
    words = ["launch", "-n", "2", *container(runtime, tmp_path), "--env", "WANDB_API_KEY", "--", "job.py"]
    command = start(*words, cwd=tmp_path / "work", env=env)
    assert command.end() == 0, command.tail
    assert "key-0123" not in command.text
    for rank in range(2):
        seen = json.loads((tmp_path / f"work/env.{rank}").read_text())
        wanted = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        wanted |= {"NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "IN_IMAGE": "yes", "WANDB_API_KEY": "key-0123"}
        wanted |= {"NCCL_SOCKET_IFNAME": "eth9", "NCCL_DEBUG": "HOST"}  # set on the node, and the image's own loses
        assert {name: seen.get(name) for name in wanted} == wanted
        assert not {"DDPKIT_INSIDE", "DDPKIT_TAP"} & set(seen)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("end", "code", "how"), ENDS)
def test_first_failure(runtime: str, end: str, code: int, how: str, inside: Start, tmp_path: Path) -> None:
    text = f"import os, sys, time\nif os.environ['RANK'] == '1':\n    {end}\ntime.sleep(3600)\n"
    (tmp_path / "work/job.py").write_text(text)
    command = inside(runtime, "--", "job.py")
    assert command.end() == code, command.tail
    assert "rank 1 on " in command.text
    assert how in command.text
    command.wait_for_no_survivor()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_term_reaches_the_ranks(runtime: str, inside: Start, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(WAIT)
    command = inside(runtime, "--", "job.py", "saves")
    command.wait_for("] ready", times=2)
    command.process.terminate()
    assert command.end() == 143
    assert command.text.count("] saving") == 2
    command.wait_for_no_survivor()


def child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[-1])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("victim", ["launcher", "client"])
def test_nothing_outlives_a_kill(runtime: str, victim: str, inside: Start, tmp_path: Path) -> None:
    """Ranks that ignore TERM, children with sessions of their own; the launcher dies, or the runtime's own program."""
    (tmp_path / "work/job.py").write_text(WAIT)
    command = inside(runtime, "--grace", "0.5", "--", "job.py", "deaf")
    command.wait_for("] ready", times=2)
    if victim == "launcher":
        os.kill(command.process.pid, signal.SIGKILL)
    else:
        pid = child(command.process.pid)
        os.kill(child(pid) if runtime in ("docker", "podman") else pid, signal.SIGKILL)
        if runtime == "apptainer":  # its container reads the launcher's pipe itself, and needs nobody between
            os.kill(command.process.pid, signal.SIGKILL)
        else:
            assert command.end() != 0
    command.wait_for_no_survivor()


@pytest.mark.parametrize("runtime", ["docker", "podman"])
def test_a_client_that_does_not_end(runtime: str, inside: Start, tmp_path: Path) -> None:
    image = json.loads((tmp_path / "images/plain").read_text())
    (tmp_path / "images/plain").write_text(json.dumps({**image, "stuck": True}))
    (tmp_path / "work/job.py").write_text("")
    command = inside(runtime, "--", "job.py")
    assert command.end() == 0, command.tail
    command.wait_for_no_survivor()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_modules_are_preloaded_in_the_container(runtime: str, inside: Start, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text(PROBE)
    command = inside(runtime, "-o", "preload=json", "--", "job.py", *ARGS)
    assert command.end() == 0, command.tail
    assert json.loads((tmp_path / "work/seen.1").read_text())["argv"] == ARGS


@pytest.mark.torch
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.thorough_for("docker", "apptainer")
def test_torchrun_in_the_container(runtime: str, inside: Start, tmp_path: Path) -> None:
    text = "import os, sys\nprint('rank', os.environ['RANK'], flush=True)\nsys.exit(7 * (os.environ['RANK'] == '1'))\n"
    (tmp_path / "work/job.py").write_text(text)
    command = inside(runtime, "-o", "starter=torchrun", "--", "job.py")
    assert command.end() == 7, command.tail
    assert "rank 1 on " in command.text
    command.wait_for_no_survivor()


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_container_that_does_not_start(runtime: str, inside: Start, tmp_path: Path) -> None:
    (tmp_path / "work/job.py").write_text("")
    for word in (["--python", "/no/such/python"], ["-o", "container_args=--no-such-option"]):
        command = inside(runtime, *word, "--", "job.py")
        assert command.end() == 123, command.tail
        assert "the container did not start" in command.text
        command.wait_for_no_survivor()


def test_one_container_for_runs_that_start_together(inside: Start, tmp_path: Path) -> None:
    """enroot's container is made by one of them, and the others wait until all of it is there."""
    (tmp_path / "work/job.py").write_text("print('here')")
    commands = [inside("enroot", "--", "job.py") for _ in range(4)]
    for command in commands:
        assert command.end() == 0, command.tail
    assert (tmp_path / "enroot/calls").read_text().count(" create\n") == 1


def test_a_supervisor_outside_of_the_container_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DDPKIT_INSIDE", raising=False)
    request = {"inside": "run-1", "grace": 0, "procs": [], "workdir": "/", "env": {}, "preload": [], "ranks": []}
    with pytest.raises(OSError, match="this process is outside of it"):
        supervisor.Supervisor(request, b"", Programs(), (Seal("", "node"), Seal("", "launcher"))).start()


LOCAL = [
    ({"container": "plain"}, "the container runtime is not clear"),
    ({"container": "plain", "container_runtime": "pyxis"}, "requires auto | enroot | apptainer | podman | docker"),
    ({"container": "plain", "container_runtime": "runc"}, "requires auto | enroot"),
    ({"container": "/a.sif", "container_runtime": "docker"}, "requires the name of an image, not a file"),
    ({"container": "docker://a", "container_runtime": "enroot"}, "enroot requires a .sqsh file"),
    ({"container": "/a b.sqsh"}, "is not a valid container name"),
    ({"container": "/a.sif", "container_name": "x"}, "container_name works with enroot"),
    ({"container": "/a.sqsh", "container_gpus": "all"}, "container_gpus works with apptainer and podman and docker"),
    ({"container": "/a.sif", "container_mounts": "/data"}, "is not SRC:DST"),
    ({"container": "/a.sif", "container_mounts": "/data:"}, "is not SRC:DST"),
    ({"container": "/a.sif", "container_mounts": "/data:data"}, "not an absolute path"),
    ({"container": "/a.sqsh", "container_mounts": "/my data:/data"}, "cannot mount a path with ' '"),
    ({"container": "/a.sif", "container_args": "'"}, "No closing quotation"),
    ({"container_mounts": "/data:/data"}, "container_mounts needs an image"),
    ({"container_root": "true"}, "container_root needs an image"),
    ({"container_runtime": "docker"}, "container_runtime needs an image"),
]
ON_SLURM = [
    ({"container": "/a.sqsh"}, "the container runtime is not clear"),
    ({"container": "plain", "container_runtime": "docker"}, "requires auto | enroot | pyxis | apptainer"),
    ({"container": "/a.sif", "container_runtime": "pyxis"}, "pyxis requires a .sqsh file"),
    ({"container_workdir": "/data"}, "container_workdir needs an image"),
]


@pytest.mark.parametrize(("options", "text"), LOCAL)
def test_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(options, JOB_INSIDE, TWO)
    assert text in caught.value.message


@pytest.mark.parametrize("backend", ["slurm-srun", "slurm-torchrun"])
@pytest.mark.parametrize(("options", "text"), ON_SLURM)
def test_refused_on_slurm(options: dict[str, object], text: str, backend: str) -> None:
    for world in (ASKED, HELD):
        with pytest.raises(UsageError) as caught:
            make(options, JOB_INSIDE, world, backend)
        assert text in caught.value.message


@pytest.mark.parametrize("runtime", ["enroot", "pyxis"])
def test_a_working_folder_that_cannot_be_mounted(runtime: str) -> None:
    with pytest.raises(UsageError, match="/data/my project must be mounted"):
        make({"container": "/a.sqsh", "container_runtime": runtime}, JOB, ASKED, "slurm")


@pytest.mark.parametrize("value", ["two\nlines", '"quoted"', "'quoted' "])
def test_values_that_enroot_would_change(value: str) -> None:
    options: dict[str, object] = {"container": "/a.sqsh", "container_runtime": "enroot"}
    for each in (value, Secret(value)):
        job = replace(JOB_INSIDE, env={"X": each})
        with pytest.raises(UsageError, match="--env X: enroot would change its value"):
            make(options, job, ASKED, "slurm")
        make(options, job, TWO)  # over standard input it arrives


def test_what_a_container_needs_is_checked_first(
    ddpkit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "job.py").touch()
    done = ddpkit("launch", "-o", "container=no.sif", "--", "job.py")
    assert done.returncode == 121
    assert f"image no.sif not found in {tmp_path}" in done.stderr
    named = ["-o", "container=plain", "-o", "container_runtime=docker", "--dry-run"]
    done = ddpkit("launch", *named, "--", "none.py")
    assert done.returncode == 121
    assert "script none.py not found" in done.stderr
    for words in (["/opt/app/none.py"], ["no-such-program"], ["-m", "pkg"]):  # these may be in the image
        assert ddpkit("launch", *named, "--", *words).returncode == 0
    done = ddpkit("launch", *named, "-o", "container_workdir=/opt/app", "--", "none.py")
    assert done.returncode == 0
    assert "cd /opt/app || exit 1" in done.stdout
    assert "python3 none.py" in done.stdout
    done = ddpkit("launch", *named, "--python", "/opt/python", "--", "job.py")
    assert "/opt/python job.py" in done.stdout


def test_a_link_in_place_of_the_lock_loses_nothing(tmp_path: Path) -> None:
    """Its name is predictable, and another user may have made the link."""
    name, kept = f"test-{os.getpid()}", tmp_path / "kept"
    kept.write_text("mine")
    lock = Path(f"/tmp/ddpkit-{os.getuid()}-{name}.lock")
    lock.symlink_to(kept)
    try:
        (tmp_path / "enroot").symlink_to("/bin/true")
        text = Enroot().enter(Want(image="a.sqsh", name=name, own=()))
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", text], check=True, env=env, capture_output=True)
    finally:
        lock.unlink()
    assert kept.read_text() == "mine"


# ---- devices of the node, in a made /dev

SMI = '#!/bin/sh\necho "GPU-aaaa"; echo "GPU-bbbb"\n'
NO_DEVICES = '#!/bin/sh\necho "No devices were found"; exit 6\n'
BROKEN = '#!/bin/sh\necho "Failed to initialize NVML: Driver/library version mismatch"; exit 18\n'
NVIDIA = ("nvidiactl", "nvidia0")
AMD = ("kfd", "dri/renderD128", "dri/renderD136")
RDMA = ("infiniband/uverbs0", "infiniband/rdma_cm")
IMEX = ("nvidia-caps-imex-channels/channel0",)
ALL_ENROOT = ["--env", "NVIDIA_VISIBLE_DEVICES=all"]
JOB_OF = {"SLURM_JOB_ID": "7"}
DEVICES: dict[str, tuple[str, tuple[str, ...], dict[str, str], str, list[str]]] = {
    "docker, NVIDIA": ("docker", NVIDIA, {}, SMI, ["--gpus", "all"]),
    "docker, NVIDIA, in a job": ("docker", NVIDIA, JOB_OF, SMI, ["--gpus", '"device=GPU-aaaa,GPU-bbbb"']),
    "docker, a MIG instance, in a job": (
        "docker", NVIDIA, {**JOB_OF, "CUDA_VISIBLE_DEVICES": "MIG-1"}, SMI, ["--gpus", '"device=MIG-1"'],
    ),
    "docker, a job without GPUs": ("docker", NVIDIA, JOB_OF, NO_DEVICES, []),
    "podman, NVIDIA": ("podman", NVIDIA, {}, SMI, ["--device", "nvidia.com/gpu=all"]),
    "podman, NVIDIA, in a job": (
        "podman", NVIDIA, JOB_OF, SMI, ["--device", "nvidia.com/gpu=GPU-bbbb", "--device", "nvidia.com/gpu=GPU-aaaa"],
    ),
    "apptainer, NVIDIA": ("apptainer", NVIDIA, {}, SMI, ["--nv"]),
    "enroot, NVIDIA": ("enroot", NVIDIA, {}, SMI, ALL_ENROOT),
    "docker, AMD": (
        "docker", AMD, {}, "", ["--group-add=GID", "--device=/dev/kfd", "--device=/dev/dri/renderD136",
        "--device=/dev/dri/renderD128"],
    ),
    "podman, AMD": (
        "podman", AMD, {}, "", ["--group-add=keep-groups", "--device=/dev/kfd", "--device=/dev/dri/renderD136",
        "--device=/dev/dri/renderD128"],
    ),
    "apptainer, AMD": ("apptainer", AMD, {}, "", ["--rocm"]),
    "enroot, AMD": (
        "enroot", AMD, {}, "", ["--mount", "/dev/kfd:/dev/kfd", "--mount", "/dev/dri/renderD136:/dev/dri/renderD136",
        "--mount", "/dev/dri/renderD128:/dev/dri/renderD128"],
    ),
    "docker, InfiniBand": (
        "docker", RDMA, {}, "", ["--ulimit=memlock=-1", "--device=/dev/infiniband/rdma_cm",
        "--device=/dev/infiniband/uverbs0"],
    ),
    "podman, InfiniBand": (
        "podman", RDMA, {}, "", ["--ulimit=memlock=-1", "--device=/dev/infiniband/rdma_cm",
        "--device=/dev/infiniband/uverbs0"],
    ),
    "apptainer, InfiniBand": ("apptainer", RDMA, {}, "", []),
    "enroot, InfiniBand": (
        "enroot", RDMA, {}, "", ["--mount", "/dev/infiniband/rdma_cm:/dev/infiniband/rdma_cm", "--mount",
        "/dev/infiniband/uverbs0:/dev/infiniband/uverbs0"],
    ),
    "docker, GB200": (
        "docker", (*NVIDIA, *IMEX), {}, SMI, ["--gpus", "all", "--device=/dev/nvidia-caps-imex-channels/channel0"],
    ),
    "docker, nothing": ("docker", (), {}, "", []),
}  # fmt: skip
NAMES = {"apptainer": "/a.sif", "enroot": "/a.sqsh"}


def words_for(
    runtime: str, files: tuple[str, ...], env: dict[str, str], smi: str, tmp_path: Path, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run the text that enters a container, with a program of the runtime's name that prints its arguments."""
    (tmp_path / "bin").mkdir()
    for name, text in ((runtime, '#!/bin/sh\nprintf "%s\\n" "$@"\n'), ("nvidia-smi", smi)):
        if text:
            (tmp_path / "bin" / name).write_text(text)
            (tmp_path / "bin" / name).chmod(0o755)
    for name in ("null", *files):
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    plan = make({"container": NAMES.get(runtime, "plain"), "container_runtime": runtime, **options}, JOB_INSIDE, TWO)
    enter = plan.steps[0].container
    assert enter is not None
    text = enter.enter[2]
    if runtime == "enroot":
        text = text[text.index('set -- "$container"') :]
    text = text.replace("/dev/", f"{tmp_path}/dev/").replace("/proc/self/cgroup", f"{tmp_path}/cgroup")
    (tmp_path / "cgroup").write_text("0::/user.slice\n")
    return run_to_end(["sh", "-c", text, "sh", "true"], env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", **env})


@pytest.mark.parametrize("name", DEVICES)
def test_devices_of_the_node_are_in_the_container(name: str, tmp_path: Path) -> None:
    """Without them ranks train over TCP, or on the CPU, or on GPUs of another job, without a word."""
    runtime, files, env, smi, wanted = DEVICES[name]
    done = words_for(runtime, files, env, smi, tmp_path)
    assert done.returncode == 0, done.stderr
    words = done.stdout.replace(str(tmp_path), "").replace(f"--group-add={os.getgid()}", "--group-add=GID").split("\n")
    (tmp_path / "none").mkdir()
    bare = words_for(runtime, (), env, smi, tmp_path / "none").stdout.replace(str(tmp_path / "none"), "").split("\n")
    assert put_in(words, bare) == wanted


def put_in(words: list[str], bare: list[str]) -> list[str]:
    """Words that were put into others, all at one place."""
    more = len(words) - len(bare)
    return next(words[at : at + more] for at in range(len(bare)) if words[:at] + words[at + more :] == bare)


def test_a_job_whose_gpus_are_not_known_has_none_of_others(tmp_path: Path) -> None:
    done = words_for("docker", NVIDIA, JOB_OF, BROKEN, tmp_path)
    assert done.returncode == 1
    assert "nvidia-smi does not list the GPUs of this job: Failed to initialize NVML" in done.stderr
    assert done.stdout == ""


def test_gpus_are_left_out_on_demand_and_own_arguments_come_last(tmp_path: Path) -> None:
    options = {"container_gpus": "none", "container_args": "--ulimit=memlock=64"}
    done = words_for("docker", (*NVIDIA, *AMD, *RDMA), {}, SMI, tmp_path, **options)
    words = done.stdout.split("\n")
    assert "--gpus" not in words
    assert not any("kfd" in word for word in words)
    assert words.index("--ulimit=memlock=-1") < words.index("--ulimit=memlock=64")
