"""train.py is run as users run it: real ranks, real signals, weights compared bit for bit.

The ranks are started by hand rather than with torchrun wherever an exit code matters, because torchrun's agent turns
every failure into 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from plain_project import make_python
from warm_python import WarmPython

MISSING = [name for name in ("torch", "sklearn") if find_spec(name) is None]
pytestmark = [pytest.mark.torch, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")]

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "train.py")
LIMIT = 120.0  # seconds that any one run may take; far more than it needs
SMALL = ("--dataset", "synthetic", "--synthetic-size", "64", "--batch-size", "16", "--epochs", "1", "--log-every", "1")
LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FOREIGN = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "DDPKIT_", "CUDA_")


def environment(**extra: str) -> dict[str, str]:
    """This process's environment, without what would tell a rank of another launcher, and with one thread a rank."""
    clean = {k: v for k, v in os.environ.items() if k not in LAUNCHED and not k.startswith(FOREIGN)}
    return {**clean, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **extra}


class Ranks:
    """N ranks of train.py in a process group each; `output` is what rank r wrote, after wait()."""

    def __init__(self, count: int, folder: Path, *args: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self.folder, self.args = folder, args
        self.output: list[str] = []
        self.processes: list[WarmPython] = []
        command = [sys.executable, SCRIPT, "--checkpoint-dir", str(folder), *args]
        for rank in range(count):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            size = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
            env = environment(**place, **size) if count > 1 else environment()
            # torch imports its compiler for the first step of an optimizer.
            shared = ("torch._dynamo",)
            started = WarmPython(
                command, env=env, cwd=ROOT, stderr=subprocess.STDOUT, start_new_session=True, modules=shared
            )
            self.processes.append(started)

    def wait(self) -> list[int]:
        self.output = [process.communicate(timeout=LIMIT)[0] for process in self.processes]
        return [process.wait() for process in self.processes]

    def wait_for(self, text: str) -> None:
        """Return as soon as rank 0 has printed a line with `text` in it."""
        watchdog = threading.Timer(LIMIT, self.kill)
        watchdog.start()
        try:
            output = self.processes[0].stdout
            assert output is not None
            seen = []
            while text not in (line := output.readline()):
                seen.append(line)
                assert line, f"rank 0 ended without saying {text!r}:\n{''.join(seen)}"
        finally:
            watchdog.cancel()

    def kill(self) -> None:
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


@contextmanager
def ranks(count: int, folder: Path, *args: str) -> Iterator[Ranks]:
    started = Ranks(count, folder, *args)
    try:
        yield started
    finally:
        started.kill()
        for process in started.processes:
            if process.stdout:
                process.stdout.close()


def train(count: int, folder: Path, *args: str, expect: int = 0) -> str:
    """Run `count` ranks to their end, require one exit code of all, and return rank 0's output."""
    with ranks(count, folder, *args) as run:
        codes = run.wait()
        assert codes == [expect] * count, "\n".join(run.output)
        return run.output[0]


def checkpoint(folder: Path, epoch: int, step: int = 0) -> Path:
    return folder / f"checkpoint_epoch_{epoch:05}_step_{step:06}.pt"


def load(path: Path) -> Any:
    import torch

    return torch.load(path, weights_only=True)


def records(folder: Path) -> list[dict[str, Any]]:
    """The metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "samples_per_second")} for line in lines]


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two nested values differ, tensors bit for bit."""
    import torch

    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return [] if torch.equal(a, b) else [where]
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for key in a for d in differences(a[key], b[key], f"{where}.{key}")]
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{where}[{i}]")]
    return [] if a == b else [where]


