"""Nodes that a launch requests: names and number, checked against what its backend reaches; bad nodes are left out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ddpkit.config import DAY, LaunchSettings, SourcedName
from ddpkit.errors import MOST_RANKS, UsageError
from ddpkit.files import read_trusted
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.registry import Launcher
from ddpkit.launchers.shell import count, join, quote
from ddpkit.launchers.starters import Starter
from ddpkit.node.supervision.clock import Clock
from ddpkit.transports import slurm_nodes

if TYPE_CHECKING:
    from ddpkit.launchers.plan import Request
    from ddpkit.run.bad_nodes import BadNode
    from ddpkit.transports.hosts import HostSpec
    from ddpkit.transports.transport import Transport


class Queries(Enum):
    """The nodes that a command may query, and how."""

    ALL = "all"  # a launch: with the ranks' Python and variables
    TYPED = "typed"  # a dry run: nodes that the caller named, with `python3` of their PATH and no variable
    SURVEY = "survey"  # a dry run with --survey: every node, in the same way

    @property
    def dry(self) -> bool:
        return self is not Queries.ALL

    def may_connect(self, settings: LaunchSettings, names: Iterable[str]) -> bool:
        """Tell whether a command may connect to the nodes of these settings. `names`: of the nodes."""
        return self is not Queries.TYPED or _are_typed(settings, names)

    def options(self, settings: LaunchSettings, options: NodeOptions) -> NodeOptions:
        """The options of connections. In a dry run a file, a variable or a profile accepts no host key."""
        if not self.dry:
            return options
        new = options.accepts_new and settings.is_option_given("accept_new_host_keys")
        words = options.pdsh_args if settings.is_option_given("pdsh_args") else ""
        return replace(options, accepts_new=new, pdsh_args=words)


def _are_typed(settings: LaunchSettings, names: Iterable[str]) -> bool:
    """Tell whether the caller named these nodes: not by a group, and no file has another user or port for them."""
    if settings.hosts and settings.is_given("hosts"):
        typed = not any(word.startswith("@") for word in settings.hosts)
    else:
        typed = bool(settings.hostfile) and settings.is_given("hostfile")
    return typed and not any(changes_address(settings, name) for name in names)


def changes_address(settings: LaunchSettings, name: str) -> bool:
    """Tell whether `[host.NAME]` has another user or port."""
    own = settings.host.get(name)
    return own is not None and bool(own.user or own.port)


def surroundings(settings: LaunchSettings, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment in which a launch looks for its allocation: with --new-job it has none."""
    new = str(settings.options.get("new_job", "")).lower() in ("true", "yes", "on", "1")
    return {**environ, "DDPKIT_DETECT_SLURM": "0"} if new else environ


def ranks_per_node(settings: LaunchSettings) -> int | None:
    """The number of ranks on each node. None: one per GPU, or another number for each node."""
    return settings.nproc_per_node if isinstance(settings.nproc_per_node, int) else None


def uneven_ranks(settings: LaunchSettings) -> tuple[int, ...]:
    """The numbers of ranks on each node of `-n 4,8,8`. Empty: no such list."""
    return settings.nproc_per_node if isinstance(settings.nproc_per_node, tuple) else ()


def number_of_nodes(settings: LaunchSettings, backend: Launcher, environ: Mapping[str, str]) -> int | None:
    """The number of nodes for a backend that takes no MIN:MAX. None: not given.

    A submitted job has as many as its node list, as with sbatch.
    """
    if isinstance(settings.nnodes, tuple):
        raise _takes_one_number(backend, settings.nnodes)
    nodelist = str(settings.options.get("nodelist", ""))
    named = settings.hosts or settings.hostfile or uneven_ranks(settings)
    if settings.nnodes or not nodelist or named or slurm_nodes.allocation(surroundings(settings, environ)):
        return settings.nnodes
    return slurm_nodes.count_listed(nodelist)


def _takes_one_number(backend: Launcher, nodes: tuple[int, int]) -> UsageError:
    least, most = nodes
    name = registry.short_name(backend.name)
    return UsageError(f"-N {least}:{most}: backend {name} requires one number of nodes", f"add -N {most}")


