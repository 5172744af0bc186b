"""Notes on warnings, and the line that is quoted where nothing is known."""

from __future__ import annotations

import subprocess
import sys

from ddpkit.diagnosis.analyze import LogAnalysis, analyze_log

HEAD = "Traceback (most recent call last):\n"
BIND = "[W socket.cpp:426] [c10d] The server socket has failed to bind to {0} (errno: 98 - Address already in use).\n"
LISTEN = "[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.\n"
FRAME = (
    '  File "/opt/conda/lib/python3.8/site-packages/torch/errors/__init__.py", line 345, in wrapper\n    return f()\n'
)


def of(text: str) -> LogAnalysis:
    return analyze_log([("log", text)])


def test_an_error_at_once_below_a_warning_makes_it_a_cause() -> None:
    warning = BIND.format("[::]:29500")
    for below, kind in (
        (LISTEN, "cause"),
        (HEAD + FRAME, "cause"),
        ("starting\n", "hint"),
        ("loading\n" * 9 + LISTEN, "hint"),
    ):
        first = of(warning + below).first
        assert first is not None
        assert (first.id, first.kind) == ("port-in-use", kind)


def test_equal_warnings_are_one() -> None:
    result = of("".join(map(BIND.format, ("[::]:29500", "0.0.0.0:29500"))) + LISTEN)
    assert result.hints == []
    assert len(result.alike) == 1


def test_the_first_line_with_an_error_is_no_frame() -> None:
    """A path can have `errors` in it; the head of a traceback without an end is the alarm."""
    assert of(f"starting\n{FRAME}").first_alarm is None
    assert of(f"starting\n{HEAD}{FRAME}").first_alarm == ("log", 2, HEAD.strip())


def test_the_number_of_a_shells_job_is_no_rank() -> None:
    first = of("[1]    75076 killed     python train.py\n").first
    assert first is not None
    assert (first.id, first.speaker.rank) == ("killed", None)


def test_a_class_of_torch_is_not_the_scripts_own() -> None:
    first = of("torch.distributed.DistFrobnicatorError: an unknown state\n").first
    assert first is not None
    assert first.cause.startswith("an exception inside torch")
    assert first.fix == "look at the lines above it"


def explained(text: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "ddpkit", "explain", "-"], input=text, capture_output=True, text=True, check=True
    ).stdout


def test_notes_beside_a_warning() -> None:
    slow = "n1:1:1 [0] NCCL INFO NET/IB : No device found.\n"
    loopback = (
        "[W ProcessGroupGloo.cpp:1] Unable to resolve hostname to a (local) address. Using the loopback address\n"
    )
    assert "note: no failure is in this log; this is a warning" in explained(slow)
    assert "note: no failure is in this log; this may lead to one" in explained(loopback)
    shown = explained(f"{loopback}x.py: frobnicator error 17\n")
    assert "note: the failure is not known (line 2: x.py: frobnicator error 17); this may have led to it" in shown
    assert explained(f"{slow}x.py: frobnicator error 17\n").startswith("not known")


def test_a_run_that_a_user_ended_has_no_hidden_failure() -> None:
    shown = explained("step 1\nWARNING: Sending process 4797 closing signal SIGINT\n")
    assert "note: no failure is above this line" in shown
    assert "the first failure is not in this log" not in shown


def test_the_other_hosts_of_one_failure_are_named() -> None:
    refused = (
        "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory\n"
    )
    ended = "srun: error: node{0}: task {0}: Exited with exit code 1\n"
    shown = explained(refused + ended.format(2) + refused + ended.format(1))
    assert shown.startswith("line 1, rank 2 on node2: ")
    assert "repeated: 1 more time, also on node1" in shown


def test_a_warning_that_the_run_overcame_is_no_possible_cause() -> None:
    warning = (
        "[W socket.cpp:401] [c10d] The IPv6 network addresses of (node1, 29400) cannot be retrieved "
        "(gai error: -2 - Name or service not known).\n"
    )
    joined = "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:\n"
    assert [each.id for each in of(warning + joined).hints] == []
    first = of(warning + "waiting\n").first
    assert first is not None
    assert (first.id, first.kind) == ("master-name-unknown", "hint")


def test_a_line_of_level_info_does_not_outrank_a_warning() -> None:
    info = "node1:31:90 [0] NCCL INFO Could not find NET with id 1\n"
    warning = "node1:31:90 [0] NCCL WARN NET/Socket : peer address 10.0.0.2 sent an unknown type\n"
    for text in (info + warning, warning + info):
        first = of(text).first
        assert first is not None
        assert (first.id, first.kind) == ("nccl-warning", "hint")
    alone = of(info).first
    assert alone is not None
    assert alone.id == "nccl-topology"


def test_loopback_is_wrong_only_between_hosts() -> None:
    line = "{0}:31:90 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n"
    assert of(line.format("node1") * 2).first is None
    first = of(line.format("node1") + line.format("node2")).first
    assert first is not None
    assert first.id == "nccl-uses-loopback"


def test_torchruns_own_end_is_no_mere_warning() -> None:
    head = "WARNING:torch.distributed.elastic.multiprocessing.api:"
    for text in ("Sending process 4711 closing signal SIGHUP", "Received Signals.SIGHUP death signal, shutting down"):
        first = of(f"{head}{text}\n").first
        assert first is not None
        assert (first.id, first.kind) == ("hangup", "cause")
