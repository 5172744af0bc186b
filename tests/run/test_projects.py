"""Which runs a command without RUN may touch: those of this project, never another's; and `ps` and `rm`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import DDPKIT, START, Command
from terminal import Terminal

from ddpkit.cli import runs
from ddpkit.diagnosis.outcome import Diagnosis, Failure
from ddpkit.run.record import Run
from ddpkit.run.run_index import find_project, list_runs, short_ids
from ddpkit.run.state import RunState
from ddpkit.run.status import RunStatus

WAITS = "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"


@pytest.fixture
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another project, with a configuration file and a directory below it."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "ddpkit.toml").touch()
    (folder / "src").mkdir()
    return folder


@pytest.fixture
def running(start: START, script: Callable[..., str]) -> Command:
    """A run of this project."""
    script(WAITS)
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("] ready")
    return command


# ---- the run that is meant


def test_records_that_nobody_asked_for_are_not_read(
    ddpkit: DDPKIT, other: Path, clean_environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user has thousands of runs."""
    for folder in (tmp_path, other):
        assert ddpkit("launch", "-n", "1", "--", "true", cwd=folder).returncode == 0
    mine, its = (next(folder.glob("logs/*")).name for folder in (tmp_path, other))
    monkeypatch.setenv("XDG_STATE_HOME", clean_environ["XDG_STATE_HOME"])
    for about, read, unread in (
        ([str(tmp_path)], [mine], [its]),
        ([str(other), "no such run"], [its], [mine]),
        ([its[-4:]], [its], [mine]),
        (["true"], [its, mine], []),
        ([], [its, mine], []),
    ):
        known = list_runs(about)
        assert [entry.run_id for entry in known if entry.run is not None] == read
        assert [entry.run_id for entry in known if entry.unread] == unread


