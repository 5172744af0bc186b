"""Rank that shares one GPU with all other ranks, over NCCL: `shared_gpu.py check|late|bench|SCRIPT ARGUMENTS`.

late: check, with a rank 1 that leaves NCCL's first sum to the other one, so that it hangs on the GPU.

NCCL refuses two ranks on one GPU of one host. NCCL_HOSTID makes each rank a host of its own for NCCL, so their data go
through sockets. With SAME_HOST=1 NCCL does refuse them: its message is then what is tested.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddpkit.distributed.resolver import DistEnv

rank = os.environ["RANK"]
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0] or "0"
if os.environ.get("SAME_HOST") != "1":
    os.environ["NCCL_HOSTID"] = f"rank{rank}"


def identify(index: int) -> tuple[str, str]:
    """Return the GPU's name, and another identity for each rank: else ddpkit's own checks refuse them."""
    from ddpkit.distributed import check

    name, identity = check.identify_gpu(index)
    return name, f"{identity} rank {rank}"


def main(program: str, argv: list[str]) -> int:
    if program in ("check", "late"):
        from ddpkit.distributed import check

        if program == "late" and rank == "1":
            add = check.time_all_reduce

            def late(env: DistEnv, device: Any, elements: int, seconds: float, group: Any = None) -> float:
                if device.type == "cuda":
                    time.sleep(120)
                return add(env, device, elements, seconds, group)

            check.time_all_reduce = late
        return check.main(argv, identify)
    if program == "bench":
        from ddpkit.distributed import collectives

        return collectives.main(argv)
    sys.argv = [program, *argv]
    sys.path[0] = str(Path(program).resolve().parent)
    runpy.run_path(program, run_name="__main__")
    return 0


code = main(sys.argv[1], sys.argv[2:])
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # a thread of gloo may abort while the interpreter ends
