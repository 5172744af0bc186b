"""Watchdog of one rank of the collectives benchmark: it ends a rank that makes no progress, and names the cause."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any, NoReturn

from ddpkit.distributed.bench.output import Output
from ddpkit.distributed.bench.results import BenchFailure, blame_ranks
from ddpkit.distributed.bench.store import BenchStore
from ddpkit.distributed.check import BAD, GLOO_ADVICE, NCCL_ADVICE, RankEnv


class Watchdog:
    """Progress of the main thread, and two threads that read it.

    The main thread writes `step`, `doing`, `error`, `busy`, `store`, `hosts` and `comm`, and calls `note_progress`.
    """

    def __init__(self, env: RankEnv, timeout: float, grace: float, output: Output) -> None:
        self.step, self.doing, self.error = -4, "", ""
        self.busy = False  # in own work, which ends soon; else it waits for the work of others
        self.store: BenchStore | None = None
        self.hosts = [""] * env.world_size
        self.comm = "gloo"
        self._env, self._timeout, self._grace, self._output = env, timeout, grace, output
        self._progress = time.monotonic()
        self._ending = threading.Lock()  # its holder ends this process
        self._main = threading.get_ident()
        self._terminated, signal_pipe = os.pipe()
        os.set_blocking(signal_pipe, False)
        with contextlib.suppress(ValueError):  # not in the main thread
            # After a first failure torchrun sends SIGTERM to all ranks. The main thread may be in torch and would not
            # run a handler; the watchdog still reports.
            signal.signal(signal.SIGTERM, lambda *_: None)
            signal.set_wakeup_fd(signal_pipe, warn_on_full_buffer=False)

    def start(self) -> None:
        """Start the two threads."""
        for target in (self._watch, self._watch_store):
            threading.Thread(target=target, daemon=True).start()

    def note_progress(self) -> None:
        """Record progress of the main thread."""
        self._progress = time.monotonic()

    def finish(self) -> None:
        """Stop watching. The main thread alone ends the process from now on."""
        self._ending.acquire()

    def _overdue(self) -> float:
        """Return the seconds beyond the timeout; the work of others may take longer than own work."""
        patience = self._timeout * (1 if self.busy else 4)
        return time.monotonic() - self._progress - patience

    def _watch(self) -> None:
        while True:
            terminated = bool(select.select([self._terminated], [], [], 0.5)[0])
            if self.store is None:
                if terminated:
                    os._exit(128 + signal.SIGTERM)
                continue
            try:
                if terminated or self.error or self._overdue() > 0 or self.store.has_state("bad"):
                    self._end_together(self.store, terminated)
            except RuntimeError:  # of the store
                self._end_without_store(0 if self._env.rank == 0 else self._grace)

    def _watch_store(self) -> None:
        """End the process if a hanging rank 0 keeps a request to its store from returning."""
        while self._overdue() < 3 * self._grace:
            time.sleep(0.5)
        self._end_without_store(0)

    def _end_without_store(self, grace: float) -> NoReturn:
        """Report that rank 0 or its host is lost, unless SIGTERM arrives within `grace` seconds."""
        terminated = select.select([self._terminated], [], [], grace)[0]
        self._ending.acquire(blocking=False)
        if not terminated and self._env.rank:
            fix = "read its last lines; if it was killed, read dmesg on that node"
            failure = BenchFailure(0, self.hosts[0], f"does not answer any more, near {self.doing}", fix)
            self._output.add_failure(failure)
        os._exit(BAD)

    def _end_together(self, store: BenchStore, terminated: bool) -> NoReturn:
        """Publish this rank's state; rank 0 collects all states and reports the rank that caused the failure."""
        self._ending.acquire()
        threading.Timer(4 * self._grace, os._exit, (BAD,)).start()
        ranks = range(self._env.world_size)
        store.publish_state("bad", True)
        store.publish_state(f"state {self._env.rank}", self._state(terminated))
        if self._env.rank == 0:
            values = store.poll([f"state {rank}" for rank in ranks], 2 if terminated else self._grace)
            states = {rank: values[f"state {rank}"] for rank in ranks if f"state {rank}" in values}
            failures = blame_ranks(states, self.hosts, self.comm, NCCL_ADVICE if self.comm == "nccl" else GLOO_ADVICE)
            for failure in failures:
                self._output.add_failure(failure)
            if failures:
                self._output.end()
            store.publish_state("over", True)
            store.poll([f"read {rank}" for rank in ranks if rank and rank in states], 2)
            os._exit(BAD if failures else 128 + signal.SIGTERM)
        over = store.poll(["over"], 2 * self._grace)
        store.publish_state(f"read {self._env.rank}", bool(over))
        os._exit(128 + signal.SIGTERM if terminated else BAD)

    def _state(self, terminated: bool) -> dict[str, Any]:
        last = traceback.extract_stack(sys._current_frames().get(self._main))[-1]
        return {
            "step": self.step,
            "where": self.doing,
            "seconds": time.monotonic() - self._progress,
            "error": self.error,
            "ended": terminated,
            "inside": self.busy,
            "torch": f"{os.sep}torch{os.sep}" in last.filename,
            "at": f"{last.filename.rpartition(os.sep)[2]}:{last.lineno} ({last.name})",
        }
