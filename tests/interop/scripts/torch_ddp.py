"""torch's own DistributedDataParallel, as its tutorials write it. Nothing here knows of ddpkit."""

import os

import torch
import torch.distributed as dist
from said import say
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(dist.get_rank())  # DDP must make the parameters equal
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(features, features.sum(dim=1, keepdim=True))
    sampler = DistributedSampler(data)
    losses = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=16, sampler=sampler):
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    total = torch.tensor([dist.get_rank() + 1.0], device=device)
    dist.all_reduce(total)
    say(
        "torch DDP",
        torch.__version__,
        rank=dist.get_rank(),
        local_rank=local_rank,
        world_size=dist.get_world_size(),
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
