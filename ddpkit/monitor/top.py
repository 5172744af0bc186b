"""Resources of a run's nodes, GPUs and ranks at this moment, from samples of its nodes; and what stands out. Pure.

`ddpkit.node.calls.resource_sample` takes a sample. Two of the same node give rates. `compose` returns a
`Summary`, which `ddpkit top --json` prints.

Memory is bytes, temperature degrees Celsius, power {"draw", "limit"} watts, `utilization` per cent as the driver says
it. `cpu` of a host is the share of all its processors, of a rank the processors that it and all below it use. `quiet`
is seconds since its last line. Unknown is null, never 0. The kinds of findings are silent, gpus, stopped, stuck, idle,
others, gpu-idle, memory, shm and slow.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from ddpkit.run.state import describe_stall

IDLE = 0.02  # processors: below it a rank does nothing
WORKS = 0.1  # processors: above it one works
GPU_IDLE, GPU_WORKS = 5.0, 50.0  # per cent
FULL = 0.95  # of memory
MIB = 1 << 20

SPAN = 0.5  # seconds between the two looks of a first sample

Sample = Mapping[str, Any]
Tell = Callable[[str, Sequence[int], str], None]  # kind, ranks, text of a finding


class Size(TypedDict):
    total: int | None  # bytes
    used: int | None


class Power(TypedDict):
    draw: float | None  # watts
    limit: float | None


class GpuProcess(TypedDict):
    pid: int
    rank: int | None
    ours: bool | None  # a process of this user
    user: str | None
    name: str | None
    memory: int | None


class Gpu(TypedDict):
    index: int | str
    uuid: str
    name: str
    utilization: float | None  # per cent, as the driver reports it
    memory: Size
    temperature: float | None  # degrees Celsius
    power: Power
    processes: list[GpuProcess]


class HostRow(TypedDict):
    host: str
    time: float  # seconds since the epoch, by its clock
    cpus: int
    cpu: float | None  # share of all CPUs
    load: list[float]
    memory: Size | None
    shm: Size | None
    gpus: list[Gpu] | None
    gpus_why: str


class RankRow(TypedDict):
    rank: int
    host: str
    pid: int
    state: str
    cpu: float | None  # CPUs that the rank and all its descendants use
    rss: int
    pss: int | None
    tasks: int
    quiet: float | None  # seconds since its last line
    gpus: list[int | str]


class FindingRow(TypedDict):
    kind: str
    ranks: list[int]
    words: str


class Summary(TypedDict):
    run_id: str
    time: float
    ending: bool
    hosts: list[HostRow]
    ranks: list[RankRow]
    silent: dict[str, list[int]]  # the ranks of each host that did not answer
    findings: list[FindingRow]


@dataclass(frozen=True)
class HostSample:
    host: str
    sample: dict[str, Any]


def read_sample(value: Any, host: str = "") -> HostSample:
    """Read the value of one host's `resource_sample.sample`. Raises ValueError."""
    try:
        name = host or str(value["host"])
        return HostSample(name, {**value, "host": name})
    except (KeyError, TypeError) as error:
        raise ValueError(f"{host} sent an invalid answer: {error}") from None


def compose(
    run_id: str,
    samples: Mapping[str, Any],
    before: Sequence[Sample] = (),
) -> Summary:
    """Return what `top` shows of a sample of all nodes. before: the hosts of an earlier sample, for rates."""
    earlier = {sample["host"]: sample for sample in before}
    hosts: list[HostRow] = []
    ranks: list[RankRow] = []
    for sample in samples["hosts"]:
        looks = _looks(sample, earlier.get(sample["host"]))
        gpus, why = _gpus(sample)
        hosts.append(
            {
                "host": sample["host"],
                "time": sample["t"],
                "cpus": sample["cpus"],
                "cpu": _share(looks),
                "load": sample["load"],
                "memory": sample["memory"],
                "shm": sample["shm"],
                "gpus": gpus,
                "gpus_why": why,
            }
        )
        for number, rank in sample["ranks"].items():
            ranks.append(
                {
                    "rank": int(number),
                    "host": sample["host"],
                    "pid": rank["pid"],
                    "state": rank["state"],
                    "cpu": _processors(looks, number),
                    "rss": rank["rss"],
                    "pss": rank["pss"],
                    "tasks": rank["tasks"],
                    "quiet": None if rank["quiet"] is None else max(0.0, rank["quiet"]),
                    "gpus": [gpu["index"] for gpu in gpus or () if _is_used_by(gpu, number)],
                }
            )
    ranks.sort(key=lambda rank: rank["rank"])
    first = {rank["host"]: rank["rank"] for rank in reversed(ranks)}
    hosts.sort(key=lambda host: (first.get(host["host"], len(ranks)), host["host"]))
    silent = {host: list(theirs) for host, theirs in samples["silent"].items()}
    return {
        "run_id": run_id,
        "time": samples["t"],
        "ending": bool(samples.get("ending")),
        "hosts": hosts,
        "ranks": ranks,
        "silent": silent,
        "findings": findings(hosts, ranks, silent),
    }


