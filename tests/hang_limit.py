"""A bound for each test: a hang fails that test, with the stacks of all threads, and never holds up the suite."""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
from collections.abc import Generator
from typing import NoReturn

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

# Seconds of one test with its fixtures: far above what the longest takes on a loaded machine.
LIMIT = float(os.environ.get("DDPKIT_TEST_LIMIT", "900"))
# More seconds for a main thread that runs no Python. Then this process ends; pytest-xdist starts another one.
LAST = 60.0


def _fail(*_: object) -> NoReturn:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        pytest.fail(f"the test did not end within {LIMIT:g} s; all threads:\n{file.read()}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = signal.signal(signal.SIGALRM, _fail)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    stderr = item.config.stash.get(fault_handler_stderr_fd_key, 2)
    faulthandler.dump_traceback_later(LIMIT + LAST, exit=True, file=stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)  # None: of a C library
