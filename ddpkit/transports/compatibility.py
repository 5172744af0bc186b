"""Decides from the facts of all nodes whether they can run a job together, and builds their world. Pure.

All problems are reported at once, each with its host and the command that solves it.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpkit.errors import USE_VENV, install_for
from ddpkit.launchers.cpu_binding import Topology
from ddpkit.launchers.node_facts import NodeFacts, words_of_node
from ddpkit.launchers.plan import ALL_CPUS, Host, Job, World
from ddpkit.launchers.shell import Value, guard, quote
from ddpkit.node.calls.probe import ONE_INSTANCE
from ddpkit.node.owned import CAN_RENAME
from ddpkit.transports.hosts import HostSpec, Problem
from ddpkit.transports.reachability import OPEN_PORTS, Reachability, describe_attempts

USUAL_PORT = 29500  # torchrun's own, where a free one cannot be found
Workarounds = dict[tuple[str, str], list[str]]  # (check, text): labels of the hosts to which it applies

SYNC = "add --sync, which copies the project, and replaces only what it put there"


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """A job's needs, which every node has to meet."""

    job: Job
    nproc_per_node: int | None  # None: one rank per GPU
    script: str | None  # a file that every node must have, in its workdir
    digest: str  # of the launcher's own copy; empty where it has none
    torch: bool  # the nodes' torch matters, and their Python
    starter: str
    master_addr: str
    master_port: int
    min_nodes: int | None = None  # so many are enough
    nodes: int | None = None  # so many run the job, and the rest are spare; None: all run it
    other_workdir: str = ""  # another name of it here, by a symbolic link
    local_workdir: bool = True  # the workdir is also on the launching side
    contained: bool = False  # the nodes' answers come from containers
    dry: bool = False  # nodes answer with `python3` of their PATH alone, and get no variable
    check_files: bool = True  # False: the folder and the script will be copied to the nodes, and need not be there yet

    @property
    def least(self) -> int | None:
        """The number of nodes that are enough; None: all are needed."""
        return self.nodes if self.min_nodes is None else self.min_nodes


# ---- checks of one node, and of nodes that differ from the others


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One node, and the values that most nodes have in common."""

    spec: HostSpec
    facts: NodeFacts
    requirements: Requirements
    twin: str = ""  # label of an earlier host that is the same machine
    python: str = ""
    torch: str = ""
    digest: str = ""

    @property
    def interpreter(self) -> str:
        return self.spec.python or self.requirements.job.python

    def problem(self, check: str, what: str, fix: str) -> Problem:
        return Problem(host=self.spec.label, what=what, fix=fix, check=check)


def check_nodes(requirements: Requirements, specs: Sequence[HostSpec], facts: Sequence[NodeFacts]) -> list[Problem]:
    """Find the problems of single nodes, and of nodes that differ from the others."""
    first_label: dict[str, str] = {}  # by machine
    for spec, each in zip(specs, facts, strict=True):
        first_label.setdefault(each["machine"], spec.label)
    python = most_common([each["python"] for each in facts])
    torch = most_common([str(torch_version(each)) for each in facts])
    digest = requirements.digest or most_common([each["script"] for each in facts if each["script"]])
    problems = []
    for spec, each in zip(specs, facts, strict=True):
        first = first_label[each["machine"]]
        node = Candidate(
            spec=spec,
            facts=each,
            requirements=requirements,
            twin=first if first != spec.label else "",
            python=python,
            torch=torch,
            digest=digest,
        )
        problems += [problem for check in NODE_CHECKS if (problem := check(node)) is not None]
    return problems


def _check_machine(node: Candidate) -> Problem | None:
    if not node.twin:
        return None
    fix = "list it once, and set its number of ranks with -n or slots"
    return node.problem("machine", f"is the same machine as {node.twin}", fix)


def _check_workdir(node: Candidate) -> Problem | None:
    facts, needs = node.facts, node.requirements
    if not needs.check_files or not facts["no_workdir"]:
        return None
    what = f"cannot use the directory {facts['workdir']}: {facts['no_workdir'].lower()}"
    can_be_copied = facts["no_workdir"] == os.strerror(errno.ENOENT) and needs.local_workdir
    if not can_be_copied:
        fix = f"workdir = DIR under [host.{node.spec.name}] in ddpkit.toml, or --workdir DIR"
    elif needs.other_workdir:
        what += f"; here it is {needs.other_workdir} as well, by a symbolic link"
        fix = f"--workdir {quote(needs.other_workdir)}; or {SYNC}"
    else:
        fix = SYNC
    return node.problem("workdir", what, fix)


def _check_script(node: Candidate) -> Problem | None:
    facts, needs = node.facts, node.requirements
    if not needs.check_files or facts["no_workdir"] or not needs.script or facts["script"] == node.digest:
        return None
    if facts["script"]:
        what = f"its {needs.script} differs from the one {'here' if needs.digest else 'on the other nodes'}"
        return node.problem("script", what, SYNC)
    if needs.contained:
        folder = Path(needs.job.workdir, needs.script).parent
        what = f"its container has no {needs.script}"
        return node.problem("script", what, f"--container-mounts {folder}:{folder}")
    return node.problem("script", f"{needs.script} not found in {facts['workdir']}", SYNC)


_TMP_FIXES = {
    os.strerror(errno.ENOENT): "mkdir -p {}, or unset TMPDIR there",
    os.strerror(errno.EACCES): "ls -ld {}, or use another TMPDIR there",
    os.strerror(errno.EROFS): "findmnt -T {}, or use another TMPDIR there",
}


def _check_tmp(node: Candidate) -> Problem | None:
    folder, error = node.facts["tmp"], node.facts["no_tmp"]
    if not error:
        return None
    fix, what = _TMP_FIXES.get(error, "df {}"), f"cannot write to its directory {folder}: {error.lower()}"
    if CAN_RENAME in error:
        fix, what = "ls -ld {}, or use another TMPDIR there", f"cannot use its directory {folder}: {error}"
    return node.problem("tmp", what, f"ssh {node.spec.target} {fix.format(quote(folder))}")


_OWN_PYTHON = "python = ... under [host.{}] in ddpkit.toml"


def _check_python(node: Candidate) -> Problem | None:
    version = node.facts["python"]
    # The third number changes nothing between ranks.
    if not node.requirements.torch or version.rpartition(".")[0] == node.python.rpartition(".")[0]:
        return None
    what = f"{node.interpreter} is Python {version}, on the other nodes {node.python}"
    return node.problem("python", what, _OWN_PYTHON.format(node.spec.name))


def _install_torch(node: Candidate, version: str) -> str:
    """Return the command that installs torch there; empty: of any version. It is another node's text."""
    wanted = quote(f"torch=={version.partition('+')[0]}") if version else "torch"
    if node.facts["torch"] and node.facts["torch"].get("sealed"):
        # Where the others have torch, they have no such environment.
        then = USE_VENV if node.torch == "None" else f", then its Python as {_OWN_PYTHON.format(node.spec.name)}"
        return f"on {node.spec.label}: {install_for(node.interpreter, wanted, sealed=True)}{then}"
    there = install_for(node.interpreter, quote(wanted), sealed=False)  # through two shells
    return f"ssh {node.spec.target} {there}"


