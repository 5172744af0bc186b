"""Train a small image classifier on one process or on many: the script to copy and make your own.

    ddpkit launch -n 2 -- train.py --epochs 5            two processes on this machine
    torchrun --nproc-per-node 2 train.py                 the same with PyTorch's own launcher
    srun -N2 --ntasks-per-node=2 python train.py         two nodes, two processes each, under SLURM
    python train.py                                      one process, for a debugger

Every option can be a flag (--batch-size 64) or a line of a YAML file given with --config (batch_size: 64); a flag
wins over the file, the file over the default. With scikit-learn's digits, the default data set, no download is needed.

A run that gets SIGTERM or SIGUSR1, on any of its ranks, saves and exits with code 75: run it again with --resume auto
and it goes on with the next batch. On CPUs the weights are then the same, bit for bit, as without the interruption.

exit codes: 0 trained; 75 told to stop, saved, run again with --resume auto; 2 the request cannot be carried out as
written; 5 the environment of this rank is incomplete or contradicts itself; 1 anything else, with a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import gc
import gzip
import importlib.util
import itertools
import json
import math
import os
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
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

from ddpkit.distributed import torch as ddp
from ddpkit.errors import DdpkitError, UsageError

EXIT_SAVED = 75  # EX_TEMPFAIL of sysexits.h: "try again later"
INTERRUPTED = "checkpoint_interrupted.pt"
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
AGREE_SECONDS = 0.25  # how often the ranks ask each other whether to stop

# ---------------------------------------------------------------- config: flag > file > default


def option(default: Any, text: str, kind: type = str, choices: tuple[str, ...] = (), least: float = 0) -> Any:
    """A dataclass field that is also a flag and a YAML key. `kind` matters only where the default is None."""
    kind = kind if default is None else type(default)
    return dataclasses.field(default=default, metadata={"text": text, "kind": kind, "choices": choices, "least": least})


@dataclasses.dataclass(frozen=True)
class Config:
    dataset: str = option("digits", "what to train on", choices=("digits", "mnist", "synthetic"))
    data_dir: str = option("data", "where the MNIST files lie, directly or in MNIST/raw")
    synthetic_size: int = option(10_000, "training images of --dataset synthetic", least=1)
    epochs: int = option(10, "passes over the training set, those before a resume included", least=1)
    batch_size: int = option(32, "images per rank and forward pass", least=1)
    global_batch_size: int | None = option(None, "per optimizer step over all ranks; for --batch-size", int, least=1)
    accumulation: int = option(1, "forward passes per optimizer step", least=1)
    lr: float = option(5e-3, "learning rate of AdamW")
    dropout: float = option(0.1, "dropout probability, below 1")
    amp: str = option("off", "mixed precision; fp16 needs CUDA", choices=("off", "bf16", "fp16"))
    seed: int = option(0, "of the data order and, with the rank added, of the random generators")
    num_workers: int = option(0, "data-loading processes per rank")
    distributed_backend: str | None = option(None, "default: nccl on CUDA, else gloo", choices=("nccl", "gloo"))
    checkpoint_dir: str = option("checkpoints", "where checkpoints and metrics go")
    resume: str | None = option(None, "a checkpoint, or 'auto': the most advanced in --checkpoint-dir, if there is one")
    metrics: str = option("metrics.jsonl", "one JSON object a line; a path relative to --checkpoint-dir")
    log_every: int = option(10, "optimizer steps between two log lines", least=1)
    wandb: str | None = option(None, "also log to this Weights & Biases project")
    tensorboard: str | None = option(None, "also log to this TensorBoard folder")


OPTIONS = {field.name: field for field in dataclasses.fields(Config)}
KINDS = {int: "a whole number", float: "a number", str: "text"}


def convert(name: str, value: Any, source: str) -> Any:
    """Turn a flag's word or a YAML value into option `name`'s type; UsageError says what is wrong with it."""
    meta = OPTIONS[name].metadata
    kind, choices = meta["kind"], meta["choices"]
    if value is False and "off" in choices:  # YAML 1.1 reads a bare `off` as false
        value = "off"
    try:  # through str(), since PyYAML leaves 1e-3 a word, and so that 2.5 is no int and true no number
        result = value if kind is str else kind(str(value))
    except ValueError:
        result = None
    if not isinstance(result, kind) or (kind is float and not math.isfinite(result)):
        raise UsageError(f"{source}: {value!r} is not {KINDS[kind]}")
    if choices and result not in choices:
        raise UsageError(f"{source}: {value!r} is none of {', '.join(choices)}")
    if kind is not str and (result < meta["least"] or (name == "dropout" and result >= 1)):
        raise UsageError(f"{source}: {value!r} is out of range")
    return result


def nearest(word: str, names: list[str]) -> str:
    close = difflib.get_close_matches(word, names, 1, 0.5)
    return f"; the nearest is {close[0]}" if close else ""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, "python train.py --help lists the options")


def parse_flags(argv: list[str]) -> dict[str, Any]:
    """The options given on the command line, and no others."""
    style = argparse.RawDescriptionHelpFormatter
    parser = Parser("train.py", description=__doc__, formatter_class=style, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="a YAML file of options: flat keys, underscores for dashes")
    parser.add_argument("--local-rank", "--local_rank", help=argparse.SUPPRESS)  # torch.distributed.launch adds it
    for name, field in OPTIONS.items():
        meta = field.metadata
        flags = ["--" + name.replace("_", "-")] + (["--save-dir"] if name == "checkpoint_dir" else [])
        shown = "|".join(meta["choices"]) or meta["kind"].__name__.upper()
        default = "" if field.default is None else f" (default: {field.default})"
        parser.add_argument(*flags, dest=name, metavar=shown, default=argparse.SUPPRESS, help=meta["text"] + default)
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        known = [flag for action in parser._actions for flag in action.option_strings]
        parser.error(f"{unknown[0]} is no option{nearest(unknown[0].partition('=')[0], known)}")
    flags_given = {key: value for key, value in vars(given).items() if key != "local_rank"}
    return {k: v if k == "config" else convert(k, v, "--" + k.replace("_", "-")) for k, v in flags_given.items()}


def read_yaml(path: str) -> dict[str, Any]:
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
        if key not in OPTIONS:
            raise UsageError(f"{path}: {key} is no option{nearest(str(key), list(OPTIONS))}")
    return {key: convert(key, value, f"{path}: {key}") for key, value in values.items() if value is not None}


def load_config(argv: list[str]) -> Config:
    """Flags over the file over the defaults."""
    flags = parse_flags(argv)
    path = flags.pop("config")
    merged: dict[str, Any] = {}
    for source, layer in ((path, read_yaml(path) if path else {}), ("the command line", flags)):
        if {"batch_size", "global_batch_size"} <= layer.keys():
            raise UsageError(f"{source} sets both the batch size and the global batch size; one follows from the other")
        if "batch_size" in layer:  # a flag --batch-size also wins over a global_batch_size in the file
            merged.pop("global_batch_size", None)
        merged |= layer
    config = Config(**merged)
    for package in ("wandb", "tensorboard"):  # `origin`: a mere folder ./wandb can be imported as well
        if getattr(config, package) and not getattr(importlib.util.find_spec(package), "origin", None):
            raise UsageError(f"--{package} needs a package that is missing here", f"python -m pip install {package}")
    return config


# ---------------------------------------------------------------- data


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


def load_mnist(folder: Path) -> tuple[Images, Images]:
    """MNIST from its four IDX files, which is also how torchvision stores it; so torchvision itself is not needed."""
    names = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    places = {n: [d / (n + end) for d in (folder, folder / "MNIST/raw") for end in ("", ".gz")] for n in names}
    found = {name: path for name, paths in places.items() for path in reversed(paths) if path.is_file()}
    if missing := [name for name in names if name not in found]:
        fetch = f"python -c \"from torchvision.datasets import MNIST; MNIST('{folder}', download=True)\""
        where = f"{folder.resolve()} and its MNIST/raw"
        raise UsageError(f"no MNIST: {where} lack {', '.join(missing)} (plain or .gz)", fetch)
    images, labels, test_images, test_labels = (read_idx(found[name]) for name in names)
    return Images(images, labels, 255), Images(test_images, test_labels, 255)


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


def load_data(config: Config) -> tuple[Data, Data]:
    if config.dataset == "mnist":
        return load_mnist(Path(config.data_dir))
    if config.dataset == "synthetic":
        size = config.synthetic_size
        return Synthetic(size), Synthetic(max(10, size // 6), first=size)
    return load_digits()


class ResumableSampler(DistributedSampler[Any]):
    """A DistributedSampler that can start in the middle of an epoch: what it skips is never loaded."""

    skip = 0

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(super().__iter__(), self.skip, None)


def ignore_stop_signals(worker: int) -> None:
    """Let a data worker live through the signal that a scheduler sends to every process; its rank ends it in time."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


