"""Functions in the ranks of a launch: values, failures, what travels how, the end of a call, and items in parts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import itertools
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from program import MARK, PATIENCE, marked

import ddpkit
from ddpkit import config
from ddpkit.api.calls import _begin_in_thread

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("own_place")]


def wait_for(seen: Callable[[], Any]) -> Any:
    until = time.monotonic() + PATIENCE
    while not (found := seen()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


def program(text: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder, whose functions are in `__main__`."""
    Path("main.py").write_text(text)
    return subprocess.run(
        [sys.executable, "main.py", *words], env={**os.environ, **env}, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip


def test_a_call_in_a_module_that_ranks_import_starts_no_other(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(
        "import ddpkit\ndef work(): return 1\ntry:\n    print(ddpkit.call(work, nproc_per_node=2), flush=True)\n"
        "except ddpkit.DdpkitError as error:\n    print(error, flush=True)\n    raise\n"
    )
    done = program("import again")
    assert done.returncode != 0
    assert "would start a run, in each rank, and so on" in done.stdout, done.stdout + done.stderr
    assert len(ddpkit.runs()) == 1


# ---- values


def test_values_come_back_by_rank(capfd: pytest.CaptureFixture[str]) -> None:
    offset = 10

    def work(x: int, *, factor: int = 1) -> dict[Any, Any]:
        import os

        rank = int(os.environ["RANK"])
        print("this is rank", rank)
        return {"value": x * factor + offset + rank, "world": int(os.environ["WORLD_SIZE"]), (rank,): b"\0"}

    values = ddpkit.call(work, 2, factor=3, nproc_per_node=2)
    assert values == [{"value": 16, "world": 2, (0,): b"\0"}, {"value": 17, "world": 2, (1,): b"\0"}]
    (run,) = ddpkit.runs()
    assert (run.state, run.command) == ("done", ("ddpkit.call", "work"))
    assert sorted(line.text for line in run.logs() if line.rank is not None) == ["this is rank 0", "this is rank 1"]
    assert capfd.readouterr() == ("", "")
    ddpkit.call(partial(print, "shown"), echo=True)
    assert "shown" in capfd.readouterr().out


def test_the_rank_has_the_environment_of_a_script() -> None:
    """Nothing is initialised, and nothing of ddpkit is left in the process."""

    def look() -> Any:
        import sys

        mine = {name for name in sys.modules if name.partition(".")[0] in ("torch", "ddpkit", "json", "pickle")}
        return sorted(mine), sys.argv, {name: os.environ.get(name) for name in names}

    import os

    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "DDPKIT_RUN",
        "DDPKIT_CALL",
        "DDPKIT_HOOK",
        "PYTHONPATH",
    )
    modules, argv, env = ddpkit.call(partial(look), observe=[])[0]
    assert "torch" not in modules
    assert "ddpkit" not in modules
    assert argv == ["-c"]
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")
    assert (env["DDPKIT_CALL"], env["DDPKIT_HOOK"], env["PYTHONPATH"]) == (None, None, None)


@pytest.mark.torch
@pytest.mark.parametrize("starter", [{}, {"starter": "torchrun"}, {"preload": "torch"}], ids=str)
def test_torch_distributed_in_a_function(starter: dict[str, str]) -> None:
    def reduced() -> Any:
        import torch
        from torch import distributed

        distributed.init_process_group("gloo")
        value = torch.ones(2) * (distributed.get_rank() + 1)
        distributed.all_reduce(value)
        distributed.destroy_process_group()
        return value

    values = ddpkit.call(reduced, nproc_per_node=2, options=starter)
    assert [value.tolist() for value in values] == [[3, 3], [3, 3]]


MAIN = """
import sys
from pathlib import Path
import ddpkit
import helper  # of this folder

class Config:
    def __init__(self, rate):
        self.rate = rate

def train(config):
    import second  # of another folder on the path of this program
    return helper.double(config.rate) + second.ONE

if __name__ == "__main__":
    sys.path.append(str(Path("more").absolute()))
    print(ddpkit.call(train, Config(4)), ddpkit.call(helper.double, 4), ddpkit.call(lambda: 7))
    print(type(ddpkit.call(Config, 3, trust="pickle")[0]) is Config)
"""


def test_functions_of_main_and_of_modules(tmp_path: Path) -> None:
    Path("helper.py").write_text("def double(x):\n    return 2 * x\n")
    Path("more").mkdir()
    Path("more/second.py").write_text("ONE = 1\n")
    done = program(MAIN)
    assert (done.stdout, done.stderr) == ("[9] [8] [7]\nTrue\n", "")
    Path("work").mkdir()
    done = program(MAIN.replace("Config(4))", "Config(4), workdir='work')"))
    assert (done.stdout, done.stderr) == ("[9] [8] [7]\nTrue\n", "")


def test_ranks_need_no_cloudpickle(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "bare"], check=True)
    python = str(tmp_path / "bare/bin/python")
    assert ddpkit.call(lambda: __import__("sys").prefix, python=python) == [str(tmp_path / "bare")]
    name = "prefix"
    in_closure = lambda: getattr(__import__("sys"), name)  # noqa: E731
    assert ddpkit.call(in_closure, python=python) == [str(tmp_path / "bare")]


