"""`ddpkit explain`: the first cause, whoever launched, however many ranks speak at once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DDPKIT, PATIENCE

from ddpkit.diagnosis.decide import LogAnalysis, analyze_log

TRACE = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 40, in <module>
    main()
  File "/home/me/train.py", line 33, in main
    raise ValueError("bad batch 7")
ValueError: bad batch 7
"""
PEER = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 50, in <module>
    dist.all_reduce(loss)
  File "/usr/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 81, in wrapper
    return func(*args, **kwargs)
RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4711. This is typically caused \
by a remote worker crashing.
"""
SUMMARY = """\
Traceback (most recent call last):
  File "/usr/local/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/usr/lib/python3.11/site-packages/torch/distributed/run.py", line 892, in main
    run(args)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-20_17:02:52
  host      : node1
  rank      : 3 (local_rank: 3)
  exitcode  : -15 (pid: 4714)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4714
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_17:02:51
  host      : node2
  rank      : 5 (local_rank: 1)
  exitcode  : {code} (pid: 4712)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def of(text: str) -> LogAnalysis:
    return analyze_log([("log", text)])


def labelled(label: str, text: str) -> list[str]:
    return [label + line for line in text.splitlines()]


LABELS = {
    "torch": "[rank5]: ",
    "srun": "5: ",
    "srun, many": " 5: ",
    "ddpkit": "[5 node2] ",
    "mpirun": "[1,5]<stderr>:",
    "timestamps": "2026-11-20T17:02:51.123456789Z [rank5]: ",
    "determined": "[2024-02-27T21:35:28.419846Z] fa88a9df [rank=5] || ",
    "Ray": "(TrainWorker rank=5, pid=4711, ip=10.0.0.2) ",
    "colours": "\x1b[36m[5 node2] \x1b[0m",
}


@pytest.mark.parametrize("label", LABELS)
def test_the_label_of_a_launcher_is_the_speaker(label: str) -> None:
    others = labelled(LABELS[label].replace("5", "3"), PEER)
    own = labelled(LABELS[label], TRACE)
    lines = [line for pair in zip(own, others, strict=False) for line in pair] + others[len(own) :]
    first = of("\n".join(lines)).first
    assert first is not None
    assert first.text == "ValueError: bad batch 7"
    assert first.speaker.rank == 5
    assert "/home/me/train.py:33 in main" in first.cause


def test_local_ranks_hosts_and_line_ends() -> None:
    for label, who in (
        ("[default1]:", "local rank 1"),
        ("node2: ", "node2"),
        ("node2: [rank5]: ", "rank 5 on node2"),
        ("stderr: [rank5]: ", "rank 5"),
        ("[torchrun node2] ", "node2"),
    ):
        first = of("\r\n".join(labelled(label, TRACE))).first
        assert first is not None, label
        assert first.text == "ValueError: bad batch 7"
        assert first.speaker.describe() == who


def test_a_logger_before_each_line_or_before_the_first() -> None:
    every = labelled("2022-12-28 16:13:02 [ERROR]  ", TRACE)
    once = f"2024-05-01 12:00:00,123 - trainer - ERROR - it broke\n{TRACE}2024-05-01 12:00:01,123 - INFO - bye\n"
    bar = f" 12%|█▏        | 12/100 [00:01<00:30,  3.1it/s]{TRACE}"
    for text in ("\n".join(every), once, bar):
        first = of(text).first
        assert first is not None
        assert first.text == "ValueError: bad batch 7"