# ---------------------------------------------------------------- model


class SmallCNN(nn.Module):
    """Two convolutions and two linear layers; takes [N, 1, size, size], gives [N, 10]."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(dropout), nn.Linear(32 * (size // 4) ** 2, 64), nn.ReLU()),
            *(nn.Dropout(dropout), nn.Linear(64, 10)),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


# ---------------------------------------------------------------- stopping and logging


class Stop:
    """Whether any rank was told to stop, on which all of them agree at the same step.

    A scheduler may signal a single rank, or all of them between different steps, and a collective has no place in a
    handler. So the handler sets a flag, and a small all-reduce carries it: not at every step, which would cost a fast
    model a tenth of its time, but about four times a second. It also carries the time per step of the slowest rank,
    from which every rank works out the same step for the next exchange.
    """

    def __init__(self, device: torch.device) -> None:
        self.told, self.device = False, device
        self.steps, self.next, self.since = 0, 1, time.monotonic()
        for number in STOP_SIGNALS:
            signal.signal(number, self.handle)

    def handle(self, number: int, frame: object) -> None:
        self.told = True

    def after_step(self) -> bool:
        self.steps += 1
        return self.agree() if self.steps >= self.next else False

    def agree(self) -> bool:
        pace = (time.monotonic() - self.since) / max(1, self.steps)
        answer = torch.tensor([self.told, pace], dtype=torch.float64, device=self.device)
        dist.all_reduce(answer, dist.ReduceOp.MAX)
        told, slowest = answer.tolist()
        self.steps, self.next, self.since = 0, int(AGREE_SECONDS / slowest), time.monotonic()
        return bool(told)


class Log:
    """What the run says and records, on rank 0; on every other rank each method does nothing."""

    def __init__(self, config: Config, main: bool) -> None:
        self.config, self.main = config, main
        self.path = Path(config.checkpoint_dir, config.metrics)
        self.bar: Any = None
        self.wandb: Any = None
        self.board: Any = None

    def say(self, text: str) -> None:
        if self.main:
            print(text, flush=True)

    def start(self, epoch: int, step: int, total: int) -> None:
        """Open everything, to continue after `epoch` epochs and `step` of `total` optimizer steps."""
        if not self.main:
            return
        self.set_aside(epoch, step)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_file():  # drop what will be recorded again
            replacement = self.path.with_name(self.path.name + ".tmp")
            lines = self.path.read_text().splitlines(keepends=True)
            replacement.write_text("".join(line for line in lines if step_of(line) <= step))
            replacement.replace(self.path)
        self.file = self.path.open("a")
        if self.config.wandb:
            import wandb

            self.wandb = wandb.init(project=self.config.wandb, config=dataclasses.asdict(self.config))
        if self.config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(self.config.tensorboard, purge_step=step + 1)
        if sys.stdout.isatty():
            from rich.progress import Progress

            self.bar = Progress(transient=True)
            self.bar.start()
            self.bar.add_task("training", total=total, completed=step)

    def set_aside(self, epoch: int, step: int) -> None:
        """Move what lies ahead of this run out of its way: an earlier run's, --resume auto would prefer it later."""
        folder, resume = Path(self.config.checkpoint_dir), self.config.resume
        ahead = [path for path in epoch_checkpoints(folder) if epoch_of(path) > epoch]
        if resume != "auto" and (interrupted := folder / INTERRUPTED).exists():
            ahead += [interrupted] if resume is None or not interrupted.samefile(resume) else []
        if step == 0 and self.path.is_file():
            ahead.append(self.path)
        if ahead:
            aside = next(p for n in itertools.count(1) if not (p := folder / f"earlier_{n}").exists())
            aside.mkdir()
            for path in ahead:
                shutil.move(path, aside)
            self.say(f"moved what an earlier run left to {aside}: {', '.join(path.name for path in ahead)}")

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