def _check_torch(node: Candidate) -> Problem | None:
    if not node.requirements.torch:
        return None
    version, python = torch_version(node.facts), node.interpreter
    none_has_torch = node.torch == "None"
    if version is None and (not none_has_torch or node.requirements.starter != "ranks"):
        error = node.facts["torch"].get("problem", "") if node.facts["torch"] else ""
        what = f"{python} cannot import torch" + (f": {error}" if error else "")
        return node.problem("torch", what, _install_torch(node, "" if none_has_torch else node.torch))
    if str(version) == node.torch:
        return None
    what = f"{python} has torch {version}, the other nodes {node.torch}"
    return node.problem("torch", what, _install_torch(node, node.torch))


def _check_gpus(node: Candidate) -> Problem | None:
    slots, gpus = node.spec.slots or node.requirements.nproc_per_node, node.facts["gpus"]
    if node.facts["no_gpus"]:
        return node.problem("gpus", node.facts["no_gpus"], "unset DDPKIT_GPUS on that node")
    if not slots or not gpus or slots <= gpus:
        return None
    what = f"{slots} ranks requested, and it has {gpus} visible GPUs, one per rank"
    if node.facts.get("gpu_note") == ONE_INSTANCE:
        what += f" ({ONE_INSTANCE})"
    return node.problem("gpus", what, f"-n {gpus}, or --env CUDA_VISIBLE_DEVICES= to run on the CPU")


def _check_cpus(node: Candidate) -> Problem | None:
    part, cpus = node.requirements.job.cpus, node.facts["cpus"]
    if part is None or (part.start < cpus and (part.stop <= cpus or part.stop == ALL_CPUS)):
        return None
    wanted = part.start + 1 if part.stop == ALL_CPUS else part.stop
    return node.problem("cpus", f"the roles on it need {wanted} CPUs, and it has {cpus}", "cpus = N, smaller")


def _check_master_port(node: Candidate) -> Problem | None:
    if not node.facts["no_port"]:
        return None
    number, ssh = node.requirements.master_port, f"ssh {node.spec.target} ss -ltn"
    what = f"rank 0 cannot listen on {f'port {number}' if number else 'any port'}: {node.facts['no_port'].lower()}"
    fix = f"{ssh}p 'sport = :{number}', or remove -o master_port" if number else ssh
    return node.problem("master-port", what, fix)


