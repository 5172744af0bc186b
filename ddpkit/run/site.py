"""Machine with the scheduler and the output of a run's job: this one, or a login host."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ddpkit.errors import UsageError
from ddpkit.run.trust import Origin

if TYPE_CHECKING:  # the start of every command imports this module
    from ddpkit.launchers.host_names import Via
    from ddpkit.launchers.job_output import JobOutput
    from ddpkit.machine import Machine
    from ddpkit.run.record import Run

# Connections are above this room: the command line and `import ddpkit` set this function.
connect: Callable[[Via, str], Machine] | None = None
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
        assert connect is not None
        _machines[key] = connect(*key)
    return _machines[key]


def job_log(run: Run) -> str:
    """Return the path of the output of a run's job on that machine. Raises UsageError."""
    assert run.job is not None
    path = run.job.log.replace("{job}", run.job_id or "")
    if run.origin is Origin.OTHERS and not _is_inside(path, run.folder):
        raise UsageError(
            f"the record of run {run.run_id} names an output outside of its directory, and is another user's"
        )
    return path


def reader_of(run: Run) -> JobOutput:
    """Return a reader of the output of a run's job."""
    from ddpkit.launchers.job_output import JobOutput

    assert run.job is not None
    return JobOutput(run.world_size, groups=run.job.groups)


def _is_inside(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(f"{os.path.realpath(folder)}/")
