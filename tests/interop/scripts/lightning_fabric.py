"""The example of Lightning Fabric. Usage: lightning_fabric.py DEVICES NUM_NODES, which Lightning compares."""

import sys

import lightning
import torch
from observed import report
from single import load, reference


def main(devices, num_nodes):
    example = load("lightning", "fabric.py")
    fabric = example.make_fabric(devices, num_nodes)
    model, losses = example.train(fabric, seed=fabric.global_rank)
    given = torch.tensor([fabric.global_rank + 1.0], device=fabric.device)
    report(
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
        reference=reference(example, shuffle=False),
        node_rank=fabric.node_rank,
        guessed=type(fabric.strategy.cluster_environment).__name__,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
