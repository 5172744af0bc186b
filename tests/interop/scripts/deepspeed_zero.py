"""DeepSpeed as a library: ZeRO stage 2, with torch's optimizer, so that nothing must be compiled on a node."""

import deepspeed
import lesson
import torch
from said import say

CONFIG = {
    "train_micro_batch_size_per_gpu": lesson.BATCH,
    "gradient_clipping": 0.0,  # 1.0 is its default
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}


def main():
    deepspeed.init_distributed()
    model = lesson.model(deepspeed.comm.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.RATE)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    losses = []
    for inputs, targets in lesson.mine(engine.global_rank, engine.world_size):
        loss = torch.nn.functional.mse_loss(engine(inputs.to(engine.device)), targets.to(engine.device))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    total = torch.tensor([engine.global_rank + 1.0], device=engine.device)
    deepspeed.comm.all_reduce(total)
    say(
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
        reference=lesson.reference(),
    )
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
