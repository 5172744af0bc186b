"""`--sync`: copies the project to the nodes with rsync, before anything is asked or started there.

What `.gitignore` leaves out is left out, and so are `.git`, the logs and other disks. Nothing is deleted on a node. A
node that sees the same directory is skipped. If something of one node would be lost, nothing is changed on any of them
(`ddpkit/node/calls/sync.py`). What earlier copies put there is no loss (`sync_record.py`).
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpkit.config import LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.execution.copies import ANY_PYTHON, Folder, NodeCalls, Way, own_temporary_file, project_files
from ddpkit.execution.sync_record import Version, keep_sent, read_sent
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.node_facts import words_of_node
from ddpkit.launchers.plan import Job, ProjectCopy
from ddpkit.launchers.shell import count, quote
from ddpkit.node import owned
from ddpkit.node.calls.sync import KINDS, SMALL, digest, refuse_directory
from ddpkit.transports.hosts import HostSpec, Problem, refusal

NAMED = 5  # files of a kind in an error
NONCE_NAME = ".ddpkit-nonce-"
NONCE = "nonce"  # of a directory, in its marker
NONCE_AGE = 86400.0  # seconds; one lives until all nodes have answered


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file, a directory or a link of the project."""

    name: str
    kind: str  # one of `KINDS`
    mode: int
    size: int
    time: int  # nanoseconds
    target: str  # of a link

    def plain(self, sent: Sequence[Version] = ()) -> list[object]:
        """The entry as `ddpkit.node.calls.sync` reads it. `sent`: what earlier copies put there."""
        known = [each for each in sent if each[2]]
        return [self.name, self.kind, self.mode, self.size, self.time, self.target, known]


