"""Check: a result of the preflight, for each host or rank that it is about.

Pure. The states: `pass`; `warn` (it will run, but look); `fail` (it would hang, fail, or train something else); `skip`
(not asked for, or what it needs failed before); `unknown` (we could not look, which is no failure).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["pass", "warn", "fail", "skip", "unknown"]
# The worst of many is the state of all.
_ORDER: tuple[Status, ...] = ("pass", "skip", "unknown", "warn", "fail")

TITLES = {
    "request": "the request itself",
    "scheduler": "the scheduler takes the request",
    "transport": "every node can be entered",
    "machine": "no node is named twice",
    "workdir": "the working folder is there",
    "script": "the script is there, with the same content",
    "tmp": "the node's own folder can be written to",
    "python": "the same Python",
    "torch": "the same torch",
    "nccl-version": "the same NCCL",
    "driver": "the NVIDIA driver fits torch",
    "clock": "the clocks agree",
    "names": "names mean what the others can reach",
    "interfaces": "gloo and NCCL would choose an interface that the others reach",
    "master-port": "rank 0's port is free, and all reach it",
    "mesh": "every node reaches every other on high ports",
    "limits": "limits of open files, processes, locked memory",
    "shm": "shared memory for DataLoader workers",
    "disk": "space and inodes",
    "memory": "memory",
    "cpus": "processors for every rank",
    "environment": "variables that change what libraries do are the same",
    "container": "the container shares network and memory with its host",
    "gpus": "GPUs: enough, healthy, and nobody else's",
    "infiniband": "InfiniBand and RoCE ports are active",
    "debugging": "stacks can be read if it hangs",
    "ranks": "every rank starts and meets the others",
    "gpu-map": "every rank has a GPU of its own",
    "gloo": "all_reduce over gloo, result checked",
    "nccl": "all_reduce over NCCL, small and large, result checked",
    "cause": "what makes the failed stage pass",
    "speed": "no rank is much slower than the others",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One result. `doc` is a catalogue id: `ddpkit explain ID`."""

    id: str  # a key of TITLES
    status: Status
    host: str = ""
    rank: int | None = None
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    doc: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.id]

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        return {"id": fields.pop("id"), "title": self.title, "host": fields.pop("host") or None, **fields}


@dataclass(kw_only=True)
class CheckReport:
    """The checks of a test, in the order of the checks and hosts."""

    checks: list[Check] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    seconds: float = 0.0  # that the test took
    folder: str = ""  # with the logs of its ranks; empty: no rank was started

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "fail" for check in self.checks)


def worst(checks: Iterable[Check]) -> Status:
    """The state of many checks together."""
    return max((check.status for check in checks), key=_ORDER.index, default="skip")


def report(checks: Sequence[Check], seconds: float) -> dict[str, Any]:
    """The JSON of `ddpkit test`."""
    failed = any(check.status == "fail" for check in checks)
    return {"ok": not failed, "seconds": round(seconds, 3), "checks": [check.as_dict() for check in checks]}


def ordered(checks: Iterable[Check], hosts: Sequence[str]) -> list[Check]:
    """In the order of the checks, then of the hosts, then of the ranks."""
    ids, places = list(TITLES), {host: index for index, host in enumerate(hosts)}
    return sorted(
        checks,
        key=lambda check: (
            ids.index(check.id), places.get(check.host, len(places)), -1 if check.rank is None else check.rank
        ),
    )  # fmt: skip
