"""The checks of `make gpu` as tests. Each needs a GPU on which CUDA starts, else it is skipped, with the reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import verify
from gpu_checks import CHECKS, CUDA_START, Check
from verify import Machine, missing, read_machine, run_check

JUDGED = [check for check in CHECKS if not check.recording]


def lists_gpus() -> bool:
    """Return whether nvidia-smi lists a GPU. torch is not imported on machines without one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=60, check=False)
    return "GPU 0" in done.stdout


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Versions and GPUs of this machine."""
    if not lists_gpus():
        pytest.skip("no NVIDIA GPU here: nvidia-smi lists none")
    return read_machine(run_check(CUDA_START, tmp_path_factory.mktemp("machine")))


@pytest.fixture(scope="session")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all checks: `train-resume` reads the checkpoint of `train-fp16`."""
    return tmp_path_factory.mktemp("outputs")


@pytest.mark.gpu
@pytest.mark.torch
@pytest.mark.parametrize("check", JUDGED, ids=lambda check: check.name)
def test_on_a_gpu(check: Check, machine: Machine, outputs: Path) -> None:
    reason = missing(check, machine)
    if reason:
        pytest.skip(reason)
    result = run_check(check, outputs)
    assert result.state == "PASS", f"{result.reason}\n{result.text}"


# ---- the program itself, without a GPU


def check_of(
    source: str,
    *,
    code: int | None = 0,
    present: tuple[str, ...] = (),
    absent: tuple[str, ...] = (),
    limit: float = 20.0,
) -> Check:
    """Return a check that runs Python code."""
    argv = (sys.executable, "-c", source)
    return Check(name="one", purpose="", argv=argv, code=code, present=present, absent=absent, limit=limit)


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (check_of("print('done')", present=("^done$",)), ""),
        (check_of("raise SystemExit(3)", code=3), ""),
        (check_of("raise SystemExit(3)"), "exit code 3, not 0"),
        (check_of("raise SystemExit(3)", code=None), ""),
        (check_of("print('done')", present=("ready",)), "not in the output: ready"),
        (check_of("print('one'); print('device cpu')", absent=("^device cpu",)), "in the output: device cpu"),
        (check_of("import time; time.sleep(60)", limit=1.0), "no end within its time limit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_check_is_judged_by_its_program(check: Check, reason: str, tmp_path: Path) -> None:
    result = run_check(check, tmp_path)
    assert (result.reason, result.state) == (reason, "FAIL" if reason else "PASS")
    assert (tmp_path / "one.txt").read_text().endswith(result.text)


def test_commands_run_beside_a_program_that_hangs(tmp_path: Path) -> None:
    """The questions come after the line that says so, and Ctrl-C ends the program."""
    code = (
        "import time\nprint('hangs', flush=True)\ntry: time.sleep(60)\nexcept KeyboardInterrupt: raise SystemExit(130)"
    )
    question = (sys.executable, "-c", "print('rank 1')")
    check = replace(
        check_of(code, code=130, present=("hangs\\n(.|\\n)*rank 1\\nexit code 0",)),
        ready="hangs",
        settle=0,
        then=(question,),
    )
    assert run_check(check, tmp_path).reason == ""


def test_a_driver_that_hangs_is_recorded_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of fifteen outputs of nvidia-smi had its time limit: they alone took the time of all checks."""
    argv = (sys.executable, "-c", "import time; time.sleep(60)")
    slow = [Check(name=f"s{number}", purpose="", argv=argv, limit=1.0, gpus=0, recording=True) for number in range(3)]
    monkeypatch.setattr(verify, "CUDA_START", check_of("raise SystemExit(1)"))
    monkeypatch.setattr(verify, "CHECKS", slow)
    _, *results = verify.run_all(tmp_path, "", regardless=False)
    assert [result.state for result in results] == ["KEPT", "SKIP", "SKIP"]
    assert results[1].reason.endswith("did not end before")


def test_a_program_that_is_missing_is_skipped(tmp_path: Path) -> None:
    result = run_check(Check(name="one", purpose="", argv=("no-such-program",)), tmp_path)
    assert (result.state, result.reason) == ("SKIP", "no-such-program: No such file or directory")


def test_each_check_has_a_name_and_a_purpose_of_one_line() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    assert all(check.purpose and "\n" not in check.purpose and len(check.purpose) < 120 for check in CHECKS)
    # Fixtures first: they last. What hangs costs the others little: a driver that does not answer is asked once.
    judged = [check for check in CHECKS if not check.recording]
    assert CHECKS[: len(CHECKS) - len(judged) + 1] == (judged[0], *(check for check in CHECKS if check.recording))
    assert judged[1].name == "nccl-two-ranks"
    # All but recordings can fail.
    assert all(check.code is not None or check.present for check in JUDGED)


@pytest.mark.torch
def test_where_cuda_does_not_start_nothing_else_runs(tmp_path: Path) -> None:
    """The whole program with this Python: it ends with 3 without a GPU, and each check says why it was skipped."""
    if lists_gpus():
        pytest.skip("this machine has a GPU")
    verify = str(Path(__file__).with_name("verify.py"))
    done = subprocess.run(
        [sys.executable, verify, "--out", str(tmp_path / "out"), "--only", "nccl"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "FAIL cuda-start" in done.stdout
    assert "SKIP nccl-two-ranks" in done.stdout
    assert "it needs a GPU on which CUDA starts; this machine has 0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith('{"passed": 0, "failed": ["cuda-start"]')
    assert (tmp_path / "out.tar.gz").exists()
