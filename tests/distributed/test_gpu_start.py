"""GPUs that are there and do not start: the rank fails in CUDA's own words, and never runs on the CPU instead.

torch.cuda is modelled after what CUDA builds of torch 2.11 do where `cuInit` answers 802: NVML still counts the GPUs,
`is_available` is False, and `init` raises.
"""

from __future__ import annotations

import argparse
import errno
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE

from ddpkit.distributed import check, process_group
from ddpkit.distributed import torch as ddpkit_torch
from ddpkit.distributed.torch import DistEnv, EnvError, device, resolve

pytestmark = pytest.mark.torch

NOT_INITIALIZED = (
    "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that "
    "might have already set an error? Error 802: system not yet initialized"
)
# DistBackendError of torch 2.11 with NCCL 2.28.9, for two ranks on one GPU.
DUPLICATE = """NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run with \
NCCL_DEBUG=WARN for details), NCCL version 2.28.9
ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
Last error:
Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"""


@pytest.fixture
def broken_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A CUDA build of torch on a node with one GPU whose CUDA does not start. Returns the directory of devices."""
    devices = tmp_path / "dev"
    devices.mkdir()
    import torch

    def init() -> None:
        raise RuntimeError(NOT_INITIALIZED)

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(ddpkit_torch, "_ROOT", f"{tmp_path}/")
    for name in check.VISIBLE:
        monkeypatch.delenv(name, raising=False)
    (devices / "nvidia0").touch()
    (devices / "nvidiactl").touch()
    return devices


@pytest.fixture
def broken_hip(broken_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ROCm build of torch on a node with an MI300X whose HIP does not start. Returns the render node."""
    import torch

    def init() -> None:
        raise RuntimeError("No HIP GPUs are available")

    for name, value in (("device_count", lambda: 0), ("init", init)):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    (broken_cuda / "nvidia0").unlink()
    (broken_cuda / "kfd").touch()
    (broken_cuda / "dri").mkdir()
    for number, gpu_id in enumerate((0, 28851)):  # a processor, and the GPU
        node = broken_cuda.parent / f"sys/class/kfd/kfd/topology/nodes/{number}"
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"{gpu_id}\n")
        (node / "properties").write_text(f"cpu_cores_count 0\ndrm_render_minor {128 if gpu_id else 0}\n")
    (broken_cuda / "dri/renderD128").touch()
    return broken_cuda / "dri/renderD128"


def test_a_rank_of_rocm_does_not_fall_back_to_the_cpu(broken_hip: Path) -> None:
    """HIP counts no GPU where it does not start. Eight ranks once trained over gloo beside eight MI300X."""
    with pytest.raises(EnvError, match="torch cannot use them: No HIP GPUs are available") as failed:
        device(resolve({}))
    assert str(broken_hip) in failed.value.message
    assert "export HIP_VISIBLE_DEVICES=" in (failed.value.hint or "")
    with pytest.raises(check.GpuStartError, match="No HIP GPUs are available") as reported:
        check.count_gpus()
    assert reported.value.fix == "amd"


