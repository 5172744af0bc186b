"""Hugging Face Accelerate, as its quick tour writes it: no device, no rank, no backend is named."""

import os

import accelerate
import lesson
import torch
from accelerate import Accelerator
from said import say
from torch.utils.data import DataLoader


def main():
    accelerator = Accelerator()
    model = lesson.model(accelerator.process_index)
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.RATE)
    loader = DataLoader(lesson.data(), batch_size=lesson.BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for epoch in range(lesson.EPOCHS):
        for inputs, targets in loader:
            if os.environ.get("FAIL_ON_RANK") == str(accelerator.process_index) and epoch == 1:
                raise ValueError(f"no step for rank {accelerator.process_index}")
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    given = torch.tensor([accelerator.process_index + 1.0], device=accelerator.device)
    say(
        "Accelerate",
        accelerate.__version__,
        rank=accelerator.process_index,
        local_rank=accelerator.local_process_index,
        world_size=accelerator.num_processes,
        main=accelerator.is_main_process,
        device=accelerator.device,
        total=accelerator.gather(given).sum().item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        reference=lesson.reference(),
        local_main=accelerator.is_local_main_process,
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
