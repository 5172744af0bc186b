"""Train with FSDP2: every rank holds a shard of the parameters.

With `--out DIR` it saves after every 16 steps, and when it is asked to stop. The same command then goes on from there.
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
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05
SAVE_EVERY = 16  # steps
AGAIN = 75  # exit code of a run that has saved, and is to be started again
asked = []  # signals that this rank got


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def make_mesh():
    """All ranks in one dimension. The mesh takes each rank's GPU from LOCAL_RANK."""
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    return init_device_mesh(kind, (int(os.environ["WORLD_SIZE"]),))


def shard(model, mesh):
    """Shard each layer, then the rest. Every rank must start from the same parameters."""
    model = model.to(mesh.device_type)
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batches(mesh, epochs=EPOCHS, done=0):
    """Yield this rank's share of every epoch, without the steps that are done."""
    data = make_data()
    sampler = DistributedSampler(data, num_replicas=mesh.size(), rank=mesh.get_rank())
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    for epoch in range(done // len(loader), epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in islice(loader, done % len(loader), None):
            done += 1
            yield inputs.to(mesh.device_type), targets.to(mesh.device_type)


def should_stop(device):
    """Whether any rank got a signal. All ranks learn it at the same step, so that they save together."""
    signals = torch.tensor(len(asked), device=device)
    dist.all_reduce(signals)
    return signals > 0


def train(model, optimizer, steps, done=0, out=None, pause=0.0):
    """Return the loss of every step. With `out`, all ranks save together."""
    losses = []
    for step, (inputs, targets) in enumerate(steps, done + 1):
        time.sleep(pause)
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if dist.get_rank() == 0:
            print(f"step {step} loss {losses[-1]:.4f}", flush=True)
        stop = should_stop(inputs.device)
        if out and (stop or step % SAVE_EVERY == 0):
            save(model, optimizer, out / f"step-{step:06}", step)
        if stop:
            break
    return losses


def save(model, optimizer, directory, step=0):
    """Every rank writes its shards into a directory that all nodes share."""
    parts, optimizer_parts = get_state_dict(model, optimizer)
    dcp.save({"step": step, "model": parts, "optimizer": optimizer_parts}, checkpoint_id=directory)


def load(model, optimizer, out):
    """Load the newest whole checkpoint, if there is one. Returns the number of steps that are done."""
    whole = sorted(out.glob("step-*/.metadata"))  # the last file that is written
    if not whole:
        return 0
    parts, optimizer_parts = get_state_dict(model, optimizer)
    state = {"step": 0, "model": parts, "optimizer": optimizer_parts}
    dcp.load(state, checkpoint_id=whole[-1].parent)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["step"]


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
    mesh = make_mesh()
    model = shard(make_model(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    done = load(model, optimizer, options.out) if options.out else 0
    losses = train(model, optimizer, batches(mesh, options.epochs, done), done, options.out, options.pause)
    if mesh.get_rank() == 0 and losses:
        print(f"{mesh.size()} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    dist.destroy_process_group()
    return AGAIN if asked else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # not by Python's own end, where a thread of gloo can abort
