"""One small lesson for every library, and what one process alone learns of it from the batches of all ranks.

A library that exchanges gradients ends with these parameters; one whose ranks train by themselves does not, whatever it
says of ranks and worlds, and also where all ranks see the same data and end alike.
"""

import os

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BATCH, EPOCHS, RATE = 8, 3, 0.05


def data():
    """A multiple of 4 batches: no rank gets one twice."""
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def model(seed):
    """The same for the same seed. Each rank takes its rank: the library must make them equal, as rank 0's."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def loss_of(learner, batch):
    features, targets = batch
    return torch.nn.functional.mse_loss(learner(features), targets)


def mine(rank, world):
    """This rank's batches of every epoch, in order, for libraries that leave the sharing out to the user."""
    for _ in range(EPOCHS):
        for number, batch in enumerate(DataLoader(data(), batch_size=BATCH)):
            if number % world == rank:
                yield batch


def alone(learner, optimizer, dataset, *, loss=loss_of, shuffle=False):
    """Train in this process with what all ranks of the launch see in one step together. Returns the parameters."""
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=shuffle)  # the order that ranks share out
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for batch in DataLoader(dataset, batch_size=BATCH * int(os.environ["WORLD_SIZE"]), sampler=sampler):
            optimizer.zero_grad()
            loss(learner, batch).backward()
            optimizer.step()
    return list(learner.parameters())


def reference(*, shuffle=False):
    """What `alone` makes of rank 0's model with plain SGD."""
    learner = model(0)
    return alone(learner, torch.optim.SGD(learner.parameters(), lr=RATE), data(), shuffle=shuffle)
