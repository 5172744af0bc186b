"""Outcome of a run, its first failure, and the diagnosis of that: facts, without sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ddpkit.errors import DdpkitError

SUPERVISOR = "ddpkit's process"  # as `Failure.what`


# The usual meaning of an exit code.
CODES: Mapping[int, str] = {
    2: "usually the script rejected its arguments",
    124: "usually its time limit ended it, as timeout(1) does",
    75: "by convention, the script saved a checkpoint and requests a restart",
    126: "the program was found, but cannot be executed",
    127: "the program was not found",
}


@dataclass(frozen=True, kw_only=True)
class Action:
    """A decision and its reason. `host` is set for `exclude` alone; `id` is empty if the cause is not known.

    `proven`: the kernel, SLURM or ddpkit's own process showed the fault of the host. What a rank printed only suggests
    it: the host is checked first.
    """

    action: Literal["stop", "retry", "exclude"]
    host: str | None = None
    id: str = ""
    reason: str
    proven: bool = False


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The cause of a failure, as the output of the run shows it, and its fix."""

    cause: str
    fix: str
    id: str = ""  # of its catalogue entry: `ddpkit explain ID`; empty for the script's own exception
    whose: str = ""  # the rank whose output shows the cause, where another one failed first


# srun's word for it, and the control group of a step of SLURM. Seen with 22.05.
_JOB_LIMIT = re.compile(r"srun: Out Of Memory|/job_\d+/step_")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The first failure of a run: of a rank, an agent, a supervisor or a job."""

    host: str
    rank: int | None  # None: not a rank, but `what`
    what: str  # "rank", or the agent's name, or SUPERVISOR, or "job 123"
    code: int | None = None
    signal: int | None = None
    seconds: float = 0.0  # since the start
    at: float = 0.0  # seconds since the epoch, in this machine's time
    last_lines: tuple[str, ...] = ()
    log: str = ""
    reason: str = ""  # where neither a code nor a signal says it
    raised: str = ""  # the name of the exception that ended its script; known before its process has ended
    oom: str = ""  # the evidence that the kernel killed it for want of memory, and its source
    kernel: str = ""  # what the kernel of its node says of GPUs and out-of-memory kills, or SLURM of its job
    awaited: str = ""  # words on the ranks for which it waited in vain, by a dump of all ranks before they ended
    dump: str = ""  # the file with the stack of the first awaited rank; else the directory of the dump
    early: tuple[int, ...] = ()  # ranks that had ended before, with exit code 0
    diagnosis: Diagnosis | None = None  # None: the output shows no known cause
    action: Action | None = None  # what follows from it; None: in a record of an older ddpkit

    @property
    def exit_code(self) -> int:
        if self.signal is not None:
            return 128 + self.signal
        return self.code or (1 if self.raised else DdpkitError.exit_code)

    @property
    def job_memory(self) -> bool:
        """Whether the kernel killed it for the memory limit of its job; the host had memory left."""
        return bool(_JOB_LIMIT.search(self.oom))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Decision after an attempt. `hosts`: those to check, to replace or to exclude; empty for the other actions."""

    action: Literal["stop", "same", "check", "replace", "requeue"]
    hosts: tuple[str, ...] = ()
    reason: str


@dataclass(kw_only=True)
class Outcome:
    """The end of a run."""

    failure: Failure | None = None
    stopped_by: int | None = None  # the signal that ended the launcher
    stopped_later: bool = False  # a signal came when a failure had already begun to end the run
    lost: dict[str, str] = field(default_factory=dict)  # hosts where processes may still run, each with the reason
    seconds: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)  # how many ranks ended in which way
    slow: dict[str, str] = field(default_factory=dict)  # hosts that a spare one may replace, each with the reason
    lost_alone: str = ""  # the one host that was lost, where all others answered to their end

    @property
    def exit_code(self) -> int:
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return self.failure.exit_code if self.failure else 0
