"""Lightning Fabric. Usage: lightning_fabric.py DEVICES NUM_NODES, which Lightning compares with what it finds."""

import sys

import lightning
import torch
from lightning.fabric import Fabric
from said import say
from torch.utils.data import DataLoader, TensorDataset


def main(devices, num_nodes):
    fabric = Fabric(accelerator="auto", devices=devices, num_nodes=num_nodes, strategy="ddp")
    fabric.launch()
    torch.manual_seed(fabric.global_rank)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = fabric.setup(model, optimizer)
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    loader = fabric.setup_dataloaders(
        DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=16, shuffle=True)
    )
    losses = []
    for _ in range(3):
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
        total=fabric.all_reduce(given, reduce_op="sum").item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        node_rank=fabric.node_rank,
        guessed=type(fabric.strategy.cluster_environment).__name__,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
