"""Train with DeepSpeed ZeRO stage 2. Start it with ddpkit, not with `deepspeed`.

With `--out DIR` it saves after each epoch, and when it is asked to stop. The same command then goes on from there.
"""

import argparse
import os
import signal
import sys
import time
from itertools import islice
from pathlib import Path

import deepspeed
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH, RATE = 3, 8, 0.05
AGAIN = 75  # exit code of a run that has saved, and is to be started again
CONFIG = {
    "train_micro_batch_size_per_gpu": BATCH,
    "zero_optimization": {"stage": 2},
    "gradient_clipping": 0.0,
    # torch's own optimizer: nothing has to be compiled on a node.
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
}
asked = []  # signals that this rank got


def make_data():
    features = torch.randn(256, 8, generator=torch.Generator().manual_seed(0))
    return TensorDataset(features, features.sum(dim=1, keepdim=True))


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))


def should_stop(device):
    """Whether any rank got a signal. All ranks learn it at the same step, so that they save together."""
    signals = torch.tensor(len(asked), device=device)
    deepspeed.comm.all_reduce(signals)
    return signals > 0


def train(seed=0, epochs=EPOCHS, out=None, pause=0.0):
    """Return DeepSpeed's engine and the loss of every step."""
    deepspeed.init_distributed()  # reads the environment of the launch
    model = make_model(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    data = make_data()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    losses = []
    if out:
        engine.load_checkpoint(str(out))  # that of the file `latest`; without it, a warning
    for epoch in range(engine.global_steps // len(loader), epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in islice(loader, engine.global_steps % len(loader), None):
            time.sleep(pause)
            loss = nn.functional.mse_loss(engine(inputs.to(engine.device)), targets.to(engine.device))
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
            if engine.global_rank == 0:
                print(f"step {engine.global_steps} loss {losses[-1]:.4f}", flush=True)
            stop = should_stop(engine.device)
            if out and (stop or engine.global_steps % len(loader) == 0):
                engine.save_checkpoint(str(out))  # in a directory of its own; `latest` then names it
            if stop:
                return engine, losses
    return engine, losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--out", type=Path, default=os.environ.get("CKPT_DIR"), help="directory of checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that each step takes longer")
    options = parser.parse_args()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: asked.append(number))
    engine, losses = train(**vars(options))
    if engine.global_rank == 0 and losses:
        print(f"{engine.world_size} ranks: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    deepspeed.comm.destroy_process_group()
    return AGAIN if asked else 0


if __name__ == "__main__":
    sys.exit(main())
