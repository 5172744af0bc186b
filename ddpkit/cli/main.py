"""The whole program: every command's module is imported, and one command line is run."""

from ddpkit.cli import (
    backends,
    bench,
    completion,
    dump,
    explain,
    init,
    launch,
    nodes,
    ps,
    report,
    runs,
    test,
    top,
)
from ddpkit.cli.app import run

__all__ = [
    "backends",
    "bench",
    "completion",
    "dump",
    "explain",
    "init",
    "launch",
    "nodes",
    "ps",
    "report",
    "run",
    "runs",
    "test",
    "top",
]
