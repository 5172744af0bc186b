"""What a launcher meets outside of a demonstration: slow readers, full disks, stopped terminals, odd names."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DDPKIT, PATIENCE, SCRIPT, START
from program import wait_until

FLOOD = "import os\nprint('ready', flush=True)\nwhile True: os.write(1, b'x' * 79 + b'\\n')\n"
MANY = "import os\nprint('ready', flush=True)\nfor _ in range(40000): os.write(1, b'x' * 79 + b'\\n')\n"

pytestmark = pytest.mark.live


def test_a_stopped_launcher_goes_on_where_it_was(start: START, script: SCRIPT, tmp_path: Path) -> None:
    """Ctrl-Z, then fg: the ranks may have ended meanwhile, and every line is still to come."""
    script(MANY + "open('done', 'w')\n")
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    command.process.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 5  # the rank ends, or waits for room in the pipes; both are right
    while not (tmp_path / "done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    command.process.send_signal(signal.SIGCONT)
    assert command.end() == 0, command.text[-2000:]
    assert sum(line.endswith("x" * 79) for line in command.lines) == 40000


def test_a_killed_supervisor_in_a_flood(start: START, script: SCRIPT) -> None:
    """Its last event may be cut in the middle."""
    script(FLOOD)
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    _, worker = command.supervisors()
    os.kill(worker, signal.SIGKILL)
    assert command.end() == 125
    assert "ddpkit's process on" in command.text
    command.wait_for_no_survivor()


def test_term_is_obeyed_while_nobody_reads(script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    clean_environ.pop("PYTHONUNBUFFERED", None)  # few people have it
    script(FLOOD.replace("print('ready', flush=True)", "open('ready', 'w')"))
    process = subprocess.Popen(
        [sys.executable, "-m", "ddpkit", "launch", "-n", "1", "--", "job.py"],
        cwd=tmp_path,
        env=clean_environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until((tmp_path / "ready").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
    finally:
        process.kill()
        assert process.stdout is not None
        process.stdout.close()


def test_many_ranks_that_end_at_once(ddpkit: DDPKIT) -> None:
    """The end of a rank and the end of its output may be seen in either order, or in the same moment."""
    for _ in range(3):
        done = ddpkit("launch", "-n", "64", "--", "true")
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_slow_reader_gets_everything(
    unbuffered: str, script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    """Also where Python's own streams take what fits and leave the rest to the caller (PYTHONUNBUFFERED)."""
    script(MANY)
    pattern = "] " + "x" * 79 + "$"
    line = f"{sys.executable} -m ddpkit launch -n 2 -- job.py | (sleep 1; grep -c '{pattern}')"
    env = {**clean_environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, check=True)
    assert done.stdout.strip() == b"80000"