NODE_CHECKS: tuple[Callable[[Candidate], Problem | None], ...] = (
    _check_machine,
    _check_workdir,
    _check_script,
    _check_tmp,
    _check_python,
    _check_torch,
    _check_gpus,
    _check_cpus,
    _check_master_port,
)


def most_common(values: Sequence[str]) -> str:
    """The most common value; of two that are as frequent, the first host's."""
    return Counter(values).most_common(1)[0][0] if values else ""


def default_ranks(facts: NodeFacts) -> int:
    """Return the ranks of a node where nobody says how many: one for each GPU of its commonest model, or one."""
    return max(1, min(facts["gpus"], facts.get("gpu_ranks", facts["gpus"])))


def gpu_notes(
    requirements: Requirements, specs: Sequence[HostSpec], facts: Sequence[NodeFacts]
) -> dict[str, list[str]]:
    """Return why nodes have fewer ranks than GPUs, where nobody said how many, with the labels of these nodes."""
    notes: dict[str, list[str]] = {}
    for spec, each in zip(specs, facts, strict=True):
        note = words_of_node(each.get("gpu_note", ""))
        if note and not (spec.slots or requirements.nproc_per_node):
            notes.setdefault(note, []).append(spec.label)
    return notes


def torch_version(facts: NodeFacts) -> str | None:
    """The version of the torch that a node's Python would import; None: it has none."""
    return facts["torch"]["version"] if facts["torch"] else None


# ---- the world of all nodes


def build_world(
    requirements: Requirements, specs: Sequence[HostSpec], facts: Sequence[NodeFacts], reachability: Reachability
) -> tuple[World | None, list[Problem], Workarounds]:
    """Build the world of hosts of which each tried to reach rank 0 and the next host.

    Returns the world, None where there are problems; the problems; and the workarounds that the world contains.
    """
    common = [  # addresses of rank 0 that every host reaches
        address
        for address in reachability.master
        if all(address in reachability.master_reached(index) for index in range(len(specs)))
    ]
    problems = [] if common else _master_problems(specs, facts, reachability)
    workarounds: Workarounds = {}
    hosts = []
    for index, (spec, each) in enumerate(zip(specs, facts, strict=True)):
        previous = (index - 1) % len(specs)  # the host that tried this one
        reached_by = reachability.reached(previous, index)
        if not reached_by and not any(problem.host == spec.label for problem in problems):
            attempts = reachability.describe(previous, index)
            what = f"{specs[previous].label} cannot reach its port {each['high_port']} ({attempts})"
            problems.append(Problem(host=spec.label, what=what, fix=OPEN_PORTS, check="mesh"))
        env = _choose_interfaces(requirements, spec, each, reached_by, workarounds)
        hosts.append(build_host(requirements, spec, each, env, reached_by[0] if reached_by else ""))
    if problems:
        return None, problems, workarounds
    world = World(
        hosts=tuple(hosts), master_addr=common[0], master_port=_port(facts[0]), port=facts[0].get("spare_port")
    )
    return world, [], workarounds


def assume_world(requirements: Requirements, specs: Sequence[HostSpec]) -> World:
    """Build the world of hosts that must not be queried: what their settings do not say is assumed."""
    job = requirements.job
    hosts = [
        Host(
            name=spec.label,
            slots=spec.slots or requirements.nproc_per_node or 1,
            chosen=("OMP_NUM_THREADS",),  # from its CPUs, whose number is not known
            env={name: guard(name, value) for name, value in spec.env.items()},
            python=spec.python if spec.python != job.python else "",
            workdir=spec.workdir if spec.workdir != job.workdir else "",
            by_hand=spec.by_hand,
        )
        for spec in specs[: requirements.nodes]
    ]
    address = requirements.master_addr or ("127.0.0.1" if len(hosts) == 1 else specs[0].name)
    port = requirements.master_port or USUAL_PORT
    return World(hosts=tuple(hosts), master_addr=address, master_port=port, min_nodes=requirements.min_nodes)


def build_single_world(requirements: Requirements, spec: HostSpec, facts: NodeFacts) -> World:
    """Build the world of one host."""
    return World(
        hosts=(build_host(requirements, spec, facts, {}),),
        master_addr=requirements.master_addr or "127.0.0.1",
        master_port=facts["port"] or requirements.master_port,
        port=facts.get("spare_port"),
    )


def _port(facts: NodeFacts) -> int:
    assert facts["port"] is not None  # the first node was asked to listen
    return facts["port"]


