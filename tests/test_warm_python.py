"""A process that is forked with its modules imported is what a new one is."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launching import wait_until
from program import MARK, PATIENCE, Program, marked, run_to_end
from warm_python import COMMANDS, WarmPython, run_ddpkit

NEW, FORKED = "new", "forked"
SEEN = """
import json, os, resource, signal, sys, threading
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "cwd": os.getcwd(), "env": dict(os.environ), "umask": os.umask(0o77),
    "streams": [(each.encoding, each.errors, each.name, each.mode, each.line_buffering, each.isatty(), each.fileno())
                for each in (sys.stdin, sys.stdout, sys.stderr)],
    "open": sorted(os.listdir("/proc/self/fd"))[:4], "input": sys.stdin.read(), "threads": threading.active_count(),
    "signals": [str(signal.getsignal(each)) for each in signal.valid_signals()],
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE), "name": __name__,
}))
print("to stderr \\udc80", file=sys.stderr)
sys.exit(7)
"""


def run(kind: str, argv: list[str], env: dict[str, str], cwd: Path) -> tuple[int, str, str]:
    if kind == FORKED:
        process = WarmPython(argv, env=env, cwd=cwd, forked_from=COMMANDS)
        output, errors = process.communicate(PATIENCE)
        return process.wait(), output, errors
    done = run_to_end(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, errors="surrogateescape")  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("way", ["-c", "-m", "script"])
def test_a_forked_process_sees_what_a_new_one_sees(way: str, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    words = {"-c": ["-c", SEEN], "-m": ["-m", "seen"], "script": [str(tmp_path / "seen.py")]}[way]
    found: dict[str, Any] = {}
    before = os.umask(0o026)
    try:
        for kind in (NEW, FORKED):
            code, output, errors = run(kind, [sys.executable, *words, "--flag", "a b"], clean_environ, tmp_path)
            found[kind] = (code, json.loads(output), errors)
    finally:
        os.umask(before)
    (code, seen, errors), (new_code, new_seen, new_errors) = found[FORKED], found[NEW]
    assert (code, errors) == (new_code, new_errors)
    assert {name: (seen[name], value) for name, value in new_seen.items() if seen[name] != value} == {}


ENDS = {
    "os._exit": ("import os; os._exit(9)", 9),
    "signal": ("import os; os.kill(os.getpid(), 9)", -9),
    "error": ("print('x'); 1 / 0", 1),
    "text": ("import sys; sys.exit('a reason')", 1),
    "atexit": ("import atexit; atexit.register(print, 'last')", 0),
    "interrupt": ("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", -2),
    "pipe": ("import os; os.close(os.pipe()[0]); print(os.write(1, b'y'))", 0),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_forked_process_ends_as_a_new_one(name: str, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    text, code = ENDS[name]
    found = [run(kind, [sys.executable, "-c", text], clean_environ, tmp_path) for kind in (NEW, FORKED)]
    assert found[0][:2] == found[1][:2]
    assert found[0][2].splitlines()[-1:] == found[1][2].splitlines()[-1:]
    assert found[0][0] == code


def test_no_run_sees_another_one(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    leaks = "import os, sys, ddpkit; ddpkit.leaked = 1; os.environ['LEAKED'] = '1'; sys.path.append('/leaked')"
    looks = "import os, sys, ddpkit; print(hasattr(ddpkit, 'leaked'), 'LEAKED' in os.environ, '/leaked' in sys.path)"
    assert run(FORKED, [sys.executable, "-c", leaks], clean_environ, tmp_path)[0] == 0
    assert run(FORKED, [sys.executable, "-c", looks], clean_environ, tmp_path)[1] == "False False False\n"


def test_what_python_reads_at_its_start_needs_a_new_one(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="PYTHONPATH"):
        run_ddpkit(["ps"], env={**clean_environ, "PYTHONPATH": "/x"}, cwd=tmp_path, timeout=PATIENCE)


TESTS = """
def test_it(ddpkit, tmp_path):
    (tmp_path / "job.py").write_text("import time; print('ready', flush=True); open({ready!r}, 'w'); time.sleep(3600)")
    ddpkit("launch", "-n", "2", "--", "job.py")
"""


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)
def test_interrupted_tests_leave_no_process(number: signal.Signals, tmp_path: Path) -> None:
    ready, mark = tmp_path / "ready", secrets.token_hex(8)
    (tmp_path / "test_one.py").write_text(TESTS.format(ready=str(ready)))
    here = Path(__file__).parents[1]
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "conftest", "-p", "no:cacheprovider"]
    argv += ["-c", str(here / "pyproject.toml"), f"--basetemp={tmp_path / 'base'}", str(tmp_path / "test_one.py")]
    env = {**os.environ, MARK: mark, "PYTHONPATH": os.pathsep.join([str(here), *sys.path[1:]])}
    program = Program(argv, env=env)
    try:
        wait_until(ready.exists, lambda: program.text)
        os.kill(program.process.pid, number)
        program.end()
        wait_until(lambda: not marked(mark), lambda: marked(mark))
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
