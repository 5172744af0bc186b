"""The runs of a run: each replica of a role is a run of its own, in `roles/` of the run's folder.

`roles.json` there says where each replica is; its launcher writes it. A replica that started again has a run for each
start; the last one counts. The launcher of all is that of the run, whatever their records say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from ddpkit.errors import UsageError, nearest
from ddpkit.files import write_atomically
from ddpkit.launchers.typed_json import Between, Count, Seconds
from ddpkit.run import record, run_files, run_index
from ddpkit.run.record import RecordError, ReplicaName, Run
from ddpkit.run.state import Origin, Phase, RunState
from ddpkit.text import format_age

FILE = "roles.json"
FOLDER = "roles"
MOST_STARTS = 10_000
_SAME_LAUNCHER = ("launcher_pid", "launcher_started", "launcher_host", "launcher_boot", "launcher_python")


@dataclass(frozen=True, kw_only=True)
class ReplicaState:
    """Where a replica is. `probed`: a probe, a line or a request, says whether it is ready."""

    phase: Literal[Phase.WAITING, Phase.STARTING, Phase.READY, Phase.DONE, Phase.FAILED, Phase.STOPPED]
    restarts: Count = 0
    since: Seconds
    ready: Seconds | None = None  # when it was ready, of its last start
    probed: bool = False


@dataclass(frozen=True, kw_only=True)
class RolesFile:
    """The content of `roles.json`. `first`: the replica that failed first, and with it the run."""

    replicas: dict[ReplicaName, ReplicaState] = field(default_factory=dict)
    first: ReplicaName | None = None
    format: Annotated[int, Between(1, 1)] = 1

    def save(self, folder: Path) -> None:
        """Replace the file. Raises OSError."""
        write_atomically(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")


def label_of(name: str, *, alone: bool, source: str, host: str, ranks: int) -> str:
    """Return what stands before a line of a replica: `infer.1 node2`, of several ranks `train 3 node4`.

    `alone`: the role has no other replica. `source`: a rank's number, an agent's name, or nothing for ddpkit's own.
    """
    shown = name.rpartition(".")[0] if alone else name
    rank = "" if ranks == 1 and source.isdecimal() else source or "ddpkit"
    return " ".join(filter(None, (shown, rank, host)))


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica: `infer.1`. `starts`: its runs, the last one counts; `problem`: why one cannot be read."""

    of: str  # the id of the whole run
    name: str
    alone: bool
    state: ReplicaState | None  # None: not known
    starts: tuple[Run, ...] = ()
    problem: str = ""

    @property
    def role(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def shown(self) -> str:
        """Its name for people: of the only replica of a role, the role's."""
        return self.role if self.alone else self.name

    @property
    def run(self) -> Run:
        """Its last run. Raises UsageError where there is none, or none that can be read."""
        if self.problem:
            raise UsageError(f"{self.shown} of run {self.of}: {self.problem}", f"ddpkit status {self.of}")
        if not self.starts:
            raise UsageError(f"{self.shown} of run {self.of} has not started", f"ddpkit status {self.of}")
        return self.starts[-1]

    def label(self, run: Run, source: str, host: str) -> str:
        """Return what stands before one of its lines."""
        return label_of(self.name, alone=self.alone, source=source, host=host, ranks=run.world_size)


def replicas_of(run: Run) -> tuple[Replica, ...]:
    """Return the replicas of a run; of one without roles, none. What cannot be read is said by each replica."""
    roles = [name.rpartition(".")[0] for name in run.replicas]
    states = _states(run) if run.replicas else RolesFile()
    return tuple(
        _replica(run, name, states.replicas.get(name), alone=roles.count(role) == 1)
        for name, role in zip(run.replicas, roles, strict=True)
    )


def first_failed(run: Run) -> str | None:
    """Return the name of the replica that failed first; None: none, or not known."""
    first = _states(run).first
    return first if first in run.replicas else None


def _states(run: Run) -> RolesFile:
    folder = Path(run.folder)
    try:
        return record.read(RolesFile, run_files.read_private(folder, FILE, record.MOST_BYTES)[0], folder / FILE)
    except (OSError, RecordError):
        return RolesFile()


def _replica(run: Run, name: str, state: ReplicaState | None, *, alone: bool) -> Replica:
    """Read the starts of a replica, from the first one on, until a number has no record."""
    starts: list[Run] = []
    problem = ""
    for number in range(1, MOST_STARTS):
        run_id = f"{run.run_id}.{name}" + (f".{number}" if number > 1 else "")
        folder = Path(run.folder, FOLDER, run_id)
        if not os.path.lexists(folder / record.FILE):
            break
        try:
            starts.append(_read_start(run, folder, run_id))
        except RecordError as error:
            problem = error.message
        except OSError as error:
            problem = f"{folder / record.FILE}: {error.strerror or error}"
    return Replica(of=run.run_id, name=name, alone=alone, state=state, starts=tuple(starts), problem=problem)


def _read_start(run: Run, folder: Path, run_id: str) -> Run:
    """Read the record of one start of a replica; its launcher is that of the run. Raises RecordError, OSError."""
    own = record.read_record(folder)
    if own.run_id != run_id or own.replicas:
        raise RecordError(folder / record.FILE, f"it is that of run {own.run_id}, and not of {run_id}")
    if run.origin is not Origin.OTHERS and not run_files.is_own(folder):
        raise RecordError(folder / record.FILE, f"it {run_index.whose(own)}")
    origin = Origin.OTHERS if Origin.OTHERS in (run.origin, own.origin) else own.origin
    known = {name: getattr(run, name) for name in _SAME_LAUNCHER}
    own = own if run.origin is Origin.INDEX else record.without_hint(own)
    return replace(own, **known, in_program=True, origin=origin)


# ---- which of them


def choose(run: Run, word: str | None) -> tuple[Replica, ...]:
    """Return the replicas that `--role infer`, `--role infer.1` or `--role infer.0,train` names; None: all.

    Raises UsageError for a name that the run does not have.
    """
    every = replicas_of(run)
    if word is None:
        return every
    if not every:
        raise UsageError(f"--role {word}: run {run.run_id} has no roles", f"ddpkit status {run.run_id}")
    chosen: list[Replica] = []
    for name in (part.strip() for part in word.split(",")):
        matching = [each for each in every if name in (each.name, each.role)]
        if not matching:
            known = [*dict.fromkeys(each.role for each in every), *(each.name for each in every if not each.alone)]
            raise UsageError(f"--role {word}: the run has no role {name}", nearest(name, known) or _listed(known))
        chosen += [each for each in matching if each not in chosen]
    return tuple(chosen)


def choose_one(run: Run, word: str) -> Replica:
    """Return the one replica that a word names. Raises UsageError."""
    chosen = choose(run, word)
    if len(chosen) > 1:
        what = f"--role {word} names {len(chosen)} replicas: {_listed([each.name for each in chosen])}"
        raise UsageError(what, f"--role {chosen[0].name}")
    return chosen[0]


def in_pause(chosen: Sequence[Replica], run: Run) -> list[Replica]:
    """Return those of a living run that have ended, and are about to start again: no start of theirs gets a signal."""
    starting = [each for each in chosen if each.state and each.state.phase is Phase.STARTING and each.starts]
    return [each for each in starting if each.run.state.ended and not run.state.ended]


def _listed(names: Sequence[str]) -> str:
    return "roles: " + ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


# ---- for people


def words_of(replica: Replica, now: RunState) -> str:
    """Return where a replica is, in words. `now`: the state of the whole run."""
    if replica.problem:
        return f"not known: {replica.problem}"
    state = replica.state
    if state is None:
        return "not known"
    living = state.phase in (Phase.WAITING, Phase.STARTING, Phase.READY)
    if living and not now.may_live:
        return "lost" if now is RunState.LOST else "ended"
    words = "running" if state.phase is Phase.READY and not state.probed else state.phase.value
    if state.phase is Phase.FAILED and replica.starts and replica.starts[-1].state.ended:
        last = replica.starts[-1]
        words = f"failed: {last.verdict or f'exit code {last.exit_code}'}"
    return words + (f", restarted {state.restarts}" if state.restarts else "")


def age_of(replica: Replica, now: float) -> str:
    """Return for how long it is where it is."""
    return format_age(max(0.0, now - replica.state.since)) if replica.state else ""
