"""From what ranks answered to the rank that the others wait for, in words. Pure: no process, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ddpkit.monitor import dump, hang, rank_state
from ddpkit.monitor.hang import FindingKind
from ddpkit.monitor.rank_state import GroupKey, Rank
from ddpkit.monitor.watchdog import Watch
from ddpkit.node.calls.stack_dump import reduce_facts

NOW = 1_800_000_000.0
TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed/"
WORKDIR = "/data/project"


def entry(seq: int, op: str, *, done: bool, age: float, group: str = "0", **more: Any) -> dict[str, Any]:
    """An entry of the Flight Recorder as torch 2.13 writes it for gloo (recorded on CPU)."""
    return {
        "record_id": seq - 1,
        "pg_id": int(group),
        "process_group": [group, "default_pg" if group == "0" else "undefined"],
        "thread_name": "python",
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"gloo:{op}",
        "time_created_ns": int((NOW - age) * 1e9),
        "input_sizes": [[3]],
        "input_dtypes": ["Float"],
        "state": "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": done,
        "timeout_ms": 1800000,
        "is_p2p": False,
        **more,
    }


def stack(*calls: str, line: int, name: str, file: str = "train.py") -> list[dict[str, Any]]:
    """A main thread in `name`, which called torch's `calls`, the innermost first."""
    inner = [[f"{TORCH}distributed_c10d.py", 3252, call] for call in calls]
    wrapped = [*inner, [f"{TORCH}c10d_logger.py", 83, "wrapper"]] if calls else []
    frames = [*wrapped, [f"{WORKDIR}/{file}", line, name], [f"{WORKDIR}/train.py", 90, "<module>"]]
    worker = {"name": "loader", "main": False, "frames": [["/usr/lib/python3.11/threading.py", 327, "wait"]]}
    return [worker, {"name": "MainThread", "main": True, "frames": frames}]


def facts(entries: Sequence[dict[str, Any]] | None, threads: Any, state: str = "S", **more: Any) -> dict[str, Any]:
    record = None if entries is None else {"entries": list(entries), "total": len(entries), "status": {}}
    groups = None if entries is None else {"0": {"ranks": [0, 1, 2, 3], "backend": "gloo"}}
    base = {"pid": 100, "state": state, "threads": threads, "how": "thread", "why": "", "fr": record, "groups": groups}
    return reduce_facts({**base, **more})


def world(
    found: dict[int, dict[str, Any]],
    silent: dict[str, list[int]] | None = None,
    *,
    timed_out: Sequence[int] = (),
    ras: str = "",
) -> list[hang.Finding]:
    """The findings for four ranks, two on each of two nodes."""
    said = {"address": "localhost:28028", "text": ras} if ras else None
    answers = dump.Answers()
    for host, ranks in (("node1", (0, 1)), ("node2", (2, 3))):
        facts = {rank: found[rank] for rank in ranks if rank in found}
        answers.add(dump.Answer(host=host, t=NOW, ranks=facts, ras=said))
    made = dump.compose("run", WORKDIR, answers, silent or {}, "asked", NOW, timed_out)
    return list(made.findings)


DONE = [entry(seq, "all_reduce", done=True, age=60 - seq) for seq in range(1, 12)]
WAITING = facts([*DONE, entry(12, "all_reduce", done=False, age=41)], stack("all_reduce", line=31, name="step"))


def test_one_rank_is_late() -> None:
    late = facts(DONE, stack(line=57, name="slow_step"), state="R")
    (finding,) = world({0: WAITING, 1: WAITING, 2: WAITING, 3: late})
    assert (finding.kind, finding.ranks) == ("late", (3,))
    assert finding.words == (
        "rank 3 on node2 has not joined all_reduce #12 of group 0 (ranks 0-2 wait in it for 41 s): "
        "it is in train.py:57 in slow_step"
    )


def test_a_late_rank_in_another_function_of_torch() -> None:
    frames = [["/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", 8, "_engine_run_backward"],
              ["/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", 6, "backward"],
              [f"{WORKDIR}/train.py", 44, "step"]]  # fmt: skip
    late = facts(DONE, [{"name": "MainThread", "main": True, "frames": frames}], state="R")
    (finding,) = world({0: WAITING, 1: WAITING, 2: WAITING, 3: late})
    assert finding.words.endswith("it is in train.py:44 in step, in torch's backward")


