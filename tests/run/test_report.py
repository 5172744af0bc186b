"""What a report says of runs of every kind, also of those that recorded little: nothing in it is invented."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, SCRIPT, START
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.diagnosis.outcome import Diagnosis, Failure
from ddpkit.run import record, status
from ddpkit.run.record import RecordedJob
from ddpkit.run.report import page, steps, summary, svg
from ddpkit.run.report import startup as start
from ddpkit.run.report.words import lines, number, seconds, text
from ddpkit.run.state import RunState
from ddpkit.run.timeline import LaunchFile, NodeCopy, TimelineFile, read_copies, write_launch

WHY = "Not recorded: why"


def ended(folder: Path, **more: Any) -> record.Run:
    """A run that has ended, in a folder of its own."""
    values: dict[str, Any] = {
        "run_id": "20260131-235959-train-3fa9",
        "folder": str(folder),
        "backend": "local",
        "command": ("train.py", "--epochs", "3"),
        "workdir": str(folder),
        "hosts": ("vm",),
        "world_size": 2,
        "launcher_pid": 1,
        "launcher_started": "1",
        "launcher_host": os.uname().nodename,
        "started": 1_000_000.0,
        "ended": 1_000_060.0,
        "ranks": {"vm": [0, 1]},
        "exit_code": 0,
    }
    run = record.Run(**{**values, **more, "state": RunState(more.get("state", "done"))})
    run.save()
    return run


def reported(run: record.Run) -> summary.Report:
    return summary.report(status.get_status(run), summary.read(run), made=1_000_100.0)


def bins(own: float, whole: float, count: int = 4, steps_each: float = 10) -> list[list[float]]:
    return [[steps_each, steps_each * whole, whole, steps_each, steps_each * own, own]] * count


def timeline(*own: float, host: str = "vm") -> Any:
    whole = max(own) + 0.01
    return {"ranks": {str(n): {"host": host, "marks": {}, "bins": bins(each, whole)} for n, each in enumerate(own)}}


# ---- runs that recorded little


def test_a_run_by_an_older_ddpkit(tmp_path: Path) -> None:
    found = reported(ended(tmp_path))
    assert (found.state, found.summary) == ("done", "done after 60 s")
    assert found.start.words == found.steps.words
    assert found.start.words.startswith("Not recorded: the run has no timeline")
    assert (found.start.rows, found.steps.rows, found.charts, found.plan) == ((), (), (), "")
    assert found.preflight.words == "Not recorded."
    assert found.places == (summary.Place(host="vm", ranks=(0, 1)),)
    shown = page.page(found)
    assert shown.count("Not recorded") == 5  # start, steps, curves, preflight, plan
    assert "Nothing was printed." in shown


def test_a_job_of_a_scheduler(tmp_path: Path) -> None:
    job = RecordedJob(log="", many=False, labels=False)
    run = ended(tmp_path, job=job, job_id="17", backend="slurm-srun", hosts=("slurm",), ranks={})
    found = reported(run)
    assert found.start.words.startswith("Not recorded: the scheduler starts these ranks")
    assert "job 17" in page.page(found)
    # Of one that was followed, its launcher heard where the ranks ran.
    heard = {
        "ranks": {"1": {"host": "node2", "marks": {}, "bins": []}, "0": {"host": "node1", "marks": {}, "bins": []}}
    }
    (tmp_path / "timeline.json").write_text(json.dumps(heard))
    assert [(place.host, place.ranks) for place in reported(run).places] == [("node1", (0,)), ("node2", (1,))]


def told(rank: int, start: float) -> str:
    """What a rank reported of itself, among nonsense."""
    good: list[dict[str, object]] = [
        {"e": "start", "rank": rank, "pid": 7, "host": "node2", "t": start},
        {"e": "mark", "rank": rank, "name": "python", "t": start + 0.5},
        {"e": "mark", "rank": rank, "name": "imported", "t": start + 0.7},
        {"e": "steps", "t": start, "ranks": {str(rank): [[4, 0.4, 0.1, 4, 0.3, 0.08]]}},
    ]
    bad: list[object] = [
        {"e": "mark", "rank": rank, "name": "imported", "t": "nonsense"},
        {"e": "steps", "t": start, "ranks": {str(rank): [[2]]}},
        {"e": "steps", "t": start, "ranks": {str(rank): [[2, -1, 0.1, 2, 0.1, 0.1]]}},
        {"e": "no such event"},
        [],
    ]
    return "".join(json.dumps(event) + "\n" for event in (*good, *bad))


def test_what_ranks_wrote_themselves(tmp_path: Path) -> None:
    """As under SLURM: no launcher heard it, or heard only a part of it."""
    folder = tmp_path / "marks"
    folder.mkdir()
    (folder / "job").write_text("99.5\n198.5\n")
    text = told(1, 100.0) + told(1, 200.0) + told(0, 201.0)  # rank 1 was started again
    (folder / "events").write_bytes(text.encode() + b'{"e": "mark \xff\xfe\n{"e": "ma')
    (folder / "events_7").write_text("of an array\n")
    (tmp_path / "launch.json").write_text(json.dumps({"began": 90.0, "prepared": 91.0}))
    run = ended(tmp_path, hosts=("slurm",), ranks={})
    found = reported(run)
    assert [(row.rank, row.host, row.attempts) for row in found.start.rows] == [(0, "node2", 1), (1, "node2", 2)]
    assert [(each.phase, each.begin, each.end) for each in found.start.rows[1].segments] == [
        ("prepared", 0, 1), ("queued", 1, 108.5), ("start", 108.5, 110), ("python", 110, 110.5),
        ("imported", 110.5, pytest.approx(110.7)),
    ]  # fmt: skip
    assert [row.steps for row in found.steps.rows] == [4, 8]
    heard = {"ranks": {"1": {"host": "node3", "marks": {"start": 300.0, "line": 301.0}, "attempts": 3, "bins": []}}}
    (tmp_path / "timeline.json").write_text(json.dumps(heard))
    rows = reported(run).start.rows
    assert (rows[1].host, rows[1].attempts) == ("node3", 3)
    assert [each.end for each in rows[1].segments] == [1, 210], "what it wrote is of an attempt before"


def test_a_failed_run(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    done = ddpkit("launch", "-n", "2", "--", script("import sys\nprint('it broke')\nsys.exit(7)"))
    assert done.returncode == 7
    found = json.loads(ddpkit("report", "--json").stdout)
    assert found["state"] == "failed"
    assert "failed first" in found["summary"]
    assert "exit code 7" in found["summary"]
    assert any("it broke" in line for line in found["tail"])
    assert (found["failure"]["last_lines"], found["hint"][:10]) == (["it broke"], "less logs/")
    assert found["start"]["total"] is None
    missing = [row["missing"] for row in found["start"]["rows"]]
    assert missing == [["import", "meet", "group"]] * 2  # marks that can be seen from outside
    assert "--observe start,steps" in found["start"]["words"]
    assert found["places"][0]["gpus"] == 0


def test_a_rank_cannot_speak_for_the_launcher(tmp_path: Path) -> None:
    """The failure comes from the record, whatever the ranks print."""
    (tmp_path / "all.log").write_text("[ddpkit] last lines of rank 1:\n[ddpkit]     forged\n[ddpkit] hint: forged\n")
    found = reported(ended(tmp_path, state="failed", exit_code=1))
    assert (found.failure, found.hint) == (None, "")
    diagnosis = Diagnosis(cause="no such file", fix="make it")
    failure = Failure(host="vm", rank=1, what="rank", code=1, last_lines=("one", "two"), diagnosis=diagnosis)
    found = reported(ended(tmp_path, state="failed", failure=failure))
    assert found.failure is not None
    assert (found.failure.last_lines, found.hint) == (("one", "two"), "make it")


def test_a_run_that_lives(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    command = start("launch", "-n", "1", "--", script("import time\nprint('ready', flush=True)\ntime.sleep(3600)"))
    command.wait_for("ready")
    (folder,) = (tmp_path / "logs").iterdir()
    found = json.loads(ddpkit("report", str(folder), "--json").stdout)
    assert (found["state"], found["ended"]) == ("running", None)
    assert ddpkit("report", str(folder)).returncode == 0
    assert "it is still running" in (folder / "report.html").read_text()


def test_where_the_page_cannot_be_written(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", script("print(1)")).returncode == 0
    done = ddpkit("report", "--output", "no/such/folder.html")
    assert (done.returncode, done.stdout) == (121, "")
    assert "cannot write no/such/folder.html" in done.stderr
    done = ddpkit("report", "--metrics", "nothing.jsonl")
    assert (done.returncode, done.stdout) == (121, "")
    assert "file nothing.jsonl not found" in done.stderr
    done = ddpkit("report", "nonsense")
    assert done.returncode == 121


@pytest.mark.parametrize("broken", ["[]", "{", "", '{"ranks": {}}', '{"ranks": {"0": {}}}'])
def test_files_that_cannot_be_understood(broken: str, tmp_path: Path) -> None:
    for name in ("launch.json", "timeline.json", "test.json", "metrics.jsonl"):
        (tmp_path / name).write_text(broken)
    found = reported(ended(tmp_path))
    assert found.charts == ()
    assert page.page(found).startswith("<!DOCTYPE html>")


# ---- the start


def test_where_the_seconds_went() -> None:
    marks = {
        "queued": 11.8,
        "start": 12.0,
        "python": 12.5,
        "import": 13.0,
        "imported": 15.0,
        "cuda": 15.25,
        "meet": 15.5,
        "connect": 15.75,
        "group": 16.0,
        "wrap": 16.5,
        "collective": 17.0,
        "step": 20.0,
    }
    slow = {**marks, "cuda": 15.5, "meet": 19.0, "connect": 19.05, "group": 19.1, "wrap": 19.4, "collective": 19.5}
    launch: LaunchFile = {"began": 10.0, "prepared": 11.5, "entered": {"a": 10.8}}
    told: TimelineFile = {
        "ranks": {"0": {"host": "a", "marks": marks, "attempts": 1}, "1": {"host": "b", "marks": slow, "attempts": 2}}
    }
    found = start.read_startup(launch, told, WHY)
    assert found.total == 10.0
    assert found.entered == {"a": pytest.approx(0.8)}
    assert [phase.phase for phase in found.phases] == [
        name for name in start.PHASES if name not in ("listed", "staged")
    ]
    meet = next(phase for phase in found.phases if phase.phase == "meet")
    assert (meet.rank, meet.host) == (1, "b")
    assert (meet.seconds, meet.longest) == pytest.approx((1.875, 3.5))
    for row in found.rows:
        assert row.segments[0].begin == 0
        assert [each.end for each in row.segments[:-1]] == [each.begin for each in row.segments[1:]]
    assert found.words.startswith("First optimizer step on every rank 10.0 s after the launcher started")
    assert [(node.host, node.ranks, round(node.own, 2)) for node in found.nodes] == [("a", 1, 3.7), ("b", 1, 7.2)]
    slow_node = (
        "Slowest node: b, 7.2 s to the rendezvous, others 3.7 s; script, up to the rendezvous took 3.2 s longer."
    )
    assert slow_node in found.words
    assert found.nodes[1].phases["imported"] == 2.0


def test_no_node_is_slow_where_the_difference_is_small() -> None:
    told: TimelineFile = {
        "ranks": {
            str(rank): {"host": f"node{rank}", "marks": {"start": 11.0, "meet": 14.0 + rank / 4}, "attempts": 1}
            for rank in range(3)
        }
    }
    assert "Slowest node" not in start.read_startup({"began": 10.0, "prepared": 10.5}, told, WHY).words


def test_clocks_that_disagree_a_little_give_no_negative_time() -> None:
    told: TimelineFile = {
        "ranks": {"0": {"host": "a", "marks": {"start": 12.0, "python": 11.9, "step": 14.0}, "attempts": 1}}
    }
    found = start.read_startup({"began": 10.0, "prepared": 12.05}, told, WHY)
    assert all(each.end >= each.begin for each in found.rows[0].segments)


def test_cuda_counts_where_the_script_started_it() -> None:
    """Here after the rendezvous, whose seconds are not CUDA's."""
    marks = {"start": 12.0, "imported": 13.0, "meet": 14.0, "connect": 18.0, "group": 18.5, "cuda": 19.0, "step": 21.0}
    told: TimelineFile = {"ranks": {"0": {"host": "a", "marks": marks, "attempts": 1}}}
    (row,) = start.read_startup({"began": 10.0, "prepared": 11.0}, told, WHY).rows
    took = {each.phase: each.end - each.begin for each in row.segments}
    assert (took["connect"], took["group"], took["cuda"], took["step"]) == pytest.approx((4.0, 0.5, 0.5, 2.0))