def test_no_gpu_of_rocm_for_this_process_means_the_cpu(broken_hip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/kfd alone says nothing: it is there on every node with the driver, and open to every task."""
    with monkeypatch.context() as hidden:
        hidden.setenv("ROCR_VISIBLE_DEVICES", "")
        assert device(resolve({"ROCR_VISIBLE_DEVICES": ""})).type == "cpu"
        assert check.count_gpus() == 0
    broken_hip.unlink()
    assert device(resolve({})).type == "cpu"
    assert check.count_gpus() == 0


def test_a_check_without_a_rank_on_the_gpus_fails(broken_hip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch for another vendor, or for the CPU: the test once passed beside "8 x MI300X"."""
    import torch

    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(check.GpuStartError, match=r"is built for the CPU, and sees none .*renderD128, AMD"):
        check.count_gpus()
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(check.GpuStartError, match=r"is built for CUDA, and sees none .*AMD"):
        check.count_gpus()


def test_a_rank_does_not_fall_back_to_the_cpu(broken_cuda: Path) -> None:
    with pytest.raises(EnvError, match="Error 802: system not yet initialized") as failed:
        device(resolve({}))
    assert f"this node has GPUs ({broken_cuda}/nvidia0), and torch cannot use them" in failed.value.message
    assert "export CUDA_VISIBLE_DEVICES=" in (failed.value.hint or "")


def test_a_gpu_without_a_device_file_is_counted(broken_cuda: Path) -> None:
    """WSL has no /dev/nvidia0. NVML counts the GPU."""
    (broken_cuda / "nvidia0").unlink()
    with pytest.raises(EnvError, match=r"this node has GPUs \(1\), and torch cannot use them: .*Error 802"):
        device(resolve({}))


def test_the_check_reports_the_words_of_cuda(broken_cuda: Path) -> None:
    with pytest.raises(check.GpuStartError, match="Error 802: system not yet initialized"):
        check.count_gpus()


@pytest.mark.parametrize("hidden", ["", "-1", "NoDevFiles"])
def test_hidden_gpus_mean_the_cpu(broken_cuda: Path, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert device(resolve({"CUDA_VISIBLE_DEVICES": hidden})).type == "cpu"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert check.count_gpus() == 0


def test_a_build_for_the_cpu_means_the_cpu(broken_cuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.version, "cuda", None)
    assert device(resolve({})).type == "cpu"


@pytest.mark.parametrize(
    ("code", "refused"),
    [(errno.EPERM, False), (errno.EACCES, False), (errno.ENOENT, False), (errno.EIO, True), (errno.ENODEV, True)],
)
def test_a_cgroup_that_hides_the_gpu_means_the_cpu(
    broken_cuda: Path, code: int, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SLURM's ConstrainDevices leaves the files of GPUs, and forbids to open them; a broken GPU cannot be opened."""
    import torch

    real = os.open

    def opened(path: str | Path, *args: int) -> int:
        if str(path).endswith("nvidia0"):
            raise OSError(code, os.strerror(code))
        return real(path, *args)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    if refused:
        with pytest.raises(EnvError):
            device(resolve({}))
        with pytest.raises(check.GpuStartError):
            check.count_gpus()
    else:
        assert device(resolve({})).type == "cpu"
        assert check.count_gpus() == 0


def test_ranks_of_the_check_end_at_once(tmp_path: Path) -> None:
    """A real program, with the model in a sitecustomize.py; no store is waited for."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, torch\n"
        "def init():\n"
        f"    raise RuntimeError({NOT_INITIALIZED!r} + ', with NCCL_DEBUG=' + os.environ.get('NCCL_DEBUG', ''))\n"
        "torch.version.cuda, torch.cuda.device_count, torch.cuda.init = '13.0', lambda: 1, init\n"
    )
    env = os.environ | {"PYTHONPATH": str(tmp_path), "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    env |= {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    env.pop("NCCL_DEBUG", None)
    argv = [sys.executable, "-m", "ddpkit.distributed.check"]
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    text = ended.stdout + ended.stderr
    assert ended.returncode == check.BAD, text
    assert "torch cannot use the GPUs of this node: " in text
    assert "Error 802: system not yet initialized" in text
    assert "listen" not in text
    assert "with NCCL_DEBUG=WARN" in text  # NCCL's reason is on the screen, or in the log


def test_the_reason_of_nccl_comes_first() -> None:
    reason = process_group.error_reason
    text = reason(RuntimeError(DUPLICATE))
    assert text.startswith("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000 (NCCL error in: ")
    assert reason(RuntimeError("one\ntwo")) == "one"
    assert reason(RuntimeError("one\nLast error:\n")) == "one"
    assert reason(TimeoutError()) == "TimeoutError"


def test_the_hint_for_an_error_of_nccl_is_not_a_network_interface() -> None:
    env = resolve({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    error = process_group._start_error(env, "nccl", 60.0, RuntimeError(DUPLICATE), connected=True)
    assert "nccl could not connect them: Duplicate GPU detected" in error.message
    assert "SOCKET_IFNAME" not in (error.hint or "")
    assert "ddpkit explain" in (error.hint or "")


def rank_env(rank: int, world: int) -> DistEnv:
    """A rank of one node."""
    place = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": 1}
    return resolve({"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in place.items()}})


class Devices:
    """torch.cuda as a model: a current device of each thread, and a queue of each device, in virtual seconds."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds  # of one product or copy, by device
        self.now = 0.0
        self.queues = [0.0] * len(seconds)  # when the work of a device ends
        self.current = threading.local()
        self.contexts: set[int] = set()

    def index(self, device: Any = None) -> int:
        own = getattr(self.current, "index", 0) if device is None or device.index is None else int(device.index)
        self.contexts.add(own)
        return own

    def set_device(self, device: Any) -> None:
        self.current.index = device.index

    def submit(self, index: int) -> Devices:
        self.now += 1e-5  # the launch alone
        self.queues[index] = max(self.now, self.queues[index]) + self.seconds[index]
        return self

    def synchronize(self, device: Any = None) -> None:
        self.now = max(self.now, self.queues[self.index(device)])

    def ones(self, _: object, dtype: object, device: Any = None, pin_memory: bool = False) -> Factor:
        return Factor(self, self.index(device) if device is not None or pin_memory else None)


class Factor:
    """A tensor of the model."""

    def __init__(self, devices: Devices, index: int | None) -> None:
        self.devices, self.index = devices, index

    def __matmul__(self, _: object) -> object:
        assert self.index is not None
        return self.devices.submit(self.index)

    def to(self, device: Any, non_blocking: bool) -> object:
        return self.devices.submit(self.devices.index(device))


def test_each_rank_times_the_work_of_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a device, synchronize() is of GPU 0: other ranks timed the launch alone, and made a context there."""
    import torch

    for rank in range(8):
        model = Devices([0.002] * 7 + [0.004])
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
        monkeypatch.setattr(torch.cuda, "set_device", model.set_device)
        monkeypatch.setattr(torch.cuda, "synchronize", model.synchronize)
        monkeypatch.setattr(torch, "ones", model.ones)
        monkeypatch.setattr(time, "perf_counter", lambda model=model: model.now)
        times = check.time_local_work(rank_env(rank, 8), gpu=True)
        monkeypatch.undo()
        assert times == pytest.approx(dict.fromkeys(("gemm", "copy"), model.seconds[rank]), rel=0.01)
        assert model.contexts == {rank}


def test_a_rank_whose_context_hangs_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is NCCL's, and the sums have theirs after it."""
    import torch

    hung = threading.Event()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: hung.wait(PATIENCE))
    monkeypatch.setattr(check, "NCCL_START", 0.3)
    env = rank_env(1, 2)
    store: Any = None
    result = check.check_backend(env, store, "nccl", 1, 0.1, "advice")
    hung.set()
    assert result["problem"] == "no answer after 0.3 s of creating a CUDA context on cuda:1"
    assert (result["late"], result["fix"]) == (True, "nvidia")


# With a device_id NCCL is non-blocking in torch 2.6.0 to 2.7.0, and hangs at random (pytorch#153960).
VERSIONS = {
    "2.2.2+cu121": False,
    "2.3.0": True,
    "2.5.1+cu124": True,
    "2.6.0+cu124": False,
    "2.7.0": False,
    "2.7.1+cu126": True,
    "2.10.0": True,
    "2.13.0a0+git1": True,
}


@pytest.mark.parametrize(("version", "bound"), VERSIONS.items())
@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl", "gloo"])
def test_the_group_gets_its_device(version: str, bound: bool, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    import torch.distributed as dist

    given: dict[str, Any] = {}
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **options: given.update(options))
    monkeypatch.setattr(torch, "__version__", version)
    own = torch.device("cuda", 3)
    process_group.start_group(resolve({}), backend, own, None, 60.0)
    assert given.get("device_id") == (own if bound and "nccl" in backend else None)


def test_partitions_of_one_gpu_are_different_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """AMD's MI300 can be in partitions, which have the UUID of their GPU. They were once "the same GPU"."""
    import torch

    uuids = ["a", "a", "b", "b"]
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(uuids))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda at: argparse.Namespace(name="AMD Instinct MI300X", uuid=uuids[at])
    )
    assert [check.identify_gpu(at)[1] for at in range(4)] == ["a", "a/1", "b", "b/1"]