# ---------------------------------------------------------------- one trained run, looked at from several sides


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Digits with two ranks under torchrun and every default but the folder."""
    folder = tmp_path_factory.mktemp("trained")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", SCRIPT]
    command[-1:] = ["--log-dir", str(folder / "torchrun"), SCRIPT]
    command += ["--config", str(ROOT / "config/default.yaml"), "--save-dir", str(folder)]
    with subprocess.Popen(
        command, env=environment(), text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as agent:
        try:
            output, errors = agent.communicate(timeout=LIMIT)
        finally:
            try:
                os.killpg(agent.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    assert agent.returncode == 0, output + errors
    return folder, output


def test_two_ranks_learn_the_digits(trained: tuple[Path, str]) -> None:
    folder, output = trained
    lines = output.splitlines()
    assert lines[0].startswith("2 ranks (cpu), batches of 32, 1437 images (digits), seed 0, backend gloo, master ")
    assert lines[-1].endswith(f"checkpoints in {folder}")
    assert len([line for line in lines if line.startswith("epoch 10/10  accuracy")]) == 1, "rank 0 alone logs"
    epochs = [line for line in records(folder) if "test_accuracy" in line]
    assert [line["epoch"] for line in epochs] == list(range(1, 11))
    assert epochs[-1]["test_accuracy"] >= 0.95
    steps = [line["step"] for line in records(folder) if "lr" in line]
    assert steps == list(range(10, 221, 10))


def test_evaluation_counts_every_image_once(trained: tuple[Path, str], tmp_path: Path) -> None:
    """Resumed with no epoch left to train, one rank evaluates what two ranks trained, and finds the same."""
    folder, output = trained
    alone = train(1, tmp_path, "--resume", str(checkpoint(folder, 10)))
    assert alone.splitlines()[-1].split(",")[0] == output.splitlines()[-1].split(",")[0]


def test_uneven_test_shards(tmp_path: Path) -> None:
    """11 test images over 2 ranks, of which a padded sampler would count one twice."""
    size = ("--dataset", "synthetic", "--synthetic-size", "66", "--batch-size", "4", "--epochs", "1")
    train(2, tmp_path / "two", *size)
    (two,) = [line for line in records(tmp_path / "two") if "test_accuracy" in line]
    assert (two["test_accuracy"] * 11) == pytest.approx(round(two["test_accuracy"] * 11))
    again = train(1, tmp_path / "one", *size, "--resume", str(checkpoint(tmp_path / "two", 1)))
    assert f"final accuracy {100 * two['test_accuracy']:.2f} %" in again


def test_a_damaged_checkpoint_is_passed_over(trained: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained[0], folder)
    newest = checkpoint(folder, 10)
    newest.write_bytes(newest.read_bytes()[:1000])
    before = records(folder)
    output = train(2, folder, "--resume", "auto")
    assert f"train.py: cannot read {newest}: " in output
    assert "resumed after epoch 9\n" in output
    assert records(folder) == before, "the tenth epoch again: the same numbers, and none of them twice"
    weights, original = load(newest)["model"], load(checkpoint(trained[0], 10))["model"]
    assert differences(weights, original) == []


# ---------------------------------------------------------------- stopped and resumed


def test_stopped_and_resumed_is_as_if_never_stopped(tmp_path: Path) -> None:
    """One rank gets a signal, twice in an epoch. All leave at the same step with 75, and the end has the same bits.

    Of three ranks: with two, the order in which a gradient is summed does not matter.
    """
    size = ["--dataset", "synthetic", "--synthetic-size", "4800", "--epochs", "1", "--dropout", "0.3"]
    size += ["--batch-size", "8"]
    train(3, tmp_path / "whole", *size)
    before = 0
    for number in (signal.SIGTERM, signal.SIGUSR1):
        again = ("--resume", "auto") if before else ()
        with ranks(3, tmp_path / "parts", *size, *again) as run:
            run.wait_for(f"  step {before + 20}/")
            run.processes[1].send_signal(number)
            codes = run.wait()
            assert codes == [75, 75, 75], "\n".join(run.output)
            assert "run again with --resume auto" in run.output[0]
        newest = max((tmp_path / "parts").glob("*.pt"))
        saved = load(newest)
        assert before + 20 <= saved["step"] < 200, "stopped within the epoch"
        assert len(saved["random"]) == 3
        before = saved["step"]
    output = train(3, tmp_path / "parts", *size, "--resume", "auto")
    assert f"resumed after epoch 0 and {before} steps" in output
    whole, parts = (load(checkpoint(tmp_path / name, 1)) for name in ("whole", "parts"))
    assert differences(whole, parts) == []
    assert records(tmp_path / "whole") == records(tmp_path / "parts")


def test_another_number_of_ranks_within_an_epoch_is_refused(tmp_path: Path) -> None:
    size = ("--dataset", "synthetic", "--synthetic-size", "6400", "--batch-size", "16", "--log-every", "1")
    with ranks(1, tmp_path, *size) as run:
        run.wait_for("  step 1/")
        run.processes[0].send_signal(signal.SIGUSR1)
        assert run.wait() == [75], run.output[0]
    output = train(2, tmp_path, *size, "--resume", "auto", expect=2)
    assert "within an epoch this must stay: 1 ranks (cpu), batches of 16, " in output
    assert "Traceback" not in output


def test_it_needs_no_ddpkit_and_no_other_file(tmp_path: Path) -> None:
    """A copy in an empty directory, with a Python that has torch and the other libraries."""
    python = make_python(tmp_path / "python")
    (tmp_path / "project").mkdir()
    shutil.copy(SCRIPT, tmp_path / "project")
    argv = [python, "train.py", *SMALL, "--amp", "bf16"]
    done = subprocess.run(
        argv, cwd=tmp_path / "project", env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ranks (cpu), batches of 16, 64 images (synthetic), seed 0, backend gloo, master ")
    assert [line["step"] for line in records(tmp_path / "project/checkpoints")] == [1, 2, 3, 4, 4]


def test_no_half_checkpoint_is_left(tmp_path: Path) -> None:
    """The disk is full, or here: the limit of a file's size is reached. What was saved before stays whole."""
    import resource

    train(1, tmp_path, *SMALL)
    before = load(checkpoint(tmp_path, 1))
    code = "import resource, runpy, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    code += f"resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, {resource.RLIM_INFINITY})); "
    code += f"runpy.run_path({SCRIPT!r}, run_name='__main__')"
    argv = [sys.executable, "-c", code, *SMALL, "--epochs", "2", "--resume", "auto", "--save-dir", str(tmp_path)]
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode != 0, done.stdout
    assert sorted(path.name for path in tmp_path.glob("*.pt*")) == [checkpoint(tmp_path, 1).name]
    assert not list(tmp_path.glob(".*"))
    assert differences(before, load(checkpoint(tmp_path, 1))) == []


