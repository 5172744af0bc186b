"""`ddpkit hold` on this machine: ranks are forks of a warm Python that cannot tell, and every end leaves nothing."""

from __future__ import annotations

import json
import os
import pwd
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conftest import PATIENCE, Command
from program import run_to_end

from ddpkit.config import Keywords, collect_settings
from ddpkit.errors import UsageError
from ddpkit.execution import hold as holds
from ddpkit.execution.hold import parse_idle
from ddpkit.node.bundle import NAME, read_texts
from ddpkit.node.rank.holder import AT_START, USUAL, Holder
from ddpkit.run.record import RecordedHold, Run

DDPKIT = Callable[..., "subprocess.CompletedProcess[str]"]
START = Callable[..., Command]
WARM = 'import os, sys; print("warm" if "fractions" in sys.modules else "cold", flush=True)\n'
SLEEP = "import time; print('asleep', flush=True); time.sleep(1000)\n"
READY = "imported "


@pytest.fixture
def held(start: START, tmp_path: Path) -> Command:
    """A hold that has imported `fractions`, in a project of its own."""
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "job.py").write_text(WARM)
    hold = start("hold", "--preload=fractions", "--grace", "2")
    hold.wait_for(READY)
    return hold


def holder(hold: Command) -> int:
    """The process id of the warm Python: the one that launches are forked from."""
    named = {pid for pid, words in hold.survivors().items() if "/holder.py" in words}
    (found,) = (pid for pid in named if parent(pid) not in named)
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(true: Callable[[], object], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.02)  # nobody announces the end of somebody else's child


# ---- a rank cannot tell

LOOK = """
import atexit, json, multiprocessing, os, signal, sys, threading
OWN = ("DDPKIT_RUN", "TORCHELASTIC_RUN_ID", "MASTER_PORT", "TEST_MARK_OF_DDPKIT")
class Thing: pass
def work(number): return number * number, Thing.__module__
if __name__ == "__main__":
    main = sys.modules["__main__"]
    files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
             if os.path.exists(f"/proc/self/fd/{fd}") and int(fd) > 2]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.map(work, [3])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        forked = pool.map(work, [4])
    with open("/proc/self/status") as file:
        masks = [line for line in file if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    seen = {
        "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path, "flags": str(sys.flags),
        "file": main.__file__, "spec": str(getattr(main.__spec__, "name", None)), "package": main.__package__,
        "loader": type(main.__loader__).__name__, "cached": getattr(main, "__cached__", None), "cwd": os.getcwd(),
        "names": sorted(name for name in vars(main) if name.startswith("__")),
        "finders": [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path],
        "signals": {s.name: str(signal.getsignal(s)) for s in signal.Signals if s not in (9, 19)}, "masks": masks,
        "env": {k: v for k, v in os.environ.items() if k not in OWN}, "threads": threading.active_count(),
        "leader": os.getsid(0) == os.getpid(), "tty": [os.isatty(n) for n in range(3)], "stdin": sys.stdin.read(),
        "spawned": spawned, "forked": forked, "hooks": [sys.excepthook is sys.__excepthook__],
        "ddpkit": [name for name in sys.modules if "ddpkit" in name], "cpus": sorted(os.sched_getaffinity(0)),
        "files": [name.partition("-")[0] for name in files],
    }
    atexit.register(lambda: print("atexit ran"))
    with open(f"seen.{os.environ['RANK']}", "w") as file:
        json.dump(seen, file)
"""


@pytest.mark.new_python
@pytest.mark.parametrize("command", [["look.py", "a", "b c"], ["-m", "look", "a"], ["./sub/../look.py"]], ids=str)
def test_ranks_see_what_they_would_see_alone(command: list[str], held: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "sub").mkdir()

    def look(*options: str) -> list[Any]:
        done = ddpkit("launch", "-n", "2", *options, "--", *command)
        assert done.returncode == 0, done.stderr
        assert "cold" not in done.stderr
        assert ("uses hold" in done.stderr) is (not options)
        assert done.stdout.count("atexit ran") == 2
        return [json.loads((tmp_path / f"seen.{rank}").read_text()) for rank in range(2)]

    for warm, bare in zip(look(), look("--no-hold"), strict=True):
        assert {key: (warm[key], bare[key]) for key in warm if warm[key] != bare[key]} == {}


