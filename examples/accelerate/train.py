"""Train with Hugging Face Accelerate. Start it with ddpkit, not with `accelerate launch`.

With `--out DIR` it saves after each epoch, and when it is asked to stop. The same command then goes on from there.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
from accelerate import Accelerator
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


def save(accelerator, out, step):
    """All ranks write into a draft, which gets its name when it is whole."""
    if out:
        accelerator.save_state(out / "draft")
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            (out / "draft").rename(out / f"step-{step:06}")


def load(accelerator, out):
    """Load the newest checkpoint, if there is one. Returns the number of steps that are done."""
    saved = sorted(out.glob("step-*")) if out else []
    if not saved:
        return 0
    accelerator.load_state(saved[-1])
    return int(saved[-1].name.partition("-")[2])


def should_stop(accelerator):
    """Whether any rank got a signal. All ranks learn it at the same step, so that they save together."""
    return accelerator.reduce(torch.tensor(len(asked), device=accelerator.device), "sum") > 0


def train(accelerator, seed=0, epochs=EPOCHS, out=None, pause=0.0):
    """Return the trained model and the loss of every step."""
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loader = DataLoader(make_data(), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    step = load(accelerator, out)
    for epoch in range(step // len(loader), epochs):
        loader.set_epoch(epoch)  # another order in each epoch, if the loader shuffles
        for inputs, targets in accelerator.skip_first_batches(loader, step % len(loader)):
            time.sleep(pause)
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
            step += 1
            accelerator.print(f"step {step} loss {losses[-1]:.4f}", flush=True)
            if should_stop(accelerator):
                save(accelerator, out, step)
                return model, losses
        save(accelerator, out, step)
    return model, losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, default=os.environ.get("CKPT_DIR"), help="directory of checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each step takes longer")
    options = parser.parse_args()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: asked.append(number))
    # Without `cpu=True` Accelerate ignores the other ranks where no GPU is found.
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    _, losses = train(accelerator, **vars(options))
    if losses:
        accelerator.print(f"{accelerator.num_processes} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    accelerator.end_training()
    return AGAIN if asked else 0


if __name__ == "__main__":
    sys.exit(main())
