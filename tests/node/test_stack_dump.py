"""A process is asked where it is, whatever it does, and no process is harmed by it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE

from ddpkit.monitor import dump, evidence
from ddpkit.monitor.rank_state import Rank
from ddpkit.monitor.server import ras_askers
from ddpkit.node.bundle import write_bundle
from ddpkit.node.calls import stack_dump
from ddpkit.node.process_tree import below, processes

# One that has no py-spy beside it.
PYTHON = getattr(sys, "_base_executable", sys.executable)
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a script as a rank is started, and wait for its first line."""
    bundle = write_bundle(str(tmp_path))
    started: list[subprocess.Popen[str]] = []

    def run(text: str, *, hooked: bool = True, python: str = PYTHON, inner: str = "") -> subprocess.Popen[str]:
        (tmp_path / "job.py").write_text(text)
        (tmp_path / "inner.py").write_text(inner)
        env = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "DDPKIT_OBSERVE": "stacks"}
        env |= {"DDPKIT_HOOK": bundle, "PYTHONPATH": bundle} if hooked else {}
        process = subprocess.Popen(
            [python, "job.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()


def ask(process: subprocess.Popen[str]) -> dict[str, Any]:
    before = time.monotonic()
    facts: dict[str, Any] = stack_dump.collect({"0": {"pid": process.pid}})["ranks"]["0"]
    assert time.monotonic() - before < stack_dump.LIMIT + 30
    assert process.poll() is None, "it did not survive the question"
    return facts


WAITS = """
import time
def here():
    print("ready")
    time.sleep(3600)
here()
"""


def doing(before: str, what: str) -> str:
    return f"{before}\ndef here():\n    print('ready')\n    {what}\nhere()\n"


BUSY = {
    "sleeps": WAITS,
    "endless": doing("", "while True: pass"),
    "holds the interpreter lock": doing("import ctypes", "while True: ctypes.PyDLL(None).sleep(3600)"),
    "waits for a lock": doing("import threading; lock = threading.Lock(); lock.acquire()", "lock.acquire()"),
    "has threads": doing(
        "import threading, time\nwait = threading.Event().wait\n"
        "for _ in range(5): threading.Thread(target=wait, daemon=True).start()",
        "wait()",
    ),
}


@pytest.mark.parametrize("name", BUSY)
def test_a_stack_is_had_whatever_the_main_thread_does(name: str, start: Start) -> None:
    process = start(BUSY[name])
    for _ in range(3):
        facts = ask(process)
        assert facts["how"] == "faulthandler", facts
        (main,) = [thread for thread in facts["threads"] if thread["main"]]
        assert [frame[2] for frame in main["frames"]][-2:] == ["here", "<module>"]
        assert main["frames"][-1][0].endswith("job.py")
    assert len(facts["threads"]) == (6 if name == "has threads" else 1)


# Whatever these do with what the hook left: nothing is written to a file of theirs, and no signal ends them.
SPOILT = {
    "closes all descriptors": """
import os
os.closerange(3, 4096)
file = open("mine", "w")
os.dup2(file.fileno(), 1021)
""",
    "starts itself again": """
import os, sys
if len(sys.argv) == 1:
    os.execv(sys.executable, [sys.executable, "job.py", "again"])
""",
    "ignores the signal": "import signal\nsignal.signal(signal.SIGRTMIN + 11, signal.SIG_IGN)\n",
    "takes the default": "import signal\nsignal.signal(signal.SIGRTMIN + 11, signal.SIG_DFL)\n",
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_process_that_does_not_listen_is_left_alone(name: str, start: Start, tmp_path: Path) -> None:
    process = start(SPOILT[name] + WAITS)
    facts = ask(process)
    assert (facts["how"], facts["threads"]) == ("", None)
    assert facts["why"]
    assert facts["state"] in "RS"
    assert not (tmp_path / "mine").exists() or (tmp_path / "mine").read_text() == ""


def test_a_process_without_the_hook(start: Start) -> None:
    facts = ask(start(WAITS, hooked=False))
    assert facts["threads"] is None
    assert "not a Python process with ddpkit's hook" in facts["why"]
    assert facts["state"] in "RS"
    assert facts["name"].startswith("python")


def test_a_program_that_starts_a_python_later(start: Start) -> None:
    """What the supervisor knows is the shell in front of it."""
    process = start(f"#!/bin/sh\n{PYTHON} inner.py\n", python="/bin/sh", inner=WAITS)
    facts = ask(process)
    assert facts["pid"] in below(process.pid, processes())
    (main,) = facts["threads"]
    assert main["frames"][-1][0].endswith("inner.py")


def test_a_forked_child_answers_for_nobody(start: Start) -> None:
    """A worker of a DataLoader has the handler and the file of the rank."""
    process = start("import os, time\nif os.fork() == 0:\n    time.sleep(3600)\n" + WAITS)
    (child,) = below(process.pid, processes())
    facts = stack_dump.collect({"0": {"pid": child}})["ranks"]["0"]
    assert facts["threads"] is None
    assert [frame[2] for frame in ask(process)["threads"][0]["frames"]] == ["here", "<module>"]
    os.kill(child, signal.SIGKILL)


def test_a_stopped_process(start: Start) -> None:
    process = start(WAITS)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
    while stack_dump.kernel(process.pid)["state"] != "T":
        time.sleep(0.01)
    facts = ask(process)
    assert facts["state"] == "T"
    assert facts["why"].startswith("it is stopped")
    process.send_signal(signal.SIGCONT)
    assert ask(process)["how"] == "faulthandler"  # nothing that was sent meanwhile waits for it


def test_a_process_that_has_ended(start: Start) -> None:
    process = start("print('ready')\n")
    process.wait(PATIENCE)
    assert stack_dump.collect({"0": {"pid": process.pid}})["ranks"]["0"]["why"] == "it has ended"


def test_two_that_ask_at_once(start: Start) -> None:
    process = start(WAITS)
    found: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: found.append(ask(process))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [facts["how"] for facts in found] == ["faulthandler"] * 4


def test_py_spy_where_it_is_installed(start: Start) -> None:
    if not (Path(sys.executable).parent / "py-spy").exists():
        pytest.skip("py-spy is not installed")
    process = start(WAITS, python=sys.executable)
    process.send_signal(signal.SIGSTOP)
    while stack_dump.kernel(process.pid)["state"] != "T":
        time.sleep(0.01)
    facts = ask(process)
    if facts["how"] != "py-spy":
        pytest.skip(facts["why"])  # the kernel does not let it look
    assert [frame[2] for frame in facts["threads"][0]["frames"]][-2:] == ["here", "<module>"]


def test_what_py_spy_says() -> None:
    """As `py-spy dump --json` 0.4 prints it (recorded, shortened)."""
    recorded = json.loads("""[{"pid": 7, "thread_id": 140245, "thread_name": "MainThread", "os_thread_id": 7,
      "active": false, "owns_gil": false, "frames": [{"name": "here", "filename": "/x/job.py", "module": null,
      "short_filename": "job.py", "line": 4, "locals": null, "is_entry": true}], "process_info": null}]""")
    assert stack_dump.spied(recorded, 7) == [{"name": "MainThread", "main": True, "frames": [["/x/job.py", 4, "here"]]}]


# ---- NCCL RAS

# The form that NVIDIA's guide documents for NCCL 2.24 (user-guide, troubleshooting, ras), shortened. Not seen on a GPU.
RAS = """\
NCCL version 2.24.1 compiled with CUDA 12.6
CUDA runtime version 12060, driver version 12060

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========
"""


def serve(answer: bytes, *replies: bytes) -> tuple[str, list[bytes], threading.Thread]:
    """NCCL RAS in this process: a line for each command. NCCL before 2.28 knows no format."""
    replies = replies or (b"OK\n", b"ERROR: Unknown command SET FORMAT json\n")
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def one() -> None:
        connection, _ = listener.accept()
        with connection, listener:
            for reply in replies:
                asked.append(connection.recv(1024))
                connection.sendall(reply)
            asked.append(connection.recv(1024))
            connection.sendall(answer)

    thread = threading.Thread(target=one, daemon=True)
    thread.start()
    return f"127.0.0.1:{listener.getsockname()[1]}", asked, thread


def test_nccl_ras_is_asked_and_read() -> None:
    address, asked, thread = serve(RAS.encode())
    said = stack_dump.ask_ras(address, time.monotonic() + 5, [os.getpid()])
    thread.join(PATIENCE)
    assert asked == [b"TIMEOUT 2\n", b"SET FORMAT json\n", b"VERBOSE STATUS\n"]
    assert said == {"address": address, "text": RAS}
    (finding,) = evidence.ras_problems(RAS)
    assert finding.ranks == (21,)
    assert "Process 3487984 on node 172.16.64.213 managing GPU 5" in finding.words


def process(rank: int, pid: int, count: int, **status: Any) -> dict[str, Any]:
    """A rank as NCCL 2.28 writes it."""
    well = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    place = {"rank": rank, "host": "10.0.0.1", "pid": pid, "cuda_dev": rank % 8, "nvml_dev": rank % 8}
    return {**place, "status": {**well, **status}, "collective_counts": {"AllReduce": count, "Broadcast": 2}}


def report(*ranks: dict[str, Any], missing: str = "", size: int = 0) -> str:
    """JSON of NCCL 2.28; `missing` as it writes it."""
    communicator = {"hash": "0x27a0", "secondary_hash": "0x1:0x2", "size": size or len(ranks), "ranks": ranks}
    text = json.dumps({"nccl_version": "2.28.9", "communicators_count": 1, "communicators": [communicator]}, indent=2)
    return text[: text.rindex("}\n  ]")].rstrip() + f',\n      "missing_ranks": [{missing}]\n    }}\n  ]\n}}\n'


# As NCCL 2.28.9 prints it: without a comma before "status".
GONE = """
        {
          "rank": 2,
          "host": "10.0.0.2",
          "pid": 902,
          "cuda_dev": 0,
          "nvml_dev": 0
          "status": {
            "unresponsive": true,
            "considered_dead": %s
          }
        }"""


def rank_of(number: int, pid: int) -> Rank:
    return Rank(rank=number, host=f"node{number // 2 + 1}", pid=pid, state="S")


RANKS = [rank_of(number, 900 + number) for number in range(3)]


@pytest.mark.parametrize(("comma", "dead", "words"), [
    (False, "false", "rank 2 on node2: does not answer"), (True, "true", "rank 2 on node2: cannot be reached any more"),
])  # fmt: skip
def test_nccl_ras_in_json_names_a_missing_rank(comma: bool, dead: str, words: str) -> None:
    missing = (GONE % dead).replace('"nvml_dev": 0\n', '"nvml_dev": 0,\n' if comma else '"nvml_dev": 0\n')
    text = report(process(0, 900, 12), process(1, 901, 12), missing=missing, size=3)
    address, asked, thread = serve(text.encode(), b"OK\n", b"OK\n")
    said = stack_dump.ask_ras(address, time.monotonic() + 5, [os.getpid()])
    thread.join(PATIENCE)
    assert asked == [b"TIMEOUT 2\n", b"SET FORMAT json\n", b"VERBOSE STATUS\n"]
    assert said is not None
    (finding,) = evidence.ras_problems(said["text"], RANKS)
    assert (finding.ranks, finding.words) == ((2,), f"NCCL RAS: {words}")
    (unknown,) = evidence.ras_problems(said["text"], RANKS[:2])
    assert (unknown.ranks, unknown.words) == (
        (),
        f"NCCL RAS: rank 2 of 3 (process 902 on 10.0.0.2): {words.partition(': ')[2]}",
    )


def test_nccl_ras_in_json_names_errors_and_ranks_behind() -> None:
    text = report(process(0, 900, 12), process(1, 901, 11), process(2, 902, 12, async_error=1, abort_flag=True))
    (finding,) = evidence.ras_problems(text, RANKS)
    said = "NCCL failed in it: unhandled CUDA error, it has aborted the communicator"
    assert (finding.ranks, finding.words) == ((2,), f"NCCL RAS: rank 2 on node2: {said}")
    (late,) = evidence.late_by_ras(text, RANKS)
    assert (late.kind, late.ranks) == ("late", (1,))
    assert late.words.startswith("rank 1 on node1 has not joined AllReduce #12 of NCCL, which ranks 0, 2 called: ")
    assert evidence.late_by_ras(text.replace(',\n      "missing_ranks": []', ""), RANKS) == [late]
    well = report(*(process(number, 900 + number, 12, async_error=7) for number in range(3)))
    assert evidence.ras_problems(well, RANKS) == evidence.late_by_ras(well, RANKS) == []
    assert evidence.ras_problems("RCCL version 2.27\n" + text, RANKS) == [finding]


@pytest.mark.parametrize("text", ["{", '{"communicators": 3}', '{"communicators": [{"size": "x"}]}', "[" * 9999, ""])
def test_an_answer_of_nccl_ras_that_is_none(text: str) -> None:
    assert evidence.ras_problems(text, RANKS) == evidence.late_by_ras(text, RANKS) == []


def test_two_hosts_at_most_ask_nccl_ras() -> None:
    """One answer has the whole job: each of 300 nodes had asked for it, and NCCL gathered it 300 times."""
    assert ras_askers([5, 1, 0, 7, 3]) == [0, 7]
    assert ras_askers([4]) == [4]
    assert ras_askers([]) == []


def test_a_stopped_process_does_not_keep_others_from_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares the port with a rank that answers, and takes a part of the connections."""
    monkeypatch.setattr(stack_dump, "RAS_PEERS", 0.3)
    with socket.socket() as stopped:
        stopped.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stopped.bind(("127.0.0.1", 0))
        stopped.listen(64)
        port = str(stopped.getsockname()[1])
        words = [sys.executable, "-c", LISTENS, port, "our job"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as ours:
            assert ours.stdout is not None
            ours.stdout.readline()
            for _ in range(4):
                said = stack_dump.ask_ras(f"127.0.0.1:{port}", time.monotonic() + PATIENCE, [ours.pid])
                assert said == {"address": f"127.0.0.1:{port}", "text": "our job"}
            ours.kill()


LISTENS = """
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
print(listener.getsockname()[1], flush=True)
while True:
    with listener.accept()[0] as connection:
        connection.recv(1024)
        connection.sendall(b"OK\\n")
        connection.recv(1024)
        connection.sendall(b"OK\\n")
        if connection.recv(1024):
            connection.sendall(sys.argv[2].encode())
"""


def test_the_nccl_ras_of_another_job_is_not_read() -> None:
    """All jobs of a host listen at one port, and the kernel chooses one of them."""

    def listens(port: str, text: str) -> tuple[subprocess.Popen[str], str]:
        words = [sys.executable, "-c", LISTENS, port, text]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    theirs, port = listens("0", "the other job")
    ours, _ = listens(port, "our job")
    address = f"127.0.0.1:{port}"
    try:
        for _ in range(8):
            said = stack_dump.ask_ras(address, time.monotonic() + PATIENCE, [ours.pid])
            assert said == {"address": address, "text": "our job"}
        assert stack_dump.ask_ras(address, time.monotonic() + PATIENCE, [os.getpid()]) is None
    finally:
        for process in (theirs, ours):
            process.kill()
            process.communicate()


def test_what_nccl_ras_has_not_said_in_time_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def one() -> None:
            connection, _ = listener.accept()
            with connection:
                for reply in (b"OK\n", b"OK\n", b"Job summary"):
                    connection.recv(1024)
                    connection.sendall(reply)
                connection.recv(1024)  # until the other one goes

        thread = threading.Thread(target=one, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        said = stack_dump.ask_ras(address, time.monotonic() + 0.5, [os.getpid()])
        thread.join(PATIENCE)
    assert said is not None
    assert said["text"].startswith("Job summary\n(NCCL RAS had printed no more")


def test_the_ranks_say_where_nccl_ras_listens(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    address, _, thread = serve(RAS.encode())
    monkeypatch.setattr(stack_dump, "RAS_ADDR", address)
    monkeypatch.setattr(stack_dump, "below", lambda pid, table: [os.getpid()])  # as if it were a child of the rank
    process = start(WAITS)
    found = stack_dump.collect({"0": {"pid": process.pid}})
    thread.join(PATIENCE)
    answers = dump.Answers()
    answers.add(dump.Answer(host="a", t=found["t"], ranks={0: found["ranks"]["0"]}, ras=found["ras"]))
    summary = dump.compose("run", "", answers, {}, "asked", found["t"]).summary
    assert summary["ras"] == {"a": address}
    assert [finding["kind"] for finding in summary["findings"]] == ["ras"]


def test_no_nccl_ras() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    assert stack_dump.ask_ras(address, time.monotonic() + 5, [os.getpid()]) is None
    assert stack_dump.ask_ras("nonsense", time.monotonic() + 5, []) is None
    assert evidence.ras_problems("NCCL version 2.24.1\n\nErrors\n======\n\nWarnings\n========\n\n") == []


def test_what_faulthandler_says() -> None:
    """As Python 3.8 to 3.14 write it; from 3.13 on some platforms with the thread's name."""
    text = 'Thread 0x00007f01 [worker] (most recent call first):\n  File "/x/a b.py", line 3 in work\n\n'
    text += 'Current thread 0x00007f02 (most recent call first):\n  File "/x/job.py", line ??? in <module>\n'
    assert stack_dump.stacks(text) == [
        {"name": "worker", "main": False, "frames": [["/x/a b.py", 3, "work"]]},
        {"name": "0x00007f02", "main": True, "frames": [["/x/job.py", 0, "<module>"]]},
    ]
