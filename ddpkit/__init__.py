"""ddpkit starts an unmodified PyTorch script on one machine, over SSH or pdsh, or through SLURM.

    import ddpkit

    run = ddpkit.launch("train.py", ["--epochs", "3"], backend="ssh", hosts=["node1", "node2"], nproc_per_node=4)
    outcome = run.wait()
    if outcome.failure:
        print(outcome.failure.host, outcome.failure.rank, outcome.failure.diagnosis)

See `ddpkit.api`, which is imported at the first use of a name.
"""

import sys

from ddpkit.cli import __version__

# `python -m` looks for modules in the working directory first, where anybody's `json.py` may lie; the program `ddpkit`
# does not. While Python looks for the module, "-m" is the first argument. What it imports before this line is its own.
_IS_MODULE = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].removeprefix("-m").partition(".")[0] == "ddpkit"
if _IS_MODULE and not getattr(sys.flags, "safe_path", sys.flags.isolated):
    del sys.path[0]

# ruff: noqa: F405 - names of `__all__` come from `ddpkit.api`
TYPE_CHECKING = False  # type checkers take it for typing's, whose import costs more than this one

__all__ = [
    "Attempt",
    "Check",
    "CheckReport",
    "DdpkitError",
    "Diagnosis",
    "Failure",
    "LaunchError",
    "LogLine",
    "Outcome",
    "Plan",
    "PreflightError",
    "RankError",
    "Replica",
    "Results",
    "Role",
    "Run",
    "RunFailedError",
    "RunState",
    "Status",
    "UsageError",
    "__version__",
    "aio",
    "call",
    "launch",
    "map",
    "open_run",
    "plan",
    "runs",
    "test",
]

if TYPE_CHECKING:
    from ddpkit.api import *  # noqa: F403 - the names of its `__all__`
else:

    def __getattr__(name: str) -> object:
        """Import `ddpkit.api` for one of its names."""
        if name not in __all__:
            raise AttributeError(f"module 'ddpkit' has no attribute {name!r}")
        from ddpkit import api

        return getattr(api, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
