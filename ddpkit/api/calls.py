"""A function of the caller in every rank of a launch: `call`, `map`, and both for asyncio."""

from __future__ import annotations

import inspect
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ddpkit import config
from ddpkit.api.keywords import lists_settings, names_keywords, settings_from
from ddpkit.api.run import Run, RunFailedError
from ddpkit.errors import DdpkitError, RankError, UsageError, nearest
from ddpkit.execution import prepare
from ddpkit.execution.background import BackgroundRun, Notes
from ddpkit.execution.function import FunctionRun, code_of, name_of, pack
from ddpkit.execution.hold import join as join_hold
from ddpkit.run import record

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ddpkit.roles.spread import Part

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Item = TypeVar("_Item")


@lists_settings
def call(
    function: Callable[..., _T],
    /,
    *args: Any,
    trust: str = "",
    profile: str | None = None,
    echo: bool = False,
    **keywords: Any,
) -> list[_T]:
    """Call a function in every rank of a launch, wait for its end, and return the value of each rank, by rank.

    The function runs where a script would: the environment of the rank is set, and nothing is initialised. Keywords
    with the name of a setting (`nproc_per_node`, `hosts`, `backend`, ...) are the launch's, all others the function's.
    A name that both have is an error: bind the function's with `functools.partial`.

    Values are None, bool, numbers, text, bytes, lists, tuples, sets, dicts, NumPy arrays and torch tensors, of at most
    16 MiB a rank. `trust="pickle"` allows any type: then the nodes can execute code here.

    Raises RankError for the first rank that fails, with its host, rank, traceback and verdict; RunFailedError where no
    rank is the cause; UsageError, PreflightError or LaunchError where nothing was started. KeyboardInterrupt ends the
    ranks. Output of the ranks is in the run's logs; `echo` prints it.

        losses = ddpkit.call(train, lr=1e-3, nproc_per_node=8)
    """
    started = _begin_call(function, args, keywords, trust, profile, echo=echo)
    try:
        return started.result()
    except BaseException:
        started.stop()
        raise


class _Call:
    """A call that runs. `carrier`: the run as ddpkit carries it out, which has the values of the ranks."""

    def __init__(self, run: Run, carrier: FunctionRun, *, trust: bool) -> None:
        self.run, self._carrier, self._trust = run, carrier, trust

    def result(self) -> list[Any]:
        """Wait for the end, and return the value of each rank. Raises RankError, RunFailedError."""
        outcome = self.run.wait()
        if outcome.failure is not None and outcome.failure.rank is not None:
            raise self._carrier.failure(outcome.failure, outcome.verdict or "")
        if not outcome.ok:
            raise RunFailedError(outcome)
        return self._carrier.results(trust=self._trust)

    def stop(self) -> None:
        """End the ranks, unless they have ended. Says so where they do not: whoever is interrupted gets no error."""
        try:
            if self.run.state.living:
                self.run.stop()
        except DdpkitError as error:
            _log.warning("%s (hint: %s)", error.message, error.hint)


class aio:  # noqa: N801  (a namespace, as a module)
    """`call` and `map` for asyncio. A cancelled task ends its ranks.

    losses = await ddpkit.aio.call(train, lr=1e-3, nproc_per_node=8)
    async for losses in ddpkit.aio.map(train, rates, gpus=2):
        print(losses)
    """

    @staticmethod
    async def call(function: Callable[..., _T], /, *args: Any, **keywords: Any) -> list[_T]:
        """Call a function in every rank, as `ddpkit.call`."""
        options = {name: keywords.pop(name, default) for name, default in _OPTIONS.items()}
        started = await _begin_in_thread(lambda: _begin_call(function, args, keywords, **options), _Call.stop)
        try:
            return await _in_thread(started.result)
        except BaseException:
            await _in_thread(started.stop)
            raise

    @staticmethod
    async def map(
        function: Callable[[_Item], _T], items: Iterable[_Item], /, **keywords: Any
    ) -> AsyncIterator[list[_T]]:
        """Call a function for each item, as `ddpkit.map`."""
        import asyncio

        results = await _begin_in_thread(lambda: map(function, items, **keywords), Results.close)
        try:
            for future in results.futures:
                try:
                    yield await asyncio.wrap_future(future)
                except RankError as error:
                    if not results.return_exceptions:
                        raise
                    yield error  # type: ignore[misc]
        finally:
            await _in_thread(results.close)


_OPTIONS: Mapping[str, Any] = {"trust": "", "profile": None, "echo": False}  # of `call`


