"""From what ranks said, and how they ended, to findings. Pure: no rank runs."""

from __future__ import annotations

import queue
import signal
from pathlib import Path
from typing import Any

import pytest
from program import wait_until

import ddpkit
from ddpkit.diagnosis.outcome import Failure, Outcome
from ddpkit.distributed.rank_fixes import FIXES
from ddpkit.errors import LaunchError
from ddpkit.execution.executor import Inbox
from ddpkit.launchers.plan import Plan, Proc, RankStarter, Step
from ddpkit.preflight import rank_checks
from ddpkit.preflight import rank_program as ranks
from ddpkit.preflight.rank_program import ProgramRun


def plan(*, slurm: bool = False) -> Plan:
    """Four ranks on four nodes."""
    steps = [
        Step(host=f"node{node + 1}", node_rank=node, ranks=range(node, node + 1), workdir="/", env={}, procs=(PROC,))
        for node in range(4)
    ]
    if slurm:
        steps = [
            Step(
                host="slurm",
                node_rank=0,
                ranks=range(4),
                workdir="/",
                env={},
                procs=(PROC,),
                rank_starter=RankStarter.COLLECT,
            )
        ]
    return Plan(run_id="r", backend="any", steps=tuple(steps), world_size=4, grace=1.0)


PROC = Proc(name="rank", argv=("python",))


def event(kind: str, rank: int, told_by: int | None = None, **more: Any) -> Any:
    return {"e": kind, "rank": rank, "sender": rank if told_by is None else told_by, **more}


def problem(rank: int, told_by: int, text: str, **more: Any) -> Any:
    said = {"host": "", "problem": text, "fix": "same-torch", "check": "ranks", "level": "fail", "cause": "", **more}
    return event("problem", rank, told_by, **said)


def started(*ranks: int) -> list[Any]:
    return [event("rank", rank, host=f"node{rank + 1}", nodes="node[1-4]") for rank in ranks]


def heard(events: list[Any], failure: Failure | None = None) -> ProgramRun:
    return ProgramRun(outcome=Outcome(failure=failure), events=events, folder="logs/x")


def bad(events: list[Any], failure: Failure | None = None, *, slurm: bool = False) -> list[Any]:
    found = rank_checks.check_ranks(heard(events, failure), plan(slurm=slurm), speed=False)
    return [check for check in found if check.status == "fail"]


def test_a_rank_that_begins_a_long_stage_may_be_silent() -> None:
    """NCCL has 30 s for its start, and no event comes meanwhile."""
    assert ranks.announced_silence(event("begin", 0, stage="nccl", waits=65.0)) == 65
    assert ranks.announced_silence(event("here", 0, waits=7.0)) == 7
    assert ranks.announced_silence(event("did", 0, stage="gloo")) == 0


REFUSED = Failure(host="node1", rank=0, what="rank", code=122)


def test_a_rank_that_started_and_did_not_come() -> None:
    (check,) = bad([*started(0, 1, 2, 3), problem(2, 0, "did not join within 7 s")], REFUSED)
    assert (check.id, check.host, check.rank, check.doc) == ("ranks", "node3", 2, "ranks-missing")
    assert "hangs before the rendezvous" in check.cause
    assert "--timeout" in check.fix


@pytest.mark.parametrize("slurm", [False, True])
def test_a_rank_that_never_started_has_the_host_that_it_was_to_have(slurm: bool) -> None:
    (check,) = bad([*started(0, 1, 3), problem(2, 0, "did not join within 7 s")], REFUSED, slurm=slurm)
    assert (check.host, check.rank) == ("node3", 2)
    assert check.evidence.endswith("never started")


def test_who_says_itself_why_is_believed_and_nobody_is_missed_because_of_it() -> None:
    events = [
        *started(0, 1, 2, 3),
        problem(2, 2, "cannot import torch: libcudart.so.12: cannot open shared object file"),
        problem(2, 0, "did not join within 7 s"),
        problem(3, 0, "did not join within 7 s"),  # it was ended with the others
        problem(0, 1, "does not proceed"),
    ]
    found = bad(events, Failure(host="node3", rank=2, what="rank", code=122))
    assert [(check.rank, check.doc) for check in found if "does not proceed" not in check.evidence] == [
        (2, "module-missing")
    ]


