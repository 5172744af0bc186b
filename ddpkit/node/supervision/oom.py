"""The kernel's word on a failed rank: a kill for want of memory, or an error of a GPU. A part of `supervisor.py`.

Read when a rank died by SIGKILL, and never before. The kernel log names the process (`Out of memory: Killed process 123
(python)`, Linux 4.19 and later), but is often not readable. A control group counts its kills for all its processes:
there it is likely, and not sure.
"""

from __future__ import annotations

import re
import time

from ddpkit.node.kernel import cgroups, kernel_log, read_text

FRESH = 120.0  # seconds: numbers of processes are used again
MOST = 300  # characters of a line
# As the drivers write them, without the errors of programs: https://docs.nvidia.com/deploy/xid-errors/
GPU = r"NVRM: Xid \([^)]*\): (?!(?:13|31|43|45|68|69)\b)|amdgpu .*(?:GPU reset|ring \S+ timeout)"

NO_KILL = "the kernel counted no out-of-memory kill"


class Oom:
    """The counters as they were at the start."""

    def __init__(self) -> None:
        self.before = self.first = kills()
        self.began = time.monotonic()

    def why(self, pid: int) -> str:
        """What says that this process, which SIGKILL ended just now, was killed for want of memory; else empty."""
        evidence = []
        line = logged(pid)
        if line:
            evidence.append("the kernel log: " + line)
        before, self.before = self.before, kills()
        for path, number in self.before.items():
            if number > before.get(path, number):
                evidence.append("%s: oom_kill rose by %d" % (path, number - before[path]))
        return "; ".join(evidence)

    def evidence(self, killed: bool) -> str:
        """What the kernel says since the start of GPUs and of kills, whatever the ranks print. `killed`: by SIGKILL."""
        lines, now = [gpu_error(self.began)], kills()
        rose = {path: number - self.first.get(path, number) for path, number in now.items()}
        lines += ["%s: oom_kill rose by %d" % (path, more) for path, more in rose.items() if more > 0]
        if killed and rose and not any(rose.values()):
            lines.append(NO_KILL)
        return "; ".join(filter(None, lines))


def kills() -> dict[str, int]:
    """By file: how many processes of this one's control group the kernel has killed for want of memory."""
    counts = {}
    for folder in cgroups("memory")[:1]:
        for name in ("memory.events", "memory.oom_control"):  # of version 2, of version 1
            number = re.search(r"^oom_kill (\d+)$", read_text(folder + "/" + name), re.MULTILINE)
            if number:
                counts[folder + "/" + name] = int(number[1])
    return counts


def logged(pid: int) -> str:
    """The line of the kernel log about this process; empty where there is none, or where it may not be read."""
    killed = re.compile(r"Killed process %d[ ,]" % pid)
    lines = [text for text in _log(time.monotonic() - FRESH) if killed.search(text)]
    return lines[-1][:MOST] if lines else ""


def gpu_error(since: float) -> str:
    """The first line of the kernel log about an error of a GPU; else empty. `since`: a time.monotonic()."""
    return next((text for text in _log(since) if re.search(GPU, text)), "")[:MOST]


def _log(since: float) -> list[str]:
    try:
        return [text for _, text in kernel_log(since)]
    except OSError:
        return []
