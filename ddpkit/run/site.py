"""Machine with the scheduler and the output of a run's job: this one, or a login host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the start of every command imports this module
    from ddpkit.launchers.plan import Via
    from ddpkit.machine import Machine
    from ddpkit.run.record import Run

# Connections are above this room: the command line and `import ddpkit` set this function.
connect: Callable[[Via, str], Machine] | None = None
_machines: dict[tuple[Via, str], Machine] = {}


def machine_of(run: Run) -> Machine:
    """Return the machine with the scheduler and the output of a run's job. One connection serves all calls."""
    from ddpkit.machine import HERE

    via = run.job.via if run.job else None
    if via is None:
        return HERE
    key = (via, run.folder)
    if key not in _machines:
        assert connect is not None
        _machines[key] = connect(*key)
    return _machines[key]


def job_log(run: Run) -> str:
    """Return the path of the output of a run's job on that machine."""
    assert run.job is not None
    return run.job.log.replace("{job}", run.job_id or "")
