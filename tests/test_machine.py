"""One way to run a scheduler's command: it ends, whatever the command does, and the reply says why."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from program import wait_until

from ddpkit import machine
from ddpkit.machine import HERE, NOT_RUN, TIMED_OUT, run_command
from ddpkit.run.launcher_process import process_state


def test_an_end_has_its_code_and_both_outputs() -> None:
    reply = run_command([sys.executable, "-c", "import sys; print('a\\nb'); sys.exit('no\\n  way')"])
    assert (reply.exit_code, reply.output, reply.error) == (1, "a\nb\n", "no way")
    assert not reply.missing
    assert not reply.timed_out


def test_the_environment_is_replaced_and_there_is_no_input() -> None:
    text = "import os, sys; print(sorted(n for n in os.environ if n in ('A', 'HOME')), repr(sys.stdin.read()))"
    assert run_command([sys.executable, "-c", text], {"A": "1"}).output == "['A'] ''\n"


def test_a_command_that_is_not_there_is_named_with_its_host() -> None:
    reply = run_command(["no-such-scheduler", "--me"])
    assert (reply.exit_code, reply.missing) == (NOT_RUN, True)
    assert reply.error == f"no-such-scheduler not found on {os.uname().nodename}"


def test_a_closed_directory_in_the_path_is_not_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To an ordinary user, each name alone is in it, and may not run."""
    (tmp_path / "closed").mkdir(0)
    monkeypatch.setenv("PATH", f"{tmp_path}/closed:{os.environ['PATH']}")
    assert run_command(["no-such-scheduler"]).missing


def test_a_command_that_may_not_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "squeue").write_text("")
    reply = run_command([str(tmp_path / "squeue")])
    assert (reply.exit_code, reply.missing) == (NOT_RUN, False)
    assert reply.error == f"{tmp_path}/squeue: Permission denied"


def test_a_command_that_does_not_answer_is_ended_and_its_words_are_kept() -> None:
    text = "import sys, time; print('controller  is\\ndown', file=sys.stderr, flush=True); time.sleep(60)"
    reply = run_command([sys.executable, "-c", text], timeout=3.0)
    assert (reply.exit_code, reply.timed_out) == (TIMED_OUT, True)
    assert reply.error == f"{sys.executable} did not answer in 3 s, and was ended: controller is down"


def test_what_a_command_has_started_ends_with_it(tmp_path: Path) -> None:
    """A site's scontrol may be a script around the real one."""
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    assert run_command(["sh", "-c", script], timeout=3.0).error == "sh did not answer in 3 s, and was ended"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: process_state(pid) in ("", "Z"), "the command's child lives")


def test_a_program_that_ignores_sigterm_is_killed_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "END_TIME", 0.1)
    text = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    stream = HERE.open([sys.executable, "-c", text], {})
    assert stream.read(60.0)[0].startswith(b"up")
    stream.close(0.0)
    wait_until(lambda: stream.ended)


def test_a_program_that_accepts_no_input_holds_nobody_up() -> None:
    """As srun, which waits for its controller."""
    stream = HERE.open(["sleep", "600"], {})
    with pytest.raises(OSError, match="it accepted no input for 1 s"):
        stream.write(b"x" * (1 << 20), 1.0)
    ends: list[str] = []

    def write() -> None:
        try:
            stream.write(b"x" * (1 << 20), 600.0)
        except OSError as error:
            ends.append(str(error.strerror))

    writer = threading.Thread(target=write)
    writer.start()
    stream.close(0.0)
    writer.join(60.0)
    assert ends == ["its input is closed"]
    wait_until(lambda: stream.ended)


def test_all_of_a_long_input_arrives() -> None:
    stream = HERE.open(["sh", "-c", "sleep 0.3; wc -c"], {})
    stream.write(b"x" * (1 << 20))
    stream.close(60.0)
    assert stream.ended
