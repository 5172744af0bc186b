"""Copies the project, and with it a virtual environment, to the local disk of each node before the ranks start.

One copy for each content: `ddpkit.node.stage` finds, verifies and removes copies on a node, rsync brings them there.
A copy shares unchanged files with earlier ones. Ranks keep their working directory: only code is read from the copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypedDict

from ddpkit.errors import UsageError
from ddpkit.execution import rsync
from ddpkit.execution.stage_sources import CopySources, ServedCopy
from ddpkit.launchers.nodes import NodeOptions
from ddpkit.launchers.plan import Job, LocalCopy, Staging
from ddpkit.launchers.shell import join
from ddpkit.node.stage import measure
from ddpkit.run.timeline import NodeCopy
from ddpkit.transports.channel import Channel, NoAnswerError, RefusedError
from ddpkit.transports.connect import Connector
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import NodePool
from ddpkit.transports.problem import Problem, refusal

PATIENCE = 600.0  # seconds: for another launch's copy, and for a node to verify one
LOOK_AGAIN = 0.3  # seconds
UNNAMED = sys.platform == "linux"  # an open file of this process can be read without a name
ANY_PYTHON = "python3"  # of a node: a conda environment that is not there yet needs none
BLOCK = 4096  # bytes that a small file takes on a disk


class Answer(TypedDict):
    """The answer of `stage.look`."""

    state: Literal["present", "busy", "absent"]
    bases: list[str]  # other copies of this kind
    problem: str
    fix: str
    machine: str
    python: list[int]


class ServeAnswer(TypedDict):
    """The answer of `stage_peer.serve`."""

    problem: str
    addresses: tuple[str, ...]
    port: int
    key: str
    digest: str


class FetchAnswer(TypedDict):
    """The answer of `stage_peer.fetch`."""

    size: int
    problem: str


@dataclass(frozen=True, kw_only=True)
class Content:
    """A directory to be copied: its files, and what they hold."""

    kind: Literal["project", "env"]
    source: str
    names: tuple[str, ...]
    size: int  # bytes
    digest: str
    base: str = ""  # Python of a virtual environment, which it does not contain; a conda environment has its own
    version: tuple[int, ...] = ()  # of that Python

    @property
    def name(self) -> str:
        """The name of its copy. Programs of a virtual environment hold its path."""
        key = self.digest + (self.source if self.kind == "env" else "")
        return f"{self.kind}-{hashlib.sha256(key.encode()).hexdigest()[:20]}"

    @property
    def needs(self) -> list[int]:
        """Bytes and files that a disk must have room for."""
        return [self.size + BLOCK * len(self.names), len(self.names)]

    def copy(self, root: str) -> LocalCopy:
        """Describe the copy for the plan."""
        target = f"{root}/{self.name}"
        return LocalCopy(source=self.source, target=target, files=len(self.names), size=self.size, missing=())

    @cached_property
    def packed(self) -> str:
        """The names, as `ddpkit.node.stage.unpack` reads them: for a virtual environment, tens of thousands."""
        return b64encode(zlib.compress("\0".join(self.names).encode("utf-8", "surrogateescape"))).decode()

    def list_args(self, root: str) -> dict[str, str | bool]:
        """Name the copy and its files, for `ddpkit.node.stage` and `stage_peer`."""
        return {"names": self.packed, "content": self.kind == "project", "root": root, "name": self.name}

    def finish_args(self, root: str, served: ServedCopy | None = None) -> dict[str, str | bool]:
        """Arguments of `ddpkit.node.stage.finish`. `served`: a node's, whose programs have their new path."""
        wanted, moved = self.digest, self.source if self.kind == "env" else ""
        if served is not None and moved:
            wanted, moved = served.digest, ""
        return {**self.list_args(root), "wanted": wanted, "moved_from": moved}

    def argv(self, spec: HostSpec, bases: Sequence[str], stager: Stager) -> list[str]:
        """The command line of rsync to a node. `bases`: copies that share unchanged files."""
        root, way, new = stager.root, stager.way, stager.accept_new
        words = [
            "--info=stats1",
            "--from0",
            "--files-from=-",
            "--no-owner",
            "--no-group",
            "--omit-dir-times",
        ]
        words += ["--checksum"] if self.kind == "project" else []
        words += [f"--link-dest={root}/{base}" for base in bases]
        target = f"{root}/{self.name}/"
        read = ("sh", "-c", 'names=$1; shift; exec "$@" < "$names"', "sh", stager.listed[self.name])
        return [*read, *rsync.command(spec, f"{self.source}/", target, words, way.timeout, accept_new=new)]


