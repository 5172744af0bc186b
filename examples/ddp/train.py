"""Train with DistributedDataParallel: every rank has the whole model and a share of the data."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def train(seed=0):
    """Return the trained model and the loss of every step."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
    model = DistributedDataParallel(make_model(seed).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    data = make_data()
    sampler = DistributedSampler(data)
    losses = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)  # another order in each epoch, the same on all ranks
        for inputs, targets in DataLoader(data, batch_size=BATCH, sampler=sampler):
            loss = nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def main():
    losses = train()[1]  # without a name, the model is freed before its group: with gloo, freeing it later may hang
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    # Not by Python's own end: DDP keeps the group beyond its destruction, and a thread of gloo can abort there.
    os._exit(0)
