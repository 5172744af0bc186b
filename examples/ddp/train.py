"""Train with DistributedDataParallel: every rank has the whole model and a share of the data.

With `--out DIR` it saves after each epoch, and when it is asked to stop. The same command then goes on from there.
"""

import argparse
import os
import signal
import sys
import time
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05
AGAIN = 75  # exit code of a run that has saved, and is to be started again
asked = []  # signals that this rank got


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def save(out, step, model, optimizer):
    """Rank 0 saves a draft, and renames it: under its name a checkpoint is always whole."""
    if out and dist.get_rank() == 0:
        state = {"step": step, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, out / "draft.pt")
        (out / "draft.pt").replace(out / "last.pt")


def load(out, model, optimizer):
    """Load the checkpoint, if there is one. Returns the number of steps that are done."""
    if not out or not (out / "last.pt").exists():
        return 0
    state = torch.load(out / "last.pt", map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def should_stop(device):
    """Whether any rank got a signal. All ranks learn it at the same step, so that none waits for one that has ended."""
    signals = torch.tensor(len(asked), device=device)
    dist.all_reduce(signals)
    return signals > 0


def train(seed=0, epochs=EPOCHS, out=None, pause=0.0):
    """Return the trained model and the loss of every step."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    model = DistributedDataParallel(make_model(seed).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    data = make_data()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    losses = []
    step = load(out, model, optimizer)
    for epoch in range(step // len(loader), epochs):
        sampler.set_epoch(epoch)  # another order in each epoch, the same on all ranks
        for inputs, targets in islice(loader, step % len(loader), None):
            time.sleep(pause)
            loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
            if dist.get_rank() == 0:
                print(f"step {step} loss {losses[-1]:.4f}", flush=True)
            if should_stop(device):
                save(out, step, model, optimizer)
                return model, losses
        save(out, step, model, optimizer)
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
    losses = train(**vars(options))[1]  # without a name, the model is freed before its group: with gloo, later may hang
    if dist.get_rank() == 0 and losses:
        print(f"{dist.get_world_size()} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    dist.destroy_process_group()
    return AGAIN if asked else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Not by Python's own end: DDP keeps the group beyond its destruction, and a thread of gloo can abort there.
    os._exit(code)
