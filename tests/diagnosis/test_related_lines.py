"""Rules that need more than one line: a need that refers to a match, its context, bars of progress, wrapped lines."""

from __future__ import annotations

import pytest

from ddpkit.diagnosis.decide import LogAnalysis, analyze_log

EXISTS = "FileExistsError: [Errno 17] File exists: '/data/out'\n"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '{0}'\n"
WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:485] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
    "Timeout(ms)=1800000) ran for 1802246 milliseconds before timing out.\n"
)
STEPS = "".join(f"step {number} loss 0.{number}\n" for number in range(1, 6))
HUB = "'[Errno 101] Network is unreachable' thrown while requesting HEAD https://huggingface.co/gpt2/resolve/main/x\n"
OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def of(text: str) -> LogAnalysis:
    return analyze_log([("log", text)])


def first_id(text: str) -> str:
    first = of(text).first
    return "" if first is None else first.id


@pytest.mark.parametrize(
    ("below", "known"),
    [
        (MISSING.format("/data/out/logs"), "dangling-link"),
        (MISSING.format("/data/out/config.yaml"), "file-exists-race"),  # rank 0 has not written it yet
        (MISSING.format("/data/other/logs"), "file-exists-race"),
        ("", "file-exists-race"),
    ],
)
def test_a_directory_that_exists_and_does_not(below: str, known: str) -> None:
    assert first_id(EXISTS + below) == known


def test_the_direction_of_a_prefix() -> None:
    head = "RuntimeError: Error(s) in loading state_dict for Net:\n"
    keys = '\tMissing key(s) in state_dict: "{0}", "x". \n\tUnexpected key(s) in state_dict: "y", "{1}". \n'
    assert first_id(head + keys.format("module.a.weight", "a.weight")) == "checkpoint-without-prefix"
    assert first_id(head + keys.format("module.a.weight", "b.weight")) == "checkpoint-mismatch"
    turned = '\tMissing key(s) in state_dict: "a.w". \n\tUnexpected key(s) in state_dict: "_orig_mod.a.w". \n'
    assert first_id(head + turned) == "checkpoint-with-prefix"


def test_the_host_of_a_download_is_in_the_line_above() -> None:
    lines = 'Downloading: "https://a.example/x" to /x\nDownloading http://b.example/y to ./data\n'
    first = of(lines + "urllib.error.URLError: <urlopen error [Errno 110] Connection timed out>\n").first
    assert first is not None
    assert "b.example" in first.cause


@pytest.mark.parametrize(
    ("bar", "known"),
    [
        (" 35%|███▌      | 7381/20814 [30:01<57:14, 3.9MB/s]", "slow-rank"),
        (" 35%|███▌      | 7381/20814 [29:12<57:14, 3.9it/s]", "slow-rank"),
        (" 35%|███▌      | 7381/20814 [02:01<57:14, 3.9it/s]", "collective-timeout"),
        (" 35%|███▌      | 7381/20814 [1:30:01<57:14, 3.9it/s]", "collective-timeout"),
        ("Epoch 3:  35%|███▌      | 7381/20814 [30:01<57:14, 3.9it/s, loss=0.4]", "collective-timeout"),
        ("100%|██████████| 20814/20814 [30:01<00:00, 3.9it/s]", "collective-timeout"),
    ],
)
def test_a_bar_that_is_as_old_as_the_timeout(bar: str, known: str) -> None:
    assert first_id(f"{bar}\n{WATCHDOG}") == known


def test_a_warning_follows_a_bar_in_its_line() -> None:
    bar = "Tokenizing Prompts (num_proc=64):  92%|█████████▏| 328986/359152 [29:58<12:05, 41.59 examples/s]"
    warning = "[rank1]:[W516 14:34:56.854597329 socket.cpp:489] [c10d] waitForInput: socket SocketImpl(fd=79) timed out"
    first = of(f"{bar}{warning} after 1800000ms\n").first
    assert first is not None
    assert (first.id, first.values["work"][:18]) == ("slow-rank", "Tokenizing Prompts")


def test_a_wait_that_a_program_continues_after_is_no_failure() -> None:
    line = "[W516 14:34:56.85 socket.cpp:489] [c10d] waitForInput: socket SocketImpl(fd=79) timed out after 60000ms\n"
    assert first_id(line + STEPS) == ""
    assert first_id(STEPS + line) == "store-wait"


