"""Forms of real logs: labels of platforms, harmless warnings of runs that went on, slow ranks, whose failure it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit.diagnosis.catalogue import BY_ID, ENTRIES
from ddpkit.diagnosis.decide import LogAnalysis, analyze_log

TRACE = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 40, in <module>
    main()
  File "/home/me/train.py", line 33, in main
    loss = step(batch)
  File "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1511, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
ValueError: bad batch 7
"""
TIMEOUT = (
    "[rank{0}]:[E1120 10:30:00.1 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800021 milliseconds"
)


def of(text: str) -> LogAnalysis:
    return analyze_log([("log", text)])


def steps(number: int) -> str:
    return "".join(f"step {step} loss {1 / (step + 1):.3f}\n" for step in range(number))


# By its platform: the label of line N, the rank and the host in it.
LABELS: dict[str, tuple[Callable[[str, int], str], int | None, str]] = {
    "kubectl --timestamps": (lambda line, n: f"2024-05-01T10:00:0{n}.123456789Z {line}", None, ""),
    "kubectl --prefix": (lambda line, n: f"[pod/worker-0/pytorch] {line}", None, "worker-0"),
    "CRI": (lambda line, n: f"2024-05-01T10:00:0{n}.123456789+02:00 stderr F {line}", None, ""),
    "date in brackets": (lambda line, n: f"[2024-05-01 10:00:0{n}] {line}", None, ""),
    "date and comma": (lambda line, n: f"2024-05-01 10:00:0{n},123 {line}", None, ""),
    "clock": (lambda line, n: f"[10:00:0{n}] {line}", None, ""),
    "CloudWatch tail": (lambda line, n: f"2024-05-01T10:00:0{n}.000000+00:00 algo-1-171456 {line}", None, "algo-1"),
    "SageMaker": (lambda line, n: f"[1,mpirank:3,algo-1]<stderr>:{line}", 3, "algo-1"),
    "mpirun": (lambda line, n: f"[1,3]<stderr>:{line}", 3, ""),
    "prterun": (lambda line, n: f"[prterun-n1-123@1,3]<stderr>: {line}", 3, ""),
    "Horovod": (lambda line, n: f"Wed May  1 10:00:0{n} 2024[3]<stderr>:{line}", 3, ""),
    "compose": (lambda line, n: f"worker-1  | {line}", None, "worker-1"),
    "quote": (lambda line, n: f"> {line}", None, ""),
    "four blanks": (lambda line, n: f"    {line}", None, ""),
    "pdsh": (lambda line, n: f"node2: {line}", None, "node2"),
    "pdsh, addresses": (lambda line, n: f"10.0.0.2: {line}", None, "10.0.0.2"),
    "DeepSpeed over pdsh": (lambda line, n: f"worker-1: [rank5]: {line}", 5, "worker-1"),
    "SkyPilot": (lambda line, n: f"(worker1, rank=1, pid=4711, ip=10.0.0.2) {line}", 1, "10.0.0.2"),
    "torchx": (lambda line, n: f"trainer/0 {line}", None, "trainer/0"),
    "journal": (lambda line, n: f"May 01 10:00:0{n} node7 train[4711]: {line}", None, "node7"),
    "srun and time": (lambda line, n: f"2024-05-01T10:00:0{n}Z  3: {line}", 3, ""),
    "srun and torch": (lambda line, n: f" 7: [rank80]: {line}", 80, ""),
    "srun and torchrun": (lambda line, n: f" 7: [default1]: {line}", None, ""),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_label_does_not_take_a_tracebacks_indentation(name: str) -> None:
    label, rank, host = LABELS[name]
    lines = ["step 1 loss 0.3", *TRACE.splitlines(), "cleaning up"]
    first = of("\n".join(label(line, number) for number, line in enumerate(lines))).first
    assert first is not None
    assert "ValueError: bad batch 7 at /home/me/train.py:33 in main" in first.cause
    assert (first.speaker.rank, first.speaker.host) == (rank, host)


def test_a_long_line_is_quoted_around_its_error() -> None:
    first = of(
        f"{'#' * 900} slurmstepd: error: *** JOB 17 ON node1 CANCELLED AT 2024-05-01T10 DUE TO TIME LIMIT ***\n"
    ).first
    assert first is not None
    assert "DUE TO TIME LIMIT" in first.text


@pytest.mark.parametrize(
    ("line", "rank", "host"),
    [
        ("[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", None, ""),
        ("n7:4:9 [5] transport/nvls.cc:379 (nvlsAllocateMem) NCCL WARN Cuda failure 401 'not here'", None, "n7"),
        ("[3] n7:4:9 [5] transport/nvls.cc:379 NCCL WARN Cuda failure 401 'not here'", 3, "n7"),
    ],
)
def test_the_number_of_a_gpu_in_a_line_of_nccl_is_no_rank(line: str, rank: int | None, host: str) -> None:
    first = of(f"starting\n{line}\n").first
    assert first is not None
    assert (first.speaker.rank, first.speaker.host) == (rank, host)


WARNINGS = {
    "errno 97": "[W1120 10:00:00.1 socket.cpp:200] [c10d] The client socket cannot be initialized to connect to "
    "[localhost]:29500 (errno: 97 - Address family not supported by protocol).",
    "errno 99": "[W socket.cpp:697] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99 - "
    "Cannot assign requested address).",
    "errno 111": "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node1]:29500 (errno: 111 - "
    "Connection refused).",
    "10049": "[W C:\\cb\\socket.cpp:663] [c10d] The client socket has failed to connect to [PC]:29500 (system error: "
    "10049 - The requested address is not valid in its context.).",
    "gai": "[W socket.cpp:697] [c10d] The IPv6 network addresses of (node1, 29500) cannot be retrieved (gai error: -2 "
    "- Name or service not known).",
    "torchvision": "/x/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension: '/x/image.so: "
    "undefined symbol: _ZN3c10'",
    "libibverbs": "h:1:1 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]",
    "login shell": "bash: module: command not found",
    "NCCL INFO": "node1:1:9 [3] NCCL INFO Call to connect to 10.0.0.2<4711> returned Connection refused, retrying",
    "logged import": "WARNING:root:no flash_attn: ModuleNotFoundError: No module named 'flash_attn'",
    "skipped batch": "WARNING: loss is nan, skipping this batch",
    "retried": "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB. Retrying with a smaller batch",
    "SLURM waits": "srun: Job 17 step creation temporarily disabled, retrying (Requested nodes are busy)",
    "git": "fatal: not a git repository (or any of the parent directories): .git",
    "matplotlib": "mkdir -p failed for path /home/me/.config: [Errno 13] Permission denied: '/home/me/.config'",
    "a count": "gpu0: 0 uncorrectable ECC errors, 0 errors total",
    "ignored": "Exception ignored in: <function Loader.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    '  File "/x/site-packages/torch/utils/data/dataloader.py", line 1478, in __del__\n    self._shutdown()\n'
    "AssertionError: can only test a child process",
    "caught": TRACE.replace('  File "/home/me/train.py", line 40, in <module>\n    main()\n', "").strip(),
}
ENDS = ("Training finished", "Done.", "", "`Trainer.fit` stopped: `max_epochs=3` reached.")


@pytest.mark.parametrize("name", WARNINGS)
def test_what_a_run_survived_is_no_cause_also_alone(name: str) -> None:
    for end in ENDS:
        result = of(f"starting\n{WARNINGS[name]}\n{steps(39)}{end}\n")
        assert result.first is None, end
        assert result.first_alarm is None
        assert result.healthy


@pytest.mark.parametrize("name", sorted({*WARNINGS} - {"caught"}))
def test_what_a_quiet_run_survived_is_no_cause(name: str) -> None:
    for end in filter(None, ENDS):
        result = of(f"starting\n{WARNINGS[name]}\n{end}\n")
        assert result.first is None, end
        assert result.healthy


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_does_not_push_the_failure_away(name: str) -> None:
    oom = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"
    first = of(f"{WARNINGS[name]}\n{steps(39)}{oom}\n").first
    assert first is not None
    assert (first.id, first.speaker.rank) == ("cuda-out-of-memory", 2)


def test_a_traceback_above_progress_that_was_written_at_the_end_is_the_cause() -> None:
    """Standard output in a file is written when Python ends, below the traceback on standard error."""
    first = of(TRACE + steps(39)).first
    assert first is not None
    assert first.id == "own-exception"


SURE = {
    "own-exception": TRACE,
    "cuda-out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total",
    "lightning-2-removed": "TypeError: Trainer.__init__() got an unexpected keyword argument 'gpus'",
}


@pytest.mark.parametrize("name", SURE)
@pytest.mark.parametrize("end", ["Job finished at Fri May  1 10:00:00 UTC 2024", "Training finished", "Done!"])
def test_the_last_line_of_a_job_script_is_no_sign_of_health(name: str, end: str) -> None:
    first = of(f"{SURE[name].strip()}\n{end}\n").first
    assert first is not None
    assert first.id == name


@pytest.mark.parametrize(
    "line",
    [
        "This is not an error, but may impair performance.",
        "validation error: 0.031",
        "tests/x.py::test_error_handling PASSED\n===== 2 passed in 3.21s =====",
    ],
)
def test_words_of_an_error_in_a_healthy_log_are_not_quoted(line: str) -> None:
    result = of(f"starting\n{line}\n")
    assert (result.first, result.first_alarm) == (None, None)


WORK = {
    "map": "Map (num_proc=8):  45%|####5     | 45000/100000 [30:00<36:40, 25.0 examples/s]",
    "tokenizer": "Running tokenizer on dataset:  12%|#2  | 12/100 [29:59<3:00:00, 120s/it]",
    "save": "Saving model checkpoint to /nfs/out/checkpoint-500",
    "DeepSpeed": "[2024-05-01 10:00:00,1] [INFO] [logging.py:96:log_dist] [Rank 0] Saving /o/model_states.pt...",
    "evaluate": "***** Running Evaluation *****",
    "Megatron": " > WARNING: could not find index map files, building the indices on rank 0 ...",
    "download": "Downloading shards:  20%|##  | 1/5 [28:00<2:00:00, 1700s/it]",
}


@pytest.mark.parametrize("name", WORK)
def test_a_rank_is_slow_not_dead(name: str) -> None:
    first = of(f"step 1 loss 0.3\n{WORK[name]}\n{TIMEOUT.format(1)}\n{TIMEOUT.format(2)}\n").first
    assert first is not None
    assert first.id == "slow-rank"
    assert "timeout" in first.fix
    trained = of(f"{WORK[name]}\n{steps(30)}{TIMEOUT.format(1)}\n").first
    assert trained is not None
    assert trained.id == "collective-timeout"


def test_frames_of_a_package_are_not_the_users() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/opt/x/bin/deepspeed", line 6, in <module>\n    main()\n'
        '  File "/src/deepspeed/launcher/runner.py", line 350, in main\n    parse()\nValueError: strange option\n'
    )
    first = of(text).first
    assert first is not None
    assert first.cause.startswith("an exception inside deepspeed: ValueError: strange option")
    assert "line 350" not in first.fix


