"""The example of DeepSpeed, with a model of its own on each rank."""

import os

import deepspeed
import torch
from observed import report
from single import load, reference


def main():
    example = load("deepspeed")
    engine, losses = example.train(seed=int(os.environ["RANK"]))
    total = torch.tensor([engine.global_rank + 1.0], device=engine.device)
    deepspeed.comm.all_reduce(total)
    report(
        "DeepSpeed",
        deepspeed.__version__,
        rank=engine.global_rank,
        local_rank=engine.local_rank,
        world_size=engine.world_size,
        main=deepspeed.comm.get_rank() == 0,
        device=engine.device,
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=engine.module.parameters(),
        reference=reference(example),
    )
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
