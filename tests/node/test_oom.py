"""A rank that the kernel killed for want of memory: its end says so, and where the kernel says it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE
from program import run_to_end

from ddpkit.diagnosis.catalogue import BY_ID
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.verdict import diagnose, hint, verdict
from ddpkit.node.supervision import oom
from ddpkit.transports.protocol import LocalLink

GREEDY = "import sys; print('ready', flush=True); held = bytearray(1 << 30); print('never')"
LIMIT = 200 << 20  # bytes


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of our own with little memory, where we may make one."""
    for line in Path("/proc/self/cgroup").read_text().split():
        _, kinds, path = (line + "::").split(":")[:3]
        if "memory" in kinds.split(",") or kinds == "":
            root = Path("/sys/fs/cgroup/memory" if kinds else "/sys/fs/cgroup")
            made = root / path.strip("/") / f"ddpkit-test-{os.getpid()}"
            try:
                made.mkdir()
            except OSError:
                continue
            try:
                (made / ("memory.limit_in_bytes" if kinds else "memory.max")).write_text(str(LIMIT))
            except OSError:
                made.rmdir()
                continue
            break
    else:
        pytest.skip("no control group can be made here")
    yield made
    until = time.monotonic() + PATIENCE
    while True:
        try:
            made.rmdir()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.02)  # its last process has ended, and the kernel is not done with it
        else:
            return


def events(code: str, before: str = "") -> list[dict[str, Any]]:
    """What a supervisor says of one rank, from its first word to its end."""
    proc = {"name": "rank", "argv": [sys.executable, "-c", code], "env": {}, "rank": 0, "restarts": 0, "cpus": []}
    empty: dict[str, Any] = {"env": {}, "ranks": [0], "preload": [], "inside": "", "programs": []}
    request = {"run": "", "workdir": "/", "procs": [proc], "grace": 1.0, "silence": 0.0, **empty}
    argv = ["sh", "-c", f'{before}exec "$@"', "sh", *LocalLink.argv]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return [json.loads(line) for line in process.stdout]


def test_a_rank_that_needs_more_memory_than_there_is(group: Path) -> None:
    found = events(GREEDY, before=f"echo $$ > {group}/cgroup.procs; ")
    (failed,) = [event for event in found if event["e"] == "failed"]
    (ended,) = [event for event in found if event["e"] == "exit"]
    assert failed["signal"] == ended["signal"] == 9
    assert failed["oom"] == ended["oom"]
    assert re.search(r"the kernel log: .*[Oo]ut of memory: Killed process \d+|: oom_kill rose by 1$", failed["oom"])


def test_the_counter_alone_says_it_too(group: Path) -> None:
    """Where the kernel log may not be read."""
    look = f"import sys; sys.path.insert(0, {str(Path(oom.__file__).parent)!r}); import oom, subprocess\n"
    look += "known = oom.Oom(); oom.logged = lambda pid: ''\n"
    look += f"code = subprocess.run([sys.executable, '-c', {GREEDY!r}], stdout=subprocess.DEVNULL).returncode\n"
    look += "print(code, known.why(1), '|', known.why(1))"
    argv = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", sys.executable, "-c", look]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    # Once: what is counted for one rank is no news for the next one.
    assert re.fullmatch(r"-9 \S+/memory\.\w+: oom_kill rose by 1 \| ?\n", done.stdout), done


def test_a_rank_that_somebody_killed() -> None:
    found = events("import os; os.kill(os.getpid(), 9)")
    (failed,) = [event for event in found if event["e"] == "failed"]
    assert failed["signal"] == 9
    assert "oom" not in failed


def test_what_the_kernel_says_is_the_cause() -> None:
    failure = Failure(
        host="node2", rank=5, what="rank", signal=9, oom="the kernel log: Out of memory: Killed process 7"
    )
    known = diagnose(failure, Path("/nowhere")).diagnosis
    assert known is not None
    assert known.cause.endswith("the kernel ended it: out of memory (the kernel log: Out of memory: Killed process 7)")
    assert "rank 5 on node2 failed first" in verdict(failure, known)
    assert "out of memory" in verdict(failure, known)
    assert hint(failure, known) == BY_ID["host-out-of-memory"].fix


def test_the_verdict_says_so(group: Path, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    (tmp_path / "job.py").write_text(GREEDY)
    argv = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", sys.executable, "-m", "ddpkit"]
    done = run_to_end([*argv, "launch", "-n", "1", "--", "job.py"], cwd=tmp_path, env=clean_environ)
    assert done.returncode == 137
    assert "killed by signal 9 (SIGKILL): the kernel ended it: out of memory (" in done.stderr
