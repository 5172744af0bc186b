"""Verification of ddpkit on a machine with NVIDIA GPUs: `make gpu`, or `python3 tests/gpu/verify.py`.

The Python that runs it needs a CUDA build of torch, typer and rich. Each check is a program with a time limit, and all
of them end within nine minutes. A line is printed for each: PASS, FAIL, SKIP, or KEPT for an output that nothing
judges. The last line is JSON. The outputs are in a directory, and in a .tar.gz file beside it.

exit codes: 0 no check failed; 1 a check failed; 3 CUDA does not start on this machine, so nothing was checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_checks import CHECKS, CUDA_START, DDPKIT, PROGRAMS, PROJECT, Check

BUDGET = 520.0  # seconds for all checks: with the last one's end, nine minutes
GRACE = 10.0  # seconds between SIGTERM and SIGKILL, for ddpkit to end its ranks
NO_CUDA = 3
LEAST = 10.0  # seconds that must be left for a check


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one check: PASS, FAIL, SKIP or KEPT, and the reason."""

    check: Check
    state: str
    reason: str = ""
    seconds: float = 0.0
    text: str = ""


@dataclass(kw_only=True)
class Machine:
    """Versions and GPUs, as `programs/cuda_start.py` reports them. Without CUDA there are no GPUs."""

    gpus: list[str] = field(default_factory=list)
    numpy: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def environment(check: Check, out: Path) -> dict[str, str]:
    """Return the environment of a check: this one, without variables that would change what is tested."""
    foreign = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "DDPKIT_", "MASTER_", "NCCL_HOSTID")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "PYTHONPATH")
    clean = {name: text for name, text in os.environ.items() if not name.startswith(foreign) and name not in names}
    paths = {"PYTHONPATH": f"{PROJECT}{os.pathsep}{PROGRAMS}", "XDG_STATE_HOME": str(out / "state")}
    return {**clean, **paths, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **check.env}


class Running:
    """A program whose output is read while it runs."""

    def __init__(self, check: Check, out: Path) -> None:
        self._cwd, self._env = out / "work", environment(check, out)
        self._process = subprocess.Popen(
            check.argv,
            cwd=self._cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._matched = threading.Event()
        self._ready = re.compile(check.ready) if check.ready else None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line)
                if self._ready is not None and self._ready.search(line):
                    self._matched.set()
        self._matched.set()  # the program has ended: nothing more comes

    @property
    def text(self) -> str:
        """Return the output until now."""
        return "".join(self._lines)

    def interrupt(self, check: Check, until: float) -> None:
        """After the line `ready`, run commands beside the program. Their output is added. Then send SIGINT."""
        self._matched.wait(until - time.monotonic())
        time.sleep(check.settle)
        for argv in check.then:
            left = max(1.0, until - time.monotonic())
            try:
                done = subprocess.run(
                    argv,
                    cwd=self._cwd,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    timeout=min(40.0, left),
                    check=False,
                )
                self._lines.append(f"\n$ {shown(argv)}\n{done.stdout}exit code {done.returncode}\n")
            except subprocess.TimeoutExpired:
                self._lines.append(f"\n$ {shown(argv)}\nno end within {min(40.0, left):.0f} s\n")
        self._signal(signal.SIGINT)

    def end(self, until: float) -> int | None:
        """Wait for the end. Returns the exit code, or None where the time limit ended the program."""
        code: int | None = None
        try:
            code = self._process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        self._reader.join(2.0)  # a process that is left behind may hold the pipe
        return code

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)


def shown(argv: tuple[str, ...]) -> str:
    """Return a command as a shell takes it."""
    return "ddpkit " + shlex.join(argv[3:]) if argv[:3] == DDPKIT else shlex.join(argv)


def run_check(check: Check, out: Path, left: float = BUDGET) -> Result:
    """Run one check in `out`/work within `left` seconds. Its output is kept as `out`/NAME.txt."""
    (out / "work").mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    until = began + min(check.limit, left)
    try:
        running = Running(check, out)
    except OSError as error:
        return Result(check=check, state="SKIP", reason=f"{check.argv[0]}: {error.strerror}")
    if check.ready:
        running.interrupt(check, until)
    code = running.end(until)
    seconds, text = time.monotonic() - began, running.text
    ended = f"exit code {code}" if code is not None else f"no end within {min(check.limit, left):.0f} s"
    head = f"# {check.name}: {check.purpose}\n# $ {shown(check.argv)}\n# {ended}, {seconds:.1f} s\n"
    (out / f"{check.name}.txt").write_text(head + text)
    reason = "" if check.recording else judge(check, code, text)
    state = "KEPT" if check.recording else "FAIL" if reason else "PASS"
    return Result(check=check, state=state, reason=reason, seconds=seconds, text=text)


