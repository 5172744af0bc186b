"""Ranks that add in twelve steps. In step 8 the last rank fails as the argument says.

none; hang: it leaves the collectives for two minutes; stuck: its GPU works for two minutes before the next one; kill:
SIGKILL; memory: it needs more memory than its GPU has; assert: it uses an index out of range on its GPU. TIMEOUT is the
time limit of a collective, in seconds.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

from ddpkit.distributed import torch as ddp

FAULT_STEP = 8


def read_slowly() -> None:
    print("hangs now", flush=True)
    time.sleep(120)


def fail(fault: str, device: torch.device) -> None:
    if fault == "hang":
        read_slowly()
    elif fault == "stuck":
        print("hangs now", flush=True)
        torch.cuda._sleep(1 << 38)  # type: ignore[no-untyped-call]
    elif fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "memory":
        torch.empty(1 << 42, device=device)
    elif fault == "assert":
        labels = torch.full((4,), 77, device=device)
        cross_entropy(torch.randn(4, 10, device=device), labels).item()


def main(fault: str) -> None:
    env = ddp.init(timeout=float(os.environ["TIMEOUT"]) if "TIMEOUT" in os.environ else None)
    device = ddp.device(env)
    numbers = torch.ones(1 << 16, device=device)
    for step in range(12):
        if step == FAULT_STEP and env.rank == env.world_size - 1:
            fail(fault, device)
        dist.all_reduce(numbers)
        numbers /= env.world_size
        assert numbers.sum().item() == numbers.numel()
        if env.rank == 0:
            print("step", step, flush=True)
    ddp.barrier()
    ddp.shutdown()
    print("ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # a thread of gloo may abort while the interpreter ends