def step_of(line: str) -> float:
    """The step of one metrics line; beyond any step for a line that a killed run left half written."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf


# ---------------------------------------------------------------- loop


class Training:
    """Model, optimizer, data and position of one run, on one rank."""

    def __init__(self, config: Config, env: ddp.DistEnv, batch: int, data: tuple[Data, Data]) -> None:
        self.config, self.env, self.batch, self.device = config, env, batch, ddp.device(env)
        self.epoch = 0  # epochs completed
        self.step = 0  # optimizer steps done in the current epoch
        self.total_steps = 0  # optimizer steps done since the run began
        # Sums of the loss and of the batches behind them: of this epoch (0, 1), since the last log line (2, 3).
        self.sums = torch.zeros(4, dtype=torch.float64, device=self.device)

        ddp.seed_all(config.seed, env)
        model = SmallCNN(data[0][0][0].shape[-1], config.dropout).to(self.device)
        self.model = DistributedDataParallel(model, device_ids=[self.device] if self.device.type == "cuda" else None)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=config.amp == "fp16")
        dtype = torch.float16 if config.amp == "fp16" else torch.bfloat16
        self.autocast = torch.autocast(self.device.type, dtype, enabled=config.amp != "off")
        self.make_loaders(*data)
        self.warm_up(data[0][0][0])

    def make_loaders(self, train_set: Data, test_set: Data) -> None:
        rank, world = self.env.rank, self.env.world_size
        # No test image counts twice, as DistributedSampler's padding would have it: shards may differ by one.
        shard = Subset(test_set, range(rank, len(test_set), world))
        self.sampler = ResumableSampler(train_set, world, rank, seed=self.config.seed, drop_last=True)
        shared: dict[str, Any] = {
            "num_workers": self.config.num_workers,
            "persistent_workers": self.config.num_workers > 0,
            "pin_memory": self.device.type == "cuda",
            "worker_init_fn": ignore_stop_signals,
            # A loader draws its workers' seed when iteration starts. From a generator of its own, or a resumed epoch,
            # which starts once more than an uninterrupted one, would shift the random numbers of the model.
            "generator": torch.Generator().manual_seed(self.config.seed),
        }
        self.train_loader = DataLoader(train_set, self.batch, sampler=self.sampler, drop_last=True, **shared)
        self.test_loader = DataLoader(shard, self.batch, **shared)
        self.steps_per_epoch = len(self.train_loader) // self.config.accumulation
        if self.steps_per_epoch == 0:
            need = self.batch * self.config.accumulation * world
            raise UsageError(f"one step needs {need} images, and the training set has {len(train_set)}")

    def warm_up(self, image: Tensor) -> None:
        """Make DDP settle its gradient buckets, which it reorders after the first backward pass.

        From three ranks on, the order in which a gradient is summed depends on its place in the bucket: without this a
        resumed run's first step would round differently from the same step of an uninterrupted run.
        """
        self.model(image.to(self.device).unsqueeze(0)).sum().backward()
        self.optimizer.zero_grad()

    def train_epoch(self, log: Log, stop: Stop) -> bool:
        """Train to the end of the epoch, or until told to stop; True if told."""
        self.sampler.set_epoch(self.epoch)
        self.sampler.skip = self.step * self.config.accumulation * self.batch
        self.model.module.train()
        batches = iter(self.train_loader)
        since, images, told = time.perf_counter(), 0, False
        while self.step < self.steps_per_epoch and not told:
            self.optimizer_step(batches)
            told = stop.after_step()
            self.step += 1
            self.total_steps += 1
            images += self.batch * self.config.accumulation * self.env.world_size
            log.advance()
            if self.total_steps % self.config.log_every == 0:
                now = time.perf_counter()
                self.log_step(log, images / (now - since))
                since, images = now, 0
        return told

    def optimizer_step(self, batches: Iterator[Any]) -> None:
        """Run `accumulation` forward and backward passes, exchange the gradients in the last, update the weights."""
        for remaining in reversed(range(self.config.accumulation)):
            images, labels = (part.to(self.device, non_blocking=True) for part in next(batches))
            with self.model.no_sync() if remaining else contextlib.nullcontext():
                with self.autocast:
                    loss: Any = cross_entropy(self.model(images), labels)
                self.scaler.scale(loss / self.config.accumulation).backward()
            self.sums += torch.stack([loss.detach(), torch.ones_like(loss)] * 2)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()

    def log_step(self, log: Log, samples_per_second: float) -> None:
        loss = self.mean_loss(2)
        self.sums[2:] = 0
        lr = self.optimizer.param_groups[0]["lr"]
        values = {"loss": loss, "lr": lr, "samples_per_second": samples_per_second}
        log.record(self.total_steps, self.epoch + 1, **values)
        place = f"epoch {self.epoch + 1}/{self.config.epochs}  step {self.step}/{self.steps_per_epoch}"
        log.say(f"{place}  loss {loss:.4f}  {samples_per_second:,.0f} images/s")

    def mean_loss(self, first: int) -> float:
        total, count = self.sums[first : first + 2].tolist()
        return ddp.mean_over_ranks(total, count, self.device)

    @torch.no_grad()
    def evaluate(self) -> tuple[float, float]:
        """Loss and accuracy on the test set, each image of all ranks' shards counted once."""
        model = self.model.module  # not through DDP: the ranks may have different numbers of batches
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        for batch in self.test_loader:
            images, labels = (part.to(self.device, non_blocking=True) for part in batch)
            with self.autocast:
                logits = model(images)
            loss = cross_entropy(logits.float(), labels, reduction="sum")
            sums += torch.stack([loss, (logits.argmax(1) == labels).sum()])
        total, right = sums.tolist()
        count = len(self.test_loader.dataset)  # type: ignore[arg-type]  # a Subset, which has a length
        return ddp.mean_over_ranks(total, count, self.device), ddp.mean_over_ranks(right, count, self.device)

    def finish_epoch(self, log: Log, started: float) -> tuple[Path, float]:
        """Evaluate, record the epoch, and save. Returns the checkpoint and the accuracy."""
        test_loss, accuracy = self.evaluate()
        train_loss, seconds = self.mean_loss(0), time.perf_counter() - started
        self.epoch, self.step = self.epoch + 1, 0
        self.sums[:2] = 0
        values = {"train_loss": train_loss, "test_loss": test_loss, "test_accuracy": accuracy, "seconds": seconds}
        log.record(self.total_steps, self.epoch, **values)
        log.say(
            f"epoch {self.epoch}/{self.config.epochs}  loss {train_loss:.4f}  test loss {test_loss:.4f}  "
            f"accuracy {100 * accuracy:.2f} %  {seconds:.1f} s"
        )
        return self.save(f"checkpoint_epoch_{self.epoch}.pt"), accuracy

    # ------------------------------------------------------------ checkpoint

    def batches(self) -> dict[str, Any]:
        """What decides which images the next step of this epoch reads."""
        names = ("dataset", "synthetic_size", "accumulation", "seed")
        options = {name: getattr(self.config, name) for name in names}
        return {"ranks": self.env.world_size, "images per rank and forward pass": self.batch, **options}

    def save(self, name: str) -> Path:
        """Write a checkpoint with every rank's state. Every rank calls this, and returns when the file is complete."""
        ranks: list[Any] = [None] * self.env.world_size
        dist.all_gather_object(ranks, {"sums": self.sums.tolist(), **random_states(self.device)})
        path = Path(self.config.checkpoint_dir, name)
        if ddp.is_main(self.env):
            state = {
                **{key: getattr(self, key) for key in ("epoch", "step", "total_steps")},
                **{key: getattr(self, key).state_dict() for key in ("optimizer", "scaler")},
                "model": self.model.module.state_dict(),
                "config": dataclasses.asdict(self.config),
                "batches": self.batches(),
                "ranks": ranks,
            }
            path.parent.mkdir(parents=True, exist_ok=True)
            ddp.save_atomic(state, path)
        ddp.barrier()
        return path

    def restore(self, state: dict[str, Any], log: Log) -> None:
        """Continue where `state` was saved; within an epoch only if the coming batches are the same."""
        before, now = state["batches"], self.batches()
        changes = [f"{key} {before[key]} -> {now[key]}" for key in now if before[key] != now[key]]
        if state["step"] and changes:
            what = f"the checkpoint lies within epoch {state['epoch'] + 1}, where this may not change"
            hint = "resume as before, or from the end of an epoch: --resume DIR/checkpoint_epoch_N.pt"
            raise UsageError(f"{what}: {', '.join(changes)}", hint)
        try:
            self.model.module.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise UsageError(f"the checkpoint is of another model: {str(error).splitlines()[0]}") from None
        self.optimizer.param_groups[0]["lr"] = self.config.lr
        if state["scaler"] and self.scaler.is_enabled():
            self.scaler.load_state_dict(state["scaler"])
        self.epoch, self.step, self.total_steps = state["epoch"], state["step"], state["total_steps"]
        if before["ranks"] == now["ranks"]:
            mine = state["ranks"][self.env.rank]
            self.sums = torch.tensor(mine["sums"], dtype=torch.float64, device=self.device)
            set_random_states(mine, self.device)
        elif ddp.is_main(self.env):
            warn(f"saved by {before['ranks']} ranks, resumed by {now['ranks']}: random generators restart from --seed")
        log.say(f"resumed after epoch {self.epoch}" + f" and {self.step} steps" * bool(self.step))


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