@dataclass(kw_only=True)
class Syncer:
    """One copy of a project to some nodes."""

    source: str
    entries: Sequence[Entry]
    calls: NodeCalls
    overwrite: bool
    progress: Callable[[str, int], None]
    note: Callable[[str], None]
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)  # of `sync.check`, by label
    drafts: dict[str, Folder] = field(default_factory=dict)  # by label
    digests: dict[int, str] = field(default_factory=dict)  # of files here, by number of the entry
    sent: dict[str, list[Version]] = field(default_factory=dict)  # by earlier copies

    def run(self, specs: Sequence[HostSpec]) -> None:
        """Copy to all nodes, or change nothing. Raises the refusal, UsageError."""
        problems = self.calls.connect()
        if not problems:
            problems = self._check(specs)
        if problems:
            raise refusal(problems, len(specs))
        apart = [spec for spec in specs if not self.answers[spec.label]["same"]]  # do not see this directory
        if apart:
            self._keep_record()
        todo = [spec for spec in apart if self.answers[spec.label]["todo"]]
        for step in (self._receive, self._send, self._apply):
            problems = step(todo)
            if problems:
                raise refusal(problems, len(specs))
            todo = [spec for spec in todo if spec.label in self.drafts]  # one of those that share a directory

    # ---- before anything is changed

    def _check(self, specs: Sequence[HostSpec]) -> list[Problem]:
        """Compare the project with what each node has. Returns a problem for each node that would lose something."""
        self.sent = read_sent(self.source)
        plain = [each.plain(self.sent.get(each.name, ())) for each in self.entries]
        packed = b64encode(zlib.compress(json.dumps(plain).encode())).decode()
        with made_nonce(self.source) as (nonce, stamp):
            args = {"nonce": nonce, "stamp": stamp, "packed": packed, "overwrite": self.overwrite}

            def one(spec: HostSpec) -> Problem | None:
                target = spec.workdir or self.source
                answer = self.calls.call(spec, "sync.check", {**args, "target": target})
                self.answers[spec.label] = answer
                what = answer["problem"] or self._conflicts(answer)
                if not what:
                    return None
                fix = f"ssh {spec.target} ls -l {quote(str(answer['path']))}"
                return Problem(host=spec.label, what=f"--sync: {what}", fix=fix)

            problems = self.calls.each(specs, one)
        same = [spec.label for spec in specs if self.answers.get(spec.label, {}).get("same")]
        if same and not problems:
            self.note(f"--sync: {', '.join(same)}: the same directory there, so that nothing has to be sent")
        return problems

    def _conflicts(self, answer: dict[str, Any]) -> str:
        """Say what of a node would be lost; empty: nothing."""
        differ = [self._name(index) for index, there in answer["differs"] if not self._is_same(index, there)]
        what = "changed there, or not from --sync of this directory"
        conflicts = [f"{what}: {listed(differ)} (--sync=overwrite replaces such files)"] if differ else []
        for index, there in answer["kinds"][:NAMED]:
            conflicts.append(f"{self._name(index)} is a {there} there, and a {self.entries[index].kind} here")
        more = len(answer["kinds"]) - NAMED
        conflicts += [f"and {more} more are of another kind there"] if more > 0 else []
        for key, what in (("foreign", "files of another user there"), ("written", "open for writing there")):
            if answer[key]:
                conflicts.append(f"{what}: {listed([self._name(index) for index in answer[key]])}")
        return "; ".join(conflicts)

    def _name(self, index: int) -> str:
        return self.entries[index].name

    def _is_same(self, index: int, there: str) -> bool:
        """Compare a file here with what a node has."""
        return bool(there) and self.entries[index].kind == "file" and self._digest(index) == there

    def _digest(self, index: int) -> str:
        """The content of a file here, read once for all nodes; empty: it cannot be read, or changed."""
        if index not in self.digests:
            name = self._name(index)
            found = digest(f"{self.source}/{name}")
            self.digests[index] = found if look(self.source, name) == self.entries[index] else ""
        return self.digests[index]

    def _content(self, index: int, needed: set[int]) -> str:
        """What a node has of an entry, for the record. What is large, and not sent, is not read for it."""
        entry = self.entries[index]
        if entry.kind == "link" or index in self.digests:
            return entry.target or self.digests[index]
        known = (each[2] for each in self.sent.get(entry.name, ()) if each[:2] == (entry.size, entry.time))
        return self._digest(index) if index in needed or (entry.size <= SMALL and not any(known)) else ""

    def _keep_record(self) -> None:
        """Note what the nodes have from now on, before the first of them changes."""
        needed = {index for answer in self.answers.values() for index in answer["needs"]}
        now = {
            entry.name: (entry.size, entry.time, self._content(index, needed))
            for index, entry in enumerate(self.entries)
            if entry.kind != "directory"
        }
        problem = keep_sent(self.source, now)
        if problem:
            self.note(f"--sync: cannot note what it puts there ({problem}): it will stop for each file that you change")

    # ---- the copy

    def _receive(self, specs: Sequence[HostSpec]) -> list[Problem]:
        """Make a draft on each node. Of nodes that share a directory, the first one alone keeps it."""

        def make(spec: HostSpec) -> Problem | None:
            answer = self.calls.call(spec, "sync.receive", {})
            self.drafts[spec.label] = Folder(str(answer["draft"]), str(answer["inode"]))
            fix = f"ssh {spec.target} df -h"
            return Problem(host=spec.label, what=answer["problem"], fix=fix) if answer["problem"] else None

        problems = self.calls.each(specs, make)
        if problems:
            return problems
        names = {Path(self.drafts[spec.label].path).name: spec.label for spec in specs}  # labels by name of the draft
        order = [spec.label for spec in specs]
        shared: dict[str, str] = {}  # by label: another node with the same directory

        def find(spec: HostSpec) -> Problem | None:
            seen = self.calls.call(spec, "sync.sees", {"names": list(names)})
            sharing = [names[name] for name in seen if name in names]
            if any(order.index(label) < order.index(spec.label) for label in sharing):
                shared[spec.label] = sharing[0]
            return None

        problems = self.calls.each(specs, find)
        for spec in specs:
            if spec.label in shared:
                self.calls.call(spec, "sync.abandon", {})
                del self.drafts[spec.label]
                self.note(f"--sync: {spec.label} has the same directory as {shared[spec.label]}: one copy for both")
        return problems

    def _send(self, specs: Sequence[HostSpec]) -> list[Problem]:
        """Send the files that each node needs into its draft."""

        def send(spec: HostSpec) -> Problem | None:
            needs = [self._name(index) for index in self.answers[spec.label]["needs"]]
            if not needs:
                self.progress(spec.label, 100)
                return None
            words = ["--from0", "--files-from=-", "--no-implied-dirs", "--whole-file"]
            with own_temporary_file(small=True) as (path, file):
                file.write(b"".join(b"./" + os.fsencode(name) + b"\0" for name in needs))
                file.flush()
                problem, _ = self.calls.send(
                    spec,
                    f"{self.source}/",
                    "files/",
                    words,
                    self.progress,
                    alive="sync.alive",
                    names=path,
                    folder=self.drafts[spec.label],
                )
            return problem

        # All logins come first: a question of a host and the progress would share the terminal.
        return self.calls.each(specs, self.calls.log_in) or self.calls.each(specs, send, copies=True)

    def _apply(self, specs: Sequence[HostSpec]) -> list[Problem]:
        """Let each node put its draft into place, but for what changed here during the copy."""
        now = {entry.name: status for entry in self.entries if (status := look(self.source, entry.name)) is not None}
        changed = [entry.kind != "directory" and now.get(entry.name) != entry for entry in self.entries]
        left_out = [index for index, each in enumerate(changed) if each]
        missing = [self._name(index) for index in left_out]

        def one(spec: HostSpec) -> Problem | None:
            answer = self.calls.call(spec, "sync.apply", {"left_out": left_out})
            missing.extend(map(str, answer["missing"]))
            fix = f"ssh {spec.target} ls -l {quote(str(self.answers[spec.label]['path']))}"
            what = answer["problem"]
            if answer["changed"]:
                what = f"changed there during the copy: {listed(answer['changed'])}"
            return Problem(host=spec.label, what=f"--sync: {what}", fix=fix) if what else None

        problems = self.calls.each(specs, one)
        if missing:
            names = list(dict.fromkeys(missing))
            self.note(f"--sync: changed here during the copy, and not replaced on the nodes: {listed(names)}")
        return problems