B200 = "(kernels {}, alloc {}, bootstrap {}, allgathers 0.08, topo 1.10, graphs 0.01, connections 0.39, rest 0.00)"


def copied(kind: str, began: float, ended: float, size: int | None = None) -> NodeCopy:
    """A local copy; without a size the node had it."""
    return NodeCopy(kind=kind, copied=size is not None, size=size or 0, source="", began=began, ended=ended)


def test_local_copies_are_a_phase_of_their_nodes() -> None:
    marks = {"start": 20.0, "python": 20.5, "meet": 21.0, "step": 25.0}
    told: TimelineFile = {
        "ranks": {str(rank): {"host": f"node{rank}", "marks": marks, "attempts": 1} for rank in range(3)}
    }
    copies = {
        "node0": [copied("project", 11.0, 11.2), copied("env", 11.2, 11.5)],
        "node1": [copied("project", 11.0, 11.2), copied("env", 11.2, 18.0, 466_000_000)],
        "node2": [copied("project", 11.0, 12.0, 1_000_000), copied("env", 12.0, 13.0)],
        "node9": [copied("project", 11.0, 99.0, 1)],  # no rank runs there
    }
    # The launcher copies before the nodes are checked.
    found = start.read_startup({"began": 10.0, "prepared": 19.0}, told, WHY, copies=copies)
    assert [(each.phase, each.begin, each.end) for each in found.rows[1].segments] == [
        ("listed", 0, 1), ("staged", 1, 8), ("prepared", 8, 9), ("start", 9, 10), ("python", 10, 10.5),
        ("meet", 10.5, 11), ("step", 11, 15),
    ]  # fmt: skip
    phase = next(each for each in found.phases if each.phase == "staged")
    assert (phase.seconds, phase.longest, phase.host) == (2, 7, "node1")
    assert "2 of 3 nodes copied files (--stage); slowest: node1, 466.0 MB in 7.0 s." in found.words
    assert "Slowest node: node1, 9.0 s to the rendezvous, others 3.2 s; copy to the node's local disk" in found.words
    assert [[each.copied for each in node.copies] for node in found.nodes] == [
        [False, False], [False, True], [True, False],
    ]  # fmt: skip
    assert [round(each.seconds, 3) for each in found.nodes[1].copies] == [0.2, 6.8]
    # A job's nodes copy after it has waited.
    queued: TimelineFile = {"ranks": {"0": {"host": "node1", "marks": {**marks, "queued": 10.9}, "attempts": 1}}}
    found = start.read_startup({"began": 10.0, "prepared": 10.5}, queued, WHY, copies=copies)
    assert [each.phase for each in found.rows[0].segments][:4] == ["prepared", "queued", "staged", "start"]