def _is_used_by(gpu: Gpu, rank: str) -> bool:
    return any(process["rank"] == int(rank) for process in gpu["processes"])


# ---- rates


def _looks(sample: Sample, before: Sample | None) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Return the two looks between which rates are taken; None: there is one. A rank that restarted has no past."""
    looks = sample["looks"]
    if len(looks) > 1:
        return looks[0], looks[-1]
    if before is None or not before["looks"]:
        return None
    old = before["looks"][-1]
    same = {
        rank: seconds
        for rank, seconds in old["ranks"].items()
        if rank in sample["ranks"] and before["ranks"].get(rank, {}).get("pid") == sample["ranks"][rank]["pid"]
    }
    return {**old, "ranks": same}, looks[-1]


def _share(looks: tuple[Mapping[str, Any], Mapping[str, Any]] | None) -> float | None:
    """Return the share of the processors' time that was busy between two looks; None: not known."""
    if looks is None:
        return None
    span = float(looks[1]["all"]) - float(looks[0]["all"])
    busy = float(looks[1]["busy"]) - float(looks[0]["busy"])
    return round(min(1.0, max(0.0, busy / span)), 3) if span > 0 else None


def _processors(looks: tuple[Mapping[str, Any], Mapping[str, Any]] | None, rank: str) -> float | None:
    """Return the processors that a rank and all below it used between two looks; None: not known."""
    if looks is None or rank not in looks[0]["ranks"] or rank not in looks[1]["ranks"]:
        return None
    span = float(looks[1]["m"]) - float(looks[0]["m"])
    # What a child that ended had used is its parent's only when that waited for it: a sum can fall.
    used = float(looks[1]["ranks"][rank]) - float(looks[0]["ranks"][rank])
    return round(max(0.0, used / span), 3) if span > 0 else None


# ---- GPUs


def number(word: str) -> float | None:
    """What nvidia-smi prints as a number; None for [N/A], [Not Supported], [Unknown Error], ERR! and their like."""
    try:
        return float(word)
    except ValueError:
        return None


def _bytes(word: str) -> int | None:
    value = number(word)
    return None if value is None else int(value * MIB)


def _gpus(sample: Sample) -> tuple[list[Gpu] | None, str]:
    """Return the GPUs of a node, and why they or their processes are not known; empty: nothing is wrong.

    No GPUs: an empty list. None: not known, or with an empty reason, there is no nvidia-smi.
    """
    rows = sample["gpus"]  # what nvidia-smi says of each; a text: why it says nothing; None: there is no nvidia-smi
    if isinstance(rows, str):
        none = "No devices were found" in rows
        return ([], "") if none else (None, rows)
    if rows is None:
        return None, ""
    apps = sample["apps"]  # the processes on them; a text: why they are not known
    gpus: list[Gpu] = []
    for index, uuid, bus, name, utilization, used, total, temperature, draw, limit in rows:
        gpus.append(
            {
                "index": int(index) if index.isdecimal() else index,
                "uuid": uuid,
                "name": name,
                "utilization": number(utilization),
                "memory": {"total": _bytes(total), "used": _bytes(used)},
                "temperature": number(temperature),
                "power": {"draw": number(draw), "limit": number(limit)},
                "processes": [
                    {
                        "pid": app["pid"],
                        "rank": None if app["rank"] is None else int(app["rank"]),
                        "ours": app["ours"],
                        "user": app["user"],
                        "name": app["name"],
                        "memory": _bytes(app["memory"]),
                    }
                    # A part of a GPU (MIG) has a uuid of its own, and the bus of the whole.
                    for app in (apps if isinstance(apps, list) else ())
                    if uuid == app["uuid"] or (app["bus"] == bus and app["uuid"].startswith("MIG-"))
                ],
            }
        )
    return gpus, f"their processes are unknown: {apps}" if isinstance(apps, str) else ""


