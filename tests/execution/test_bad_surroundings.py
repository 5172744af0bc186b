"""Floods of output, full devices, low limits, and names that are no text: no traceback, and an end in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT, PATIENCE
from run_logs import all_lines

from ddpkit.config import VARIABLES
from ddpkit.errors import LaunchError
from ddpkit.transports.protocol import LocalLink

RANKS = ("launch", "-n", "2", "-o", "starter=ranks")
FLOOD = "import os\ndata = b'y\\n' * 32768\nwhile True:\n    os.write(1, data)\n"
MB = 1 << 20


def in_shell(text: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `ddpkit ...` as a line of bash."""
    line = text.replace("ddpkit", f"exec {sys.executable} -m ddpkit")
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_a_signal_does_not_wait_for_a_flood(
    script: Callable[..., str], tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    """Ranks write faster than lines are shown: what waits between them is limited, and so is the memory."""
    script(FLOOD)
    with (tmp_path / "out").open("wb") as out:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "ddpkit", *RANKS, "--", "job.py"],
            cwd=tmp_path,
            env=clean_environ,
            stdout=out,
            stderr=out,
        )
        until = time.monotonic() + PATIENCE
        while not (logs := list(tmp_path.glob("logs/*/rank_0.log"))) or logs[0].stat().st_size < 20 * MB:
            assert time.monotonic() < until
            time.sleep(0.02)  # nobody announces that
        launcher.send_signal(signal.SIGINT)
        before = sum(log.stat().st_size for log in logs[0].parent.glob("rank_*.log"))
        assert launcher.wait(PATIENCE) == 130
    assert "SIGINT: ending all ranks" in (logs[0].parent / "ddpkit.log").read_text().splitlines()[1]
    rows = [row.split() for row in (logs[0].parent / "all.index").read_text().splitlines() if row.strip("@")]
    second = [number for number, row in enumerate(rows) if row[0] == "ddpkit"][1]
    assert sum(int(row[1]) for row in rows[:second] if row[0].isdecimal()) - before < 20 * MB


