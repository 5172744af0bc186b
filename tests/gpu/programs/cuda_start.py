"""Start of CUDA on the first GPU, step by step with its seconds. The last line is JSON, for `verify.py`."""

import importlib.util
import json
import time

began = time.perf_counter()
import torch  # noqa: E402 - its import is measured

seconds = {"import": time.perf_counter() - began}


def measure(name: str, start: float) -> float:
    now = time.perf_counter()
    seconds[name] = now - start
    print(f"{name}: {now - start:.2f} s", flush=True)
    return now


print(f"torch {torch.__version__}, built for CUDA {torch.version.cuda}", flush=True)
now = time.perf_counter()
count = torch.cuda.device_count()
now = measure("device_count", now)
properties = [torch.cuda.get_device_properties(index) for index in range(count)]
now = measure("properties", now)
torch.cuda.set_device(0)
torch.cuda.synchronize(0)
now = measure("context", now)
total = (torch.arange(1 << 20, device="cuda", dtype=torch.float32) % 251).sum().item()
measure("first kernels", now)
print(
    json.dumps(
        {
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),  # type: ignore[no-untyped-call]
            "gpus": [one.name for one in properties],
            "numpy": importlib.util.find_spec("numpy") is not None,
            "seconds": {name: round(value, 2) for name, value in seconds.items()},
        }
    )
)
