"""Bad nodes: hosts with a fault of their own that ended a run, remembered for later launches in one JSON file.

The file is beside the index of runs, or where the setting `bad_nodes` points: a team can share one, and add to it by
hand. Writers hold a lock and replace the file at once, so readers need none. No call takes longer than `PATIENCE`,
whatever the file system does.
Times are seconds since the epoch.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import stat
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from ddpkit.diagnosis.outcome import Outcome
from ddpkit.errors import DdpkitError
from ddpkit.files import check_way, make_directories, write_atomically
from ddpkit.run.run_index import index_folder

PATIENCE = 1.0  # seconds for the file: a launch does not wait longer
MOST = 1024  # nodes in the file; of as many, none gives way to another one
_MOST_BYTES = 1 << 20
_MOST_TEXT = 300  # characters of a value
_SCHEMA = "ddpkit.bad_nodes/1"
HOUR = 3600.0
_LOST = re.compile(r"^no heartbeat|^the connection was lost|^SLURM removed it")  # not a supervisor that was killed
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class BadNode:
    """One host with a fault. It is remembered until the time `until`."""

    host: str
    id: str  # of the fault in the catalogue
    reason: str
    evidence: str  # the line or the event that showed it
    run_id: str
    since: float
    until: float

    def describe(self) -> str:
        """Return the reason, its time and its run."""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        return f"{self.reason} (since {since}, run {self.run_id})"


# ---- pure: decisions on values


def bad_node(host: str, id: str, evidence: str, run_id: str, now: float) -> BadNode:  # noqa: A002
    """Return the record of a fault, which is remembered as long as its entry says."""
    from ddpkit.diagnosis.catalogue import BY_ID

    reason, until = BY_ID[id].reason, now + BY_ID[id].lasts * HOUR
    return BadNode(host=host, id=id, reason=reason, evidence=evidence, run_id=run_id, since=now, until=until)


def blamed(outcome: Outcome, run_id: str, now: float) -> BadNode | None:
    """Return the one node whose own fault ended a run; None where that is not clear.

    The evidence is a lost connection, or the kernel of the node: a script can print anything.
    """
    failure = outcome.failure
    if failure is None or outcome.stopped_by is not None:
        return None
    if failure.host == outcome.lost_alone and _LOST.search(failure.reason):
        from ddpkit.diagnosis.catalogue import entry_of_seen

        return bad_node(failure.host, entry_of_seen("lost").id, failure.reason, run_id, now)
    if not failure.kernel:
        return None
    from ddpkit.diagnosis.decide import analyze_log

    first = analyze_log([("kernel", failure.kernel)]).first
    if first is None or first.entry.evidence != "kernel":  # the kernel's own log counts alone: no script writes it
        return None
    return bad_node(failure.host, first.id, failure.kernel, run_id, now)


def merge(nodes: Sequence[BadNode], new: BadNode, now: float) -> tuple[BadNode, ...]:
    """Add a node. Of two records of one host the longer one stays; expired ones do not.

    Raises DdpkitError for a full list: a person may have written what is in it.
    """
    before = next((each for each in nodes if each.host == new.host and each.until > new.until), None)
    kept = [each for each in nodes if each.until > now and each.host != new.host]
    if len(kept) >= MOST:
        raise _full(new.host, len(kept))
    return (*kept, before or new)


def _full(host: str, number: int) -> DdpkitError:
    what = f"{host} is not remembered as a bad node: the list is full, with {number} nodes"
    return DdpkitError(what, "ddpkit nodes")


def matching(hosts: Collection[str], nodes: Sequence[BadNode]) -> list[tuple[str, BadNode]]:
    """Return each of these hosts that is bad, with its record. `node1` and `node1.cluster` are one host."""
    return [(host, each) for host in hosts for each in nodes if is_same_host(host, each.host)]


def is_same_host(one: str, other: str) -> bool:
    """Compare two names of hosts; one of them may have no domain."""
    return one == other or one == other.partition(".")[0] or other == one.partition(".")[0]


def _parse(data: bytes) -> tuple[BadNode, ...]:
    """Read the content of the file. Raises ValueError where it is not whole."""
    nodes = [_parse_node(each) for each in _document(data)["nodes"]]
    return tuple(each for each in nodes if each is not None)


def _document(data: bytes) -> dict[str, Any]:
    if not data.strip():
        return {"schema": _SCHEMA, "nodes": []}
    document = json.loads(data)
    ours = isinstance(document, dict) and document.get("schema") == _SCHEMA
    if not ours or not isinstance(document.get("nodes"), list):
        raise ValueError("another kind of file")
    return cast("dict[str, Any]", document)


Change = Callable[[Sequence[BadNode]], tuple[BadNode, ...]]


def _changed(data: bytes, change: Change, *, by_hand_too: bool) -> bytes:
    """Return the file after a change. What a person wrote stays: records and keys that are not ddpkit's.

    `by_hand_too`: the change takes records away that a person has added to. Raises ValueError as `_parse`.
    """
    document = _document(data)
    records = [(value, _parse_node(value)) for value in document["nodes"]]
    before = tuple(node for _, node in records if node is not None)
    after = change(before)
    stay, known = set(after), set(before)
    names = {each.name for each in fields(BadNode)}
    kept = []
    for value, node in records:
        by_hand = node is None or bool(set(value) - names)  # not ddpkit's, or a person has added a key
        if node is None or node in stay or (by_hand and not by_hand_too):
            kept.append(value)
    new = [asdict(node) for node in after if node not in known]
    if len(kept) == len(records) and not new:
        return data
    indent = 2 if b"\n" in data.strip() else None
    changed = json.dumps({**document, "nodes": [*kept, *new]}, indent=indent).encode() + b"\n"
    if new and len(changed) > _MOST_BYTES:
        raise _full(new[0]["host"], len(kept))
    return changed


def _parse_node(value: object) -> BadNode | None:
    """Read one record. Others may write to the file: no text has control characters, or is long."""
    if not isinstance(value, dict):
        return None
    texts: dict[str, str] = {}
    times: dict[str, float] = {}
    for each in fields(BadNode):
        content = value.get(each.name)
        if each.name in ("since", "until"):
            if isinstance(content, bool) or not isinstance(content, int | float) or not 0 <= content < 1e11:
                return None
            times[each.name] = float(content)
        elif isinstance(content, str):
            texts[each.name] = "".join(char if char.isprintable() else "?" for char in content[:_MOST_TEXT])
        else:
            return None
    return BadNode(**texts, since=times["since"], until=times["until"]) if texts["host"] else None


# ---- the file


def file_of(setting: str) -> Path:
    """Return the file of the setting; without one, that of this user. Raises RuntimeError without a home."""
    return Path(setting).expanduser() if setting else index_folder().parent / "bad_nodes.json"


@dataclass(frozen=True, kw_only=True)
class Known:
    """The nodes that are remembered now, the oldest first. `problem`: why the file could not be read."""

    nodes: tuple[BadNode, ...] = ()
    problem: str = ""


def known(setting: str, now: float) -> Known:
    """Return the bad nodes. Raises nothing: a launch does not depend on the file."""
    try:
        path = file_of(setting)
        nodes = _in_time(lambda: _parse(_read(path)), path)
    except (DdpkitError, ValueError, RuntimeError) as error:
        return Known(problem=_problem(error, setting))
    return Known(nodes=tuple(each for each in nodes if each.until > now))


def remember(setting: str, node: BadNode, now: float) -> str:
    """Add a node to the file. Returns the problem as text; empty: none. Raises nothing."""
    try:
        _change(setting, lambda nodes: merge(nodes, node, now), by_hand_too=False)
    except (DdpkitError, ValueError, RuntimeError) as error:
        return _problem(error, setting)
    return ""


def remember_blamed(setting: str, outcome: Outcome, run_id: str, note: Callable[[str], None]) -> None:
    """Remember the node whose own fault ended a run, for later launches."""
    now = time.time()
    node = blamed(outcome, run_id, now)
    if node is None:
        return
    problem = remember(setting, node, now)
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(node.until))
    note(problem or f"{node.host} is remembered as a bad node until {until}: {node.reason}; see: ddpkit nodes")


def forgive(setting: str, hosts: Collection[str] | None, now: float) -> list[BadNode]:
    """Remove hosts from the file, None: all. Returns their records that had not expired. Raises DdpkitError."""
    removed: list[BadNode] = []

    def without(nodes: Sequence[BadNode]) -> tuple[BadNode, ...]:
        removed[:] = [each for each in nodes if hosts is None or matching(hosts, [each])]
        return tuple(each for each in nodes if each not in removed)

    try:
        _change(setting, without, by_hand_too=True)
    except (ValueError, RuntimeError) as error:
        raise DdpkitError(_problem(error, setting), "ddpkit nodes --bad-nodes FILE") from None
    return [each for each in removed if each.until > now]


def _problem(error: Exception, setting: str) -> str:
    if isinstance(error, ValueError):
        return (
            f"{file_of(setting)} is not a list of bad nodes, and stays as it is; for another one: the setting bad_nodes"
        )
    return str(error)


def _read(path: Path) -> bytes:
    """Return the content of the file; empty where it is no regular file, such as /dev/null. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


