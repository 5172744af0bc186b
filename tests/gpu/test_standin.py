"""CUDA builds of torch over a stand-in driver: NVML counts eight GPUs, and CUDA starts on them or does not.

`make test-cuda` installs torch with CUDA (5 GB a version), and sets CUDA_PYTHONS to the interpreters. The messages are
genuine: torch, NCCL and the CUDA runtime make them from the driver's answers. Nothing here needs a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, PATIENCE, START

from ddpkit.diagnosis.decide import analyze_log

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
LEFT_OUT = "left out: `make test-cuda` runs it with CUDA builds of torch (5 GB a version)"
PYTHONS = [path for path in os.environ.get("CUDA_PYTHONS", "").split(os.pathsep) if path]
PARAMS: list[Any] = PYTHONS or [pytest.param("", marks=pytest.mark.skip(reason=LEFT_OUT))]
NOT_READY = "Error 802: system not yet initialized"

pytestmark = [pytest.mark.cuda, pytest.mark.torch, pytest.mark.new_python]


@pytest.fixture(scope="session", params=PARAMS, ids=lambda path: Path(path).parts[-3] if path else "none")
def python(request: pytest.FixtureRequest) -> str:
    """Interpreter with a CUDA build of torch."""
    return str(request.param)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Compile the stand-in driver. Returns the environment that loads it, for two ranks on the GPUs of this machine."""
    folder = tmp_path_factory.mktemp("driver")
    for source, library in (("cuda.c", "libcuda.so.1"), ("nvml.c", "libnvidia-ml.so.1"), ("cudart.c", "cudart.so")):
        output = str(folder / library)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", output, str(HERE / "standin" / source)], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "PYTHONPATH": f"{ROOT}:{HERE / 'programs'}", "DDPKIT_GPUS": "2"}


def run(python: str, code: str, env: dict[str, str], *args: str) -> str:
    """Run Python code to its end, without a launcher. Returns its output."""
    argv = [python, "-W", "ignore", "-c", code, *args]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        argv,
        env={**kept, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=5 * PATIENCE,  # the first import of torch with CUDA reads gigabytes
        check=False,
    )
    return done.stdout


def test_the_build_has_cuda_and_the_driver_counts(python: str, driver: dict[str, str]) -> None:
    """The stand-in is in use: without this, all other tests could pass on a build for the CPU."""
    code = "import torch; print(torch.version.cuda is not None, torch.cuda.device_count(), torch.cuda.is_available())"
    assert run(python, code, driver).splitlines()[-1] == "True 8 False"


# By the answer of cuInit, a number of cudaError_t; the last driver is that of CUDA 11.8.
CAUSES = {
    "STANDIN_ERROR=802": "cuda-init-failed",
    "STANDIN_ERROR=803": "cuda-init-failed",
    "STANDIN_ERROR=804": "cuda-compat-refused",
    "STANDIN_ERROR=999": "cuda-init-failed",
    "STANDIN_ERROR=3": "cuda-init-failed",
    "STANDIN_ERROR=100": "no-cuda-gpus",
    "STANDIN_ERROR=46": "gpu-busy",
    "STANDIN_DRIVER=11080": "driver-too-old",
}
START_EACH = """
import os, sys, torch, traceback
for setting in sys.argv[1:]:  # torch is imported once; CUDA starts in a process of its own
    if os.fork() == 0:
        os.environ.update([setting.split("=")])
        print("setting", setting, flush=True)
        try:
            torch.cuda.init()
        except RuntimeError:
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


def test_the_cause_of_each_error(python: str, driver: dict[str, str]) -> None:
    """ddpkit knows the message that torch makes of each answer of the driver."""
    parts = run(python, START_EACH, driver, *CAUSES).split("setting ")[1:]
    found = {}
    for part in parts:
        setting, _, text = part.partition("\n")
        first = analyze_log([("log", text)]).first
        found[setting] = first.entry.id if first and first.known else text
    assert found == CAUSES


def test_bench_reports_cuda(python: str, driver: dict[str, str], ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "2", "--python", python, env=driver)
    assert done.returncode == 122, done.stderr
    assert "this node has GPUs (8), and torch cannot use them: " in done.stderr
    assert NOT_READY in done.stderr


def test_the_checks_report_cuda(python: str, driver: dict[str, str], ddpkit: DDPKIT) -> None:
    """The failure is CUDA's. It was once reported as a port in use."""
    done = ddpkit("test", "2", "--python", python, env=driver)
    text = done.stdout + done.stderr
    assert done.returncode == 122, text
    assert "torch cannot use the GPUs of this node: Unexpected error from cudaGetDeviceCount()" in text
    assert NOT_READY in text
    assert ": systemctl status nvidia-fabricmanager; nvidia-smi" in text
    assert "cannot listen" not in text
    assert "NCCL_SOCKET_IFNAME" not in text