def find_checkpoint(config: Config) -> dict[str, Any] | None:
    """What --resume asks for. With auto: the readable checkpoint that is furthest on, or None."""
    if config.resume is None:
        return None
    if config.resume != "auto":
        try:
            return read_checkpoint(Path(config.resume))
        except Exception as error:
            raise UsageError(f"--resume: {config.resume} cannot be read: {str(error).splitlines()[0]}") from None
    folder = Path(config.checkpoint_dir)
    readable: list[dict[str, Any]] = []
    for path in (*epoch_checkpoints(folder), folder / INTERRUPTED):
        if path.exists() and not (readable and path.name != INTERRUPTED):
            try:
                readable.append(read_checkpoint(path))
            except Exception as error:  # a torn file fails in many ways inside torch.load
                warn(f"{path} cannot be read, looking for an earlier one: {str(error).splitlines()[0]}")
    return max(readable, key=lambda state: state["total_steps"], default=None)


def share_checkpoint(config: Config, main: bool) -> dict[str, Any] | None:
    """Rank 0 finds and reads, everybody gets the same: no shared file system is needed, and no two ranks can differ."""
    box: list[Any] = [None]
    if main:
        try:
            box = [find_checkpoint(config)]
        except UsageError as error:
            box = [error]
    dist.broadcast_object_list(box)
    if isinstance(box[0], UsageError):
        raise box[0]
    checkpoint: dict[str, Any] | None = box[0]
    return checkpoint


