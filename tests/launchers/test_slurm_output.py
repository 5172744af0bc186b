"""What `srun --label` prints, as events: whose failure was first, where exceptions end ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddpkit.launchers import slurm_output
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.node.first_failure import WINDOW

NOW = time.time()
STARTS = "".join(f"{rank}: ddpkit: rank {rank} on node{rank // 2 + 1} pid 1{rank} step 5.0\n" for rank in range(4))
# Lines of SLURM itself without its name: of 26.05, seen, and of a public log (CBSDLab/SD4DS).
NAMELESS = (
    "[2026-11-23T06:38:19.079] error: *** STEP 6.0 ON node1 CANCELLED AT 2026-11-23T06:38:19 DUE TO TASK FAILURE ***"
)
NAMELESS_OOM = (
    "[2025-11-02T19:04:29.985] error: Detected 1 oom_kill event in StepId=2957674.batch. "
    "Some of the step tasks have been OOM Killed."
)


PEER = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.2]:48330."


def raised(rank: int, exception: str = "ValueError: no such thing") -> str:
    lines = ["Traceback (most recent call last):", '  File "job.py", line 7, in <module>', "    step()", exception]
    return "".join(f"{rank}: {line}\n" for line in lines)


def code(rank: int, number: int = 1) -> str:
    return f"srun: error: node{rank // 2 + 1}: task {rank}: Exited with exit code {number}\n"


def read(text: str, *, torchrun: bool = False) -> tuple[SrunReader, list[Any]]:
    """All events; in pieces, as a file that grows is read."""
    reader = SrunReader(4, torchrun=torchrun)
    data = text.encode()

    def pieces() -> Iterator[Any]:
        for at in range(0, len(data), 37):
            yield from reader.feed(1, data[at : at + 37])

    return reader, list(pieces())


# What happens: who failed first, with which code or exception.
FIRST: dict[str, tuple[str, tuple[int, int | None, str]]] = {
    "one alone": (code(3, 7), (3, 7, "")),
    "it raised": (raised(3) + code(3), (3, 1, "")),
    "it raised, and ended in another way": (raised(3) + code(3, 9), (3, 9, "")),
    "another one follows": (raised(3) + code(3) + raised(0, PEER) + code(0), (3, 1, "")),
    "what follows ends sooner": (raised(3) + raised(0, PEER) + code(0) + code(3), (3, 1, "")),
    "what follows ends sooner, srun ends the first": (raised(3) + raised(0, PEER) + code(0), (3, None, "ValueError")),
    "what follows ends sooner, and the first one says nothing": (raised(0, PEER) + code(0) + code(3, 7), (3, 7, "")),
    "another one died of something else": (raised(0, PEER) + code(0) + code(3, 7), (3, 7, "")),
    "nobody has a cause": (raised(0, PEER) + code(0), (0, 1, "")),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
def test_which_failure_was_first(name: str) -> None:
    text, (rank, number, exception) = FIRST[name]
    ended = {int(line.split()[4][:-1]) for line in text.splitlines() if line.startswith("srun")}
    kills = "".join(
        f"srun: error: node{each // 2 + 1}: task {each}: Terminated\n" for each in range(4) if each not in ended
    )
    _, events = read(STARTS + text + kills)
    failed = [event for event in events if event["e"] == "failed"][-1]
    assert (failed["rank"], failed.get("raised", "")) == (rank, exception)
    assert exception or failed["code"] == number
    assert failed["host"] == f"node{rank // 2 + 1}"


def test_what_has_no_cause_of_its_own_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, events = read(STARTS + raised(0, PEER) + code(0))
    assert not reader.failed
    assert reader.waits
    assert not [event for event in events if event["e"] == "failed"]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + WINDOW)
    assert [event["rank"] for event in reader.overdue() if event["e"] == "failed"] == [0]
    assert not reader.waits


def test_the_end_of_the_output_decides() -> None:
    reader, _ = read(STARTS + raised(0, PEER) + code(0))
    assert [event["rank"] for event in reader.flush() if event["e"] == "failed"] == [0]


def test_what_was_first_and_is_heard_last() -> None:
    """It printed its exception first, and its process took longer to end: then it is said again, with its time."""
    _, events = read(STARTS + raised(3) + code(0) + code(3))
    failed = [event for event in events if event["e"] == "failed"]
    assert [event["rank"] for event in failed] == [0, 3]
    assert failed[1]["since"] < failed[0]["since"]


def test_an_attempt_before_is_forgotten() -> None:
    _, events = read(STARTS + raised(3) + code(3) + "ddpkit: attempt 1\n" + STARTS + code(1, 7))
    assert [event["rank"] for event in events if event["e"] == "failed"] == [3, 1]


def test_under_torchrun() -> None:
    """It ends the others by SIGTERM: one of them was about to end by an exception."""
    starts = STARTS.replace("2: ", "1: ").replace("3: ", "1: ")
    said = raised(3).replace("3: ", "1: [rank 3] ") + raised(0, PEER).replace("0: ", "0: [rank 0] ")
    ends = "0: ddpkit: rank 0 ended: code 1 signal None\n1: ddpkit: rank 3 ended: code None signal 15\n"
    ends += "srun: error: node1: task 0: Exited with exit code 1\n"
    _, events = read(starts + said + ends, torchrun=True)
    (failed,) = [event for event in events if event["e"] == "failed"]
    assert (failed["rank"], failed["host"], failed["raised"]) == (3, "node2", "ValueError")


def test_an_end_between_the_pieces_of_a_long_line() -> None:
    """The line of a rank's end was joined to the text, and the verdict was torchrun's exit code 1."""
    text = "1: [rank 3 1+] one \n1: ddpkit: rank 3 ended: code 7 signal None\n1: [rank 3 2+] error \n"
    text += "1: [rank 2 1+] other \n1: [rank 3 1] ddpkit: rank 2 ended: code 9 signal None\n1: [rank 3 2] end\n"
    text += "1: [rank 2 1] end\nsrun: error: node2: task 1: Exited with exit code 1\n"
    _, events = read(STARTS.replace("2: ", "1: ").replace("3: ", "1: ") + text, torchrun=True)
    assert [(each["rank"], each["code"]) for each in events if each["e"] == "exit"] == [(3, 7)]
    assert [(each["rank"], each["code"]) for each in events if each["e"] == "failed"] == [(3, 7)]
    assert [(each["rank"], each["data"]) for each in events if each["e"] == "out"][:-1] == [
        (3, "one ddpkit: rank 2 ended: code 9 signal None\n"),
        (3, "error end\n"),
        (2, "other end\n"),
    ]


def test_a_killed_tap_is_the_first_failure() -> None:
    """And not a rank that torchrun then ended. After SIGKILL to the rank alone, the line of its tap comes first."""
    lost, killed = "1: ddpkit: rank 3 on node2 lost its helper\n", "1: ddpkit: rank 3 ended: code None signal 9\n"
    then = "1: ddpkit: rank 2 ended: code None signal 15\n"
    starts = STARTS.replace("2: ", "1: ").replace("3: ", "1: ")
    for text, reason in ((lost + then, "its helper process was killed"), (killed + lost + then, None)):
        _, events = read(starts + text, torchrun=True)
        (failed,) = (event for event in events if event["e"] == "failed")
        assert (failed["rank"], failed["signal"], failed.get("reason")) == (3, 9, reason)
        assert [event["rank"] for event in events if event["e"] == "exit"] == [3, 2]
    _, events = read(lost, torchrun=True)  # before its rank started: "rank 3 on ?"
    assert [event["host"] for event in events if event["e"] == "failed"] == ["node2"]
    _, events = read(starts + lost.replace("1: ", "1: [rank 2] "), torchrun=True)  # a script printed it
    assert not [event for event in events if event["e"] == "failed"]


def test_a_line_without_an_end_is_passed_on_in_parts() -> None:
    """Joined as a whole, each of its pieces took longer than the one before: minutes for ten megabytes."""
    reader = SrunReader(1, torchrun=False)
    list(reader.feed(2, b"0: ddpkit: rank 0 on node1 pid 1 step 1.0\n"))
    piece = b"0: " + b"x" * slurm_output.PIECE + b"\n"
    parts = list(reader.feed(1, piece * (2 * slurm_output.MOST_PIECES + 1) + b"0: end\n"))
    sizes = [len(each["data"]) for each in parts if each["e"] == "out"]
    part = slurm_output.PIECE * slurm_output.MOST_PIECES + 1
    assert sizes == [part, part, slurm_output.PIECE + len("end\n")]


@pytest.mark.live
def test_a_tap_holds_no_more_than_a_part_of_a_line() -> None:
    tap = Path(slurm_output.__file__).parents[1] / "node/rank_wrapper.py"
    script = "import os, sys; os.write(1, b'x' * (3 << 20)); sys.stdin.read()"
    known = {**os.environ, "LOCAL_RANK": "0", "RANK": "0", "SLURM_STEP_ID": "0"}
    argv = [sys.executable, "-S", "-I", str(tap), sys.executable, "-c", script]
    with subprocess.Popen(argv, env=known, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"[rank 0 1+] xxx")  # the line has no end yet
        process.stdin.close()
        rest = process.stdout.read()
    assert process.returncode == 0
    assert rest.count(b"x") == (3 << 20) - 1000


@pytest.mark.live
def test_a_tap_splits_a_long_line() -> None:
    """No line is longer than what srun passes on whole. The texts are the same after they are joined."""
    printed = ["x" * 1000, "y" * 1001, "\u00e9" * 2500, "", "z" * 9000]
    tap = Path(slurm_output.__file__).parents[1] / "node/rank_wrapper.py"
    script = f"import sys; print(*{printed!r}, sep='\\n'); sys.stderr.write('e' * 5000)"
    known = {**os.environ, "LOCAL_RANK": "1", "RANK": "3", "SLURM_STEP_ID": "0", "PYTHONIOENCODING": "utf-8"}
    argv = [sys.executable, "-S", "-I", str(tap), sys.executable, "-c", script]
    done = subprocess.run(argv, env=known, capture_output=True, check=True)
    lines = [line for output in (done.stdout, done.stderr) for line in output.splitlines(keepends=True)]
    assert max(map(len, lines)) < slurm_output.PIECE
    reader = SrunReader(4, torchrun=True)
    events = [event for line in lines for event in reader.feed(1, b"1: " + line)]
    shown = [each["data"] for each in events if each["e"] == "out"]
    assert shown == [f"{text}\n" for text in [*printed, "e" * 5000]]


def test_what_srun_ends_because_of_a_failure_ends_later() -> None:
    """Also where the failure itself is looked at late: its time is that of the news, as the others' is."""
    reader = SrunReader(2, torchrun=False)
    for rank in range(2):
        list(reader.feed(2, f"{rank}: ddpkit: rank {rank} on node{rank} pid 1 step 1.0\n".encode()))
    news = b"srun: error: node1: task 1: Exited with exit code 7\nsrun: error: node0: task 0: Terminated\n"
    events = list(reader.feed(2, news))
    failed = next(event for event in events if event["e"] == "failed")
    ended = [event for event in events if event["e"] == "exit"]
    assert (failed["rank"], failed["code"]) == (1, 7)
    assert [event["rank"] for event in ended] == [1, 0]
    assert failed["t"] <= ended[1]["t"]