def project(workdir: str, log_dir: str) -> Content:
    """Return the files that --sync copies. Raises UsageError."""
    names = rsync.list_files(workdir, rsync.selection(workdir, log_dir))
    stamp, size = measure(workdir, names, content=True)
    return Content(kind="project", source=workdir, names=tuple(names), size=size, digest=stamp)


def environment(python: str) -> Content:
    """Return the files of the virtual environment or conda environment of a Python. Raises UsageError."""
    path = shutil.which(os.path.expanduser(python))  # noqa: PTH111
    prefix = Path(path).absolute().parent.parent if path else Path("/nowhere")
    config = prefix / "pyvenv.cfg"
    base, version = _base_python(str(path), config) if config.is_file() else ("", ())
    if sys.platform != "linux":
        raise UsageError("--stage=env: this machine does not run Linux, and the nodes do", "add --stage")
    if not base and not (prefix / "conda-meta").is_dir():
        what = f"--stage=env: {python} is in no virtual environment or conda environment on this machine"
        raise UsageError(what, "add --stage, or --python ENV/bin/python")
    names, top = [], str(prefix)
    for folder, folders, files in os.walk(top):
        if not base and folder == top:  # conda's base environment holds the others, and a cache
            folders[:] = [each for each in folders if each not in ("envs", "pkgs")]
        inside = folder[len(top) + 1 :] + "/" if folder != top else ""
        names += [inside + each for each in folders + files]
    names = [name for name in names if name not in ("pip.conf", ".condarc")]  # they can hold a password
    stamp, size = measure(top, names, content=False)
    return Content(
        kind="env", source=str(prefix), names=tuple(names), size=size, digest=stamp, base=base, version=version
    )


def _base_python(path: str, config: Path) -> tuple[str, tuple[int, ...]]:
    """Find the Python that a virtual environment does not contain, and its version."""
    lines = (line.partition("=") for line in config.read_text().splitlines())
    values = {key.strip(): value.strip() for key, _, value in lines}
    version = tuple(int(part) for part in (values.get("version") or values["version_info"]).split(".")[:2])
    base = os.path.realpath(path)
    if Path(base).is_relative_to(config.parent):  # a copy, which needs the library of its base
        base = f"{values['home']}/python{version[0]}.{version[1]}"
    return base, version


def relocate(job: Job, contents: Sequence[Content], root: str) -> Job:
    """Return the job with its script, module or Python in the copies. Pure. Raises UsageError."""
    for content in contents:
        target = f"{root}/{content.name}"
        if content.kind == "env":
            job = replace(job, python=f"{target}/bin/{Path(job.python).name}")
        first, *rest = job.command
        if job.kind == "module":
            job = replace(job, command=_module(first, rest, target)) if content.kind == "project" else job
        elif job.kind == "script" or "/" in first:
            path = Path(os.path.normpath(Path(job.workdir, first)))
            inside = path.is_relative_to(content.source)
            name = str(path.relative_to(content.source)) if inside else ""
            if inside and name not in content.names:
                raise UsageError(
                    f"--stage: {first} is in .gitignore, and is not copied",
                    f"git check-ignore -v {shlex.quote(first)}",
                )
            if inside:
                job = replace(job, command=(f"{target}/{name}", *rest))
    return job


