"""The Python interface: real launches on this machine, what it prints, signals, threads, and the end of its program."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from program import MARK, PATIENCE, marked, wait_until

import ddpkit
from ddpkit import config
from ddpkit.api import keywords

pytestmark = pytest.mark.live

# Rank 1 fails; the others wait for their end.
FAILS = """
import os, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, "begins", flush=True)
if rank == 1:
    print("cannot go on", flush=True)
    sys.exit(7)
time.sleep(3600)
"""
WELL = "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
SLEEPS = "import time\nprint('ready', flush=True)\ntime.sleep(3600)\n"
SAVES = """
import signal, sys, time
def save(*_):
    print("saving", flush=True)
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(3600)
"""
# Rank 1 fails when rank 0 is ready to save.
FAILS_AND_SAVES = f"""
import os, sys, time
from pathlib import Path
if os.environ["RANK"] == "1":
    while not Path("ready").exists():
        time.sleep(0.01)
    sys.exit(7)
print = lambda text, show=print, **options: (show(text, **options), Path(text).touch())
{SAVES}
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGURG, signal.SIGWINCH)


@pytest.fixture(autouse=True)
def _folder(own_place: None) -> None:
    Path("fails.py").write_text(FAILS)
    Path("well.py").write_text(WELL)
    Path("sleeps.py").write_text(SLEEPS)
    Path("saves.py").write_text(SAVES)


def wait_for_line(run: ddpkit.Run, text: str, times: int = 1) -> None:
    lines = (line for line in run.logs(follow=True) if line.text == text)
    for _ in range(times):
        next(lines)


def test_a_run_that_ends_well(capfd: pytest.CaptureFixture[str]) -> None:
    handlers = [signal.getsignal(number) for number in SIGNALS]
    run = ddpkit.launch("well.py", nproc_per_node=2)
    outcome = run.wait(PATIENCE)
    assert (outcome.state, outcome.exit_code, outcome.failure, outcome.ok) == ("done", 0, None, True)
    assert outcome.seconds is not None
    assert 0 < outcome.seconds < PATIENCE
    assert sorted(line.text for line in run.logs() if line.rank is not None) == ["rank 0 of 2", "rank 1 of 2"]
    assert [line.text for line in run.logs(rank=1)] == ["rank 1 of 2"]
    assert [str(line) for line in run.logs(grep="rank 0")] == [f"[0 {run.hosts[0]}] rank 0 of 2"]
    assert run.folder.is_absolute()
    assert json.loads((run.folder / "run.json").read_text())["state"] == "done"
    assert run.status().words.startswith("done")
    assert ddpkit.open_run(run.run_id[-4:]).wait() == outcome
    assert ddpkit.runs()[0].run_id == run.run_id
    assert run.stop() == outcome  # nothing is left to stop
    assert capfd.readouterr() == ("", "")
    assert [signal.getsignal(number) for number in SIGNALS] == handlers


def test_a_failing_rank() -> None:
    outcome = ddpkit.launch("fails.py", nproc_per_node=3).wait(PATIENCE)
    failure = outcome.failure
    assert failure is not None
    assert (outcome.state, outcome.exit_code) == ("failed", 7)
    assert (failure.rank, failure.code, failure.signal, failure.host) == (1, 7, None, os.uname().nodename.split(".")[0])
    assert failure.last_lines[-1] == "cannot go on"
    assert Path(failure.log).read_text().endswith("cannot go on\n")
    assert outcome.verdict is not None
    assert "rank 1" in outcome.verdict
    assert ddpkit.open_run(outcome.run_id).wait() == outcome  # all of it is in the record


def test_a_checked_wait_raises_the_first_failure() -> None:
    run = ddpkit.launch("fails.py", nproc_per_node=3)
    with pytest.raises(ddpkit.RunFailedError, match=r"rank 1 .*\n(.*\n)*cannot go on") as raised:
        run.wait(PATIENCE, check=True)
    assert (raised.value.exit_code, raised.value.outcome) == (7, run.outcome)
    assert raised.value.hint == f"ddpkit explain {run.run_id}"
    assert ddpkit.launch("well.py").wait(PATIENCE, check=True).ok