@pytest.mark.parametrize("label", ["", "[rank1]: "])
def test_rich_breaks_a_message_at_the_width_of_its_box(label: str) -> None:
    box = (
        "╭───── Traceback (most recent call last) ─────╮\n"
        "│ /app/train.py:12 in main                    │\n"
        "╰─────────────────────────────────────────────╯\n"
        "AssertionError: Check batch related parameters.\n"
        "train_batch_size is not equal to\n"
        "micro_batch_per_gpu\n"
        "bye\n"
    )
    first = of("".join(f"{label}{line}\n" for line in box.splitlines())).first
    assert first is not None
    assert first.id == "batch-size-config"
    assert first.text.endswith("equal to micro_batch_per_gpu")


def test_tries_of_a_download_are_warnings() -> None:
    assert of(HUB + "Retrying in 1s [Retry 1/5].\n" + STEPS).first is None
    first = of(HUB + "Retrying in 1s [Retry 1/5].\nTraceback (most recent call last):\n").first
    assert first is not None
    assert (first.id, first.kind) == ("hub-unreachable", "cause")


def test_a_warning_with_a_date_is_no_error() -> None:
    """The year before the level was taken for a rank."""
    line = "2020-06-08 05:30:15.889706: W tensorflow/core/data_op.cc:103] Error occurred when finalizing: Cancelled\n"
    result = of(STEPS + line)
    assert result.first is None
    assert result.first_alarm is None
    assert of(STEPS + line.replace(": W ", ": E ")).first_alarm is not None


def test_what_a_cause_explains_is_a_consequence() -> None:
    name = "ssh: Could not resolve hostname node7: Name or service not known\n"
    check = "RuntimeError: Using hostfile at /etc/hostfile but host=node7 was not reachable via ssh.\n"
    result = of(name + check)
    assert result.first is not None
    assert result.first.id == "ssh-unreachable"
    assert (result.others, [each.id for each in result.consequences]) == ([], ["deepspeed-ssh"])
    assert [each.id for each in of(OOM + check).others] == ["deepspeed-ssh"]  # this cause explains nothing of it


def test_a_site_s_own_message_needs_a_rejection() -> None:
    site = "sbatch: error: You must request at least one GPU in this partition\n"
    assert first_id(site + "sbatch: error: Batch job submission failed: Unspecified error\n") == "slurm-site-rule"
    known = "sbatch: error: Memory specification can not be satisfied\n"
    assert first_id(known + "sbatch: error: Batch job submission failed: Unspecified error\n") == "slurm-memory-invalid"
    assert first_id(site + "Submitted batch job 27\n") == ""


def test_an_exception_that_is_called_error_and_says_nothing() -> None:
    frames = '  File "/home/u/job.py", line 2, in <module>\n    raise Error\n'
    for head in ("", "Traceback (most recent call last):\n", "[rank0]: Traceback (most recent call last):\n"):
        assert of(f"{head}{frames}Error\n").first is not None or not head


def test_a_kernels_line_explains_a_failure_far_above_it() -> None:
    """People look up the kernel's log afterwards, and paste it below."""
    smi = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    kernel = "[  9.97] NVRM: was loaded and obtained ownership of the NVIDIA device(s).\n"
    assert first_id(smi + "\n" * 9 + kernel) == "other-gpu-driver"
    assert first_id(smi) == "no-cuda-gpus"


@pytest.mark.parametrize(
    ("line", "has", "lacks"),
    [
        ("ValueError: Must flatten tensors with uniform requires_grad when `use_orig_params=False`", "frozen", "bf16"),
        ("ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16", "bf16", "frozen"),
    ],
)
def test_the_matched_line_decides_before_the_rest_of_the_log(line: str, has: str, lacks: str) -> None:
    first = of(f"config: uniform dtype, uniform requires_grad\n{line}\n").first
    assert first is not None
    assert has in first.cause
    assert lacks not in first.cause


def test_the_death_at_the_end_of_a_long_command_counts() -> None:
    command = "CalledProcessError: Command '['/usr/bin/python', 'train.py', '--data=/data',\n'--epochs=3']'"
    assert first_id(f"{command} died with <Signals.SIGKILL: 9>.\n") == "killed"


def test_a_tools_own_error_at_the_end_of_a_log_is_quoted() -> None:
    first = of("starting\nmytool: error: the licence of this machine has ended\n").first
    assert first is not None
    assert first.cause == "its own message: the licence of this machine has ended"
    assert of("mytool: error: the licence of this machine has ended\n" + STEPS * 9).first is None


def test_a_ruled_line_behind_the_label_of_a_task_is_no_progress() -> None:
    reason = "0: but OMPI was not built with SLURM's PMI support and therefore cannot\n0: execute.\n"
    assert first_id(f"0: -----\n{reason}0: \n0: -----\n0: \n") == "mpi-without-pmi"
