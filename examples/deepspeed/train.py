"""Train with DeepSpeed ZeRO stage 2. Start it with ddpkit, not with `deepspeed`."""

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05
CONFIG = {
    "train_micro_batch_size_per_gpu": BATCH,
    "zero_optimization": {"stage": 2},
    "gradient_clipping": 0.0,
    # torch's own optimizer: nothing has to be compiled on a node.
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def train(seed=0):
    """Return DeepSpeed's engine and the loss of every step."""
    deepspeed.init_distributed()  # reads the environment of the launch
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    data = make_data()
    sampler = DistributedSampler(data)
    losses = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=BATCH, sampler=sampler):
            loss = nn.functional.mse_loss(engine(inputs.to(engine.device)), targets.to(engine.device))
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
    return engine, losses


def main():
    engine, losses = train()
    if engine.global_rank == 0:
        print(f"{engine.world_size} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    deepspeed.comm.destroy_process_group()


if __name__ == "__main__":
    main()
