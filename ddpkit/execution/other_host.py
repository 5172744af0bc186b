"""Launches through another host: `--via` a login host, and `--detach --on` a node.

With `--via` the launcher stays on this machine; the project, the directory of the run and the scheduler are there. The
run has a second directory here, with its record and its logs. With `--on` the launcher itself starts on the node, in a
tmux session, so that a laptop may leave. The ddpkit there gets the same command, in the same directory. Values of
variables travel inside the connection, never on a command line.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ddpkit.config import AUTOMATIC, LaunchSettings
from ddpkit.errors import LaunchError, UsageError
from ddpkit.execution import requested_nodes, sync
from ddpkit.execution.copies import ANY_PYTHON, Way
from ddpkit.execution.job import check_request, job_elsewhere, names_of_code, without_python
from ddpkit.execution.requested_nodes import Queries, changes_address, ranks_per_node
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.node_facts import words_of_node
from ddpkit.launchers.plan import Host, Job, Plan, ProjectCopy, Request
from ddpkit.launchers.registry import Launcher
from ddpkit.launchers.shell import quote, run_module
from ddpkit.launchers.slurm import Slurm
from ddpkit.node.child import with_safe_path
from ddpkit.run.record import CONTROL, RecordError, Run
from ddpkit.run.record import parse as parse_record
from ddpkit.transports.channel import LINE_LIMIT, RefusedError, at_home
from ddpkit.transports.choose import transport_class
from ddpkit.transports.hosts import HostSpec, parse
from ddpkit.transports.pool import Connector
from ddpkit.transports.scheduler import SlurmTransport
from ddpkit.transports.ssh.login_host import LoginHost, check_answer
from ddpkit.transports.ssh.login_host import of_record as of_record
from ddpkit.transports.transport import SshTransport

NOTE_INTERVAL = 8.0  # seconds between two notes about a launcher that is waited for
LIMIT = 120.0  # seconds until the remote launcher has started the run, or has failed
MOST_LINES = 100  # of that launcher's messages
MOST_DOCUMENTS = 8  # of its output that can be the record
_NO_FOLDER = 96  # an exit code that no program here has
# Reads {"env", "cwd", "argv"} and becomes the command. One line, and no quotes that a shell would need.
_BOOT = (
    "import os,sys,json;j=json.loads(sys.stdin.readline());os.environ.update(j[chr(101)]);"
    f"d=os.path.expanduser(j[chr(99)]);os.path.isdir(d) and os.access(d,os.X_OK) or sys.exit({_NO_FOLDER});os.chdir(d);"
    "os.execv(sys.executable,[sys.executable]+j[chr(97)])"
)


# ---- --via: the launcher stays here


@contextmanager
def approach_login_host(
    settings: LaunchSettings,
    backend: Launcher,
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
        launch = _LoginHostLaunch(settings=settings, backend=backend, host=host, spec=spec, note=note, dry=queries.dry)
        yield launch.prepare(via, progress)
    finally:
        host.close()


class _Place(NamedTuple):
    """Where a job runs on the login host, as that host found it."""

    workdir: str
    log_dir: str
    python: str
    host: Host


@dataclass(frozen=True, kw_only=True)
class _LoginHostLaunch:
    """Preparation of a launch on a login host."""

    settings: LaunchSettings
    backend: Slurm
    host: LoginHost
    spec: HostSpec
    note: Callable[[str], None]
    dry: bool

    @property
    def _project(self) -> Path:
        """The project on this machine. A working directory that is not here is that of the login host."""
        is_there = self.settings.is_given("workdir") or not Path(self.settings.workdir).is_dir()
        return Path("." if is_there else self.settings.workdir).absolute()

    def prepare(self, via: Via, progress: Callable[[str, int], None] | None) -> tuple[Job, Plan, SlurmTransport]:
        """Copy the project if --sync was given, look for all that the job needs, and make the job and its plan."""
        settings, project = self.settings, self._project
        workdir = self.spec.workdir or path_there(settings.workdir, project, "")
        copies: tuple[ProjectCopy, ...] = ()
        if settings.sync:
            way = Way(connector=self.host.way(), python=self.spec.python or ANY_PYTHON)
            target = [replace(self.spec, workdir=workdir)]
            copies = sync.bring(settings, target, str(project), way, progress, self.note)
        place = self._look(workdir, project, synced=bool(copies) and progress is None)
        nnodes, nproc = requested_nodes.number_of_nodes(settings, self.backend, {}), ranks_per_node(settings)
        hosts, counts = requested_nodes.scheduled_hosts(settings)
        request = Request(nnodes=nnodes, nproc_per_node=nproc, here=place.host, hosts=hosts, counts=counts, via=via)
        transport = SlurmTransport(nnodes, nproc, {}, self.host)
        transport.note = self.note
        job = job_elsewhere(settings, place.workdir, place.python, place.log_dir)
        self.host.control_file = Path(settings.log_dir).absolute() / job.run_id / CONTROL
        backend: Launcher = self.backend
        if not self.dry:  # with sinfo there
            backend = requested_nodes.exclude_bad_nodes(backend, request, settings, self.note, transport)
        return job, replace(backend.plan(job, request), sync=copies), transport

    def _look(self, workdir: str, project: Path, *, synced: bool) -> _Place:
        """Look for the directory, the script and a Python on the login host. `synced`: a launch would copy them there.

        Raises PreflightError for what is missing.
        """
        settings, contained = self.settings, bool(self.backend.container)
        first = settings.script[0]
        is_file = not contained and (first.endswith(".py") or "/" in first)
        automatic = settings.source("python") in AUTOMATIC
        python = settings.python
        if python.startswith("/"):
            python = path_there(python, project, workdir)
        # The first one that exists there is taken.
        pythons = ["python3"] if contained else [self.spec.python or python, *(["python3"] if automatic else [])]
        log_dir = settings.log_dir
        if log_dir.startswith("/"):
            log_dir = path_there(log_dir, project, workdir)
        script = first if is_file else ""
        args = {"script": script, "code": names_of_code(settings.script), "pythons": pythons, "login": not self.dry}
        facts = self.host.call("look", 20.0, workdir=workdir, log_dir=log_dir, **args)
        facts["scheduler"] = facts["scheduler"] or self.dry  # perhaps on the PATH of its login shell
        check_answer(facts, self.host, script=first, python=pythons[0], synced=synced)
        if automatic and facts["python"] != settings.python and not contained:
            self.note(f"Python of the ranks: {facts['python']} on {self.host.place}")
        return _Place(
            workdir=facts["workdir"],
            log_dir=facts["log_dir"],
            python=pythons[0] if contained else facts["python"],
            host=Host(name=facts["host"], slots=0, stale=tuple(facts["stale"])),
        )


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


# ---- --detach --on: the launcher starts there


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The output of the remote launcher."""

    code: int
    run: Run | None  # None: it has begun none
    messages: tuple[str, ...]  # lines of that host