def test_the_deciding_line_above_a_generic_one() -> None:
    first = of("bash: orted: command not found\nORTE was unable to reliably start one or more daemons.\n").first
    assert first is not None
    assert first.id == "mpi-daemon-missing"
    text = "Failed to initialize NVML: Driver/library version mismatch\n" + TRACE.replace(
        "ValueError: bad batch 7", "ImportError: libcuda.so.1: cannot open shared object file: No such file"
    )
    first = of(text).first
    assert first is not None
    assert first.id == "driver-library-mismatch"


def test_rank_and_host_of_a_launchers_line() -> None:
    first = of(
        "slurmstepd: error: Detected 3 oom_kill events in StepId=25010.0. Some of the step tasks were OOM Killed.\n"
        "srun: error: nid001277: tasks 1-3: Out Of Memory\n"
    ).first
    assert first is not None
    assert first.speaker.describe() == "ranks 1-3 on nid001277"
    assert first.probe.startswith("sacct -j 25010 ")
    first = of("mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 9 (Killed).\n").first
    assert first is not None
    assert (first.id, first.speaker.describe()) == ("killed", "rank 1 on node1")


def test_only_filled_placeholders() -> None:
    """Without any value, a text has words in place of each name."""
    from ddpkit.diagnosis.catalogue.entry import filled

    for entry in ENTRIES:
        for text in (entry.cause, entry.probe, entry.fix):
            assert "{host" not in filled(text, {})
    assert filled(BY_ID["port-in-use"].probe, {}) == "ss -ltnp"
    assert filled(BY_ID["port-in-use"].probe, {"port": "29500"}) == "ss -ltnp 'sport = :29500'"


