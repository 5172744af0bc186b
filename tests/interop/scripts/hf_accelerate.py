"""Hugging Face Accelerate, as its quick tour writes it: no device, no rank, no backend is named."""

import os

import accelerate
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from said import say
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator()
    set_seed(accelerator.process_index)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(features, features.sum(dim=1, keepdim=True)), batch_size=16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for epoch in range(3):
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
        total=accelerator.gather(given).sum().item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        main=accelerator.is_main_process,
        local_main=accelerator.is_local_main_process,
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
