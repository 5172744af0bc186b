"""Environment and port of rank processes that tests start without a launcher."""

from __future__ import annotations

import os
import socket


def environment(**extra: str) -> dict[str, str]:
    """Return this environment without the variables of a launcher, with those of `extra`."""
    foreign = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "DDPKIT_", "CUDA_", "MASTER_", "PYTHONPATH")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(foreign) and k not in names}
    return {**clean, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **extra}


def free_port() -> int:
    """Return a port that is free on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