def test_a_container_runtime_does_not_speak_as_a_rank() -> None:
    """What enroot prints while it unpacks an image was shown as rank 3's own output."""
    text = STARTS + "".join(f"{rank}: ddpkit: rank {rank} enters enroot\n" for rank in range(4))
    text += "3: [INFO] Extracting squashfs filesystem...\n3: ddpkit: rank 3 begins\n3: loading\n0: [WARN] a mount\n"
    text += "3: slurmstepd: error: *** STEP 5.0 CANCELLED ***\n3: slurmstepd-node2: error: once more\n"
    text += "2: pyxis: importing docker image\n1: ddpkit: rank 2 begins\n"
    text += "".join(f"3: {line}\n" for line in (NAMELESS, NAMELESS_OOM, "[2026-11-23T06:38:19.079] error: of a script"))
    _, events = read(text)
    shown = [
        (each["rank"], each.get("agent"), each["host"], each["data"].strip()) for each in events if each["e"] == "out"
    ]
    assert shown == [
        (None, "enroot", "node2", "[INFO] Extracting squashfs filesystem..."),
        (3, None, "node2", "loading"),
        (None, "enroot", "node1", "[WARN] a mount"),
        (None, "slurmstepd", "node2", "slurmstepd: error: *** STEP 5.0 CANCELLED ***"),
        (None, "slurmstepd", "node2", "slurmstepd-node2: error: once more"),
        (None, "pyxis", "node2", "pyxis: importing docker image"),
        (None, "enroot", "node1", "ddpkit: rank 2 begins"),  # of another rank: no mark
        (None, "slurmstepd", "node2", NAMELESS),
        (None, "slurmstepd", "node2", NAMELESS_OOM),
        (3, None, "node2", "[2026-11-23T06:38:19.079] error: of a script"),
    ]


