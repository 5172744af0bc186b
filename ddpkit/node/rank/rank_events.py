"""Tells the supervisor how far a rank's start is, and how long its steps take: its own work, and the whole step.

`rank_observe.py` runs this when a rank begins to import torch; its cost is lost in that import. The part `steps` uses
torch's public hooks:

* after every `step` of any `torch.optim` optimizer: the end of a step, of any script;
* on the first parameter of what DistributedDataParallel wraps: its gradient is among the last that backward computes.
  From the end of the step before to that moment a rank does its own work (data, forward, backward). What follows is
  the exchange of gradients, in which every rank waits for the slowest: only a rank's own work shows which one that is.
  The clock is the host's: on a GPU it is the time to queue the work, and not that of the GPU itself.

What is told goes to the supervisor: sums over a quarter of a second at first, later over 1 and 5 seconds; a step costs
2 to 5 microseconds more. A step that is compiled as a whole (`torch.compile` around `optimizer.step`) is left alone,
and not counted.

    mark RANK NAME TIME               NAME: python, import, imported, cuda, meet, connect, group, wrap (a
                                      DistributedDataParallel begins), collective, step: the first one of each
    versions RANK PYTHON TORCH CUDA NCCL                after the import, of one rank of each node; -: there is none
    steps RANK COUNT WHOLE MOST KNOWN OWN MOST_OWN      counts, and seconds; KNOWN: of how many steps OWN is the sum
    end RANK                                            the rank leaves without Python's own end
"""

from __future__ import annotations

import functools
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

DDP = "torch.nn.parallel.distributed"
# Seconds of one record, by the seconds since the first step.
PACE = ((5.0, 0.25), (60.0, 1.0), (float("inf"), 5.0))


def start(
    tell: Callable[..., None], mark: Callable[[str], None], rank: str, wanted: dict[str, Any], parts: Sequence[str]
) -> None:
    """Begin: torch is about to be imported, or was before this process was forked.

    wanted: gets what is called with a module after its import, as in `rank_observe._when_imported`.
    """
    if "torch" not in sys.modules:
        mark("import")
    if "start" in parts:
        wanted["torch.distributed.rendezvous"] = (None, lambda module: _meeting(module, mark))
        wanted["torch.cuda"] = (None, lambda module: _starting_cuda(module, mark))
        wanted[DDP] = (None, lambda module: _first_collective(module.DistributedDataParallel, mark))
    if "steps" in parts:
        steps = Steps(tell, rank)
        wanted["torch.optim.optimizer"] = (None, steps.hook)
        wanted["torch.nn.modules.module"] = (None, steps.watch)


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
    watched = ((work, "wait"), (wrapper, "__init__"))
    originals = [(owner, name, vars(owner)[name]) for owner, name in watched]  # empty: the mark is made

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **options: Any) -> Any:
            if originals and name == "__init__":
                mark("wrap")
            result = original(*args, **options)
            if originals:
                mark("collective")
            while originals:
                setattr(*originals.pop())  # later calls go past us
            return result

        _not_compiled(call)
        setattr(owner, name, call)

    for owner, name in watched:
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

    def __init__(self, tell: Callable[..., None], rank: str) -> None:
        self.tell, self.rank = tell, rank
        # time.perf_counter() of the first step, the last one, the newest gradient, and the next report
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
        """Take the first step: report it, and have the last steps reported at the end, also at that by `os._exit`."""
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
        self.tell("mark", self.rank, "step", time.time())
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