def test_local_copies_that_were_present() -> None:
    copies = {"a": [copied("project", 11.0, 11.2)], "b": [copied("project", 11.0, 11.3)]}
    found = start.read_startup({"began": 10.0, "prepared": 12.0}, None, WHY, copies=copies)
    assert found.words == f"{WHY} Local copies (--stage) were present on all nodes; the longest check took 0.3 s on b."
    assert [(node.host, node.ranks) for node in found.nodes] == [("a", 0), ("b", 0)]
    assert "Local copies" not in start.read_startup({"began": 10.0, "prepared": 12.0}, None, WHY).words


def test_copies_that_nodes_of_a_job_made(tmp_path: Path) -> None:
    folder = tmp_path / "stage"
    folder.mkdir()
    (folder / "contents.json").write_text("[]")
    (folder / "node1.json").write_text(json.dumps([copied("project", 1.0, 2.0, 5_000_000)]))
    (folder / "node2.json").write_text('[{"kind": "project"')  # cut off
    (folder / "node3.json").write_text('[{"kind": 3}]')
    (tmp_path / "launch.json").write_text(json.dumps({"began": 0.0, "prepared": 0.5}))
    marks = {"start": 3.0, "python": 3.1, "meet": 3.2}
    (tmp_path / "timeline.json").write_text(json.dumps({"ranks": {"0": {"host": "node1", "marks": marks}}}))
    found = reported(ended(tmp_path, hosts=("slurm",), ranks={}))
    (node,) = found.start.nodes
    assert node.copies == (start.Copy(kind="project", copied=True, size=5_000_000, source="", seconds=1.0),)
    shown = page.page(found)
    assert "local copies</th>" in shown
    assert '<td class="n">1 s, 5.0 MB</td>' in shown
    assert "var(--p-staged)" in shown


