"""torch's own DistributedDataParallel, as its tutorials write it. Nothing here knows of ddpkit."""

import os

import lesson
import torch
import torch.distributed as dist
from said import say
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    model = DistributedDataParallel(lesson.model(dist.get_rank()).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.RATE)
    data = lesson.data()
    sampler = DistributedSampler(data, shuffle=False)
    losses = []
    for epoch in range(lesson.EPOCHS):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=lesson.BATCH, sampler=sampler):
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
        local_rank=dist.get_node_local_rank(),
        world_size=dist.get_world_size(),
        main=dist.get_rank() == 0,
        device=device,
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        reference=lesson.reference(),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