@pytest.mark.new_python
def test_ranks_import_what_a_function_needs_and_no_more() -> None:
    known = {"dataclasses", "logging"}  # imported by cloudpickle
    loaded = lambda names: sorted(names & {*sys.modules})  # noqa: E731
    in_closure = lambda: sorted(known & {*sys.modules})  # noqa: E731
    assert ddpkit.call(loaded, known) == [[]]
    assert ddpkit.call(in_closure) == [sorted(known)]
    assert ddpkit.call(lambda: __import__("cloudpickle").__name__) == ["cloudpickle"]


def test_without_cloudpickle_functions_of_modules_still_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert ddpkit.call(os.path.join, "a", "b") == ["a/b"]
    with pytest.raises(ddpkit.UsageError) as raised:
        ddpkit.call(lambda: 1)
    assert raised.value.hint == "pip install cloudpickle"
    assert ddpkit.runs()[1:] == []


def test_arguments_are_nowhere_to_be_read(tmp_path: Path) -> None:
    secret = secrets.token_hex(16)

    def look(word: str) -> list[str]:
        import os
        import sys

        shown = [open(f"/proc/{pid}/cmdline", "rb").read() for pid in (os.getpid(), os.getppid())]
        return [*map(repr, shown), *sys.argv, *map(str, os.environ.items())]

    values = ddpkit.call(look, secret)
    assert secret not in str(values)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


# ---- failures


def test_the_first_failing_rank_is_raised() -> None:
    def fail(word: str) -> None:
        import os
        import time

        if os.environ["RANK"] == "1":
            print("cannot go on")
            raise ValueError(f"no {word}")
        time.sleep(3600)

    with pytest.raises(ddpkit.RankError) as raised:
        ddpkit.call(fail, "data", nproc_per_node=3)
    error = raised.value
    (run,) = ddpkit.runs()
    assert (error.rank, error.kind, error.reason, error.exit_code) == (1, "ValueError", "no data", 1)
    assert (error.host, error.run_id) == (run.hosts[0], run.run_id)
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert error.traceback.endswith("in fail\nValueError: no data\n") or "in fail" in error.traceback
    assert "ddpkit_call" not in error.traceback
    assert error.verdict.startswith(f"rank 1 on {run.hosts[0]} failed first")
    assert f"rank 1 on {run.hosts[0]}: ValueError: no data\nTraceback" in str(error)
    assert [line.text for line in run.logs(rank=1)][-1] == "ValueError: no data"


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        ("import sys; sys.exit(7)", 7, "exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", 137, "SIGKILL"),
        ("import os; os._exit(0)", 125, "before the function returned"),
        ("import sys; sys.exit()", 125, "before the function returned"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_a_rank_that_ends_without_a_value(end: str, code: int, words: str) -> None:
    with pytest.raises(ddpkit.RankError) as raised:
        ddpkit.call(exec, end)
    assert (raised.value.rank, raised.value.kind) == (0, "")
    assert raised.value.exit_code == code
    assert words in str(raised.value)


def test_the_error_is_that_of_the_last_attempt() -> None:
    """The first attempt leaves an exception, the second one nothing."""

    def fail() -> None:
        import os
        import signal

        if os.environ["DDPKIT_ATTEMPT"] == "1":
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ddpkit.RankError) as raised:
        ddpkit.call(fail, retries=1)
    error = raised.value
    assert (error.kind, error.exit_code) == ("", 137)
    assert "SIGKILL" in error.reason
    assert len(ddpkit.runs()[0].attempts) == 2


