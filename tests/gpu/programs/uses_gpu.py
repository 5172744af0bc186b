"""Rank that reports whether CUDA may start in it, and adds on its GPU where there is one."""

import os
from typing import Any

import torch

native: Any = torch._C
# A process that was forked after CUDA had started can never start it.
print("CUDA may start:", not getattr(native, "_cuda_isInBadFork", lambda: False)(), flush=True)
if torch.cuda.is_available():
    device = torch.device("cuda", 0 if torch.cuda.device_count() == 1 else int(os.environ["LOCAL_RANK"]))
    print("sum on the GPU:", torch.ones(8, device=device).sum().item(), flush=True)