def test_many_are_late() -> None:
    """All but one: the one that waits is in front."""
    late = facts(DONE, stack(line=57, name="slow_step"), state="R")
    findings = world({0: WAITING, 1: late, 2: late, 3: late})
    assert [finding.ranks for finding in findings] == [(1,), (2,), (3,)]
    assert "(rank 0 waits in it for 41 s)" in findings[0].words


def on_gpu(*states: str) -> list[hang.Finding]:
    """Findings for ranks that have all called one all_reduce of NCCL; the state of each by torch 2.11's recorder."""
    found = {}
    for rank, state in enumerate(states):
        last = entry(12, "all_reduce", done=False, age=41, profiling_name="nccl:all_reduce", state=state)
        done = [{**each, "profiling_name": "nccl:all_reduce", "state": "completed"} for each in DONE]
        found[rank] = facts([*done, last], stack("synchronize", line=31, name="step"))
    return world(found)


def test_a_rank_whose_gpu_does_not_come_to_the_collective() -> None:
    """Its host has joined: the GPU hangs in an earlier kernel, and the GPUs of the others wait for it."""
    (finding,) = on_gpu("started", "started", "scheduled", "started")
    assert (finding.kind, finding.ranks) == ("late", (2,))
    assert finding.words.startswith(
        "rank 2 on node2 has queued all_reduce #12 of group 0, and its GPU has not started it (ranks 0-3 wait in it "
        "for 41 s): an earlier kernel keeps it busy, or it hangs; it is in train.py:31 in step"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [("scheduled", "or a GPU hangs before it (with TORCH_NCCL_ENABLE_TIMING=1"), ("started", "joined all_reduce #12")],
)
def test_what_torch_does_not_time_is_only_queued(state: str, words: str) -> None:
    (finding,) = on_gpu(*[state] * 4)
    assert (finding.kind, finding.ranks) == ("stuck", ())
    assert words in finding.words
    assert ("joined" in finding.words) is (state == "started")


def test_a_stopped_rank_comes_first() -> None:
    stopped = facts(None, None, state="T", how="", why="it is stopped")
    (finding,) = world({0: WAITING, 1: WAITING, 2: WAITING, 3: stopped})
    assert (finding.kind, finding.ranks) == ("stopped", (3,))
    assert finding.words == (
        "rank 3 on node2 is stopped (SIGSTOP); to continue it: kill -CONT 100 on node2; "
        "all_reduce #12 of group 0 waits for it (ranks 0-2 wait in it for 41 s)"
    )


def test_two_ranks_late_for_different_reasons() -> None:
    late = facts(DONE, stack(line=57, name="slow_step"), state="R")
    stopped = facts(None, None, state="T", how="", why="it is stopped")
    findings = world({0: WAITING, 1: late, 2: WAITING, 3: stopped})
    assert [finding.kind for finding in findings] == ["stopped", "late"]


@pytest.mark.parametrize("seen", [True, False])
def test_different_collectives(seen: bool) -> None:
    """`seen`: the root of a broadcast does not wait for the others, and goes on to the next collective."""
    last = [entry(12, "broadcast", done=seen, age=41)] + [entry(13, "all_reduce", done=False, age=41)] * seen
    other = facts([*DONE, *last], stack("broadcast", line=29, name="tell"))
    (finding,) = world({0: WAITING, 1: other, 2: WAITING, 3: WAITING})
    assert (finding.kind, finding.ranks) == ("mismatch", (1,))
    assert "rank 1 on node1 calls broadcast #12" in finding.words
    assert "ranks 0, 2-3 call all_reduce #12 at train.py:31 in step" in finding.words
    assert ("before all_reduce #13 at train.py:29" if seen else "at train.py:29 in tell") in finding.words


def test_two_against_two_names_all() -> None:
    other = facts([*DONE, entry(12, "barrier", done=False, age=3)], stack("barrier", line=70, name="end"))
    (finding,) = world({0: WAITING, 1: WAITING, 2: other, 3: other})
    assert (finding.kind, finding.ranks) == ("mismatch", (0, 1, 2, 3))


def test_different_sizes() -> None:
    row = entry(12, "all_reduce", done=False, age=3, input_sizes=[[4, 2]])
    (finding,) = world(
        {0: WAITING, 1: WAITING, 2: WAITING, 3: facts([*DONE, row], stack("all_reduce", line=3, name="f"))}
    )
    assert (finding.kind, finding.ranks) == ("mismatch", (3,))
    assert "all_reduce of 4x2 #12" in finding.words