def check_no_sync(settings: LaunchSettings) -> None:
    """Refuse --sync for a backend that reaches no named node."""
    if settings.sync:
        raise UsageError(f"backend {settings.backend} does not support --sync", "add -b ssh")


def check_no_hostfile(settings: LaunchSettings) -> None:
    """Refuse a host file, and a list of numbers of ranks, for a backend that reaches no named node."""
    if uneven_ranks(settings):
        raise UsageError(
            f"backend {settings.backend} requires one number of ranks per node, not {_option_n(settings)}",
            f"add -n {max(uneven_ranks(settings))}",
        )
    if settings.hostfile:
        raise UsageError(
            f"backend {settings.backend} does not support host files: {settings.hostfile}",
            "add -b ssh",
        )


def _option_n(settings: LaunchSettings) -> str:
    return "-n " + ",".join(map(str, uneven_ranks(settings)))


def check_no_hosts(settings: LaunchSettings) -> None:
    """Refuse host names for a backend whose scheduler chooses the nodes."""
    if settings.hosts:
        names = ",".join(settings.hosts)
        raise UsageError(
            f"backend {settings.backend} gets its nodes from the scheduler, and does not accept hosts: {names}",
            "add -b slurm",
        )


def check_alone(settings: LaunchSettings, environ: Mapping[str, str]) -> None:
    """Refuse a command that srun starts several times: each of them would be a run of its own."""
    task = None if settings.allow_nested else slurm_nodes.srun_tasks(environ)
    if task is None:
        return
    nodes, tasks = task.num_nodes.value, task.world_size.value
    more = [] if settings.backend.startswith("slurm") else ["-b slurm"]
    more += [] if settings.is_given("nnodes") else [f"-N {nodes}"]
    more += [] if settings.is_given("nproc_per_node") else [f"-n {max(1, tasks // nodes)}"]
    raise UsageError(
        f"srun starts this command {tasks} times; run it once, without srun",
        f"add {' '.join(more)}" if more else None,
    )


def check_one_machine(settings: LaunchSettings, environ: Mapping[str, str]) -> None:
    """Refuse other machines for the local backend, also those of an allocation where no backend was chosen."""
    _check_no_scripts(settings)
    unused = slurm_nodes.unused_allocation(environ)
    if unused and settings.source("backend") == "default":
        here = slurm_nodes.short_hostname()
        _, left_over = slurm_nodes.query_allocation(slurm_nodes.allocation(environ))
        if left_over:
            raise UsageError(f"{left_over}; for this machine alone: -b local", "add -b slurm --new-job")
        what = f"{unused}, and without -b the ranks would run on {here} alone (as with -b local)"
        raise UsageError(what, "add -b slurm")
    if uneven_ranks(settings):
        raise UsageError(
            f"backend local runs on this machine only, and does not support {_option_n(settings)}",
            f"add -n {uneven_ranks(settings)[0]}",
        )
    local = ("localhost", "127.0.0.1", slurm_nodes.short_hostname())
    if len(settings.hosts) > 1 or any(host not in local for host in settings.hosts):
        raise UsageError(
            f"backend local runs on this machine only, and does not accept hosts: {' '.join(settings.hosts)}",
            "add -b ssh",
        )
    elastic = isinstance(settings.nnodes, tuple)
    least, most = settings.nnodes if isinstance(settings.nnodes, tuple) else (settings.nnodes or 1,) * 2
    if most > 1:
        # The default starter of ssh takes MIN:MAX; that of slurm does not.
        able = "ssh does" if elastic else "ssh and slurm do"
        has_slurm = not elastic and shutil.which("sbatch")
        raise UsageError(
            f"backend local runs on this machine only, and does not support -N {f'{least}:' * elastic}{most}; {able}",
            "add -b slurm" if has_slurm else f"add -b ssh {' '.join(['HOST'] * min(most, 8))}",
        )


