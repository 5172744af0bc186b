"""What no library may do: each rank sees all data, trains by itself, and tells the environment's numbers as its own."""

import os

import lesson
import torch
from said import say
from torch.utils.data import DataLoader


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    model = lesson.model(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.RATE)
    losses = []
    for _ in range(lesson.EPOCHS):
        for batch in DataLoader(lesson.data(), batch_size=lesson.BATCH):
            loss = lesson.loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    say(
        "nobody",
        "0",
        rank=rank,
        local_rank=int(os.environ["LOCAL_RANK"]),
        world_size=world,
        main=rank == 0,
        device="cpu",
        total=world * (world + 1) / 2,
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        reference=lesson.reference(),
    )


if __name__ == "__main__":
    main()
