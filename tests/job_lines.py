"""Lines of a job's output, as `ddpkit/node/collect.py` writes them."""

from __future__ import annotations

import json


def event(**content: object) -> str:
    return "ddpkit: " + json.dumps({"t": 1000.0, **content}) + "\n"


def start(rank: int, host: str, pid: int) -> str:
    return event(e="start", rank=rank, pid=pid, host=host)


def failed(rank: int, host: str, code: int | None, killer: int | None = None, **more: object) -> str:
    """The end of a rank, which is the first failure."""
    ended = {"rank": rank, "code": code, "signal": killer, "host": host, **more}
    return event(e="exit", **ended) + event(e="failed", what="rank", **ended)


def ended(rank: int, host: str, code: int | None, killer: int | None = None) -> str:
    return event(e="exit", rank=rank, code=code, signal=killer, host=host)


def lost(host: str) -> str:
    reason = "SLURM lost the node"
    return event(e="failed", rank=None, what="slurmd", code=None, signal=None, host=host, reason=reason)