def test_a_later_attempt_has_no_copies_of_the_first(tmp_path: Path) -> None:
    """Nodes keep their copies: the second attempt makes none."""
    given: Any = {"prepared": 21.0, "entered": {}, "notes": [], "nodes": {}, "plan": ""}
    copies = {"node1": [copied("project", 11.0, 12.0, 5)]}
    write_launch(tmp_path, began=10.0, copies=copies, **given)
    assert read_copies(tmp_path) == copies
    write_launch(tmp_path, began=20.0, copies=copies, **given)
    assert read_copies(tmp_path) == {}


def test_nccls_own_timings_are_in_the_words() -> None:
    """Lines of 8 B200 (github.com/NVIDIA/nccl/issues/1646), and of an older NCCL (nccl-tests/issues/273)."""
    lines = [
        "d5618706-01:1106802:1106870 [3] NCCL INFO Init timings - ncclCommInitRankConfig: rank 3 nranks 8 total 55.01 "
        + B200.format("52.45", "0.41", "0.57"),
        "[node1 0] d5618706-01:1106799:1106856 [0] NCCL INFO Init timings - ncclCommInitRankConfig: rank 0 nranks 8 "
        "total 55.17 " + B200.format("52.33", "0.42", "0.84"),
        (
            "dc02-p21-t208-n012:7622:7638 [2] NCCL INFO Init timings: rank 2 nranks 8 total 0.66 (kernels 0.42, "
            "bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.00)"
        ),
    ]
    most = "NCCL's own init timings, slowest: rank 0 of 8, 55.17 s, of which kernels 52.33 s."
    assert start.init_timings(lines) == most
    assert start.init_timings(lines[2:]).endswith("rank 2 of 8, 0.66 s, of which kernels 0.42 s.")
    assert start.init_timings(["step 1", "NCCL INFO Init START"]) == ""
    marks = {"start": 12.0, "python": 12.5, "import": 13.0, "step": 80.0}
    told: TimelineFile = {"ranks": {"0": {"host": "a", "marks": marks, "attempts": 1}}}
    assert start.read_startup({"began": 10.0, "prepared": 11.0}, told, WHY, most).words.endswith(most)