@pytest.mark.parametrize(
    ("number", "doc", "cause"),
    [
        (signal.SIGKILL, "killed", "out-of-memory"),
        (signal.SIGBUS, "bus-error", "/dev/shm"),
        (signal.SIGSEGV, "segfault", "compiled code"),
        (signal.SIGABRT, "aborted", "compiled library aborted"),
        (signal.SIGILL, "illegal-instruction", "another CPU"),
        (signal.SIGTERM, "terminated", "another rank failed"),
    ],
)
def test_a_rank_that_died_is_the_only_one_named(number: int, doc: str, cause: str) -> None:
    events = [
        *started(0, 1, 2, 3),
        event("stage", 0, stage="ranks"),
        problem(2, 0, "ended, or hung, while the ranks added", check="gloo"),
        problem(1, 0, "a small all_reduce: Connection closed by peer [10.0.0.3]:1", check="gloo"),
        problem(0, 3, "ended, or hung, in the step gloo", check="gloo"),
    ]
    (check,) = bad(events, Failure(host="node3", rank=2, what="rank", signal=number, seconds=2.5))
    assert (check.id, check.host, check.rank, check.doc) == ("gloo", "node3", 2, doc)
    assert f"rank 2 ended after 2.5 s: killed by signal {int(number)}" in check.evidence
    assert cause in check.cause
    assert check.fix


def test_other_faults_are_named_beside_a_death() -> None:
    events = [*started(0, 1, 2, 3), problem(1, 0, "uses the same GPU as rank 0 on node1: X", check="gpu-map")]
    found = bad(events, Failure(host="node3", rank=2, what="rank", signal=9))
    assert {(check.id, check.rank) for check in found} == {("ranks", 2), ("gpu-map", 1)}


def test_a_rank_that_hangs_is_said_to_hang() -> None:
    events = [*started(0, 1, 2, 3), problem(2, 0, "ended, or hung, while the ranks added", check="gloo")]
    (check,) = bad(events, REFUSED)
    assert (check.id, check.rank, check.doc) == ("gloo", 2, "peer-died")
    assert "it hangs" in check.cause


def test_what_many_ranks_say_of_rank_0_is_one_finding() -> None:
    text = "ended, or hung, in the step gloo"
    events = [*started(0, 1, 2, 3), *(problem(0, rank, text, check="gloo") for rank in (1, 2, 3))]
    (check,) = bad(events, Failure(host="node2", rank=1, what="rank", code=122))
    assert (check.host, check.rank) == ("node1", 0)


def test_ranks_of_one_host_are_one_finding() -> None:
    step = Step(host="node1", node_rank=0, ranks=range(8), workdir="/", env={}, procs=(PROC,))
    eight = Plan(run_id="r", backend="any", steps=(step,), world_size=8, grace=1.0)
    events = [problem(rank, 0, "did not join within 7 s") for rank in range(4, 8)]
    found = rank_checks.check_ranks(heard(events, REFUSED), eight, speed=False)
    (check,) = [check for check in found if check.status == "fail"]
    assert check.rank == 4
    assert "(and 3 more ranks there: 5, 6, 7)" in check.evidence


@pytest.mark.parametrize(
    ("reason", "doc"),
    [
        ("reached its time limit; request more: --time D-HH:MM:SS", "slurm-time-limit"),
        ("lost a node of node[1-2]; for the reason: sinfo -R", "slurm-node-failure"),
        ("was preempted", "slurm-preempted"),
    ],
)
def test_what_a_scheduler_did_is_no_fault_of_a_rank(reason: str, doc: str) -> None:
    """S07, S11."""
    (check,) = bad(started(0), Failure(host="slurm", rank=None, what="job 7", signal=15, reason=reason), slurm=True)
    assert (check.id, check.host, check.rank, check.doc) == ("scheduler", "", None, doc)
    assert reason in check.evidence
    assert check.cause


def test_a_job_that_would_wait_forever_is_a_refused_request() -> None:
    """Its failure has the exit code of a refusal: the cause is that of the request, and not of a job that ran."""
    reason = "would wait forever (PartitionConfig), and was cancelled; requested: TRES=cpu=9,node=9,gres/gpu=9"
    failure = Failure(host="slurm", rank=None, what="job 7", code=LaunchError.exit_code, reason=reason)
    (check,) = bad([], failure, slurm=True)
    assert (check.id, check.host, check.doc) == ("scheduler", "", "slurm-bad-request")
    assert check.cause == "no partition is large enough"
    assert check.fix.startswith("sinfo --summarize")


