"""DeepSpeed as a library: ZeRO stage 2, with torch's optimizer, so that nothing must be compiled on a node."""

import deepspeed
import torch
from said import say

CONFIG = {
    "train_micro_batch_size_per_gpu": 16,
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}


def main():
    deepspeed.init_distributed()
    rank = deepspeed.comm.get_rank()
    torch.manual_seed(rank)  # DeepSpeed sends rank 0's parameters to all
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    random = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(20):
        inputs = torch.randn(16, 8, generator=random).to(engine.device)
        loss = torch.nn.functional.mse_loss(engine(inputs), inputs.sum(dim=1, keepdim=True))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    total = torch.tensor([rank + 1.0], device=engine.device)
    deepspeed.comm.all_reduce(total)
    say(
        "DeepSpeed",
        deepspeed.__version__,
        rank=engine.global_rank,
        local_rank=engine.local_rank,
        world_size=engine.world_size,
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=engine.module.parameters(),
    )
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