ENDS = {
    "exception": ["x.py", "def f():\n    raise ValueError('boo')\nf()\n"],
    "chained": ["x.py", "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n"],
    "exit": ["x.py", "import sys, atexit\natexit.register(print, 'bye')\nsys.exit(3)\n"],
    "exit with words": ["x.py", "raise SystemExit('words')\n"],
    "interrupt": ["x.py", "raise KeyboardInterrupt\n"],
    "at once": ["x.py", "import os\nos._exit(7)\n"],
    "killed": ["x.py", "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"],
    "syntax": ["x.py", "print(1)\nx = = 2\n"],
    "hook": ["x.py", "import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__)\n1/0\n"],
    "bad hook": ["x.py", "import sys\nsys.excepthook = lambda *a: 1/0\nraise KeyError\n"],
    "at exit": ["x.py", "import atexit\natexit.register(lambda: 1/0)\n"],
    "thread": ["x.py", "import threading, time\nt = threading.Timer(.2, print, ['late'])\nt.start()\n"],
    "future": ["x.py", "from __future__ import annotations\nx: nothing = 1\nprint(__annotations__)\n"],
    "module": ["-m", "x", "raise ValueError('in a module')\n"],
    "no module": ["-m", "nope", ""],
    "code": ["-c", "import sys; print(sys.argv, __name__); raise ValueError('code')", ""],
}