def test_each_output_of_a_rank_begins_by_itself() -> None:
    """Standard output and error are read apart: a line of one is never judged by the mark of the other."""
    reader = SrunReader(1, torchrun=False)
    head = b"0: ddpkit: rank 0 on node1 pid 7 step 5.0\n0: ddpkit: rank 0 enters enroot\n"
    assert [event["e"] for event in reader.feed(2, head)] == ["start"]
    (first,) = reader.feed(1, b"0: ddpkit: rank 0 begins\n0: step 1\n")
    (late,) = reader.feed(2, b"0: [INFO] unpacking\n")
    assert first["e"] == late["e"] == "out"
    assert (first["rank"], late["rank"], late.get("agent")) == (0, None, "enroot")


# What a script prints in another's name: nothing but output may come of it.
FORGED = [
    "ddpkit: rank 3 on node9 pid 1 step 7.0",
    "ddpkit: rank 1 on node9 pid 1 step 7.0",  # its own, a second time
    "ddpkit: rank 3 ended: code 7 signal None",
    "ddpkit: rank 1 ended: code x signal y",
    "ddpkit: rank 3 raised ValueError at 1.0",
    "ddpkit: rank 1 raised ValueError at 1.2.3",
    "ddpkit: rank 99999999999999999999 ended: code 7 signal None",
    "srun: error: node2: task 3: Exited with exit code 7",
    "ddpkit: attempt 3",
]