async def _begin_in_thread(begin: Callable[[], _T], end: Callable[[_T], None]) -> _T:
    """Begin something in a thread. A task that is cancelled meanwhile waits until it has begun, and ends it.

    Cancelled again, the task waits no longer, and a thread ends what has begun.
    """
    import asyncio

    begun: list[_T] = []
    over = threading.Event()

    def work() -> _T:
        try:
            begun.append(begin())
        finally:
            over.set()
        return begun[0]

    def end_it() -> None:
        over.wait()
        for started in begun:
            end(started)

    try:
        return await _in_thread(work)
    except asyncio.CancelledError:
        with suppress(Exception):
            await _in_thread(end_it)
        raise


async def _in_thread(function: Callable[[], _T]) -> _T:
    """Call a function in a thread of its own: many calls at the same time wait for none of asyncio's few threads."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(value) if error is None else future.set_exception(error)

    def work() -> None:
        value, failed = None, None
        try:
            value = function()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, failed)

    threading.Thread(target=work, name="ddpkit aio", daemon=True).start()
    return await future


class Results(Iterator[Any]):
    """The results of `ddpkit.map`, in the order of the items: for each what `ddpkit.call` returns.

    As with `concurrent.futures`, an item that failed raises when its result is reached, and the others go on: the next
    one can be asked for. `futures` has each item's `concurrent.futures.Future`. At the end of a `with` block, or by
    `close()`, items that run are ended, and no other starts.
    """

    def __init__(
        self, begin: Callable[[int, Part], _Call], number: int, held: ExitStack, parts: Sequence[Part]
    ) -> None:
        self.futures: list[Future[list[Any]]] = [Future() for _ in range(number)]
        self.return_exceptions = False
        self._begin, self._held = begin, held
        self._waiting = iter(range(number))  # indexes of items that have not begun
        self._next = 0  # index of the result that `next` returns
        self._running: set[_Call] = set()
        self._lock, self._closed = threading.Lock(), False
        self._threads = [
            threading.Thread(target=self._work, args=(part,), name=f"ddpkit map {n}", daemon=True)
            for n, part in enumerate(parts[: max(1, number)])
        ]
        self._working = len(self._threads)  # the last to end gives the nodes back
        for thread in self._threads:
            thread.start()

    def _work(self, part: Part) -> None:
        """Carry out one item after the other on a part of a node."""
        while True:
            with self._lock:
                index = None if self._closed else next(self._waiting, None)
            if index is None:
                break
            if self.futures[index].set_running_or_notify_cancel():
                self._carry_out(index, part)
        with self._lock:
            self._working -= 1
            last = self._working == 0
        if last:
            self._held.close()

    def _carry_out(self, index: int, part: Part) -> None:
        """Call the function for one item, and set its future. One that begins while all are ended is ended too."""
        try:
            started = self._begin(index, part)
        except BaseException as error:
            self.futures[index].set_exception(error)
            return
        try:
            with self._lock:
                self._running.add(started)
                closed = self._closed
            if closed:
                started.stop()
            value = started.result()
        except BaseException as error:  # raised where the result is read
            self.futures[index].set_exception(error)
        else:
            self.futures[index].set_result(value)
        finally:
            with self._lock:
                self._running.discard(started)

    def __next__(self) -> Any:
        if self._next >= len(self.futures):
            raise StopIteration
        future, self._next = self.futures[self._next], self._next + 1
        try:
            return future.result()
        except DdpkitError as error:
            if self.return_exceptions:
                return error
            raise
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the items that run, and start no other."""
        with self._lock:
            self._closed, running = True, [*self._running]
        for future in self.futures:
            future.cancel()
        for each in running:
            each.stop()
        for thread in self._threads:
            thread.join()


@lists_settings
def map(  # noqa: A001  (as `concurrent.futures`)
    function: Callable[[_Item], _T],
    items: Iterable[_Item],
    /,
    *,
    gpus: int | None = None,
    at_once: int | None = None,
    return_exceptions: bool = False,
    trust: str = "",
    profile: str | None = None,
    echo: bool = False,
    **settings: Unpack[config.LaunchKeywords],
) -> Results:
    """Call a function for each item, many at the same time, each in a launch of its own on a part of a node.

    `gpus`: of each item; the nodes are packed with as many items as they have GPUs for. None: 1 where there are GPUs.
    Without GPUs an item gets as many CPUs as it has ranks. `nproc_per_node`: ranks of each item, usually one for each
    of its GPUs. `at_once`: the most items at the same time. Other keywords are those of `call`.

    Returns an iterator over what `call` returns for each item, in their order; it does not wait. An item that fails
    raises RankError when its result is reached, and stops no other; with `return_exceptions` the error is its result.
    Use `functools.partial` for a function with more arguments.

        for rate, losses in zip(rates, ddpkit.map(train, rates, gpus=2)):
            print(rate, losses)
    """
    results = _begin_map(
        function, [*items], settings, profile=profile, gpus=gpus, at_once=at_once, trust=trust, echo=echo
    )
    results.return_exceptions = return_exceptions
    return results


