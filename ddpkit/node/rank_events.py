"""Tells the supervisor how far a rank's start is, and how long its steps take: its own work, and the whole step.

`rank_hook.py` runs this when a rank begins to import torch; its cost is lost in that import. It uses torch's public
hooks:

* after every `step` of any `torch.optim` optimizer: the end of a step, of any script;
* on the first parameter of what DistributedDataParallel wraps: its gradient is among the last that backward computes.
  From the end of the step before to that moment a rank does its own work (data, forward, backward). What follows is
  the exchange of gradients, in which every rank waits for the slowest: only a rank's own work shows which one that is.
  The clock is the host's: on a GPU it is the time to queue the work, and not that of the GPU itself.

What is told goes to the supervisor, or under SLURM to `rank_events_file.py`: sums over a quarter of a second at first,
later over 1 and 5 seconds; a step costs 2 to 5 microseconds more. A step that is compiled as a whole (`torch.compile`
around `optimizer.step`) is left alone, and not counted.

    mark RANK NAME TIME               NAME: python, import, imported, cuda, meet, connect, group, wrap (a
                                      DistributedDataParallel begins), collective, step: the first one of each
    versions RANK PYTHON TORCH CUDA NCCL                after the import, of one rank of each node; -: there is none
    timeout RANK TIME TYPE                              an exception ends the script: a wait for other ranks took too
                                                        long. The rank stays for a moment, so that it can be looked at
    raised RANK TIME TYPE                               an exception ends the script: torch's teardown takes seconds
    steps RANK COUNT WHOLE MOST KNOWN OWN MOST_OWN      counts, and seconds; KNOWN: of how many steps OWN is the sum
    end RANK                                            the rank leaves without Python's own end
"""

from __future__ import annotations

import functools
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

DDP = "torch.nn.parallel.distributed"
# Seconds of one record, by the seconds since the first step.
PACE = ((5.0, 0.25), (60.0, 1.0), (float("inf"), 5.0))
# Texts of a RuntimeError that follows from the end of another rank, as gloo, TCPStore and NCCL write them.
PEER_ENDED = ("closed by peer", "reset by peer", "got 0 bytes", "remote process exited", "Broken pipe")
PEER_WAIT = 5.0  # seconds in which that rank, whose sockets are closed before its process ends, can end first
# Texts of a RuntimeError after a wait for other ranks, as gloo, NCCL, TCPStore and a monitored barrier write them.
TIMED_OUT = (
    "Timed out waiting",
    "Application timeout caused pair closure",
    "Watchdog caught collective operation timeout",
    "wait timeout after",
    "Timed out after",
    "failed to pass monitoredBarrier",
)
LOOK_WAIT = 8.0  # seconds in which the launcher can look at all ranks, before the first one ends


def start(tell: Callable[..., None], mark: Callable[[str], None], rank: str, wanted: dict[str, Any]) -> None:
    """Begin: torch is about to be imported, or was before this process was forked."""
    if "torch" not in sys.modules:
        mark("import")
    _when_raised(lambda kind, name: tell(kind, rank, time.time(), name))
    steps = Steps(tell, mark, rank)
    wanted["torch.distributed.rendezvous"] = (None, lambda module: _meeting(module, mark))
    wanted["torch.cuda"] = (None, lambda module: _starting_cuda(module, mark))
    wanted[DDP] = (None, lambda module: _first_collective(module.DistributedDataParallel, mark))
    wanted["torch.optim.optimizer"] = (None, steps.hook)
    wanted["torch.nn.modules.module"] = (None, steps.watch)


