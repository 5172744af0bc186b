"""Train with Hugging Face Accelerate. Start it with ddpkit, not with `accelerate launch`."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def train(accelerator, seed=0):
    """Return the trained model and the loss of every step."""
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loader = DataLoader(make_data(), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(EPOCHS):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def main():
    # Without `cpu=True` Accelerate ignores the other ranks where no GPU is found.
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    _, losses = train(accelerator)
    accelerator.print(f"{accelerator.num_processes} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
