"""Parts of train.py that depend on no model: options, data sets, stop signals, metrics and checkpoint files.

`ddpkit init --train` writes it beside train.py. It needs torch and numpy alone. Replace the data sets by yours.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import gzip
import importlib.util
import itertools
import json
import math
import random
import re
import shutil
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

INTERRUPTED = "checkpoint_interrupted.pt"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
AGREE_SECONDS = 0.25  # how often the ranks ask each other whether to stop


class UsageError(Exception):
    """The request cannot be carried out as written; `hint` is the next thing to try."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


def warn(text: str) -> None:
    print(f"train.py: warning: {text}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- options: flag > file > default


def option(default: Any, text: str, kind: type = str, choices: tuple[str, ...] = (), least: float = 0) -> Any:
    """A dataclass field that is also a flag and a YAML key. `kind` matters only where the default is None."""
    kind = kind if default is None else type(default)
    return dataclasses.field(default=default, metadata={"text": text, "kind": kind, "choices": choices, "least": least})


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "python train.py --help lists the options")


class Options:
    """The fields of a dataclass, each made by `option`, as flags and as keys of a YAML file."""

    def __init__(self, config: type, description: str | None) -> None:
        self.config, self.description = config, description
        self.fields = {field.name: field for field in dataclasses.fields(config)}

    def load(self, argv: list[str]) -> Any:
        """Flags over the file over the defaults. Raises UsageError."""
        flags = self.parse_flags(argv)
        path = flags.pop("config")
        merged: dict[str, Any] = {}
        for source, layer in ((path, self.read_yaml(path) if path else {}), ("the command line", flags)):
            if {"batch_size", "global_batch_size"} <= layer.keys():
                raise UsageError(
                    f"{source} sets both the batch size and the global batch size; one follows from the other"
                )
            if "batch_size" in layer:  # a flag --batch-size also wins over a global_batch_size in the file
                merged.pop("global_batch_size", None)
            merged |= layer
        for package in ("wandb", "tensorboard"):  # `origin`: a mere folder ./wandb can be imported as well
            if merged.get(package) and not getattr(importlib.util.find_spec(package), "origin", None):
                raise UsageError(
                    f"--{package} needs a package that is missing here", f"python -m pip install {package}"
                )
        return self.config(**merged)

    def parse_flags(self, argv: list[str]) -> dict[str, Any]:
        """The options given on the command line, and no others."""
        style = argparse.RawDescriptionHelpFormatter
        parser = Parser("train.py", description=self.description, formatter_class=style, allow_abbrev=False)
        parser.add_argument(
            "--config", metavar="FILE", help="a YAML file of options: flat keys, underscores for dashes"
        )
        parser.add_argument("--local-rank", "--local_rank", help=argparse.SUPPRESS)  # torch.distributed.launch adds it
        for name, field in self.fields.items():
            meta = field.metadata
            flags = ["--" + name.replace("_", "-")] + (["--save-dir"] if name == "checkpoint_dir" else [])
            metavar = "|".join(meta["choices"]) or meta["kind"].__name__.upper()
            text = meta["text"] + ("" if field.default is None else f" (default: {field.default})")
            parser.add_argument(*flags, dest=name, metavar=metavar, default=argparse.SUPPRESS, help=text)
        given, unknown = parser.parse_known_args(argv)
        if unknown:
            known = [flag for action in parser._actions for flag in action.option_strings]
            parser.error(f"{unknown[0]} is no option{nearest(unknown[0].partition('=')[0], known)}")
        return {
            name: value if name == "config" else self.convert(name, value, "--" + name.replace("_", "-"))
            for name, value in vars(given).items()
            if name != "local_rank"
        }

    def read_yaml(self, path: str) -> dict[str, Any]:
        """The options of a YAML file, checked; `null` means not given."""
        try:
            import yaml
        except ImportError:
            raise UsageError("--config needs PyYAML", "python -m pip install pyyaml") from None
        try:
            values = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
        if not isinstance(values, dict):
            raise UsageError(f"{path} holds no `key: value` lines")
        for key in values:
            if key not in self.fields:
                raise UsageError(f"{path}: {key} is no option{nearest(str(key), list(self.fields))}")
        return {key: self.convert(key, value, f"{path}: {key}") for key, value in values.items() if value is not None}

    def convert(self, name: str, value: Any, source: str) -> Any:
        """Turn a flag's word or a YAML value into option `name`'s type. Raises UsageError."""
        meta = self.fields[name].metadata
        kind, choices = meta["kind"], meta["choices"]
        if value is False and "off" in choices:  # YAML 1.1 reads a bare `off` as false
            value = "off"
        try:  # through str(), since PyYAML leaves 1e-3 a word, and so that 2.5 is no int and true no number
            result = value if kind is str else kind(str(value))
        except ValueError:
            result = None
        if not isinstance(result, kind) or (kind is float and not math.isfinite(result)):
            name_of_kind = {int: "a whole number", float: "a number", str: "text"}[kind]
            raise UsageError(f"{source}: {value!r} is not {name_of_kind}")
        if choices and result not in choices:
            raise UsageError(f"{source}: {value!r} is none of {', '.join(choices)}")
        if kind is not str and (result < meta["least"] or (name == "dropout" and result >= 1)):
            raise UsageError(f"{source}: {value!r} is out of range")
        return result


