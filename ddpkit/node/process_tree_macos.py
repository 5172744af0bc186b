"""Processes of a system without /proc (macOS), as the program ps prints them. Used by `process_tree.py`, on a laptop
alone.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import subprocess

# Each its own: behind an equals sign BSD takes all the rest for a title.
_FIELDS = ("pid", "ppid", "pgid", "stat", "time", "rss")


def every() -> dict[int, tuple[int, str, float, int, int, str, float]]:
    """As `process_tree.processes`, with zombies as well."""
    argv = ["ps", "-A", *(word for name in _FIELDS for word in ("-o", name + "="))]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}
    ) as ps:
        text = ps.communicate()[0].decode("ascii", "replace")
    table = {}
    for line in text.splitlines():
        pid, parent, group, state, used, memory = line.split()
        if int(pid) != ps.pid:
            table[int(pid)] = (int(parent), state[0], _seconds(used), int(memory) * 1024, int(group), "", 0.0)
    return table


def _seconds(text: str) -> float:
    """`12:34.56` (macOS: minutes), `1-02:03:04`."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)


def command_of(pid: int) -> str:
    argv = ["ps", "-o", "comm=", "-p", str(pid)]
    output = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout
    return os.path.basename(output.decode("utf-8", "replace").strip()) or "?"