# ---- the command


def test_other_causes_are_also_or_later(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"bash: module: command not found\n{TRACE}\n[Errno 28] No space left on device\n")
    shown = ddpkit("explain", "a.log").stdout
    assert "also, line 1: bash: module: command not found" in shown
    assert "later, line 11: [Errno 28] No space left on device" in shown


def test_a_binary_file_in_a_directory_is_left_out(ddpkit: DDPKIT, tmp_path: Path) -> None:
    logs = tmp_path / "out"
    logs.mkdir()
    (logs / "a.log").write_bytes(b"\x7fELF\x02\x01\x00\x00" * 100)
    (logs / "b.log").write_text(TRACE)
    done = ddpkit("explain", "out")
    assert done.returncode == 0
    assert "ValueError: bad batch 7" in done.stdout.splitlines()[0]
    assert "a.log is not text, and is left out" in done.stderr


def test_without_an_argument_the_newest_run_is_explained(ddpkit: DDPKIT, tmp_path: Path) -> None:
    refused = ddpkit("explain")
    assert refused.returncode == 121
    assert "no run of this project" in refused.stderr
    (tmp_path / "job.py").write_text("raise ValueError('bad batch 7')\n")
    failed = ddpkit("launch", "-n", "1", "--", "job.py")
    assert failed.returncode == 1
    done = ddpkit("explain")
    assert done.returncode == 0
    assert "ValueError: bad batch 7" in done.stdout