@pytest.mark.parametrize(
    ("said", "doc", "fix"),
    [
        ("sbatch rejected the job: invalid partition specified: a", "slurm-bad-request", "login node"),
        ("Invalid account or account/partition combination specified", "slurm-bad-request", "login node"),
        ("Invalid generic resource (gres) specification", "slurm-bad-request", "login node"),
        ("would wait forever (PartitionNodeLimit)", "slurm-bad-request", "-N N"),
        ("Requested node configuration is not available", "slurm-bad-request", "login node"),
        ("Unable to create step for job 4: More processors requested than permitted", "step-refused", "salloc"),
        ("Unable to create step for job 4: Memory required by task is not available", "step-refused", "salloc"),
        ("4 ranks on node1: allocation 5 has 1 CPU there", "step-refused", "salloc"),
        ("sbatch not found on this machine", "command-not-found", "login node"),
        ("something that nobody knows", "slurm-bad-request", "login node"),
    ],
)
def test_what_a_scheduler_refuses(said: str, doc: str, fix: str) -> None:
    """S05, S10."""
    check = rank_checks.check_refusal(said, "run ddpkit on a login node")
    assert (check.id, check.status, check.evidence, check.doc) == ("scheduler", "fail", said, doc)
    assert any(word in check.fix for word in fix.split("|"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:42", 42),
        ("4:00", 240),
        ("1:00:00", 3600),
        ("2-03:04:05", 183845),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
    ],
)
def test_the_time_that_is_left(text: str, seconds: int | None) -> None:
    assert rank_checks.seconds_left(text) == seconds


def test_stages_pass_or_say_why_not() -> None:
    done = {str(rank): {"small_ms": 1.5, "large_ms": 9.0, "gb_per_s": 0.5} for rank in range(4)}
    events = [
        *started(0, 1, 2, 3),
        *(event("here", rank, identity=None) for rank in range(4)),
        {"e": "stage", "stage": "ranks", "sender": 0},
        {"e": "stage", "stage": "gloo", "done": done, "sender": 0},
    ]
    found = {check.id: check for check in rank_checks.check_ranks(heard(events), plan(), speed=False)}
    assert {name: check.status for name, check in found.items()} == {
        "ranks": "pass", "gloo": "pass", "gpu-map": "skip", "nccl": "skip", "speed": "skip",
    }  # fmt: skip
    assert found["ranks"].evidence == "4 of 4 joined"
    assert found["gloo"].evidence == "small 1.50 ms, large 0.50 GB/s"
    assert found["nccl"].evidence == "no GPUs"
    assert "--full" in found["speed"].evidence


def ended_in_silence(spoke: tuple[int, ...], met: tuple[int, ...] = (), *agents: str) -> list[Any]:
    events: list[Any] = [*started(*spoke), *(event("here", rank, identity=None) for rank in met)]
    told = ProgramRun(outcome=Outcome(), events=events, folder="logs/x", agent_lines=agents, silent=45.0)
    found = rank_checks.check_ranks(told, plan(slurm=True), speed=False)
    return [check for check in found if check.status == "fail"]


def test_ranks_that_never_spoke_are_named_by_their_hosts() -> None:
    two, four = ended_in_silence((0, 2))
    assert [(check.id, check.host, check.rank) for check in (two, four)] == [
        ("ranks", "node2", 1),
        ("ranks", "node4", 3),
    ]
    assert "did not start within 45 s" in two.evidence
    assert two.cause
    assert two.fix.startswith("ssh node2 uptime")


def test_ranks_that_spoke_and_did_not_come() -> None:
    (check,) = ended_in_silence((0, 1, 2, 3), (0, 1, 3))
    assert (check.host, check.rank) == ("node3", 2)
    assert "started, and did not join the rendezvous within 45 s" in check.evidence


def test_what_srun_says_of_a_node_beats_what_follows_from_it() -> None:
    said = "srun: error: Task launch for StepId=2.0 failed on node node2: Communication connection failure"
    (check,) = ended_in_silence((0,), (), said, "srun: Terminating the job step")
    assert (check.host, check.doc) == ("node2", "task-launch-failed")
    killed = Failure(host="node1", rank=0, what="rank", signal=signal.SIGKILL, log="logs/x/rank_0.log")
    told = ProgramRun(outcome=Outcome(failure=killed), events=started(0), folder="logs/x", agent_lines=(said,))
    (check,) = [one for one in rank_checks.check_ranks(told, plan(slurm=True), speed=False) if one.status == "fail"]
    assert (check.host, check.evidence) == ("node2", said)