# ---------------------------------------------------------------- run


def warn(text: str) -> None:
    print(f"train.py: warning: {text}", file=sys.stderr, flush=True)


def describe(training: Training) -> str:
    env, accumulation = training.env, training.config.accumulation
    ranks = f"{env.world_size} process{'es' * (env.world_size > 1)} on {env.num_nodes} node{'s' * (env.num_nodes > 1)}"
    batch = f"batch {training.batch} per rank, {training.batch * accumulation * env.world_size} per optimizer step"
    where = f"master {env.master_addr}:{env.master_port}, device {training.device}, backend {dist.get_backend()}"
    return f"{ranks}, {where}, {batch}"


def train(training: Training, log: Log, stop: Stop) -> int:
    """Resume, then train, evaluate and save epoch by epoch. Returns the exit code."""
    config = training.config
    log.say(describe(training))
    checkpoint = share_checkpoint(config, log.main)
    if checkpoint:
        training.restore(checkpoint, log)
    log.start(training.epoch, training.total_steps, config.epochs * training.steps_per_epoch)
    path = Path(config.checkpoint_dir if config.resume in (None, "auto") else config.resume)
    accuracy = None
    while training.epoch < config.epochs:
        started = time.perf_counter()
        told = training.train_epoch(log, stop)
        if told and training.step < training.steps_per_epoch:
            path = training.save(INTERRUPTED)
        else:
            path, accuracy = training.finish_epoch(log, started)
            told = stop.agree() or told  # the signal may have come during the evaluation
        if told and training.epoch < config.epochs:
            log.say(f"told to stop: saved {path}; run again with --resume auto")
            return EXIT_SAVED
    if accuracy is None:  # resumed with nothing left to train
        accuracy = training.evaluate()[1]
    log.say(f"final accuracy {100 * accuracy:.2f} %, checkpoint {path}")
    return 0


