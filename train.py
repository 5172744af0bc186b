"""Train a small image classifier with DDP, on one process or on many. One file, to copy and make your own.

    ddpkit launch -n 2 -- train.py --epochs 5             two processes on this machine
    torchrun --nproc-per-node 2 train.py                  the same with PyTorch's own launcher
    srun -N2 --ntasks-per-node=2 python train.py          two nodes, two processes each, under SLURM
    python train.py                                       one process, for a debugger

It needs torch and numpy. The default data, 1,797 handwritten digits, come with scikit-learn: nothing is downloaded.
Each option is a flag (--batch-size 64) or a line of the file that --config names (batch_size: 64). A flag wins.

After SIGTERM or SIGUSR1 on any rank, all ranks save at the same step and exit with code 75. With --resume auto the run
continues with the next batch: on CPUs the weights are bit for bit those of an undisturbed run.
Exit codes: 0 trained; 75 saved after a signal; 2 wrong option or file; 5 wrong environment; 1 other error, a traceback.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

BAD_REQUEST, BAD_ENVIRONMENT, SAVED = 2, 5, 75
CHECKPOINTS = "checkpoint_epoch_*_step_*.pt"
POSITION = ("epoch", "step", "total_steps")


def refuse(code: int, text: str) -> NoReturn:
    """End this process, with one line for each node. All ranks come here, so none waits for another."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        print(f"train.py: {text}", file=sys.stderr, flush=True)
    os._exit(code)


class Parser(argparse.ArgumentParser):
    source = ""

    def error(self, message: str) -> NoReturn:
        refuse(BAD_REQUEST, f"{self.source}{message}; hint: python train.py --help")

    def convert_arg_line_to_args(self, line: str) -> list[str]:
        """Return the flag for a line `key: value` of --config; null stands for the default."""
        key, _, value = (part.strip(" \t'\"") for part in re.sub(r"(^|\s)#.*", "", line).partition(":"))
        return [f"--{key.replace('_', '-')}={value}"] if key and value != "null" else []


def parse_options(argv: list[str]) -> argparse.Namespace:
    style = argparse.RawDescriptionHelpFormatter
    parser = Parser(description=__doc__, formatter_class=style, fromfile_prefix_chars="@", allow_abbrev=False)
    add = parser.add_argument
    add("--config", metavar="FILE", help="lines `key: value`, with the names of these flags")
    add("--dataset", choices=("digits", "synthetic"), default="digits", help="real digits, or made-up images")
    add("--synthetic-size", type=int, default=10_000, help="training images of --dataset synthetic")
    add("--epochs", type=int, default=10, help="passes over the training set, with those before a resume")
    add("--batch-size", type=int, default=32, help="images of a rank in one step")
    add("--lr", type=float, default=5e-3, help="learning rate of AdamW")
    add("--dropout", type=float, default=0.1, help="probability of dropout")
    add("--amp", choices=("off", "bf16"), default="off", help="mixed precision")
    add("--seed", type=int, default=0, help="of the data's order; plus the rank, of dropout")
    add("--checkpoint-dir", "--save-dir", default="checkpoints", help="directory of checkpoints and metrics")
    add("--resume", metavar="FILE", help="a checkpoint; or auto: the latest in --checkpoint-dir, if there is one")
    add("--metrics", default="metrics.jsonl", help="file in --checkpoint-dir, a JSON object a line")
    add("--log-every", type=int, default=10, help="steps between two log lines, where a signal is noticed as well")
    add("--local-rank", "--local_rank", help=argparse.SUPPRESS)  # torch.distributed.launch adds it
    options = parser.parse_args(argv)
    if options.config:
        parser.source = f"{options.config}: "
        options = parser.parse_args([f"@{options.config}", *argv])
    if min(options.synthetic_size, options.epochs, options.batch_size, options.log_every) < 1:
        parser.error("synthetic_size, epochs, batch_size and log_every must be at least 1")
    return options


def read_launcher() -> None:
    """Set the variables that torch reads, under srun and alone."""
    env = os.environ
    step = int(env.get("SLURM_STEP_ID", -1))  # of a job's shell one of the largest numbers
    tasks = env.get("SLURM_STEP_NUM_TASKS", "1")
    of_mpirun = env.get("OMPI_COMM_WORLD_SIZE", env.get("PMI_SIZE", tasks)) != tasks  # in a step of its daemons
    if "RANK" not in env and 0 <= step < 2**32 - 16 and not of_mpirun:
        env.update(RANK=env["SLURM_PROCID"], WORLD_SIZE=tasks, LOCAL_RANK=env["SLURM_LOCALID"])
        if "MASTER_ADDR" not in env:
            show = ["scontrol", "show", "hostnames", env["SLURM_STEP_NODELIST"]]
            env["MASTER_ADDR"] = subprocess.run(show, check=True, capture_output=True, text=True).stdout.split()[0]
        env.setdefault("MASTER_PORT", str(20000 + (16 * int(env["SLURM_JOB_ID"]) + step) % 12000))
    elif not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"} & env.keys():
        env.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    missing = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} - env.keys()
    if missing:
        refuse(BAD_ENVIRONMENT, f"{', '.join(sorted(missing))}: not set; hint: start it with torchrun, srun or ddpkit")