def test_an_exception_with_controls_is_shown_without_them() -> None:
    def fail() -> None:
        raise RuntimeError("\x1b]0;title\x07red\x1b[31m" + "x" * 1_000_000)

    with pytest.raises(ddpkit.RankError) as raised:
        ddpkit.call(fail)
    assert "\x1b" not in str(raised.value)
    assert len(str(raised.value)) < 300_000


def test_a_value_of_another_type_is_an_error() -> None:
    for value in ("object()", "{'a': [range(3)]}"):
        with pytest.raises(ddpkit.RankError, match=r"its type.* is (object|range), which is not sent.*trust='pickle'"):
            ddpkit.call(eval, value)
    assert ddpkit.call(eval, "range(3)", trust="pickle") == [range(3)]


@pytest.mark.parametrize(
    ("begin", "words", "hint"),
    [
        (lambda: ddpkit.call(lambda nnodes: nnodes, nnodes=1), "nnodes is a setting of the launch and a", "partial("),
        (lambda: ddpkit.call(lambda echo: echo, echo=True), "echo is a setting of the launch and a", "partial("),
        (lambda: ddpkit.call(lambda x: x, 1, nproc_per_nod=2), "unexpected keyword", "did you mean 'nproc_per_node'?"),
        (lambda: ddpkit.call(lambda x: x), "missing a required argument: 'x'", None),
        (lambda: ddpkit.call(3), "3 is not a function", "ddpkit.call(train"),  # type: ignore[arg-type]
        (lambda: ddpkit.call(print, threading.Lock()), "print cannot be sent", "plain values"),
        (lambda: ddpkit.call(print, b"x" * (17 << 20)), "the limit is 16 MiB", "file"),
        (lambda: ddpkit.call(print, trust="all"), "trust='all'", "trust='pickle'"),
        (lambda: ddpkit.call(print, nproc_per_node=0), "nproc_per_node = 0", None),
        (lambda: ddpkit.map(print, [1], gpus=3), "has 0 GPUs, and each item needs 3", "gpus=0"),
        (lambda: ddpkit.map(print, [1], at_once=0), "at_once=0: must be at least 1", None),
    ],
)
def test_a_wrong_call_is_refused(begin: Callable[[], object], words: str, hint: str | None) -> None:
    with pytest.raises(ddpkit.UsageError) as raised:
        begin()
    assert words in raised.value.message
    assert hint is None or hint in (raised.value.hint or "")
    assert ddpkit.runs() == []
    assert not Path("logs").exists()


def test_a_clash_is_solved_by_a_partial() -> None:
    assert ddpkit.call(partial(lambda name: name, name="mine"), name="launch") == ["mine"]
    assert ddpkit.runs()[0].run_id.split("-")[2] == "launch"


def test_the_signature_lists_the_settings() -> None:
    for function in (ddpkit.call, ddpkit.map):
        names = list(inspect.signature(function).parameters)
        assert set(config.LaunchKeywords.__annotations__) <= set(names)
        assert names[0] == "function"
    assert list(inspect.signature(ddpkit.call).parameters)[-1] == "keywords"


# ---- the end of a call

