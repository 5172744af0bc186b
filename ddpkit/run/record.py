"""Record of a run, in its folder beside its logs: what ran, where, and how it ended.

A record is data. It names a backend and a job, and nothing that is executed, deleted, signalled or connected to. Types,
forms and bounds of all fields are checked when it is read. The record is in the run's own folder;
`ddpkit/run/run_index.py` finds that folder from every shell.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import urlsplit

from ddpkit.diagnosis.outcome import Decision
from ddpkit.diagnosis.outcome import Diagnosis as Diagnosis  # part of the record
from ddpkit.diagnosis.outcome import Failure as Failure
from ddpkit.errors import UsageError
from ddpkit.files import create, make_directories, make_directory, release_directory, remove_files, write_atomically
from ddpkit.launchers import typed_json
from ddpkit.launchers.host_names import JOB_ID, Via
from ddpkit.launchers.typed_json import Between, Count, FilePath, Form, HostWord, Seconds
from ddpkit.run import run_files, state
from ddpkit.run.log_files import INDEX
from ddpkit.run.run_files import read_own, read_private
from ddpkit.run.state import EndState, Origin, RunState
from ddpkit.text import format_duration, one_line

if TYPE_CHECKING:
    from ddpkit.launchers.job_output import JobOutput
    from ddpkit.launchers.node_facts import RecordedFacts
    from ddpkit.machine import Machine
    from ddpkit.run.timeline import LaunchFile, TimelineFile

_T = TypeVar("_T")
FORMAT = 2  # of the record; grows when a field is added or changes its meaning
FILE = "run.json"
ATTEMPTS = "attempts.json"  # of a submitted job: its script writes it
# Of a submitted job: the launcher that follows it writes it, and its script removes it.
STEP_FAILURE, STEP_FAILURE_PATIENCE = "step_failure.json", 2.0  # seconds
REQUESTS = "requests"  # numbers of signals, one a line
CONTROL = "connection"  # path of the control socket to a login host

MOST_BYTES = 1 << 24  # of one file
MOST_PATH = 4096  # bytes of the path of a socket

RunId = Annotated[str, Form(r"\d{8}-\d{6}-[A-Za-z0-9_.-]{1,96}", "the id of a run")]
JobId = Annotated[str, Form(JOB_ID, "the id of a job")]
ReplicaName = Annotated[str, Form(r"[a-z][a-z0-9_-]{0,31}\.\d{1,5}", "the name of a replica")]
BackendName = Annotated[str, Form(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "the name of a backend")]
Clock = Annotated[str, Form(r"[\x20-\x7e]{0,64}", "a time as a kernel or a scheduler prints it")]
ExitCode = Annotated[int, Between(-(1 << 31), 1 << 31)]
Ranks = Annotated[int, Between(0, 1_000_000)]  # of one run: what counts them ends soon
RanksByHost = dict[HostWord, list[Count]]


class RecordError(UsageError):
    """A file of a run that cannot be understood. The message names it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not a record of ddpkit: {why}", f"ls -l {shlex.quote(str(path))}")
        self.why = why


@dataclass(frozen=True, kw_only=True)
class Session:
    """A tmux session that holds the launcher. `ddpkit/run/tmux.py` makes its names of the token and the run's id."""

    token: Annotated[str, Form(r"[0-9a-f]{8,32}", "a token")]


@dataclass(frozen=True, kw_only=True)
class RecordedJob:
    """The identity of a scheduler's job, and its output. Commands for it are the backend's.

    A scheduler can give a number again, and two clusters can have one home: all of the identity has to match. Empty:
    not known.
    """

    cluster: str = ""
    controller: str = ""  # of the cluster, which may have the name of another one
    name: str = ""
    user: str = ""
    submitted: Clock = ""  # as the scheduler prints it, in UTC
    log: FilePath  # its output file, with {job} for the job's id
    many: bool  # an array: one such file for each of its jobs
    labels: bool = True  # srun started its ranks: another step can reach them
    groups: tuple[Count, ...] = ()  # ranks in each group of a heterogeneous job
    poll: Annotated[float, Between(1, 86400)] = 60.0  # seconds between two queries of a process
    via: Via | None = None


