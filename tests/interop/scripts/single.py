"""Examples as modules, and the parameters that one process alone learns from the batches of all ranks.

A library that exchanges gradients ends with these parameters. A library whose ranks train by themselves does not,
whatever it reports as rank and world size.
"""

import importlib.util
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

EXAMPLES = Path(__file__).parents[3] / "examples"


def load(name, file="train.py"):
    """Import the program of an example from its file. Its directory may have the name of a library."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / name / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loss_of(learner, batch):
    features, targets = batch
    return torch.nn.functional.mse_loss(learner(features), targets)


def alone(example, learner, optimizer, dataset, *, loss=loss_of, shuffle=True):
    """Train in this process on what all ranks of the launch see together in one step. Returns the parameters."""
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=shuffle)  # the order that ranks share out
    for epoch in range(example.EPOCHS):
        sampler.set_epoch(epoch)
        for batch in DataLoader(dataset, batch_size=example.BATCH * int(os.environ["WORLD_SIZE"]), sampler=sampler):
            optimizer.zero_grad()
            loss(learner, batch).backward()
            optimizer.step()
    return list(learner.parameters())


def reference(example, *, shuffle=True):
    """Train rank 0's model of an example with plain SGD in this process. Returns the parameters."""
    learner = example.make_model(0)
    optimizer = torch.optim.SGD(learner.parameters(), lr=example.RATE)
    return alone(example, learner, optimizer, example.make_data(), shuffle=shuffle)


def fail_in_second_epoch(example):
    """Make the loss function raise in the second epoch on the rank that FAIL_ON_RANK names."""
    rank = os.environ["RANK"]
    if os.environ.get("FAIL_ON_RANK") != rank:
        return
    compute, calls = torch.nn.functional.mse_loss, 0

    def raising(*args):
        nonlocal calls
        calls += 1
        if calls > len(example.make_data()) / example.BATCH / int(os.environ["WORLD_SIZE"]):
            raise ValueError(f"no step for rank {rank}")
        return compute(*args)

    torch.nn.functional.mse_loss = raising