def judge(check: Check, code: int | None, text: str) -> str:
    """Return why a check failed, or ''."""
    if code is None:
        return "no end within its time limit"
    if check.code is not None and code != check.code:
        return f"exit code {code}, not {check.code}"
    for pattern in check.present:
        if not re.search(pattern, text, re.MULTILINE):
            return f"not in the output: {pattern}"
    for pattern in check.absent:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return f"in the output: {found[0][:200]}"
    return ""


def missing(check: Check, machine: Machine) -> str:
    """Return what the check needs and this machine does not have, or ''."""
    if check.gpus > len(machine.gpus):
        needed = f"{check.gpus} GPUs" if check.gpus > 1 else "a GPU on which CUDA starts"
        return f"it needs {needed}; this machine has {len(machine.gpus)}"
    if check.single and len(machine.gpus) > 1:
        return f"it needs one GPU alone; this machine has {len(machine.gpus)}"
    return "it needs numpy" if check.numpy and not machine.numpy else ""


def read_machine(result: Result) -> Machine:
    """Read the last line of `cuda-start`."""
    if result.state != "PASS":
        return Machine()
    facts = json.loads(result.text.strip().splitlines()[-1])
    return Machine(gpus=facts["gpus"], numpy=facts["numpy"], facts=facts)


def run_all(out: Path, only: str, regardless: bool) -> Iterator[Result]:
    """Run the checks in their order. `regardless`: also where CUDA does not start."""
    until = time.monotonic() + BUDGET
    first = run_check(CUDA_START, out)
    yield first
    machine = read_machine(first)
    hung: set[str] = set()  # programs of recordings that did not end: no other one of them is waited for
    for check in CHECKS:
        if check is CUDA_START or not re.search(only, check.name):
            continue
        left = until - time.monotonic()
        reason = "" if regardless else missing(check, machine)
        if check.argv[0] in hung:
            reason = f"{check.argv[0]} did not end before"
        if left < LEAST:
            reason = f"the time of {BUDGET:.0f} s is spent"
        result = Result(check=check, state="SKIP", reason=reason) if reason else run_check(check, out, left)
        if check.recording and not reason and result.seconds >= min(check.limit, left):
            hung.add(check.argv[0])
        yield result


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("verify.py", description=__doc__, formatter_class=style)
    parser.add_argument("--out", type=Path, help="directory of the outputs (default: gpu-TIME, in this directory)")
    parser.add_argument("--only", default="", metavar="REGEX", help="run only checks whose name matches")
    parser.add_argument("--regardless", action="store_true", help="run all checks, also where CUDA does not start")
    parser.add_argument("--list", action="store_true", help="print the checks with their purpose, and run nothing")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the checks, print a line for each, and keep the outputs. Returns the exit code."""
    args = parse_args(argv)
    if args.list:
        for check in CHECKS:
            print(f"{check.name:22}{check.purpose}")
        return 0
    out = (args.out or Path(time.strftime("gpu-%Y%m%d-%H%M%S"))).resolve()
    began, results = time.monotonic(), []
    for result in run_all(out, args.only, args.regardless):
        results.append(result)
        reason = f": {result.reason}" if result.reason else ""
        print(
            f"{result.state} {result.check.name} ({result.seconds:.1f} s): {result.check.purpose}{reason}", flush=True
        )
    machine = read_machine(results[0])
    states = {state: [one.check.name for one in results if one.state == state] for state in ("PASS", "FAIL", "SKIP")}
    summary = {
        "passed": len(states["PASS"]),
        "failed": states["FAIL"],
        "skipped": states["SKIP"],
        "seconds": round(time.monotonic() - began, 1),
        "machine": machine.facts,
    }
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    archive = out.with_name(out.name + ".tar.gz")
    with tarfile.open(archive, "w:gz") as file:
        for path in sorted(out.glob("*.*")):
            file.add(path, f"{out.name}/{path.name}")
        for path in sorted((out / "work" / "logs").glob("*/dump-*")):
            file.add(path, f"{out.name}/{path.parent.name}-{path.name}")
    print(f"outputs: {out}\nto send: {archive}")
    print(json.dumps(summary))
    return NO_CUDA if not machine.gpus else 1 if states["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
