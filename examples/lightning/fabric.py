"""Train with Lightning Fabric. `devices` and `num_nodes` are those of the launch."""

import os

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def make_fabric(devices, num_nodes):
    fabric = Fabric(accelerator="auto", devices=devices, num_nodes=num_nodes, strategy="ddp")
    fabric.launch()  # starts nothing under ddpkit: the ranks exist already
    return fabric


def train(fabric, seed=0):
    """Return the trained model and the loss of every step."""
    model = make_model(seed)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=RATE))
    loader = fabric.setup_dataloaders(DataLoader(make_data(), batch_size=BATCH))
    losses = []
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def main():
    ranks, devices = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = make_fabric(devices, ranks // devices)
    _, losses = train(fabric)
    fabric.print(f"{fabric.world_size} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