# ---- printed texts: a head with the label, a line ---, the log

PRINTED = sorted((Path(__file__).parent / "cases/printed").glob("*.txt"))


@pytest.mark.parametrize("path", PRINTED, ids=lambda path: path.stem)
def test_a_printed_text_gets_its_cause_rank_and_host(path: Path) -> None:
    head, _, text = path.read_text(encoding="utf-8").partition("---\n")
    label = dict(line.split(": ", 1) for line in head.splitlines())
    result = of(text)
    first = result.first if result.first is not None and result.first.kind != "hint" else None
    assert (first.id if first else "not known" if result.first_alarm else "healthy") in label["cause"].split(" or ")
    if first is not None and "rank" in label:
        assert first.speaker.rank == int(label["rank"])
    if first is not None and "host" in label:
        assert first.speaker.host == label["host"]


def test_blanks_behind_a_line_do_not_hide_it() -> None:
    """A line that was copied from a terminal can have its width."""
    line = "Indexing.cu:1146: indexSelectLargeIndex: block: [640,0,0], thread: [1,0,0] Assertion `index < size` failed."
    first = analyze_log([("log", f"{line}{' ' * 80}\nbye\n")]).first
    assert first is not None
    assert first.id == "device-assert"


# How a page or a viewer shows a log.
POSTS: dict[str, Callable[[str], str]] = {
    "quoted": lambda text: "I get this:\n\n" + "".join(f"> {line}\n" for line in text.split("\n")) + "\nWhy?\n",
    "indented": lambda text: "I get this:\n\n" + "".join(f"    {line}\n" for line in text.split("\n")) + "\nWhy?\n",
    "ticks": lambda text: "\n".join(f"`{line}`" for line in text.split("\n")),
}
POSTED = TRACE.replace("ValueError: bad batch 7", "RuntimeError: CUDA error: invalid device ordinal") + (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be wrong"
)


@pytest.mark.parametrize("form", POSTS)
def test_a_post_is_read_as_the_log_in_it(form: str) -> None:
    first = of(POSTS[form](POSTED)).first
    assert first is not None
    assert (first.id, first.traced) == ("invalid-device-ordinal", True)


def test_times_of_empty_lines_are_no_progress() -> None:
    text = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    stamped = (f"2024-05-01T10:00:{second:02d}.123Z {line}\n" for second, line in enumerate((text, "", "")))
    first = of("".join(stamped)).first
    assert first is not None
    assert first.id == "docker-daemon"


CRASH = """\
[node1:288505:0:296459] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x48)
==== backtrace (tid: 296459) ====
""" + "\n".join(f" {number}  /usr/lib/libucs.so.0(+0x2d4{number}a) [0x7fedc925c27{number}]" for number in range(8))


def test_the_frames_of_a_native_crash_are_no_column_of_numbers_and_no_progress() -> None:
    """Seen in NVIDIA/nccl#1996: the 11 of the signal was taken for the number of a line."""
    first = of(CRASH).first
    assert first is not None
    assert (first.id, first.number) == ("segfault", 1)
    assert "signal 11" in first.text


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("已杀死", "killed"),  # seen in danijar/dreamerv3#203
        ("train.sh: 行 3: 71 已杀死               python train.py", "killed"),
        ("Epoch 3: 20%| 11/56 [00:02<00:08,  5.02it/s]段错误 (核心已转储)", "segfault"),
        ("段错误（核心已转储）", "segfault"),
        ("已放弃 (核心已转储)", "aborted"),
    ],
)
def test_bash_reports_an_end_in_chinese(line: str, known: str) -> None:
    first = of(f"Writing metrics: scores.jsonl\n{line}\n").first
    assert first is not None
    assert first.id == known


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("#033[34mhostname: invalid option -- 'I'#033[0m", "deepspeed-hostname"),
        ("^[[31mKeyError: 'LOCAL_RANK'^[[0m", "local-rank-argument"),
        ("KeyError: &#39;LOCAL_RANK&#39;", "local-rank-argument"),
    ],
)
def test_colours_and_entities_as_text_are_left_out(line: str, known: str) -> None:
    first = of(f"starting\n{line}\n").first
    assert first is not None
    assert first.id == known