def test_ranks_that_tell_nothing() -> None:
    told: TimelineFile = {"ranks": {"0": {"host": "a", "marks": {"start": 12.0, "end": 13.0}, "attempts": 1}}}
    assert "was not seen" in start.read_startup({"began": 10.0, "prepared": 11.0}, told, WHY).words
    assert start.read_startup(None, None, WHY).words == WHY


# ---- the steps


def test_the_rank_that_the_others_wait_for() -> None:
    found = steps.read_steps(timeline(0.02, 0.021, 0.07, 0.019), WHY)
    assert found.slowest is not None
    assert (found.slowest.rank, found.slowest.stands_out) == (2, True)
    assert found.slowest.times == pytest.approx(3.5)
    assert found.words.startswith("The others wait for rank 2 on vm: its own work takes 70 ms a step, 3.5 times")
    assert found.steps == 40
    assert all(len(row.own) == 4 for row in found.rows)


@pytest.mark.parametrize("own", [(0.02, 0.021, 0.0205), (0.0002, 0.0008)])
def test_no_rank_stands_out(own: tuple[float, ...]) -> None:
    found = steps.read_steps(timeline(*own), WHY)
    assert found.slowest is not None
    assert not found.slowest.stands_out
    assert found.words.startswith("No rank is slow: ")