def choose_device() -> torch.device:
    """Return this rank's GPU, or else the CPU. Broken GPUs are counted as well, so that CUDA raises its own error."""
    if torch.cuda.device_count() == 0:
        hidden = any(os.environ.get(f"{name}_VISIBLE_DEVICES") == "" for name in ("CUDA", "HIP", "ROCR"))
        if torch.version.hip and not hidden and Path("/dev/kfd").exists() and any(Path("/dev/dri").glob("renderD*")):
            torch.empty(0, device="cuda")  # HIP does not count broken GPUs: this raises its own error
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) if torch.cuda.device_count() > 1 else 0)
    torch.cuda.set_device(device)
    return device


def load_data(options: argparse.Namespace) -> tuple[Tensor, Tensor, int]:
    """Return images [N, 1, size, size], their labels, and how many of them are to train on: the first ones."""
    fixed = torch.Generator().manual_seed(0)
    if options.dataset == "synthetic":  # noisy copies of ten patterns
        count = options.synthetic_size
        labels = torch.arange(count + max(10, count // 6)) % 10
        images = torch.randn(10, 1, 28, 28, generator=fixed)[labels]
        return images + 2 * torch.randn(images.shape, generator=fixed), labels, count
    from sklearn.datasets import load_digits  # of the package scikit-learn

    pixels, digits = map(torch.from_numpy, load_digits(return_X_y=True))
    order = torch.randperm(len(digits), generator=fixed)
    return pixels[order].float().div(16).reshape(-1, 1, 8, 8), digits[order], 1437


def make_model(size: int, dropout: float) -> nn.Module:
    convolutions = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    hidden = [nn.Flatten(), nn.Dropout(dropout), nn.Linear(32 * (size // 4) ** 2, 64), nn.ReLU()]
    return nn.Sequential(*convolutions, *hidden, nn.Dropout(dropout), nn.Linear(64, 10))


def read_metrics(path: Path, last: int, flags: int) -> tuple[int, list[str], bool]:
    """Open the metrics, by no link, which another user may have put there: what is read here is what is written to.

    Returns the descriptor (0: no file), an earlier run's lines up to step `last`, and whether there are more. Refuses a
    file of something else.
    """
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)  # to wait for a pipe could last for ever
    except FileNotFoundError:
        return 0, [], False
    except OSError as error:
        refuse(BAD_REQUEST, f"--metrics: {path} is no file to open: {error.strerror}; hint: --metrics FILE, a new file")
    mode = os.fstat(file).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        refuse(BAD_REQUEST, f"--metrics: {path} is there, and is no file; hint: --metrics FILE, a new file")
    os.set_blocking(file, True)
    with open(file, "rb", closefd=False) as reader:
        text = reader.read().decode(errors="replace") if stat.S_ISREG(mode) else ""
    lines = text.splitlines(keepends=True)
    matches = [re.fullmatch(r'{"step": (\d+), "epoch": .*}\n', line) for line in lines]
    torn = text.rpartition("\n")[2].startswith('{"step": ')  # by a run that was killed
    if None in matches[: len(matches) - torn]:
        refuse(BAD_REQUEST, f"--metrics: {path} is there, and has no metrics in it; hint: --metrics FILE, a new file")
    kept = [match[0] for match in matches if match and int(match[1]) <= last]
    return file, kept, len(kept) < len(lines)


class Training:
    """Model, optimizer, data and position of one run, on one rank."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.options, self.device, self.folder = options, device, Path(options.checkpoint_dir)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.epoch, self.step, self.total_steps = 0, 0, 0  # epochs completed, steps after them, steps in all
        images, labels, self.train_count = load_data(options)
        self.images, self.labels = images.to(device), labels.to(device)
        self.steps_per_epoch = self.train_count // (self.world * options.batch_size)
        # What decides which images and random numbers the next step uses.
        self.setup = f"{self.world} ranks ({device.type}), batches of {options.batch_size}, "
        self.setup += f"{self.train_count} images ({options.dataset}), seed {options.seed}"
        if self.steps_per_epoch == 0:
            refuse(BAD_REQUEST, f"no step in an epoch: {self.setup}; hint: --batch-size 1")
        torch.manual_seed(options.seed + self.rank)  # each rank has its own dropout
        model = make_model(images.shape[-1], options.dropout).to(device)
        self.model = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr)
        # DDP reorders its gradient buckets after the first backward pass, and from three ranks on the bucket decides in
        # which order a gradient is summed. Without this pass a resumed run would round its first step otherwise.
        self.model(self.images[:1]).sum().backward()
        self.optimizer.zero_grad()
        self.began = time.time()
        self.signals: list[int] = []  # a handler must not start a collective
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda number, frame: self.signals.append(number))

    def sum_over_ranks(self, *numbers: float) -> list[float]:
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return list(total.tolist())

    def train_epoch(self) -> bool:
        """Train to the end of the epoch, or until all ranks know of a signal to one. Returns whether they do."""
        options, losses = self.options, torch.zeros((), device=self.device)
        since, first = time.perf_counter(), self.step
        shuffled = torch.randperm(self.train_count, generator=torch.Generator().manual_seed(options.seed + self.epoch))
        own = shuffled[self.rank :: self.world].to(self.device)
        self.model.module.train()
        while self.step < self.steps_per_epoch:
            batch = own[self.step * options.batch_size :][: options.batch_size]
            with torch.autocast(self.device.type, torch.bfloat16, enabled=options.amp == "bf16"):
                loss: Any = cross_entropy(self.model(self.images[batch]), self.labels[batch])
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses += loss.detach()
            self.step += 1
            self.total_steps += 1
            if self.total_steps % options.log_every == 0:
                total, steps, stop = self.sum_over_ranks(losses.item(), self.step - first, len(self.signals))
                pace = steps * options.batch_size / (time.perf_counter() - since)
                text = f"epoch {self.epoch + 1}/{options.epochs}  step {self.step}/{self.steps_per_epoch}"
                text += f"  loss {total / steps:.4f}  {pace:,.0f} images/s"
                self.log(text, loss=total / steps, lr=options.lr, samples_per_second=pace)
                since, first = time.perf_counter(), self.step
                losses.zero_()
                if stop:
                    return True
        return self.sum_over_ranks(len(self.signals)) != [0]

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the accuracy on the test set. Each rank has its share, and each image counts once."""
        self.model.module.eval()
        own = slice(self.train_count + self.rank, None, self.world)
        right = self.model.module(self.images[own]).argmax(1) == self.labels[own]
        return self.sum_over_ranks(right.sum().item())[0] / len(self.labels[self.train_count :])

    def checkpoint_name(self) -> str:  # in the order of the alphabet, the latest is the last
        return f"checkpoint_epoch_{self.epoch:05}_step_{self.step:06}.pt"

    def save(self) -> None:
        """Write a checkpoint, with each rank's random numbers. Returns when it is complete: a whole file or none."""
        path = self.folder / self.checkpoint_name()
        get_random = torch.cuda.get_rng_state if self.device.type == "cuda" else torch.get_rng_state
        random: list[Any] = [None] * self.world
        dist.all_gather_object(random, get_random())
        if self.rank == 0:
            state = {name: getattr(self, name) for name in POSITION} | {"setup": self.setup, "random": random}
            state |= {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}
            path.parent.mkdir(parents=True, exist_ok=True)
            for left in self.folder.glob(f".{path.name}.{'[0-9a-f]' * 8}.tmp"):
                with suppress(FileNotFoundError):  # another run takes it away
                    if left.stat().st_mtime < self.began:  # of a run that was killed while it wrote
                        left.unlink()
            draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
            with draft.open("xb") as file:  # from here on it is this rank's
                try:
                    torch.save(state, file)
                    file.flush()
                    os.fsync(file.fileno())
                    while not self.take_name(draft, path):  # since this run began
                        self.move_aside([path], "another run saved here")
                finally:
                    draft.unlink(missing_ok=True)
        dist.barrier()

    def resume(self) -> None:
        """Continue where a checkpoint was saved. Rank 0 reads it: the ranks need no shared file system."""
        paths = [Path(self.options.resume or "")]
        if self.options.resume == "auto":
            paths = sorted(self.folder.glob(CHECKPOINTS), reverse=True)
        box: list[Any] = [None]
        for path in paths if self.options.resume and self.rank == 0 else []:
            try:
                if not path.is_file():  # to open a pipe could last for ever
                    raise OSError("no file")
                state = torch.load(path, map_location="cpu", weights_only=True)
                box = [{name: state[name] for name in ("setup", "model", "optimizer", "random", *POSITION)}]
                break
            except Exception as error:  # a torn file fails in many ways inside torch.load
                print(f"train.py: cannot read {path}: {error!r:.200}", file=sys.stderr, flush=True)
        dist.broadcast_object_list(box, device=self.device)
        state = box[0]
        if state is None and self.options.resume not in (None, "auto"):
            refuse(BAD_REQUEST, f"--resume: {self.options.resume} is no checkpoint; hint: --resume auto")
        if state is None:
            return
        if state["step"] and state["setup"] != self.setup:
            change = f"{state['setup']}; now: {self.setup}"
            refuse(BAD_REQUEST, f"--resume: within an epoch this must stay: {change}; hint: one with step_000000")
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.optimizer.param_groups[0]["lr"] = self.options.lr
        self.epoch, self.step, self.total_steps = (state[name] for name in POSITION)
        if state["setup"] == self.setup:
            set_random = torch.cuda.set_rng_state if self.device.type == "cuda" else torch.set_rng_state
            set_random(state["random"][self.rank])
        self.log(f"resumed after epoch {self.epoch}" + f" and {self.step} steps" * bool(self.step))

    def open_metrics(self) -> None:
        """Open the metrics. Files of an earlier run that are ahead of this position are moved, not overwritten."""
        path = self.folder / self.options.metrics
        path.parent.mkdir(parents=True, exist_ok=True)
        append = os.O_RDWR | os.O_APPEND | os.O_CREAT
        file, kept, has_more = read_metrics(path, self.total_steps, append)
        ahead = [each for each in sorted(self.folder.glob(CHECKPOINTS)) if each.name > self.checkpoint_name()]
        ahead += [path] if has_more else []
        if ahead:
            self.move_aside(ahead, "an earlier run left")
        if has_more:
            os.close(file)
            try:
                file = os.open(path, append | os.O_EXCL, 0o666)
            except FileExistsError:  # another run's
                self.open_metrics()
                return
        self.metrics = open(file, "a", buffering=1)
        self.metrics.writelines(kept if has_more else [])

    def take_name(self, draft: Path, path: Path) -> bool:
        """Give a draft its name, unless another file has it."""
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            draft.replace(path)
        return True

    def move_aside(self, paths: list[Path], whose: str) -> None:
        for number in itertools.count(1):
            target = self.folder / f"earlier_{number}"
            with suppress(FileExistsError):
                target.mkdir(parents=True)
                break
        for each in paths:
            with suppress(FileNotFoundError):  # another run moved it
                shutil.move(each, target)
        self.log(f"moved what {whose} to {target}: {', '.join(each.name for each in paths)}")

    def log(self, text: str, **values: float) -> None:
        if self.rank == 0:
            print(text, flush=True)
        if self.rank == 0 and values:
            self.metrics.write(json.dumps({"step": self.total_steps, "epoch": self.epoch + 1, **values}) + "\n")

    def run(self) -> int:
        """Train, evaluate and save epoch by epoch. Returns the exit code."""
        self.log(f"{self.setup}, backend {dist.get_backend()}, master {os.environ['MASTER_ADDR']}")
        self.resume()
        if self.rank == 0:
            self.open_metrics()
        while self.epoch < self.options.epochs:
            began, stop = time.perf_counter(), self.train_epoch()
            if self.step == self.steps_per_epoch:
                accuracy, seconds = self.evaluate(), time.perf_counter() - began
                text = f"epoch {self.epoch + 1}/{self.options.epochs}  accuracy {100 * accuracy:.2f} %  {seconds:.1f} s"
                self.log(text, test_accuracy=accuracy, seconds=seconds)
                self.epoch, self.step = self.epoch + 1, 0
            self.save()
            if stop and self.epoch < self.options.epochs:
                self.log(f"stopped by a signal: saved {self.checkpoint_name()}; run again with --resume auto")
                return SAVED
        self.log(f"final accuracy {100 * self.evaluate():.2f} %, checkpoints in {self.folder}")
        return 0


def main(argv: list[str]) -> int:
    read_launcher()
    options, device = parse_options(argv), choose_device()
    metrics = Path(options.checkpoint_dir, options.metrics)
    read_metrics(metrics, 0, os.O_RDONLY)  # refused before the ranks wait for each other
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    code = Training(options, device).run()
    gc.collect()  # a model that is freed after its group can hang: https://github.com/pytorch/pytorch/issues/56297
    dist.destroy_process_group()
    return code


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # not sys.exit(): a thread of gloo that frees its last tensor then can abort
