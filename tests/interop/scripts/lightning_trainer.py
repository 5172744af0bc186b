"""The example of Lightning's Trainer. Usage: lightning_trainer.py DEVICES NUM_NODES [STRATEGY]"""

import os
import sys

import lightning
import torch
from observed import report
from single import fail_in_second_epoch, load, reference


class Observer(lightning.Callback):
    def __init__(self, example):
        self.example = example

    def on_train_end(self, trainer, pl_module):
        given = torch.tensor([pl_module.global_rank + 1.0], device=pl_module.device)
        report(
            "Lightning Trainer",
            lightning.__version__,
            rank=pl_module.global_rank,
            local_rank=pl_module.local_rank,
            world_size=trainer.world_size,
            main=trainer.is_global_zero,
            device=pl_module.device,
            total=trainer.strategy.reduce(given, reduce_op="sum").item(),
            losses=[pl_module.losses[0], pl_module.losses[-1]],
            parameters=pl_module.parameters(),
            reference=reference(self.example),  # in training Lightning's own sampler shuffles
            node_rank=trainer.node_rank,
            guessed=type(getattr(trainer.strategy, "cluster_environment", None)).__name__,
        )


def main(devices, num_nodes, strategy="ddp"):
    example = load("lightning")
    fail_in_second_epoch(example)
    seed = int(os.environ["RANK"])
    example.train(devices, num_nodes, strategy, seed=seed, callbacks=[Observer(example)])


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1] == "auto" else int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