@pytest.mark.parametrize("line", FORGED)
@pytest.mark.parametrize("torchrun", [False, True], ids=["srun", "torchrun"])
def test_a_script_forges_nothing(line: str, torchrun: bool) -> None:
    reader, _ = read(STARTS, torchrun=torchrun)
    known = dict(reader.hosts), dict(reader.pids), reader.step
    printed = f"0: [rank 1] {line}\n" if torchrun else f"1: {line}\n"
    events = [*reader.feed(2, printed.encode())]
    assert [event["e"] for event in events] in (["out"], []), events
    assert (reader.hosts, reader.pids, reader.step) == known
    assert not reader.failed
    assert reader.attempt == 0


def test_a_lost_node_is_the_failure_and_not_the_kill_that_follows() -> None:
    """Slurm 22.05, seen in an allocation with --no-kill."""
    text = b"srun: error: Node failure on node2\nsrun: error: node1: task 0: Killed\n"
    for lost, first in ((True, (None, "node2", "slurmd")), (False, (0, "node1", "rank"))):
        reader = SrunReader(2, torchrun=False, lost=lost)
        failed = [event for event in reader.feed(2, text) if event["e"] == "failed"]
        assert [(each["rank"], each["host"], each["what"]) for each in failed] == [first]


START_3 = (2, "3: ddpkit: rank 3 on node2 pid 13 step 5.0\n")
# Pieces of srun's two outputs -> the events of ranks: kind, rank, host, text.
EARLY: dict[str, tuple[list[tuple[int, str]], list[tuple[str, int | None, str | None, str]]]] = {
    "a line before the one with its host": (
        [(1, "3: one\n3: two\n"), START_3, (1, "3: three\n")],
        [
            ("start", 3, "node2", ""),
            ("out", 3, "node2", "one\n"),
            ("out", 3, "node2", "two\n"),
            ("out", 3, "node2", "three\n"),
        ],
    ),
    "a known rank does not wait for another": (
        [(1, "2: other\n"), START_3, (1, "3: one\n")],
        [("start", 3, "node2", ""), ("out", 3, "node2", "one\n"), ("out", 2, None, "other\n")],
    ),
    "it fails first": (
        [(1, "3: one\n"), (2, "srun: error: node2: task 3: Exited with exit code 7\n")],
        [
            ("out", None, None, "srun: error: node2: task 3: Exited with exit code 7\n"),
            ("out", 3, "node2", "one\n"),
            ("exit", 3, "node2", ""),
            ("failed", 3, "node2", ""),
        ],
    ),
    "the job is started again": (
        [(1, "3: one\nddpkit: attempt 1\n3: two\n"), START_3],
        [("out", 3, None, "one\n"), ("start", 3, "node2", ""), ("out", 3, "node2", "two\n")],
    ),
    "too many": (
        [(1, "3: x\n" * slurm_output.MOST_WAITING), START_3],
        [*[("out", 3, None, "x\n")] * slurm_output.MOST_WAITING, ("start", 3, "node2", "")],
    ),
}


