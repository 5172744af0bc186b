"""Lightning Fabric. Usage: lightning_fabric.py DEVICES NUM_NODES, which Lightning compares with what it finds."""

import sys

import lesson
import lightning
import torch
from lightning.fabric import Fabric
from said import say
from torch.utils.data import DataLoader


def main(devices, num_nodes):
    fabric = Fabric(accelerator="auto", devices=devices, num_nodes=num_nodes, strategy="ddp")
    fabric.launch()
    model = lesson.model(fabric.global_rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.RATE)
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(DataLoader(lesson.data(), batch_size=lesson.BATCH))
    losses = []
    for _ in range(lesson.EPOCHS):
        for inputs, targets in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    given = torch.tensor([fabric.global_rank + 1.0], device=fabric.device)
    say(
        "Lightning Fabric",
        lightning.__version__,
        rank=fabric.global_rank,
        local_rank=fabric.local_rank,
        world_size=fabric.world_size,
        main=fabric.is_global_zero,
        device=fabric.device,
        total=fabric.all_reduce(given, reduce_op="sum").item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        reference=lesson.reference(),
        node_rank=fabric.node_rank,
        guessed=type(fabric.strategy.cluster_environment).__name__,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