# ---- what stands out


def findings(
    hosts: Sequence[HostRow], ranks: Sequence[RankRow], silent: Mapping[str, Sequence[int]]
) -> list[FindingRow]:
    """Return one sentence for each problem, those that stop a rank first."""
    result: list[FindingRow] = []

    def say(kind: str, ranks: Sequence[int], words: str) -> None:
        result.append({"kind": kind, "ranks": list(ranks), "words": words})

    for name, theirs in silent.items():
        who = f" (ranks {', '.join(map(str, theirs))})" if theirs else ""
        say("silent", theirs, f"{name} did not answer in time{who}")
    for rank in ranks:
        stuck = rank["state"] == "D" and rank["cpu"] is not None and rank["cpu"] < IDLE
        if stuck or rank["state"] in ("T", "t"):
            words = describe_stall(rank["state"], rank["pid"], rank["host"])
            say("stuck" if stuck else "stopped", [rank["rank"]], f"rank {rank['rank']} on {rank['host']} {words}")
    _find_idle_ranks(ranks, say)
    for host in hosts:
        _find_problems_of_host(host, say)
    _find_idle_gpus(hosts, say)
    return result


def _find_idle_ranks(ranks: Sequence[RankRow], say: Tell) -> None:
    """Name each rank that uses no CPU while most do. NCCL and gloo wait with a busy or a sleeping thread."""
    known = [(rank, rank["cpu"]) for rank in ranks if rank["cpu"] is not None and rank["state"] not in ("T", "t", "D")]
    busy = [cpu for _, cpu in known if cpu >= WORKS]
    if len(busy) * 2 < len(known):
        return
    for rank, cpu in known:
        if cpu < IDLE and busy:
            others = f"{100 * statistics.median(busy):.0f} %"
            words = f"rank {rank['rank']} on {rank['host']} uses no CPU, the other ranks {others} each (median)"
            say("idle", [rank["rank"]], words)


def _find_problems_of_host(host: HostRow, say: Tell) -> None:
    """Name full memory, GPUs that are not known, and strangers' processes on GPUs of ranks."""
    for kind, name, size in (("memory", "memory", host["memory"]), ("shm", "/dev/shm", host["shm"])):
        if size and size["total"] and size["used"] is not None and size["used"] / size["total"] > FULL:
            say(kind, [], f"{name} of {host['host']} is {100 * size['used'] / size['total']:.0f} % full")
    if host["gpus_why"]:
        say("gpus", [], f"GPUs of {host['host']}: {host['gpus_why']}")
    for gpu in host["gpus"] or ():
        ours = sorted({each["rank"] for each in gpu["processes"] if each["rank"] is not None})
        for each in gpu["processes"]:
            if each["ours"] is False and ours:
                memory = "" if each["memory"] is None else f", {each['memory'] / MIB:.0f} MiB"
                who = f"process {each['pid']} of {each['user'] or 'somebody'} ({each['name'] or '?'}{memory})"
                names = f"rank{'s' if len(ours) > 1 else ''} {', '.join(map(str, ours))}"
                say("others", ours, f"GPU {gpu['index']} of {host['host']}, {names}: also used by {who}")


def _find_idle_gpus(hosts: Sequence[HostRow], say: Tell) -> None:
    """Name each GPU with a rank that idles while most are busy."""
    used = [
        (host["host"], gpu, gpu["utilization"], ranks)
        for host in hosts
        for gpu in host["gpus"] or ()
        if gpu["utilization"] is not None
        and (ranks := [each["rank"] for each in gpu["processes"] if each["rank"] is not None])
    ]
    busy = sum(utilization >= GPU_WORKS for _, _, utilization, _ in used)
    if busy * 2 < len(used):
        return
    for host, gpu, utilization, ranks in used:
        if busy and utilization < GPU_IDLE:
            who = ", ".join(map(str, ranks))
            idle = f"is idle ({utilization:.0f} %), and {busy} others are busy"
            say("gpu-idle", ranks, f"GPU {gpu['index']} of {host} (rank {who}) {idle}")