def test_ranks_that_said_how_long_they_wait_are_not_silent() -> None:
    """They told of it before they fell silent; another, which did not, is ended."""
    inbox: Inbox = queue.SimpleQueue()
    waiting, silent = ranks.SilenceWatch(inbox, 0.5), ranks.SilenceWatch(queue.SimpleQueue(), 0.5)
    waiting.reset(waits=600)
    waiting.reset()
    silent.reset()
    wait_until(lambda: silent.broken)
    assert not waiting.broken
    assert inbox.empty()
    waiting.stop()


@pytest.mark.parametrize(
    ("text", "doc"),
    [
        (
            "Cuda failure 'system not yet initialized' (NCCL error in: x.cpp:93)",
            "cuda-init-failed",
        ),
        ("Cuda failure 2 'out of memory' (NCCL error in: x.cpp:93)", "cuda-out-of-memory"),
        ("Error: network IB not found. (NCCL error in: x.cpp:93, invalid usage)", "nccl-net-not-found"),
        ("Connect to 10.0.0.2<4> failed : Connection refused (NCCL error in: x.cpp:93)", "firewall-reject"),
    ],
)
def test_the_reason_of_nccl_has_an_entry(text: str, doc: str) -> None:
    (check,) = bad([*started(0, 1, 2, 3), problem(1, 1, f"starting nccl: {text}", check="nccl")])
    assert (check.id, check.doc, check.rank) == ("nccl", doc, 1)
    assert check.cause
    assert check.fix


@pytest.mark.parametrize(
    ("text", "doc"),
    [
        ("a matrix product and a copy did not end in 45 s", "gpu-lost"),
        ("a matrix product and a copy: CUDA out of memory. Tried to allocate 128.00 MiB.", "gpu-memory-taken"),
    ],
)
def test_a_gpu_that_cannot_work_alone_has_an_entry(text: str, doc: str) -> None:
    (check,) = bad([*started(0, 1, 2, 3), problem(1, 1, text, check="speed")])
    assert (check.id, check.doc, check.rank) == ("speed", doc, 1)
    assert "GPU" in check.cause


# ---- what a rank sends: words for people, and no command


HOSTILE = "; touch pwned #"


def test_the_fix_of_a_rank_is_one_of_ddpkit() -> None:
    """A rank's own words, and a fact that is none, are in no hint."""
    (own,) = bad([problem(1, 1, "odd", fix=f"curl evil{HOSTILE}")])
    assert (own.evidence, own.fix) == ("odd", "")
    (known,) = bad([problem(1, 1, "odd", fix="fewer-ranks", facts={"gpus": 2})])
    assert known.fix.startswith("start at most 2 ranks")
    (path,) = bad([problem(1, 1, "odd", fix="path", facts={"peer": 2})])
    assert path.fix.startswith("ssh node2 ping -c 2 -M do -s 1472 node3 shows it")
    (without,) = bad([problem(1, 1, "odd", fix="reach-rank-0")])
    assert without.fix == ""


def test_a_rank_can_name_every_fix() -> None:
    sources = "".join(
        (Path(ddpkit.__file__).parent / f"distributed/{name}.py").read_text() for name in ("check", "collectives")
    )
    assert not [
        name for name in FIXES if f'"{name}"' not in sources and name not in ("torch-for-amd", "torch-for-nvidia")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        "{}",
        '{"e": "problem"}',
        '{"e": []}',
        '{"e": "unknown-kind"}',
        '{"e": "rank", "rank": "x", "host": "node1", "nodes": ""}',
        '{"e": "rank", "rank": -1, "host": "node1", "nodes": ""}',
        f'{{"e": "rank", "rank": 0, "host": "node1{HOSTILE}", "nodes": ""}}',
        '{"e": "rank", "rank": 0, "host": "-oProxyCommand=x", "nodes": ""}',
        '{"e": "problem", "rank": 0, "host": "", "problem": "p", "fix": "path", "facts": {"peer": "x"}}',
        '{"e": "problem", "rank": 0, "host": "", "problem": "p", "fix": "f", "check": "odd"}',
        '{"e": "stage", "stage": "gloo", "done": [1]}',
        '{"e": "stage", "stage": "gloo", "seconds": NaN}',
        '{"e": "facts", "look": {}, "facts": {}}',
        "[" * 100_000,
    ],
)
def test_what_no_rank_program_sends_is_a_line_of_output(text: str) -> None:
    assert ranks.read_event(text.encode(), 0) is None


def test_an_event_of_a_rank_is_read() -> None:
    text = b'{"e": "rank", "rank": 1, "host": "node1", "nodes": "node[1-2]"}'
    assert ranks.read_event(text, 1) == {
        "e": "rank", "rank": 1, "host": "node1", "nodes": "node[1-2]", "sender": 1,
    }  # fmt: skip