@pytest.mark.new_python
def test_the_end_of_a_rank_is_that_of_a_bare_run(held: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    for kind in ENDS:
        check_end(kind, ddpkit, tmp_path)


def check_end(kind: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    *command, text = ENDS[kind]
    (tmp_path / "x.py").write_text(text)
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    bare = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    done = ddpkit("launch", "-n", "1", "--", *command)
    code = bare.returncode if bare.returncode >= 0 else 128 - bare.returncode
    assert "uses hold" in done.stderr
    assert "cold" not in done.stderr
    assert done.returncode == code, done.stderr
    shown = [line.partition("] ")[2] for line in (done.stdout + done.stderr).splitlines() if line.startswith("[0 ")]
    shown, expected = sorted(shown), sorted((bare.stdout + bare.stderr).splitlines())
    if kind == "killed":  # faulthandler lists what is below the script as well
        assert "Fatal Python error: Segmentation fault" in shown
        return
    assert [re.sub("0x[0-9a-f]+", "0x", line) for line in shown] == [
        re.sub("0x[0-9a-f]+", "0x", line) for line in expected
    ], kind


ENDED = """
import atexit, os, sys, threading, weakref
import lib
class Last:
    def __init__(self, name): self.name = name
    def __del__(self): print("last", self.name, os.sep, flush=True)
own, cycle = Last("own"), Last("cycle")
cycle.self = cycle
file = open("left", "w")
file.write("whole")
lib.files.append(open("kept", "wb"))
lib.files[-1].write(b"whole")
weakref.finalize(own, print, "finalized")
atexit.register(print, "at exit")
sys.stdout.write("no newline")
if sys.argv[1:] == ["thread"]:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if sys.argv[1:] == ["exit"]:
    sys.exit()
"""
# Python's own end calls it last.
LIB = """
import ctypes
files = []
ctypes.pythonapi.Py_AtExit(ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p))
"""


@pytest.mark.new_python
def test_a_rank_ends_what_it_made_and_nothing_of_the_hold(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "job.py").write_text(ENDED)
    (tmp_path / "lib.py").write_text(LIB)
    env = {"PYTHONPATH": str(tmp_path)}
    hold = start("hold", "--preload=lib,hashlib", "--env", "PYTHONPATH", env=env)  # a supervisor loads hashlib's
    hold.wait_for(READY)

    def ended(*words: str) -> tuple[int, set[str]]:
        done = ddpkit("launch", "-n", "1", "--env", "PYTHONPATH", *words, env=env)
        assert "cold" not in done.stderr
        for name in ("left", "kept"):
            assert (tmp_path / name).read_text() == "whole", name
            (tmp_path / name).unlink()
        return done.returncode, {line.partition("] ")[2] for line in done.stdout.splitlines()}

    aborted = 128 + signal.SIGABRT
    code, shown = ended("--no-hold", "--", "job.py")
    assert code == aborted
    assert ended("--", "job.py") == ended("--", "job.py", "exit") == (0, shown)
    assert ended("--", "job.py", "thread") == (aborted, shown)


def test_ranks_of_a_warm_numpy_draw_numbers_of_their_own(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    (tmp_path / "ddpkit.toml").touch()
    text = "import sys; new = 'numpy.random' in sys.modules; import numpy; print('drew', new, numpy.random.random())"
    start("hold", "--preload=numpy").wait_for(READY)
    drawn = re.findall(r"drew (\w+) (\S+)", ddpkit("launch", "-n", "2", "--", "-c", text).stdout)
    assert len({number for _, number in drawn}) == 2
    lazy = subprocess.run(
        [sys.executable, "-c", "import sys, numpy; print('numpy.random' not in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [new for new, _ in drawn] == [str(lazy.stdout == "False\n")] * 2


def test_edited_code_is_fresh(held: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("WORD = 'first'\n")
    (tmp_path / "job.py").write_text("import part; print(part.WORD)\n")
    assert "first" in ddpkit("launch", "-n", "1", "--", "job.py").stdout
    (tmp_path / "part.py").write_text("WORD = 'second one'\n")
    assert "second one" in ddpkit("launch", "-n", "1", "--", "job.py").stdout


def test_a_dump_shows_the_script_alone(held: Command, start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    start("launch", "-n", "1", "--", "sleep.py").wait_for("asleep")
    done = ddpkit("dump")
    assert "sleep.py:1 in <module>" in done.stdout
    assert "holder.py" not in done.stdout


# ---- what a fork cannot be


@pytest.mark.new_python
@pytest.mark.parametrize(
    ("options", "env", "reason"),
    [
        pytest.param(["--env", "PYTHONOPTIMIZE=1"], {}, "PYTHONOPTIMIZE differs", id="variable"),
        pytest.param([], {"LC_ALL": "C"}, "LC_ALL differs", id="locale"),
        pytest.param(["--starter", "torchrun"], {}, "torchrun starts the ranks", id="torchrun"),
    ],
)
def test_a_launch_that_needs_a_python_of_its_own_starts_cold_and_says_why(
    options: list[str], env: dict[str, str], reason: str, held: Command, ddpkit: DDPKIT
) -> None:
    done = ddpkit("launch", "-n", "1", *options, "--", "job.py", env=env)
    assert done.returncode == 0, done.stderr
    assert "cold" in done.stdout
    assert reason in done.stderr


def test_another_python_starts_cold(held: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(os.path.realpath(sys.executable))
    done = ddpkit("launch", "-n", "1", "--python", str(other), "--", "job.py")
    assert "cold" in done.stdout
    assert f"its Python is {other}, and the hold has" in done.stderr


@pytest.mark.new_python
def test_an_edited_module_of_the_hold_starts_cold(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "job.py").write_text("import lib; print(lib.WORD)\n")
    (tmp_path / "lib.py").write_text("WORD = 'old'\n")
    env = {"PYTHONPATH": str(tmp_path)}
    start("hold", "--preload=lib", "--env", "PYTHONPATH", env=env).wait_for(READY)
    launch = ("launch", "-n", "1", "--env", "PYTHONPATH", "--", "job.py")
    done = ddpkit(*launch, env=env)
    assert "old" in done.stdout
    assert "cold" not in done.stderr, done.stderr
    (tmp_path / "lib.py").write_text("WORD = 'new one'\n")
    done = ddpkit(*launch, env=env)
    assert "new one" in done.stdout
    assert f"{tmp_path}/lib.py has changed since the hold began" in done.stderr


def test_threads_are_those_of_the_launch(held: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os; print('threads', os.environ['OMP_NUM_THREADS'])\n")
    done = ddpkit("launch", "-n", "1", "--env", "OMP_NUM_THREADS=7", "--", "job.py")
    assert "threads 7" in done.stdout
    assert "cold" not in done.stderr


INHERITED = """
import json, os, resource, sys
mask = os.umask(0)
limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
print("seen", json.dumps([oct(mask), os.nice(0), sorted(os.sched_getaffinity(0)), os.getgroups(), limits]), flush=True)
print("warm" if "fractions" in sys.modules else "cold", flush=True)
"""


def launch_in_shell(shell: str, tmp_path: Path, env: dict[str, str], *options: str) -> tuple[str, str]:
    """Launch from a shell after its commands. Returns what a rank says, and what ddpkit does."""
    (tmp_path / "inherited.py").write_text(INHERITED)
    words = [sys.executable, "-m", "ddpkit", "launch", "-n", "1", *options, "--", "inherited.py"]
    done = run_to_end(["sh", "-c", f'{shell}; exec "$@"', "sh", *words], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    "shell",
    [
        "umask 077; ulimit -c 0",
        "umask 002; ulimit -n 100; ulimit -f 99999; ulimit -H -n 4000",
        f"taskset -pc {max(os.sched_getaffinity(0))} $$; renice -n 3 -p $$",
    ],
)
def test_a_rank_has_of_the_shell_what_it_would_have_alone(
    shell: str, held: Command, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    out, notes = launch_in_shell(f"{{ {shell}; }} >/dev/null", tmp_path, clean_environ)
    assert "warm" in out, notes
    alone, _ = launch_in_shell(f"{{ {shell}; }} >/dev/null", tmp_path, clean_environ, "--no-hold")
    assert "cold" in alone
    assert seen(out) == seen(alone)
    plain, notes = launch_in_shell(":", tmp_path, clean_environ)  # the hold itself is as before
    assert "warm" in plain, notes
    assert seen(plain) != seen(out)


def seen(out: str) -> Any:
    return json.loads(next(line.partition("seen ")[2] for line in out.splitlines() if "seen " in line))


@pytest.mark.parametrize(
    ("shell", "reason"),
    [
        ("ulimit -s 4096", "RLIMIT_STACK differs from that of the hold, and counts from the start of a program"),
        ("ulimit -v 123456789", "RLIMIT_AS differs from that of the hold"),
    ],
)
def test_what_a_fork_cannot_have_of_the_shell_starts_cold(
    shell: str, reason: str, held: Command, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    out, notes = launch_in_shell(shell, tmp_path, clean_environ)
    assert "cold" in out
    assert f"starts cold on {os.uname().nodename}: {reason}" in notes
    assert "warm" in launch_in_shell(":", tmp_path, clean_environ)[0]


needs_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
# It takes what a launch has, as another user: root could take everything.
TAKES = """
import json, os, sys
from ddpkit.node.rank.holder import _inherit
os.setgroups([])
os.setgid(31234)
os.setuid(31234)
print(_inherit(*json.loads(sys.argv[1])))
"""


@needs_users
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"nice": -5}, "its nice value is -5, and a process of the hold can have no lower one than"),
        ({"cpus": [4095]}, "its CPUs differ from those that the hold can have"),
        ({"groups": [31234, 31235]}, "its groups differ from those of the hold"),
        ({"limits": [[resource.RLIMIT_NOFILE, 10**6, 10**9]]}, "RLIMIT_NOFILE is higher than a process of the hold"),
    ],
)
def test_what_a_process_of_the_hold_cannot_have(change: dict[str, Any], reason: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    has = {"umask": 0o77, "nice": os.nice(0), "cpus": cpus, "groups": [31234], "limits": [], **change}
    done = run_to_end([sys.executable, "-c", TAKES, json.dumps(list(has.values()))])
    assert done.stdout.startswith(reason), done
    assert bool(done.stdout.strip()) == bool(reason)


def shape(text: str) -> list[str]:
    """Its lines without their numbers and ids."""
    return sorted(
        re.sub(r"\d[\d-]*-(hold|train)-[0-9a-f]{4}|\d+(\.\d+)?|vm|" + os.uname().nodename, "N", line)
        for line in text.splitlines()
    )


def test_the_outputs_of_the_page(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/hold.md").read_text()

    def output(name: str) -> list[str]:
        return shape(page.partition(f"<!-- output: {name} -->\n```text\n")[2].partition("```")[0])

    (tmp_path / "ddpkit.toml").touch()
    text = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
    (tmp_path / "train.py").write_text(text)
    start("hold", "-n", "2", "--preload=fractions").wait_for(READY)
    done = ddpkit("launch", "--", "train.py")
    assert shape(done.stdout + done.stderr) == output("hold")
    done = ddpkit("launch", "--env", "PYTHONOPTIMIZE=1", "--", "train.py")
    assert set(output("cold")) <= set(shape(done.stderr))


# ---- which launch uses it


def test_who_uses_a_hold(held: Command, ddpkit: DDPKIT, tmp_path: Path, tmp_path_factory: Any) -> None:
    def launched(*options: str, cwd: Path = tmp_path) -> tuple[bool, bool]:
        done = ddpkit("launch", "-n", "1", *options, "--", str(tmp_path / "job.py"), cwd=cwd)
        assert done.returncode == 0, done.stderr
        return "uses hold" in done.stderr, "warm" in done.stdout

    assert launched() == launched("-b", "local") == (True, True)
    assert launched("--no-hold") == (False, False)
    other = tmp_path_factory.mktemp("other")
    (other / "ddpkit.toml").touch()
    assert launched(cwd=other) == (False, False)
    (other / "ddpkit.toml").write_text("hold = false\n")
    assert launched(cwd=other) == (False, False)


def test_other_commands_mean_the_launch_and_not_the_hold(held: Command, ddpkit: DDPKIT) -> None:
    assert "hold fractions" in ddpkit("ps").stdout
    assert "command: hold fractions" in ddpkit("status").stdout  # it is the only run
    ddpkit("launch", "-n", "1", "--", "job.py")
    assert "job.py" in ddpkit("status").stdout
    assert "warm" in ddpkit("logs").stdout
    assert "no run of this project is running" in ddpkit("stop").stderr
    assert held.process.poll() is None


SLURM: Keywords = {"backend": "slurm"}


@pytest.mark.parametrize(
    ("given", "environ", "hosts", "ranks"),
    [
        ({}, {}, "abc", 4),
        (SLURM, {}, "abc", 4),
        (SLURM | {"nnodes": 2}, {}, "ab", 4),
        (SLURM | {"nnodes": 2, "retries": 1, "spares": 1}, {}, "abc", 4),
        (SLURM | {"nnodes": 3, "retries": 1, "spares": 1}, {}, "", None),
        (SLURM | {"hosts": ["a", "b", "c"], "nnodes": 2, "retries": 1, "spares": 1}, {}, "abc", 4),
        (SLURM | {"hosts": ["c", "a"]}, {}, "ca", 4),
        (SLURM | {"hosts": ["a", "x"]}, {}, "", None),
        (SLURM | {"nnodes": 4}, {}, "", None),
        (SLURM | {"nproc_per_node": 2}, {}, "abc", 2),
        (SLURM, {"DDPKIT_NPROC_PER_NODE": "1"}, "abc", 1),
        ({"backend": "ssh", "hosts": ["a"]}, {}, "", None),
    ],
)
def test_nodes_and_ranks_of_a_launch_into_a_hold_of_a_job(
    given: Keywords, environ: dict[str, str], hosts: str, ranks: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined, _ = joined_to_a_job(given, environ, "7", monkeypatch)
    assert ("".join(joined.hosts), joined.nproc_per_node) == (hosts, ranks) if ranks else not joined.held
    if ranks:
        assert (joined.in_job, joined.nnodes, joined.spares) == ("7", None, given.get("spares", 0))


@pytest.mark.parametrize(
    ("given", "other"),
    [
        (SLURM | {"options": {"array": "0-9"}}, "-o array"),
        (SLURM | {"options": {"new_job": "true"}}, "-o new_job"),
        (SLURM | {"options": {"new_job": "false"}}, ""),
        (SLURM | {"options": {"via": "login"}}, "-o via"),
        (SLURM | {"options": {"setup": "module load cuda"}}, "-o setup"),
        (SLURM | {"options": {"partition": "big"}}, "-o partition"),
        (SLURM | {"options": {"exclude": "a"}}, "-o exclude"),
        (SLURM | {"options": {"stage": "project"}}, "-o stage"),
        (SLURM | {"sync": True}, "--sync"),
    ],
)
def test_what_a_hold_of_a_job_cannot_do_is_not_dropped(
    given: Keywords, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined, notes = joined_to_a_job(given, {}, "7", monkeypatch)
    assert bool(joined.held) is not bool(other)
    assert notes == ([f"does not use hold h, which does not work with {other}"] if other else [notes[0]])


def test_a_hold_whose_job_is_not_known_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not joined_to_a_job({}, {}, None, monkeypatch)[0].held


def joined_to_a_job(
    given: Keywords, environ: dict[str, str], job: str | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, list[str]]:
    """The settings of a launch where nodes a, b, c of a job are held, with 4 ranks each, and what is noted."""
    hold = RecordedHold(hosts=("a", "b", "c"), nproc_per_node="4", options={}, in_job=True)
    run = cast("Run", SimpleNamespace(run_id="h", job_id=job, hold=hold))
    monkeypatch.setattr(holds, "living", lambda _: [run])
    notes: list[str] = []
    settings = collect_settings(Path("/"), environ, None, given | {"script": ["train.py"]})
    return holds.join(settings, notes.append), notes


# ---- ends


def test_end(held: Command, start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    launch = start("launch", "-n", "1", "--", "sleep.py")
    launch.wait_for("asleep")
    done = ddpkit("hold", "--end")
    assert done.returncode == 0, done.stderr
    assert "stopped" in done.stdout + done.stderr
    launch.end()
    assert "the hold" in launch.text, launch.text
    held.end()
    held.wait_for_no_survivor()
    launch.wait_for_no_survivor()
    done = ddpkit("hold", "--end")
    assert done.returncode == UsageError.exit_code
    assert "no hold of" in done.stderr


def test_a_stopped_hold_leaves_nothing_of_a_launch_in_it(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "sleep.py").write_text(SLEEP)
    hold = start("hold", "--preload=fractions", "--grace", "2", env={"TMPDIR": str(private)})
    hold.wait_for(READY)
    launch = start("launch", "-n", "1", "--grace", "2", "--", "sleep.py", env={"TMPDIR": str(private)})
    launch.wait_for("asleep")
    os.kill(holder(hold), signal.SIGSTOP)
    assert ddpkit("hold", "--end").returncode == 0
    launch.end()
    hold.end()
    assert "1 x signal 15" in hold.text  # and no KILL, which would end the supervisors of the launch as well
    assert "the hold that this launch used has ended" in launch.text, launch.text
    launch.wait_for_no_survivor()
    hold.wait_for_no_survivor()
    assert not list(private.glob("ddpkit-*"))


def test_an_interrupt_of_the_warm_python_is_no_traceback(held: Command) -> None:
    os.kill(holder(held), signal.SIGINT)
    assert held.end() == 128 + signal.SIGINT
    assert "SIGINT" in held.text
    assert "Traceback" not in held.text, held.text


def test_several_holds_are_named_and_end_together(held: Command, start: START, ddpkit: DDPKIT) -> None:
    second = start("hold", "--preload=fractions", "--grace", "2")
    second.wait_for(READY)
    (first,) = re.findall(r"hold (\S+) of this project is running as well", second.text)
    assert f"run {first}:" in held.text
    assert "as well" not in held.text
    plan = json.loads(ddpkit("hold", "--end", "--dry-run", "--json").stdout)
    assert len(plan["commands"]) == 2
    done = ddpkit("hold", "--end")
    assert done.returncode == 0, done.stderr
    assert "2 holds of this project: " in done.stderr
    assert done.stdout.count("stopped") == 2
    held.end()
    second.end()


# ---- its socket


def socket_of(hold: Command) -> str:
    (run,) = re.findall(r"run (\S+):", hold.text)[:1]
    return f"ddpkit-hold-{os.geteuid()}-{run}"


def test_nobody_takes_the_socket_during_the_import(start: START, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "slow.py").write_text("import sys\nprint('begins', flush=True)\nopen('gate').close()\n")
    os.mkfifo(tmp_path / "gate")
    hold = start("hold", "--preload=slow", env={"PYTHONPATH": str(tmp_path)})
    hold.wait_for("begins")
    with socket.socket(socket.AF_UNIX) as other, pytest.raises(OSError, match="in use"):
        other.bind("\0" + socket_of(hold))
    (tmp_path / "gate").write_text("")
    hold.wait_for(READY)


@pytest.mark.parametrize("listens", [True, False])
def test_a_taken_socket_is_one_line_with_its_owner(listens: bool) -> None:
    name = f"ddpkit-hold-{os.geteuid()}-test-{os.getpid()}"
    text = "import sys; from ddpkit.node.rank.holder import bind; bind(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("\0" + name)
        if listens:
            other.listen()
        done = run_to_end([sys.executable, "-c", text, name])
    user = pwd.getpwuid(os.geteuid()).pw_name
    who = f"process {os.getpid()} of user {user}" if listens else "another process"
    assert (done.returncode, done.stderr) == (1, f"ddpkit: this hold cannot begin: {who} has its socket, @{name}\n")


QUEUE = """\
#!/bin/sh
echo "salloc: job 7 queued and waiting for resources" >&2
exec sleep 600
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("words", [("hold", "-b", "slurm"), ("launch", "-b", "slurm", "--roles", "roles.toml")])
def test_the_end_of_a_wait_in_the_queue(words: tuple[str, ...], number: int, start: START, tmp_path: Path) -> None:
    (tmp_path / "roles.toml").write_text('[roles.main]\ncommand = "train.py"\nends_run = true\n')
    (tmp_path / "train.py").touch()
    (tmp_path / "salloc").write_text(QUEUE)
    (tmp_path / "salloc").chmod(0o755)
    waits = start(*words, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    waits.wait_for("queued and waiting")
    waits.process.send_signal(number)
    assert waits.end() == 128 + number
    waits.wait_for_no_survivor()


def test_nothing_to_do_for_long(start: START, tmp_path: Path) -> None:
    hold = start("hold", "--preload=fractions", "--idle", "1s")
    assert hold.end() == 0, hold.text
    assert "nothing used this hold for 1 s" in hold.text
    hold.wait_for_no_survivor()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_a_launch_is_not_that_of_the_hold(
    number: int, held: Command, start: START, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    warm = holder(held)
    launch = start("launch", "-n", "2", "--grace", "2", "--", "sleep.py")
    launch.wait_for("asleep", 2)
    launch.process.send_signal(number)
    launch.end()
    wait_until(lambda: not children(warm), "a fork of the hold goes on")
    launch.wait_for_no_survivor()
    assert "warm" in ddpkit("launch", "-n", "1", "--", "job.py").stdout


def test_whatever_is_killed_nothing_is_left(held: Command, start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    warm = holder(held)

    def killed(which: Callable[[], int]) -> Command:
        launch = start("launch", "-n", "2", "--grace", "2", "--", "sleep.py")
        launch.wait_for("asleep", 2)
        os.kill(which(), signal.SIGKILL)
        assert launch.end() != 0
        launch.wait_for_no_survivor()
        return launch

    def relay(launch: int) -> int:
        (found,) = (pid for pid in children(launch) if "exec(open(0" in Path(f"/proc/{pid}/cmdline").read_text())
        return found

    assert "failed first" in killed(lambda: children(warm)[0]).text  # the guard
    wait_until(lambda: not children(warm), "a fork of the hold goes on")
    assert "failed first" in killed(lambda: children(children(warm)[0])[0]).text  # the supervisor
    wait_until(lambda: not children(warm), "a fork of the hold goes on")
    assert "warm" in ddpkit("launch", "-n", "1", "--", "job.py").stdout
    text = killed(lambda: warm).text
    assert "the hold" in text, text
    assert held.end() != 0
    held.wait_for_no_survivor()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize("which", [slice(0, 1), slice(0, 2)], ids=["guard", "both"])
def test_stopped_processes_of_a_launch_in_a_hold_end_with_it(
    end: int, which: slice, held: Command, start: START, tmp_path: Path
) -> None:
    """Their parent is the hold, which lives on: the program that brought the launch there continues them."""
    (tmp_path / "sleep.py").write_text(SLEEP)
    command = start("launch", "-n", "2", "--grace", "1", "--", "sleep.py")
    command.wait_for("asleep", 2)
    warm = holder(held)
    (guard,) = children(warm)
    (worker,) = children(guard)
    for pid in [guard, worker][which]:
        os.kill(pid, signal.SIGSTOP)
    command.process.send_signal(end)
    wait_until(lambda: not children(warm), "the end of the guard")
    command.wait_for_no_survivor()


def test_a_killed_launcher_of_a_hold(held: Command, start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    launch = start("launch", "-n", "2", "--grace", "2", "--", "sleep.py")
    launch.wait_for("asleep", 2)
    held.process.kill()
    assert launch.end() != 0
    assert "the hold" in launch.text, launch.text
    held.wait_for_no_survivor()
    launch.wait_for_no_survivor()
    done = ddpkit("launch", "-n", "1", "--", "job.py")
    assert "cold" in done.stdout
    assert "uses hold" not in done.stderr


def test_a_hold_that_does_not_answer_is_not_waited_for(held: Command, ddpkit: DDPKIT) -> None:
    warm = holder(held)
    os.kill(warm, signal.SIGSTOP)
    try:
        done = ddpkit("launch", "-n", "1", "--", "job.py")
    finally:
        os.kill(warm, signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert "cold" in done.stdout
    assert "the hold does not answer" in done.stderr


def test_many_launches_leave_the_hold_as_it_was(held: Command, ddpkit: DDPKIT) -> None:
    warm = holder(held)

    def size() -> tuple[int, int]:
        words = re.search(r"VmData:\s+(\d+)", Path(f"/proc/{warm}/status").read_text())
        assert words
        return len(list(Path(f"/proc/{warm}/fd").iterdir())), int(words[1])

    ddpkit("launch", "-n", "2", "--", "job.py")
    wait_until(lambda: not children(warm), "a fork of the hold goes on")
    before = size()
    for _ in range(10):
        assert ddpkit("launch", "-n", "2", "--", "job.py").stdout.count("warm") == 2
    wait_until(lambda: not children(warm), "a fork of the hold goes on")
    assert size() == before


def test_a_hold_compiles_the_supervisors_of_its_launches_beforehand(held: Command) -> None:
    environ = Path(f"/proc/{holder(held)}/environ").read_bytes().split(b"\0")
    (program,) = (os.fsdecode(each).partition("=")[2] for each in environ if each.startswith(b"DDPKIT_TAP="))
    bundle = zipfile.ZipFile(Path(program).with_name(NAME))

    texts = {name: text.decode() for name in bundle.namelist() if (text := bundle.read(name))}

    assert {f"node/{name}.py": text for name, text in read_texts().items()}.items() <= texts.items()


# ---- words


def test_a_length_of_time() -> None:
    assert [parse_idle(text) for text in ("90", "90s", "30m", "2h", "1d", "0")] == [90, 90, 1800, 7200, 86400, 0]
    for text in ("", "x", "-1", "1w", "1 m", "9" * 99):
        with pytest.raises(UsageError, match="length of time"):
            parse_idle(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-b", "slurm", "--via", "login"], "a hold does not work with --via"),
        (["-b", "slurm", "-o", "setup=module load cuda"], "a hold works without -o setup"),
        (["-b", "slurm", "-o", "srun=--label"], "a hold works without -o srun"),
        (["-b", "slurm", "-N", "2", "-n", "4,8"], "numbers of ranks do not work with a hold"),
        (["-b", "slurm", "-o", "requeue=true"], "-o requeue does not work with a hold"),
        (["--idle", "soon"], "--idle soon is not a length of time"),
        (["--preload=1x"], "'1x' is not the name of a Python module"),
        (["--", "train.py"], "a hold has no script"),
    ],
)
def test_refusals(words: list[str], message: str, ddpkit: DDPKIT) -> None:
    done = ddpkit("hold", *words)
    assert done.returncode == UsageError.exit_code
    assert message in done.stderr


def test_a_dry_run_starts_nothing(ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("hold", "--dry-run", "--idle", "2h")
    assert done.returncode == 0, done.stderr
    assert '"modules": ["torch"], "idle": 7200' in done.stdout
    assert not (tmp_path / "logs").exists()


def test_a_dry_run_of_a_hold_in_a_job_to_come(ddpkit: DDPKIT) -> None:
    """Nothing asks the nodes of a job that is not there."""
    done = ddpkit("hold", "--dry-run", "--survey", "-b", "slurm", "-o", "nodelist=n[1-4]")
    assert done.returncode == 0, done.stderr
    assert "--nodes=4 " in done.stderr
    assert "no node was queried" in done.stderr


def test_a_hold_of_more_nodes_than_the_allocation_has_is_refused(ddpkit: DDPKIT) -> None:
    allocation = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n[1-4]",
        "SLURM_JOB_NUM_NODES": "4",
        "SLURM_TASKS_PER_NODE": "1(x4)",
    }
    done = ddpkit("hold", "--dry-run", "-b", "slurm", "-N", "8", env=allocation)
    assert done.returncode == UsageError.exit_code
    assert "8 nodes requested, and job 7 has 4" in done.stderr


def test_another_name_of_the_same_python(held: Command, ddpkit: DDPKIT) -> None:
    """`python` and `python3` of a virtual environment: the rank has the one that was asked for."""
    here = Path(sys.executable)
    other = here.with_name("python" if here.name != "python" else "python3")
    code = 'import sys; print("fractions" in sys.modules, sys.executable)'
    done = ddpkit("launch", "-n", "1", "--python", str(other), "--", "-c", code)
    assert f"True {other}" in done.stdout, done.stderr


CALL = """
import ddpkit, sys
def warm(number):
    return number, "fractions" in sys.modules
print(ddpkit.call(warm, 4, nproc_per_node=2))
"""


@pytest.mark.new_python
def test_a_call_uses_the_hold(held: Command, clean_environ: dict[str, str], tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CALL]
    done = subprocess.run(argv, cwd=tmp_path, env=clean_environ, capture_output=True, text=True, check=False)
    assert done.stdout == "[(4, True), (4, True)]\n", done.stderr


FILES = """
import gc, os
file = open("made", "w")
found = [{} for _ in range(200_000)]
gc.collect()
file.write("whole")
file.close()
print(open("made").read(), flush=True)
"""


def test_nothing_closes_a_file_of_the_script(held: Command, ddpkit: DDPKIT) -> None:
    """Objects of the supervisor, from which the rank was forked, are gone before the script opens anything."""
    done = ddpkit("launch", "-n", "2", "--", "-c", FILES)
    assert (done.returncode, done.stdout.count("whole")) == (0, 2), done.stdout + done.stderr


def test_a_shell_beside_a_rank_of_a_hold(held: Command, start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(SLEEP)
    start("launch", "-n", "2", "--", "sleep.py").wait_for("asleep", 2)
    done = ddpkit("shell", "--rank", "1", "--", "sh", "-c", 'echo "$RANK of $WORLD_SIZE in $PWD"')
    assert (done.returncode, done.stdout) == (0, f"1 of 2 in {tmp_path}\n"), done.stderr


def test_a_hold_of_a_month(start: START, tmp_path: Path) -> None:
    """Its wait has more milliseconds than the kernel takes at once."""
    (tmp_path / "ddpkit.toml").touch()
    hold = start("hold", "--preload=fractions", "--idle", "30d")
    hold.wait_for(READY)
    assert holder(hold)


@pytest.mark.torch
def test_the_survey_of_a_fork_imports_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hold has the variables that every rank gets; a survey, which comes before them, has not."""
    import torch

    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    held = Holder.__new__(Holder)
    held.environ, held.python, held.unsafe = dict(os.environ), str(Path(sys.executable).absolute()), ""
    held.stamps, held.at_start = {}, tuple(AT_START)
    env = {name: value for name, value in os.environ.items() if name not in USUAL}
    assert held.known_torch(sys.executable, env) == {
        "place": str(Path(torch.__file__).parent),
        "version": torch.__version__,
    }
    assert held.known_torch(sys.executable, {**env, "PYTHONOPTIMIZE": "1"}) is None
    assert held.known_torch("/usr/bin/python3", env) is None


def test_runs_with_the_name_of_a_hold_hide_none(start: START, ddpkit: DDPKIT, held: Command, tmp_path: Path) -> None:
    """A hold is known by its record."""
    state = Path(held_state(held))
    (entry,) = state.iterdir()
    record = json.loads(entry.read_text())
    for number in range(60):  # newer ones, of another kind
        name = f"29991231-{number:06}-holdout-abcd"
        run = {**record["run"], "run_id": name, "hold": None}
        (state / name).write_text(json.dumps({**record, "run": run}))
    done = ddpkit("launch", "-n", "1", "--", "job.py")
    assert "uses hold" in done.stderr


def held_state(hold: Command) -> str:
    """The folder of the index that a running ddpkit writes to."""
    environ = Path(f"/proc/{hold.process.pid}/environ").read_bytes().split(b"\0")
    (state,) = (each.partition(b"=")[2].decode() for each in environ if each.startswith(b"XDG_STATE_HOME="))
    return f"{state}/ddpkit/runs"
