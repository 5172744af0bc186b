"""The example of DDP, with a model of its own on each rank: DDP must make them equal."""

import os

import torch
import torch.distributed as dist
from observed import report
from single import load, reference


def main():
    example = load("ddp")
    model, losses = example.train(seed=int(os.environ["RANK"]))
    device = next(model.parameters()).device
    total = torch.tensor([dist.get_rank() + 1.0], device=device)
    dist.all_reduce(total)
    report(
        "torch DDP",
        torch.__version__,
        rank=dist.get_rank(),
        local_rank=dist.get_node_local_rank(),
        world_size=dist.get_world_size(),
        main=dist.get_rank() == 0,
        device=device,
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        reference=reference(example),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