@dataclass(frozen=True, kw_only=True)
class RemoteCommand:
    """The launcher's command on another host."""

    python: str
    workdir: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


def prepare_host(
    settings: LaunchSettings,
    spec: HostSpec,
    argv: Sequence[str],
    progress: Callable[[str, int], None],
    way: Connector,
    note: Callable[[str], None],
) -> RemoteCommand:
    """Make the command for a launcher on another host from that of this one. --sync copies the folder there first."""
    workdir = str(Path(settings.workdir).absolute())
    if settings.sync:
        way_of_copy = Way(connector=way, python=settings.python)
        sync.bring(settings, [spec], workdir, way_of_copy, progress, note)
    copies_on = transport_class(registry.load(settings.backend)).names_nodes  # --sync, from there to its nodes
    words, env = translate_command(argv, settings.env, copies_on=copies_on)
    return RemoteCommand(
        python=spec.python or settings.python, workdir=spec.workdir or workdir, argv=tuple(words), env=env
    )


def translate_command(
    argv: Sequence[str], env: Mapping[str, str], *, copies_on: bool
) -> tuple[list[str], dict[str, str]]:
    """The command line for the other host, without `--on`, and the variables that it needs there.

    `--env NAME=VALUE` becomes `--env NAME`: on a command line everybody could read the value. `copies_on`: keep --sync.
    """
    words, variables, rest = list[str](), dict(env), list(argv)
    left_out = {"--on", "--json"} if copies_on else {"--on", "--json", "--sync"}
    while rest and rest[0] != "--":
        word = rest.pop(0)
        option, attached, value = word.partition("=")
        if option in ("--on", "--env") and not attached and rest:
            value = rest.pop(0)
        if option == "--env":
            name, given, text = value.partition("=")
            variables |= {name: text} if given else {}
            words += ["--env", name]
        elif option not in left_out:
            words.append(word)
    words.insert(1, "--json")
    return words + rest, variables