def _master_problems(
    specs: Sequence[HostSpec], facts: Sequence[NodeFacts], reachability: Reachability
) -> list[Problem]:
    """Return a problem of each host that cannot reach rank 0's port; of rank 0's host alone, if no other can."""
    first, port = specs[0], facts[0]["port"]
    fix = "open the port in the firewall between them, or -o master_port=PORT, -o master_addr=ADDRESS"

    def problem(host: str, what: str, how: str = fix) -> Problem:
        return Problem(host=host, what=what, fix=how, check="master-port")

    def attempts(index: int) -> str:
        return describe_attempts(reachability.master, reachability.to_master[index])

    failed = [index for index in range(len(specs)) if not reachability.master_reached(index)]
    others = [index for index in failed if index != 0]
    if failed == [0]:
        what = f"cannot reach its own port {port}, rank 0's ({attempts(0)})"
        return [problem(first.label, what, "-o master_addr=ADDRESS, with an address that all hosts reach")]
    if len(others) == len(specs) - 1:  # the fault is that of rank 0's host
        labels = ", ".join(specs[index].label for index in others)
        return [problem(first.label, f"{labels} cannot reach its port {port}, rank 0's ({attempts(others[0])})")]
    if others:
        what = f"cannot reach port {port} of {first.label}, rank 0's"
        return [problem(specs[index].label, f"{what} ({attempts(index)})") for index in others]
    what = "the other hosts reach it only at different addresses"
    return [problem(first.label, what, "-o master_addr=ADDRESS, with an address that all hosts reach")]


def check_own_address(requirements: Requirements, spec: HostSpec, facts: NodeFacts, error: str) -> list[Problem]:
    """Check that a single host reaches the address that the user chose for rank 0. `error`: of its attempt."""
    if not error:
        return []
    tried = f"{requirements.master_addr}: {error}"
    what = f"cannot reach its own port {facts['port']}, rank 0's ({tried}); a run on one node needs no such address"
    fix = f"remove -o master_addr={requirements.master_addr}"
    return [Problem(host=spec.label, what=what, fix=fix, check="master-port")]


# NCCL takes all interfaces but these, in the kernel's order.
_NCCL_LEAVES_OUT = ("lo", "docker")


def _choose_interfaces(
    requirements: Requirements, spec: HostSpec, facts: NodeFacts, reached_by: Sequence[str], workarounds: Workarounds
) -> dict[str, Value]:
    """Return variables that name interfaces for gloo and NCCL, where their own choice cannot be reached.

    `reached_by`: addresses by which another host reached this one. Adds to `workarounds`.
    """
    set_by_user = {*facts["set"], *requirements.job.env, *spec.env}
    live = list(dict.fromkeys(name for name, address in facts["addresses"] if address in reached_by))
    dead = list(dict.fromkeys(name for name, _ in facts["addresses"] if name not in live))
    dead = [name for name in dead if not name.startswith(_NCCL_LEAVES_OUT)]
    own = facts["own_name"]  # addresses: gloo takes the first
    env: dict[str, Value] = {}
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        value = str(spec.env.get(name, requirements.job.env.get(name, "")))
        if live and value in {interface for interface, _ in facts["addresses"]} - {*live}:
            text = (
                f"{name} is {value}, over which the other nodes cannot reach it; remove it, or --env {name}={live[0]}"
            )
            workarounds.setdefault(("interfaces", text), []).append(spec.label)
    if live and "GLOO_SOCKET_IFNAME" not in set_by_user and (not own or own[0] not in reached_by):
        env["GLOO_SOCKET_IFNAME"] = live[0]
        means = f"resolves to {own[0]} on that node" if own else "does not resolve to its own address"
        text = f"its own name {facts['host']} {means}, which others cannot reach; gloo uses {live[0]}"
        workarounds.setdefault(("names", text), []).append(spec.label)
    if live and dead and "NCCL_SOCKET_IFNAME" not in set_by_user:
        env["NCCL_SOCKET_IFNAME"] = f"={','.join(live)}"  # "=": the whole name, and not its beginning
        text = f"the other nodes cannot reach it over {', '.join(dead)}; NCCL uses {', '.join(live)}"
        workarounds.setdefault(("interfaces", text), []).append(spec.label)
    return env


def build_host(
    requirements: Requirements, spec: HostSpec, facts: NodeFacts, env: Mapping[str, Value], address: str = ""
) -> Host:
    """Build one host of the world. `env`: chosen for it; `address`: by which other nodes reach it."""
    job = requirements.job
    return Host(
        name=spec.label,
        slots=spec.slots or requirements.nproc_per_node or default_ranks(facts),
        cpus=facts["cpus"],
        topology=Topology.of(facts["topology"]),
        chosen=tuple(facts["set"]),
        stale=tuple(facts["stale"]),
        env={**env, **{name: guard(name, value) for name, value in spec.env.items()}},
        # Looked up on the node: `python3` on its PATH, `~/venv/bin/python` in its home folder.
        python="" if requirements.dry or facts["executable"] == job.python else facts["executable"],
        by_hand=spec.by_hand,
        workdir=facts["workdir"] if facts["workdir"] != job.workdir else "",
        address=address,
    )