def test_the_state_and_the_outcome_of_a_run() -> None:
    run = ddpkit.launch("sleeps.py")
    wait_for_line(run, "ready")
    assert (run.state, run.outcome) == (ddpkit.RunState.RUNNING, None)
    assert run.stop() == run.outcome
    assert run.state is ddpkit.RunState.STOPPED
    assert f"{run.state}" == "stopped"


def test_a_known_cause_is_diagnosed() -> None:
    Path("asks.py").write_text("raise RuntimeError('CUDA error: invalid device ordinal')\n")
    failure = ddpkit.launch("asks.py").wait(PATIENCE).failure
    assert failure is not None
    assert failure.diagnosis is not None
    assert failure.diagnosis.cause
    assert failure.diagnosis.fix


def test_a_rank_that_is_killed() -> None:
    outcome = ddpkit.launch("-c", ["import os; os.kill(os.getpid(), 9)"]).wait(PATIENCE)
    assert outcome.failure is not None
    assert (outcome.exit_code, outcome.failure.signal, outcome.failure.code) == (137, 9, None)


def test_stop_and_the_end_of_a_block() -> None:
    with ddpkit.launch("sleeps.py", nproc_per_node=2) as run:
        wait_for_line(run, "ready", 2)
        assert run.status().state == "running"
        with pytest.raises(TimeoutError):
            run.wait(timeout=0.1)
        assert run.status().living
    outcome = run.wait(0)
    assert (outcome.state, outcome.exit_code, outcome.failure) == ("stopped", 143, None)
    again = ddpkit.launch("sleeps.py")
    wait_for_line(again, "ready")
    assert again.stop(now=True).exit_code == 128 + signal.SIGQUIT


def test_a_second_stop_leaves_the_grace() -> None:
    """To the loop of a run, a second signal means KILL: ranks that save a checkpoint would lose it."""
    run = ddpkit.launch("saves.py")
    wait_for_line(run, "ready")
    thread = threading.Thread(target=run.stop)
    thread.start()
    wait_for_line(run, "saving")
    run.stop()
    thread.join(PATIENCE)
    assert [line.text for line in run.logs(rank=0)] == ["ready", "saving", "saved"]


def test_a_second_stop_can_end_the_grace() -> None:
    run = ddpkit.launch("saves.py")
    wait_for_line(run, "ready")
    thread = threading.Thread(target=run.stop)
    thread.start()
    wait_for_line(run, "saving")
    run.stop(now=True)
    thread.join(PATIENCE)
    assert [line.text for line in run.logs(rank=0)] == ["ready", "saving"]


def test_the_end_of_a_block_leaves_the_grace_after_a_failure() -> None:
    with ddpkit.launch("-c", [FAILS_AND_SAVES], nproc_per_node=2) as run:
        wait_for_line(run, "saving")
    assert run.wait(0).exit_code == 7
    assert [line.text for line in run.logs(rank=0)][-1] == "saved"