def test_a_cascade_of_16_ranks_has_one_cause() -> None:
    """Rank 11 raises; the others lose it, then NCCL's watchdog, torchrun and srun all tell of it; lines are mixed."""
    draw = random.Random(1)
    nccl = (
        "[rank{r}]:[E1120 17:02:5{s}.123456789 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
        "600013 milliseconds before timing out.\n"
        "[rank{r}]:[E1120 17:02:5{s}.223456789 ProcessGroupNCCL.cpp:577] [Rank {r}] Some NCCL operations have failed "
        "or timed out.\n"
        "[rank{r}]: terminate called after throwing an instance of 'c10::DistBackendError'"
    )
    queues = [labelled(f"[rank{rank}]: ", PEER) for rank in range(16) if rank != 11]
    queues += [nccl.format(r=rank, s=rank % 10).splitlines() for rank in range(16) if rank != 11]
    queues.append(labelled("[rank11]: ", TRACE))
    mixed = ["step 10 loss 0.5"]
    while queues:
        queue = draw.choice(queues)
        mixed.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    mixed += SUMMARY.format(code=1).splitlines()
    mixed += ["srun: error: node1: tasks 0-7: Exited with exit code 1", "srun: Terminating job step 12.0"]
    result = of("\n".join(mixed))
    assert result.first is not None
    assert (result.first.text, result.first.speaker.rank) == ("ValueError: bad batch 7", 11)
    assert result.others == []
    kinds = {found.id for found in result.consequences}
    assert kinds >= {"peer-died", "collective-timeout", "watchdog-ends-process", "child-failed", "launcher-summary"}
    assert all(mixed[found.number - 1] for found in result.consequences)


def test_the_rank_that_did_not_wait_is_named() -> None:
    waited = (
        "[rank{0}]:[E626 05:06:3{0}.929096625 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=120049, OpType=_ALLGATHER_BASE)"
    )
    text = "[rank2]: loading shard 17\n" + "\n".join(waited.format(rank) for rank in (1, 0, 3))
    result = of(text + "\nsrun: error: node1: tasks 0-3: Exited with exit code 1\n")
    assert result.first is not None
    assert result.first.id == "collective-timeout"
    assert result.first.speaker.rank == 2  # the others waited for it
    assert result.first.reporter is not None
    assert result.first.reporter.rank == 0  # the earliest time
    assert result.silent_ranks == [2]


CALLED = (
    "[E ProcessGroupNCCL.cpp:475] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=13807, "
    "OpType=ALLREDUCE, NumelIn={}, NumelOut={}, Timeout(ms)=1800000) ran for 1800221 milliseconds before timing out.\n"
)


def test_a_cause_stays_before_a_later_one_though_a_death_follows_both() -> None:
    killed = (
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=14765404.batch. Some of your processes may have "
        "been killed by the cgroup out-of-memory handler.\n"
    )
    raised = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    go()\nKeyError: 1\n'
    for text, expected in (
        (killed + raised + "Killed\n", "slurm-out-of-memory"),
        ("Killed\n" + raised + killed, "slurm-out-of-memory"),  # it is reported after the death that it explains
        (raised + killed, "own-exception"),
    ):
        first = of(text).first
        assert first is not None
        assert first.id == expected


OWN_FAILURE = (
    "[rank0]:[E816 01:09:38.266897 ProcessGroupNCCL.cpp:621] [Rank 0] Some NCCL operations have failed or timed out. "
    "Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
)


@pytest.mark.parametrize("ray", ["", " [repeated 3x across cluster]"])
def test_a_rank_whose_own_collective_failed_has_waited(ray: str) -> None:
    """Ray prints one of several equal lines: a rank without a line can have had one."""
    text = f"{OWN_FAILURE}{ray}\n" + CALLED.format(2, 1, 1)
    first = of(text).first
    assert first is not None
    assert (first.id, first.speaker.rank, of(text).silent_ranks) == ("collective-timeout", 2, [])


def test_an_error_that_is_cut_does_not_show_whether_its_rank_waited() -> None:
    waited = (
        "[rank{0}]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=4486, OpType=ALLTOALL)\n"
    )
    cut = "[rank6]:[E419 10:42:28.887728774 ProcessGroupNCCL.cpp"
    assert of(waited.format(7) + waited.format(3) + cut).silent_ranks == []
    assert of(waited.format(7) + "[rank6]: step 3\n" + waited.format(3) + cut).silent_ranks == []