@pytest.mark.parametrize(
    ("known", "limited"),
    [({"marks": {"cuda": 3.0}}, True), ({"versions": ["3.11", "2.13", "12.8", "2.28"]}, True),
     ({"versions": ["3.11", "2.13", "-", "-"]}, False)],
)  # fmt: skip
def test_a_slow_gpu_is_not_called_fast(known: dict[str, Any], limited: bool) -> None:
    """A throttled GPU makes no rank's host slower: each queues its work, and waits for the others."""
    told = timeline(0.02, 0.021, 0.0205)
    told["ranks"]["0"].update(known)
    assert ("a GPU that is slow does not show here" in steps.read_steps(told, WHY).words) is limited


def test_one_rank_and_ranks_without_own_work() -> None:
    assert steps.read_steps(timeline(0.5), WHY).words == "One rank: no rank to compare with."
    told = timeline(0.02, 0.03)
    for rank in told["ranks"].values():
        rank["bins"] = [[each[0], each[1], each[2], 0, 0, 0] for each in rank["bins"]]
    found = steps.read_steps(told, WHY)
    assert found.slowest is None
    assert found.words.startswith("Only the time of whole steps is known")
    assert steps.read_steps({"ranks": {}}, WHY).words == WHY


@given(
    st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 1.0)), min_size=1, max_size=40),
    st.integers(1, 70),
)
def test_no_second_is_lost_between_cells(told: Sequence[tuple[int, float]], columns: int) -> None:
    total = sum(count for count, _ in told)
    cells = steps.cells([(count, count * each, count) for count, each in told], total, columns)
    assert len(cells) == columns
    assert all(cell is not None for cell in cells)
    width = total / columns
    assert sum(cell * width for cell in cells if cell is not None) == pytest.approx(
        sum(count * each for count, each in told)
    )


def test_a_rank_that_ended_early_has_empty_cells() -> None:
    assert steps.cells([(10, 1.0, 10)], 40, 4) == (0.1, None, None, None)


def test_many_ranks() -> None:
    """A thousand ranks: the slowest are shown, and the page stays one that a browser opens."""
    own = [0.02 + 0.00001 * (rank % 7) for rank in range(1000)]
    own[777] = 0.09
    found = steps.read_steps(timeline(*own), WHY)
    assert found.slowest is not None
    assert found.slowest.rank == 777


# ---- curves


def test_curves(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"step": n, "epoch": 1, "loss": 1 / n, "lr": 0.1, "name": "x"} for n in range(1, 11)
    ]
    records += [
        {"step": 10, "test_loss": 0.3, "test_accuracy": 0.9, "seconds": 3.0},
        {"step": 11, "loss": float("nan")},
    ]
    found = summary.charts(records)
    assert [(chart.title, [curve.name for curve in chart.curves]) for chart in found] == [
        ("loss", ["loss", "test_loss"]),
        ("accuracy", ["test_accuracy"]),
        ("lr", ["lr"]),
    ]
    assert len(found[0].curves[0].points) == 10
    assert found[0].curves[0].points[-1] == (10.0, 0.1)
    for chart in found:
        assert "nan" not in svg.chart(chart)


def test_names_without_number_take_no_time_and_no_page() -> None:
    """As in a metrics file of a stranger. Each name of each record was looked for in all the others."""
    records = [{"step": n, **{f"loss_{n}_{k}": 1.0 for k in range(50)}} for n in range(3000)]
    began = time.process_time()
    (chart,) = summary.charts(records)
    assert len(chart.curves) == summary.CURVES
    assert time.process_time() - began < 10  # it took minutes


def test_a_step_is_a_whole_number() -> None:
    def across(last: int) -> list[str]:
        (chart,) = summary.charts([{"step": n, "loss": n} for n in range(1, last + 1)])
        return re.findall("<span>([^<]*)</span>", svg.chart(chart).partition('class="xs"')[2])

    assert across(60) == ["step 1", "30", "60"]
    assert across(4) == ["step 1", "", "4"]
    assert across(5) == ["step 1", "3", "5"]


def test_a_constant_has_no_best_value() -> None:
    (chart,) = summary.charts([{"step": n, "lr": 3e-5} for n in range(3)])
    assert '</b> 3e-05<span class="soft">, all along</span>' in svg.chart(chart)


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    (chart,) = summary.charts([{"step": n, "loss": n} for n in range(25_001)])
    (curve,) = chart.curves
    assert curve.thinned
    assert len(curve.points) <= summary.POINTS + 1
    assert (curve.points[0], curve.points[-1]) == ((0, 0), (25_000, 25_000))


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_ticks_enclose(low: float, span: float) -> None:
    high = low + span
    if high > low and span > abs(low) * 1e-9:
        ticks = svg._ticks(low, high)
        assert ticks[0] <= low + span * 1e-6
        assert ticks[-1] >= high - span * 1e-6
        assert 2 <= len(ticks) <= 7


