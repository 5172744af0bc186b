"""Lightning's Trainer. Usage: lightning_trainer.py DEVICES NUM_NODES, which Lightning compares with what it finds."""

import os
import sys

import lightning
import torch
from said import say
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.losses = []

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        if os.environ.get("FAIL_ON_RANK") == str(self.global_rank) and self.current_epoch == 1:
            raise ValueError(f"no step for rank {self.global_rank}")
        loss = torch.nn.functional.mse_loss(self.layer(inputs), targets)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

    def on_train_end(self):
        given = torch.tensor([self.global_rank + 1.0], device=self.device)
        say(
            "Lightning Trainer",
            lightning.__version__,
            rank=self.global_rank,
            local_rank=self.local_rank,
            world_size=self.trainer.world_size,
            total=self.trainer.strategy.reduce(given, reduce_op="sum").item(),
            losses=[self.losses[0], self.losses[-1]],
            parameters=self.parameters(),
            node_rank=self.trainer.node_rank,
            guessed=type(self.trainer.strategy.cluster_environment).__name__,
        )


def main(devices, num_nodes):
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=16, shuffle=True)
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=devices,
        num_nodes=num_nodes,
        strategy="ddp",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Module(), loader)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
