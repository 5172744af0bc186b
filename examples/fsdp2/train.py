"""Train with FSDP2: every rank holds a shard of the parameters. Usage: train.py [CHECKPOINT_DIRECTORY]"""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05


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


def batches(mesh):
    """Yield this rank's share of every epoch."""
    data = make_data()
    sampler = DistributedSampler(data, num_replicas=mesh.size(), rank=mesh.get_rank())
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=BATCH, sampler=sampler):
            yield inputs.to(mesh.device_type), targets.to(mesh.device_type)


def train(model, optimizer, steps):
    """Return the loss of every step."""
    losses = []
    for inputs, targets in steps:
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def save(model, optimizer, directory):
    """Every rank writes its shards into a directory that all nodes share."""
    parts, optimizer_parts = get_state_dict(model, optimizer)
    dcp.save({"model": parts, "optimizer": optimizer_parts}, checkpoint_id=directory)


def main(directory=None):
    mesh = make_mesh()
    model = shard(make_model(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = train(model, optimizer, batches(mesh))
    if directory:
        save(model, optimizer, directory)
    if mesh.get_rank() == 0:
        print(f"{mesh.size()} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # not by Python's own end, where a thread of gloo can abort
