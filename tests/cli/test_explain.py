"""`ddpkit explain ID`: entries of the catalogue, offline, and the order in which a name is looked up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT, Command

from ddpkit.diagnosis.catalogue import BY_ID, ENTRIES
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.verdict import describe_exit


def test_an_id_prints_its_entry(ddpkit: DDPKIT) -> None:
    done = ddpkit("explain", "port-in-use")
    assert done.returncode == 0, done.stderr
    labels = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    assert labels == ["port-in-use", "category", "cause", "check", "hint", "more"]
    assert "Address already in use" in done.stdout
    assert "{" not in done.stdout  # names of values are in capitals


def test_a_link_that_the_user_names_is_followed(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "job-7.log").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n")
    (tmp_path / "latest.log").symlink_to("job-7.log")
    done = ddpkit("explain", str(tmp_path / "latest.log"))
    assert "the GPU's memory is full" in done.stdout, done.stderr


def test_the_document_of_an_entry_names_its_schema(ddpkit: DDPKIT) -> None:
    document = json.loads(ddpkit("explain", "port-in-use", "--json").stdout)
    assert next(iter(document.items())) == ("schema", "ddpkit.catalogue_entry/1")
    assert set(document) == {"schema", "id", "category", "kind", "title", "cause", "probe", "fix", "link", "origin"}
    assert document["category"] == "Rendezvous and start-up"


def test_the_list_has_every_id(ddpkit: DDPKIT) -> None:
    listed = [line.split()[0] for line in ddpkit("explain", "--list").stdout.splitlines() if line[0] == " "]
    assert listed == [entry.id for entry in ENTRIES]
    document = json.loads(ddpkit("explain", "--list", "--json").stdout)
    assert document["schema"] == "ddpkit.catalogue/1"
    assert [entry["id"] for entry in document["entries"]] == listed


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("prot-in-use", "port-in-use"),
        ("port-in", "port-in-use"),
        ("oom", None),
        ("gpu-problem", "duplicate-gpu"),
        ("zzzz", None),
    ],
)
def test_a_wrong_id_lists_near_ones(typed: str, near: str | None, ddpkit: DDPKIT) -> None:
    done = ddpkit("explain", typed)
    assert done.returncode != 0
    assert not done.stdout
    message, hint = done.stderr.splitlines()
    assert f"{typed} not found" in message
    if near is None:
        assert "ddpkit explain --list" in hint
    else:
        assert re.fullmatch(rf"hint: ddpkit explain {near}", hint)
        assert f"similar: {near}" in message


def test_a_name_of_several_runs_lists_them_and_their_durations_agree(ddpkit: DDPKIT) -> None:
    took = [
        re.findall(r"done in (\S+ \w+)", ddpkit("launch", "-n", "1", "--name", "base", "--", "true").stderr)[0]
        for _ in "ab"
    ]
    done = ddpkit("explain", "base")
    assert done.returncode == 121
    first, *runs, _ = done.stderr.splitlines()
    assert "'base' matches 2 runs:" in first
    ids = [re.findall(r"ddpkit explain (\w+)  # true, done", line)[0] for line in runs]
    assert {re.findall(r"done after (.*)", ddpkit("status", each).stdout)[0] for each in ids} == {*took}


def test_a_run_that_still_runs(start: Callable[..., Command], ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    """Its own name is no error in its log."""
    name = script("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    start("launch", "-n", "1", "--name", "killed-error", "--", name).wait_for("up")
    first, second = ddpkit("explain").stdout.splitlines()
    assert re.fullmatch(r"run \S+-killed-error-\w+: runs for \S+( \S+)?", first)
    assert second.startswith("no failure in this log (")


def test_a_file_of_that_name_is_the_file(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "port-in-use").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    done = ddpkit("explain", "port-in-use")
    assert "(cuda-out-of-memory)" in done.stdout, done.stdout + done.stderr


def test_a_requeued_job_is_of_no_host(ddpkit: DDPKIT, tmp_path: Path) -> None:
    line = "slurmstepd: error: *** {0} ON node1 CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***\n"
    (tmp_path / "job.log").write_text(
        line.format("JOB 608") + line.format("STEP 608.0") + "srun: error: node1: tasks 2-3: Exited with exit code 1\n"
    )
    output = ddpkit("explain", "job.log").stdout
    assert "repeated: 1 more time\n" in output


def test_an_abort_in_torchs_teardown_points_to_its_entry() -> None:
    failure = Failure(
        host="node1",
        what="rank 0",
        rank=0,
        code=None,
        signal=6,
        last_lines=("terminate called without an active exception",),
    )
    (named,) = re.findall(r"ddpkit explain ([a-z-]+)", describe_exit(failure))
    assert named in BY_ID


# ---- a run of ddpkit: its record has the order of the ends

RUNS = {
    # Rank 0 prints a traceback that it survives; then rank 1 fails.
    "another rank's traceback above": (
        """
import os, pathlib, signal
mark = pathlib.Path("printed")
if os.environ["RANK"] == "0":
    print("Traceback (most recent call last):\\n  File 'x.py', line 3, in <module>\\n    f()")
    print("RuntimeError: CUDA error: an illegal memory access was encountered", flush=True)
    mark.touch()
    signal.pause()
