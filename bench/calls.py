"""A call of an empty function in ranks of this machine, beside a launch and the calls of others, as ratios.

Each way starts its ranks anew, and is measured to the value of the last rank. The ways are interleaved, so that noise
hits all alike; a ratio is that of the medians. Other libraries are measured where this Python has them: submitit,
torchrunx (whose workers import torch and form a group) and Ray. Ray keeps its workers; `ray-cold` starts it as well.
With --hold a hold with torch is there, and calls into it are measured too.

Usage: python bench/calls.py [--rounds N] [--ranks N] [--without NAME ...] [--hold] [--json]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import ddpkit  # noqa: E402

MODULE = "def empty():\n    return 1\n"


def empty() -> int:
    """Travel by value, as a function of `__main__`."""
    return 1


def ways(ranks: int, by_name: Callable[[], int], *, hold: bool) -> Mapping[str, Callable[[], object]]:
    """Return what is measured, by name."""
    found: dict[str, Callable[[], object]] = {
        "launch": lambda: ddpkit.launch("-c", ["pass"], nproc_per_node=ranks, hold=False).wait(check=True),
        "call, by name": lambda: ddpkit.call(by_name, nproc_per_node=ranks, hold=False),
        "call, by value": lambda: ddpkit.call(empty, nproc_per_node=ranks, hold=False),
    }
    if hold:
        found["call, held"] = lambda: ddpkit.call(empty, nproc_per_node=ranks)
    if importlib.util.find_spec("submitit"):
        found["submitit"] = lambda: _submitit(ranks)
    if importlib.util.find_spec("torchrunx"):
        found["torchrunx"] = lambda: _torchrunx(ranks)
    if importlib.util.find_spec("ray"):
        found["ray-cold"] = lambda: _ray(ranks)
        found["ray-warm"] = lambda: _ray_warm(ranks)
    return found


def _submitit(ranks: int) -> object:
    import submitit  # type: ignore[import-not-found]

    executor = submitit.LocalExecutor(folder="submitit")
    executor.update_parameters(tasks_per_node=ranks, timeout_min=5)
    return executor.submit(empty).results()


def _torchrunx(ranks: int) -> object:
    import torchrunx  # type: ignore[import-not-found]

    return torchrunx.Launcher(hostnames=["localhost"], workers_per_host=ranks, backend="gloo").run(empty).results


def _ray(ranks: int) -> object:
    import ray  # type: ignore[import-not-found]

    ray.shutdown()
    ray.init("local", num_cpus=ranks, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    return _ray_warm(ranks)


def _ray_warm(ranks: int) -> object:
    import ray

    remote: Any = ray.remote(num_cpus=1)(empty)
    return ray.get([remote.remote() for _ in range(ranks)])


@contextmanager
def held(ranks: int) -> Iterator[None]:
    """Hold this machine with torch for the project in the current directory."""
    Path("ddpkit.toml").touch()
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ddpkit.__main__ import main; main()"
    argv = [sys.executable, "-c", code, "hold", "-n", str(ranks)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as hold:
        assert hold.stdout is not None
        next(line for line in hold.stdout if "imported torch" in line)
        try:
            yield
        finally:
            hold.terminate()
            hold.stdout.read()


def measure(rounds: int, ranks: int, without: Sequence[str], *, hold: bool) -> dict[str, list[float]]:
    """Return the seconds of each way."""
    Path("calls_module.py").write_text(MODULE, encoding="utf-8")
    sys.path.insert(0, str(Path.cwd()))
    module: Any = importlib.import_module("calls_module")
    seconds: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, call in ways(ranks, module.empty, hold=hold).items():
            if name.partition("-")[0] in without:
                continue
            began = time.perf_counter()
            try:
                call()
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                continue
            if number:  # the first round imports
                seconds.setdefault(name, []).append(time.perf_counter() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--without", nargs="*", default=[], help="libraries that are left out: torchrunx, ray")
    parser.add_argument("--hold", action="store_true", help="measure calls into a hold as well")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_STATE_HOME"] = folder
        with held(args.ranks) if args.hold else nullcontext():
            seconds = measure(args.rounds, args.ranks, args.without, hold=args.hold)
        os.chdir("/")
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    if args.json:
        print(json.dumps(medians))
        return
    for name, median in medians.items():
        print(f"{name:<16} {median:7.3f} s   {median / medians['launch']:6.2f} x launch")


if __name__ == "__main__":
    main()