@dataclass(frozen=True, kw_only=True)
class RecordedHold:
    """What a launch takes from a hold where it says nothing else."""

    hosts: tuple[str, ...]  # as they were typed; none for this machine
    nproc_per_node: str
    options: dict[str, str]
    in_job: bool = False  # its nodes are those of the run's `job_id`


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt of a run. `decision`: what followed from its end, and why; None: it succeeded, or has not ended."""

    number: Count  # from 1
    hosts: tuple[HostWord, ...]
    started: Seconds
    ended: Seconds | None = None
    exit_code: ExitCode | None = None
    verdict: str | None = None
    failure: Failure | None = None
    progress: float | None = None  # step of the metrics, or the time of the newest file; None: not known
    first_step: Seconds | None = None  # of the first rank; None: none was seen
    saved: Seconds | None = None  # time of the last progress; None: not known
    decision: Decision | None = None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings that decide whether another attempt follows."""

    retries: Count
    retry_codes: tuple[ExitCode, ...]
    stop_codes: tuple[ExitCode, ...]
    progress: str
    metrics: str
    bad_nodes: FilePath
    workdir: FilePath
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AttemptsFile:
    """Attempts of a submitted job, which its script writes on a node."""

    rules: Rules
    nodes: Count  # of one attempt
    hosts: tuple[HostWord, ...] = ()  # of the job's allocation; empty: not known yet
    spares: tuple[HostWord, ...] = ()
    replaced: dict[HostWord, str] = field(default_factory=dict)  # reasons by host
    attempts: tuple[Attempt, ...] = ()

    def save(self, folder: Path) -> None:
        """Replace the file. Raises OSError."""
        write_atomically(folder / ATTEMPTS, json.dumps(asdict(self), indent=2) + "\n")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Record of one run. Its hosts, ranks and failure are those of its last attempt.

    `state`: running, done, failed, stopped; for a job that nobody follows left, or over (how it ended is not known).
    """

    run_id: RunId
    folder: FilePath
    backend: BackendName
    command: tuple[str, ...]
    workdir: FilePath
    hosts: tuple[HostWord, ...]
    world_size: Ranks
    launcher_pid: Annotated[int, Between(1, 1 << 22)]
    launcher_started: Clock  # of the process, in clock ticks since boot: tells a reused process id from the launcher
    launcher_host: HostWord
    started: Seconds
    launcher_boot: Clock = ""  # of the host, and the launcher's process namespace: where the process id means anything
    launcher_python: FilePath = ""  # has ddpkit there, where a shell that is no login's may not find it
    ranks: RanksByHost = field(default_factory=dict)  # on each host, where that is known from the start
    grace: Seconds = 15.0
    ended: Seconds | None = None
    state: EndState | Literal[RunState.RUNNING, RunState.LEFT] = RunState.RUNNING
    exit_code: ExitCode | None = None
    verdict: str | None = None
    job_id: JobId | None = None  # the scheduler's; without a `job`, that of the hold which has the nodes
    job: RecordedJob | None = None
    session: Session | None = None
    failure: Failure | None = None  # the first failure of a run that failed
    project: FilePath = ""  # directory of the project in which the run was started
    in_program: bool = False  # its launcher is a thread of another program: it reads requests, and takes no signals
    settings_file: FilePath = ""  # the ddpkit.toml that was read; empty: none
    code: Code | None = None  # git; None: not known (yet)
    versions: dict[HostWord, Versions] = field(default_factory=dict)  # on each host, from the end of the run on
    attempts: tuple[Attempt, ...] = ()  # of a run with --retries
    spares: tuple[HostWord, ...] = ()  # hosts that can still replace others
    log_problem: str = ""  # what is missing in its logs, and why
    hold: RecordedHold | None = None  # of a run that keeps a warm Python for launches
    replicas: tuple[ReplicaName, ...] = ()  # of a run of roles; each is a run in `roles/`
    logins: dict[HostWord, Via] = field(default_factory=dict)  # to each of its hosts that was reached by SSH
    format: Annotated[int, Between(FORMAT, FORMAT)] = FORMAT
    origin: Origin = Origin.OTHERS  # until something shows more
    marker: tuple[int, int] | None = None  # device and inode of the marker in its folder; the index alone has them
    unsaved: ClassVar = frozenset({"origin", "marker"})

    @property
    def duration(self) -> str:
        """The time from the start to the end, in words; empty: the end is not known."""
        return format_duration(self.ended - self.started) if self.ended else ""

    def as_data(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return {name: value for name, value in asdict(self).items() if name not in self.unsaved}

    def save(self) -> None:
        """Replace the record: a reader sees the old one or the new one. Raises OSError."""
        write_atomically(Path(self.folder) / FILE, json.dumps(self.as_data(), indent=2) + "\n")


def attempt_folder(folder: Path, number: int) -> Path:
    """Return the directory of the logs of an attempt that another one followed."""
    return folder / f"attempt-{number}"


# ---- reading


def load(folder: Path) -> Run | None:
    """Read a record; None where there is none. The folder may have moved. Raises RecordError."""
    try:
        run = read_record(folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise RecordError(folder / FILE, error.strerror or str(error)) from None
    return run


def read_record(folder: Path) -> Run:
    """Read the record in a folder. Raises RecordError, OSError."""
    content, private = read_private(folder, FILE, MOST_BYTES)
    # Of a run that was renamed, nothing can be told from another one.
    private = private and not folder.is_symlink()
    run = read(Run, content, folder / FILE)
    origin = Origin.DIRECTORY if private and folder.name == run.run_id else Origin.OTHERS
    run = replace(run, folder=str(folder.absolute()), origin=origin)
    if origin is Origin.OTHERS:
        run = without_hint(run)
    if run.job is not None and (of_job := load_attempts(folder)) is not None:
        run = replace(run, attempts=of_job.attempts, spares=of_job.spares)
    return run


def without_hint(run: Run) -> Run:
    """Return a record without the hint of its failure: it is a command of ddpkit's, and what others wrote is none."""
    if run.failure is None or run.failure.diagnosis is None:
        return run
    return replace(run, failure=replace(run.failure, diagnosis=replace(run.failure.diagnosis, fix="")))


