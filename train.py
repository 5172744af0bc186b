"""Train a small image classifier on one process or on many: the script to copy and make your own.

    ddpkit launch -n 2 -- train.py --epochs 5                         two processes on this machine
    torchrun --nproc-per-node 2 train.py                              the same with PyTorch's own launcher
    python -m torch.distributed.launch --nproc-per-node 2 train.py    the same with the one before it
    srun -N2 --ntasks-per-node=2 python train.py                      two nodes, two processes each, under SLURM
    python train.py                                                   one process, for a debugger

A node needs torch and numpy, and no ddpkit: `ddpkit init --train` writes this file, train_parts.py and
distributed_env.py, which is ddpkit.distributed as one file. Copy all three. distributed_env.py reads the variables of
each launcher. torchrun and srun copy no files, so keep it beside train.py.

Every option is a flag (--batch-size 64) or a line of a YAML file (--config FILE, batch_size: 64). Flags override the
file, and the file overrides the defaults. With scikit-learn's digits, the default data set, no download is needed.

After SIGTERM or SIGUSR1 on any rank, the run saves a checkpoint and exits with code 75. With --resume auto it
continues with the next batch. On CPUs the weights are then bit for bit those of an uninterrupted run.

Exit codes: 0 trained. 75 saved after a signal: run again with --resume auto. 2 wrong request. 5 the environment of
this rank is incomplete or contradicts itself. 1 any other error, with a traceback.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import train_parts
from train_parts import INTERRUPTED, Data, Log, Stop, UsageError, option

try:
    from ddpkit.distributed import torch as ddp
except ModuleNotFoundError:  # a node without ddpkit: the same, from the file beside this one
    import distributed_env as ddp  # type: ignore[import-not-found, no-redef]

EXIT_SAVED = 75  # EX_TEMPFAIL of sysexits.h: "try again later"
EXIT_BAD_REQUEST, EXIT_BAD_ENVIRONMENT = 2, 5


@dataclasses.dataclass(frozen=True)
class Config:
    dataset: str = option("digits", "data set", choices=("digits", "mnist", "synthetic"))
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
    tensorboard: str | None = option(None, "also log to this TensorBoard directory")


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
        self.train_loader, self.sampler, self.test_loader = train_parts.make_loaders(
            *(data, batch, env.rank, env.world_size),
            seed=config.seed,
            num_workers=config.num_workers,
            pin_memory=self.device.type == "cuda",
        )
        self.steps_per_epoch = len(self.train_loader) // config.accumulation
        if self.steps_per_epoch == 0:
            need = batch * config.accumulation * env.world_size
            raise UsageError(f"one step needs {need} images, and the training set has {len(data[0])}")
        # DDP reorders its gradient buckets after the first backward pass, and from three ranks on the bucket decides in
        # which order a gradient is summed. Without this pass a resumed run would round its first step otherwise.
        self.model(data[0][0][0].to(self.device).unsqueeze(0)).sum().backward()
        self.optimizer.zero_grad()

    def describe(self) -> str:
        env, per_step = self.env, self.batch * self.config.accumulation * self.env.world_size
        ranks = f"{env.world_size} process{'es' * (env.world_size > 1)}"
        nodes = f"{env.num_nodes} node{'s' * (env.num_nodes > 1)}, master {env.master_addr}:{env.master_port}"
        batch = f"batch {self.batch} per rank, {per_step} per optimizer step"
        return f"{ranks} on {nodes}, device {self.device}, backend {dist.get_backend()}, {batch}"

    def train_epoch(self, log: Log, stop: Stop) -> bool:
        """Train to the end of the epoch, or until a stop is requested; True if it was."""
        self.sampler.set_epoch(self.epoch)
        self.sampler.skip = self.step * self.config.accumulation * self.batch
        self.model.module.train()
        batches = iter(self.train_loader)
        since, images, stopped = time.perf_counter(), 0, False
        while self.step < self.steps_per_epoch and not stopped:
            self.optimizer_step(batches)
            stopped = stop.after_step()
            self.step += 1
            self.total_steps += 1
            images += self.batch * self.config.accumulation * self.env.world_size
            log.advance()
            if self.total_steps % self.config.log_every == 0:
                now = time.perf_counter()
                self.log_step(log, images / (now - since))
                since, images = now, 0
        return stopped

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
        log.record(self.total_steps, self.epoch + 1, loss=loss, lr=lr, samples_per_second=samples_per_second)
        position = f"epoch {self.epoch + 1}/{self.config.epochs}  step {self.step}/{self.steps_per_epoch}"
        log.print(f"{position}  loss {loss:.4f}  {samples_per_second:,.0f} images/s")

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
        log.print(
            f"epoch {self.epoch}/{self.config.epochs}  loss {train_loss:.4f}  test loss {test_loss:.4f}  "
            f"accuracy {100 * accuracy:.2f} %  {seconds:.1f} s"
        )
        return self.save(f"checkpoint_epoch_{self.epoch}.pt"), accuracy

    def batches(self) -> dict[str, Any]:
        """The settings that decide which images the next step of this epoch reads."""
        names = ("dataset", "synthetic_size", "accumulation", "seed")
        options = {name: getattr(self.config, name) for name in names}
        return {"ranks": self.env.world_size, "images per rank and forward pass": self.batch, **options}

    def save(self, name: str) -> Path:
        """Write a checkpoint with every rank's state. Every rank calls this, and returns when the file is complete."""
        ranks: list[Any] = [None] * self.env.world_size
        dist.all_gather_object(ranks, {"sums": self.sums.tolist(), **train_parts.random_states(self.device)})
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
            train_parts.set_random_states(mine, self.device)
        elif ddp.is_main(self.env):
            change = f"saved by {before['ranks']} ranks, resumed by {now['ranks']}"
            train_parts.warn(f"{change}: random generators restart from --seed")
        log.print(f"resumed after epoch {self.epoch}" + f" and {self.step} steps" * bool(self.step))


