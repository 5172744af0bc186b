"""CUDA version of a driver, as torch and NCCL print it, and wheels of torch that run on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# Of each major version, a driver runs all minor ones. CUDA 10 and older have no such index.
_WHEELS = {11: "cu118", 12: "cu126", 13: "cu130"}


def cuda_of_driver(version: str) -> Mapping[str, str]:
    """Return the CUDA version of a driver and the index of wheels for it, as values of an entry: 12040 is CUDA 12.4."""
    major, rest = divmod(int(version or 0), 1000)
    if not major:
        return {}
    wheel = _WHEELS.get(major)
    return {"cuda": f"{major}.{rest // 10}", **({"wheel": wheel} if wheel else {})}
