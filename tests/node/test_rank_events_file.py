"""A rank as SLURM starts it, without SLURM: what it tells through its run's folder, and how an exception ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE

from ddpkit.transports.protocol import NODE

# Stands for torch: what is watched is the import of something of this name.
RAISES = "import threading, torch\nthreading.Thread(target=threading.Event().wait).start()\nraise ValueError('so')\n"
COPIES = {"sitecustomize": "rank_hook"} | {name: name for name in ("rank_responder", "rank_events", "rank_events_file")}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run, as the plan of a SLURM backend makes it."""
    for name in ("hook", "marks"):
        (tmp_path / "run" / name).mkdir(parents=True)
    for name, copied in COPIES.items():
        (tmp_path / f"run/hook/{name}.py").write_text((NODE / f"{copied}.py").read_text())
    (tmp_path / "run/hook/grace").write_text("1\n")
    (tmp_path / "torch.py").write_text("")
    return tmp_path / "run"


def start(run: Path, text: str, **env: str) -> subprocess.Popen[str]:
    (run.parent / "job.py").write_text(text)
    mine = {"DDPKIT_HOOK": f"{run}/hook", "PYTHONPATH": f"{run}/hook", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "job.py"],
        cwd=run.parent,
        env={**os.environ, **mine, "RANK": "3", "SLURMD_NODENAME": "node2", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, error = process.communicate(timeout=PATIENCE)
    return process.returncode, out + error


def told(run: Path, name: str = "3") -> list[list[str]]:
    return [line.split() for line in (run / "marks" / name).read_text().splitlines()]


def test_marks(run: Path) -> None:
    before = time.time()
    # A write may last as long as a slow disk wants: the next one comes when it is over.
    wait = "import os, time, torch\nwhile 'imported' not in open('run/marks/3').read():\n    time.sleep(0.01)\n"
    (run / "marks/3").touch()
    assert end(start(run, wait)) == (0, "")
    assert [line[:-1] for line in told(run)] == [
        ["start", "3", "node2"],
        ["mark", "3", "python"],
        ["mark", "3", "import"],
        ["mark", "3", "imported"],
    ]
    times = [float(line[-1]) for line in told(run)]
    assert before - 0.1 < times[0]  # the kernel counts in hundredths
    assert times[1:] == sorted(times[1:])
    assert times[-1] < time.time()


def test_a_script_that_does_not_know_torch(run: Path) -> None:
    assert end(start(run, "import threading\nprint(threading.active_count())")) == (0, "1\n")
    assert not (run / "marks/3").exists()


def test_an_array_has_a_file_for_each_of_its_jobs(run: Path) -> None:
    wait = "import os, time, torch\nwhile not os.path.exists('run/marks/7_3'):\n    time.sleep(0.01)\n"
    assert end(start(run, wait, SLURM_ARRAY_TASK_ID="7")) == (0, "")


STEPS = """
import os, sys, time
known = {"__name__": "ddpkit_shared"}
exec(open(sys.argv[0].replace("job.py", "run/hook/rank_events_file.py")).read(), known)
tell = known["start"]("run/hook", "3", lambda fd: fd)
tell("mark", "3", "step", time.time())
tell.__self__.first -= 1e5  # it runs for a day
for step in range(2000):
    tell("steps", "3", 10, "5.0", "0.6", 9, "4.0", str(step))
"""


def test_steps_of_a_long_run_are_few_lines(run: Path) -> None:
    assert end(start(run, STEPS)) == (0, "")
    steps = [[float(word) for word in line[2:]] for line in told(run) if line[0] == "steps"]
    assert len(steps) == 13  # of 782 s, a 128th part of the day, and what was left at the end
    assert [sum(column) for column in list(zip(*steps, strict=True))[:2]] == [20000, 10000]
    assert {line[2] for line in steps} == {0.6}
    assert [line[5] for line in steps][-1] == 1999


PLACES: dict[str, Callable[[Path], None]] = {
    "hangs": os.mkfifo,  # to open it lasts until somebody reads
    "is full": lambda path: path.symlink_to("/dev/full"),
    "is gone": lambda path: path.parent.rmdir(),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_file_system_that(name: str, run: Path) -> None:
    PLACES[name](run / "marks/3")
    began = time.monotonic()
    for _ in range(3):
        assert end(start(run, STEPS.replace("for step", "time.sleep(0.5)\nfor step"))) == (0, "")
        assert end(start(run, "import torch\nprint('on')")) == (0, "on\n")
    assert time.monotonic() - began < 60  # none of them waited for it
    if name == "hangs":
        reader = os.open(run / "marks/3", os.O_RDONLY | os.O_NONBLOCK)
        assert os.read(reader, 100) == b"", "nobody is left who would write"
        os.close(reader)


def test_an_exception_whose_process_never_ends(run: Path) -> None:
    """It is ended when the grace is over: srun then ends the others."""
    code, text = end(start(run, RAISES))
    assert code == -signal.SIGKILL
    assert text.count("ValueError: so") == 1
    *_, first, second = text.splitlines()
    assert first.startswith("ddpkit: rank 3 raised ValueError at ")
    assert abs(float(first.split()[-1]) - time.time()) < PATIENCE
    assert second == "ddpkit: rank 3 raised ValueError, and its process continues"


def test_a_slow_end_is_not_cut_short_by_the_term_for_the_others(run: Path) -> None:
    (run / "hook/grace").write_text("100\n")
    text = "import atexit, os, signal, time, torch\n"
    text += "def slow():\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(1)\n    print('saved')\n"
    code, text = end(start(run, text + "atexit.register(slow)\nraise ValueError('so')\n"))
    assert code == 1
    assert "saved\n" in text
    assert "and its process continues" in text


def test_a_quick_end_says_it_once(run: Path) -> None:
    code, text = end(start(run, "import torch\nraise ValueError('so')\n"))
    assert code == 1
    assert text.count("ddpkit: rank 3 raised ValueError") == 1
    assert "continues" not in text


NOT_SO = {
    "caught": ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", 0),
    "an exit code": ("raise SystemExit(7)", 7),
    "Ctrl-C": ("raise KeyboardInterrupt", -signal.SIGINT),
    "in a thread": ("import threading\nthreading.Thread(target=lambda: 1 / 0).start()", 0),
}


@pytest.mark.parametrize("name", NOT_SO)
def test_what_is_no_such_end(name: str, run: Path) -> None:
    text, code = NOT_SO[name]
    process = start(run, f"import torch\n{text}\n")
    assert process.wait(PATIENCE) == code
    assert "ddpkit" not in end(process)[1]


def test_a_standard_error_that_the_script_has_changed(run: Path) -> None:
    """The line goes where the rank's lines went at first; not into a file that has the number of what was closed."""
    before = "import os, torch\nos.dup2(os.open('mine', os.O_WRONLY | os.O_CREAT), 2)\n"
    _, text = end(start(run, before + "raise ValueError('so')\n"))
    assert "ValueError: so" in (run.parent / "mine").read_text()
    assert text.startswith("ddpkit: rank 3 raised ValueError at ")
    before = "import os, torch\nos.closerange(3, 1024)\nwhile os.open('mine', os.O_WRONLY | os.O_TRUNC) < 1022: pass\n"
    code, text = end(start(run, before + "raise ValueError('so')\n"))
    assert code == 1
    assert "ddpkit" not in text
    assert (run.parent / "mine").read_text() == ""


def test_without_a_standard_error(run: Path) -> None:
    (run.parent / "job.py").write_text("import torch\nopen('there', 'w')\nraise ValueError('so')\n")
    env = {**os.environ, "DDPKIT_HOOK": f"{run}/hook", "PYTHONPATH": f"{run}/hook", "RANK": "3"}
    argv = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "job.py"]
    assert subprocess.run(argv, cwd=run.parent, env=env, timeout=PATIENCE, check=False).returncode == 1
    assert (run.parent / "there").exists()