# ---- words


def test_text_is_made_harmless() -> None:
    assert text("<b a='\"'>&") == "&lt;b a=&#x27;&quot;&#x27;&gt;&amp;"
    assert text("\x1b[31mred\x1b[0m\x1b]0;title\x07") == "red"
    assert text("a\0b\x07\u202ec\udcffd") == "a\\x00b\\x07\\u202ec\\xffd"
    assert text("tab\tand\nline") == "tab and line"
    assert lines(["tab\tand", "\x1b[2Jline\n<b>", "y" * 9999]) == f"tab\tand\nline &lt;b&gt;\n{'y' * 4000}"
    text("\ud83d").encode()


@given(st.text())
def test_any_text_can_be_written(value: str) -> None:
    shown = text(value)
    assert not set("<>\"'") & set(shown)
    shown.encode()


def test_values_of_curves() -> None:
    values = (0.0, 5.0, 0.012345, 3e-5, 1170.4, 20_080.0, 1_500_000.0, 2e9)
    shown = ["0", "5", "0.01235", "3e-05", "1,170", "20,080", "1,500,000", "2e+09"]
    assert [number(value) for value in values] == shown


def test_lengths_of_time() -> None:
    values = (0.00085, 0.0123, 0.99999, 4.214, 119.0, 200.0, 7500.0)
    assert [seconds(value) for value in values] == [
        "850 µs", "12.3 ms", "1.00 s", "4.21 s", "119 s", "3 min 20 s", "2 h 05 min",
    ]  # fmt: skip


def test_the_page_of_many_ranks_is_quick_and_small(tmp_path: Path) -> None:
    run = ended(tmp_path, world_size=1000, ranks={"vm": list(range(1000))})
    marks = {name: 1_000_000.0 + n for n, name in enumerate(start.PHASES)}
    told = timeline(*[0.02 + 0.0001 * (rank == 3) for rank in range(1000)])
    for rank in told["ranks"].values():
        rank |= {"marks": marks, "attempts": 1}
    (tmp_path / "timeline.json").write_text(json.dumps({**told, "carried": 1_000_000.0}))
    began = time.monotonic()
    shown = page.page(reported(run))
    assert time.monotonic() - began < 60
    assert "The 64 slowest of 1000 ranks" in shown
    assert 'data-rank="3"' in shown
    assert len(shown) < 2_000_000


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0027, 0.0030, 0.0033, 0.0041], (0.0027, 0.00815)),  # noise of a short step stays pale
        ([0.003] * 10, (0.003, 0.008)),
        ([0.3] * 9 + [0.4], (0.3, 0.6)),
        ([0.3] * 75 + [0.9] * 25, (0.3, 0.9)),  # a straggler sets the scale
        ([0.3] * 99 + [9.0], (0.3, 0.6)),  # one evaluation does not
    ],
)
def test_the_colour_scale_does_not_exaggerate_noise(values: list[float], expected: tuple[float, float]) -> None:
    assert svg.bounds(values) == pytest.approx(expected)


def test_the_colour_of_noise_and_of_a_straggler() -> None:
    noise = [0.0027, 0.0030, 0.0033, 0.0041]
    assert max(svg.strength(value, *svg.bounds(noise)) for value in noise) < 0.35
    slow = [0.3] * 75 + [0.9] * 25
    assert svg.strength(0.9, *svg.bounds(slow)) == 1.0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_nothing_is_written_into_another_users_directory(ddpkit: DDPKIT, tmp_path: Path) -> None:
    folder, here = tmp_path / "theirs", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    run = ended(folder)
    for path in (*folder.iterdir(), folder):
        os.chown(path, 65534, 65534)
    before = sorted(path.name for path in folder.iterdir())
    done = ddpkit("report", str(folder), cwd=here)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
    assert f"belongs to another user; the page is {run.run_id}.html in this directory" in done.stderr
    assert (here / f"{run.run_id}.html").is_file()
