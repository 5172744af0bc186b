"""The command line: the only part that imports typer, and the only one that prints.

A command is a function in one of these modules; importing the module makes it known to `app`.
"""

from ddpkit.cli import bench, completion, dump, emit, explain, init, launch, report, runs, show, test, top
from ddpkit.cli.app import run

__all__ = [
    "bench",
    "completion",
    "dump",
    "emit",
    "explain",
    "init",
    "launch",
    "report",
    "run",
    "runs",
    "show",
    "test",
    "top",
]
