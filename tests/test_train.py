"""train.py is run as users run it: real ranks, real signals, weights compared bit for bit.

The ranks are started by hand rather than with torchrun wherever an exit code matters, because torchrun's agent turns
every failure into 1.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from warm_python import WarmPython

MISSING = [name for name in ("torch", "sklearn") if find_spec(name) is None]
pytestmark = [pytest.mark.torch, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")]

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "train.py")
LIMIT = 120.0  # seconds that any one run may take; far more than it needs
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
    assert lines[0].startswith("2 processes on 1 node, master ")
    assert "batch 32 per rank, 64 per optimizer step" in lines[0]
    assert lines[-1].endswith(f"checkpoint {folder}/checkpoint_epoch_10.pt")
    assert len([line for line in lines if line.startswith("epoch 10/10  loss")]) == 1, "rank 0 alone logs"
    epochs = [line for line in records(folder) if "test_accuracy" in line]
    assert [line["epoch"] for line in epochs] == list(range(1, 11))
    assert epochs[-1]["test_accuracy"] >= 0.95
    steps = [line["step"] for line in records(folder) if "lr" in line]
    assert steps == list(range(10, 221, 10))


def test_evaluation_counts_every_image_once(trained: tuple[Path, str], tmp_path: Path) -> None:
    """Resumed with no epoch left to train, one rank evaluates what two ranks trained, and finds the same."""
    folder, output = trained
    checkpoint = str(folder / "checkpoint_epoch_10.pt")
    alone = train(1, tmp_path, "--resume", checkpoint)
    assert alone.splitlines()[-1].split(",")[0] == output.splitlines()[-1].split(",")[0]
    assert "saved by 2 ranks, resumed by 1" in alone


def test_uneven_test_shards(tmp_path: Path) -> None:
    """11 test images over 2 ranks, of which a padded sampler would count one twice."""
    size = ("--dataset", "synthetic", "--synthetic-size", "66", "--batch-size", "4", "--epochs", "1")
    train(2, tmp_path / "two", *size)
    (two,) = [line for line in records(tmp_path / "two") if "test_accuracy" in line]
    assert (two["test_accuracy"] * 11) == pytest.approx(round(two["test_accuracy"] * 11))
    again = train(1, tmp_path / "one", *size, "--resume", str(tmp_path / "two/checkpoint_epoch_1.pt"))
    assert f"final accuracy {100 * two['test_accuracy']:.2f} %" in again


def test_a_damaged_checkpoint_is_passed_over(trained: tuple[Path, str], tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(trained[0], folder)
    newest = folder / "checkpoint_epoch_10.pt"
    newest.write_bytes(newest.read_bytes()[:1000])
    before = records(folder)
    output = train(2, folder, "--resume", "auto")
    assert f"warning: {newest} cannot be read" in output
    assert "resumed after epoch 9\n" in output
    assert records(folder) == before, "the tenth epoch again: the same numbers, and none of them twice"
    weights, original = load(newest)["model"], load(trained[0] / "checkpoint_epoch_10.pt")["model"]
    assert differences(weights, original) == []


# ---------------------------------------------------------------- stopped and resumed


def test_stopped_and_resumed_is_as_if_never_stopped(tmp_path: Path) -> None:
    """One rank gets a signal, twice in an epoch. Both leave at the same step with 75, and the end has the same bits."""
    size = ["--dataset", "synthetic", "--synthetic-size", "6400", "--epochs", "1", "--dropout", "0.3"]
    size += ["--accumulation", "2", "--batch-size", "8", "--num-workers", "2"]
    train(2, tmp_path / "whole", *size)
    before = 0
    for number, to_group in ((signal.SIGTERM, False), (signal.SIGUSR1, True)):
        again = ("--resume", "auto") if before else ()
        with ranks(2, tmp_path / "parts", *size, *again) as run:
            reached = before // 10 * 10 + 20
            run.wait_for(f"  step {reached}/")
            if to_group:  # as srun and scancel signal: the data workers too, here those of rank 1
                os.killpg(run.processes[1].pid, number)
            else:
                run.processes[1].send_signal(number)
            codes = run.wait()
            assert codes == [75, 75], "\n".join(run.output)
            assert "run again with --resume auto" in run.output[0]
        saved = load(tmp_path / "parts/checkpoint_interrupted.pt")
        assert reached <= saved["step"] < 200, "stopped within the epoch"
        assert len(saved["ranks"]) == 2
        before = saved["step"]
    output = train(2, tmp_path / "parts", *size, "--resume", "auto")
    assert f"resumed after epoch 0 and {before} steps" in output
    whole, parts = (load(tmp_path / name / "checkpoint_epoch_1.pt") for name in ("whole", "parts"))
    for state in (whole, parts):
        del state["config"]  # names the folder
    assert differences(whole, parts) == []
    assert records(tmp_path / "whole") == records(tmp_path / "parts")


def test_another_number_of_ranks_within_an_epoch_is_refused(tmp_path: Path) -> None:
    size = ("--dataset", "synthetic", "--synthetic-size", "6400", "--batch-size", "16")
    with ranks(1, tmp_path, *size) as run:
        run.wait_for("1 process on 1 node")  # said before the first step; a stop is honoured there as well
        run.processes[0].send_signal(signal.SIGUSR1)
        assert run.wait() == [75], run.output[0]
    output = train(2, tmp_path, *size, "--resume", "auto", expect=2)
    assert "where this may not change: ranks 1 -> 2" in output
    assert "Traceback" not in output


# ---------------------------------------------------------------- in this process: arithmetic, config, files


@pytest.fixture(scope="module")
def script() -> Any:
    """train.py as a module, with the names of train_parts.py that the tests below use."""
    import importlib.util

    sys.path.insert(0, str(ROOT))  # where Python finds what lies beside a script
    spec = importlib.util.spec_from_file_location("train_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_script"] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    sys.path.remove(str(ROOT))
    return module


def load_config(script: Any, argv: list[str]) -> Any:
    return script.train_parts.Options(script.Config, None).load(argv)


def test_accumulated_gradients_equal_those_of_one_large_batch(tmp_path: Path) -> None:
    """Per rank 2 x 16 images or 1 x 32: the sampler gives the same ones, so the first losses agree."""
    common = (
        "--dataset",
        "synthetic",
        "--synthetic-size",
        "640",
        "--epochs",
        "1",
        "--dropout",
        "0",
        "--log-every",
        "1",
    )
    train(2, tmp_path / "one", *common, "--batch-size", "32")
    train(2, tmp_path / "two", *common, "--global-batch-size", "64", "--accumulation", "2")
    one, two = ([line["loss"] for line in records(tmp_path / name) if "lr" in line] for name in ("one", "two"))
    assert len(one) == 10
    assert one == pytest.approx(two, rel=1e-3)


def test_default_yaml_holds_the_defaults(script: Any) -> None:
    assert load_config(script, ["--config", str(ROOT / "config/default.yaml")]) == script.Config()


def test_flags_win_over_the_file_and_the_file_over_defaults(script: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("lr: 1e-3\nepochs: 7\nglobal_batch_size: 128\namp: off\n")
    config = load_config(script, ["--config", str(file), "--epochs=3", "--local-rank=1", "--save-dir", "x"])
    assert (config.lr, config.epochs, config.global_batch_size, config.seed) == (1e-3, 3, 128, 0)
    assert config.checkpoint_dir == "x"
    config = load_config(script, ["--config", str(file), "--batch-size", "8"])
    assert (config.batch_size, config.global_batch_size) == (8, None), "the flag decides"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "epoch is no option; the nearest is epochs"),
        ("epochs: many", "epochs: 'many' is not a whole number"),
        ("epochs: 2.5", "epochs: 2.5 is not a whole number"),
        ("epochs: true", "epochs: True is not a whole number"),
        ("epochs: 0", "epochs: 0 is out of range"),
        ("lr: .inf", "lr: inf is not a number"),
        ("amp: fp8", "amp: 'fp8' is none of off, bf16, fp16"),
        ("data_dir: [a]", "data_dir: ['a'] is not text"),
        ("- a", "holds no `key: value` lines"),
        ("a: [", "cannot be read: "),
        ("batch_size: 1\nglobal_batch_size: 2", "sets both the batch size and the global batch size"),
    ],
)
def test_a_wrong_line_of_yaml_is_named(script: Any, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(script.UsageError) as caught:
        load_config(script, ["--config", str(file)])
    assert message in caught.value.message
    assert str(file) in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--epoch", "3"], "--epoch is no option; the nearest is --epochs"),
        (["--lr=fast"], "--lr: 'fast' is not a number"),
        (["--epochs"], "argument --epochs: expected one argument"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml cannot be read"),
        (["--amp", "fp16"], "--amp fp16 needs a CUDA device"),
        (
            ["--dataset", "mnist", "--data-dir", "/nowhere"],
            "no MNIST: /nowhere and its MNIST/raw lack train-images-idx3-ubyte",
        ),
        (["--global-batch-size", "7", "--accumulation", "2"], "--global-batch-size: a global batch size of 7"),
        (["--wandb", "project"], "--wandb needs a package that is missing here"),
    ],
)
def test_a_request_that_cannot_be_carried_out_ends_with_2(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    monkeypatch.setattr(os, "environ", environment())
    monkeypatch.setattr(script.train_parts.importlib.util, "find_spec", lambda name: None)
    assert script.main(args) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"train.py: {message}")
    assert errors.count("\n") == 1, "one line"


def test_only_one_rank_of_a_node_complains(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    monkeypatch.setattr(os, "environ", environment(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", **place))
    assert script.main(["--epochs", "x"]) == 2
    assert capsys.readouterr().err == ""


def test_an_incomplete_environment_ends_with_5(
    script: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", environment(RANK="0"))
    assert script.main([]) == 5
    errors = capsys.readouterr().err
    assert "WORLD_SIZE" in errors
    assert "Traceback" not in errors


def write_idx(path: Path, shape: tuple[int, ...], data: bytes) -> None:
    content = struct.pack(f">3sB{len(shape)}I", b"\0\0\x08", len(shape), *shape) + data
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def test_mnist_is_read_from_idx_files(script: Any, tmp_path: Path) -> None:
    raw = tmp_path / "MNIST/raw"
    raw.mkdir(parents=True)
    write_idx(raw / "train-images-idx3-ubyte.gz", (3, 28, 28), bytes(i % 256 for i in range(3 * 784)))
    write_idx(tmp_path / "train-labels-idx1-ubyte", (3,), bytes([7, 0, 9]))
    write_idx(raw / "t10k-images-idx3-ubyte", (1, 28, 28), b"\xff" * 784)
    with pytest.raises(script.UsageError, match=r"lack t10k-labels-idx1-ubyte \(plain or \.gz\)"):
        script.train_parts.load_mnist(tmp_path)
    write_idx(raw / "t10k-labels-idx1-ubyte.gz", (1,), b"\x03")
    train_set, test_set = script.train_parts.load_mnist(tmp_path)
    assert (len(train_set), len(test_set)) == (3, 1)
    image, label = train_set[2]
    assert image.shape == (1, 28, 28)
    assert (image[0, 0, 1] * 255).item() == pytest.approx((2 * 784 + 1) % 256)
    assert label.item() == 9
    assert test_set[0][0].min().item() == 1.0
    write_idx(raw / "t10k-images-idx3-ubyte", (2, 28, 28), b"\xff" * 784)
    with pytest.raises(script.UsageError, match="is truncated"):
        script.train_parts.load_mnist(tmp_path)


def test_synthetic_images_follow_from_their_index(script: Any) -> None:
    import torch

    one, other = script.train_parts.Synthetic(10**12), script.train_parts.Synthetic(10**12)
    assert len(one) == 10**12
    assert torch.equal(one[10**11 + 3][0], other[10**11 + 3][0])
    assert one[10**11 + 3][1] == 3
    assert not torch.equal(one[3][0], one[13][0])


def test_a_resumed_sampler_gives_the_rest_of_the_order(script: Any) -> None:
    sampler = script.train_parts.ResumableSampler(range(100), num_replicas=3, rank=1, seed=5, drop_last=True)
    sampler.set_epoch(4)
    whole = list(sampler)
    sampler.skip = 20
    assert list(sampler) == whole[20:]


def test_a_fresh_start_moves_an_earlier_run_aside(script: Any, tmp_path: Path) -> None:
    for name in (
        "checkpoint_epoch_1.pt",
        "checkpoint_epoch_12.pt",
        "checkpoint_interrupted.pt",
        "metrics.jsonl",
        "my.pt",
    ):
        (tmp_path / name).write_text('{"step": 1}\n')
    log = script.Log(script.Config(checkpoint_dir=str(tmp_path)), main=True)
    log.start(0, 0, 10)
    log.file.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["earlier_1", "metrics.jsonl", "my.pt"]
    assert (tmp_path / "earlier_1/metrics.jsonl").read_text() == '{"step": 1}\n'
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_metrics_after_the_restored_step_are_kept_elsewhere(script: Any, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    before = '{"step": 1}\n{"step": 2}\n{"step": 3}\n{"step": '
    file.write_text(before)
    for _ in range(2):  # the second one cuts nothing
        log = script.Log(script.Config(checkpoint_dir=str(tmp_path), resume="auto"), main=True)
        log.start(0, 2, 10)
        log.file.close()
        assert file.read_text() == '{"step": 1}\n{"step": 2}\n'
    log = script.Log(script.Config(checkpoint_dir=str(tmp_path), resume="auto"), main=True)
    log.start(0, 2, 10)
    log.record(3, 1, loss=0.5)
    log.file.close()
    assert file.read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3, "epoch": 1, "loss": 0.5}\n'
    assert (tmp_path / "earlier_1/metrics.jsonl").read_text() == before
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("text", ["my notes\nof a year\n", '{"loss": 1}\n{"loss": 2}\n', "\xff\n\xfe\n", "my thesis"])
@pytest.mark.parametrize("step", [0, 2])
def test_a_file_without_metrics_stays(script: Any, tmp_path: Path, text: str, step: int) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(text.encode("latin-1"))
    log = script.Log(script.Config(checkpoint_dir=str(tmp_path), metrics=str(file)), main=True)
    with pytest.raises(script.UsageError, match="has no metrics in it"):
        log.start(0, step, 10)
    assert file.read_bytes() == text.encode("latin-1")
    assert list(tmp_path.iterdir()) == [file]