def test_a_screen_that_does_not_block(script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """Another program that shares the terminal may have made it so."""
    clean_environ.pop("PYTHONUNBUFFERED", None)
    script(MANY)
    read, write = os.pipe()
    os.set_blocking(write, False)
    command = [sys.executable, "-m", "ddpkit", "launch", "-n", "1", "--", "job.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=clean_environ, stdout=write, stderr=subprocess.DEVNULL) as process:
        os.close(write)
        with open(read, "rb") as stream:
            assert sum(line.endswith(b"x" * 79 + b"\n") for line in stream) == 40000
    assert process.returncode == 0


@pytest.mark.parametrize("where", ["> /dev/full", "2> /dev/full", ">&-", "2>&-", ">&- 2>&- <&-"])
def test_no_screen_is_no_reason(where: str, script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """The rank's exit code, the record and the logs are there whatever became of the terminal."""
    script("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)\n")
    line = f"{sys.executable} -m ddpkit launch -n 1 -- job.py {where}"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=clean_environ, capture_output=True, check=False)
    assert done.returncode == 3
    printed = (done.stdout + done.stderr).decode()
    assert "Traceback" not in printed, printed
    (record,) = tmp_path.glob("logs/*/run.json")
    assert json.loads(record.read_text())["exit_code"] == 3
    assert sorted((record.parent / "rank_0.log").read_text().splitlines()) == ["err", "out"]


FAILS_IN_A_THREAD = """
import sys, threading

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "ddpkit.diagnosis.events" and threading.current_thread() is not threading.main_thread():
            sys.meta_path.remove(Finder)
            raise KeyError(threading.get_ident())

sys.meta_path.insert(0, Finder)
"""


@pytest.mark.new_python
def test_an_import_that_fails_beside_another_is_repeated(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """As Python before 3.12 fails now and then, where two threads import the same modules."""
    script("raise RuntimeError('CUDA error: an illegal memory access was encountered')\n")
    script(FAILS_IN_A_THREAD, "sitecustomize.py")
    done = ddpkit("launch", "-n", "1", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "a kernel accessed memory outside of its bounds" in done.stderr
    assert "KeyError" not in done.stderr


def test_no_more_threads_is_said(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """As under a small `ulimit -u`, which root does not feel: no memory holds such a stack."""
    line = f"ulimit -s 100000000000 && exec {sys.executable} -m ddpkit launch -n 1 -- touch ran"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=clean_environ, capture_output=True, check=False)
    assert done.returncode == 123, done.stderr
    first, second = done.stderr.decode().splitlines()
    assert first.startswith("ddpkit: error: no more threads can be started on this machine")
    assert second.startswith("hint: ulimit -u")


@pytest.mark.new_python
def test_no_room_for_the_record_is_said_before_anything_starts(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """As on a full disk, where an empty file can still be made."""
    script("open('ran', 'w').close()\n")
    script("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n", "sitecustomize.py")
    done = ddpkit("launch", "-n", "1", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 121, done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("ddpkit: error: cannot write logs to logs/")
    assert second == "hint: choose a writable directory: --log-dir DIR"
    assert not (tmp_path / "ran").exists()


def test_the_folder_of_the_run_may_go(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("import shutil, sys\nshutil.rmtree('logs')\nsys.exit(7)\n")
    done = ddpkit("launch", "-n", "1", "--", "job.py")
    assert done.returncode == 7
    assert "exit code 7" in done.stderr
    assert "cannot write the record" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_leftover_gets_term_before_kill(start: START, script: SCRIPT, tmp_path: Path) -> None:
    child = "import signal, sys, time; signal.signal(15, lambda *_: (open('told', 'w'), sys.exit())); "
    child += "print('leftover ready', flush=True); time.sleep(3600)"
    script(f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n")
    command = start("launch", "-n", "1", "--", "job.py")
    assert command.end() == 0
    assert (tmp_path / "told").exists()
    assert "ended processes that a rank left" in command.text


def test_a_leftover_whose_name_is_no_text(start: START, script: SCRIPT, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/n\xff"
    Path(os.fsdecode(odd)).symlink_to("/bin/sleep")
    script(f"import subprocess\nsubprocess.Popen([{odd!r}, '3600'], start_new_session=True)\n")
    command = start("launch", "-n", "1", "--", "job.py")
    assert command.end() == 0, command.tail
    command.wait_for_no_survivor()


def test_a_real_time_signal(ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "-n", "1", "--", "sh", "-c", "kill -35 $$")
    assert done.returncode == 128 + 35
    assert "killed by signal 35" in done.stderr
    assert "Traceback" not in done.stderr


ORDER = """
import os, select, time
if os.environ["RANK"] == "1":
    with open("pid.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid.new", "pid")
    while not os.path.exists("watching"):
        time.sleep(0.01)
    os._exit(7)
while not os.path.exists("pid"):
    time.sleep(0.01)
watch = select.poll()
watch.register(os.pidfd_open(int(open("pid").read())), select.POLLIN)
open("watching", "w").close()
watch.poll()
os._exit(9)
"""


def test_the_first_death_is_the_first(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Rank 0 ends as soon as rank 1 is dead. It was started first, and `waitpid` would name it first."""
    script(ORDER)
    for _ in range(5):
        for name in ("pid", "watching"):
            (tmp_path / name).unlink(missing_ok=True)
        assert ddpkit("launch", "-n", "2", "--", "job.py").returncode == 7


@pytest.mark.new_python
def test_a_broken_sitecustomize_does_not_matter(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("raise RuntimeError('of the site')\n")
    script("import os\nprint('is', os.environ['RANK'])\n")
    done = ddpkit("launch", "-n", "2", "-o", "preload=json", "--", "job.py", env={"PYTHONPATH": str(site)})
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[-1] for line in done.stdout.splitlines()) == ["0", "1"]
    assert "RuntimeError: of the site" in done.stderr


@pytest.mark.new_python
def test_a_preload_that_cannot_be_never_runs_the_script(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("open('ran.' + os.environ.get('RANK', 'none') if (os := __import__('os')) else '', 'w')\n")
    colon = tmp_path / "a:b"
    colon.mkdir()
    done = ddpkit("launch", "-n", "2", "-o", "preload=json", "--", "job.py", env={"TMPDIR": str(colon)})
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("ran.*")} == {"ran.0", "ran.1"}
    for place in (f"{tmp_path}/missing", "/proc"):  # nobody can make a directory in /proc, and it is there
        gone = ddpkit("launch", "-n", "2", "-o", "preload=json", "--", "job.py", env={"TMPDIR": place})
        assert gone.returncode == 123
        assert f"No such file or directory: {place}" in gone.stderr
        assert "Traceback" not in gone.stderr


@pytest.mark.parametrize(
    "starter",
    ["ranks", pytest.param("torchrun", marks=pytest.mark.torch), pytest.param("legacy", marks=pytest.mark.torch)],
)
def test_variables_with_odd_names_arrive(starter: str, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("import os\nprint('is', os.environ['foo-bar'], os.environ['a.b'], os.environ['PWD'])\n")
    folder = tmp_path / "there"
    folder.mkdir()
    (tmp_path / "job.py").rename(folder / "job.py")
    env = {"foo-bar": "1", "a.b": "2"}
    done = ddpkit("launch", "-n", "1", "-o", f"starter={starter}", "--workdir", "there", "--", "job.py", env=env)
    assert done.returncode == 0, done.stderr
    assert f"] is 1 2 {folder}\n" in done.stdout


def test_what_the_user_exported_stays(ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "-n", "2", "--", "sh", "-c", "echo is $OMP_NUM_THREADS", env={"OMP_NUM_THREADS": "7"})
    assert done.stdout.count("] is 7\n") == 2


BAD = {
    "script": ({"DDPKIT_SCRIPT": "sh -c 'x"}, "", "No closing quotation"),
    "no script": ({"DDPKIT_SCRIPT": ""}, "", "DDPKIT_SCRIPT: script = "),
    "script in the file": ({}, 'script = "a \'b"\n', "No closing quotation"),
    "profile": ({}, "profile = ['a']\n", "profile = ['a'] is not valid"),
    "tool": ({}, None, "ddpkit = 3 is not a table"),
    "grace": ({"DDPKIT_GRACE": "1e10"}, "", "must be from 0 to 86400 seconds"),
    "secret": ({}, "env = { WANDB_API_KEY = 's3cr3t', X = [1] }\n", "env = ... is not valid"),
    "nul": ({}, 'script = ["train.py", "a\\u0000b"]\n', "a NUL character"),
}


@pytest.mark.parametrize("name", BAD)
def test_settings_that_are_none(name: str, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    env, text, message = BAD[name]
    script("", "train.py")
    if text is None:
        (tmp_path / "pyproject.toml").write_text("[tool]\nddpkit = 3\n")
    else:
        (tmp_path / "ddpkit.toml").write_text(text)
    done = ddpkit("launch", env=env)
    assert done.returncode == 121, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "s3cr3t" not in done.stderr
    assert not (tmp_path / "logs").exists()


def test_words_that_are_no_text(ddpkit: DDPKIT, tmp_path: Path) -> None:
    word = os.fsdecode(b"caf\xe9")
    shown = ddpkit("launch", "-n", "1", "--log-dir", word, "--dry-run", "--", "printf", "%s", word)
    assert shown.returncode == 0, shown.stderr
    done = ddpkit("launch", "-n", "1", "--log-dir", word, "--", "printf", "%s", word)
    assert done.returncode == 0, done.stderr
    (log,) = tmp_path.glob("*/*/rank_0.log")
    assert log.read_bytes() == b"caf\xe9"


@pytest.mark.parametrize("module", ["typer.", "ddpkit.errors", "ddpkit.launchers.plan", "ddpkit.execution.executor"])
def test_an_early_interrupt_is_quiet(module: str, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """Ctrl-C while Python still imports; it prints what it has imported, which is the event."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "ddpkit", "launch", "-n", "1", "--", "sleep", "3600"],
        cwd=tmp_path,
        env=clean_environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr as stream:
        assert any(module in line for line in stream)
        process.send_signal(signal.SIGINT)
        rest = stream.read()
    assert process.wait(PATIENCE) == 130, rest
    assert "Traceback" not in rest


def test_an_interrupt_while_a_class_is_made_is_quiet(clean_environ: dict[str, str]) -> None:
    """Python before 3.12 makes another error of what a handler raises there."""
    text = """import signal, sys
from ddpkit.__main__ import main
sys.argv = ["ddpkit", "--version"]
main()
class Now:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)
class Owner:
    now = Now()
"""
    done = subprocess.run([sys.executable, "-c", text], env=clean_environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_stop_at_any_moment_is_not_lost(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """A TERM that reaches a rank between its fork and its own first instruction ends it, and not the grace."""
    for milliseconds in range(60, 140, 8):
        before = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "ddpkit", "launch", "-n", "4", "--grace", "3600", "--", "sleep", "3600"],
            cwd=tmp_path,
            env=clean_environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(milliseconds / 1000)  # the moment itself is what is tried
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) in (143, -signal.SIGTERM)
        assert time.monotonic() - before < PATIENCE


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("ps --json", 125, "ddpkit: error: cannot write the output: No space left on device"),
        ("launch --dry-run -n 2 -- true", 125, "ddpkit: error: cannot write the output: No space left on device"),
        ("launch --json -n 2 -- true", 125, "cannot write the record to standard output: No space left on device"),
        ("launch --json -n 2 -- sh -c 'exit 7'", 7, "cannot write the record to standard output"),
    ],
)
def test_a_full_disk_behind_standard_output(
    words: str, code: int, said: str, unbuffered: str, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    """Said in one line, never a traceback; a run's own exit code is kept."""
    argv = [sys.executable, "-m", "ddpkit", *shlex.split(words)]
    env = {**clean_environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(argv, cwd=tmp_path, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