def test_the_local_rank_of_the_old_launchers_summary() -> None:
    error = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: no\n'
    command = "Command '['python', 'train.py', '--local_rank=1']'"
    summary = f"subprocess.CalledProcessError: {command} returned non-zero exit status 1."
    first = of(error + summary).first
    assert first is not None
    assert (first.text, first.speaker.local) == ("ValueError: no", 1)


def test_ranks_without_labels_through_each_other() -> None:
    one, two = TRACE.splitlines(), PEER.splitlines()
    mixed = [line for pair in zip(two, one, strict=True) for line in pair]
    first = of("\n".join(mixed)).first
    assert first is not None
    assert first.text == "ValueError: bad batch 7"


def test_many_ranks_with_the_same_cause_are_one() -> None:
    oom = "[rank{}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"
    result = of("\n".join(oom.format(rank) for rank in range(8)))
    assert result.first is not None
    assert (result.first.id, result.first.speaker.rank, len(result.alike)) == ("cuda-out-of-memory", 0, 7)
    assert result.others == []


CHAINS = {
    "direct": (
        "The above exception was the direct cause of the following exception:",
        "KeyError: 'x' at a.py:1 (it ended as RuntimeError: cannot load)",
    ),
    "during": (
        "During handling of the above exception, another exception occurred:",
        "RuntimeError: cannot load at b.py:2 (while handling KeyError: 'x')",
    ),
}


@pytest.mark.parametrize("link", CHAINS)
@pytest.mark.parametrize("label", ["", "[rank3]: "])
def test_chained_exceptions(link: str, label: str) -> None:
    text = (
        'Traceback (most recent call last):\n  File "a.py", line 1\n    d["x"]\n    ~^^^^^\n'
        f"KeyError: 'x'\n\n{CHAINS[link][0]}\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2\n    f()\nRuntimeError: cannot load\n'
    )
    result = of("\n".join(labelled(label, text)))
    assert result.first is not None
    assert result.first.cause.partition("own exception: ")[2] == CHAINS[link][1]
    assert result.others == []


def test_an_exception_of_a_worker_inside_anothers_message() -> None:
    text = (
        'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    for batch in loader:\n'
        "ValueError: Caught ValueError in DataLoader worker process 0.\n"
        'Original Traceback (most recent call last):\n  File "/x/site-packages/torch/worker.py", line 1, in loop\n'
        '    data = fetch()\n  File "data.py", line 77, in __getitem__\n    raise ValueError("no label")\n'
        "ValueError: no label\n"
    )
    first = of(text).first
    assert first is not None
    assert "ValueError: no label at data.py:77 in __getitem__" in first.cause


def test_a_deciding_warning_is_not_repeated() -> None:
    text = (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173\n"
        "OSError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
    )
    result = analyze_log([("log", text)])
    assert result.first is not None
    assert (result.first.id, result.alike) == ("driver-library-mismatch", [])


def test_an_exception_that_came_from_another_process() -> None:
    """Ray, and multiprocessing: frames follow the line of an exception, and another exception follows them."""
    text = (
        'Traceback (most recent call last):\n  File "/home/me/main.py", line 44, in main\n    ray.get(task.remote())\n'
        "ray.exceptions.RayTaskError(KeyError): ray::main_task() (pid=55440, ip=10.0.0.1)\n"
        '  File "/home/me/data.py", line 55, in __init__\n    self.x = table["x"]\nKeyError: \'x\'\n'
    )
    first = of(text).first
    assert first is not None
    assert "KeyError: 'x' at /home/me/data.py:55 in __init__" in first.cause


def test_an_exception_without_its_traceback() -> None:
    first = of("AttributeError: 'RandomSampler' object has no attribute 'set_start'\n" + SUMMARY.format(code=1)).first
    assert first is not None
    assert first.id == "own-exception"
    assert of("MeanSquaredError: 0.25\n").first is None