def test_all_have_joined() -> None:
    (finding,) = world(dict.fromkeys(range(4), WAITING))
    assert finding.kind == "stuck"
    assert "all ranks have joined all_reduce #12 of group 0" in finding.words


def test_nobody_waits() -> None:
    busy = facts(DONE, stack(line=57, name="slow_step"), state="R")
    (finding,) = world(dict.fromkeys(range(4), busy))
    assert (finding.kind, finding.ranks) == ("none", ())
    assert "no rank waits for another one; rank 0 on node1: it is in train.py:57" in finding.words


def test_a_host_that_does_not_answer() -> None:
    findings = world({0: WAITING, 1: WAITING}, {"node2": [2, 3]})
    assert {finding.kind for finding in findings} == {"silent"}
    assert "node2 did not answer (ranks 2-3)" in [finding.words for finding in findings]
    assert any("waits for ranks 2-3, which did not answer" in finding.words for finding in findings)


def test_groups_are_judged_one_by_one() -> None:
    """A rank that waits in one group is late in another: both are said."""
    groups = {"0": {"ranks": [0, 1, 2, 3], "backend": "gloo"}, "1": {"ranks": [2, 3], "backend": "gloo"}}
    inner = facts(
        [*DONE, entry(1, "all_gather", done=False, age=50, group="1")], stack("all_gather", line=8, name="part"),
        groups=groups,
    )  # fmt: skip
    lost = facts(DONE, stack(line=57, name="slow_step"), state="R", groups=groups)
    findings = world({0: WAITING, 1: WAITING, 2: inner, 3: lost})
    words = "\n".join(finding.words for finding in findings)
    assert "rank 3 on node2 has not joined all_gather #1 of group 1 (rank 2 waits in it for 50 s)" in words
    assert "rank 3 on node2 has not joined all_reduce #12 of group 0" in words


def test_nccl_entries() -> None:
    """NCCL's say what they are (documented states; not seen on a GPU)."""
    done = [
        entry(seq, "all_reduce", done=seq < 5, age=60, profiling_name="nccl:all_reduce", state="completed",
              time_discovered_completed_ns=int((NOW - 50) * 1e9))
        for seq in range(1, 12)
    ]  # fmt: skip
    begun = entry(12, "all_reduce", done=False, age=41, profiling_name="nccl:all_reduce", state="started")
    waits = facts([*done, begun], stack("synchronize", line=31, name="step"))
    late = facts(done, stack(line=57, name="slow_step"), state="R")
    (finding,) = world({0: waits, 1: waits, 2: late, 3: waits})
    assert (finding.kind, finding.ranks) == ("late", (2,))
    rank = rank_state.read(0, "node1", late, NOW)
    assert rank.idle == pytest.approx(50)
    assert rank.groups[GroupKey("0", "nccl")].done == 11


def test_the_ring_has_forgotten_a_group() -> None:
    """A rank without an entry of the group: its counters are asked."""
    late = facts([], stack(line=57, name="slow_step"), state="R")
    late["fr"]["status"] = {"0": {"last_enqueued_collective": 11, "last_completed_collective": 11}}
    (finding,) = world({0: WAITING, 1: WAITING, 2: WAITING, 3: late})
    assert (finding.kind, finding.ranks) == ("late", (3,))


# ---- without a record: an old torch, a rendezvous


def bare(threads: Any, state: str = "S", **more: Any) -> dict[str, Any]:
    return facts(None, threads, state, how="faulthandler", **more)


def test_stacks_alone() -> None:
    waits = bare(stack("all_reduce", line=31, name="step"))
    (finding,) = world({0: waits, 1: waits, 2: waits, 3: bare(stack(line=57, name="slow_step"), "R")})
    assert (finding.kind, finding.ranks) == ("stacks", (3,))
    assert finding.words == (
        "rank 3 on node2 is in no collective while ranks 0-2 wait in all_reduce: it is in train.py:57 in slow_step"
    )