def test_several_runs_from_threads(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes: dict[int, ddpkit.Outcome] = {}

    def launch(code: int) -> None:
        outcomes[code] = ddpkit.launch("-c", [f"raise SystemExit({code})"], nproc_per_node=2).wait(PATIENCE)

    threads = [threading.Thread(target=launch, args=(code,)) for code in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert {code: outcome.exit_code for code, outcome in outcomes.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
    assert capfd.readouterr() == ("", "")


def test_a_run_needs_no_thread_and_no_file_after_its_end() -> None:
    ddpkit.launch("well.py").wait(PATIENCE)

    def held() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    until, before = time.monotonic() + PATIENCE, held()
    for _ in range(3):
        ddpkit.launch("well.py").wait(PATIENCE)
    while held() > before:
        assert time.monotonic() < until, (before, held())
        time.sleep(0.05)


def test_echo_shows_the_lines(capsys: pytest.CaptureFixture[str]) -> None:
    ddpkit.launch("well.py", nproc_per_node=2, echo=True).wait(PATIENCE)
    out, err = capsys.readouterr()
    assert sorted(line.partition("] ")[2] for line in out.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert "2 ranks on" in err
    assert "ddpkit: done in" in err


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise RuntimeError(f"not shown: {text}")


class OnlyWrites:
    """As much as `print` needs of a file."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize("stream", [None, io.TextIOWrapper(io.BytesIO()), Closed()], ids=["none", "closed", "fails"])
def test_streams_that_fail_end_no_run(stream: io.TextIOBase | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(stream, io.TextIOWrapper):
        stream.close()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # which the launch remarks on
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    assert ddpkit.launch("well.py", echo=True).wait(PATIENCE).ok


def test_echo_needs_no_more_than_print(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = OnlyWrites()
    monkeypatch.setattr(sys, "stdout", stream)
    assert ddpkit.launch("-c", ["print('one'); print('two')"], echo=True).wait(PATIENCE).ok
    assert [line.partition("] ")[2] for line in stream.text.splitlines()] == ["one", "two"]


def test_echo_escapes_what_the_stream_cannot_encode(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    code = "import sys; sys.stdout.buffer.write('caf\u00e9\\nafter\\n'.encode())"
    assert ddpkit.launch("-c", [code], echo=True).wait(PATIENCE).ok
    stream.seek(0)
    assert [line.partition("] ")[2] for line in stream.read().splitlines()] == ["caf\\xe9", "after"]


def test_a_run_without_threads_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("ddpkit") and not thread.name.endswith("requests"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ddpkit.LaunchError, match="no more threads"):
        ddpkit.launch("well.py")
    assert ddpkit.runs()[0].status().state == "failed"
    monkeypatch.undo()


def test_the_program_may_change_its_folder(tmp_path: Path) -> None:
    with ddpkit.launch("sleeps.py") as run:
        Path("elsewhere").mkdir()
        os.chdir("elsewhere")
        wait_for_line(run, "ready")
    assert run.folder.parent == tmp_path / "logs"
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"nproc_per_node": 0}, "nproc_per_node = 0: must be at least 1"),
        ({"nnodes": "4:2"}, "nnodes = 4:2: the smaller number must come first"),
        ({"grace": -1}, "grace = -1: must be from 0 to 86400 seconds (a day)"),
        ({"hang_action": "shout"}, "hang_action = shout: must be warn or end"),
        ({"backend": "nope"}, "backend 'nope' not found"),
        ({"profile": "nope"}, "profile 'nope' not found: this project has no ddpkit.toml"),
        ({"env": {"DDPKIT_NOT_SET": None}}, "env DDPKIT_NOT_SET: DDPKIT_NOT_SET is not set in this environment"),
        ({"options": {"startr": "ranks"}}, "startr"),
        ({"hosts": "node1"}, "hosts = 'node1' is not valid"),
        ({"nproc": 2}, "unknown setting 'nproc'"),
        ({"on": "node1"}, "on node1 requires detach"),
        ({"hosts": ["node1"]}, "backend local runs on this machine only"),
    ],
)
def test_a_wrong_setting_is_refused(keywords: dict[str, object], words: str) -> None:
    with pytest.raises(ddpkit.UsageError) as raised:
        ddpkit.launch("well.py", **keywords)  # type: ignore[arg-type]
    assert words in raised.value.message
    assert not Path("logs").exists()


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("add --spares 1", "add spares=1"),
        ("add --detach", "add detach=True"),
        ("add -n 3", "add nproc_per_node=3"),
        ("add -b ssh HOST HOST", 'add backend="ssh", hosts=["HOST", "HOST"]'),
        ("add HOST HOST", 'add hosts=["HOST", "HOST"]'),
        ("--log-dir DIR", 'log_dir="DIR"'),
        ("add --heartbeat-timeout 30", 'add options={"heartbeat_timeout": 30}'),
        ("add -o starter=ranks", 'add options={"starter": "ranks"}'),
        ("--env NAME=VALUE", 'env={"NAME": "VALUE"}'),
        ("add --no-preflight", "add preflight=False"),
        ("ddpkit test -n 2 --quick", "ddpkit test -n 2 --quick"),
        ("ls -ld /nope", "ls -ld /nope"),
    ],
)
def test_a_hint_is_written_in_python(hint: str, shown: str) -> None:
    assert keywords.hint_in_keywords(hint) == shown


def test_the_signature_lists_the_settings() -> None:
    for function in (ddpkit.launch, ddpkit.plan, ddpkit.test):
        assert set(config.LaunchKeywords.__annotations__) < set(inspect.signature(function).parameters)


def test_a_wrong_script_is_refused() -> None:
    with pytest.raises(ddpkit.UsageError, match=r"script nope\.py not found"):
        ddpkit.launch("nope.py")
    with pytest.raises(ddpkit.UsageError, match="arguments were given, and no script"):
        ddpkit.plan(args=["--epochs", "3"])
    with pytest.raises(ddpkit.UsageError, match="run 'nope' not found"):
        ddpkit.open_run("nope")


@pytest.mark.parametrize(
    ("script", "args", "words"),
    [
        ("well.py", "--epochs 3", "args='--epochs 3' is no list of words"),
        ("well.py", None, "args=None is no list of words"),
        ("well.py", ["--epochs", 3], "args: 3 is not text"),
        (["well.py", "--epochs"], [], "script=['well.py', '--epochs'] is not the name of a program"),
        (b"well.py", [], "script=b'well.py' is not the name of a program"),
        (None, ["--epochs"], "arguments were given, and no script"),
    ],
)
def test_wrong_words_are_refused(script: Any, args: Any, words: str) -> None:
    with pytest.raises(ddpkit.UsageError, match=f"^{re.escape(words)}"):
        ddpkit.launch(script, args)


def test_arguments_may_be_paths(tmp_path: Path) -> None:
    run = ddpkit.launch("-c", ["import sys; print(sys.argv[1])", tmp_path])  # type: ignore[list-item]
    assert run.wait(PATIENCE).ok
    assert [line.text for line in run.logs(rank=0)] == [str(tmp_path)]


def test_names_of_variables_are_text() -> None:
    with pytest.raises(ddpkit.UsageError, match="1 is not the name of an environment variable"):
        ddpkit.launch("well.py", env={1: "one"})  # type: ignore[dict-item]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_a_traceback_ends_with_the_hint() -> None:
    code = "import ddpkit; ddpkit.launch('well.py', backend='slrum')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-2:] == [
        "ddpkit.errors.UsageError: backend 'slrum' not found",
        'hint: add backend="slurm"',
    ]


def test_a_plan_is_what_a_dry_run_prints(ddpkit_command: Callable[..., str]) -> None:
    plan = ddpkit.plan("well.py", ["--epochs", "3"], nproc_per_node=2)
    printed = ddpkit_command("launch", "-n", "2", "--dry-run", "--", "well.py", "--epochs", "3")
    run_id = printed.split()[4].rstrip(":")
    texts = [str(plan).replace(plan.run_id, "ID"), printed.replace(run_id, "ID")]
    assert len({re.sub(r"MASTER_PORT=\d+", "", text) for text in texts}) == 1  # a free one


@pytest.fixture
def ddpkit_command() -> Callable[..., str]:
    def run(*words: str) -> str:
        argv = [sys.executable, "-m", "ddpkit", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    return run


def test_other_shells_see_ask_and_stop_a_run(ddpkit_command: Callable[..., str]) -> None:
    """They signal a launcher; a program that launched a run would die of that."""
    run = ddpkit.launch("sleeps.py", nproc_per_node=2)
    wait_for_line(run, "ready", 2)
    assert "runs for" in ddpkit_command("status", run.run_id)
    dump = json.loads(ddpkit_command("dump", run.run_id, "--json"))
    assert sorted(rank["rank"] for rank in dump["ranks"]) == [0, 1]
    assert "stopped" in ddpkit_command("stop", run.run_id)
    outcome = run.wait(PATIENCE)
    assert (outcome.state, outcome.exit_code) == ("stopped", 143)
    assert "has ended already" in ddpkit_command("stop", run.run_id)


def test_a_living_run_without_its_folder() -> None:
    """Its program can stop it. Others cannot ask it: their requests are files of that folder."""
    run = ddpkit.launch("sleeps.py")
    wait_for_line(run, "ready")
    found = ddpkit.open_run(run.run_id)
    shutil.rmtree(run.folder)
    gone = f"cannot ask the launcher of run {run.run_id}: its directory was moved or deleted"
    with pytest.raises(ddpkit.DdpkitError, match=gone) as raised:
        found.stop()
    assert str(raised.value.hint).startswith(f"ls -ld {run.folder.parent}")
    assert run.stop().state == "stopped"


def test_stop_all_reports_the_runs_that_ended_beside_one_that_it_cannot_stop() -> None:
    lost, other = ddpkit.launch("sleeps.py"), ddpkit.launch("sleeps.py")
    for run in (lost, other):
        wait_for_line(run, "ready")
    shutil.rmtree(lost.folder)
    argv = [sys.executable, "-m", "ddpkit", "stop", "--all"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 121
    assert re.match(f"run {other.run_id}: stopped", done.stdout)
    assert f"error: cannot ask the launcher of run {lost.run_id}: its directory was moved or deleted" in done.stderr
    assert other.wait(PATIENCE).state == "stopped"
    assert lost.stop().state == "stopped"


# ---- the end of the program

Program = subprocess.Popen[str]
THESE = secrets.token_hex(8)  # tests of another run on this machine have processes as well

PROGRAM = """
import {modules}
import ddpkit
run = ddpkit.launch("sleeps.py", nproc_per_node=2)
ready = (line for line in run.logs(follow=True) if line.text == "ready")
next(ready), next(ready)
{before}
print(run.folder, flush=True)
{then}
"""


@contextmanager
def program(mark: str, then: str, before: str = "", modules: str = "sys, time") -> Iterator[Program]:
    """A Python program that launches two ranks, and what is left of it."""
    text = PROGRAM.format(modules=modules, before=before, then=then)
    env = {**os.environ, MARK: f"{mark} {THESE}"}
    with subprocess.Popen([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            for pid in survivors(mark):
                os.kill(pid, signal.SIGKILL)


def line_of(process: Program) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def survivors(mark: str) -> set[int]:
    return set(marked(f"{mark} {THESE}"))


def wait_for_none(mark: str, *spared: int) -> None:
    wait_until(lambda: not survivors(mark) - set(spared), lambda: survivors(mark))


def test_a_killed_program_leaves_no_rank() -> None:
    with program("killed", "time.sleep(3600)") as process:
        folder = line_of(process)
        assert len(survivors("killed")) >= 5  # the program, its supervisors and ranks
        process.kill()
        process.wait(PATIENCE)
        wait_for_none("killed")
    run = ddpkit.open_run(folder)
    assert run.status().state == "lost"
    assert run.wait().state == "lost"


# Children of the program that go on after its death: executed, and forked without a change of program.
CHILDREN = {
    "executed": ("subprocess", "child = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)"),
    "inheriting": (
        "subprocess",
        "child = subprocess.Popen(['sleep', '600'], close_fds=False)\nprint(child.pid, flush=True)",
    ),
    "forked": ("os, time", "pid = os.fork()\nif pid == 0:\n    time.sleep(600)\nprint(pid, flush=True)"),
}


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_child_of_the_killed_program_keeps_no_rank_alive(kind: str) -> None:
    modules, code = CHILDREN[kind]
    with program(kind, "time.sleep(3600)", before=code, modules=f"sys, time, {modules}") as process:
        child = int(line_of(process))
        line_of(process)
        process.kill()
        process.wait(PATIENCE)
        wait_for_none(kind, child)
        assert child in survivors(kind)


def test_the_end_of_a_program_leaves_the_grace() -> None:
    then = """
second = ddpkit.launch("saves.py")
lines = (line.text for line in second.logs(follow=True))
while next(lines) != "ready": pass
threading.Thread(target=second.stop, daemon=True).start()
while next(lines) != "saving": pass
print(second.folder, flush=True)
"""
    with program("stopping", then, modules="threading") as process:
        out, _ = process.communicate(timeout=PATIENCE)
    second = ddpkit.open_run(out.splitlines()[-1])
    assert [line.text for line in second.logs(rank=0)] == ["ready", "saving", "saved"]


@pytest.mark.parametrize("then", ["", "raise RuntimeError", "sys.exit(3)"])
def test_the_end_of_a_program_ends_its_runs(then: str) -> None:
    mark = f"ended {then}"
    with program(mark, then) as process:
        folder = line_of(process)
        process.wait(PATIENCE)
        wait_for_none(mark)
    assert ddpkit.open_run(folder).status().state == "stopped"


FORKED = """
pid = os.fork()
if pid == 0:
    {child}
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(code, run.status().state, flush=True)
"""


@pytest.mark.parametrize(
    ("child", "state"),
    [
        ("with run: sys.exit()", "running"),  # the run is the parent's
        ("sys.exit()", "running"),
        ("run.stop(); sys.exit()", "stopped"),
        ("try: run.wait(0.5)\n    except TimeoutError: run.stop(); sys.exit()", "stopped"),
    ],
)
def test_a_forked_child_reaches_the_run(child: str, state: str) -> None:
    with program(f"child {child}", FORKED.format(child=child), modules="os, sys") as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert out.splitlines()[-1] == f"0 {state}"


def test_a_run_of_a_forked_child_ends_with_it() -> None:
    child = """second = ddpkit.launch("saves.py")
    next(line for line in second.logs(follow=True) if line.text == "ready")
    print(second.folder, flush=True)
    sys.exit()"""
    with program("launching child", FORKED.format(child=child), modules="os, sys") as process:
        out, _ = process.communicate(timeout=PATIENCE)
    second = ddpkit.open_run(out.splitlines()[-2])
    assert second.wait(0).state == "stopped"
    assert [line.text for line in second.logs(rank=0)] == ["ready", "saving", "saved"]


SIGNALS_OF_THE_PROGRAM = """
import signal
import ddpkit
{change}
print(ddpkit.launch("-c", ["raise SystemExit(7)"]).wait().exit_code)
run = ddpkit.launch("saves.py")
next(line for line in run.logs(follow=True) if line.text == "ready")
run.stop()
print(*[line.text for line in run.logs(rank=0)])
"""


@pytest.mark.parametrize(
    "change",
    [
        "signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    ],
)
def test_ranks_do_not_inherit_the_signals_of_the_program(change: str) -> None:
    code = SIGNALS_OF_THE_PROGRAM.format(change=change)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("7\nready saving saved\n", "")


def test_an_interrupt_leaves_the_run_going() -> None:
    """As the stop button of a notebook: `wait` raises, and the run goes on."""
    then = """
import os, signal, threading
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    run.wait()
except KeyboardInterrupt:
    print("interrupted", run.status().state, flush=True)
print(run.stop().state, flush=True)
"""
    with program("interrupted", then) as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert out.splitlines()[1:] == ["interrupted running", "stopped"]


# ---- the package


def test_the_import_is_cheap() -> None:
    """Nothing is imported before it is used: no torch, fabric, typer, rich, and none of the launcher."""
    text = "import sys; before = set(sys.modules); import ddpkit; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"ddpkit", "ddpkit.cli"}
    text = "import sys, ddpkit; ddpkit.launch; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert not {"torch", "fabric", "paramiko", "typer", "rich"} & set(done.stdout.split())


def test_all_names_are_there() -> None:
    assert set(ddpkit.__all__) <= set(dir(ddpkit))
    assert all(getattr(ddpkit, name) is not None for name in ddpkit.__all__)
    assert issubclass(ddpkit.UsageError, ddpkit.DdpkitError)
    with pytest.raises(AttributeError, match="lanch"):
        _ = ddpkit.lanch  # type: ignore[attr-defined]