def test_an_apple_laptop_means_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """DDP over gloo cannot reduce tensors of mps, and mps has no float64 (pytorch#122602)."""
    import torch

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))
    assert device(resolve({})).type == "cpu"


def test_words_for_an_accelerator_of_intel(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("xpu"))
    monkeypatch.setenv("ZE_AFFINITY_MASK", "0,1")
    ranks = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    env = resolve(ranks)
    with pytest.raises(EnvError, match=r"would use xpu:3, but torch sees 2 of them here \(ZE_AFFINITY_MASK=0,1\)"):
        device(env)
    missing = RuntimeError("Distributed package doesn't have XCCL built in")
    error = process_group._start_error(env, "xccl", 60.0, missing, connected=True)
    assert "xccl could not connect the ranks: Distributed package doesn't have XCCL built in" in error.message
    assert "SOCKET_IFNAME" not in (error.hint or "")


def test_a_rank_in_the_start_of_nccl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL's start has no limit. It is modelled as a start that ends when the warning was logged."""
    import torch.distributed

    dist: Any = torch.distributed  # torch's stubs leave out the stores
    logged = threading.Event()
    lines: list[str] = []

    class Log(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            logged.set()

    handler, logger = Log(), logging.getLogger(process_group.__name__)
    logger.addHandler(handler)
    env = resolve({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "1"})
    store = dist.HashStore()
    store.set("ddpkit/backend/1", "nccl on node1 (cuda)")
    monkeypatch.setattr(dist, "rendezvous", lambda *_, **__: iter([(store, 1, 2)]))
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: logged.wait(60))
    try:
        process_group.start_group(env, "nccl", torch.device("cuda", 1), None, 0.05)
    finally:
        logger.removeHandler(handler)
    (line,) = lines
    assert line.startswith(f"rank 1 of 2 on {socket.gethostname()} (cuda:1) has been in the start of nccl for 0.05 s")


