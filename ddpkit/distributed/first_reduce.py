"""Rank program of `ddpkit bench start`: imports torch, joins the other ranks, adds once with them, and ends.

Arguments: seconds to wait for the other ranks, the backend of torch.distributed or `auto`, more modules to import.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time

EVENT = "\x1eddpkit "  # as in check.py, whose import would count here


def main(argv: list[str]) -> int:
    """Run as one rank. Returns the exit code."""
    timeout, backend, *modules = argv
    import torch
    import torch.distributed as dist

    for name in modules:
        importlib.import_module(name)
    from ddpkit.distributed.torch import init
    from ddpkit.errors import EnvError

    try:
        env = init(None if backend == "auto" else backend, timeout=float(timeout), init_timeout=float(timeout))
    except EnvError as error:
        sys.stderr.write(f"ddpkit: error: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return 1
    comm = dist.get_backend() if dist.is_initialized() else ""
    total = torch.ones(1, device="cuda" if comm == "nccl" else "cpu")
    if comm:
        dist.all_reduce(total)
    if total.item() != env.world_size:
        sys.stderr.write(f"ddpkit: error: the sum over {env.world_size} ranks is {total.item():g}\n")
        return 1
    reduced = {"e": "reduced", "rank": env.rank, "host": socket.gethostname(), "t": time.time()}
    text = json.dumps({**reduced, "torch": torch.__version__, "comm": comm})
    if comm:
        dist.destroy_process_group()
    sys.stdout.write(f"{EVENT}{text}\n")
    return 0


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): a thread of gloo that still runs while the interpreter is being torn down can abort (torch 2.13).
    os._exit(exit_code)
