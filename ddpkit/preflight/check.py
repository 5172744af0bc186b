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
    "request": "launch options",
    "scheduler": "request to the scheduler",
    "transport": "connection to every node",
    "machine": "distinct machines",
    "workdir": "working directory",
    "script": "script, with the same content",
    "tmp": "temporary directory",
    "python": "Python version",
    "torch": "PyTorch version",
    "nccl-version": "NCCL version",
    "driver": "NVIDIA driver for this torch",
    "clock": "clocks",
    "names": "host name resolution",
    "interfaces": "network interfaces of gloo and NCCL",
    "master-port": "port of rank 0, free and reachable",
    "mesh": "connections between all nodes on dynamic ports",
    "limits": "limits of open files, processes and locked memory",
    "shm": "shared memory for DataLoader workers",
    "disk": "disk space and inodes",
    "memory": "memory",
    "cpus": "CPUs for every rank",
    "environment": "equal variables of NCCL, torch and other libraries",
    "container": "network and memory of the container",
    "gpus": "GPUs: number, health and other users",
    "infiniband": "InfiniBand and RoCE ports",
    "debugging": "access to stacks, for ddpkit dump",
    "ranks": "start and rendezvous of every rank",
    "gpu-map": "a separate GPU for every rank",
    "gloo": "all_reduce over gloo, with its result",
    "nccl": "all_reduce over NCCL, small and large, with its result",
    "cause": "cause of the failed stage",
    "speed": "speed of every rank",
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
