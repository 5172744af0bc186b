"""Decisions after an attempt: a fault of a node takes a spare, an error of the script ends the run."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ddpkit.diagnosis.decision import End, Limits, decide, describe
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.verdict import diagnose
from ddpkit.errors import AGAIN, NO_PROGRESS
from ddpkit.node.supervision.oom import NO_KILL

HOSTS = ("node1", "node2")
LIMITS = Limits(retries=3, spares=1, retry_codes=(AGAIN, 42), stop_codes=(93,))
OWN = ("Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "IndexError: list index")
PEER = ("RuntimeError: [gloo/pair.cc:534] Connection closed by peer [10.0.0.2]:4711",)
LOST = Failure(host="node2", rank=None, what="ddpkit's process", reason="no heartbeat for 30 s")


def rank(*lines: str, code: int | None = None, number: int | None = None, **more: str) -> Failure:
    """The failure of rank 1 on node2."""
    return Failure(host="node2", rank=1, what="rank", code=code, signal=number, last_lines=lines, **more)  # type: ignore[arg-type]


def end(failure: Failure | None, progress: float | None = None, **more: object) -> End:
    judged = failure and diagnose(failure, Path("/nowhere"))
    return End(hosts=HOSTS, failure=judged, progress=progress, **more)  # type: ignore[arg-type]


XID = "NVRM: Xid (PCI:0000:4f:00): 95, pid=7, Uncontained ECC error"
ROSE = "/sys/fs/cgroup/memory.events: oom_kill rose by 1"
HANG = rank(code=NO_PROGRESS, reason="it hangs: rank 0 waits for rank 1")
CASES = {
    "exception": (rank(*OWN, code=1), "stop", ()),
    "syntax error": (rank('  File "train.py", line 1', "SyntaxError: invalid syntax", code=1), "stop", ()),
    "assertion": (rank(*OWN[:2], "AssertionError", code=1), "stop", ()),
    "usage": (rank("train.py: error: unrecognized arguments: --x", code=2), "stop", ()),
    "exit code": (rank(code=7), "stop", ()),
    "GPU memory": (rank("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", code=1), "stop", ()),
    "do not requeue": (rank(code=93), "stop", ()),
    "SIGINT": (rank(number=signal.SIGINT), "stop", ()),
    "asked again": (rank(code=AGAIN), "same", ()),
    "own code": (rank(*OWN, code=42), "same", ()),
    "SIGUSR1": (rank(number=signal.SIGUSR1), "same", ()),
    "port": (rank("RuntimeError: EADDRINUSE: address already in use", code=1), "same", ()),
    "SIGKILL": (rank(number=signal.SIGKILL), "check", ("node2",)),
    "SIGSEGV": (rank(number=signal.SIGSEGV), "check", ("node2",)),
    "peer": (rank(*PEER, code=1), "check", ("node1",)),  # node2 reports that it waited
    "hang": (HANG, "check", ("node2",)),
    "lost": (LOST, "replace", ("node2",)),
    "node of SLURM": (replace(LOST, what="slurmd", reason="SLURM lost the node"), "replace", ("node2",)),
    "out of memory": (rank(number=9, oom="oom_kill 1, cgroup"), "replace", ("node2",)),
    # A script can print any of these: the host is checked before it is replaced.
    "ECC": (rank("CUDA error: uncorrectable ECC error encountered", code=1), "check", ("node2",)),
    "disk": (rank("OSError: [Errno 28] No space left on device", code=1), "check", ("node2",)),
    "read-only": (rank("OSError: [Errno 30] Read-only file system: '/scratch'", code=1), "check", ("node2",)),
    "Xid": (rank("CUDA error: uncorrectable ECC error encountered", code=1, kernel=XID), "replace", ("node2",)),
    "forged kill": (rank("Out of memory: Killed process 7 (python)", code=7), "stop", ()),
    "forged, and killed": (rank("Out of memory: Killed process 7", number=9, kernel=NO_KILL), "check", ("node2",)),
    "worker killed": (rank("Out of memory: Killed process 7 (python)", code=1, kernel=ROSE), "check", ("node2",)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_first_failure(case: str) -> None:
    failure, action, hosts = CASES[case]
    decision = decide(end(failure), [], LIMITS)
    assert (decision.action, decision.hosts) == (action, hosts), decision
    assert decision.reason


def test_a_stop_is_final() -> None:
    assert decide(end(None, stopped=True), [], LIMITS).action == "stop"
    assert decide(end(LOST, stopped=True), [], LIMITS).action == "stop"
    ending = decide(end(rank(code=AGAIN), ending="CANCELLED"), [], LIMITS)
    assert (ending.action, ending.reason) == ("stop", "SLURM ends the job: CANCELLED")


def test_a_lost_host_explains_the_errors_of_the_others() -> None:
    for failure in (rank(*OWN, code=1), rank(*PEER, code=1), rank(code=1)):
        decision = decide(end(replace(failure, host="node1"), lost={"node2": "it was killed"}), [], LIMITS)
        assert (decision.action, decision.hosts) == ("replace", ("node2",))
        assert "node2: it was killed" in decision.reason


@pytest.mark.parametrize(
    ("requeue", "retries", "action", "reason"),
    [
        (True, 1, "requeue", "SLURM removed it from the job, whose script ran there"),
        (False, 1, "stop", "SLURM may not requeue the job: submit it again with --requeue"),
        (True, 0, "stop", "all retries are used"),
    ],
)
def test_the_node_of_the_script_is_lost(requeue: bool, retries: int, action: str, reason: str) -> None:
    """A spare is of no use without the script, which starts the attempts."""
    lost = replace(LOST, what="slurmd", reason="SLURM removed it from the job, whose script ran there")
    decision = decide(end(lost), [], replace(LIMITS, requeue=requeue, retries=retries, script_lost=True))
    assert (decision.action, decision.hosts) == (action, ("node2",) if action == "requeue" else ())
    assert decision.reason.startswith("node2: ")
    assert decision.reason.endswith(reason)


def test_two_hosts_need_two_spares() -> None:
    both = end(LOST, lost={"node1": "it was killed", "node2": "no heartbeat"})
    short = decide(both, [], LIMITS)
    assert short.action == "stop"
    assert short.reason.endswith("1 of 2 needed spare hosts left")
    enough = decide(both, [], replace(LIMITS, spares=2))
    assert (enough.action, set(enough.hosts)) == ("replace", set(HOSTS))


def test_no_retry_is_left() -> None:
    decision = decide(end(LOST), [], replace(LIMITS, retries=0))
    assert decision.action == "stop"
    assert decision.reason.endswith("all retries are used")


KILLED = rank(number=signal.SIGKILL)


@pytest.mark.parametrize(
    ("first", "second", "action"),
    [
        ((KILLED, None), (KILLED, None), "stop"),
        ((KILLED, 5.0), (KILLED, 5.0), "stop"),
        ((KILLED, 5.0), (KILLED, None), "stop"),
        ((KILLED, 5.0), (KILLED, 6.0), "check"),
        ((KILLED, None), (KILLED, 1.0), "check"),
        ((KILLED, None), (rank(number=signal.SIGSEGV), None), "check"),
        ((KILLED, None), (LOST, None), "replace"),
        ((HANG, 5.0), (HANG, 5.0), "stop"),
        ((rank(code=AGAIN), None), (rank(code=AGAIN), None), "same"),
        ((rank(number=9, oom="a"), None), (replace(rank(number=9, oom="b"), host="node1"), None), "stop"),
        ((LOST, None), (replace(LOST, host="node1"), None), "replace"),
    ],
)
def test_the_same_failure_twice(
    first: tuple[Failure, float | None], second: tuple[Failure, float | None], action: str
) -> None:
    assert decide(end(*second), [end(*first)], LIMITS).action == action


def test_a_single_host_is_not_checked() -> None:
    alone = replace(end(KILLED), hosts=("node2",))
    assert decide(alone, [], LIMITS).action == "same"


def test_names_in_logs_are_those_of_the_request() -> None:
    ecc = replace(rank("CUDA error: uncorrectable ECC error encountered", code=1), host="node2.site")
    decision = decide(replace(end(ecc), hosts=("me@node1:22", "me@node2:22")), [], LIMITS)
    assert (decision.action, decision.hosts) == ("check", ("me@node2:22",))


def test_many_hosts_with_one_reason_are_one_range() -> None:
    many = tuple(f"node{number}" for number in range(1, 41))
    lost = {**dict.fromkeys(many[:20], "no heartbeat for 30 s"), "node30": "its disk is full"}
    found = decide(End(hosts=many, failure=diagnose(LOST, Path("/nowhere")), lost=lost), (), replace(LIMITS, spares=40))
    assert found.reason == "node[1-20]: no heartbeat for 30 s; node30: its disk is full"
    words = describe(found, 1)
    assert words.startswith("attempt 1 ended; node[1-20,30]: put aside; reason: node[1-20]: no heartbeat")