def connector(settings: LaunchSettings, note: Callable[[str], None]) -> Connector:
    """Return the connector to the host, with the SSH options of the backend. Raises UsageError."""
    backend = registry.build(registry.load(settings.backend), settings.options)
    return SshTransport.connector(NodeOptions.of(backend), note)


def run_launcher(
    spec: HostSpec, command: RemoteCommand, way: Connector, note: Callable[[str], None] = lambda _: None
) -> Answer:
    """Run a launcher on a host to its end. Raises LaunchError where the host or ddpkit on it cannot be reached."""
    argv = ["-c", run_module("ddpkit"), *command.argv]
    request = {"e": with_safe_path(command.env), "c": command.workdir, "a": argv}
    until = time.monotonic() + LIMIT
    try:
        stream = way.enter(spec, f"exec {at_home(command.python)} -S -I -c '{_BOOT}'", until)
    except RefusedError as refused:
        raise LaunchError(f"{spec.label}: {refused.what}", refused.fix) from None
    output = bytearray()
    try:
        stream.write(json.dumps(request).encode() + b"\n")
        began = noted = time.monotonic()
        while time.monotonic() < until:
            output += stream.read()
            if len(output) > LINE_LIMIT:
                what = f"{spec.label}: its launcher printed more than {LINE_LIMIT >> 20} MiB"
                raise LaunchError(what, f"ssh {spec.target} {quote(at_home(command.python))} -m ddpkit ps")
            if time.monotonic() > noted + NOTE_INTERVAL:
                noted = time.monotonic()
                note(f"waiting for the launcher on {spec.label}: it has not started after {noted - began:.0f} s")
        raise LaunchError(f"{spec.label}: its launcher did not report a start within {LIMIT:g} s", f"ssh {spec.target}")
    except EOFError:
        code = stream.code()
    finally:
        stream.close()
        way.close()
    return _read_answer(code, output.decode("utf-8", "replace"), spec, command)


def _read_answer(code: int, text: str, spec: HostSpec, command: RemoteCommand) -> Answer:
    """Read what a launcher printed. Raises LaunchError, UsageError where it could not start, or its run is none."""
    python = quote(at_home(command.python))
    if re.search("No module named '?(ddpkit|typer)", text) or code in (126, 127):
        fix = f"ssh {spec.target} {python} -m pip install ddpkit, or --python PATH with ddpkit installed"
        raise LaunchError(f"{spec.label}: {command.python} has no ddpkit, which --on requires", fix)
    if code == _NO_FOLDER:
        workdir = command.workdir
        raise UsageError(
            f"{spec.label}: directory not found: {workdir}",
            f"--workdir DIR, or --sync from {shlex.quote(str(workdir))}",
        )
    begin, end, document = _find_record(text) if code == 0 else (0, 0, None)
    try:
        run = parse_record(document) if document is not None else None
    except RecordError as error:
        what = f"{spec.label}: its launcher began a run with a record that is none: {error.why}"
        raise LaunchError(what, f"ssh {spec.target} {python} -m ddpkit ps") from None
    said = (words_of_node(line) for line in f"{text[:begin]}\n{text[end:]}".splitlines())
    return Answer(code=code, run=run, messages=tuple(line for line in said if line.strip())[-MOST_LINES:])


def _find_record(text: str) -> tuple[int, int, object]:
    """Find the record among the launcher's messages and those of start-up files: its place, and its JSON; or None."""
    begins = [match.start() for match in re.finditer(r"^\{$", text, re.MULTILINE)]
    for begin in reversed(begins[-MOST_DOCUMENTS:]):
        try:
            value, end = json.JSONDecoder().raw_decode(text, begin)
        except (ValueError, RecursionError):
            continue
        if "run_id" in value:
            return begin, end, value
    return 0, 0, None