SLEEPS = """
import os, sys, time
import ddpkit
def sleep():
    open(f"rank{os.environ['RANK']}", "x").close()
    time.sleep(3600)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("what", ["ddpkit.call(sleep, nproc_per_node=2)", "list(ddpkit.map(sleep1, [0], gpus=0))"])
def test_an_interrupt_ends_the_ranks(end: signal.Signals, what: str) -> None:
    mark = f"call {secrets.token_hex(8)}"
    Path("main.py").write_text(f"{SLEEPS}\ndef sleep1(_): sleep()\n{what}\n")
    process = subprocess.Popen(
        [sys.executable, "main.py"], env={**os.environ, MARK: mark}, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: Path("rank0").exists() and ("map" in what or Path("rank1").exists()))
    process.send_signal(end)
    error = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode in (-end, 1, 130)
    assert end == signal.SIGKILL or error.rstrip().endswith("KeyboardInterrupt")
    wait_for(lambda: not marked(mark))


def test_await_and_cancel() -> None:
    def sleep(name: str) -> None:
        import time

        open(name, "x").close()
        time.sleep(3600)

    async def work() -> list[Any]:
        values = await asyncio.gather(*(ddpkit.aio.call(pow, n, 2) for n in range(3)))
        task = asyncio.ensure_future(ddpkit.aio.call(sleep, str(Path("here").absolute())))
        while not Path("here").exists():
            assert not task.done()
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ddpkit.RankError, match="ZeroDivisionError"):
            await ddpkit.aio.call(divmod, 1, 0)
        items = [value async for value in ddpkit.aio.map(abs, [-1, -2], gpus=0)]
        return [*values, *items]

    assert asyncio.run(work()) == [[0], [1], [4], [1], [2]]
    assert sorted(run.state for run in ddpkit.runs()) == ["done"] * 5 + ["failed", "stopped"]


def test_a_task_that_is_cancelled_twice_while_its_call_starts_ends_it() -> None:
    may_begin, ended = threading.Event(), threading.Event()

    async def work() -> None:
        task = asyncio.ensure_future(_begin_in_thread(may_begin.wait, lambda _: ended.set()))
        for _ in range(2):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not ended.is_set()
        may_begin.set()

    asyncio.run(work())
    assert ended.wait(PATIENCE)


def test_calls_from_threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda n: ddpkit.call(abs, -n), range(4))) == [[0], [1], [2], [3]]


def test_a_call_that_another_shell_stops() -> None:
    stopper = threading.Thread(target=lambda: wait_for(lambda: [run.stop() for run in ddpkit.runs() if run.hosts]))
    stopper.start()
    with pytest.raises(ddpkit.RunFailedError) as raised:
        ddpkit.call(time.sleep, 3600)
    assert raised.value.outcome.state is ddpkit.RunState.STOPPED
    stopper.join()


# ---- items


def test_items_are_packed_on_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs a trial: at each moment no GPU has two trials, and all have one."""
    monkeypatch.setenv("DDPKIT_GPUS", "4")

    def trial(item: int) -> Any:
        import os
        import time

        began = time.time()
        time.sleep(0.3)
        return os.environ["CUDA_VISIBLE_DEVICES"], os.environ["WORLD_SIZE"], began, time.time(), item

    trials = list(ddpkit.map(trial, range(6), gpus=2))
    assert [ranks[0][4] for ranks in trials] == [*range(6)]
    assert {len(ranks) for ranks in trials} == {2}
    assert {(ranks[0][0], ranks[0][1]) for ranks in trials} == {("0,1", "2"), ("2,3", "2")}
    for devices in ("0,1", "2,3"):
        spans = sorted((ranks[0][2], ranks[0][3]) for ranks in trials if ranks[0][0] == devices)
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    assert ddpkit.runs()[0].command[:2] == ("ddpkit.map", "trial")


def test_a_failing_item_stops_no_other() -> None:
    def check(item: int) -> int:
        return 10 // item

    results = ddpkit.map(check, [1, 0, 5], gpus=0)
    assert next(results) == [10]
    with pytest.raises(ddpkit.RankError, match="ZeroDivisionError"):
        next(results)
    assert next(results) == [2]
    with pytest.raises(StopIteration):
        next(results)
    one, error, two = ddpkit.map(check, [1, 0, 5], return_exceptions=True, at_once=1)
    assert (one, error.kind, two) == ([10], "ZeroDivisionError", [2])
    assert isinstance(results.futures[1].exception(), ddpkit.RankError)
    assert list(ddpkit.map(check, [])) == []


def test_the_end_of_a_block_ends_items() -> None:
    def sleep(item: int) -> int:
        import time

        open(f"item{item}", "x").close()
        time.sleep(3600 if item else 0)
        return item

    with ddpkit.map(sleep, range(9), at_once=2) as results:
        assert next(results) == [0]
        wait_for(lambda: Path("item2").exists())
    assert [future.cancelled() for future in results.futures[3:]] == [True] * 6
    assert not Path("item3").exists()
    assert sorted(run.state for run in ddpkit.runs()) == ["done", "stopped", "stopped"]
