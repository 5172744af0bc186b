"""Rank processes that tests start without a launcher: their environment, port, ends and output."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

PATIENCE = 240.0  # seconds: on a busy machine three imports of torch take a minute


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


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run this Python outside of the project, with nothing of another launcher in its environment."""
    command = [sys.executable, *argv]
    return subprocess.run(
        command, env=environment(**env), capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/"
    )


def run_ranks(world: int, present: list[int], code: str, *args: str) -> dict[int, tuple[int, str]]:
    """Run these ranks of so many, by hand. Returns the exit code and the output of each."""
    port = free_port()
    started = {}
    for rank in present:
        env = environment(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        argv = [sys.executable, "-c", code, "--mib", "1", *args]
        started[rank] = subprocess.Popen(
            argv, env=env, cwd="/", text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    try:
        said = {rank: process.communicate(timeout=PATIENCE)[0] for rank, process in started.items()}
    finally:
        for process in started.values():
            with process:  # closes its pipe, and waits
                process.kill()
    return {rank: (process.returncode, said[rank]) for rank, process in started.items()}
