"""One way to run a scheduler's command: it ends, whatever the command does, and the reply says why."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from ddpkit import machine
from ddpkit.launchers.plan import Scheduled
from ddpkit.machine import HERE, NOT_RUN, TIMED_OUT, run_command
from ddpkit.run import job_status
from ddpkit.run.record import Run


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


JOB = Scheduled(
    state=(),
    pattern=r"(?P<state>[A-Z]+) (?P<code>\d+):(?P<signal>\d+) (?P<reason>\w*) (?P<nodes>\w*)",
    waiting=("PENDING",),
    running=("RUNNING",),
    success_states=("COMPLETED",),
    stopped=("CANCELLED",),
    forgotten_pattern="Invalid",
    stop=(),
    log="",
    many=True,
    torchrun=False,
)


def test_a_program_that_ignores_sigterm_is_killed_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "END_TIME", 0.1)
    text = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    stream = HERE.open([sys.executable, "-c", text], {})
    assert stream.read(60.0)[0].startswith(b"up")
    stream.close(0.0)
    until = time.monotonic() + 60.0
    while not stream.ended:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("text", "state", "words", "code"),
    [
        ("echo PENDING 0:0 Priority x", "queued", "job 7 waits in the queue: Priority", None),
        ("echo RUNNING 0:0 None node1", "running", "job 7 runs on node1", None),
        ("echo COMPLETED 0:0 None node1", "done", "", 0),
        ("echo FAILED 3:0 None node1", "failed", "job 7 ended as FAILED, exit code 3", 3),
        ("echo FAILED 0:9 None node1", "failed", "job 7 ended as FAILED", 137),
        ("echo CANCELLED 0:15 None node1", "stopped", "job 7 ended as CANCELLED", 143),
        ("echo Invalid job >&2", "over", "job 7 has ended, and the scheduler no longer knows its exit code", None),
        ("echo down >&2", "unknown", "job 7: no valid answer from the scheduler: down", None),
        ("true", "unknown", "job 7: no valid answer from the scheduler: unknown output", None),
        (
            "echo RUNNING 0:0 a b; echo DONE 0:0 a b",
            "running",
            "job 7, an array: 1 run, 0 wait, 1 have ended",
            None,
        ),
    ],
)
def test_the_status_of_a_job(text: str, state: str, words: str, code: int | None) -> None:
    run = Run.__new__(Run)
    object.__setattr__(run, "job_id", "7")
    job = Scheduled(**{**vars(JOB), "state": ("sh", "-c", text)})
    status = job_status.ask_scheduler(run, job)
    assert (status.state, status.words, status.exit_code) == (state, words, code)
    assert status.ended == (state not in ("queued", "running", "unknown"))