def test_a_wait_in_vain_is_one_although_its_record_says_retired() -> None:
    """torch 2.13 retires a collective of gloo also when its time is over."""
    gone = facts([*DONE, entry(12, "all_reduce", done=True, age=5)], stack("all_reduce", line=31, name="step"))
    late = facts(DONE, stack(line=57, name="slow_step"))
    words = "rank 3 on node2 has not joined all_reduce #12 of group 0 (ranks 0-2 wait in it for 5 s): "
    (finding,) = world({0: gone, 1: gone, 2: gone, 3: late}, timed_out=[0, 1, 2])
    assert (finding.kind, finding.ranks) == ("late", (3,))
    assert finding.words == words + "it is in train.py:57 in slow_step"
    # A rank that has begun as many was there: the others are no later than that.
    (finding,) = world({0: gone, 1: gone, 2: gone, 3: gone}, timed_out=[0, 1, 2])
    assert finding.kind == "stuck"


def test_a_rank_that_waited_too_long_is_the_last_to_blame() -> None:
    """Others may wait for it in another group."""
    waits = hang.Finding(kind=FindingKind.LATE, ranks=(0,), words="rank 0 has not joined all_reduce #3 of group 1")
    sleeps = hang.Finding(kind=FindingKind.LATE, ranks=(3,), words="rank 3 has not joined all_reduce #12 of group 0")
    stuck = hang.Finding(kind=FindingKind.STUCK, ranks=(), words="all ranks have joined")
    blind = hang.Finding(kind=FindingKind.UNRECORDED, ranks=(1,), words="only stacks are compared")
    assert hang.after_timeout([waits, sleeps, blind], [0, 1]) == [sleeps, waits]
    assert hang.after_timeout([waits, stuck], [0]) == [stuck, waits]
    assert hang.after_timeout([waits, blind], [0]) == [waits]


def test_a_wait_in_vain_without_a_record() -> None:
    gone = bare(stack(line=90, name="<module>"))
    (finding,) = world({0: gone, 1: gone, 2: gone, 3: bare(stack(line=9, name="prepare"))}, timed_out=[0, 1, 2])
    assert (finding.kind, finding.ranks) == ("stacks", (3,))
    assert finding.words == (
        "rank 3 on node2 did not come, and ranks 0-2 waited in vain: it is in train.py:9 in prepare"
    )


# As NCCL 2.28.9 printed it on an H100, where rank 1 slept. Torch's Flight Recorder was off.
RAS = """
Communicators... (0.000s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (0e51c0ecf18ece83) MISMATCH
  Communicator ranks have different AllReduce operation counts
  Rank 0 has launched up to operation 9 -- GPU 0 managed by process 1197 on node 192.0.2.2
  Rank 1 has launched up to operation 8 -- GPU 0 managed by process 1198 on node 192.0.2.2

"""


def test_nccl_counts_where_torch_does_not() -> None:
    waits = bare(stack(line=47, name="main"), "R", pid=1197)  # in a copy from the GPU: no frame of torch
    late = bare(stack(line=23, name="read_slowly"), pid=1198)
    findings = world({0: waits, 1: late}, ras=RAS)
    assert [finding.kind for finding in findings] == ["late", "ras"]
    assert findings[0].ranks == (1,)
    assert findings[0].words == (
        "rank 1 on node1 has not joined AllReduce #9 of NCCL, which rank 0 called: it is in train.py:23 in read_slowly"
    )
    # Two hosts have a process of that number: nothing is said of either.
    assert [finding.kind for finding in world({0: waits, 1: late, 2: late}, ras=RAS)] == ["ras"]


def test_stacks_in_different_collectives() -> None:
    waits = bare(stack("all_reduce", line=31, name="step"))
    (finding,) = world({0: waits, 1: waits, 2: waits, 3: bare(stack("barrier", line=70, name="end"))})
    assert (finding.kind, finding.ranks) == ("stacks", (3,))
    assert finding.words.startswith("ranks wait in different places: rank 3 on node2 in barrier at train.py:70")


def test_a_rank_that_cannot_say() -> None:
    waits = bare(stack("init_process_group", line=5, name="main"))
    blind = bare(None, "S", why="it did not answer")
    (finding,) = world({0: waits, 1: waits, 2: waits, 3: blind})
    assert (finding.kind, finding.ranks) == ("silent", (3,))
    assert "rank 3 on node2 does not report its position: it did not answer" in finding.words


def test_no_rank_says_anything() -> None:
    blind = bare(None, "S", why="it is not a Python")
    (finding,) = world(dict.fromkeys(range(4), blind))
    assert finding.words == "no rank reports its position: it is not a Python"