def test_what_a_killed_run_left_half_written_goes_with_the_next_save(tmp_path: Path) -> None:
    """Only drafts of this script, and of the checkpoint that is written now."""
    mine = [tmp_path / name for name in (".my.pt.01234567.tmp", ".checkpoint_epoch_00009_step_000000.pt.draft.tmp")]
    left = tmp_path / f".{checkpoint(tmp_path, 1).name}.0123abcd.tmp"
    for path in (*mine, left):
        path.write_bytes(b"x" * 1000)
        os.utime(path, (1, 1))
    writes_now = left.with_name(left.name.replace("0123abcd", "89abcdef"))
    writes_now.touch()
    os.utime(writes_now, (time.time() + 3600,) * 2)  # another run, which still writes
    train(1, tmp_path, *SMALL)
    assert sorted(tmp_path.glob(".*")) == sorted([*mine, writes_now])


# ---------------------------------------------------------------- in this process: arithmetic, config, files


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """train.py as a module. What it refuses ends this test with SystemExit, not this process."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("train_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(os, "environ", environment())
    return module


def test_default_yaml_holds_the_defaults(script: Any) -> None:
    file = str(ROOT / "config/default.yaml")
    found = script.parse_options(["--config", file])
    assert vars(found) == vars(script.parse_options([])) | {"config": file}
    text = Path(file).read_text()
    assert {*re.findall(r"(?m)^(\w+):", text), "config", "local_rank"} == vars(found).keys()
    read = {key: value for key, value in yaml.safe_load(text).items() if value is not None}
    read |= {"amp": "off", "lr": float(read["lr"])}  # YAML 1.1 reads `off` as false, and 5e-3 as text
    assert read.items() <= vars(found).items(), "as PyYAML reads it"


def test_flags_win_over_the_file_and_the_file_over_defaults(script: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("# mine\n\nlr: 1e-3\nepochs: 7  # seven\nmetrics: 'a#b.jsonl'\namp: off\nresume: null\nseed:   4\n")
    config = script.parse_options(["--config", str(file), "--epochs=3", "--local-rank=1", "--save-dir", "x"])
    assert (config.lr, config.epochs, config.batch_size, config.seed) == (1e-3, 3, 32, 4)
    assert (config.checkpoint_dir, config.metrics, config.amp, config.resume) == ("x", "a#b.jsonl", "off", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "unrecognized arguments: --epoch=3"),
        ("epochs: many", "argument --epochs: invalid int value: 'many'"),
        ("epochs: 2.5", "argument --epochs: invalid int value: '2.5'"),
        ("epochs: 0", "must be at least 1"),
        ("amp: fp8", "argument --amp: invalid choice: 'fp8'"),
        ("- a", "unrecognized arguments: "),
        ("epochs", "argument --epochs: invalid int value: ''"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(
    script: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        script.parse_options(["--config", str(file)])
    errors = capsys.readouterr().err
    assert errors.startswith(f"train.py: {file}: {message}" if "least" not in message else f"train.py: {file}: ")
    assert message in errors
    assert errors.count("\n") == 1, "one line"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--epoch", "3"], "unrecognized arguments: --epoch 3"),
        (["--lr=fast"], "argument --lr: invalid float value: 'fast'"),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: [Errno 2] No such file or directory: '/nowhere.yaml'"),
        (["--config", "/"], "/: [Errno 21] Is a directory: '/'"),
    ],
)
def test_a_request_that_cannot_be_carried_out_ends_with_2(
    script: Any, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        script.main(args)
    errors = capsys.readouterr().err
    assert errors.startswith(f"train.py: {message}")
    assert errors.count("\n") == 1, "one line"


def test_only_one_rank_of_a_node_complains(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    monkeypatch.setattr(os, "environ", environment(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", **place))
    with pytest.raises(SystemExit, match="2"):
        script.main(["--epochs", "x"])
    assert capsys.readouterr().err == ""


STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"}
STEP |= {"SLURM_STEP_NUM_TASKS": "4", "MASTER_ADDR": "node1"}
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
SRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "20113"}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, ALONE),
        (STEP, SRUN),
        ({**STEP, "PMI_RANK": "3", "PMI_SIZE": "4"}, SRUN),  # srun --mpi=pmi2
        ({**STEP, "SLURM_STEP_ID": "4294967290", "MASTER_ADDR": ""}, ALONE),  # the shell of a job
        ({**STEP, "SLURM_STEP_ID": "-6", "MASTER_ADDR": ""}, ALONE),
        ({**SRUN, "RANK": "2", "MASTER_PORT": "5"} | {"SLURM_STEP_ID": "1"}, {**SRUN, "RANK": "2", "MASTER_PORT": "5"}),
    ],
)
def test_who_this_process_is(
    script: Any, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], read: dict[str, str]
) -> None:
    env = environment(**given)
    monkeypatch.setattr(os, "environ", env)
    script.read_launcher()
    assert {name: env[name] for name in read} == read


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"RANK": "0"}, "LOCAL_RANK, MASTER_ADDR, MASTER_PORT, WORLD_SIZE"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "LOCAL_RANK, MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE"),
        ({**STEP, "OMPI_COMM_WORLD_SIZE": "8"}, "LOCAL_RANK, MASTER_PORT, RANK, WORLD_SIZE"),  # mpirun in a job
    ],
)
def test_an_incomplete_environment_ends_with_5(
    script: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    missing: str,
) -> None:
    monkeypatch.setattr(os, "environ", environment(**given))
    with pytest.raises(SystemExit, match="5"):
        script.main([])
    errors = capsys.readouterr().err
    assert errors.startswith(f"train.py: {missing}: not set; hint: ")
    assert errors.count("\n") == 1


def test_a_fresh_start_moves_an_earlier_run_aside(tmp_path: Path) -> None:
    (tmp_path / "my.pt").write_text("mine")
    (tmp_path / "earlier_1").mkdir()
    old = '{"step": 1, "epoch": 1, "loss": 7.5}\n'
    (tmp_path / "metrics.jsonl").write_text(old)
    for path in (checkpoint(tmp_path, 1), checkpoint(tmp_path, 12), checkpoint(tmp_path, 1, 9)):
        path.write_text("an earlier one")
    output = train(1, tmp_path, *SMALL)
    assert f"moved what an earlier run left to {tmp_path}/earlier_2: " in output
    now = {"earlier_1", "earlier_2", "metrics.jsonl", "my.pt", checkpoint(tmp_path, 1).name}
    assert {path.name for path in tmp_path.iterdir()} == now
    assert (tmp_path / "earlier_2/metrics.jsonl").read_text() == old
    assert {path.read_text() for path in (tmp_path / "earlier_2").glob("*.pt")} == {"an earlier one"}
    assert len(list((tmp_path / "earlier_2").iterdir())) == 4
    assert [line["step"] for line in records(tmp_path)] == [1, 2, 3, 4, 4]
    assert (tmp_path / "my.pt").read_text() == "mine"


def test_what_another_run_saves_meanwhile_stays(tmp_path: Path) -> None:
    """Two jobs with one directory, as of an array: none saves over the other."""
    with ranks(1, tmp_path, *SMALL, "--epochs", "40") as run:
        run.wait_for("epoch 1/40  accuracy")
        checkpoint(tmp_path, 40).write_text("of the other one")
        assert run.wait() == [0], run.output
    assert (tmp_path / "earlier_1" / checkpoint(tmp_path, 40).name).read_text() == "of the other one"
    assert load(checkpoint(tmp_path, 40))["epoch"] == 40
    assert f"moved what another run saved here to {tmp_path}/earlier_1: checkpoint_epoch_00040" in run.output[0]


def test_a_checkpoint_that_is_a_pipe_is_left_out(tmp_path: Path) -> None:
    os.mkfifo(checkpoint(tmp_path, 9))
    output = train(1, tmp_path, *SMALL, "--resume", "auto")
    assert f"cannot read {checkpoint(tmp_path, 9)}: OSError('no file')" in output
    assert (tmp_path / "earlier_1" / checkpoint(tmp_path, 9).name).is_fifo()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_metrics_that_are_no_file_are_refused(
    make: Any, script: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A pipe that nobody reads would be waited for, deaf to TERM."""
    make(tmp_path / "metrics")
    with pytest.raises(SystemExit, match="2"):
        script.main([*SMALL, "--metrics", "metrics", "--checkpoint-dir", str(tmp_path)])
    assert "metrics is there, and is no file" in capsys.readouterr().err