def nearest(word: str, names: list[str]) -> str:
    close = difflib.get_close_matches(word, names, 1, 0.5)
    return f"; the nearest is {close[0]}" if close else ""


# ---------------------------------------------------------------- data sets


class Images(Dataset[tuple[Tensor, Tensor]]):
    """Grey images, [N, H, W], kept in their small integer type and scaled to 0..1 one at a time."""

    def __init__(self, images: Tensor, labels: Tensor, top: int) -> None:
        self.images, self.labels, self.top = images, labels.long(), top

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index].float().div(self.top).unsqueeze(0), self.labels[index]


class Synthetic(Dataset[tuple[Tensor, Tensor]]):
    """Noisy copies of ten fixed 28x28 patterns, each drawn from its index: a set of any size takes no memory."""

    def __init__(self, size: int, first: int = 0) -> None:
        self.size, self.first = size, first
        self.patterns = torch.randn(10, 1, 28, 28, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = torch.randn(1, 28, 28, generator=torch.Generator().manual_seed(self.first + index))
        return self.patterns[index % 10] + 2 * noise, torch.tensor(index % 10)


Data = Images | Synthetic


def load_data(name: str, folder: str, synthetic_size: int) -> tuple[Data, Data]:
    """The training set and the test set. Raises UsageError where they are not there."""
    if name == "mnist":
        return load_mnist(Path(folder))
    if name == "synthetic":
        return Synthetic(synthetic_size), Synthetic(max(10, synthetic_size // 6), first=synthetic_size)
    return load_digits()


def load_digits() -> tuple[Images, Images]:
    """scikit-learn's 1,797 handwritten digits of 8x8: 1,437 to train on and 360 to test on, always the same ones."""
    try:
        from sklearn import datasets
    except ImportError:
        raise UsageError("--dataset digits needs scikit-learn", "python -m pip install scikit-learn") from None
    digits = datasets.load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
    images, labels = torch.from_numpy(digits.images).to(torch.uint8)[order], torch.from_numpy(digits.target)[order]
    return Images(images[:1437], labels[:1437], 16), Images(images[1437:], labels[1437:], 16)


def load_mnist(folder: Path) -> tuple[Images, Images]:
    """MNIST from its four IDX files, which is also how torchvision stores it; so torchvision itself is not needed."""
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    paths = {n: [d / (n + end) for d in (folder, folder / "MNIST/raw") for end in ("", ".gz")] for n in names}
    existing = {name: [path for path in paths[name] if path.is_file()] for name in names}
    if missing := [name for name in names if not existing[name]]:
        fetch = f"python -c \"from torchvision.datasets import MNIST; MNIST('{folder}', download=True)\""
        where = f"{folder.resolve()} and its MNIST/raw"
        raise UsageError(f"no MNIST: {where} lack {', '.join(missing)} (plain or .gz)", fetch)
    images, labels, test_images, test_labels = (read_idx(existing[name][0]) for name in names)
    return Images(images, labels, 255), Images(test_images, test_labels, 255)


def read_idx(path: Path) -> Tensor:
    """Read an IDX file of bytes, plain or .gz: 0 0 8, how many sizes, the sizes (big-endian uint32), the data."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        content = file.read()
    try:
        magic, dimensions = struct.unpack_from(">3sB", content)
        shape = struct.unpack_from(f">{dimensions}I", content, 4)
    except struct.error:
        magic, dimensions, shape = b"", 0, ()
    if magic != b"\0\0\x08" or len(content) != 4 + 4 * dimensions + math.prod(shape):
        raise UsageError(f"{path} is truncated, or no IDX file of bytes")
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=4 + 4 * dimensions).reshape(shape)


class ResumableSampler(DistributedSampler[Any]):
    """A DistributedSampler that can start in the middle of an epoch: what it skips is never loaded."""

    skip = 0

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(super().__iter__(), self.skip, None)


def make_loaders(
    data: tuple[Data, Data], batch: int, rank: int, world: int, *, seed: int, num_workers: int, pin_memory: bool
) -> tuple[DataLoader[Any], ResumableSampler, DataLoader[Any]]:
    """The loader of the training set, its sampler, and the loader of this rank's part of the test set."""
    train_set, test_set = data
    # No test image counts twice, as DistributedSampler's padding would have it: shards may differ by one.
    shard = Subset(test_set, range(rank, len(test_set), world))
    sampler = ResumableSampler(train_set, world, rank, seed=seed, drop_last=True)
    shared: dict[str, Any] = {
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
        "pin_memory": pin_memory,
        "worker_init_fn": ignore_stop_signals,
        # A loader draws its workers' seed when iteration starts. From a generator of its own, or a resumed epoch,
        # which starts once more than an uninterrupted one, would shift the random numbers of the model.
        "generator": torch.Generator().manual_seed(seed),
    }
    train_loader = DataLoader(train_set, batch, sampler=sampler, drop_last=True, **shared)
    return train_loader, sampler, DataLoader(shard, batch, **shared)


# ---------------------------------------------------------------- stop signals


class Stop:
    """A stop signal to any rank, on which all ranks agree at the same step.

    A scheduler may signal one rank, or all of them between different steps, and a handler must not start a collective.
    So the handler sets a flag, and a small all-reduce carries it about four times a second: at every step it would cost
    a fast model a tenth of its time. It also carries the time per step of the slowest rank, from which every rank works
    out the same step for the next exchange.
    """

    def __init__(self, device: torch.device) -> None:
        self.requested, self.device = False, device
        self.steps, self.next, self.since = 0, 1, time.monotonic()
        for number in STOP_SIGNALS:
            signal.signal(number, self.handle)

    def handle(self, number: int, frame: object) -> None:
        self.requested = True

    def after_step(self) -> bool:
        self.steps += 1
        return self.agree() if self.steps >= self.next else False

    def agree(self) -> bool:
        pace = (time.monotonic() - self.since) / max(1, self.steps)
        answer = torch.tensor([self.requested, pace], dtype=torch.float64, device=self.device)
        dist.all_reduce(answer, dist.ReduceOp.MAX)
        requested, slowest = answer.tolist()
        self.steps, self.next, self.since = 0, int(AGREE_SECONDS / slowest), time.monotonic()
        return bool(requested)


def ignore_stop_signals(worker: int) -> None:
    """Let a data worker live through the signal that a scheduler sends to every process; its rank ends it in time."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


# ---------------------------------------------------------------- metrics


class Log:
    """Printed lines and recorded metrics of a run, on rank 0; on every other rank each method does nothing.

    It reads these fields of the config: checkpoint_dir, metrics, resume, wandb, tensorboard.
    """

    def __init__(self, config: Any, main: bool) -> None:
        self.config, self.main = config, main
        self.path = Path(config.checkpoint_dir, config.metrics)
        self.bar: Any = None
        self.wandb: Any = None
        self.board: Any = None

    def print(self, text: str) -> None:
        if self.main:
            print(text, flush=True)

    def start(self, epoch: int, step: int, total: int) -> None:
        """Open everything, to continue after `epoch` epochs and `step` of `total` optimizer steps."""
        if not self.main:
            return
        check_metrics(self.path)
        lines = self.path.read_text().splitlines(keepends=True) if self.path.is_file() else []
        kept = [line for line in lines if step_of(line) <= step]
        self.move_earlier_run(epoch, metrics=len(kept) < len(lines) or (step == 0 and self.path.is_file()))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.path.open("a")
        if self.path.stat().st_size == 0:  # what will be recorded again is in the file that was moved
            self.file.write("".join(kept))
        if self.config.wandb:
            import wandb

            self.wandb = wandb.init(project=self.config.wandb, config=dataclasses.asdict(self.config))
        if self.config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(self.config.tensorboard, purge_step=step + 1)
        if sys.stdout.isatty() and importlib.util.find_spec("rich"):
            from rich.progress import Progress

            self.bar = Progress(transient=True)
            self.bar.start()
            self.bar.add_task("training", total=total, completed=step)

    def move_earlier_run(self, epoch: int, *, metrics: bool) -> None:
        """Move what lies ahead of this run out of its way: an earlier run's, --resume auto would prefer it later."""
        folder, resume = Path(self.config.checkpoint_dir), self.config.resume
        ahead = [path for path in epoch_checkpoints(folder) if epoch_of(path) > epoch]
        if resume != "auto" and (interrupted := folder / INTERRUPTED).exists():
            ahead += [interrupted] if resume is None or not interrupted.samefile(resume) else []
        if metrics:
            ahead.append(self.path)
        if ahead:
            target = next(p for n in itertools.count(1) if not (p := folder / f"earlier_{n}").exists())
            target.mkdir(parents=True)
            for path in ahead:
                shutil.move(path, target)
            self.print(f"moved what an earlier run left to {target}: {', '.join(path.name for path in ahead)}")

    def record(self, step: int, epoch: int, **values: float) -> None:
        if not self.main:
            return
        self.file.write(json.dumps({"step": step, "epoch": epoch, **values}) + "\n")
        self.file.flush()
        if self.wandb:
            self.wandb.log({"epoch": epoch, **values}, step=step)
        for name, value in values.items() if self.board else ():
            self.board.add_scalar(name, value, step)

    def advance(self) -> None:
        if self.bar:
            self.bar.advance(self.bar.task_ids[0])

    def close(self) -> None:
        for part, end in ((self.bar, "stop"), (self.board, "close"), (self.wandb, "finish")):
            if part:
                getattr(part, end)()


def check_metrics(path: Path) -> None:
    """Raise UsageError where --metrics names a file of something else: nothing is written to it, and it stays."""
    if not path.exists():
        return
    try:
        lines = path.read_text().splitlines() if path.is_file() else ["not a file"] * 2
    except UnicodeDecodeError:
        lines = ["not text"] * 2
    torn = lines[-1:] if len(lines) > 1 else [line for line in lines if line[: len(LINE_START)] in LINE_START]
    lines = lines[: len(lines) - len(torn)]  # a killed run leaves half a line at the end
    if any(step_of(line) == math.inf for line in lines):
        raise UsageError(f"--metrics: {path} is there, and has no metrics in it", "--metrics FILE, a new file")


LINE_START = '{"step": '  # of a line that `record` writes


def step_of(line: str) -> float:
    """The step of one metrics line; beyond any step for a line that a killed run left half written."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


# ---------------------------------------------------------------- checkpoints


def epoch_of(path: Path) -> int:
    """The N of checkpoint_epoch_N.pt; 0 for any other file."""
    match = re.fullmatch(r"checkpoint_epoch_(\d+)\.pt", path.name)
    return int(match[1]) if match else 0


def epoch_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of complete epochs, latest first."""
    return sorted((path for path in folder.glob("*.pt") if epoch_of(path)), key=epoch_of, reverse=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict) or "total_steps" not in state:
        raise ValueError("not a checkpoint of train.py")
    return state


def find_checkpoint(resume: str | None, folder: Path) -> dict[str, Any] | None:
    """The checkpoint that --resume names. With auto: the readable one that is furthest on, or None."""
    if resume is None:
        return None
    if resume != "auto":
        try:
            return read_checkpoint(Path(resume))
        except Exception as error:
            raise UsageError(f"--resume: {resume} cannot be read: {str(error).splitlines()[0]}") from None
    readable: list[dict[str, Any]] = []
    for path in (*epoch_checkpoints(folder), folder / INTERRUPTED):
        if path.exists() and not (readable and path.name != INTERRUPTED):
            try:
                readable.append(read_checkpoint(path))
            except Exception as error:  # a torn file fails in many ways inside torch.load
                warn(f"{path} cannot be read, looking for an earlier one: {str(error).splitlines()[0]}")
    return max(readable, key=lambda state: state["total_steps"], default=None)


def share_checkpoint(resume: str | None, folder: Path, main: bool) -> dict[str, Any] | None:
    """Rank 0 finds and reads, everybody gets the same: no shared file system is needed, and no two ranks can differ."""
    box: list[Any] = [None]
    if main:
        try:
            box = [find_checkpoint(resume, folder)]
        except UsageError as error:
            box = [error]
    dist.broadcast_object_list(box)
    if isinstance(box[0], UsageError):
        raise box[0]
    checkpoint: dict[str, Any] | None = box[0]
    return checkpoint


def random_states(device: torch.device) -> dict[str, Any]:
    """The state of every random generator of this process, in types that torch.load(weights_only=True) accepts."""
    state: Any = np.random.get_state()
    algorithm, keys, position, has_gauss, gauss = state
    return {
        "python": random.getstate(),
        "numpy": (str(algorithm), torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(gauss)),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
    }


def set_random_states(states: dict[str, Any], device: torch.device) -> None:
    algorithm, keys, *rest = states["numpy"]
    random.setstate(states["python"])
    np.random.set_state((algorithm, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)
