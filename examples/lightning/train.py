"""Train with Lightning's Trainer. `devices` and `num_nodes` are those of the launch."""

import os

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


class Module(lightning.LightningModule):
    def __init__(self, seed=0):
        super().__init__()
        self.layers = make_model(seed)
        self.losses = []

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        loss = nn.functional.mse_loss(self.layers(inputs), targets)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=RATE)


def train(devices, num_nodes, strategy="ddp", seed=0, **options):
    """Return the module after training. `options` are more arguments of the Trainer."""
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=devices,
        num_nodes=num_nodes,
        strategy=strategy,
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        **options,
    )
    module = Module(seed)
    trainer.fit(module, DataLoader(make_data(), batch_size=BATCH))
    return module


def main():
    ranks, devices = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    module = train(devices, ranks // devices)
    if module.global_rank == 0:
        print(f"{module.trainer.world_size} ranks: loss {module.losses[0]:.3f} -> {module.losses[-1]:.3f}")


if __name__ == "__main__":
    main()
