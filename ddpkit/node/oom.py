"""Out-of-memory kills: tells if the kernel killed a rank for want of memory. A part of `supervisor.py`.

Read when a rank died by SIGKILL, and never before. The kernel log names the process (`Out of memory: Killed process 123
(python)`, Linux 4.19 and later), but is often not readable. A control group counts its kills for all its processes:
there it is likely, and not sure. Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import re
import time

RECORDS = 20000  # of the kernel log, at most
FRESH = 120.0  # seconds: numbers of processes are used again


class Oom:
    """The counters as they were at the start."""

    def __init__(self) -> None:
        self.before = kills()

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


def kills() -> dict[str, int]:
    """By file: how many processes of this one's control group the kernel has killed for want of memory."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().split()
    except OSError:
        return {}
    counts = {}
    for line in lines:
        _, kinds, group = (line + "::").split(":")[:3]
        if kinds == "":
            path, pattern = "/sys/fs/cgroup%s/memory.events" % group.rstrip("/"), r"^oom_kill (\d+)$"
        elif "memory" in kinds.split(","):
            path, pattern = "/sys/fs/cgroup/memory%s/memory.oom_control" % group.rstrip("/"), r"^oom_kill (\d+)$"
        else:
            continue
        try:
            with open(path) as file:
                number = re.search(pattern, file.read(), re.MULTILINE)
        except OSError:
            continue  # mounted elsewhere; or the root group, which counts nothing
        if number:
            counts[path] = int(number[1])
    return counts


def logged(pid: int) -> str:
    """The line of the kernel log about this process; empty where there is none, or where it may not be read."""
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    line = ""
    try:
        for _ in range(RECORDS):
            try:
                record = os.read(fd, 8192).decode("utf-8", "replace")
            except BrokenPipeError:
                continue  # it was overwritten while we read
            except OSError:
                break
            prefix, _, text = record.partition("\n")[0].partition(";")
            fresh = time.monotonic() - int(prefix.split(",")[2]) / 1e6 < FRESH
            if not fresh:
                continue
            if "Killed process %d " % pid in text or "Killed process %d," % pid in text:
                line = text
    finally:
        os.close(fd)
    return line[:300]
