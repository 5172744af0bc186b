"""Attempts of a run on this machine: variables, logs, record, exit codes; and what a launch refuses."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, Command

from ddpkit.diagnosis.outcome import Action, Decision, Failure, Outcome
from ddpkit.execution.attempts import Attempts
from ddpkit.run.record import Rules

SCRIPT = Callable[[str], str]
HEAD = "import os, signal, sys\nrank, attempt = os.environ['RANK'], int(os.environ['DDPKIT_ATTEMPT'])\n"
SAYS = HEAD + "print('attempt', attempt, os.environ.get('DDPKIT_PREVIOUS'), os.environ['DDPKIT_RUN'], flush=True)\n"


def launched(ddpkit: DDPKIT, path: str, *words: str, **settings: str) -> tuple[Any, str]:
    env = {f"DDPKIT_{name.upper()}": value for name, value in settings.items()}
    done = ddpkit("launch", "-n", "1", "--grace", "1", "--json", *words, "--", path, env=env)
    run = json.loads(done.stdout)
    assert run["exit_code"] == done.returncode
    return run, done.stderr


def actions(run: Any) -> list[str | None]:
    return [each["decision"] and each["decision"]["action"] for each in run["attempts"]]


def test_a_code_of_the_script_requests_another_attempt(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    path = script(SAYS + "sys.exit({1: 75, 2: 42}.get(attempt, 0))")
    run, text = launched(ddpkit, path, "--retries", "3", retry_codes="75,42")
    assert run["state"] == "done"
    assert actions(run) == ["same", "same", None]
    assert [each["exit_code"] for each in run["attempts"]] == [75, 42, 0]
    name = run["run_id"]
    said = [(folder, f"attempt {number} {before} {name}\n") for folder, number, before in (
        ("attempt-1", 1, None), ("attempt-2", 2, "asked-again"), (".", 3, "code-42")
    )]  # fmt: skip
    for folder, line in said:
        assert Path(run["folder"], folder, "rank_0.log").read_text() == line
    assert ddpkit("logs", name, "--attempt", "2").stdout.count("attempt 2 asked-again") == 1
    wrong = ddpkit("logs", name, "--attempt", "4")
    assert (wrong.returncode, wrong.stderr) == (
        121,
        "ddpkit: error: --attempt 4: the run has 3 attempts\nhint: --attempt 3\n",
    )
    assert "attempt: 1 on " in ddpkit("status", name).stdout
    assert text.count("logs of attempt") == 2


def test_on_attempt_gets_the_record_before_each_further_attempt(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Not after the last one. What becomes of the command changes nothing."""
    path = script(HEAD + "sys.exit({1: 75, 2: 75}.get(attempt, 5))")
    told = "tee -a told.json; echo | tee -a told.json; exit 3"
    run, text = launched(ddpkit, path, "--retries", "3", on_attempt=told)
    assert run["exit_code"] == 5
    assert actions(run) == ["same", "same", "stop"]
    documents = [json.loads(line) for line in (tmp_path / "told.json").read_text().splitlines()]
    assert [actions(each) for each in documents] == [["same"], ["same", "same"]]
    assert all(each["schema"] == "ddpkit.run/1" and each["run_id"] == run["run_id"] for each in documents)
    assert all(each["ledger"]["goodput"] is None and each["state"] == "running" for each in documents)
    assert text.count("[on_attempt] {") == text.count("on_attempt: exit code 3 after ") == 2
    assert Path(run["folder"], "on_attempt.log").read_text() == (tmp_path / "told.json").read_text()


def test_a_signal_during_on_attempt_ends_the_run(start: Callable[..., Command], script: SCRIPT, tmp_path: Path) -> None:
    path = script(HEAD + "sys.exit(75)")
    env = {"DDPKIT_ON_ATTEMPT": "mkfifo began; cat began; sleep 3600"}
    command = start("launch", "-n", "1", "--retries", "1", "--", path, env=env)
    while not (tmp_path / "began").exists():
        time.sleep(0.02)
    (tmp_path / "began").write_text("began")  # the command reads it
    command.process.send_signal(signal.SIGTERM)
    assert command.end() == 143
    assert "on_attempt: ended by SIGTERM after " in command.text
    assert "attempt 2 on" not in command.text
    command.wait_for_no_survivor()