def load_attempts(folder: Path) -> AttemptsFile | None:
    """Read the attempts of a submitted job; None where the run is another one. Raises RecordError."""
    return _load(AttemptsFile, folder, ATTEMPTS)


def keep_step_failure(folder: Path, failure: Failure) -> None:
    """Keep a failure for which a step of a submitted job is ended, for the job's script.

    A disk that does not answer is waited for a moment: the step has to end. Without the file, the script decides by the
    exit code of the step.
    """

    def keep() -> None:
        with suppress(OSError):
            write_atomically(folder / STEP_FAILURE, json.dumps(asdict(failure)) + "\n")

    thread = threading.Thread(target=keep, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be had
        keep()
    else:
        thread.join(STEP_FAILURE_PATIENCE)


def take_step_failure(folder: Path) -> Failure | None:
    """Return the failure for which a step of a submitted job was ended, and remove its file; None: not found."""
    try:
        failure = _load(Failure, folder, STEP_FAILURE)
        remove_files(os.fspath(folder), run_files.KIND, lambda name: name == STEP_FAILURE)
    except (OSError, RecordError):
        return None
    return failure


def parse(data: Any) -> Run:
    """Read a record from a document that a launcher printed, which has more than the record. Raises RecordError."""
    known = {entry.name for entry in fields(Run)} - Run.unsaved
    values = {name: value for name, value in data.items() if name in known} if isinstance(data, dict) else data
    return build(Run, values, Path("the output of the launcher"))


def build(kind: type[_T], data: Any, path: Path) -> _T:
    """Return JSON types as a value of this type. Raises RecordError, which names the path."""
    try:
        return typed_json.read(kind, data)
    except typed_json.FormatError as error:
        written = data.get("format") if kind is Run and isinstance(data, dict) else FORMAT
        why = str(error)
        if isinstance(written, int) and written != FORMAT:
            why = f"{'a later' if written > FORMAT else 'an older'} ddpkit wrote it (format {written})"
        raise RecordError(path, why) from None


def read(kind: type[_T], content: bytes, path: Path) -> _T:
    """Return the text of a JSON file as a value of this type. Raises RecordError."""
    try:
        return build(kind, typed_json.parse(content), path)
    except typed_json.FormatError as error:
        raise RecordError(path, str(error)) from None


def _load(kind: type[_T], folder: Path, name: str) -> _T | None:
    try:
        return read(kind, read_private(folder, name, MOST_BYTES)[0], folder / name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RecordError(folder / name, error.strerror or str(error)) from None


# ---- names


def new_id(name: str) -> str:
    """Return a name that sorts by time and says what ran: `20260131-235959-train-3fa9`."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-{os.urandom(2).hex()}"


def name_of(command: tuple[str, ...]) -> str:
    """Return the name of a run of this command, where it has no other: that of the script."""
    # Code is no name; what follows it can be.
    words = [word for word in command[2 * (command[0] == "-c") :] if not word.startswith("-")] or ["run"]
    return usable_name(Path(words[0]).stem.replace(".", "-"))


def usable_name(text: str) -> str:
    """Return the text as a name of a run, which is a part of its id, its directory and its SLURM job."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text)[:24].strip("-.") or "run"


def make_folder(log_dir: Path, run_id: str) -> Path:
    """Make the run's own folder under `log_dir`, and hold it until `release_directory`. Raises UsageError."""
    folder = log_dir / run_id
    try:
        make_directories(log_dir)
        make_directory(str(folder), run_files.KIND, run_files.MODE, hold=True)
        create(folder / INDEX, "")
    except OSError as error:
        raise UsageError(
            f"cannot write logs to {folder}: {error.strerror}", "choose a writable directory: --log-dir DIR"
        ) from None
    return folder


def release_folder(folder: Path) -> None:
    """Hold a run's folder no longer: this process writes nothing more there."""
    release_directory(str(folder))


# ---- the machine with the scheduler and the output of a job: this one, or a login host

_machines: dict[tuple[Via, str], Machine] = {}


def machine_of(run: Run) -> Machine:
    """Return the machine with the scheduler and the output of a run's job. One connection serves all calls.

    Raises UsageError for a login host that only a record outside of the index names.
    """
    from ddpkit.machine import HERE

    via = run.job.via if run.job else None
    if via is None:
        return HERE
    if run.origin is not Origin.INDEX:
        what = f"run {run.run_id} is not in this user's index: ddpkit connects to no host that its record names"
        raise UsageError(what, f"on {via.host}: ddpkit ps")
    key = (via, run.folder)
    if key not in _machines:
        assert state.connect is not None
        _machines[key] = state.connect(via, lambda: _control(run))
    return _machines[key]


def _control(run: Run) -> str:
    """Return the path of the control socket of a run's launch; empty where others could have written it."""
    try:
        return read_own(Path(run.folder), CONTROL, MOST_PATH, run.marker).decode()
    except (OSError, UnicodeDecodeError):
        return ""


def job_log(run: Run) -> str:
    """Return the path of the output of a run's job on that machine. Raises UsageError as `check_output`."""
    assert run.job is not None
    path = run.job.log.replace("{job}", run.job_id or "")
    check_output(run, path)
    return path


def check_output(run: Run, path: str) -> None:
    """Raise UsageError for a file that is not shown: a record outside of the index may name any file of this user's."""
    if run.origin is not Origin.INDEX and not _is_inside(path, run.folder):
        whose = "is another user's" if run.origin is Origin.OTHERS else "is not in this user's index"
        what = f"the record of run {run.run_id} names an output outside of its directory, and {whose}"
        raise UsageError(f"{what}: {one_line(path)}")


def reader_of(run: Run) -> JobOutput:
    """Return a reader of the output of a run's job."""
    from ddpkit.launchers.job_output import JobOutput

    assert run.job is not None
    return JobOutput(run.world_size, groups=run.job.groups)


def _is_inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(folder)}/")


# ---- state of the code of a run: its git commit, and the versions of Python, torch, CUDA and NCCL on each node


GIT_LIMIT = 20.0  # seconds for git: it runs beside the launch
# A directory can be a repository that somebody else made, and its configuration names programs: so can any directory of
# a clone, as a bare repository.
_GIT_SAFE = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_GIT_ENV = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}  # another git may want to write
# Settings with which a look at the tracked files runs no program: no filter, no way to a remote for missing files.
_RUNS_NOTHING = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|precomposeunicode|autocrlf|eol"
    r"|safecrlf|quotepath|sparsecheckout\w*|editor|pager|sshcommand|hookspath|fsmonitor)"
    r"|remote\..*\.(?:url|pushurl|fetch|push|mirror|prune|tagopt)|extensions\.objectformat"
    r"|(?:branch|user|submodule|lfs|pull|push|fetch|gc|gui|init|advice|rebase|credential)\..*"
)


