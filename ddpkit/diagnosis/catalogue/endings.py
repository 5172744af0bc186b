"""Which known failure a signal or an exit code stands for."""

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
# Those of which a command on the host says more than the last lines do.
LOOK = (signal.SIGKILL, signal.SIGBUS, signal.SIGILL)
# What an exit code nearly always means.
CODES: dict[int, str] = {
    2: "usually the script refused its arguments",
    75: "by convention: it saved a checkpoint and asks to be started again",
    126: "the program was found, but may not be executed",
    127: "the program was not found",
}
# What C++ prints when a thread of gloo still runs while the interpreter is taken down (torch 2.13, seen).
TEARDOWN = "terminate called without an active exception"
