"""A wrong program: each rank sees all data, trains by itself, and reports the environment's numbers as its own."""

import os

import torch
from observed import report
from single import load, loss_of, reference
from torch.utils.data import DataLoader


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    example = load("ddp")
    model = example.make_model(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=example.RATE)
    losses = []
    for _ in range(example.EPOCHS):
        for batch in DataLoader(example.make_data(), batch_size=example.BATCH):
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    report(
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
        reference=reference(example, shuffle=False),
    )


if __name__ == "__main__":
    main()