def bring(
    settings: LaunchSettings,
    specs: Sequence[HostSpec],
    source: str,
    way: Way,
    progress: Callable[[str, int], None] | None,
    note: Callable[[str], None],
) -> tuple[ProjectCopy, ...]:
    """Copy a directory to all hosts. Without `progress` copy nothing. Returns the copies. Raises the refusal."""
    entries, overwrite = scan(source, settings.log_dir), settings.sync == "overwrite"
    if progress is not None:
        calls = NodeCalls(specs, way)
        syncer = Syncer(source=source, entries=entries, calls=calls, overwrite=overwrite, progress=progress, note=note)
        try:
            syncer.run(specs)
        finally:
            calls.hang_up()
    size = sum(entry.size for entry in entries)
    return tuple(
        ProjectCopy(
            host=spec.label,
            source=source,
            target=spec.workdir or source,
            files=len(entries),
            size=size,
            overwrite=overwrite,
        )
        for spec in specs
    )


def node_python(job: Job, options: NodeOptions) -> str:
    """Return a Python that nodes have before the copy: not one of the project, of a container, or of --stage."""
    own = job.python.startswith(f"{job.workdir}/") or options.container or options.stage == "env"
    return ANY_PYTHON if own else job.python


def scan(source: str, log_dir: str) -> list[Entry]:
    """List what is copied of a directory, by name. Raises UsageError."""
    check_source(source, "--sync")
    entries = (look(source, name) for name in project_files(source, log_dir))
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.name.split("/"))


def check_source(source: str, option: str) -> None:
    """Refuse to copy a home directory or a directory of the system. Raises UsageError."""
    refused = refuse_directory(source)
    if refused:
        raise UsageError(f"{option}: {refused}", "--workdir DIR, the directory of the project alone")


def look(source: str, name: str) -> Entry | None:
    """Return an entry as it is now; None: it is gone, or is a device."""
    path = Path(source, name)
    try:
        status = path.lstat()
        target = os.fspath(path.readlink()) if stat.S_ISLNK(status.st_mode) else ""
    except OSError:
        return None
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "")
    size = status.st_size if kind == "file" else 0
    when = status.st_mtime_ns if kind != "directory" else 0
    mode = stat.S_IMODE(status.st_mode)
    return Entry(name=name, kind=kind, mode=mode, size=size, time=when, target=target) if kind else None


@contextmanager
def made_nonce(source: str) -> Iterator[tuple[str, list[int]]]:
    """Make a directory in the project, by which a node knows the project. Where none can be made, the name is empty.

    Yields its name, and the inode and the change time of the project. What a killed launch left is removed.
    """
    name = f"{NONCE_NAME}{os.urandom(16).hex()}"
    path = f"{source}/{name}"
    try:
        owned.make_directory(path, NONCE)
    except OSError:
        name = ""
    else:
        _sweep(source, os.lstat(path).st_mtime - NONCE_AGE)  # by the clock of the file system
    status = Path(source).stat()
    try:
        yield name, [status.st_ino, status.st_ctime_ns]
    finally:
        if name:
            owned.remove_directory(path, NONCE)


def _sweep(source: str, before: float) -> None:
    """Remove what launches that were killed have left: directories with ddpkit's marker and nothing else in them."""
    for path in Path(source).glob(f"{NONCE_NAME}*"):
        with suppress(OSError):
            if path.lstat().st_mtime >= before:
                continue
            if owned.is_owned(str(path), NONCE) and {each.name for each in path.iterdir()} == {owned.MARKER}:
                owned.remove_directory(str(path), NONCE)
            elif path.is_dir():
                owned.remove_empty(str(path))  # killed before its marker was there


def listed(names: Sequence[str]) -> str:
    """Name the first of some files."""
    more = len(names) - NAMED
    return ", ".join(map(words_of_node, names[:NAMED])) + (f" and {count(more, 'more file')}" if more > 0 else "")