def _module(flag: str, rest: Sequence[str], target: str) -> tuple[str, ...]:
    """Run a module of the copy, or code that imports from it: Python itself searches the working directory first."""
    if flag == "-c":
        return ("-c", f"import sys; sys.path[0] = {target!r}; exec({rest[0]!r})", *rest[1:])
    text = f"import runpy, sys; sys.path[0] = {target!r}; runpy._run_module_as_main({rest[0]!r})"
    return ("-c", text, *rest[1:])


def check_node(content: Content, answer: Answer) -> tuple[str, str] | None:
    """Find the reason why a node cannot use a copy, and the fix. Pure."""
    if answer["problem"]:
        return answer["problem"], answer["fix"]
    if content.version and tuple(answer["python"]) != content.version:
        have, needs = (".".join(map(str, each)) for each in (answer["python"], content.version))
        return f"{content.base} is Python {have}, and {content.source} requires {needs}", "add --stage"
    if content.kind == "env" and answer["machine"] != os.uname().machine:
        return f"its architecture is {answer['machine']}, and this machine's is {os.uname().machine}", "add --stage"
    return None


@dataclass(frozen=True, kw_only=True)
class Staged:
    """The job in the copies, and the nodes that had none."""

    job: Job
    specs: tuple[HostSpec, ...]
    copies: tuple[LocalCopy, ...]
    base: str  # Python of the nodes where the copy of the virtual environment is missing (dry run); empty: it is there
    complete: bool  # all nodes have all copies
    times: Mapping[str, Sequence[NodeCopy]]  # by host