def _change(setting: str, change: Change, *, by_hand_too: bool) -> None:
    """Replace the list under a lock. Raises DdpkitError; ValueError for a file of something else, which stays."""
    path = file_of(setting)
    _in_time(lambda: _locked_change(path, change, by_hand_too=by_hand_too), path)


def _locked_change(path: Path, change: Change, *, by_hand_too: bool) -> None:
    """Change the file under its lock, which lies beside it. Raises OSError, ValueError."""
    if path.exists() and not path.is_file():
        return  # /dev/null: nothing is remembered
    make_directories(path.parent)
    check_way(os.fspath(path))
    # A link to the list of a team stays a link. Its directory is not made: that may be a disk that is not mounted.
    real = Path(os.path.realpath(path))
    # Everyone who may write to the directory may write to its files: a team shares them.
    mode = real.parent.stat().st_mode & 0o666
    lock = os.open(real.with_name(f".{real.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        status = os.fstat(lock)
        # Whoever can write to the directory can give this name to another file of this user, which has content.
        if (
            status.st_uid == os.geteuid()
            and (status.st_size, status.st_nlink) == (0, 1)
            and stat.S_ISREG(status.st_mode)
        ):
            os.fchmod(lock, mode)
        _take_lock(lock, time.monotonic() + PATIENCE * 0.9)
        before = _read(real)
        after = _changed(before, change, by_hand_too=by_hand_too)
        if after != before:
            write_atomically(real, after, mode, shared=True)
    finally:
        os.close(lock)


def _take_lock(lock: int, until: float) -> None:
    """Take the lock. Raises TimeoutError: then nothing is written later either."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(f"locked by another process for {PATIENCE:g} s") from None
            time.sleep(0.005)


def _in_time(work: Callable[[], _T], path: Path) -> _T:
    """Run a function that a file system may hold up. Raises DdpkitError, also after `PATIENCE`; and ValueError."""
    results: list[_T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # raised again below, by the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="ddpkit bad nodes", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if results:
        return results[0]
    error = errors[0] if errors else TimeoutError(f"no answer in {PATIENCE:g} s")
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        raise DdpkitError(
            f"cannot use the list of bad nodes {path}: {why}", f"ls -l {shlex.quote(str(path))}"
        ) from None
    raise ValueError(str(error)) if isinstance(error, RecursionError) else error
