"""Runs as a later shell sees them: from another folder, after a crash, with a number that another process has now."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, PATIENCE, SCRIPT, START, Command
from run_logs import all_lines

WAITS = """
import os, sys, time
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("last words", flush=True)
sys.exit(int(sys.argv[1]) if os.environ["RANK"] == "1" else 0)
"""
STUBBORN = "import signal\nsignal.signal(15, lambda *_: print('got TERM', flush=True))\n" + WAITS


@pytest.fixture
def going(start: START, script: SCRIPT) -> Callable[..., Command]:
    """A run of two ranks that goes on until there is a file `go`."""

    def run(text: str = WAITS, code: int = 0, *options: str) -> Command:
        script(text)
        command = start("launch", "-n", "2", *options, "--", "job.py", str(code))
        command.wait_for("] ready", times=2)
        return command

    return run


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(folder.glob("logs/*/run.json")).read_text())
    return found


def change(folder: Path, **values: object) -> None:
    """Change the record and the user's index, as if the run had been another one from its start."""
    path = next(folder.glob("logs/*/run.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    entry = next(folder.parent.glob(f"state*/ddpkit/runs/{path.parent.name}"))
    file = json.loads(entry.read_text())
    host = values.get("launcher_host", file["host"])
    entry.write_text(json.dumps({**file, "host": host, "run": {**file["run"], **values}}))


def state(ddpkit: DDPKIT, *args: str, **more: Any) -> tuple[str, str]:
    done = ddpkit("status", *args, "--json", **more)
    assert done.returncode == 0, done.stderr
    now = json.loads(done.stdout)
    return now["state"], now["summary"]


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A process that has nothing to do with any run."""
    processes = []

    def run() -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait(PATIENCE)


# ---- finding, and how a run stands


def test_a_run_is_seen_from_everywhere(
    going: Callable[..., Command], ddpkit: DDPKIT, elsewhere: Path, tmp_path: Path
) -> None:
    command = going(code=7)
    run_id = record(tmp_path)["run_id"]
    (listed,) = json.loads(ddpkit("ps", "--json", cwd=elsewhere).stdout)["runs"]
    assert (listed["run_id"], listed["state"], listed["world_size"]) == (run_id, "running", 2)
    assert listed["ranks"] == {os.uname().nodename.partition(".")[0]: [0, 1]}
    assert re.search(rf"^{run_id[-4:]} +job.py 7 +running +2 ", ddpkit("ps", cwd=elsewhere).stdout, re.MULTILINE)
    ways = [run_id, run_id[:12], run_id[-4:], str(tmp_path / "logs" / run_id)]
    for name in ways:
        assert state(ddpkit, name, cwd=elsewhere)[0] == "running"
    shown = ddpkit("status", run_id, cwd=elsewhere).stdout
    # A sample comes after some seconds; before, there are starts.
    assert re.search("no rank has (?:reported|started) yet|from its timeline|as seen", shown), shown
    (tmp_path / "go").touch()
    assert command.end() == 7
    now = state(ddpkit)
    assert now[0] == "failed"
    assert re.match(r"failed: rank 1 on .* failed first, .*exit code 7", now[1])
    assert json.loads(ddpkit("ps", "--json", cwd=elsewhere).stdout)["runs"][0]["state"] == "failed"


def test_the_newest_that_lives_comes_first(going: Callable[..., Command], ddpkit: DDPKIT, tmp_path: Path) -> None:
    going()
    living = record(tmp_path)["run_id"]
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    listed = json.loads(ddpkit("ps", "--json").stdout)["runs"]
    assert [each["state"] for each in listed] == ["done", "running"]
    assert json.loads(ddpkit("status", "--json").stdout)["run_id"] == living


def test_names_that_fit_none_or_many(ddpkit: DDPKIT, tmp_path: Path) -> None:
    nothing = ddpkit("status")
    assert (nothing.returncode, "no run found" in nothing.stderr) == (121, True)
    assert ddpkit("ps").returncode == 0
    assert json.loads(ddpkit("ps", "--json").stdout)["runs"] == []
    for _ in range(2):
        assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    ids = sorted(path.name for path in tmp_path.glob("logs/*"))
    for command in ("status", "logs", "stop", "attach"):
        many = ddpkit(command, ids[0][:4])
        assert many.returncode == 121
        assert many.stderr.startswith(f"ddpkit: error: '{ids[0][:4]}' matches 2 runs:\n")
        assert all(f"  ddpkit {command} {run_id[-4:]}  # true, done, " in many.stderr for run_id in ids)
        unknown = ddpkit(command, "-".join(ids[0].split("-")[:-1]) + "-zzzz")
        assert unknown.returncode == 121
        first, *rest = unknown.stderr.splitlines()
        assert re.match("ddpkit: error: run '.*-zzzz' not found; similar runs:", first)
        shown = ids[0] if command == "stop" else ids[0][-4:]
        assert f"  ddpkit {command} {shown}  # true, done, {tmp_path}" in rest


def test_a_run_whose_folder_is_gone_is_not_shown_and_not_forgotten(
    ddpkit: DDPKIT, clean_environ: dict[str, str], tmp_path: Path
) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (entry,) = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs").iterdir()
    text = entry.read_text()
    next(tmp_path.glob("logs/*")).rename(tmp_path / "moved")
    listed = ddpkit("ps", "--json")
    assert (json.loads(listed.stdout)["runs"], listed.stderr) == ([], "")
    assert "is missing: it was removed, or its disk is not mounted" in ddpkit("ps", "--all").stderr
    assert entry.read_text() == text
    # By its folder it is still found, and its logs are where they are now.
    assert json.loads(ddpkit("status", "./moved", "--json").stdout)["folder"] == str(tmp_path / "moved")
    # A folder that only another host has is not gone.
    entry.write_text(text.replace(os.uname().nodename, "node9"))
    listed = ddpkit("ps")
    assert f"not shown: run {entry.name} is in " in listed.stderr
    assert "on node9" in listed.stderr
    assert entry.exists()
    unseen = ddpkit("logs", entry.name)
    assert unseen.returncode == 121
    assert f"hint: on node9: ddpkit logs {entry.name}" in unseen.stderr


def test_an_index_that_cannot_be_written_stops_no_run(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = ddpkit("launch", "-n", "1", "--", "true", env={"XDG_STATE_HOME": str(tmp_path / "file")})
    assert done.returncode == 0
    assert "use the directory of this run: ddpkit status logs/" in done.stderr
    assert state(ddpkit, f"logs/{record(tmp_path)['run_id']}")[0] == "done"


@pytest.mark.parametrize("words", ["ps", "status", "stop", "stop x", "rm x", "logs x"])
def test_an_index_that_cannot_be_read_is_said(words: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "state/ddpkit").mkdir(parents=True)
    (tmp_path / "state/ddpkit/runs").touch()
    done = ddpkit(*words.split(), env={"XDG_STATE_HOME": str(tmp_path / "state")})
    assert "Traceback" not in done.stderr
    assert f"cannot read the runs in {tmp_path}/state/ddpkit/runs: Not a directory" in done.stderr


def test_a_relative_state_folder_is_ignored(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """As its specification says; else every folder had an index of its own."""
    env = {"XDG_STATE_HOME": "state", "HOME": str(tmp_path / "home")}
    assert ddpkit("launch", "-n", "1", "--", "true", env=env).returncode == 0
    assert len(list(tmp_path.glob("home/.local/state/ddpkit/runs/*"))) == 1
    assert not (tmp_path / "state").exists()


def test_records_of_other_versions_and_broken_ones(ddpkit: DDPKIT, tmp_path: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    path = next(tmp_path.glob("logs/*/run.json"))
    found = json.loads(path.read_text())
    for name in ("launcher_boot", "ranks", "grace", "job", "session", "format"):  # as it was before there was `ps`
        del found[name]
    path.write_text(json.dumps(found))
    assert state(ddpkit, found["run_id"])[0] == "done"
    later = json.dumps({**found, "format": 99, "invented": 1})
    older = json.dumps({**found, "format": 1})
    for text in ("", "{", "[]", '{"run_id": 1}', "[" * 100_000, json.dumps({**found, "invented": 1}), older, later):
        path.write_text(text)
        listed = ddpkit("ps")
        assert (listed.returncode, "Traceback" in listed.stderr) == (0, False)
        assert f"not shown: run {found['run_id']}: {path} is not a record of ddpkit: " in listed.stderr
        done = ddpkit("status", str(path.parent))
        assert done.returncode == 121
        assert done.stderr.startswith(f"ddpkit: error: {path} is not a record of ddpkit: ")
        if text in (older, later):
            which = "a later ddpkit wrote it (format 99)" if text == later else "an older ddpkit wrote it (format 1)"
            assert which in done.stderr


# ---- living or dead


def test_a_killed_launcher_is_lost(going: Callable[..., Command], ddpkit: DDPKIT) -> None:
    command = going()
    command.process.kill()
    # Nobody has collected it yet: a dead process that still has its number.
    os.waitid(os.P_PID, command.process.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(2):
        now, words = state(ddpkit)
        assert now == "lost"
        assert "ended without a record" in words
        command.process.wait(PATIENCE)
    stopped = ddpkit("stop")
    assert stopped.returncode == 0
    assert "has ended already: lost" in stopped.stdout
    command.wait_for_no_survivor()


def test_another_process_with_its_number_is_not_the_launcher(
    ddpkit: DDPKIT, tmp_path: Path, sleeper: Callable[[], subprocess.Popen[bytes]]
) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    other = sleeper()
    change(tmp_path, state="running", launcher_pid=other.pid)
    assert state(ddpkit)[0] == "lost"
    started = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19]
    change(tmp_path, launcher_started=started)
    assert state(ddpkit)[0] == "running", "the test itself: this would be the launcher"
    _, space = record(tmp_path)["launcher_boot"].split()
    change(tmp_path, launcher_boot=f"00000000-0000-0000-0000-000000000000 {space}")
    assert state(ddpkit)[0] == "elsewhere", "another machine with this name may have written its files just now"
    for path in next(tmp_path.glob("logs/*")).iterdir():
        os.utime(path, (1e9, 1e9))
    assert state(ddpkit)[0] == "lost", "the same number and the same ticks after another boot"
    for more in ([], ["--now"]):
        assert "has ended already" in ddpkit("stop", *more).stdout
    assert other.poll() is None


def test_a_run_of_another_host(ddpkit: DDPKIT, tmp_path: Path, sleeper: Callable[[], subprocess.Popen[bytes]]) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    other = sleeper()
    change(tmp_path, state="running", launcher_pid=other.pid, launcher_host="node9")
    folder = next(tmp_path.glob("logs/*"))
    assert state(ddpkit) == ("elsewhere", "on node9, and not visible from here")
    own = f"{sys.executable} -m ddpkit"  # a shell that is no login's may not know where ddpkit is
    assert f"hint: ssh node9 '{own} status {folder}'" in ddpkit("status").stdout
    for more in ([], ["--dry-run"], ["--now"]):
        done = ddpkit("stop", *more)
        assert done.returncode == 121
        assert f"hint: ssh node9 '{own} stop {folder}'" in done.stderr
    boot = record(tmp_path)["launcher_boot"].split()[0]
    change(tmp_path, launcher_host=os.uname().nodename, launcher_boot=f"{boot} pid:[1]")
    assert "a container" in state(ddpkit)[1]
    assert other.poll() is None


def test_a_run_whose_folder_is_removed_can_be_ended(
    going: Callable[..., Command], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    command = going()
    command.wait_for("] ready", times=2)
    shutil.rmtree(tmp_path / "logs")
    known, words = state(ddpkit)
    assert known == "running"
    assert words.endswith(
        f"its directory was moved or deleted: {json.loads(ddpkit('ps', '--json').stdout)['runs'][0]['folder']}"
    )
    assert "ready" not in ddpkit("logs").stdout
    done = ddpkit("stop")
    assert done.returncode == 0, done.stderr
    assert "has ended" in done.stdout
    assert command.end() == 143
    assert json.loads(ddpkit("ps", "--json").stdout)["runs"] == []


def test_a_stopped_launcher_is_named_and_can_be_ended(going: Callable[..., Command], ddpkit: DDPKIT) -> None:
    command = going()
    command.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, command.process.pid, os.WSTOPPED)
    shown = ddpkit("status").stdout
    assert "its launcher is stopped (SIGSTOP)" in shown
    assert f"hint: kill -CONT {command.process.pid}" in shown
    assert ddpkit("stop").returncode == 0
    assert command.end() == 143
    assert command.survivors() == {}


# ---- what ranks do


def rank(cpu: float = 5.0, **more: object) -> dict[str, object]:
    return {"pid": 4000, "state": "R", "cpu": cpu, "rss": 3 << 20, "out": 990.0, "code": None, "signal": None, **more}


CALM: dict[str, Any] = {"state": "S", "cpu": 1.0, "out": 900.0}
# (what ranks 0 and 1 of node1 and 2 and 3 of node2 do at second 1000; before, each had used 1.0 s of processor time)
LOOKS: dict[str, tuple[list[dict[str, object]], list[str]]] = {
    "all work": ([rank()] * 4, []),
    "a stopped one": (
        [rank(), rank(), rank(state="T", pid=77, cpu=1.0), rank()],
        [
            "rank 2 on node2 is stopped (SIGSTOP); to continue it: kill -CONT 77 on node2",
        ],
    ),
    "the others wait for a stopped one": (
        [rank(**CALM), rank(**CALM), rank(state="T", pid=77, cpu=1.0), rank(**CALM)],
        [
            "rank 2 on node2 is stopped (SIGSTOP); to continue it: kill -CONT 77 on node2",
            (
                "3 of 4 ranks wait (ranks 0-1, 3): no CPU time, and no output for 100 s or more; "
                "not waiting: rank 2 on node2; for its stack: ddpkit dump RUN"
            ),
        ],
    ),
    "one works, the others wait for it": (
        [rank(**CALM), rank(), rank(**CALM), rank(**CALM)],
        [
            (
                "3 of 4 ranks wait (ranks 0, 2-3): no CPU time, and no output for 100 s or more; "
                "not waiting: rank 1 on node1; for its stack: ddpkit dump RUN"
            ),
        ],
    ),
    "one waits": (
        [rank(), rank(), rank(), rank(**CALM, pid=78)],
        [
            (
                "rank 3 on node2 waits while 3 others are busy: no CPU time, and no output for 100 s or more; "
                "for its stack: ddpkit dump RUN"
            ),
        ],
    ),
    "all wait": (
        [rank(**CALM)] * 4,
        [
            ("all 4 ranks wait: no CPU time, and no output for 100 s or more; for the stacks: ddpkit dump RUN"),
        ],
    ),
    "quiet, but at work": ([rank(out=None)] * 4, []),
    "idle, but it just wrote": ([rank(**{**CALM, "out": 999.0})] * 4, []),
    "a debugger": (
        [rank(state="t", pid=77), rank(), rank(), rank()],
        [
            ("rank 0 on node1 is held by a debugger; to find it: grep TracerPid /proc/77/status on node1"),
        ],
    ),
    "a disk": (
        [rank(**{**CALM, "state": "D"}, pid=77), rank(), rank(), rank()],
        [
            (
                "rank 0 on node1 waits for a disk, a network file system or a driver (state D); "
                "on node1: cat /proc/77/stack, dmesg -T | tail"
            ),
        ],
    ),
    "reads from a disk": ([rank(state="D"), rank(), rank(), rank()], []),
    "one has ended": (
        [rank(), rank(state="", code=0), rank(), rank()],
        ["rank 1 on node1 ended with exit code 0, and 3 others continue"],
    ),
    "all have ended": ([rank(state="", code=0)] * 3 + [rank(state="", signal=9)], []),
}


@pytest.fixture
def looked_at(going: Callable[..., Command], tmp_path: Path) -> Callable[..., None]:
    """A living run with a `status.json` of our own: its launcher is stopped, or it would write another."""
    os.kill(going().process.pid, signal.SIGSTOP)

    def write(now: list[dict[str, object]], age: float = 1.0, heard: float = 0.0) -> None:
        base = time.time() - 1000.0 - age

        def hosts(t: float, ranks: list[dict[str, object]]) -> dict[str, object]:
            rows = [{**each, "out": base + float(each["out"]) if each["out"] else None} for each in ranks]  # type: ignore[arg-type]
            return {
                "node1": {"t": base + t, "ranks": {"0": rows[0], "1": rows[1]}},
                "node2": {"t": base + t - heard, "ranks": {"2": rows[2], "3": rows[3]}},
            }

        before = [{**each, "cpu": 1.0} for each in now]
        text = json.dumps({"t": base + 1000.0, "hosts": hosts(1000.0, now), "prev": hosts(995.0, before)})
        (next(tmp_path.glob("logs/*")) / "status.json").write_text(text)
        change(tmp_path, started=base)

    return write


def test_what_ranks_do(looked_at: Callable[..., None], ddpkit: DDPKIT) -> None:
    for name, (ranks, sentences) in LOOKS.items():
        looked_at(ranks)
        done = ddpkit("status", "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert [re.sub("ddpkit dump .*", "ddpkit dump RUN", words) for words in found["findings"]] == sentences, name
        assert [row["rank"] for row in found["sample"]["ranks"]] == [0, 1, 2, 3]
    looked_at([rank(), rank(**CALM), rank(state="T"), rank(state="", signal=9)])
    shown = ddpkit("status").stdout
    for row in (
        r"0 +node1 +4000 +runs +80 % +3 MiB +10 s ago",
        r"1 +node1 +4000 +waits +0 % +3 MiB +100 s ago",
        r"2 +node2 +4000 +stopped +80 %",
        r"3 +node2 +4000 +ended: signal 9 \(SIGKILL\)",
        r"as seen \d s ago",
    ):
        assert re.search(row, shown), shown


def test_an_old_look_and_a_silent_host(looked_at: Callable[..., None], ddpkit: DDPKIT, tmp_path: Path) -> None:
    looked_at([rank()] * 4, age=50.0, heard=40.0)
    old, silent = json.loads(ddpkit("status", "--json").stdout)["findings"]
    assert re.fullmatch(r"the last check of the ranks is 5\d s old", old)
    assert silent == "last message of node2 40 s before: ping node2"
    looked_at([rank()] * 4)
    path = next(tmp_path.glob("logs/*/status.json"))
    for text in (
        "",
        "{}",
        "[]",
        '{"t": 1, "hosts": {"a": {}}}',
        '{"t": 1, "hosts": {"a": {"t": 1, "ranks": {"x": {}}}}}',
    ):
        path.write_text(text)
        assert "from its timeline; for CPU and memory: ddpkit top" in ddpkit("status").stdout
        sample = json.loads(ddpkit("status", "--json").stdout)["sample"]
        assert [each["cpu"] for each in sample["ranks"]] == [None, None]
        assert {each["words"] for each in sample["ranks"]} <= {"started", "no start reported yet"}
    # No second look yet: nothing is known of processor time, and nothing is claimed.
    path.write_text(json.dumps({"t": time.time(), "hosts": {"a": {"t": time.time(), "ranks": {"0": rank(**CALM)}}}}))
    assert json.loads(ddpkit("status", "--json").stdout)["findings"] == []


# ---- logs


def test_lines_are_chosen(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(
        "import os, sys\nrank = os.environ['RANK']\nprint('one of', rank)\nprint('(two) of', rank)\n"
        "sys.stdout.write('bar 1\\rbar 2\\rbar 3')\n"
    )
    assert ddpkit("launch", "-n", "3", "--", "job.py").returncode == 0
    host = os.uname().nodename.partition(".")[0]

    def shown(*args: str) -> list[str]:
        done = ddpkit("logs", *args)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    (folder,) = tmp_path.glob("logs/*")
    assert shown() == all_lines(folder).splitlines()
    assert shown("-n", "2") == shown()[-2:]
    assert sorted(shown("--rank", "0,2", "--grep", "^one")) == [f"[{rank} {host}] one of {rank}" for rank in (0, 2)]
    assert sorted(shown("--rank", "1-2", "--grep", r"\(two")) == [f"[{rank} {host}] (two) of {rank}" for rank in (1, 2)]
    assert len(shown("--host", host)) == 9
    assert shown("--rank", "1", "--grep", "of") == ["one of 1", "(two) of 1"]
    exact = subprocess.run(
        [sys.executable, "-m", "ddpkit", "logs", str(folder), "--rank", "1"], capture_output=True, check=True
    ).stdout
    assert exact == b"one of 1\n(two) of 1\nbar 1\rbar 2\rbar 3" == (folder / "rank_1.log").read_bytes()
    rows = [json.loads(line) for line in shown("--rank", "2", "--json")]
    assert rows[0] == {
        "schema": "ddpkit.logs/1",
        "rank": 2,
        "host": host,
        "line": "one of 2",
        "agent": None,
        "role": None,
    }
    assert json.loads(shown("-n", "1", "--json")[0])["line"].startswith("done in ")


BAD = {
    "no rank": (["--rank", "2"], "--rank 2: the run has ranks 0-1"),
    "no range": (["--rank", "1-0"], "--rank 1-0: the run has ranks"),
    "no number": (["--rank", "one"], "--rank one: not a list of ranks; forms: 3, 0,2 or 4-7"),
    "half a range": (["--rank", "1-"], "--rank 1-: not a list of ranks; forms:"),
    "no host": (["--host", "node9"], "not a host of run"),
    "no pattern": (["--grep", "("], "--grep (: missing )"),
    "no lines": (["-n", "0"], "--tail 0: must be at least 1"),
}


def test_bad_choices(ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "-n", "2", "--", "true").returncode == 0
    for name, (args, message) in BAD.items():
        done = ddpkit("logs", *args)
        assert (done.returncode, done.stdout) == (121, ""), name
        assert message in done.stderr.splitlines()[0]


FOLLOWED = {
    "all": ([], ["] ready", "] last words"]),
    "one rank": (["--rank", "1"], ["ready", "last words"]),
    "some": (["--grep", "words", "-n", "5"], ["] last words"]),
    "as JSON": (["--json"], ['"line": "last words"']),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_follow_until_the_end(
    name: str, going: Callable[..., Command], start: START, tmp_path: Path, elsewhere: Path
) -> None:
    args, texts = FOLLOWED[name]
    command = going(code=3)
    run_id = record(tmp_path)["run_id"]
    follower = start("logs", run_id, "-f", *args, cwd=elsewhere)
    if texts[0] != texts[-1]:
        follower.wait_for(texts[0])
    (tmp_path / "go").touch()
    assert command.end() == 3
    assert follower.end() == 0
    for text in texts:
        assert text in follower.text
    assert "failed" in follower.text or name == "as JSON"


@pytest.mark.parametrize("words", ["logs -f", "logs -f --rank 0", "attach"])
def test_follow_ends_with_its_reader(
    words: str, going: Callable[..., Command], clean_environ: dict[str, str], tmp_path: Path
) -> None:
    """`ddpkit logs -f | grep -m1 ready` in a script: nothing more is printed for a long time."""
    command = going()
    command.wait_for("] ready", times=2)
    read, write = os.pipe()
    argv = [sys.executable, "-m", "ddpkit", *words.split()]
    with subprocess.Popen(argv, cwd=tmp_path, env=clean_environ, stdout=write, stderr=subprocess.PIPE) as follower:
        os.close(write)
        with open(read, "rb") as stream:
            assert any(b"ready" in line for line in stream)
        assert follower.wait(PATIENCE) != 0  # as with a write that finds nobody
        assert follower.stderr is not None
        assert b"Traceback" not in follower.stderr.read()


def test_follow_ends_with_a_killed_launcher(going: Callable[..., Command], start: START) -> None:
    command = going()
    follower = start("logs", "-f")
    follower.wait_for("] ready", times=2)
    command.process.kill()
    command.process.wait(PATIENCE)
    assert follower.end() == 0


@pytest.mark.parametrize("verb", [["logs", "-f"], ["attach"]], ids=str)
def test_an_interrupt_leaves_the_view_only(
    verb: list[str], going: Callable[..., Command], start: START, ddpkit: DDPKIT
) -> None:
    command = going()
    follower = start(*verb)
    follower.wait_for("] ready", times=2)
    follower.process.send_signal(signal.SIGINT)
    assert follower.end() == 130
    assert "Traceback" not in follower.text
    assert command.process.poll() is None
    assert state(ddpkit)[0] == "running"


def test_attach_shows_what_goes_on(
    going: Callable[..., Command], tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    """In a terminal, as a person would see it."""
    command = going()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, [sys.executable, "-m", "ddpkit", "attach"], clean_environ)
    seen = b""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break  # the other end is closed
        if seen.count(b"] ready") == 2:
            (tmp_path / "go").touch()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen
    os.close(terminal)
    assert command.end() == 0
    assert b"Ctrl-C closes this view only" in seen
    assert seen.count(b"] last words") == 2
    assert b"done after" in seen


def test_attach_to_a_run_that_has_ended(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("import sys\nfor n in range(30): print('line', n)\nsys.exit(5)")
    assert ddpkit("launch", "-n", "1", "--", "job.py").returncode == 5
    done = ddpkit("attach")
    assert done.returncode == 5, "as the launch"
    assert ddpkit("status").returncode == 0
    assert "line 29" in done.stdout
    assert "line 3\n" not in done.stdout
    assert done.stdout.count("exit code 5") == 1
    assert "for all lines: ddpkit logs " in done.stderr


# ---- stop


def test_stop_ends_the_run_and_waits_for_it(going: Callable[..., Command], ddpkit: DDPKIT, elsewhere: Path) -> None:
    command = going()
    run_id = json.loads(ddpkit("ps", "--json").stdout)["runs"][0]["run_id"]
    dry = ddpkit("stop", run_id, "--dry-run", cwd=elsewhere)
    assert dry.stdout == f"kill -TERM {command.process.pid}  # on {os.uname().nodename}\n"
    assert json.loads(ddpkit("stop", "--dry-run", "--json").stdout)["commands"][0]["argv"] == [
        "kill",
        "-TERM",
        str(command.process.pid),
    ]
    assert command.process.poll() is None
    done = ddpkit("stop", run_id, "--json", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    assert (found["was"], found["state"], found["exit_code"]) == ("running", "stopped", 143)
    assert command.survivors() == {}, "when it says so it is true"
    assert command.end() == 143
    again = ddpkit("stop")
    assert again.returncode == 0
    assert again.stderr == "ddpkit: no run of this project is running; to list the runs: ddpkit ps\n"
    assert re.fullmatch(r"run \S+ has ended already: stopped \(it ran for [\d.]+ s\)\n", again.stdout)


def test_a_dry_run_of_stop_shows_no_command_that_stop_refuses(
    going: Callable[..., Command], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    command = going()
    (folder,) = (path for path in (tmp_path / "logs").iterdir() if path.is_dir())
    others = tmp_path / "shared" / folder.name  # its record names a process of this user, and others can change it
    shutil.copytree(folder, others)
    others.chmod(0o777)
    for words in (("stop", "--dry-run"), ("stop", "--dry-run", "--json"), ("stop",)):
        done = ddpkit(*words, str(others))
        assert (done.returncode, done.stdout) == (121, ""), words
        assert "ddpkit signals no process that it names" in done.stderr
    assert command.process.poll() is None


def test_stop_now_gives_no_time(going: Callable[..., Command], ddpkit: DDPKIT) -> None:
    command = going(STUBBORN, 0, "--grace", "3600")
    assert ddpkit("stop", "--dry-run", "--now").stdout.startswith(f"kill -QUIT {command.process.pid} ")
    assert ddpkit("stop", "--now").returncode == 0
    assert command.survivors() == {}
    assert command.end() == 131


def test_stop_now_after_a_stop_that_takes_long(going: Callable[..., Command], ddpkit: DDPKIT, start: START) -> None:
    command = going(STUBBORN, 0, "--grace", "3600")
    patient = start("stop")
    command.wait_for("got TERM", times=2)
    assert patient.process.poll() is None
    assert ddpkit("stop", "--now").returncode == 0
    assert command.end() == 143
    assert patient.end() == 0
    assert "stopped (it ran for " in patient.text


def test_stop_does_not_guess(going: Callable[..., Command], ddpkit: DDPKIT, tmp_path: Path) -> None:
    first, second = going(), going()
    done = ddpkit("stop")
    assert done.returncode == 121
    assert done.stderr.startswith("ddpkit: error: 2 runs of this project are running:\n")
    named = re.search(r"  ddpkit stop (\S+)  # job.py 0, running, ", done.stderr)
    assert named
    assert ddpkit("stop", named[1]).returncode == 0
    assert (first.process.poll() is None) != (second.process.poll() is None)
    assert ddpkit("stop").returncode == 0
    assert (first.end(), second.end()) == (143, 143)
