"""Catalogue entries of signals, and usual meanings of exit codes."""

from __future__ import annotations

import signal

SIGNALS: dict[int, str] = {
    signal.SIGKILL: "killed",
    signal.SIGBUS: "bus-error",
    signal.SIGSEGV: "segfault",
    signal.SIGABRT: "aborted",
    signal.SIGILL: "illegal-instruction",
    signal.SIGFPE: "floating-point-exception",
    signal.SIGTERM: "terminated",
    signal.SIGINT: "interrupted",
}
USER_SIGNALS: dict[int, str] = {signal.SIGUSR1: "user-signal", signal.SIGUSR2: "user-signal"}
# Entries of what ddpkit or the kernel saw, and no text shows.
SEEN: dict[str, str] = {
    "slurmd": "slurm-node-failure",
    "supervisor": "node-lost",
    "again": "asked-again",
    "job-memory": "slurm-out-of-memory",
    "host-memory": "host-out-of-memory",
    "own-option": "bad-arguments",
    "no-torch": "module-missing",
    "torchrun-row": "child-failed",
}
# Signals for which a command on the host shows more than the last lines.
LOOK = (signal.SIGKILL, signal.SIGBUS, signal.SIGILL)
# Usual meaning of an exit code.
CODES: dict[int, str] = {
    2: "usually the script rejected its arguments",
    124: "usually its time limit ended it, as timeout(1) does",
    75: "by convention, the script saved a checkpoint and requests a restart",
    126: "the program was found, but cannot be executed",
    127: "the program was not found",
}


def meaning_of(code: int) -> dict[str, str]:
    """Return the usual meaning of an exit code as a value of an entry; nothing where it has none."""
    return {"meaning": CODES[code]} if code in CODES else {}


# Printed by C++ when a gloo thread still runs during the interpreter's shutdown (seen with torch 2.13).
TEARDOWN = "terminate called without an active exception"
