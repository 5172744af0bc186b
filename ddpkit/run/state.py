"""State of a run and of a replica, origin of a record, and the function that connects to a login host."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the start of every command imports this module
    from ddpkit.launchers.host_names import Via
    from ddpkit.machine import Machine


class RunState(str, Enum):
    """The state of a run or of its job."""

    RUNNING = "running"
    QUEUED = "queued"  # its job waits in the scheduler's queue
    DONE = "done"  # every rank exited with 0
    FAILED = "failed"
    STOPPED = "stopped"
    OVER = "over"  # it has ended, and its exit code is not known any more
    LOST = "lost"  # its launcher was killed
    LEFT = "left"  # its job continues without its launcher
    ELSEWHERE = "elsewhere"  # its launcher or its job is not visible from this host
    UNKNOWN = "unknown"  # the scheduler gives no valid answer

    __str__ = str.__str__

    @property
    def living(self) -> bool:
        """Whether the run is running, or waits in a queue."""
        return self in (RunState.RUNNING, RunState.QUEUED)

    @property
    def may_live(self) -> bool:
        """Whether the run is living, as far as this host can see."""
        return self.living or self is RunState.ELSEWHERE

    @property
    def living_or_unknown(self) -> bool:
        """Whether the run is living, or its scheduler does not answer."""
        return self.living or self is RunState.UNKNOWN

    @property
    def ended(self) -> bool:
        """Whether the end of the run is known."""
        return self in (RunState.DONE, RunState.FAILED, RunState.STOPPED, RunState.OVER)


class Phase(str, Enum):
    """Where a replica of a role is."""

    WAITING = "waiting"  # for the roles that it is after
    STARTING = "starting"  # or started, and not ready
    READY = "ready"
    DONE = "done"  # it ended with 0, and may
    FAILED = "failed"
    STOPPED = "stopped"  # ended with the run


EndState = Literal[RunState.DONE, RunState.FAILED, RunState.STOPPED, RunState.OVER]


class Origin(Enum):
    """Source of a record. A command acts on the first two; it connects to no host that only the second names."""

    INDEX = "index"  # this process made the run, or this user's index has it
    DIRECTORY = "directory"  # a directory of this user's that nobody else can change
    OTHERS = "others"  # somebody else can change it: it is shown, and nothing more


def describe_stall(state: str, pid: int | None, host: str, *, where: str = "", kernel: str = "") -> str:
    """Say what holds a process in the state T, t or D of /proc/PID/stat, and what to do about it."""
    if state == "T":
        return f"is stopped (SIGSTOP){where}; to continue it: kill -CONT {pid} on {host}"
    if state == "t":
        return f"is held by a debugger{where}; to find it: grep TracerPid /proc/{pid}/status on {host}"
    held = f"waits for a disk, a network file system or a driver (state D){kernel}{where}"
    return f"{held}; on {host}: cat /proc/{pid}/stack, dmesg -T | tail"


# Connections are above this room: the command line and `import ddpkit` set this function.
# It takes a function that returns the path of an open connection's control socket; empty: none.
connect: Callable[[Via, Callable[[], str]], Machine] | None = None