@pytest.mark.parametrize("name", EARLY)
def test_lines_of_a_rank_whose_host_is_read_later(name: str) -> None:
    """srun's outputs are read apart, and `[2 slurm] hi` has the name of no host."""
    pieces, expected = EARLY[name]
    reader = SrunReader(4, torchrun=False)
    events: list[Any] = [event for number, text in pieces for event in reader.feed(number, text.encode())]
    events += reader.flush()
    assert [(each["e"], each["rank"], each.get("host"), each.get("data", "")) for each in events] == expected
    assert not reader.waits


def test_lines_of_a_rank_whose_host_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait once, and for a short time."""
    reader = SrunReader(4, torchrun=False)
    assert not [*reader.feed(1, b"3: one\n"), *reader.overdue()]
    monkeypatch.setattr(slurm_output, "WAIT", 0.0)
    shown: list[Any] = [*reader.overdue(), *reader.feed(1, b"3: two\n")]
    assert [each["data"] for each in shown] == ["one\n", "two\n"]


def test_tasks_of_a_heterogeneous_job_are_counted_in_their_group() -> None:
    """srun's labels count all tasks, and its errors those of a group."""
    reader = SrunReader(4, torchrun=False, groups=(2, 2))
    lines = [f"{rank}: ddpkit: rank {rank} on node{rank} pid 5 step 4.0\n" for rank in range(4)]
    failing = "srun: error: node3: task 1: Exited with exit code 7\nsrun: error: node0: task 0: Terminated\n"
    events: list[Any] = list(reader.feed(1, ("".join(lines) + failing).encode()))
    (failed,) = (event for event in events if event["e"] == "failed")
    assert (failed["rank"], failed["host"], failed["code"]) == (3, "node3", 7)
    assert [event["rank"] for event in events if event["e"] == "exit"] == [3, 0]
    assert [reader.group_of(f"node{number}") for number in range(4)] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n", False),
        ("srun: got SIGCONT\n", False),
        ("slurmstepd-node1: error: *** STEP 4.0 ON node1 CANCELLED AT 2026-11-23T20:25:43 ***\n", False),
        ("srun: error: node2: tasks 2-3: Terminated\n", False),
        ("srun: launch/slurm: _step_signal: Terminating StepId=4.0\n", False),
        ("slurmstepd: error: *** JOB 4 ON node1 CANCELLED AT 2026-11-23T20:25:43 DUE TO TIME LIMIT ***\n", True),
        ("srun: error: node2: task 3: Out Of Memory\n", True),
        ("srun: error: Node failure on node2\n", True),
    ],
)
def test_what_a_cancelled_job_prints_again(line: str, *, shown: bool) -> None:
    assert slurm_output.repeats_cancel(line) is not shown