def test_init_does_not_fall_back_to_the_cpu(python: str, driver: dict[str, str]) -> None:
    text = run(python, "from ddpkit.distributed import torch as d; d.init(); print('started')", driver)
    assert "started" not in text
    assert "this node has GPUs (8), and torch cannot use them: " in text
    assert NOT_READY in text


def test_a_launch_does_not_train_on_the_cpu(
    python: str, driver: dict[str, str], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """train.py once trained on the CPU here, with exit code 0. The verdict has CUDA's cause."""
    script = [str(ROOT / "train.py"), "--dataset", "synthetic", "--synthetic-size", "64", "--epochs", "1"]
    done = ddpkit("launch", "-n", "2", "--python", python, "--", *script, env=driver)
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "ranks (cpu)" not in text
    assert NOT_READY in text
    assert not (tmp_path / "checkpoints").exists()
    (record,) = (tmp_path / "logs").glob("*/run.json")
    assert json.loads(record.read_text())["failure"]["diagnosis"]["id"] == "cuda-init-failed"


@pytest.mark.parametrize("hidden", [{"CUDA_VISIBLE_DEVICES": ""}, {"STANDIN_GPUS": "0"}], ids=min)
def test_hidden_gpus_and_none_mean_the_cpu(
    hidden: dict[str, str], python: str, driver: dict[str, str], ddpkit: DDPKIT
) -> None:
    script = [str(ROOT / "train.py"), "--dataset", "synthetic", "--synthetic-size", "64", "--epochs", "1"]
    given = ["--env", "CUDA_VISIBLE_DEVICES="] if "CUDA_VISIBLE_DEVICES" in hidden else []
    done = ddpkit("launch", "-n", "1", "--python", python, *given, "--", *script, env={**driver, **hidden})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 ranks (cpu), " in done.stdout


@pytest.mark.parametrize("modules", ["torch", "torch,poison"])
def test_preload_does_not_poison_the_ranks(modules: str, python: str, driver: dict[str, str], ddpkit: DDPKIT) -> None:
    """A module that calls torch.cuda.is_available() starts CUDA. After a fork, CUDA could not start in any rank."""
    options = ["-n", "2", "-o", f"preload={modules}", "--python", python]
    done = ddpkit("launch", *options, "--", str(HERE / "programs" / "uses_gpu.py"), env=driver)
    text = done.stdout + done.stderr
    assert text.count("CUDA may start: True") == 2, text
    assert "preload has no effect" not in text


def test_dump_has_a_record_of_the_collectives(
    python: str, driver: dict[str, str], start: START, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """torch's flight recorder is off by default up to 2.10, and on from 2.11: a launch has it on with both."""
    env = {**driver, "STANDIN_GPUS": "0"}
    options = ["-n", "2", "--python", python, "--env", "CUDA_VISIBLE_DEVICES="]
    command = start("launch", *options, "--", str(HERE / "programs" / "faults.py"), "hang", env=env)
    command.wait_for("hangs now")
    command.wait_for("step 7")
    (folder,) = (tmp_path / "logs").iterdir()
    done = ddpkit("dump", str(folder), "--json", env=env)
    found = json.loads(done.stdout)
    assert [(one["kind"], one["ranks"]) for one in found["findings"]] == [("late", [1])], found["findings"]
    assert "rank 1 on" in found["findings"][0]["words"]


# ---- CUDA starts: a runtime over the host's memory is preloaded. NCCL's own runtime finds no GPU.

STARTS = """
import torch
torch.cuda.set_device(1)
numbers = torch.tensor([1.0, 2.0], device="cuda")
print(torch.cuda.is_available(), torch.cuda.current_device(), numbers.device, numbers.cpu().tolist())
"""


@pytest.fixture
def cuda(driver: dict[str, str]) -> tuple[str, ...]:
    """Options of a command whose ranks have eight GPUs on which CUDA starts."""
    return "--env", f"LD_PRELOAD={driver['LD_LIBRARY_PATH']}/cudart.so"


def test_cuda_starts(python: str, driver: dict[str, str], cuda: tuple[str, ...]) -> None:
    name, _, value = cuda[1].partition("=")
    assert run(python, STARTS, {**driver, name: value}).splitlines()[-1] == "True 1 cuda:1 [1.0, 2.0]"


def test_the_reason_of_nccl_has_its_cause(
    python: str, driver: dict[str, str], cuda: tuple[str, ...], ddpkit: DDPKIT
) -> None:
    """Each rank has a GPU of its own, and NCCL does not start on any. Its hint was once a network interface."""
    done = ddpkit("test", "2", "--python", python, "--timeout", "60", *cuda, "--json", env=driver)
    assert done.returncode == 122, done.stdout + done.stderr
    checks = {check["id"]: check for check in json.loads(done.stdout)["checks"]}
    assert (checks["gloo"]["status"], checks["gpu-map"]["status"]) == ("pass", "pass")
    nccl = checks["nccl"]
    assert (nccl["status"], nccl["doc"]) == ("fail", "cuda-init-failed")
    assert nccl["evidence"].startswith("starting nccl: Cuda failure 'system not yet initialized' (NCCL error in: ")
    assert "CUDA cannot start" in nccl["cause"]
    assert "SOCKET_IFNAME" not in nccl["fix"]


def test_one_rank_on_which_cuda_does_not_start_is_the_only_one_named(
    python: str, driver: dict[str, str], cuda: tuple[str, ...], ddpkit: DDPKIT
) -> None:
    bad = {**driver, "STANDIN_BAD": "1"}
    done = ddpkit("test", "2", "--python", python, "--timeout", "60", *cuda, "--json", env=bad)
    assert done.returncode == 122, done.stdout + done.stderr
    (failed,) = [check for check in json.loads(done.stdout)["checks"] if check["status"] == "fail"]
    assert (failed["rank"], failed["doc"]) == (1, "cuda-init-failed")
    assert NOT_READY in failed["evidence"]


def test_bench_reports_the_reason_of_nccl(
    python: str, driver: dict[str, str], cuda: tuple[str, ...], ddpkit: DDPKIT
) -> None:
    done = ddpkit("bench", "2", "--python", python, "--timeout", "60", *cuda, env=driver)
    assert done.returncode == 122, done.stdout + done.stderr
    assert "Cuda failure 'system not yet initialized'" in done.stderr
    assert "SOCKET_IFNAME" not in done.stderr


def test_two_ranks_on_one_gpu_are_reported(
    python: str, driver: dict[str, str], cuda: tuple[str, ...], ddpkit: DDPKIT
) -> None:
    done = ddpkit("test", "2", "--python", python, "--timeout", "60", *cuda, env={**driver, "STANDIN_GPUS": "1"})
    assert done.returncode == 122, done.stdout + done.stderr
    assert "rank 1): uses the same GPU as rank 0 on" in done.stdout + done.stderr


def test_a_launch_starts_cuda_and_reports_the_reason_of_nccl(
    python: str, driver: dict[str, str], cuda: tuple[str, ...], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """The verdict has NCCL's reason, and the report the start of CUDA of each rank."""
    done = ddpkit(
        "launch", "-n", "2", "--python", python, *cuda, "--", str(HERE / "programs/faults.py"), "none", env=driver
    )
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "but nccl could not connect them: Cuda failure 'system not yet initialized'" in text
    (record,) = (tmp_path / "logs").glob("*/run.json")
    assert json.loads(record.read_text())["failure"]["diagnosis"]["id"] == "cuda-init-failed"
    rows = json.loads(ddpkit("report", "--json").stdout)["start"]["rows"]
    assert [[part["phase"] for part in row["segments"]].count("cuda") for row in rows] == [1, 1]
