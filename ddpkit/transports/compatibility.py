"""Decides from what the nodes said whether they can run a job together, and how: pure, facts in, a world or causes out.

Everything that is wrong is found at once, each with its host and the command that mends it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpkit.launchers.plan import Host, Job, World
from ddpkit.launchers.shell import Value, guard, quote
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.problem import Problem

Facts = Mapping[str, Any]  # what `probe.look` returns
Mended = dict[tuple[str, str], list[str]]  # (check, what was done about it): for which hosts


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the job needs of the nodes."""

    job: Job
    nproc_per_node: int | None  # None: one rank per GPU
    script: str | None  # a file that every node must have, in its workdir
    digest: str  # of the launcher's own copy; empty where it has none
    torch: bool  # the nodes' torch matters, and their Python
    starter: str
    master_addr: str
    master_port: int
    min_nodes: int | None = None  # so many are enough
    here: bool = True  # the workdir is also on the launching side
    copied: bool = True  # False: the folder and the script will be copied to the nodes, and need not be there yet


def alone(wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts]) -> list[Problem]:
    """What is wrong with single nodes, and with nodes that differ from the others."""
    problems: list[Problem] = []

    def wrong(check: str, spec: HostSpec, what: str, fix: str) -> None:
        problems.append(Problem(host=spec.label, what=what, fix=fix, check=check))

    first_name: dict[str, str] = {}  # by machine
    usual = {key: _usual([str(_torch(each)) if key == "torch" else str(each[key]) for each in facts]) for key in _ALIKE}
    digest = wish.digest or _usual([each["script"] for each in facts if each["script"]])
    for spec, each in zip(specs, facts, strict=True):
        python = spec.python or wish.job.python
        known = first_name.setdefault(each["machine"], spec.label)
        if known != spec.label:
            wrong(
                "machine",
                spec,
                f"is the same machine as {known}",
                "name it once: -n or slots say how many ranks it gets",
            )
        if not wish.copied:
            pass
        elif each["no_workdir"]:
            sync = _rsync(spec, f"{wish.job.workdir}/", f"{each['workdir']}/")
            if each["no_workdir"] != os.strerror(errno.ENOENT) or not wish.here:
                sync = f"workdir = FOLDER under [host.{spec.name}] in ddpkit.toml, or --workdir"
            wrong("workdir", spec, f"cannot use the folder {each['workdir']}: {each['no_workdir'].lower()}", sync)
        elif wish.script and each["script"] != digest:
            copy = _rsync(spec, str(Path(wish.job.workdir, wish.script)), str(Path(each["workdir"], wish.script)))
            other = f"its {wish.script} is another than {'here' if wish.digest else 'on the others'}"
            wrong("script", spec, other if each["script"] else f"there is no {wish.script} in {each['workdir']}", copy)
        if each["no_tmp"]:
            what = f"cannot write to its folder {each['tmp']}: {each['no_tmp'].lower()}"
            fixes = {
                errno.ENOENT: "mkdir -p {}, or unset TMPDIR there",
                errno.EACCES: "ls -ld {}, or another TMPDIR there",
                errno.EROFS: "findmnt -T {}, or another TMPDIR there",
            }
            said = {os.strerror(number): fix for number, fix in fixes.items()}
            fix = said.get(each["no_tmp"], "df {}").format(quote(each["tmp"]))
            wrong("tmp", spec, what, f"ssh {spec.target} {fix}")
        if wish.torch and each["python"].rpartition(".")[0] != usual["python"].rpartition(".")[0]:
            what = f"{python} is Python {each['python']}, on the others {usual['python']}"
            wrong("python", spec, what, f"python = ... under [host.{spec.name}] in ddpkit.toml")
        torch = _torch(each)
        if wish.torch and torch is None and (usual["torch"] != "None" or wish.starter != "ranks"):
            said = (each["torch"] or {}).get("problem", "")
            what = f"{python} finds no torch" + (f": {said}" if said else "")
            version = "" if usual["torch"] == "None" else f"=={usual['torch'].partition('+')[0]}"
            wrong("torch", spec, what, f"ssh {spec.target} {python} -m pip install torch{version}")
        elif wish.torch and str(torch) != usual["torch"]:
            what = f"{python} has torch {torch}, the others {usual['torch']}"
            wrong(
                "torch",
                spec,
                what,
                f"ssh {spec.target} {python} -m pip install torch=={usual['torch'].partition('+')[0]}",
            )
        slots = spec.slots or wish.nproc_per_node
        if each["no_gpus"]:
            wrong("gpus", spec, each["no_gpus"], "unset DDPKIT_GPUS there")
        elif slots and each["gpus"] and slots > each["gpus"]:
            fix = f"-n {each['gpus']}, or --env CUDA_VISIBLE_DEVICES= to run on the processors"
            wrong(
                "gpus", spec, f"{slots} ranks are asked for, and it has {each['gpus']} visible GPUs, one rank each", fix
            )
        if each["no_port"]:
            port = f"port {wish.master_port}" if wish.master_port else "any port"
            what = f"rank 0 cannot listen on {port}: {each['no_port'].lower()}"
            look = f"ssh {spec.target} ss -ltnp 'sport = :{wish.master_port}', or leave -o master_port out"
            wrong("master-port", spec, what, look if wish.master_port else f"ssh {spec.target} ss -ltn")
    return problems


