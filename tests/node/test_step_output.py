"""What a step's tasks and srun itself print, read as lines and events of the job."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from ddpkit.node.step_output import FRAME, OBSERVE, StepReader, frames

SPEC: dict[str, Any] = {
    **{"ranks": [2, 2], "by_node": False, "groups": [], "agent": "srun", "lost": True, "runtime": ""},
    "silence": 30.0,
}
NODES: dict[str, Any] = {**SPEC, "by_node": True, "agent": "torchrun"}


def sent(task: int, **event: Any) -> bytes:
    """The lines of a task's event, with the labels of srun."""
    lines = frames(json.dumps({"t": 50.0, **event}).encode()).splitlines()
    return b"".join(b"%d: %b\n" % (task, line) for line in lines)


def hello(task: int, host: str) -> bytes:
    return sent(task, e="hello", pid=7, host=host, step="7.0")


def ended(rank: int, code: int | None, killer: int | None = None, task: int | None = None, **more: Any) -> bytes:
    return sent(rank if task is None else task, e="exit", rank=rank, code=code, signal=killer, **more)


FOUR = hello(0, "node1") + hello(1, "node1") + hello(2, "node2") + hello(3, "node2")
BOTH = hello(0, "node1") + hello(1, "node2")


def read(*parts: bytes | tuple[int, bytes], spec: dict[str, Any] = SPEC, code: int = 0) -> list[str]:
    """Return lines and ends, in a short form; last, the exit code. A part without a number is of standard output."""
    reader, found = StepReader(spec), []
    contents = [
        each
        for part in parts
        for each in (reader.feed(*part, 100.0) if isinstance(part, tuple) else reader.feed(1, part, 100.0))
    ]
    for label, each in (*contents, *reader.finish(code, 101.0)):
        if isinstance(each, str):
            found += [f"[{label}] {line}" if label else line for line in each.split("\n")]
        elif label != OBSERVE and each["e"] in ("exit", "failed"):
            who = each.get("what", "") if each["rank"] is None else each["rank"]
            found.append(f"{each['e']} {who} on {each['host']}: {each['code']} {each['signal']}")
    return [*found, f"code {reader.exit_code}"]


def error(text: str) -> tuple[int, bytes]:
    return 2, f"srun: error: {text}\n".encode()


def test_a_line_has_its_rank_and_host() -> None:
    text = sent(2, e="out", rank=2, fd=1, data="one\ntw") + sent(2, e="out", rank=2, fd=2, data="err\n")
    text += sent(2, e="out", rank=2, fd=1, data="o\nlast") + ended(2, 0)
    assert read(FOUR, text) == [
        "[2 node2] one",
        "[2 node2] err",
        "[2 node2] two",
        "[2 node2] last",
        "exit 2 on node2: 0 None",
        "code 0",
    ]


def test_a_long_event_is_joined_whatever_comes_between() -> None:
    data = "x" * 5 * FRAME + "ü\n"
    long = sent(1, e="out", rank=1, fd=1, data=data).splitlines(keepends=True)
    assert max(map(len, long)) <= FRAME + 5
    other = sent(0, e="out", rank=0, fd=1, data="between\n")
    assert read(FOUR, b"".join([*long[:2], other, *long[2:]]))[:2] == ["[0 node1] between", f"[1 node1] {data[:-1]}"]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_bytes_come_in_any_pieces(cut: int) -> None:
    text = FOUR + sent(0, e="out", rank=0, fd=1, data="one\n") + ended(3, 7)
    parts = [text[start : start + cut] for start in range(0, len(text), cut)]
    assert read(*parts) == read(text)


def test_a_task_speaks_for_its_own_ranks() -> None:
    text = sent(0, e="out", rank=3, fd=1, data="of another\n") + ended(3, 9, task=0) + sent(0, e="no such event")
    shown = ["[slurmstepd node1] =not json", "[slurmstepd node1] =[1]", "9: =x", "code 0"]
    assert read(FOUR, text, b"0: =not json\n0: =[1]\n0: ={}\n9: =x\n") == shown