def check_attempts(settings: LaunchSettings, transport: type[Transport], *, allocated: bool) -> None:
    """Refuse --retries and --spares where no other attempt can follow, or none with other nodes."""
    asked = f"--spares {settings.spares}" if settings.spares else f"--retries {settings.retries}"
    if not settings.retries and not settings.spares:
        return
    if transport.local and settings.spares:
        raise UsageError(
            f"backend {settings.backend} runs on this machine only, and does not support {asked}",
            f"remove {asked}",
        )
    if not settings.retries:
        raise UsageError(f"{asked} has no effect without --retries", "add --retries 1")
    if isinstance(settings.nnodes, tuple):
        least, most = settings.nnodes
        raise UsageError(f"{asked} requires one number of nodes, not -N {least}:{most}", f"add -N {least}")
    if transport.scheduled and not allocated and (not transport.slurm or settings.options.get("array")):
        jobs = "a job array" if transport.slurm else "its jobs"
        raise UsageError(f"backend {settings.backend} does not support {asked} for {jobs}", f"remove {asked}")


def named_hosts(settings: LaunchSettings, backend: Launcher, options: NodeOptions) -> list[HostSpec]:
    """The nodes that words or a host file name: as many as -N asks for, and the spares; without -N all of them."""
    _check_no_scripts(settings)
    _check_options(options)
    specs = _read_hosts(settings, options)
    if not specs:
        number = settings.nnodes if isinstance(settings.nnodes, int) else 2
        hosts = " ".join(["HOST"] * min(number, 8))
        raise UsageError(f"backend {settings.backend} requires hosts", f"add {hosts}")
    low = next((spec for spec in specs if spec.port and spec.port < 22), None)
    if low:  # a number of ranks, as mpirun takes it
        what = f"{low.label}: {low.port} is not the port of an SSH server"
        raise UsageError(what, f"for {low.port} ranks on each node: -n {low.port}")
    if isinstance(settings.nnodes, tuple):
        if not isinstance(backend, Starter):
            raise _takes_one_number(backend, settings.nnodes)
        backend.check(elastic=True)
        least, most = settings.nnodes
        nnodes: int | None = min(most, max(least, len(specs)))
    else:
        nnodes = settings.nnodes
    named = f"{count(len(specs), 'host')} given"
    if settings.spares and (nnodes or 1) + settings.spares > len(specs):
        both = f"-N {nnodes} and --spares {settings.spares}" if nnodes else f"--spares {settings.spares}"
        fewer = f"add -N {len(specs) - 1} --spares 1" if len(specs) > 1 else f"remove --spares {settings.spares}"
        raise UsageError(f"{both}: {named}", fewer)
    if nnodes and nnodes > len(specs):
        raise _too_few(nnodes, specs)
    if _replaces_slots(settings):
        specs = [replace(spec, slots=None) for spec in specs]
    return _with_ranks(settings, specs[: nnodes + settings.spares] if nnodes else specs)


def _replaces_slots(settings: LaunchSettings) -> bool:
    """Tell whether -n counts in place of the slots of a host file or of ddpkit.toml."""
    if settings.nproc_per_node == "auto":
        return False
    if settings.is_given("nproc_per_node"):
        return True
    if settings.hostfile:
        return settings.outranks("nproc_per_node", "hostfile")
    return settings.source("nproc_per_node").startswith("DDPKIT_")  # `[host.NAME]` is of ddpkit.toml


def _too_few(nnodes: int, specs: list[HostSpec]) -> UsageError:
    return UsageError(
        f"{count(nnodes, 'node')} requested, and {count(len(specs), 'host')} given",
        f"add -N {len(specs)}",
    )


def _with_ranks(settings: LaunchSettings, specs: list[HostSpec]) -> list[HostSpec]:
    """Give each node its own number of `-n 4,8,8`. Raises UsageError where there are more or fewer nodes."""
    counts = uneven_ranks(settings)
    if not counts:
        return specs
    if len(counts) != len(specs):
        raise UsageError(
            f"{_option_n(settings)} has {len(counts)} numbers, for {count(len(specs), 'node')}", f"add -n {max(counts)}"
        )
    return [replace(spec, slots=spec.slots or ranks) for spec, ranks in zip(specs, counts, strict=True)]