def _rsync(spec: HostSpec, source: str, target: str) -> str:
    shell = f"-e 'ssh -p {spec.port}' " if spec.port else ""
    user = f"{spec.user}@" if spec.user else ""
    name = f"[{spec.name}]" if ":" in spec.name else spec.name
    return f"rsync -a {shell}{quote(source)} {user}{name}:{quote(target)}"


_ALIKE = ("python", "torch")


def _usual(values: Sequence[str]) -> str:
    """What most say; of two that are as frequent, what the first host says."""
    return max(dict.fromkeys(values), key=values.count) if values else ""


def _torch(facts: Facts) -> str | None:
    return facts["torch"]["version"] if facts["torch"] else None


# ---- who reaches whom

OPEN_PORTS = "gloo and NCCL listen on ports that the kernel chooses (32768-60999): open them between the nodes"


def candidates(spec: HostSpec, facts: Facts) -> list[str]:
    """Where others may reach a host, best first: what its own name means there, which gloo takes; then what it has."""
    names = [address for address in facts["own_name"] if not _is_own(address)]
    found = [*names, *(address for _, address in facts["addresses"]), spec.name]
    return list(dict.fromkeys(found))


def _is_own(address: str) -> bool:
    """An address by which only the host itself reaches itself: 127.0.1.1 and its like."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return parsed.is_loopback or parsed.is_link_local


def questions(wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts]) -> list[list[list[Any]]]:
    """What each host tries: the first host's master port, and the next host's high port, by each of their addresses.

    The first host tries its own as well: rank 0 connects to its master port like every other.
    """
    first = [[name, facts[0]["port"], facts[0]["secret"]] for name in _master_candidates(wish, specs[0], facts[0])]
    asked = []
    for index in range(len(specs)):
        near = (index + 1) % len(specs)
        high = [[n, facts[near]["high_port"], facts[near]["secret"]] for n in candidates(specs[near], facts[near])]
        asked.append([*first, *high])
    return asked


def _master_candidates(wish: Wish, spec: HostSpec, facts: Facts) -> list[str]:
    return [wish.master_addr] if wish.master_addr else candidates(spec, facts)


def together(
    wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts], answers: Sequence[Sequence[Sequence[str]]]
) -> tuple[World | None, list[Problem], Mended]:
    """The world, or what keeps the hosts apart; and what was mended. `answers`: to `questions`, per host."""
    problems: list[Problem] = []
    mended: Mended = {}
    first = _master_candidates(wish, specs[0], facts[0])
    reached = [
        [name for name, answer in zip(first, said, strict=False) if not answer[1]] for said in answers
    ]  # strict=False: behind the master's come the answers about the neighbour
    common = [name for name in first if all(name in names for names in reached)]
    port = facts[0]["port"]
    if not common:
        fix = "open the port in the firewall between them, or -o master_port=PORT, -o master_addr=ADDRESS"
        cut = [(spec, said) for spec, names, said in zip(specs, reached, answers, strict=True) if not names]
        itself = cut and cut[0][0] is specs[0]
        cut = cut[1:] if itself else cut
        if itself and not cut:
            what = f"cannot reach its own port {port}, rank 0's ({tried(first, answers[0])})"
            fix = "-o master_addr=ADDRESS that this host and all others reach it by"
            problems.append(Problem(host=specs[0].label, what=what, fix=fix, check="master-port"))
        elif len(cut) == len(specs) - 1:  # then it is not theirs
            who = ", ".join(spec.label for spec, _ in cut)
            what = f"{who} cannot reach its port {port}, rank 0's ({tried(first, cut[0][1])})"
            problems.append(Problem(host=specs[0].label, what=what, fix=fix, check="master-port"))
        else:
            for spec, said in cut:
                what = f"cannot reach port {port} of {specs[0].label}, rank 0's ({tried(first, said)})"
                problems.append(Problem(host=spec.label, what=what, fix=fix, check="master-port"))
        if not problems:
            what = "the other hosts reach it by different addresses only"
            fix = "-o master_addr=ADDRESS that all reach"
            problems.append(Problem(host=specs[0].label, what=what, fix=fix, check="master-port"))
    env: list[dict[str, Value]] = []
    addresses: list[str] = []
    for index, (spec, each) in enumerate(zip(specs, facts, strict=True)):
        before = (index - 1) % len(specs)
        said = answers[before][len(first) :]
        tried_names = candidates(spec, each)
        good = [name for name, answer in zip(tried_names, said, strict=True) if not answer[1]]
        if not good:
            what = f"{specs[before].label} cannot reach its port {each['high_port']} ({tried(tried_names, said)})"
            fix = OPEN_PORTS
            if not any(problem.host == spec.label for problem in problems):
                problems.append(Problem(host=spec.label, what=what, fix=fix, check="mesh"))
        env.append(_interfaces(wish, spec, each, good, mended))
        addresses.append(good[0] if good else "")
    if problems:
        return None, problems, mended
    hosts = tuple(
        host(wish, spec, each, more, address)
        for spec, each, more, address in zip(specs, facts, env, addresses, strict=True)
    )
    return World(hosts=hosts, master_addr=common[0], master_port=port), [], mended


def itself(wish: Wish, spec: HostSpec, facts: Facts, said: Sequence[str]) -> list[Problem]:
    """What keeps a host that is alone from rank 0's address, which the user chose. `said`: what came of trying it."""
    if not said[1]:
        return []
    what = f"cannot reach its own port {facts['port']}, rank 0's ({wish.master_addr}: {said[1]})"
    fix = "leave -o master_addr out: one node needs none"
    return [Problem(host=spec.label, what=what, fix=fix, check="master-port")]