def test_the_first_of_the_ends_is_the_failure() -> None:
    text = ended(3, 7) + ended(0, None, signal.SIGTERM) + ended(1, None, signal.SIGTERM)
    assert read(FOUR, text, error("node2: task 3: Exited with exit code 7"), code=143) == [
        "exit 3 on node2: 7 None",
        "failed 3 on node2: 7 None",
        "exit 0 on node1: None 15",
        "exit 1 on node1: None 15",
        "srun: error: node2: task 3: Exited with exit code 7",
        "code 7",
    ]


def test_a_lost_peer_waits_for_the_cause() -> None:
    text = ended(0, 1, kind="peer", since=49.0) + ended(3, None, signal.SIGKILL)
    assert read(FOUR, text)[-2:] == ["failed 3 on node2: None 9", "code 137"]
    reader = StepReader(SPEC)
    assert not [each for _, each in reader.feed(1, FOUR + ended(0, 1, kind="peer"), 100.0) if "failed" in str(each)]
    assert reader.due == 105.0
    assert [each["rank"] for _, each in reader.overdue(106.0)] == [0]


def test_an_end_whose_news_is_late_was_first() -> None:
    """Rank 0 was killed, and rank 2 on another node noticed it: on a busy node rank 0's supervisor is slower."""
    reader = StepReader(SPEC)
    list(reader.feed(1, FOUR, 100.0))
    noticed = list(reader.feed(1, ended(2, 1, t=50.2), 100.21))
    killed = list(reader.feed(1, ended(0, None, signal.SIGKILL, t=50.1), 100.6))
    assert [(each["e"], each["rank"], each["t"]) for _, each in noticed] == [("exit", 2, 100.2), ("failed", 2, 100.2)]
    assert [(each["e"], each["rank"], each["t"]) for _, each in killed] == [("exit", 0, 100.1), ("failed", 0, 100.1)]
    assert reader.exit_code == 137


def test_a_clock_that_was_set_back_is_not_believed() -> None:
    reader = StepReader(SPEC)
    list(reader.feed(1, FOUR, 100.0))
    assert [each["t"] for _, each in reader.feed(1, ended(2, 1, t=20.0), 107.0)] == [107.0, 107.0]


def test_an_exception_counts_from_when_it_was_printed_by_any_clock() -> None:
    reader = StepReader(SPEC)
    late = ended(0, 1, since=30.0)  # 20 s before its end, on a node whose clock is another one
    events = [each for _, each in reader.feed(1, FOUR + late, 100.0) if each["e"] == "failed"]
    assert [each["since"] for each in events] == [80.0]


ENDS = {
    "Exited with exit code 3": "3 None",
    "Killed": "None 9",
    "Segmentation fault (core dumped)": "None 11",
    "Out Of Memory": "None 9",
}


@pytest.mark.parametrize("how", ENDS)
def test_a_task_that_did_not_report_its_end(how: str) -> None:
    """Its supervisor was killed with it: what srun says counts."""
    assert read(FOUR, error(f"node2: task 3: {how}"))[1:3] == [
        f"exit 3 on node2: {ENDS[how]}",
        f"failed 3 on node2: {ENDS[how]}",
    ]
    assert read(BOTH, error(f"node2: task 1: {how}"), spec=NODES)[1] == f"failed torchrun on node2: {ENDS[how]}"


def test_what_srun_says_comes_before_the_events_of_the_task() -> None:
    said = error("node2: task 3: Exited with exit code 1")
    lines = read(FOUR, said, ended(3, 7))
    assert lines == [said[1].decode()[:-1], "exit 3 on node2: 7 None", "failed 3 on node2: 7 None", "code 7"]


def test_tasks_of_a_later_group_are_counted_from_its_first() -> None:
    spec = {**SPEC, "groups": [2, 2]}
    assert read(FOUR, error("node2: task 1: Exited with exit code 3"), spec=spec)[1] == "exit 3 on node2: 3 None"


def test_a_task_of_a_group_that_did_not_greet_blames_no_other_rank() -> None:
    spec = {**SPEC, "groups": [2, 2]}
    greeted = hello(0, "node1") + hello(1, "node1")
    assert read(greeted, error("node2: task 0: Exited with exit code 127"), spec=spec)[1:] == [
        "failed srun on node2: 127 None",
        "code 127",
    ]