def run(config: Config, env: ddp.DistEnv) -> int:
    # What can be wrong on this machine comes before init(), where the ranks wait for each other.
    if config.amp == "fp16" and ddp.device(env).type != "cuda":
        raise UsageError("--amp fp16 needs a CUDA device, and this rank has none", "use --amp bf16")
    batch = config.batch_size
    if config.global_batch_size:
        try:
            batch = ddp.per_rank_batch_size(config.global_batch_size, env.world_size, config.accumulation)
        except ValueError as error:
            raise UsageError(f"--global-batch-size: {error}") from None
    data = load_data(config)
    ddp.init(config.distributed_backend, env=env)
    stop = Stop(ddp.device(env))  # before init() there is nothing to save: a signal simply ends the process
    log = Log(config, ddp.is_main(env))
    try:
        code = train(Training(config, env, batch, data), log, stop)
    except UsageError:  # found by every rank alike
        ddp.shutdown()
        raise
    finally:
        log.close()
    # Only here: after any other error the peers may be inside a collective, and would be waited for. The end of this
    # process is what tells them.
    gc.collect()  # ends the data workers
    ddp.shutdown()
    return code


def main(argv: list[str]) -> int:
    local_rank = 0
    try:
        with contextlib.suppress(DdpkitError):  # a wrong option is reported first, a wrong environment after it
            local_rank = ddp.resolve(os.environ, argv).local_rank
        config = load_config(argv)
        return run(config, ddp.resolve(os.environ, argv))
    except UsageError as error:
        if local_rank == 0:  # one line a node, not one a rank: a file may be missing on a single node
            complain(error)
        return error.exit_code
    except DdpkitError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def complain(error: DdpkitError) -> None:
    print(f"train.py: {error.message}" + (f"; hint: {error.hint}" if error.hint else ""), file=sys.stderr, flush=True)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): DDP keeps the process group alive beyond its destruction (torch 2.13), and a thread of gloo that
    # frees its last tensor while the interpreter is being torn down aborts a run that had succeeded.
    os._exit(exit_code)