def test_no_metrics_are_written_through_a_link(script: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Who can write to a team's directory of checkpoints could lead them to any file of this user's."""
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "profile")
    with pytest.raises(SystemExit, match="2"):
        script.main([*SMALL, "--checkpoint-dir", str(tmp_path)])
    assert "metrics.jsonl is no file to open: Too many levels of symbolic links" in capsys.readouterr().err
    assert not (tmp_path / "profile").exists()


def test_the_metrics_that_were_read_are_the_ones_that_are_written(script: Any, tmp_path: Path) -> None:
    path, precious = tmp_path / "metrics.jsonl", tmp_path / "precious"
    path.write_text('{"step": 1, "epoch": 1, "loss": 1}\n')
    precious.write_text("mine")
    training = script.Training.__new__(script.Training)
    training.folder, training.total_steps, training.epoch, training.step = tmp_path, 1, 0, 1
    training.options = script.parse_options([])
    read = script.read_metrics

    def exchanged(*words: Any) -> Any:
        found = read(*words)
        path.rename(tmp_path / "moved")
        path.symlink_to(precious)
        return found

    script.read_metrics = exchanged
    try:
        training.open_metrics()
        training.metrics.write("more\n")
        training.metrics.close()
    finally:
        script.read_metrics = read
    assert precious.read_text() == "mine"
    assert (tmp_path / "moved").read_text().endswith("1}\nmore\n")


def test_metrics_after_the_restored_step_are_kept_elsewhere(tmp_path: Path) -> None:
    train(1, tmp_path, *SMALL, "--epochs", "2")
    first = (tmp_path / "metrics.jsonl").read_text()
    checkpoint(tmp_path, 2).unlink()  # killed before it was saved, and within a line
    before = first + '{"step": 9, "epo'
    (tmp_path / "metrics.jsonl").write_text(before)
    train(1, tmp_path, *SMALL, "--epochs", "2", "--resume", "auto")
    assert (tmp_path / "earlier_1/metrics.jsonl").read_text() == before
    steps = [line["step"] for line in records(tmp_path)]
    assert steps == [1, 2, 3, 4, 4, 5, 6, 7, 8, 8], "each once"
    train(1, tmp_path, *SMALL, "--epochs", "3", "--resume", "auto")  # which cuts nothing
    assert [line["step"] for line in records(tmp_path)][:10] == steps
    assert not (tmp_path / "earlier_2").exists()


@pytest.mark.parametrize("text", ["my notes\nof a year\n", '{"loss": 1}\n{"loss": 2}\n', "\xff\n\xfe\n", "my thesis"])
def test_a_file_without_metrics_stays(
    script: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(text.encode("latin-1"))
    for last in (0, 2):
        with pytest.raises(SystemExit, match="2"):
            script.read_metrics(file, last, os.O_RDONLY)
        assert "has no metrics in it" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        script.main([*SMALL, "--metrics", str(file), "--save-dir", str(tmp_path / "new")])
    assert file.read_bytes() == text.encode("latin-1")
    assert list(tmp_path.iterdir()) == [file]