def test_a_lost_node_is_a_failure_where_the_job_does_not_begin_again() -> None:
    said = error("Node failure on node2")
    assert read(FOUR, said)[1:] == ["failed slurmd on node2: None None", "code 128"]
    assert read(FOUR, said, spec={**SPEC, "lost": False})[1:] == ["code 0"]


def test_torchrun_that_fails_by_itself() -> None:
    failed = sent(1, e="failed", rank=None, what="torchrun", code=1, signal=None)
    line = sent(1, e="out", rank=None, fd=2, data="Address already in use\n")
    assert read(BOTH, line, failed, error("node2: task 1: Exited with exit code 1"), spec=NODES) == [
        "[torchrun node2] Address already in use",
        "failed torchrun on node2: 1 None",
        "srun: error: node2: task 1: Exited with exit code 1",
        "code 1",
    ]


def test_what_is_not_a_supervisors() -> None:
    """A plug-in speaks in the name of a task; where no supervisor could start, the rank itself is the task."""
    text = b"0: slurmstepd: error: Detected 1 oom_kill event\n0: words\n3: pyxis: imported docker image\n"
    assert read(hello(0, "node1"), text, b"3: of the rank\n") == [
        "[slurmstepd node1] slurmstepd: error: Detected 1 oom_kill event",
        "[slurmstepd node1] words",
        "[pyxis ?] pyxis: imported docker image",
        "[3 ?] of the rank",
        "code 0",
    ]
    # Of a shell that traces itself, and of a program's title: no frames.
    assert read(b"0: + exec python\n", hello(0, "node1"), b"0: == PyTorch ==\n")[:2] == [
        "[0 ?] + exec python",
        "[slurmstepd node1] == PyTorch ==",
    ]
    image = {**SPEC, "runtime": "enroot"}
    assert read(b"0: [INFO] Extracting\n", spec=image)[0] == "[enroot ?] [INFO] Extracting"
    where = b'0: ={"e":"at","host":"node1"}\n'
    assert read(where, b"0: [INFO] Extracting\n", spec=image) == ["[enroot node1] [INFO] Extracting", "code 0"]


def test_nothing_was_started() -> None:
    refused = sent(0, e="refused", message="cannot start any rank: No space left on device")
    assert read(FOUR, refused, code=123) == ["code 123"]


def test_the_exit_code_of_srun_counts_where_no_rank_failed() -> None:
    assert read(FOUR, code=1) == ["code 1"]


def test_what_ranks_report_of_themselves_has_their_time() -> None:
    reader = StepReader(SPEC)
    mark = sent(1, e="mark", rank=1, name="import", t=3.0) + sent(1, e="beat", ranks={})
    assert [(label, each["t"]) for label, each in reader.feed(1, FOUR + mark, 100.0) if label] == [(OBSERVE, 3.0)]


def test_a_node_whose_task_is_silent_is_checked() -> None:
    """Of each node the task that sends beats counts, from its first one to its end."""
    reader = StepReader(SPEC)

    def feed(data: bytes, now: float) -> None:
        list(reader.feed(1, data, now))

    feed(FOUR, 0.0)
    assert reader.due == float("inf")
    feed(sent(0, e="beat") + sent(2, e="beat"), 5.0)
    feed(sent(0, e="out", rank=0, fd=1, data="also a sign"), 20.0)
    assert reader.due == 35.0
    assert reader.silence.take(34.9) == []
    assert (reader.silence.take(35.0), reader.due) == (["node2"], 50.0)
    assert reader.silence.take(36.0) == [], "it is checked already"
    assert list(reader.on_check("node2", "", 40.0)) == []  # a busy node
    feed(sent(0, e="end"), 45.0)
    assert reader.due == 100.0  # each time later
    assert reader.silence.take(100.0) == ["node2"]
    feed(sent(2, e="beat"), 101.0)  # before the check has ended
    assert list(reader.on_check("node2", "slurmd does not run there", 102.0)) == []
    assert reader.silence.take(131.0) == ["node2"]
    ((_, failed),) = reader.on_check("node2", "the host or the network is down", 140.0)
    assert failed == {
        **{"e": "failed", "rank": None, "host": "node2", "what": "slurmd", "code": None, "signal": None, "t": 140.0},
        "reason": "no heartbeat for 30 s: the host or the network is down",
    }
    assert reader.due == float("inf")
    assert reader.step == "7.0"