def test_restarts_are_counted_as_torchrun_counts_them(ddpkit: DDPKIT, script: SCRIPT) -> None:
    path = script("import os, sys\nprint('r', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True)\nsys.exit(75)")
    _, text = launched(ddpkit, path, "--retries", "1")
    assert "] r 0\n" in text
    assert "] r 1\n" in text
    assert "] r 0\n" in launched(ddpkit, path)[1]


def test_without_retries_nothing_changes(ddpkit: DDPKIT, script: SCRIPT) -> None:
    path = script("import os, sys; sys.exit(9 if 'DDPKIT_ATTEMPT' in os.environ else 75)")
    run, text = launched(ddpkit, path)
    assert run["exit_code"] == 75
    assert run["attempts"] == []
    assert "attempt" not in text


@pytest.mark.parametrize(
    ("text", "settings", "code", "reason"),
    [
        ("sys.exit(93)", {}, 93, "exit code 93 refuses another attempt (stop_codes)"),
        ("sys.exit(7)", {}, 7, "rank 0 exited with code 7"),
        ("sys.exit(7)", {"retry_codes": "7", "stop_codes": "7"}, 7, "exit code 7 refuses"),
        ("labels[9]", {}, 1, "it would fail again: "),
        ("sys.exit(75)", {}, 75, "exit code 75 requests another attempt; all retries are used"),
    ],
)
def test_the_last_reason(
    ddpkit: DDPKIT, script: SCRIPT, text: str, settings: dict[str, str], code: int, reason: str
) -> None:
    run, shown = launched(ddpkit, script(HEAD + text), "--retries", "1", **settings)
    assert run["exit_code"] == code
    last = run["attempts"][-1]["decision"]
    assert last["action"] == "stop"
    assert last["reason"].startswith(reason)
    assert shown.endswith(f"ddpkit: no other attempt follows: {last['reason']}\n")


def test_steps_of_the_metrics_are_progress(ddpkit: DDPKIT, script: SCRIPT) -> None:
    """The third attempt gets no further than the second."""
    path = script(
        HEAD + "print('{\"step\": %d}' % min(attempt, 2), file=open('metrics.jsonl', 'a'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    run, _ = launched(ddpkit, path, "--retries", "5")
    assert [each["progress"] for each in run["attempts"]] == [1, 2, 2]
    assert actions(run) == ["same", "same", "stop"]


ONE = ["-b", "ssh", "node1"]
TWO = [*ONE, "node2"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-b", "slurm", "--spares", "1"], "--spares 1 has no effect without --retries"),
        (["--spares", "1"], "backend local runs on this machine only, and does not support --spares"),
        (["--retries", "1", "--spares", "1"], "backend local runs on this machine only, and does not support --spares"),
        ([*ONE, "--retries", "1", "--spares", "1"], "--spares 1: 1 host given"),
        ([*TWO, "-N", "2", "--retries", "1", "--spares", "1"], "-N 2 and --spares 1: 2 hosts given"),
        ([*TWO, "-N", "1:2", "--retries", "1"], "--retries 1 requires one number of nodes, not -N 1:2"),
        (
            ["-b", "slurm", "--array", "0-1", "--retries", "1"],
            "backend slurm does not support --retries 1 for a job array",
        ),
        (["--retries", "x"], "--retries x is not an integer"),
        (["--env", "DDPKIT_ATTEMPT=2"], "--env DDPKIT_ATTEMPT: ddpkit sets this variable itself"),
    ],
)  # fmt: skip
def test_refusals(ddpkit: DDPKIT, script: SCRIPT, words: list[str], error: str) -> None:
    done = ddpkit("launch", *words, "--", script("pass"))
    assert done.returncode == 121
    assert done.stderr.startswith(f"ddpkit: error: {error}")
    assert len(done.stderr.splitlines()) <= 2


