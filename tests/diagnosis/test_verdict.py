"""The last word on a failed run: who failed first, and why, from what the ranks printed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit.diagnosis.outcome import Diagnosis, Failure
from ddpkit.diagnosis.verdict import describe_exit, describe_failure, diagnose
from ddpkit.errors import AGAIN, LaunchError

# rank: what it does. A rank without words waits to be ended.
PROGRAM = """
import os, signal, sys, time
rank = os.environ["RANK"]
{ranks}
time.sleep(120)
"""
PEER = "raise RuntimeError('[gloo/pair.cc:534] Connection closed by peer [10.0.0.2]:4711')"


def failed(ddpkit: DDPKIT, script: Callable[[str], str], **ranks: str) -> tuple[str, str]:
    """The verdict and the hint of a run whose ranks do this."""
    lines = "\n".join(f"if rank == {name[1:]!r}:\n    {text}" for name, text in ranks.items())
    done = ddpkit("launch", "-n", str(len(ranks)), "--grace", "1", "--json", "--", script(PROGRAM.format(ranks=lines)))
    assert done.returncode != 0
    hints = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    verdict = json.loads(done.stdout)["verdict"]
    assert f"ddpkit: {verdict}" in done.stderr
    return verdict, hints[-1] if hints else ""


def test_the_scripts_own_exception(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    verdict, hint = failed(ddpkit, script, r0="pass", r1="raise ValueError('bad batch 7')")
    assert "rank 1 on " in verdict
    assert "exit code 1: ValueError: bad batch 7 at " in verdict
    assert verdict.endswith("in <module>")
    assert hint.endswith("job.py, line 7")


def test_a_known_cause_and_its_fix(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    oom = "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')"
    verdict, hint = failed(ddpkit, script, r0="pass", r1=oom)
    assert "exit code 1: the GPU's memory is full" in verdict
    assert hint.startswith("hint: reduce the batch")


def test_the_cause_is_another_ranks(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    """Rank 1 prints why and hangs on; rank 0 only sees it gone and is the first to end."""
    first = "print('RuntimeError: CUDA error: device-side assert triggered', flush=True); open('said', 'w').close()"
    wait = "while not os.path.exists('said'): time.sleep(0.01)"
    verdict, hint = failed(ddpkit, script, r0=f"{wait}\n    time.sleep(0.5)\n    {PEER}", r1=first)
    assert verdict.startswith("rank 0 on ")
    assert ": rank 1 on " in verdict
    assert "an index is out of range on the GPU" in verdict
    assert "labels" in hint


def test_a_supervisor_that_refuses_has_the_cause_in_its_reason() -> None:
    reason = "cannot start all ranks: Resource temporarily unavailable"
    failure = Failure(host="n1", rank=None, what="ddpkit's process", code=LaunchError.exit_code, reason=reason)
    known = diagnose(failure, Path("/nowhere")).diagnosis
    assert known is not None
    assert known.id == "cannot-fork"


def test_killed_by_a_signal(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    """What was caught and printed before is not why the kernel killed it."""
    caught = "import traceback\n    try: 1 / 0\n    except ZeroDivisionError: traceback.print_exc()\n    "
    verdict, hint = failed(ddpkit, script, r0=caught + "os.kill(os.getpid(), signal.SIGKILL)")
    assert "killed by signal 9 (SIGKILL): the kernel's out-of-memory killer, a scheduler, or a user" in verdict
    assert "dmesg" in hint
    assert "dmesg" in failed(ddpkit, script, r0="os.kill(os.getpid(), signal.SIGKILL)")[1]  # without a line of output


@pytest.mark.parametrize(
    ("end", "words"), [("sys.exit(7)", "exit code 7"), (f"sys.exit({AGAIN})", "requests a restart")]
)
def test_what_is_not_known_is_not_guessed(end: str, words: str, ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    verdict, hint = failed(ddpkit, script, r0=f"print('frobnicator: error 17'); {end}")
    assert verdict.endswith(words) or words in verdict
    assert hint.startswith("hint: less ")


def test_the_catalogue_costs_a_good_run_nothing(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    """It is loaded when a run has failed, and not before."""
    code = (
        "import sys, ddpkit.cli.app, ddpkit.diagnosis.verdict; ddpkit.cli.app.whole_program(); "
        "sys.exit(any('catalogue' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_verdict_ends_with_the_command_that_explains_its_entry() -> None:
    failure = Failure(host="node1", rank=3, what="rank", code=1, log="logs/x/rank_3.log")
    known = Diagnosis(cause="a disk is full", fix="df -h", id="disk-full")
    assert describe_failure(failure, known)[-1] == "more: ddpkit explain disk-full"
    own = Diagnosis(cause="ValueError: bad batch 7", fix="look at train.py, line 7", id="")
    assert not any(line.startswith("more: ") for line in describe_failure(failure, own))


def test_the_words_for_a_signal_have_no_open_places() -> None:
    """The entry of SIGABRT has places for words of the log, and here is none."""
    words = [describe_exit(Failure(host="node1", rank=0, what="rank", signal=number)) for number in signal.Signals]
    assert any(text.startswith("killed by signal 6 (SIGABRT): a compiled library aborted. ") for text in words)
    assert [text for text in words if set(text) & set("{}[]")] == []


def test_an_option_of_ddpkit_that_the_script_got(ddpkit: DDPKIT, script: Callable[..., str]) -> None:
    name = script("import argparse\nargparse.ArgumentParser().parse_args()\n", "job.py")
    done = ddpkit("launch", "-n", "1", "--", name, "--dry-run")
    assert done.returncode == 2
    assert "\nhint: `--dry-run` is an option of ddpkit: put it before the script\n" in done.stderr