def test_the_scripts_own_syntax_error() -> None:
    text = '[rank2]:   File "/home/me/train.py", line 3\n[rank2]:     def f(\n[rank2]:          ^\n'
    first = of(text + "[rank2]: SyntaxError: '(' was never closed\n").first
    assert first is not None
    own = "rank 2's own exception: SyntaxError: '(' was never closed at /home/me/train.py:3"
    assert first.cause.partition(". Usual reason: ")[0] == own


@pytest.mark.parametrize(("code", "name"), [(-9, "killed"), (-7, "bus-error"), (-11, "segfault"), (1, "child-failed")])
def test_torchruns_table(code: int, name: str) -> None:
    result = of(SUMMARY.format(code=code))
    assert result.first is not None
    assert result.first.id == name
    assert (result.first.speaker.rank, result.first.speaker.host) == (5, "node2")
    assert result.others == []


def test_a_death_that_torchrun_tells_twice_is_whose_the_table_says() -> None:
    line = "E1120 17:59:01.1 4711 torch/api.py:986] failed (exitcode: -9) local_rank: 1 (pid: 4712) of binary: python\n"
    first = of(line + SUMMARY.format(code=-9)).first
    assert first is not None
    assert (first.id, first.speaker.describe()) == ("killed", "rank 5 on node2")
    assert first.probe == "on node2: dmesg -T | grep -i 'killed process'"


def test_a_traceback_in_torchruns_table() -> None:
    inside = "".join(f"  {line}\n" for line in TRACE.splitlines()).replace("  Traceback", "  traceback : Traceback", 1)
    text = SUMMARY.format(code=1)
    head, _, tail = text.rpartition("  traceback : To enable")
    first = of(head + inside + tail.partition("\n")[2]).first
    assert first is not None
    assert first.text == "ValueError: bad batch 7"


def test_the_reason_behind_a_class_of_nccl_is_a_line_of_another_rank() -> None:
    text = (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1691, internal error\n"
        "[rank0]: ncclInternalError: Internal check failed.\n"
        "node2:4711:4799 [1] misc/ibvwrap.cc:235 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate "
        "memory\n"
    )
    result = of(text)
    assert result.first is not None
    assert (result.first.id, result.first.speaker.host) == ("memlock", "node2")
    assert {found.id for found in result.consequences} == {"nccl-error"}


def test_what_was_caught_and_logged_long_before_is_not_the_cause() -> None:
    went_on = "".join(f"step {step} loss 0.5\n" for step in range(200))
    first = of(TRACE + went_on + "RuntimeError: CUDA error: device-side assert triggered\n").first
    assert first is not None
    assert first.id == "device-assert"
    first = of(TRACE + "cleaning up\n" + "RuntimeError: CUDA error: device-side assert triggered\n").first
    assert first is not None
    assert first.id == "own-exception"


def test_noise_of_a_login_shell_gives_way_to_a_cause() -> None:
    """A `.bashrc` that calls what is not there has ended no training."""
    shell = "bash: module: command not found\n"
    first = of(shell + TRACE).first
    assert first is not None
    assert first.id == "own-exception"
    first = of(shell).first
    assert first is not None
    assert first.id == "modules-not-loaded"


def test_hints_stand_beside_a_failure_that_they_may_explain() -> None:
    hint = (
        "[rank0]:[W1120 17:02:51.1 ProcessGroupNCCL.cpp:4561] using GPU 0 to perform barrier as devices used by this "
        "process are currently unknown."
    )
    result = of(hint + "\n" + TRACE)
    assert result.first is not None
    assert result.first.id == "own-exception"
    assert result.hints == []  # the cause is certain
    alone = of(hint).first
    assert alone is not None
    assert alone.kind == "hint"


def test_of_several_logs_the_earliest_time_counts() -> None:
    early = "2026-11-20 17:02:51,100 rank 5: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    late = "2026-11-20 17:02:59,100 error: [Errno 28] No space left on device\n"
    first = analyze_log([("rank_0.log", late), ("rank_5.log", early)]).first
    assert first is not None
    assert (first.file, first.speaker.rank) == ("rank_5.log", 5)


