"""A launch through a login host: `--via`. The project, the run's directory and the scheduler are there.

The launcher stays on this machine. The run has a second directory here, with its record and its logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ddpkit.config import AUTOMATIC, LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.execution import requested_nodes
from ddpkit.execution.job import check_request, job_elsewhere, without_python
from ddpkit.execution.requested_nodes import Queries, changes_address
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.nodes import NodeOptions
from ddpkit.launchers.plan import Host, Job, Plan, ProjectCopy, Request
from ddpkit.launchers.registry import Launcher
from ddpkit.launchers.slurm import Slurm
from ddpkit.transports.hosts import HostSpec, parse
from ddpkit.transports.login_host import CONTROL_FILE, LoginHost, check_answer
from ddpkit.transports.login_host import of_record as of_record
from ddpkit.transports.scheduler import SlurmTransport


@contextmanager
def approach(
    settings: LaunchSettings,
    backend: Launcher,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None,
    queries: Queries = Queries.ALL,
) -> Iterator[tuple[Job, Plan, SlurmTransport]]:
    """Connect to the login host, and make the job and its plan for it. The connection is closed at the end.

    --sync copies the project if `progress` is given (None: a dry run). Raises UsageError, LaunchError, PreflightError.
    """
    assert isinstance(backend, Slurm)  # it alone has this option
    if settings.retries or settings.spares:
        what = "--via does not support --retries: a job that heals needs ddpkit on the cluster"
        raise UsageError(what, f"on {backend.via}: ddpkit launch -b {settings.backend} --retries N -- SCRIPT")
    check_request(settings)
    settings = without_python(settings)
    spec = _one_host(settings, backend.via)
    options = queries.options(settings, NodeOptions.of(backend))
    typed = settings.is_option_given("via") and "@" not in backend.via[:1] and not changes_address(settings, spec.name)
    if queries is Queries.TYPED and not typed:
        what = f"a dry run connects to no host that only a file or a variable names: {spec.label} (via)"
        raise UsageError(what, "add --survey")
    via = Via(
        host=spec.name,
        user=spec.user,
        port=spec.port,
        transport="openssh" if options.transport == "openssh" else "paramiko",
        python="python3" if queries.dry else spec.python or "python3",
        connect_timeout=options.connect_timeout,
    )
    host = LoginHost(via, options, note)
    try:
        yield _prepare(settings, backend, environ, note, progress, host, spec, via, queries)
    finally:
        host.close()


def _prepare(
    settings: LaunchSettings,
    backend: Slurm,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    progress: Callable[[str, int], None] | None,
    host: LoginHost,
    spec: HostSpec,
    via: Via,
    queries: Queries,
) -> tuple[Job, Plan, SlurmTransport]:
    from ddpkit.execution import avoided_nodes

    given = settings.is_given("workdir") or not Path(settings.workdir).is_dir()  # then it is that of the login host
    project = Path("." if given else settings.workdir).absolute()
    workdir = spec.workdir or path_there(settings.workdir, project, "")
    copies = _copy(settings, host, replace(spec, workdir=workdir), project, progress, note) if settings.sync else ()
    first = settings.script[0]
    script = "" if backend.container or not (first.endswith(".py") or "/" in first) else first
    automatic = settings.source("python") in AUTOMATIC
    same = path_there(settings.python, project, workdir) if settings.python.startswith("/") else settings.python
    pythons = ["python3"] if backend.container else [spec.python or same, *(["python3"] if automatic else [])]
    logs = path_there(settings.log_dir, project, workdir) if settings.log_dir.startswith("/") else settings.log_dir
    facts = host.call(
        "look", 20.0, workdir=workdir, log_dir=logs, script=script, pythons=pythons, login=not queries.dry
    )
    synced = bool(copies) and progress is None
    facts["scheduler"] = facts["scheduler"] or queries.dry  # perhaps on the PATH of its login shell
    check_answer(facts, host, script=first, python=pythons[0], synced=synced)
    if automatic and facts["python"] != settings.python and not backend.container:
        note(f"Python of the ranks: {facts['python']} on {host.place}")
    nnodes, nproc = requested_nodes.number_of_nodes(settings, backend, {}), requested_nodes.ranks_per_node(settings)
    here = Host(name=facts["host"], slots=0, stale=tuple(facts["stale"]))
    hosts, counts = requested_nodes.scheduled_hosts(settings)
    request = Request(nnodes=nnodes, nproc_per_node=nproc, here=here, hosts=hosts, counts=counts, via=via)
    transport = SlurmTransport(nnodes, nproc, {}, host)
    transport.note = note
    python = pythons[0] if backend.container else facts["python"]
    job = job_elsewhere(settings, facts["workdir"], python, facts["log_dir"])
    host.control_file = Path(settings.log_dir).absolute() / job.run_id / CONTROL_FILE
    chosen_backend: Launcher = backend
    if not queries.dry:  # with sinfo there
        chosen_backend = avoided_nodes.exclude(backend, request, settings, note, transport)
    plan = replace(chosen_backend.plan(job, request), sync=copies)
    return job, plan, transport


def _one_host(settings: LaunchSettings, word: str) -> HostSpec:
    specs = parse([word], settings.groups, settings.host)
    if len(specs) != 1:
        raise UsageError(f"--via {word}: requires one host, not {len(specs)}")
    return specs[0]


def path_there(path: str, project: Path, workdir: str) -> str:
    """Return the path on the login host for one of this machine.

    A path below the project is below `workdir` there, and one below the home directory is below that home directory.
    """
    absolute = path if path.startswith("~") else str(Path(path).absolute())
    for here, there in ((str(project), workdir), (str(Path.home()), "~")):
        if there and (absolute == here or absolute.startswith(f"{here}/")):
            return there + absolute[len(here) :]
    return absolute


def _copy(
    settings: LaunchSettings,
    host: LoginHost,
    spec: HostSpec,
    project: Path,
    progress: Callable[[str, int], None] | None,
    note: Callable[[str], None],
) -> tuple[ProjectCopy, ...]:
    """Copy the project to the login host; in a dry run, only describe the copy."""
    from ddpkit.execution import sync
    from ddpkit.execution.node_calls import ANY_PYTHON

    return sync.bring(
        [spec],
        str(project),
        settings.log_dir,
        progress,
        host.way(),
        python=spec.python or ANY_PYTHON,
        overwrite=settings.sync == "overwrite",
        note=note,
        silence=NodeOptions.heartbeat_timeout,
    )
