"""Hardware of a node whose ranks hang: counters of network adapters and NVLink before and after, GPUs, kernel messages.

Programs read what a driver may hold up, and nobody waits for them beyond the limit. Nothing here judges.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time

from ddpkit.node.calls.gpu_inventory import finish, imex_channels
from ddpkit.node.kernel import kernel_log, list_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_MESSAGES = 50  # the newest ones
LAST_LOOK = 0.5  # seconds that are left for the second look
# Messages of the drivers of GPUs and adapters.
MESSAGE = re.compile(
    r"NVRM: |SXid|fallen off the bus|mlx5_core.*(?:down|err|fail|health|timeout)|amdgpu.*(?:reset|hang|timeout|error)"
)
# A counter of `nvidia-smi nvlink` below the line of its GPU: `Link 0: Data Tx: 1234 KiB`, `Link 0: CRC Errors: 0`.
LINK = re.compile(r"^\s+(Link \d+: [^:]+): (\d+)(?: \w+)?\s*$")
QUESTIONS = {
    "traffic": ("nvlink", "--getthroughput", "d"),
    "errors": ("nvlink", "--errorcounters"),
    "all": ("-q", "-x"),
}


class Look:
    """The first look at counters is at once, and the second one in `finish`."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._began = time.monotonic()
        self._first = self._start_adapters()

    def _start_adapters(self) -> subprocess.Popen[bytes] | None:
        """Start to read each port's counters. An adapter whose firmware hangs holds its reader."""
        folder = self._root + "sys/class/infiniband/"
        ports = [(device, port) for device in list_names(folder) for port in list_names(folder + device + "/ports")]
        files = [
            "%s%s/ports/%s/%s/%s" % (folder, device, port, kind, name)
            for device, port in ports
            for kind in ("counters", "hw_counters")
            for name in list_names("%s%s/ports/%s/%s" % (folder, device, port, kind))
        ]
        return _start("grep", "-sH", "", *files) if files else None

    def finish(self, until: float, since: float, gpus: bool) -> dict[str, Any]:
        """Everything, by `until`. since: of kernel messages, seconds after the boot; gpus: ask nvidia-smi as well."""
        gpus = gpus and os.path.exists(self._root + "dev/nvidiactl")
        first = self._ask_gpus(until - LAST_LOOK, "traffic", "errors", "all") if gpus else {}
        before = {**links(first), **_adapters(self._first, until - LAST_LOOK)}
        second = self._ask_gpus(until, "traffic", "errors") if links(first) else {}
        after = {**links(second), **_adapters(self._start_adapters(), until)}
        messages = kernel_messages(since, self._root + "dev/kmsg")
        why = ["nvidia-smi did not answer in time"] if gpus and not first.get("all") else []
        return {
            "seconds": round(time.monotonic() - self._began, 2),
            "counters": {name: [before[name], after[name]] for name in before if after.get(name)},
            "kernel": messages if isinstance(messages, list) else [],
            "imex_channels": imex_channels(self._root),
            "smi": first.get("all", ""),
            "why": "; ".join([*why, messages] if isinstance(messages, str) else why),
        }

    def _ask_gpus(self, until: float, *names: str) -> dict[str, str]:
        programs = {name: _start("nvidia-smi", *QUESTIONS[name]) for name in names}
        return {name: finish(program, until)[1] for name, program in programs.items() if program is not None}


def _start(*words: str) -> subprocess.Popen[bytes] | None:
    with contextlib.suppress(OSError):
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return None


def _adapters(program: subprocess.Popen[bytes] | None, until: float) -> dict[str, int]:
    """Counters as `mlx5_0 port 1 port_xmit_data`."""
    text = "" if program is None else finish(program, until)[1]
    found = re.findall(r"/infiniband/([^/]+)/ports/(\d+)/\w+/(\w+):(\d+)$", text, re.MULTILINE)
    return {"%s port %s %s" % (device, port, name): int(number) for device, port, name, number in found}


def links(texts: dict[str, str]) -> dict[str, int]:
    """Counters as `GPU 0 Link 3: Data Tx`."""
    counters, gpu = {}, ""
    for line in (texts.get("traffic", "") + "\n" + texts.get("errors", "")).splitlines():
        head, counter = re.match(r"GPU \d+", line), LINK.match(line)
        gpu = head.group() if head else gpu
        if counter:
            counters["%s %s" % (gpu, counter.group(1))] = int(counter.group(2))
    return counters


def kernel_messages(since: float, path: str = "/dev/kmsg") -> list[str] | str:
    """Messages of drivers since then, the oldest first; text: why nobody knows. Many machines show them to root."""
    try:
        lines = ["[%.1f] %s" % (at, text[:300]) for at, text in kernel_log(since, path) if MESSAGE.search(text)]
    except OSError as error:
        return "%s: %s" % (path, error.strerror)
    return lines[-MOST_MESSAGES:]