@pytest.mark.parametrize(
    "text",
    [
        "all is well\nepoch 3 loss 0.1\n",
        "INFO: finished\nTraceback\n",
        "Traceback (most recent call last):\n  cut off here",
        "frobnicator: error 17 while twisting\n",
        "harmless: The hostname of the client socket cannot be retrieved. err=-3\n",
    ],
)
def test_what_is_not_known_is_not_guessed(text: str) -> None:
    assert of(text).first is None


def test_any_bytes_are_taken() -> None:
    draw = random.Random(2)
    for _ in range(20):
        text = bytes(draw.randrange(256) for _ in range(2000)).decode("utf-8", "replace")
        of(text + TRACE.replace("\n", "\n" + text[:5]))
    of("[" * 5000 + "Traceback (most recent call last):" + "]" * 5000 + "\n" + "(" * 9000 + "\n  File")


# ---- the command


def piped(text: str, *args: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "ddpkit", "explain", *args, "-"]
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_the_command(ddpkit: DDPKIT, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join(labelled("[rank5]: ", TRACE)) + "\n" + SUMMARY.format(code=1))
    done = ddpkit("explain", str(log))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "line 6, rank 5 on node2: ValueError: bad batch 7"  # the host is in torchrun's table
    assert lines[1].startswith("cause: rank 5's own exception: ValueError: bad batch 7 at /home/me/train.py:33")
    assert lines[2] == "hint: look at /home/me/train.py, line 33"
    assert "only consequences:" in lines
    found = json.loads(ddpkit("explain", "--json", str(log)).stdout)
    assert found["known"] is True
    assert (found["first"]["rank"], found["first"]["line"], found["first"]["id"]) == (5, 6, "own-exception")
    assert {each["id"] for each in found["consequences"]} >= {"child-failed"}


def test_standard_input_and_what_is_not_known() -> None:
    done = piped("x.py: frobnicator error 17\n")
    assert done.returncode == 0
    assert done.stdout.startswith("not known")
    assert "line 1: x.py: frobnicator error 17" in done.stdout
    assert json.loads(piped("hello\n", "--json").stdout)["known"] is False