@dataclass(kw_only=True)
class Stager:
    """Brings copies to all nodes, each over its own connection."""

    contents: Sequence[Content]
    root: str
    way: Connector
    accept_new: bool
    progress: Callable[[str, int], None] | None  # None: a dry run
    note: Callable[[str], None]
    missing: dict[str, list[str]] = field(default_factory=dict)  # labels, by name of a copy
    listed: dict[str, str] = field(default_factory=dict)  # files with names, by name of a copy
    times: dict[str, list[NodeCopy]] = field(default_factory=dict)  # by label
    sources: CopySources = field(default_factory=lambda: CopySources(rsync.AT_ONCE))

    def run(self, pool: NodePool, least: int | None) -> tuple[HostSpec, ...]:
        """Copy. Returns the nodes that have the copies: all, or at least `least`. Raises the refusal."""
        problems = pool.connect()
        bad = {problem.host for problem in problems}
        specs = [spec for spec in pool.specs if spec.label not in bad]
        self.sources.expect(len(specs))

        def one(index: int) -> None:
            spec = specs[index]
            try:
                for content in self.contents:
                    problem = self._bring(spec, pool.channel(spec.label), content)
                    if problem is not None:
                        problems.append(problem)
                        return
            except Exception as error:  # a thread that dies in silence would count as a success
                known = isinstance(error, NoAnswerError | RefusedError)
                what = str(error) if known else f"{type(error).__name__}: {error}"
                fix = f"ssh {spec.target} uptime"
                problems.append(Problem(host=spec.label, what=what, fix=fix, unreachable=True))

        with ExitStack() as files:
            for content in self.contents:
                file = files.enter_context(tempfile.NamedTemporaryFile(prefix="ddpkit-names-", delete=not UNNAMED))
                if UNNAMED:  # a launcher that is killed leaves no file
                    Path(file.name).unlink()
                file.write(b"".join(b"./" + os.fsencode(name) + b"\0" for name in content.names))
                file.flush()
                self.listed[content.name] = f"/proc/{os.getpid()}/fd/{file.fileno()}" if UNNAMED else file.name
            if least is not None or not problems:
                rsync.in_threads(one, len(specs))
        if least is None and problems:
            raise refusal(problems, len(pool.specs))
        pool.drop_failed(problems, least, self.note)
        return pool.specs

    def _bring(self, spec: HostSpec, channel: Channel, content: Content) -> Problem | None:
        began = time.time()

        def brought(size: int | None, source: str = "") -> Problem | None:
            copied, ended = size is not None, time.time()
            copy = NodeCopy(kind=content.kind, copied=copied, size=size or 0, source=source, began=began, ended=ended)
            self.times.setdefault(spec.label, []).append(copy)
            if self.progress is not None and self.sources.wanted(content.name, spec.label, copied=copied):
                return self._serve(spec, channel, content, fresh=copied)
            return None

        answer = self._look(spec, channel, content)
        refused = check_node(content, answer)
        if refused is not None:
            return Problem(host=spec.label, what=refused[0], fix=refused[1], check="stage")
        if answer["state"] == "present":
            return brought(None)
        self.missing.setdefault(content.name, []).append(spec.label)
        if self.progress is None:
            return None
        while True:
            with self.sources.turn(content.name, spec.label) as served:
                problem, size = self._copy(spec, channel, content, answer["bases"], served)
                if problem is None:
                    channel.ask("stage.finish", content.finish_args(self.root, served), beats=True)
                    done: Mapping[str, str] = channel.answer(time.monotonic() + PATIENCE)
                    if done["problem"]:
                        return Problem(host=spec.label, what=done["problem"], fix=done["fix"])
                    return brought(size, served.label if served else "")
                if served is None:
                    channel.ask("stage.release", {"root": self.root, "name": content.name})
                    return problem
                self.sources.drop(served.label)
                self.note(f"{spec.label}: cannot copy from {served.label}: {problem.what}; trying another source")

    def _copy(
        self, spec: HostSpec, channel: Channel, content: Content, bases: Sequence[str], served: ServedCopy | None
    ) -> tuple[Problem | None, int]:
        """Copy from a node that has it, or from here. Returns the problem, and the bytes."""
        assert self.progress is not None
        if served is None:
            argv = rsync.with_login(content.argv(spec, bases, self), join(self.way.login(spec)))
            return rsync.copy_one(spec, argv, self.progress, lambda: self._check_alive(channel))
        args = {**content.list_args(self.root), "addresses": served.addresses, "port": served.port}
        channel.ask("stage_peer.fetch", {**args, "bases": bases, "key": served.key}, beats=True)
        fetched: FetchAnswer = channel.answer(time.monotonic() + PATIENCE)
        if fetched["problem"]:
            return Problem(host=served.label, what=fetched["problem"], fix=""), 0
        self.progress(spec.label, 100)
        return None, fetched["size"]

    def _check_alive(self, channel: Channel) -> None:
        """Raise NoAnswerError for a node that is lost: its rsync would wait for it much longer."""
        if channel.silence:
            channel.ask("stage.release", {"root": self.root, "name": ""}, beats=True)  # it has no lock of that name
            channel.answer(time.monotonic() + PATIENCE)

    def _serve(self, spec: HostSpec, channel: Channel, content: Content, *, fresh: bool) -> Problem | None:
        args = {"root": self.root, "name": content.name, "content": content.kind == "project", "fresh": fresh}
        channel.ask("stage_peer.serve", args, beats=True)
        answer: ServeAnswer = channel.answer(time.monotonic() + PATIENCE)
        if answer["problem"]:
            return Problem(host=spec.label, what=answer["problem"], fix="launch again, which repairs them")
        served = ServedCopy(
            label=spec.label,
            addresses=answer["addresses"],
            port=answer["port"],
            key=answer["key"],
            digest=answer["digest"],
        )
        self.sources.add(content.name, served)
        return None

    def _look(self, spec: HostSpec, channel: Channel, content: Content) -> Answer:
        args = {"root": self.root, "name": content.name, "needs": content.needs, "dry": self.progress is None}
        until, noted = time.monotonic() + PATIENCE, False
        while True:
            channel.ask("stage.look", args, beats=True)
            answer: Answer = channel.answer(until)
            if answer["state"] != "busy":
                return answer
            if time.monotonic() > until:
                raise NoAnswerError(f"another launch has copied {content.name} for {PATIENCE:g} s")
            if not noted:
                self.note(f"{spec.label}: the same files are being copied there already; waiting for them")
            noted = True
            time.sleep(LOOK_AGAIN)