def train(training: Training, log: Log, stop: Stop) -> int:
    """Resume, then train, evaluate and save epoch by epoch. Returns the exit code."""
    config = training.config
    log.print(training.describe())
    checkpoint = train_parts.share_checkpoint(config.resume, Path(config.checkpoint_dir), log.main)
    if checkpoint:
        training.restore(checkpoint, log)
    log.start(training.epoch, training.total_steps, config.epochs * training.steps_per_epoch)
    path = Path(config.checkpoint_dir if config.resume in (None, "auto") else config.resume)
    accuracy = None
    while training.epoch < config.epochs:
        started = time.perf_counter()
        stopped = training.train_epoch(log, stop)
        if stopped and training.step < training.steps_per_epoch:
            path = training.save(INTERRUPTED)
        else:
            path, accuracy = training.finish_epoch(log, started)
            stopped = stop.agree() or stopped  # the signal may have come during the evaluation
        if stopped and training.epoch < config.epochs:
            log.print(f"stopped by a signal: saved {path}; run again with --resume auto")
            return EXIT_SAVED
    if accuracy is None:  # resumed with nothing left to train
        accuracy = training.evaluate()[1]
    log.print(f"final accuracy {100 * accuracy:.2f} %, checkpoint {path}")
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
    data = train_parts.load_data(config.dataset, config.data_dir, config.synthetic_size)
    train_parts.check_metrics(Path(config.checkpoint_dir, config.metrics))
    ddp.init(config.distributed_backend, env=env)
    stop = Stop(ddp.device(env))  # before init() there is nothing to save: a signal simply ends the process
    log = Log(config, ddp.is_main(env))
    code, refused = 0, None
    try:
        code = train(Training(config, env, batch, data), log, stop)
    except UsageError as error:  # found by every rank alike
        refused = error.with_traceback(None)
    finally:
        log.close()
    # Only here: after any other error the peers may be inside a collective, and would be waited for. The end of this
    # process is what tells them. The model goes first, and no traceback holds it: a model that is freed after its group
    # waits for threads of gloo, which may wait for it (https://github.com/pytorch/pytorch/issues/56297).
    gc.collect()  # ends the data workers as well
    ddp.shutdown()
    if refused:
        raise refused
    return code


def main(argv: list[str]) -> int:
    local_rank = 0
    try:
        with contextlib.suppress(ddp.EnvError):  # a wrong option is reported first, a wrong environment after it
            local_rank = ddp.resolve(os.environ, argv).local_rank
        config = train_parts.Options(Config, __doc__).load(argv)
        return run(config, ddp.resolve(os.environ, argv))
    except (UsageError, ddp.EnvError) as error:
        wrong_request = isinstance(error, UsageError)
        if local_rank == 0 or not wrong_request:  # one line a node, not one a rank: a file may be missing on one node
            hint = f"; hint: {error.hint}" if error.hint else ""
            print(f"train.py: {error.message}{hint}", file=sys.stderr, flush=True)
        return EXIT_BAD_REQUEST if wrong_request else EXIT_BAD_ENVIRONMENT
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): DDP keeps the process group alive beyond its destruction (torch 2.13), and a thread of gloo that
    # frees its last tensor while the interpreter is being torn down aborts a run that had succeeded.
    os._exit(exit_code)