def test_a_log_without_a_failure(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """A run that went well was called `not known`, and its lines were counted one too many."""
    assert piped("hello\nworld\n").stdout == "no failure in this log (2 lines), and no training step: it may be cut\n"
    assert piped("hello\nworld").stdout == "no failure in this log (2 lines), and no training step: it may be cut\n"
    assert piped("step 1\nstep 2\nstep 3\n").stdout == "no failure in this log (3 lines)\n"
    assert json.loads(piped("hello\n", "--json").stdout)["lines"] == 1
    (tmp_path / "ok.py").write_text("print('all good')\n")
    assert ddpkit("launch", "-n", "2", "--", "ok.py").returncode == 0
    (folder,) = (tmp_path / "logs").iterdir()
    for name in (str(folder.relative_to(tmp_path)), folder.name):
        shown = ddpkit("explain", name).stdout
        assert shown.splitlines() == [f"run {folder.name} succeeded", "no failure in this log (4 lines)"]


def test_a_mistyped_option_is_not_about_the_local_rank() -> None:
    shown = piped("train.py: error: unrecognized arguments: --lrr 3\n").stdout
    assert "cause: the script does not accept its arguments: --lrr 3\n" in shown
    assert "local" not in shown.replace("localhost", "")
    assert "LOCAL_RANK" in piped("train.py: error: unrecognized arguments: --x --local-rank=0\n").stdout


def test_logs_that_cannot_be_read(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    (tmp_path / "blank.log").write_text(" " * 9000)
    (tmp_path / "late.log").write_text(" " * 9000 + "\nValueError: bad batch 7\n")
    (tmp_path / "core").write_bytes(b"\x7fELF\x02\x01\x00\x00" * 100)
    (tmp_path / "old.log.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"x" * 100)
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("empty.log", "is empty"),
        ("blank.log", "has only blank lines"),
        ("core", "is not text"),
        ("old.log.gz", "is compressed"),
        ("folder", "holds no log"),
        ("missing.log", "not found"),
    ):
        done = ddpkit("explain", str(tmp_path / name))
        assert done.returncode == 121
        assert words in done.stderr
        assert "hint: " in done.stderr
    assert ddpkit("explain").returncode == 121
    assert "ValueError: bad batch 7" in ddpkit("explain", str(tmp_path / "late.log")).stdout


def test_a_folder_and_several_files(ddpkit: DDPKIT, tmp_path: Path) -> None:
    folder = tmp_path / "attempt_0"
    for rank, text in ((0, PEER), (1, TRACE)):
        (folder / str(rank)).mkdir(parents=True)
        (folder / str(rank) / "stderr.log").write_text(text)
    done = ddpkit("explain", str(tmp_path))
    assert done.stdout.splitlines()[0] == f"{folder}/1/stderr.log:6, local rank 1: ValueError: bad batch 7"
    done = ddpkit("explain", str(folder / "0" / "stderr.log"), str(folder / "1" / "stderr.log"))
    assert "ValueError: bad batch 7" in done.stdout.splitlines()[0]


def test_a_run_is_named_by_its_id(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("raise ValueError('bad batch 7')\n")
    failed = ddpkit("launch", "-n", "1", "--json", "--", "job.py")
    assert failed.returncode == 1
    record = json.loads(failed.stdout)
    assert "ValueError: bad batch 7 at " in record["verdict"]
    done = ddpkit("explain", record["run_id"])
    assert done.returncode == 0, done.stderr
    assert "rank 0 on " in done.stdout.splitlines()[0]


CANCELLED = "slurmstepd: error: *** JOB 123 ON n01 CANCELLED AT 2024-01-01T00:00:00 ***\n"
MEMBERS = "".join(f"initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/8\n" for rank in range(4))


def test_members_that_never_came_are_named() -> None:
    result = of("GPU available: True, used: True\n" + MEMBERS)
    assert result.first is not None
    assert result.first.id == "ranks-missing"
    assert result.first.cause.startswith("4 of 8 ranks joined. The others, 4, 5, 6, 7, did not start")
    waits = "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
    alone = of("start\n" + waits + "(world_size=2, worker_count=1, timeout=0:30:00)\n")
    assert alone.first is not None
    assert alone.first.cause.startswith("1 of 2 ranks joined")
    assert of(waits + "(world_size=2, worker_count=1, timeout=0:30:00)\nepoch 1 step 1 loss 2.3\n").first is None
    # Two launches that number their ranks alike.
    twice = of(MEMBERS + MEMBERS)
    assert twice.first is not None
    assert twice.first.id == "ranks-twice"
    assert twice.first.cause.startswith("ranks 0, 1, 2, 3 were started more than once, and the others of the 8 never")
    # The log of one node, which goes on below its members.
    assert of(MEMBERS + "distributed_backend=nccl\n").first is None
    assert of(MEMBERS.replace("/8", "/4")).first is None
    # The job was cancelled while the first rank waited.
    first = MEMBERS.partition("\n")[0].replace("/8", "/96") + "\n"
    ended = of(first + "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n" + CANCELLED)
    assert ended.first is not None
    assert ended.first.cause.startswith(
        "1 of 96 ranks joined. The others, 1, 2, 3, 4, 5, 6, 7, 8 and 87 more, did not start"
    )
    assert ended.consequences[0].id == "slurm-cancelled"
    trained = of(first + "epoch 1\n" + CANCELLED).first
    assert trained is not None
    assert trained.id == "slurm-cancelled"


TWO_LAUNCHERS = """\
Traceback (most recent call last):
  File "/opt/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py", line 54, in next_rendezvous
    self._store = TCPStore(  # type: ignore[call-arg]
RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
"""


def test_torchrun_in_each_task_of_a_node_is_named() -> None:
    """srun's report of a task other than the first, on one host, shows that torchrun ran in each."""
    for end, known in (
        ("srun: error: n01: task 1: Exited with exit code 1\n", "two-agents"),
        ("srun: error: n01: task 0: Exited with exit code 1\n", "port-in-use"),
        (
            "srun: error: n01: task 1: Exited with exit code 1\nsrun: error: n02: task 2: Exited with exit code 1\n",
            "port-in-use",
        ),
    ):
        result = of(TWO_LAUNCHERS + end)
        assert result.first is not None
        assert result.first.id == known


FULL = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    {call}
  File "/usr/lib/python3.11/{file}", line 336, in __init__
    {call}
OSError: {error}
"""
APART = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
SIZES = "The size of tensor a (8192384) must match the size of tensor b (262156288) at non-singleton dimension 0"


@pytest.mark.parametrize(
    ("file", "error", "known"),
    [
        ("multiprocessing/queues.py", "[Errno 28] No space left on device", "shm-full"),
        ("multiprocessing/synchronize.py", "[Errno 28] No space left on device", "shm-full"),
        ("site-packages/triton/runtime/cache.py", "[Errno 122] Disk quota exceeded", "triton-cache-full"),
        ("site-packages/triton/runtime/cache.py", "[Errno 28] No space left on device", "triton-cache-full"),
        ("shutil.py", "[Errno 28] No space left on device", "disk-full"),
        ("shutil.py", "[Errno 122] Disk quota exceeded", "quota"),
        ("torch/distributed/_shard/sharding_spec/api.py", "CUDA error: invalid device ordinal", "global-rank-as-gpu"),
        ("torch/distributed/distributed_c10d.py", "CUDA error: invalid device ordinal", "global-rank-as-gpu"),
        ("torch/cuda/__init__.py", "CUDA error: invalid device ordinal", "invalid-device-ordinal"),
        ("torch/optim/adamw.py", SIZES, "optimizer-step-sizes"),
        ("torch/nn/functional.py", SIZES, "optimizer-step-sizes"),  # 32 parts of one flat tensor
        ("torch/nn/functional.py", SIZES.replace("262156288", "262190000"), "shapes-differ"),
        ("torch/nn/functional.py", SIZES.replace("8192384", "81923"), "shapes-differ"),
        ("torch/distributed/distributed_c10d.py", "EOFError: Ran out of input", "object-collective-broken"),
        ("torch/serialization.py", "EOFError: Ran out of input", "checkpoint-broken"),
        ("deepspeed/runtime/zero/stage3.py", APART, "zero-offload-device"),
        ("torch/nn/functional.py", APART, "devices-differ"),
    ],
)
def test_the_place_of_an_error_shows_its_cause(file: str, error: str, known: str) -> None:
    first = of(FULL.format(file=file, error=error, call="start()")).first
    assert first is not None
    assert first.id == known


def test_of_two_warnings_the_reason_of_the_other_leads() -> None:
    first = of(
        "[W1008 23:40:22.836678340 socket.cpp:767] [c10d] The client socket has failed to connect to [node1]:50745 "
        "(errno: 22 - Invalid argument).\n"
        "[W1008 23:40:22.781961348 socket.cpp:767] [c10d] The IPv6 network addresses of (node1, 50745) cannot be "
        "retrieved (gai error: -2 - Name or service not known).\n"
    ).first
    assert first is not None
    assert first.id == "master-name-unknown"


def test_a_warning_of_torch_below_an_exception_is_no_part_of_its_message() -> None:
    warning = "[W1128 10:00:00.000001 socket.cpp:697] [c10d] The client socket has failed to connect to [n]:29500"
    own = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    go()\nKeyError: 1\n'
    first = of(f"{own}{warning} (errno: 111 - Connection refused).\n" * 2).first
    assert first is not None
    assert (first.id, first.text) == ("own-exception", "KeyError: 1")