@pytest.mark.parametrize("command", ["stop", "stop --now", "dump", "top", "report", "attach", "logs", "status"])
def test_never_a_run_of_another_project(
    command: str, running: Command, other: Path, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    (folder,) = tmp_path.glob("logs/*")
    done = ddpkit(*command.split(), cwd=other)
    assert done.returncode == 121
    verb = command.split()[0]
    assert done.stderr.splitlines() == [
        f"ddpkit: error: no run of this project ({other}) found; runs of other projects:",
        f"  ddpkit {verb} {folder.name if verb == 'stop' else folder.name[-4:]}  # job.py, running, {tmp_path}",
        "hint: ddpkit ps",
    ]
    assert running.process.poll() is None
    assert not (folder / "report.html").exists()
    assert not list(folder.glob("dump-*"))


def test_stop_lists_no_ended_run_of_another_project(ddpkit: DDPKIT, other: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true", cwd=other).returncode == 0
    done = ddpkit("stop")
    assert done.returncode == 121
    assert done.stderr.splitlines() == [
        "ddpkit: error: no run is running, in this project or in another",
        "hint: ddpkit ps",
    ]


def test_its_own_run_from_a_directory_below(ddpkit: DDPKIT, other: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true", cwd=other).returncode == 0
    assert ddpkit("status", cwd=other / "src").returncode == 0
    assert json.loads((next(other.glob("logs/*")) / "run.json").read_text())["project"] == str(other)


def test_what_acts_on_all_runs_climbs_to_no_directory_above(ddpkit: DDPKIT, other: Path) -> None:
    """Not even to the directory of the same project."""
    below = other / "src"
    for folder in (other, below):
        assert ddpkit("launch", "-n", "1", "--log-dir", str(other / "logs"), "--", "true", cwd=folder).returncode == 0
    (below / "new").mkdir()
    kept = ddpkit("rm", "--ended", "--yes", cwd=below / "new")
    assert kept.stderr == f"no ended runs of this directory (the project is {other})\n"
    assert len([*other.glob("logs/*")]) == 2
    none = ddpkit("stop", "--all", cwd=below / "new")
    assert f"no run of this directory (the project is {other}) is running" in none.stderr
    assert ddpkit("rm", "--ended", "--yes", cwd=below).returncode == 0
    assert len([*other.glob("logs/*")]) == 1
    assert ddpkit("rm", "--ended", "--yes", cwd=other).returncode == 0
    assert not [*other.glob("logs/*")]


def test_stop_all_stops_nothing_of_a_directory_above(running: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").touch()
    (tmp_path / "new").mkdir()
    assert "is running" in ddpkit("stop", "--all", cwd=tmp_path / "new").stderr
    assert ddpkit("status").stdout.startswith("run ")
    stopped = ddpkit("stop", "--all")
    assert stopped.returncode == 0
    assert "stopped" in stopped.stdout
    assert running.end() != 0


def test_a_directory_below_a_project_without_a_mark(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "a/src").mkdir(parents=True)
    (tmp_path / "marked").mkdir()
    (tmp_path / "marked/ddpkit.toml").touch()
    assert ddpkit("launch", "-n", "1", "--", "true", cwd=tmp_path / "a").returncode == 0
    assert ddpkit("status", cwd=tmp_path / "a/src").returncode == 0
    assert ddpkit("explain", cwd=tmp_path / "a/src").returncode == 0
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    assert ddpkit("status", cwd=tmp_path / "marked").returncode == 121, "a project of its own"
    (tmp_path / "open").mkdir()
    tmp_path.chmod(0o777)
    assert ddpkit("status", cwd=tmp_path / "open").returncode == 121, "as in /tmp"


@pytest.mark.parametrize("command", ["status", "logs", "explain", "report"])
def test_a_run_of_another_host_whose_directory_is_here(command: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """The home of that host, which has its index, is not shared."""
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "elsewhere")}
    for word in (folder.name, folder.name[-4:]):
        done = ddpkit(command, word, env=elsewhere)
        assert done.returncode == 0, done.stderr


def test_stop_all_stops_this_project_alone(
    running: Command, start: START, other: Path, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    (other / "job.py").write_text(WAITS)
    away = start("launch", "-n", "1", "--", "job.py", cwd=other)
    away.wait_for("] ready")
    second = start("launch", "-n", "1", "--", "job.py")
    second.wait_for("] ready")
    shown = ddpkit("stop", "--all", "--dry-run").stdout
    assert shown.count("kill -TERM ") == 2
    assert f" {away.process.pid} " not in shown
    assert ddpkit("stop", "--all").returncode == 0
    assert {running.end(), second.end()} == {143}
    assert away.process.poll() is None
    (other / "go").touch()
    assert away.end() == 0


@pytest.mark.parametrize(
    ("marker", "at", "project"),
    [
        ("ddpkit.toml", "a/b", "a"),
        (".git/", "a/b", "a"),
        ("", "a/b", "a/b"),
        ("", "a", "a"),
    ],
)
def test_project(marker: str, at: str, project: str, tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    if marker:
        mark = tmp_path / "a" / marker
        mark.mkdir() if marker.endswith("/") else mark.touch()
    assert find_project(tmp_path / at) == tmp_path / project


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file needs root")
@pytest.mark.parametrize("marker", ["ddpkit.toml", ".git"])
@pytest.mark.parametrize(("owner", "project"), [(54398, "a/b"), (54399, "a"), (0, "a")])
def test_a_mark_that_others_put_there_does_not_count(marker: str, owner: int, project: str, tmp_path: Path) -> None:
    """In /tmp anybody could make one project of all that a user has there."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a" / marker).touch()
    os.chown(tmp_path / "a", 54399, -1)  # a colleague's directory, and its owner's or root's mark
    os.chown(tmp_path / "a" / marker, owner, -1)
    assert find_project(tmp_path / "a/b") == tmp_path / project


def test_a_home_in_git_is_not_one_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "a").mkdir()
    assert find_project(tmp_path / "a") == tmp_path / "a"
    assert find_project(tmp_path) == tmp_path


def test_short_ids() -> None:
    assert short_ids(["20260101-000000-train-3fa9", "20260102-000000-eval-77aa"]) == {
        "20260101-000000-train-3fa9": "3fa9",
        "20260102-000000-eval-77aa": "77aa",
    }
    twice = ["20260101-000000-train-3fa9", "20260102-000000-eval-3fa9"]
    assert list(short_ids(twice).values()) == twice


def test_a_run_is_found_by_its_name(ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    assert "done" in ddpkit("status", "true").stdout
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    many = ddpkit("status", "true")
    assert many.returncode == 121
    assert "'true' matches 2 runs" in many.stderr


# ---- ps

FAILED = Failure(
    host="node1",
    rank=1,
    what="rank",
    code=7,
    diagnosis=Diagnosis(cause="ValueError: no data in\n/data/imagenet, " * 20, fix="ls"),
)
RUN = Run(
    run_id="20260101-000000-train-3fa9",
    folder="/a/logs/20260101-000000-train-3fa9",
    backend="ssh",
    command=("train.py", "--epochs", "300", "--learning-rate", "0.001", "--data", "/data/imagenet"),
    workdir="/a",
    hosts=("node1", "node2"),
    world_size=16,
    launcher_pid=1,
    launcher_started="1",
    launcher_host="login",
    started=0.0,
)
SEEN = [
    RunStatus(state=RunState.RUNNING, words="runs for 2 min", run=RUN),
    RunStatus(
        state=RunState.FAILED, words="failed", run=replace(RUN, state=RunState.FAILED, exit_code=7, failure=FAILED)
    ),
    RunStatus(state=RunState.STOPPED, words="stopped", run=replace(RUN, state=RunState.STOPPED, ended=60.0)),
]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_ps_is_one_line_a_run_at_any_width(width: int) -> None:
    head, *rows = runs.table_of_runs(SEEN, {RUN.run_id: "3fa9"}, 120.0, width)
    assert head.split() == ["ID", "COMMAND", "STATE", "RANKS", "HOSTS", "AGE", "RESULT"]
    assert len(rows) == 3
    assert all(row.startswith("3fa9  train.py ") and len(row) <= width for row in rows)
    assert " running " in rows[0]
    assert " exit 7" in rows[1]
    assert rows[2].endswith(" after 60 s")


@pytest.mark.parametrize("width", [80, 200])
def test_ps_shows_the_directories_of_other_projects(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    other = replace(SEEN[1], run=replace(SEEN[1].run, project="/home/me/experiments/of/last/year"))
    mine = replace(SEEN[2], run=replace(SEEN[2].run, project="/a"))
    head, *rows = runs.table_of_runs([other, mine], {RUN.run_id: "3fa9"}, 120.0, width, Path("/a"))
    assert head.split() == ["ID", "COMMAND", "STATE", "RANKS", "HOSTS", "AGE", "DIRECTORY", "RESULT"]
    assert all(len(row) <= width for row in rows)
    at = head.index("DIRECTORY")
    shown, following = (row[at:].split(" ")[0] for row in rows)
    assert following == "."
    assert "~/experiments/of/last/year".endswith(shown.removeprefix("..."))
    assert shown.startswith("~/" if width == 200 else "...")
    assert "DIRECTORY" not in runs.table_of_runs([mine], {RUN.run_id: "3fa9"}, 120.0, width, Path("/a"))[0]


def test_ps_cuts_nothing_that_has_room() -> None:
    row = runs.table_of_runs(SEEN[2:], {RUN.run_id: "3fa9"}, 120.0, 200)[1]
    assert "--data /data/imagenet  stopped  16     node1 +1  2 min  after 60 s" in row


def test_ps_shows_the_name_of_a_run_or_its_job() -> None:
    named = replace(RUN, run_id="20260101-000000-base-line-3fa9")
    row = runs.table_of_runs([replace(SEEN[0], run=named)], {named.run_id: "3fa9"}, 120.0, 200)[1]
    assert row.startswith("3fa9  base-line: train.py --epochs 300 ")


def test_the_name_of_a_job_names_its_run(ddpkit: DDPKIT, tmp_path: Path) -> None:
    shown = ddpkit("launch", "-b", "slurm", "-J", "base-line", "--dry-run", "--", "true").stdout
    assert "#SBATCH --job-name=base-line\n" in shown
    assert "export DDPKIT_RUN=" in shown
    assert "-base-line-" in shown.split("export DDPKIT_RUN=")[1].splitlines()[0]


def test_ps_in_a_narrow_terminal_and_a_pipe(ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    words = ["true", *("word" * 3 for _ in range(30))]
    for _ in range(2):
        assert ddpkit("launch", "-n", "1", "--", *words).returncode == 0
    ids = sorted((path.name for path in tmp_path.glob("logs/*")), reverse=True)
    piped = ddpkit("ps").stdout.splitlines()
    assert {line.split()[0] for line in piped[1:]} == {run_id[-4:] for run_id in ids}
    assert all(len(line) <= runs.PIPED and "\t" not in line and "\x1b" not in line for line in piped)
    assert sorted(ddpkit("ps", "-q").stdout.splitlines(), reverse=True) == ids
    assert len(ddpkit("ps", "-q", "-n", "1").stdout.splitlines()) == 1
    assert len(ddpkit("ps", "-n", "1").stdout.splitlines()) == 2
    assert ddpkit("ps", "-n", "x").returncode == 121
    terminal = Terminal([sys.executable, "-m", "ddpkit", "ps"], tmp_path, clean_environ)
    assert terminal.end() == 0
    assert [len(line) <= 80 for line in terminal.glass.lines if line] == [True] * 3


# ---- rm


def test_rm_removes_ended_runs(running: Command, ddpkit: DDPKIT, other: Path, tmp_path: Path) -> None:
    (going,) = tmp_path.glob("logs/*")
    assert ddpkit("launch", "-n", "1", "--", "true", cwd=other).returncode == 0
    for _ in range(2):
        assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    first, second = (path for path in tmp_path.glob("logs/*") if path != going)
    refused = ddpkit("rm", going.name, first.name)
    assert refused.returncode == 121
    assert f"run {going.name} has not ended (running); nothing was removed" in refused.stderr
    assert ddpkit("rm").returncode == 121
    assert ddpkit("rm", first.name, "--dry-run").stdout == f"would remove {first}\n"
    assert first.exists()
    dump = first / "dump-20260801-120000"  # of `ddpkit dump`; what ddpkit does not name so has to be agreed to
    dump.mkdir()
    (dump / "summary.json").touch()
    assert ddpkit("rm", first.name[-4:]).stdout == f"removed {first}\n"
    assert not first.exists()
    assert ddpkit("rm", "--ended").stdout == f"removed {second}\n"
    assert list(tmp_path.glob("logs/*")) == [going]
    assert len(list(other.glob("logs/*"))) == 1
    assert len(ddpkit("ps", "-q").stdout.splitlines()) == 2
    (tmp_path / "go").touch()
    assert running.end() == 0


def test_the_run_that_was_chosen_is_named_where_several_exist(running: Command, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (folder,) = tmp_path.glob("logs/*")
    alone = ddpkit("logs")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    for command in ("logs", "status"):
        done = ddpkit(command)
        assert done.stderr.splitlines() == [f"ddpkit: run {folder.name}, the newest of this project that is running"]
    assert ddpkit("logs", folder.name).stderr == ""


def test_attach_prints_the_verdict_of_an_ended_run_once(ddpkit: DDPKIT, script: Callable[..., str]) -> None:
    failed = ddpkit("launch", "-n", "1", "--", script("raise SystemExit(3)"))
    verdict = next(line for line in failed.stderr.splitlines() if "failed first" in line).removeprefix("ddpkit: ")
    done = ddpkit("attach")
    assert done.returncode == 3
    assert (done.stdout + done.stderr).count(verdict) == 1
    assert ": failed; for all lines: ddpkit logs " in done.stderr


def test_a_run_starts_with_its_launcher(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """The report's duration and its start-up section begin with the same moment."""
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    record, launch = (json.loads((folder / name).read_text()) for name in ("run.json", "launch.json"))
    assert record["started"] == launch["began"] < launch["prepared"]