@dataclass(frozen=True, kw_only=True)
class Code:
    """Git commit of the working directory."""

    commit: str  # empty: there is none yet
    branch: str  # empty: none is checked out
    dirty: bool | None  # tracked files differ from the commit; None: not looked, for that would run a program
    remote: str  # URL of `origin`, without user, password and query; empty: none


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions on one node. Empty: not known, or not there."""

    python: str = ""
    torch: str = ""
    cuda: str = ""
    nccl: str = ""


def read_code(workdir: str) -> Code | None:
    """Ask git for the state of a directory; None where it is in no repository, or git is slow or absent.

    `dirty` is None where a look at the files could run a program that the repository's own settings name.
    """
    scopes, names, values = _settings(workdir)
    remote = next((value for name, value in zip(names[::-1], values[::-1], strict=True) if name == _REMOTE), "")
    own = [name for scope, name in zip(scopes, names, strict=True) if scope in ("local", "worktree")]
    state = _git(workdir, *_STATUS) if own and all(map(_RUNS_NOTHING.fullmatch, own)) else None
    if state is not None:
        lines = state.splitlines()
        facts = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
        commit, branch = (facts.get(name, "") for name in ("branch.oid", "branch.head"))
        dirty: bool | None = not all(line.startswith("# ") for line in lines)
    else:
        if _git(workdir, "rev-parse", "--git-dir") is None:
            return None
        commit = (_git(workdir, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
        branch = (_git(workdir, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip()
        dirty = None
    commit, branch = ("" if each in ("(initial)", "(detached)") else each for each in (commit, branch))
    return Code(commit=commit, branch=branch, dirty=dirty, remote=without_secrets(remote))


_REMOTE = "remote.origin.url"
_STATUS = (
    "status",
    "--porcelain=v2",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=no",
    "--ignore-submodules=dirty",
)


def _settings(workdir: str) -> tuple[list[str], list[str], list[str]]:
    """Return the scope, the name and the value of each of git's settings; none where git is older than 2.26."""
    words = (_git(workdir, "config", "--list", "--includes", "--show-scope", "-z") or "").split("\0")[:-1]
    pairs = [each.partition("\n") for each in words[1::2]]
    return words[::2], [name for name, _, _ in pairs], [value for _, _, value in pairs]