while not mark.exists():
    pass
open("/nothere/data")
""",
        ["rank 1 on ", "log line: line ", "exit: exit code 1", "cause: /nothere/data does not exist on this host"],
        ["also, line 5: RuntimeError: CUDA error"],
        "file-missing",
    ),
    # No line shows the end of rank 1, and rank 0 reports that it lost a peer.
    "no line shows it": (
        """
import os, pathlib, signal
mark = pathlib.Path("printed")
if os.environ["RANK"] == "0":
    print("RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:62679.", flush=True)
    mark.touch()
    signal.pause()
while not mark.exists():
    pass
os.kill(os.getpid(), 9)
""",
        ["rank 1 on ", "exit: killed by signal 9 (SIGKILL)", "cause: the kernel's out-of-memory killer, ", "hint: on "],
        ["only consequences:", "  line 2: another rank ended"],
        None,
    ),
    "nothing printed": (
        "import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n",
        [
            "rank 1 on ",
            "exit: exit code 3",
            "hint: the rank printed nothing; search the script for an exit with code 3, or for input",
        ],
        [],
        None,
    ),
    "printed on rank 0 alone": (
        """
import os, pathlib, sys, time
mark = pathlib.Path("printed")
if os.environ["RANK"] == "0":
    print("job.py: --data is required; hint: --data DIR", flush=True)
    time.sleep(0.2)
    mark.touch()
    time.sleep(600)
while not mark.exists():
    time.sleep(0.01)
sys.exit(2)
""",
        [
            "rank 1 on ",
            "exit: exit code 2",
            "cause: the rank printed nothing. The last line of rank 0: job.py: --data is required; hint: --data DIR",
            "hint: less ",
        ],
        [],
        None,
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_explained_by_its_record(name: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    script, facts, more, line = RUNS[name]
    (tmp_path / "job.py").write_text(script)
    launched = ddpkit("launch", "-n", "2", "--", "job.py")
    assert "rank 1 on " in launched.stderr
    shown = ddpkit("explain").stdout.splitlines()
    for start, actual in zip(facts, shown, strict=False):
        assert actual.startswith(start), shown
    for start in more:
        assert any(each.startswith(start) for each in shown), shown
    assert not [each for each in shown if "not known" in each or "first line with an error" in each]
    document = json.loads(ddpkit("explain", "--json").stdout)
    assert document["verdict"].startswith("rank 1 on ")
    assert (document["first"] or {}).get("id") == line
    assert document["suspicious"] is None


def test_a_stopped_run_has_no_failure(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """The end of its ranks, which the launcher's signal caused, is none."""
    (tmp_path / "job.py").write_text(RUNS["no line shows it"][0])
    ddpkit("launch", "-n", "2", "--", "job.py")
    (record,) = (tmp_path / "logs").glob("*/run.json")
    stopped = {**json.loads(record.read_text()), "state": "stopped", "failure": None, "verdict": None}
    record.write_text(json.dumps(stopped))
    done = ddpkit("explain")
    assert done.stdout.splitlines()[0].endswith(" stopped")
    assert done.stdout.splitlines()[1].startswith("no failure in this log (")
    assert len(done.stdout.splitlines()) == 2


def test_a_run_that_hung_and_was_stopped_shows_its_dump(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """Without an error in its log, the newest dump is what is known."""
    (tmp_path / "job.py").write_text("print('step 1')")
    ddpkit("launch", "-n", "2", "--", "job.py")
    (record,) = (tmp_path / "logs").glob("*/run.json")
    stopped = {**json.loads(record.read_text()), "state": "stopped"}
    record.write_text(json.dumps(stopped))
    late = {"kind": "late", "ranks": [1], "words": "rank 1 on n1 has not joined all_reduce #2"}
    none = {"kind": "none", "ranks": [], "words": "no rank waits for another"}
    for name, seconds, finding in (("dump-1", 60, none), ("dump-2", 12, late)):
        (record.parent / name).mkdir()
        summary = {"time": stopped["ended"] - seconds, "findings": [finding]}
        (record.parent / name / "summary.json").write_text(json.dumps(summary))
    done = ddpkit("explain")
    first, hang, dump, hint = done.stdout.splitlines()
    assert first.endswith(" stopped")
    assert hang == f"hang: {late['words']}"
    assert dump == f"dump: {record.parent}/dump-2/ (12 s before the end)"
    assert hint == f"hint: less {record.parent}/dump-2/rank_*.txt"
    assert json.loads(ddpkit("explain", "--json").stdout)["hang"]["findings"] == [late]
    (record.parent / "dump-2/summary.json").write_text("{")
    assert "no failure in this log" in ddpkit("explain").stdout


@pytest.mark.live
def test_a_log_is_explained_without_what_it_does_not_need(tmp_path: Path) -> None:
    """A start of 0.1 s: no TOML is parsed, and neither records nor plans are loaded."""
    log = tmp_path / "train.log"
    log.write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    code = f"import sys; from ddpkit.cli.app import run; run(['explain', {str(log)!r}]); print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("line 1: ")
    unneeded = {"tomllib", "tomli", "logging", "ddpkit.run.record", "ddpkit.launchers.plan", "ddpkit.monitor.dump"}
    assert not unneeded & set(done.stdout.splitlines())
