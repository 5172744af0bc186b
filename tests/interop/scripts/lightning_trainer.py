"""Lightning's Trainer. Usage: lightning_trainer.py DEVICES NUM_NODES [STRATEGY], as they are given to it."""

import os
import sys

import lesson
import lightning
import torch
from said import say
from torch.utils.data import DataLoader


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = lesson.model(int(os.environ["RANK"]))
        self.losses = []

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        if os.environ.get("FAIL_ON_RANK") == str(self.global_rank) and self.current_epoch == 1:
            raise ValueError(f"no step for rank {self.global_rank}")
        loss = torch.nn.functional.mse_loss(self.layers(inputs), targets)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=lesson.RATE)

    def on_train_end(self):
        given = torch.tensor([self.global_rank + 1.0], device=self.device)
        say(
            "Lightning Trainer",
            lightning.__version__,
            rank=self.global_rank,
            local_rank=self.local_rank,
            world_size=self.trainer.world_size,
            main=self.trainer.is_global_zero,
            device=self.device,
            total=self.trainer.strategy.reduce(given, reduce_op="sum").item(),
            losses=[self.losses[0], self.losses[-1]],
            parameters=self.parameters(),
            reference=lesson.reference(shuffle=True),  # in training Lightning's own sampler does so
            node_rank=self.trainer.node_rank,
            guessed=type(getattr(self.trainer.strategy, "cluster_environment", None)).__name__,
        )


def main(devices, num_nodes, strategy="ddp"):
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=devices,
        num_nodes=num_nodes,
        strategy=strategy,
        max_epochs=lesson.EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Module(), DataLoader(lesson.data(), batch_size=lesson.BATCH))


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1] == "auto" else int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