def _when_raised(say: Callable[[str, str], None]) -> None:
    """Tell of an exception that nobody caught, as soon as Python begins to end because of it: `say(KIND, TYPE)`.

    Not through `sys.excepthook`, which a script may call, replace or look at. `sys.last_value` is set by Python itself,
    but also when C code prints an exception and goes on: there the traceback does not begin where the script does.
    """
    import atexit
    import threading  # torch needs it anyway

    failed: list[bool] = []

    def ending() -> None:
        raised, trace = getattr(sys, "last_value", None), getattr(sys, "last_traceback", None)
        if raised is not None and trace is not None and not isinstance(raised, KeyboardInterrupt):
            frame = trace.tb_frame
            if frame.f_back is None and frame.f_code.co_name in ("<module>", "_run_module_as_main"):
                words = str(raised) if isinstance(raised, RuntimeError) else ""
                if any(text in words for text in TIMED_OUT):
                    say("timeout", type(raised).__name__)
                    _wait_for_sigterm(signals, LOOK_WAIT)
                elif any(text in words for text in PEER_ENDED):
                    _wait_for_sigterm(signals, PEER_WAIT)  # by which the launcher ends the others
                say("raised", type(raised).__name__)
                failed.append(True)

    signals = _signal_pipe()
    atexit.register(lambda: _skip_last_collections() if failed else None)
    try:
        # Called before other threads are waited for, some of which may never end. Python 3.9 and later; not documented.
        threading._register_atexit(ending)  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):
        atexit.register(ending)


def _skip_last_collections() -> None:
    """Spare Python its last garbage collections: with torch they take half a second, in which the whole run waits.

    All else of Python's end stays. Files that only a cycle of objects holds are written now: no collection closes them.
    """
    import gc
    import io

    for each in gc.get_objects():
        if issubclass(type(each), io.IOBase):
            try:
                each.flush()
            except Exception:
                pass  # it is closed, or not to be written
    gc.freeze()


def _signal_pipe() -> int:
    """Return the end of a pipe that gets the number of each signal with a handler of the script; -1: there is none."""
    import os
    import signal

    def forget() -> None:
        """Leave the signals of a forked child to it."""
        other = signal.set_wakeup_fd(-1)
        if other != written:
            signal.set_wakeup_fd(other)

    read, written = os.pipe()
    os.set_blocking(written, False)
    try:
        before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    except ValueError:  # not the main thread
        before = None
    if before == -1:
        os.register_at_fork(after_in_child=forget)
        return read
    if before is not None:  # an event loop has it
        signal.set_wakeup_fd(before)
    os.close(read)
    os.close(written)
    return -1


def _wait_for_sigterm(signals: int, seconds: float) -> None:
    """Wait for SIGTERM, which can have come before. `signals`: of `_signal_pipe`."""
    import os
    import select
    import signal

    until, arrived = time.monotonic() + seconds, select.poll()
    if signals >= 0:
        arrived.register(signals, select.POLLIN)
    while time.monotonic() < until:
        if arrived.poll(max(0.0, 1000 * (until - time.monotonic()))) and signal.SIGTERM in os.read(signals, 1 << 16):
            return


def _meeting(module: Any, mark: Callable[[str], None]) -> None:
    """Its `rendezvous` only gives an iterator: no frame of ours stands in the stack of a rank that waits.

    With the iterator's first item the ranks have found each other; NCCL or gloo connects them next.
    """
    before = module.rendezvous

    def rendezvous(*args: Any, **options: Any) -> Any:
        mark("meet")
        return map(joined, before(*args, **options))

    def joined(item: Any) -> Any:
        mark("connect")
        return item

    rendezvous.__doc__, rendezvous.__module__ = before.__doc__, before.__module__
    rendezvous.__wrapped__ = before  # type: ignore[attr-defined]
    # Where torch was imported before, as with `-o preload`, others have it by its name already.
    for name in ("torch.distributed.distributed_c10d", "torch.distributed"):
        known: Any = sys.modules.get(name)
        if getattr(known, "rendezvous", None) is before:
            known.rendezvous = rendezvous
    module.rendezvous = rendezvous


def _starting_cuda(module: Any, mark: Callable[[str], None]) -> None:
    """Mark the time when CUDA has started in this rank."""
    before = module._lazy_init

    def _lazy_init() -> None:
        before()
        module._lazy_init = before
        mark("cuda")

    module._lazy_init = _lazy_init