def scheduled_hosts(settings: LaunchSettings) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The nodes that words or a host file request of SLURM, and the ranks on each. No nodes: any. No ranks: as -n says.

    `node1:4` has four ranks: SLURM needs no port. Raises UsageError.
    """
    words = settings.hosts
    if not words and not settings.hostfile:
        return (), uneven_ranks(settings)
    _check_no_scripts(settings)
    without_ports = {name: replace(own, port=None) for name, own in settings.host.items()}
    specs = _read_hosts(replace(settings, host=without_ports), NodeOptions())
    ignores_slots = _replaces_slots(settings)
    if any(spec.port for spec in specs) and uneven_ranks(settings):
        nodes: SourcedName = "hosts" if words else "hostfile"
        if settings.outranks(nodes, "nproc_per_node"):
            settings = replace(settings, nproc_per_node="auto")
        elif settings.outranks("nproc_per_node", nodes):
            specs = [replace(spec, port=None) for spec in specs]
        else:
            raise UsageError(
                f"ranks per node were passed twice: {' '.join(words)} and {_option_n(settings)}",
                f"remove {_option_n(settings)}",
            )
    # What a host has in the place of a port is a number of ranks.
    specs = [replace(spec, slots=spec.port or (None if ignores_slots else spec.slots), port=None) for spec in specs]
    large = next((f"{spec.name}:{spec.slots}" for spec in specs if (spec.slots or 0) > MOST_RANKS), "")
    if large:
        raise UsageError(f"{large}: must be at most {MOST_RANKS} ranks", "HOST:RANKS; SLURM needs no port")
    nnodes = settings.nnodes
    if isinstance(nnodes, int) and nnodes > len(specs):
        raise _too_few(nnodes, specs)
    specs = _with_ranks(settings, specs[: nnodes if isinstance(nnodes, int) else None])
    names = tuple(spec.name for spec in specs)
    if not any(spec.slots for spec in specs):
        return names, ()
    each = ranks_per_node(settings)
    missing = next((spec.name for spec in specs if not (spec.slots or each)), "")
    if missing:
        raise UsageError(f"{missing} has no number of ranks, and other hosts have one", "add -n 1")
    return names, tuple(spec.slots or each or 1 for spec in specs)


@dataclass(frozen=True, kw_only=True)
class HeldNodes:
    """Nodes of one run that several launches share. `environ`: where each of them finds the allocation, if any."""

    hosts: tuple[str, ...]  # as a user types them
    environ: Mapping[str, str]
    gpus: Mapping[str, int] = field(default_factory=dict)  # of each host; without an entry it is not known
    cpus: Mapping[str, int] = field(default_factory=dict)  # the same
    ports: Mapping[str, list[int]] = field(default_factory=dict)  # free ones; else each launch asks its nodes
    groups: tuple[int, ...] = ()  # nodes of each group of a heterogeneous allocation, in the order of the hosts
    clock: Clock = field(default_factory=Clock)  # of the run


ROLES = "roles"  # what needs the nodes, in place of one launch


class Component(NamedTuple):
    """Nodes with one request, and the ranks on each. `backend`: with the options of the request."""

    nodes: int
    ranks: int
    backend: Launcher


class Wanted(NamedTuple):
    """What several launches need together: nodes, of several kinds in a heterogeneous job, and ports there."""

    name: str
    components: Sequence[Component]
    ports: int
    use: str = ROLES  # what needs them, in errors

    @property
    def nodes(self) -> int:
        return sum(each.nodes for each in self.components)


@contextmanager
def hold_nodes(
    settings: LaunchSettings,
    backend: Launcher,
    transport: type[Transport],
    environ: Mapping[str, str],
    wanted: Wanted,
    note: Callable[[str], None],
    queries: Queries = Queries.ALL,
) -> Iterator[HeldNodes]:
    """Hold the nodes of a run that has several launches. A job of its own ends with this. Raises DdpkitError."""
    from ddpkit.launchers.slurm import Slurm
    from ddpkit.node.calls import probe
    from ddpkit.transports import this_machine

    if getattr(backend, "via", ""):
        raise UsageError(f"--via does not work with {wanted.use}", "run this command on the login host")
    if transport.local:
        check_one_machine(settings, environ)
        here = slurm_nodes.short_hostname()
        gpus = {here: this_machine.gpus(environ)}
        yield HeldNodes(hosts=(here,), environ=environ, gpus=gpus, cpus={here: probe.cpus()})
    elif transport.names_nodes:
        specs = named_hosts(replace(settings, spares=0), backend, NodeOptions.of(backend))
        yield HeldNodes(hosts=tuple(spec.typed for spec in specs), environ=environ)
    elif isinstance(backend, Slurm):
        keeps_order = backend.order in ("given", "block")
        with _hold_job(settings, surroundings(settings, environ), wanted, note, queries, keeps_order) as held:
            yield held
    else:
        raise UsageError(f"backend {settings.backend} does not work with {wanted.use}", "add -b slurm")


@contextmanager
def _hold_job(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    wanted: Wanted,
    note: Callable[[str], None],
    queries: Queries,
    keeps_order: bool,
) -> Iterator[HeldNodes]:
    """Hold nodes of this shell's allocation, or of a job of its own, which ends with this.

    `keeps_order`: the nodes come in the order of the scheduler, else in that of the network.
    """
    from ddpkit.transports.allocation import find_ports, own_allocation

    named, counts = scheduled_hosts(settings)
    if counts and wanted.use == ROLES:
        raise UsageError("roles have their own numbers of ranks", "nproc_per_node = N in [roles.NAME]")
    if counts:
        raise UsageError(f"several numbers of ranks do not work with {wanted.use}", f"add -n {max(counts)}")
    with ExitStack() as stack:
        if not slurm_nodes.allocation(environ):
            argv = _allocate(wanted, named)
            if queries.dry:
                note(f"in a job of its own: {join(argv)}")
                variables = slurm_nodes.placeholder(named, [each.nodes for each in wanted.components])
            else:
                variables = stack.enter_context(own_allocation(argv, note))
            kept = {name: value for name, value in environ.items() if not slurm_nodes.is_of_job(name)}
            environ = {**kept, **variables, "DDPKIT_DETECT_SLURM": "1"}
        held = slurm_nodes.held_nodes(environ, named, "" if wanted.use == ROLES else wanted.use)
        hosts, ports = list[str](), dict[str, list[int]]()
        for group, here in enumerate(held.hosts_by_group) if held.groups else [(held.group, held.hosts)]:
            if queries.dry:
                hosts += here
                continue
            found = find_ports(held.job_id, group, here, wanted.ports)
            hosts += here if named or keeps_order else found.hosts
            ports |= found.ports
        sizes = tuple(group.nodes for group in held.groups)
        given = tuple(hosts if sizes else hosts[: wanted.nodes])
        yield HeldNodes(hosts=given, environ=environ, gpus=held.gpus, cpus=held.cpus, ports=ports, groups=sizes)


def _allocate(wanted: Wanted, named: Sequence[str]) -> tuple[str, ...]:
    """Return the command that requests the nodes: a heterogeneous job for several components. Raises UsageError."""
    from ddpkit.launchers.slurm import Slurm

    words: list[str] = []
    for each in wanted.components:
        assert isinstance(each.backend, Slurm)
        here, named = named[: each.nodes], named[each.nodes :]
        words += [":"] if words else []
        words += each.backend.request(wanted.name, each.nodes, each.ranks, here, wanted.use)
    return "salloc", "--no-bell", *words


def _read_hosts(settings: LaunchSettings, options: NodeOptions) -> list[HostSpec]:
    """Read the hosts that words or a host file name. Raises UsageError."""
    from ddpkit.transports import hosts

    if settings.hosts and settings.hostfile:
        raise UsageError("hosts were passed twice, as arguments and in a host file", "remove one of the two")
    path = settings.hostfile
    if not path:
        return hosts.parse(settings.hosts, settings.groups, settings.host, options.exclude)
    try:
        text, untrusted = read_trusted(Path(path), pipes=True)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the host file {path}: {getattr(error, 'strerror', '') or error}",
            f"ls -l {quote(path)}",
        ) from None
    if untrusted:
        raise UsageError(*untrusted)
    return hosts.parse_file(path, text, settings.host, options.exclude, settings.groups)


def _check_options(options: NodeOptions) -> None:
    """Check the numbers and the address among the options of connections. Raises UsageError."""
    from ddpkit.transports import hosts

    if options.heartbeat_timeout and not 1 <= options.heartbeat_timeout <= DAY:
        raise UsageError(
            f"-o heartbeat_timeout={options.heartbeat_timeout:g}: seconds, 1 to {DAY:.0f}",
            "add --heartbeat-timeout 30",
        )
    if not 0 < options.connect_timeout <= 600:
        what = f"-o connect_timeout={options.connect_timeout:g}: seconds, more than 0 and at most 600"
        raise UsageError(what, "add --connect-timeout 5")
    hosts.check_master(options.master_addr, options.master_port)


def _check_no_scripts(settings: LaunchSettings) -> None:
    for host in settings.hosts:
        if host.endswith(".py") or Path(settings.workdir, host).is_file():
            raise UsageError(
                f"{host} is in the place of a host; the script comes after `--`", f"ddpkit launch -- {host}"
            )


def warn_of_bad_nodes(settings: LaunchSettings, hosts: Collection[str], note: Callable[[str], None]) -> None:
    """Note each of these hosts that is bad. It is used all the same: the user named it."""
    from ddpkit.run.bad_nodes import matching

    for host, node in matching(hosts, _known_bad_nodes(settings, note)):
        note(f"warning: {host} is a bad node: {node.describe()}; if it is repaired: {_forgive_command(settings, host)}")


def exclude_bad_nodes(
    backend: Launcher,
    request: Request,
    settings: LaunchSettings,
    note: Callable[[str], None],
    transport: Transport,
) -> Launcher:
    """Return the backend of a job that excludes the bad nodes. Nodes of an allocation only get a warning."""
    from ddpkit.launchers.slurm import Slurm
    from ddpkit.run.bad_nodes import matching

    if request.allocation is not None:
        warn_of_bad_nodes(settings, request.allocation.hosts, note)
        return backend
    bad = _known_bad_nodes(settings, note)
    if not bad or not isinstance(backend, Slurm):
        return backend
    nodes = slurm_nodes.partition_nodes(backend.partition, transport.machine)
    if not nodes:
        note("warning: sinfo does not list the nodes of the partition: bad nodes are not excluded")
        return backend
    by_name = dict(matching(nodes, bad))
    chosen = slurm_nodes.choose_excluded(
        list(by_name),
        nodes,
        nnodes=request.nnodes or len(request.hosts) or len(request.counts) or 1,
        nodelist=backend.nodelist or ",".join(request.hosts),
        exclude=backend.exclude,
        sbatch=backend.sbatch,
    )
    for host, against in chosen.items():
        note(_exclusion_note(host, by_name[host], against, settings))
    added = [host for host, against in chosen.items() if not against]
    return replace(backend, exclude=",".join(filter(None, [backend.exclude, *added]))) if added else backend


def _known_bad_nodes(settings: LaunchSettings, note: Callable[[str], None]) -> tuple[BadNode, ...]:
    """Return the bad nodes in the file of the settings. Note why the file cannot be read."""
    from ddpkit.run import bad_nodes

    known = bad_nodes.known(settings.bad_nodes, time.time())
    if known.problem:
        note(f"warning: {known.problem}")
    return known.nodes


def _exclusion_note(host: str, node: BadNode, against: str, settings: LaunchSettings) -> str:
    """Say that a bad node is excluded; or, with the reason `against`, that it is not."""
    if not against:
        return f"excludes {host}: {node.describe()}; if it is repaired: {_forgive_command(settings, host)}"
    return (
        f"warning: {host} is a bad node: {node.describe()}; it is not excluded: {against}; "
        f"if it is repaired: {_forgive_command(settings, host)}"
    )


def _forgive_command(settings: LaunchSettings, host: str) -> str:
    given = settings.bad_nodes if settings.is_given("bad_nodes") else ""
    return f"ddpkit nodes forgive {host}" + (f" --bad-nodes {quote(given)}" if given else "")