def test_ranks_of_two_backends_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One node has a torch without CUDA. NCCL and gloo once waited for each other, and a network was the hint."""
    import torch.distributed

    dist: Any = torch.distributed  # torch's stubs leave out the stores
    store, started = dist.HashStore(), []
    monkeypatch.setattr(dist, "rendezvous", lambda *_, **__: iter([(store, 0, 2)]))
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **_: started.append(backend))
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "1"}
    first, second = (resolve({**place, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01")
    process_group.start_group(first, "nccl", torch.device("cuda", 0), None, 5)
    with pytest.raises(EnvError) as caught:
        process_group.start_group(second, "gloo", torch.device("cpu"), None, 5)
    host = socket.gethostname()
    assert caught.value.message == f"rank 1 of 2 on {host} starts gloo (cpu), and rank 0 starts nccl on {host} (cuda)"
    assert "torch.version.cuda" in (caught.value.hint or "")
    assert started == ["nccl"]
    for rank in (first, second):  # a second group, of another backend
        process_group.start_group(rank, "ucc", torch.device("cpu"), None, 5)
    assert started == ["nccl", "ucc", "ucc"]


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        ("starting nccl: Cuda failure 'system not yet initialized' (NCCL error in: x.cpp:93)", "nvidia"),
        ("an all_reduce of 16 MiB: CUDA out of memory. Tried to allocate 64.00 MiB", "nvidia"),
        ("starting nccl: Error: network IB not found. (NCCL error in: x.cpp:93)", "nccl-details"),
        ("starting nccl: socketStartConnect: Connect to 10.0.0.2<4> failed (NCCL error in: x)", "nccl"),
        ("a small all_reduce: Connection closed by peer", "nccl"),
    ],
)
def test_only_an_error_of_the_network_has_its_hint(problem: str, fix: str) -> None:
    """The first error is that of NCCL 2.28.9 over a driver that answers 802. Its hint was once an interface."""
    assert check.error_fix(problem, "nccl") == fix