def _first_collective(wrapper: Any, mark: Callable[[str], None]) -> None:
    """Mark the first end of a collective that the script waits for, or of those with which a DDP begins (in C++).

    On a GPU that of the script ends when it is queued. Without a device_id NCCL connects the ranks only then, so the
    begin of a DDP is marked as well: a rank may stay in it.
    """
    work = sys.modules["torch.distributed.distributed_c10d"].Work
    methods = [(owner, name, vars(owner)[name]) for owner, name in ((work, "wait"), (wrapper, "__init__"))]

    def watch(owner: Any, name: str) -> None:
        before = getattr(owner, name)

        @functools.wraps(before)
        def call(*args: Any, **options: Any) -> Any:
            if methods and name == "__init__":
                mark("wrap")
            result = before(*args, **options)
            if methods:
                mark("collective")
            while methods:
                setattr(*methods.pop())
            return result

        _not_compiled(call)
        setattr(owner, name, call)

    for owner, name, _ in methods:
        watch(owner, name)


def _not_compiled(function: Any) -> None:
    """Let dynamo run our frame as it is. To compile it would be a graph break, and a warning on the screen."""
    try:
        frames: Any = sys.modules["torch._C"]._dynamo.eval_frame
        if hasattr(frames, "skip_code"):  # older torch
            frames.skip_code(function.__code__)
        else:
            action = frames._FrameAction
            frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, action.DEFAULT))
    except (AttributeError, KeyError, TypeError):
        pass  # another torch


class Steps:
    """The steps of one rank since the last record."""

    def __init__(self, tell: Callable[..., None], mark: Callable[[str], None], rank: str) -> None:
        self.tell, self.mark, self.rank = tell, mark, rank
        self.first = self.last = self.ready = self.due = 0.0
        self.clear()

    def clear(self) -> None:
        self.count = self.known = 0
        self.whole = self.most = self.own = self.most_own = 0.0

    def hook(self, module: Any) -> None:
        """Be called after every step of every optimizer."""
        torch = sys.modules["torch"]
        clock = time.perf_counter

        def compiling() -> bool:  # torch is not whole yet, and older ones have no such function
            nonlocal compiling
            compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
            return bool(compiling())

        def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
            if compiling():
                return
            now = clock()
            if not self.last:
                self.begin(now)
                return
            took = now - self.last
            self.count += 1
            self.whole += took
            if took > self.most:
                self.most = took
            own = self.ready - self.last
            if own > 0:
                self.known += 1
                self.own += own
                if own > self.most_own:
                    self.most_own = own
            self.last = now
            if now >= self.due:
                self.report(now)

        _not_compiled(after_step)
        module.register_optimizer_step_post_hook(after_step)

    def begin(self, now: float) -> None:
        import atexit
        import os

        atexit.register(self.end)
        pid, leave = os.getpid(), os._exit

        def _exit(status: int) -> NoReturn:
            """Leave without atexit: many scripts end so, to avoid torch's teardown."""
            if os.getpid() == pid:
                try:
                    self.end()
                    self.tell("end", self.rank)
                except Exception:
                    pass
            leave(status)

        os._exit = _exit
        self.mark("step")
        self.first = self.last = now
        self.due = now + PACE[0][1]

    def report(self, now: float) -> None:
        sums = ["%.6f" % each for each in (self.whole, self.most, self.own, self.most_own)]
        self.tell("steps", self.rank, self.count, *sums[:2], self.known, *sums[2:])
        self.clear()
        self.due = now + next(pace for until, pace in PACE if now - self.first < until)

    def end(self) -> None:
        if self.count:
            self.report(time.perf_counter())

    def watch(self, module: Any) -> None:
        """Be called when a module gets a part: DistributedDataParallel calls the wrapped one `module`."""

        def registered(whole: Any, name: str, part: Any) -> None:
            if name != "module" or part is None:
                return
            if isinstance(whole, getattr(sys.modules.get(DDP), "DistributedDataParallel", ())):
                first = next((each for each in part.parameters() if each.requires_grad), None)
                if first is not None:
                    first.register_hook(self.arrived)

        _not_compiled(registered)
        _not_compiled(Steps.arrived)
        module.register_module_module_registration_hook(registered)

    def arrived(self, gradient: Any) -> None:
        self.ready = time.perf_counter()