def tried(names: Sequence[str], said: Sequence[Sequence[str]]) -> str:
    """What was tried, and what came of it; names that fared alike together."""
    found: dict[str, list[str]] = {}
    for name, answer in zip(names, said, strict=False):
        found.setdefault(answer[1], []).append(name)
    return "; ".join(f"{', '.join(alike)}: {what}" for what, alike in found.items())


# NCCL takes all interfaces but these, in the kernel's order.
_NCCL_LEAVES_OUT = ("lo", "docker")


def _interfaces(wish: Wish, spec: HostSpec, facts: Facts, good: Sequence[str], mended: Mended) -> dict[str, Value]:
    """Where gloo or NCCL would take an address that the others cannot reach, name the interfaces that they can."""
    chosen = {*facts["set"], *wish.job.env, *spec.env}
    live = list(dict.fromkeys(name for name, address in facts["addresses"] if address in good))
    dead = list(dict.fromkeys(name for name, _ in facts["addresses"] if name not in live))
    dead = [name for name in dead if not name.startswith(_NCCL_LEAVES_OUT)]
    own = facts["own_name"]
    env: dict[str, Value] = {}
    if live and "GLOO_SOCKET_IFNAME" not in chosen and (not own or own[0] not in good):
        env["GLOO_SOCKET_IFNAME"] = live[0]
        means = f"means {own[0]} there" if own else "is no address of its own there"
        text = f"its own name {facts['host']} {means}, where the others cannot reach it; gloo uses {live[0]}"
        mended.setdefault(("names", text), []).append(spec.label)
    if live and dead and "NCCL_SOCKET_IFNAME" not in chosen:
        env["NCCL_SOCKET_IFNAME"] = f"={','.join(live)}"  # "=": the whole name, and not its beginning
        text = f"the others cannot reach it by {', '.join(dead)}; NCCL uses {', '.join(live)}"
        mended.setdefault(("interfaces", text), []).append(spec.label)
    return env


def host(wish: Wish, spec: HostSpec, facts: Facts, env: Mapping[str, Value], address: str = "") -> Host:
    """One host of the world."""
    return Host(
        name=spec.label,
        slots=spec.slots or wish.nproc_per_node or max(1, facts["gpus"]),
        cpus=facts["cpus"],
        chosen=tuple(facts["set"]),
        stale=tuple(facts["stale"]),
        env={**env, **{name: guard(name, value) for name, value in spec.env.items()}},
        # Looked up on the node: `python3` on its PATH, `~/venv/bin/python` in its home folder.
        python=facts["executable"] if facts["executable"] != wish.job.python else "",
        by_hand=spec.by_hand,
        workdir=facts["workdir"] if facts["workdir"] != wish.job.workdir else "",
        address=address,
    )
