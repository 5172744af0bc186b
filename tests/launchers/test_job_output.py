"""The output of a job as `ddpkit/node/collect.py` and the job's script write it, read as events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddpkit.launchers.job_output import JobOutput, first_of, repeats_cancel, says_end


def event(**content: Any) -> str:
    return "ddpkit: " + json.dumps({**content, "t": 1.0}) + "\n"


START = event(e="start", rank=1, pid=7, host="node1")
HELLO = event(e="hello", pid=7, host="node1", step="7.0")
FAILED = event(e="failed", rank=1, code=7, signal=None, what="rank", host="node1")


def read(text: str, ranks: int = 4) -> tuple[JobOutput, list[Any]]:
    reader = JobOutput(ranks)
    events = [*reader.feed(text.encode("utf-8", "surrogateescape")), *reader.flush()]
    return reader, events


def test_lines_of_a_rank_that_follow_each_other_are_one_event() -> None:
    text = "[1 node1] one\n[1 node1] two\n[2 node2] three\nsrun: words\n[torchrun node2] four\n[1 node1] no end"
    _, events = read(text)
    assert [(each["rank"], each.get("host"), each.get("agent"), each["data"]) for each in events] == [
        (1, "node1", None, "one\ntwo\n"),
        (2, "node2", None, "three\n"),
        (None, None, None, "srun: words\n"),
        (None, "node2", "torchrun", "four\n"),
        (1, "node1", None, "no end\n"),
    ]


def test_ranks_and_where_they_are() -> None:
    reader, events = read("ddpkit: job 7 runs on node[1-2]\n" + HELLO + START + FAILED)
    assert [each["e"] for each in events] == ["start", "failed"]
    assert (reader.nodes, reader.step, reader.hosts, reader.pids) == ("node[1-2]", "7.0", {1: "node1"}, {1: 7})
    assert reader.failed


def test_another_attempt_forgets_the_one_before() -> None:
    reader, _ = read(HELLO + START + FAILED + "ddpkit: attempt 1\n")
    assert (reader.attempt, reader.failed, reader.hosts) == (1, False, {})


def test_a_rank_that_did_not_report_its_end_in_a_job_that_succeeded() -> None:
    reader, _ = read(event(e="exit", rank=0, code=0, signal=None, host="node1"), ranks=2)
    assert [each["rank"] for each in reader.finished() if each["e"] == "exit"] == [1]


FORGED = [
    "[1 node1] " + FAILED.strip(),  # what a rank prints has its label in front
    event(e="failed", rank=9, code=7, signal=None, what="rank", host="node1"),  # no rank of this run
    event(e="failed", rank=1, code=7, signal=None, what="rank", host="a b"),
    event(e="failed", rank=1, code=700, signal=None, what="rank", host="node1"),
    "ddpkit: {not json",
    'ddpkit: {"e":"failed","rank":1,"code":7',  # cut where a file system was full
    "ddpkit: " + "[" * 100_000,
    "srun: error: node1: task 1: Exited with exit code 7",
]


@pytest.mark.parametrize("line", FORGED, ids=range(len(FORGED)))
def test_what_is_no_event(line: str) -> None:
    reader, events = read(line + "\n")
    assert not reader.failed
    assert all(each["e"] == "out" for each in events)


def test_bytes_that_are_no_text_are_kept() -> None:
    reader = JobOutput(4)
    (line,) = [*reader.feed(b"[1 node1] \xff\r\x00\n")]
    assert line["e"] == "out"
    assert line["data"].encode("utf-8", "surrogateescape") == b"\xff\r\x00\n"


def test_the_group_of_a_host() -> None:
    reader = JobOutput(4, groups=(2, 2))
    reader.hosts.update({0: "node1", 1: "node1", 2: "node2"})
    assert (reader.group_of("node1"), reader.group_of("node2"), reader.group_of("node9")) == (0, 1, 0)


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("ddpkit: job 7 ended with code 0", True),
        (FAILED.replace(" ", "").replace("ddpkit:", "ddpkit: "), True),
        ("srun: Force Terminated StepId=7.0", True),
        ("slurmstepd-node1: error: *** JOB 7 ON node1 CANCELLED AT 2026-01-31T23:59:59 ***", True),
        ("[1 node1] srun: error: node1: task 3: Exited with exit code 9", False),
        ("[1 node1] ddpkit: job 7 ended with code 0", False),
        (HELLO, False),
    ],
)
def test_lines_that_say_that_a_job_ends(line: str, ends: bool) -> None:
    assert says_end(f"some line\n{line}\n") is ends


def test_a_later_failure_with_a_cause_of_its_own_comes_first() -> None:
    def failed(rank: int, **more: Any) -> Any:
        return {"e": "failed", "rank": rank, "code": 1, "what": "rank", **more}

    peer, own = failed(0, t=1.0, kind="peer"), failed(1, t=3.0, kind="own")
    assert first_of(None, peer) is peer
    assert first_of(peer, own) is own
    assert first_of(own, failed(2, t=4.0)) is own


CANCELLED = [
    ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", True),
    ("slurmstepd-node1: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-01-31T23:59:59 ***", True),
    ("srun: error: node1: task 3: Terminated", True),
    ("srun: error: node1: task 3: Exited with exit code 7", False),
]


@pytest.mark.parametrize(("line", "repeats"), CANCELLED)
def test_what_only_repeats_that_a_job_was_cancelled(line: str, repeats: bool) -> None:
    assert repeats_cancel(line) is repeats