def _contents(job: Job, options: NodeOptions, log_dir: str) -> tuple[str, list[Content]]:
    """Return the directory of the copies, and what is copied. Raises UsageError."""
    if options.container:
        raise UsageError("--stage does not work with --container: the image holds the code", "remove --stage")
    root = options.stage_dir or f"/tmp/ddpkit-stage-{os.getuid()}"
    if not root.startswith("/"):
        raise UsageError(f"--stage-dir {root}: must be an absolute path", "--stage-dir /local/DIR")
    contents = [project(job.workdir, log_dir), *([environment(job.python)] if options.stage == "env" else [])]
    for content in contents:
        if Path(os.path.normpath(root)).is_relative_to(content.source):
            what = f"--stage-dir {root}: is inside {content.source}, whose files are copied"
            raise UsageError(what, "--stage-dir /local/DIR")
    return root, contents


def by_nodes(job: Job, options: NodeOptions, log_dir: str) -> Job:
    """Return the job in copies that each node of a scheduler's job makes from the shared directory.

    One reader a node: `sbcast` would need an archive, and would send it again for each job. Raises UsageError.
    """
    root, contents = _contents(job, options, log_dir)
    entries = [
        {
            "source": content.source,
            "needs": content.needs,
            "python": content.version,
            "machine": os.uname().machine if content.kind == "env" else "",
            "finish": content.finish_args(root),
        }
        for content in contents
    ]
    copies = tuple(replace(content.copy(root), by_nodes=True) for content in contents)
    python = contents[-1].base or job.python
    staging = Staging(python=python, contents=json.dumps(entries) + "\n", copies=copies)
    return replace(relocate(job, contents, root), stage=staging)


def bring(
    specs: Sequence[HostSpec],
    job: Job,
    options: NodeOptions,
    log_dir: str,
    way: Connector,
    progress: Callable[[str, int], None] | None,
    note: Callable[[str], None],
    least: int | None,
) -> Staged:
    """Copy what the option `stage` names to all nodes. Without `progress` copy nothing.

    Raises UsageError, and the refusal for nodes without copies.
    """
    own = next((spec.label for spec in specs if spec.python), "")
    if own and options.stage == "env":
        raise UsageError(f"--stage=env: {own} has a Python of its own in ddpkit.toml", "add --stage")
    root, contents = _contents(job, options, log_dir)
    moved = relocate(job, contents, root)
    accept_new = options.accepts_new
    stager = Stager(contents=contents, root=root, way=way, accept_new=accept_new, progress=progress, note=note)
    python = contents[-1].base or (ANY_PYTHON if options.stage == "env" else job.python)
    pool = NodePool(specs, way, options.heartbeat_timeout, python)
    began = time.monotonic()
    try:
        kept = stager.run(pool, least)
    except BaseException:
        way.close()
        raise
    finally:
        pool.hang_up()
    copies = tuple(
        replace(content.copy(root), missing=tuple(each.label for each in kept if each.label in missing))
        for content in contents
        for missing in [stager.missing.get(content.name, ())]
    )
    if progress is not None:
        for copy in copies:
            note(f"staged {copy} ({time.monotonic() - began:.1f} s)")
    absent = progress is None and any(copy.missing for copy in copies)
    base = python if absent and options.stage == "env" and copies[-1].missing else ""
    return Staged(job=moved, specs=kept, copies=copies, base=base, complete=not absent, times=stager.times)