def test_a_full_standard_output_is_reported_once(
    script: Callable[..., str], tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    script("print('ran', flush=True)\n")
    done = in_shell(f"ddpkit {' '.join(RANKS)} -- job.py > /dev/full", tmp_path, clean_environ)
    assert done.returncode == 0
    words = "ddpkit: cannot write to standard output: No space left on device; the logs have all lines"
    assert done.stderr.count(words) == 1
    assert "done in" in done.stderr
    assert "Traceback" not in done.stderr
    assert all_lines(next(tmp_path.glob("logs/*"))).count("] ran") == 2


@pytest.mark.parametrize("files", [64, 65, 66])  # the last one is missing at another step of a rank's start
def test_a_limit_of_open_files_is_no_traceback(files: int, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    few = in_shell(f"ulimit -n {files}; ddpkit launch -n 30 -o starter=ranks -- sleep 60", tmp_path, clean_environ)
    assert few.returncode == 123, few.stderr
    assert "cannot start all ranks: Too many open files" in few.stderr
    assert "Traceback" not in few.stderr


def test_a_supervisor_that_cannot_start_is_an_error_of_the_launch() -> None:
    class Nowhere(LocalLink):
        argv = ("/nowhere/python",)

    with pytest.raises(LaunchError, match="cannot start a process on this machine: No such file or directory"):
        Nowhere().open(lambda _: None)


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
STRICT = {"PYTHONIOENCODING": "utf-8:strict"}  # what a locale like en_US.UTF-8 has


INTERNAL = sorted(
    name for name, meaning in VARIABLES.items() if meaning.startswith("internal") or name == "DDPKIT_CPUS"
)


@pytest.mark.parametrize("name", INTERNAL)
def test_variables_of_another_launch_do_not_count(name: str, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """They come with a shared profile, or where a rank of one launch begins another."""
    program = "import ddpkit\nprint(ddpkit.call(divmod, 7, 2, nproc_per_node=2))"
    env = {**clean_environ, name: "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[(3, 1), (3, 1)]\n"), done.stderr


@pytest.mark.new_python
@pytest.mark.parametrize("locale", [STRICT, ASCII], ids=["strict", "C"])
def test_a_name_that_is_no_text(locale: dict[str, str], ddpkit: DDPKIT, tmp_path: Path) -> None:
    """A file may have any bytes for a name. It is shown, with escapes, by every command."""
    name = os.fsdecode(b"j\xff.py")
    (tmp_path / name).write_text("raise ValueError('\\u20ac')\n")
    assert ddpkit(*RANKS, "--", name, env=locale).returncode == 1
    for words in (("ps",), ("status",), ("explain",), ("logs",), ("report",)):
        done = ddpkit(*words, env=locale)
        assert done.returncode == 0, (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert "\\udcff.py" in ddpkit("ps", env=locale).stdout
    assert json.loads(ddpkit("ps", "--json", env=locale).stdout)["runs"][0]["command"] == [name]


def test_a_current_directory_that_was_deleted(ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    assert ddpkit(*RANKS, "--", "true").returncode == 0
    done = in_shell("mkdir gone && cd gone && rmdir ../gone && ddpkit status", tmp_path, clean_environ)
    assert done.returncode == 121
    assert "error: no run of the current directory, which was deleted, found; runs of other projects:" in done.stderr


SWAP = """
import os, time
path = os.path.join("logs", os.environ["DDPKIT_RUN"])
while not os.path.exists(path + "/run.json"):
    time.sleep(0.01)
os.rename(path, path + ".moved")
os.symlink(os.path.abspath("data"), path)
print("swapped", flush=True)
"""


def test_what_takes_the_place_of_the_directory_of_a_run_stays_as_it_is(
    script: Callable[..., str], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """In the `logs/` of a team another user can put a link there, which leads to files of this user."""
    script(SWAP)
    (tmp_path / "data").mkdir()
    names = (
        "run.json",
        "status.json",
        "timeline.json",
        "launch.json",
        "all.index",
        "rank_0.log",
        "on_end.log",
        "requests",
    )
    for name in names:
        (tmp_path / "data" / name).write_text("months of work\n")
    done = ddpkit("launch", "-n", "1", "--", "job.py", env={"DDPKIT_ON_END": "echo hooked"})
    assert done.returncode == 0, done.stderr
    assert {each.name: each.read_text() for each in (tmp_path / "data").iterdir()} == dict.fromkeys(
        names, "months of work\n"
    )
    moved = next(tmp_path.glob("logs/*.moved"))
    assert json.loads((moved / "run.json").read_text())["state"] == "done"
    assert "swapped" in all_lines(moved)
    assert (moved / "on_end.log").read_text() == "hooked\n"


@pytest.mark.parametrize("text", ["junk", "[]"])
def test_files_of_the_script_do_not_change_the_end_of_a_run(
    text: str, script: Callable[..., str], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """Names that ddpkit gives to files of a submitted job are free in the directory of another run."""
    script(f"import os\nopen('logs/' + os.environ['DDPKIT_RUN'] + '/attempts.json', 'w').write({text!r})\n")
    done = ddpkit("launch", "-n", "1", "--", "job.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(next(tmp_path.glob("logs/*/run.json")).read_text())["state"] == "done"


FULL = """
mount -t tmpfs -o size=300k tmpfs full || exit 77
cd full && cp ../job.py .
"$@" launch -n 1 -- job.py > /dev/null; code=$?
[ "$code" = 0 ] && "$@" ps --json
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_the_end_of_a_run_is_known_although_its_disk_is_full(
    script: Callable[..., str], tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    script("import sys\nfor _ in range(40):\n    print('x' * 20000)\n")
    (tmp_path / "full").mkdir()
    argv = ["unshare", "--mount", "sh", "-c", FULL, "sh", sys.executable, "-m", "ddpkit"]
    done = subprocess.run(argv, cwd=tmp_path, env=clean_environ, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("cannot mount here")
    assert "cannot write the record of this run" in done.stderr
    run = json.loads(done.stdout)["runs"][0]
    assert (run["state"], run["exit_code"]) == ("done", 0)