def test_a_program_sees_the_attempts(script: SCRIPT, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ddpkit

    monkeypatch.chdir(tmp_path)
    run = ddpkit.launch(script(SAYS + "sys.exit(75 * (attempt == 1))"), nproc_per_node=1, retries=1)
    assert run.wait(120).ok
    assert [(each.number, each.exit_code) for each in run.attempts] == [(1, 75), (2, 0)]
    assert [line.text.split()[:2] for line in run.logs(rank=0, attempt=1)] == [["attempt", "1"]]
    assert ddpkit.open_run(run.folder).attempts == run.attempts


def on_three_nodes(folder: Path, retries: int = 1) -> Attempts:
    """A run whose first attempt runs."""
    rules = Rules(
        retries=retries,
        retry_codes=(),
        stop_codes=(),
        progress="",
        metrics="",
        bad_nodes="",
        workdir=".",
        command=("x",),
    )
    attempts = Attempts(rules, ["node1", "node2", "node3"], folder, lambda _: {}, lambda: 1.0)
    attempts.begin(attempts.hosts)
    return attempts


def test_each_checked_node_has_a_line(tmp_path: Path) -> None:
    """Also one without a fault; a node that cannot be checked has none."""
    attempts, notes = on_three_nodes(tmp_path), list[str]()
    attempts.keep(Decision(action="check", hosts=attempts.hosts, reason="the cause is not known"))
    attempts.check_suspects(lambda _hosts, _folder: {"node1": "", "node2": "its disk is full"}, notes.append)
    assert notes == ["node1: passed the checks", "node2: put aside; reason: its disk is full"]
    assert attempts.hosts == ("node1", "node3")


# The hosts of the attempt, those that are slow; those that are put aside.
SLOW = {
    "a spare is left": (["node1", "node2"], ["node2"], ["node2"]),
    "no spare is left": (["node1", "node2", "node3"], ["node2"], []),
    "more are slow than there are spares": (["node1", "node2"], ["node1", "node2"], []),
    "it is not of this attempt": (["node1", "node2"], ["node3"], []),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_node_goes_with_the_next_attempt(name: str, tmp_path: Path) -> None:
    used, slow, aside = SLOW[name]
    attempts = on_three_nodes(tmp_path)
    attempts.records = ()
    attempts.begin(used)
    failure = Failure(
        host="node1", rank=0, what="rank", code=75, action=Action(action="retry", id="asked-again", reason="it asked")
    )
    outcome = Outcome(failure=failure, slow=dict.fromkeys(slow, "it is slow: rank 1"))
    attempts.end(outcome, None)
    decision = attempts.decide(outcome)
    assert decision.action == "same"
    assert set(attempts.replaced) == set(aside)
    assert ("node2: put aside, it is slow: rank 1" in decision.reason) == bool(aside)


KILLED = Failure(host="node2", rank=1, what="rank", signal=signal.SIGKILL)
# The failure, the retries, the faults that each check finds in turn, the checks that are made, the reason at the end.
EARLY = {
    "passed": (KILLED, 1, [""], 1, ""),
    "ranks that end still hold its memory": (KILLED, 1, ["memory", ""], 2, ""),
    "a fault that stays": (KILLED, 1, ["memory", "memory"], 2, "memory"),
    "another host is suspected": (replace(KILLED, host="node3"), 1, ["", "memory"], 2, "memory"),
    "an exit code": (replace(KILLED, signal=None, code=1), 1, ["memory"], 1, "memory"),
    "out of memory": (replace(KILLED, oom="dmesg"), 1, ["memory"], 1, "memory"),
    "no other attempt": (KILLED, 0, ["memory"], 1, "memory"),
}


@pytest.mark.parametrize("name", EARLY)
def test_the_host_of_a_killed_rank_is_checked_while_the_others_end(name: str, tmp_path: Path) -> None:
    failure, retries, faults, number, reason = EARLY[name]
    attempts, checks = on_three_nodes(tmp_path, retries), list[str]()

    def check(hosts: Sequence[str], _folder: Path) -> dict[str, str]:
        checks.extend(hosts)
        return {host: faults[len(checks) - 1] for host in hosts}

    attempts.begin_check(failure, check)
    attempts.keep(Decision(action="check", hosts=("node2",), reason="a rank was killed"))
    attempts.check_suspects(check, lambda _: None)
    assert (len(checks), attempts.replaced.get("node2", "")) == (number, reason)
