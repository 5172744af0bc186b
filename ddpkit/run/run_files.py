"""Names that ddpkit gives in the directory of a run. A script may save there: all other names are its own."""

from __future__ import annotations

import re
from pathlib import Path

from ddpkit.files import MARKER

KIND = "run"  # of the directory, in its marker
MODE = 0o755  # less the umask: others may look, and never write

_OF_RUN = (
    "run.json", "requests", "requests.taken", "connection", "on_end.log", "on_attempt.log", "metrics_before.json",
    "tests", r"attempt-\d+",
)  # fmt: skip
_OF_ATTEMPT = (
    "status.json", "timeline.json", "launch.json", "attempts.json", "hang.json", "top.json", "report.html",
    "metrics_kept.jsonl", "all.log", "all.times", r"rank_\d+\.log",
    # Of an agent on a host, such as torchrun_node1.log. A host's name has no underscore.
    r"(torchrun|preload|legacy|launch|srun|enroot|apptainer|docker|podman|program)_[A-Za-z0-9.:-]+\.log",
    r"slurm-\d+(_\d+)?\.out", r"job\.[a-z]+", r"(rank_wrapper|torchrun_agent|owned|oom)\.py", r"hosts\.\w{6}",
    r"pbs\.out", r"alive\.\d+",  # of the backend in examples/ddpkit-pbs
    r"(dump|top)\.\d+\.ask", r"dump-\d{8}-\d{6}(-\d+)?", "marks", "hook", "preload", "stage", "__pycache__",
)  # fmt: skip
_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{16}")  # of `owned.replace_file`
_RUN, _ATTEMPT = re.compile("|".join(_OF_RUN)), re.compile("|".join(_OF_ATTEMPT))


def is_of_attempt(name: str) -> bool:
    """Whether ddpkit gives this name to a file or directory of one attempt."""
    draft = _DRAFT.fullmatch(name)
    return _ATTEMPT.fullmatch(draft[1] if draft else name) is not None


def is_of_run(name: str) -> bool:
    """Whether ddpkit gives this name in a run's directory."""
    draft = _DRAFT.fullmatch(name)
    return name == MARKER or is_of_attempt(name) or _RUN.fullmatch(draft[1] if draft else name) is not None


def others(folder: Path) -> list[str]:
    """Return the names in a run's directory that ddpkit does not give. Raises OSError."""
    return sorted(path.name for path in folder.iterdir() if not is_of_run(path.name))