@names_keywords
def _begin_map(
    function: Callable[..., object],
    items: Sequence[object],
    given: config.LaunchKeywords,
    *,
    profile: str | None,
    gpus: int | None,
    at_once: int | None,
    trust: str,
    echo: bool,
) -> Results:
    """Part the nodes, and begin the items: each is a launch on one part. The results give the nodes back."""
    from ddpkit.roles.spread import settings_of, spread

    if at_once is not None:
        config.whole(at_once, "at_once=")
    chosen = _settings_for_function(settings_from("-c", ["pass"], profile, given), function, b"")
    packed = [pack(function, (item,), {}, trust=trust, workdir=chosen.workdir) for item in items]
    environ = dict(os.environ)
    with ExitStack() as stack:
        over = stack.enter_context(spread(chosen, environ, gpus, Notes(echo).add))

        @names_keywords
        def begin(index: int, part: Part) -> _Call:
            own = replace(settings_of(part, chosen, over.environ), function=packed[index])
            return _start_call(own, over.environ, trust=trust, echo=echo, index=index)

        return Results(begin, len(items), stack.pop_all(), over.parts[:at_once])


@names_keywords
def _begin_call(
    function: Callable[..., object],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    trust: str,
    profile: str | None,
    *,
    echo: bool,
) -> _Call:
    options = [name for name, value in (("trust", trust), ("profile", profile), ("echo", echo)) if value]
    given = _split_keywords(function, args, keywords, options)
    chosen = settings_from("-c", ["pass"], profile, cast("config.LaunchKeywords", given))
    own = {name: value for name, value in keywords.items() if name not in given}
    packed = pack(function, args, own, trust=trust, workdir=chosen.workdir)
    return _start_call(_settings_for_function(chosen, function, packed), os.environ, trust=trust, echo=echo)


def _split_keywords(
    function: Callable[..., object],
    args: tuple[object, ...],
    keywords: Mapping[str, object],
    options: Sequence[str] = (),
) -> dict[str, object]:
    """Return the keywords that are settings. Raises UsageError for what the function does not take, or both do.

    `options`: parameters of `call` itself that are given.
    """
    if not callable(function):
        raise UsageError(f"{function!r} is not a function", "ddpkit.call(train, lr=1e-3, nproc_per_node=8)")
    given = {name: value for name, value in keywords.items() if name in config.LaunchKeywords.__annotations__}
    own = {name: value for name, value in keywords.items() if name not in given}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a built-in
        return given
    name = name_of(function)
    bound = getattr(function, "keywords", {})  # of a partial
    for each in (*given, *options):
        if each in signature.parameters and each not in bound:
            what = f"{each} is a setting of the launch and a parameter of {name}"
            raise UsageError(what, f"functools.partial({name}, {each}=...), and {each}=... again for the launch")
    try:
        signature.bind(*args, **own)
    except TypeError as error:
        known = [*config.LaunchKeywords.__annotations__, *signature.parameters]
        hints = (nearest(each, known) for each in own if each not in signature.parameters)
        raise UsageError(f"{name}{signature}: {error}", next(filter(None, hints), None)) from None
    return given


def _settings_for_function(
    chosen: config.LaunchSettings, function: Callable[..., object], packed: bytes
) -> config.LaunchSettings:
    """Return the settings of a launch of a function."""
    name = chosen.name or record.usable_name(name_of(function))
    return replace(chosen, script=("-c", code_of(chosen.log_dir)), name=name, function=packed)


def _start_call(
    chosen: config.LaunchSettings, environ: Mapping[str, str], *, trust: str, echo: bool, index: int | None = None
) -> _Call:
    """Launch a function in the background. `index`: of the item of a map; None: a call, which may use a hold."""
    began, notes = time.time(), Notes(echo)
    if index is None:  # the items of a map have their own parts of nodes
        chosen = join_hold(chosen, notes.add)
    with ExitStack() as connections:
        ready = connections.enter_context(prepare.prepare(chosen, environ, notes.add, notes.add_copy))
        shown = ("ddpkit.call", chosen.name) if index is None else ("ddpkit.map", chosen.name, str(index))
        ready = replace(ready, job=replace(ready.job, command=shown))
        log_dir = str(Path(chosen.log_dir).absolute())
        run = FunctionRun(ready, log_dir, began=began, notes=notes.texts, in_program=True)
        started = Run(run.record, BackgroundRun(run, chosen, connections.pop_all(), echo=echo))
        return _Call(started, run, trust=trust == "pickle")
