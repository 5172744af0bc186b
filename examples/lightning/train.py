"""Train with Lightning's Trainer. `devices` and `num_nodes` are those of the launch.

With `--out DIR` it saves after each epoch, and when it is asked to stop. The same command then goes on from there.
"""

import argparse
import os
import signal
import sys
import time
from itertools import islice
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05
AGAIN = 75  # exit code of a run that has saved, and is to be started again
asked = []  # signals that this rank got


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


class Loader(DataLoader):
    """Its place in an epoch is part of a checkpoint. Lightning would begin the epoch again with its first batch."""

    done = 0  # batches of the epoch

    def __iter__(self):
        self.done %= len(self)
        for batch in islice(super().__iter__(), self.done, None):
            self.done += 1
            yield batch

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]


class Module(lightning.LightningModule):
    def __init__(self, seed=0, pause=0.0):
        super().__init__()
        self.layers = make_model(seed)
        self.losses = []
        self.pause = pause

    def training_step(self, batch, batch_idx):
        time.sleep(self.pause)
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.layers(inputs), targets)
        self.losses.append(loss.item())
        self.print(f"step {self.global_step + 1} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=RATE)


class StopTogether(lightning.Callback):
    """Save and end where any rank got a signal. All ranks learn it at the same step."""

    def __init__(self, out):
        self.out = out

    def on_train_start(self, trainer, pl_module):
        for number in (signal.SIGTERM, signal.SIGUSR1):  # in place of Lightning's own, which do not wait for the step
            signal.signal(number, lambda number, _: asked.append(number))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.strategy.reduce_boolean_decision(bool(asked), all=False):
            if self.out:
                trainer.save_checkpoint(self.out / "last.ckpt")
            sys.exit(AGAIN)  # `should_stop` would save once more, as if the epoch were over


def train(devices, num_nodes, strategy="ddp", seed=0, epochs=EPOCHS, out=None, pause=0.0, callbacks=()):
    """Return the module after training."""
    saving = [ModelCheckpoint(out, save_last=True, enable_version_counter=False)] if out else []
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=devices,
        num_nodes=num_nodes,
        strategy=strategy,
        max_epochs=epochs,
        logger=False,
        callbacks=[StopTogether(out), *saving, *callbacks],
        enable_checkpointing=bool(out),
        enable_progress_bar=False,
    )
    module = Module(seed, pause)
    trainer.fit(module, Loader(make_data(), batch_size=BATCH), ckpt_path="last" if out else None)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, default=os.environ.get("CKPT_DIR"), help="directory of checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each step takes longer")
    ranks, devices = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    module = train(devices, ranks // devices, **vars(parser.parse_args()))
    if module.global_rank == 0 and module.losses:
        print(f"{module.trainer.world_size} ranks: loss {module.losses[0]:.3f} -> {module.losses[-1]:.3f}")


if __name__ == "__main__":
    main()