def _git(workdir: str, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *_GIT_SAFE, *words],
            cwd=workdir,
            env={**os.environ, **_GIT_ENV},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def without_secrets(url: str) -> str:
    """Remove user, password and query from a URL: `https://x:token@host/a.git` becomes `https://host/a.git`."""
    if "://" not in url:
        user, at, rest = url.partition("@")  # git@host:path; a path on this machine may have an @
        return rest if at and "/" not in user else url
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def node_versions(launch: LaunchFile | None, timeline: TimelineFile | None) -> dict[str, Versions]:
    """Versions by host: those that a rank reported after `import torch`, else those that the node reported before."""
    versions = {host: _surveyed(facts) for host, facts in (launch or {}).get("nodes", {}).items()}
    for rank in (timeline or {}).get("ranks", {}).values():
        words = rank.get("versions")
        if words and len(words) == 4:
            python, torch, cuda, nccl = ("" if word == "-" else str(word) for word in words)
            before = versions.get(rank.get("host", ""), Versions())
            versions[rank.get("host", "")] = Versions(
                python=python if python.count(".") == 2 or not before.python else before.python,
                torch=torch,
                cuda=cuda or before.cuda,
                nccl=nccl or before.nccl,
            )
    return {host: each for host, each in versions.items() if each != Versions()}


def _surveyed(facts: RecordedFacts) -> Versions:
    torch = facts.get("torch")
    return Versions(python=facts.get("python") or "", torch=(torch.get("version") if torch else None) or "")