def test_stacks_are_grouped_the_odd_ones_first() -> None:
    waits = bare(stack("all_reduce", line=31, name="step"))
    answers = dump.Answers()
    ranks = {0: waits, 1: waits, 2: bare(stack(line=1, name="f"))}
    answers.add(dump.Answer(host="a", t=NOW, ranks=ranks, ras=None))
    summary = dump.compose("run", WORKDIR, answers, {}, "asked", NOW).summary
    assert [group["ranks"] for group in summary["stacks"]] == [[2], [0, 1]]


def test_what_cannot_be_unpacked() -> None:
    with pytest.raises(ValueError, match="node1 sent an invalid answer"):
        dump.read_answer("AAAA", "node1")


# ---- the watch


def look(idle: float | None, kind: FindingKind = FindingKind.LATE) -> tuple[list[Rank], list[hang.Finding]]:
    return [Rank(rank=0, host="a", idle=idle)], [hang.Finding(kind=kind, ranks=(0,), words="x")]


def test_the_watch_says_a_hang_once() -> None:
    watch = Watch(60, "warn", 0.0)
    assert watch.due == 60
    assert not watch.hangs_now(60, *look(50), last_line=0)
    assert watch.due == pytest.approx(75)  # 10 + 60 is sooner than it looks again
    assert watch.hangs_now(75, *look(65), last_line=0)
    assert not watch.hangs_now(90, *look(80), last_line=0)
    # It went on, and hangs again.
    assert not watch.hangs_now(105, *look(5), last_line=0)
    assert watch.due == 160
    assert watch.hangs_now(160, *look(60), last_line=0)


def test_a_run_that_computes_for_long_does_not_hang() -> None:
    watch = Watch(60, "warn", 0.0)
    for now in range(60, 1000, 60):
        assert not watch.hangs_now(now, *look(now, kind=FindingKind.NONE), last_line=0)


def test_lines_do_not_count_where_there_is_a_record() -> None:
    watch = Watch(60, "warn", 0.0)
    assert watch.hangs_now(61, *look(61), last_line=60.9)


def test_without_a_record_lines_and_stacks_count() -> None:
    ranks = [Rank(rank=0, host="a", stack=(("a.py", 1, "f"),))]
    other = [Rank(rank=0, host="a", stack=(("a.py", 2, "f"),))]
    finding = look(None, FindingKind.STACKS)[1]
    watch = Watch(60, "warn", 0.0)
    assert not watch.hangs_now(60, ranks, finding, last_line=30)  # the first stack there is
    assert not watch.hangs_now(120, other, finding, last_line=30)  # it has moved
    assert not watch.hangs_now(150, other, finding, last_line=30)
    assert not watch.hangs_now(180, other, finding, last_line=179)  # it said something
    assert watch.hangs_now(240, other, finding, last_line=179)


def test_two_backends_of_one_group_count_by_themselves() -> None:
    """`cpu:gloo,cuda:nccl`: the same name, and a number of its own for each."""
    gloo = [entry(seq, "broadcast", done=True, age=70) for seq in range(1, 4)]
    nccl = [entry(seq, "all_reduce", done=seq < 4, age=60, profiling_name="nccl:all_reduce") for seq in range(1, 5)]
    waits = facts([*gloo, *nccl], stack("all_reduce", line=31, name="step"))
    late = facts([*gloo, *nccl[:3]], stack(line=57, name="slow_step"), state="R")
    (finding,) = world({0: waits, 1: waits, 2: waits, 3: late})
    assert (finding.kind, finding.ranks) == ("late", (3,))
    assert "has not joined all_reduce #4 of group 0:nccl (ranks 0-2 wait in it for 60 s)" in finding.words


def test_what_differed_long_ago_and_ended_is_no_cause() -> None:
    odd = [entry(5, "barrier", done=True, age=55), *DONE[5:]]
    late = facts(odd, stack(line=57, name="slow_step"), state="R")
    (finding,) = world({0: WAITING, 1: WAITING, 2: WAITING, 3: late})
    assert finding.kind == "late"


def test_a_rank_that_has_no_group_yet() -> None:
    """NCCL connects late: others may wait in a collective before this one has come to init_process_group."""
    young = bare(stack(line=12, name="load_data"), "R")
    (finding,) = world({0: WAITING, 1: WAITING, 2: WAITING, 3: young})
    assert (finding.kind, finding.ranks) == ("late", (3,))
    assert "it is in train.py:12 in load_data" in finding.words
