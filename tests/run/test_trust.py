"""Records that somebody else wrote, or that name what is another's: shown, and nothing in them is obeyed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from conftest import DDPKIT, PATIENCE, SCRIPT, START
from program import wait_until
from terminal import Terminal

from ddpkit.execution.job import program_files
from ddpkit.launchers.plan import Job
from ddpkit.run import run_files

ID = "20260101-000000-train-0a1b"
LOOKS = (
    ("status",), ("explain",), ("report",), ("logs",), ("attach",), ("rm", "--dry-run"), ("rm",), ("dump",), ("top",),
    ("stop", "--dry-run"), ("stop",), ("stop", "--now"), ("status", "--json"),
)  # fmt: skip


def start_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def boot() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"


def planted(folder: Path, /, **values: Any) -> dict[str, Any]:
    """A record that somebody wrote, in `folder`."""
    record = {
        "run_id": ID, "folder": str(folder), "backend": "slurm-srun", "command": ["train.py"], "workdir": "/tmp",
        "hosts": ["node1"], "world_size": 2, "launcher_pid": 1, "launcher_started": "1", "launcher_boot": boot(),
        "launcher_host": os.uname().nodename, "started": 1.7e9, "state": "left", "format": 2, **values,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "all.log").write_text("[0 node1] hello\n")
    return record


JOB: dict[str, Any] = {"log": "", "many": False}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the user's that has nothing to do with any run."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield process
    process.kill()
    process.wait(PATIENCE)


@pytest.fixture
def other(tmp_path: Path, clean_environ: dict[str, str]) -> Path:
    """Where `scontrol`, `scancel` and `ssh` say that somebody called them."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("scontrol", "scancel", "ssh", "squeue", "srun"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\nexit 1\n')
        (programs / name).chmod(0o755)
    clean_environ["PATH"] = f"{programs}:{clean_environ['PATH']}"
    return tmp_path / "called"


# ---- what a record names


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o777])
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_no_command_of_a_record_runs(ddpkit: DDPKIT, tmp_path: Path, words: tuple[str, ...], mode: int) -> None:
    folder = tmp_path / "logs" / ID
    planted(folder, job={**JOB, "state": ["sh", "-c", f"id > {tmp_path}/PWNED"]}, job_id="7")
    folder.chmod(mode)
    done = ddpkit(*words, str(folder), env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"})
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "PWNED").exists()
    assert (folder / "run.json").exists()


def test_a_run_of_the_index_whose_directory_others_write_runs_nothing(
    start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    """The umask 002 of many sites: a colleague changes the record, and the user types `ddpkit ps`."""
    script("print('hello')")
    assert ddpkit("launch", "-n", "1", "--", "job.py").returncode == 0
    folder = next(tmp_path.glob("logs/*"))
    found = json.loads((folder / "run.json").read_text())
    changed = {**found, "state": "left", "job_id": "7", "job": {**JOB, "state": ["sh", "-c", f"id > {tmp_path}/PWNED"]}}
    (folder / "run.json").write_text(json.dumps(changed))
    folder.chmod(0o775)
    for words in (("ps",), ("status",), ("stop",), ("stop", "--all"), ("rm", "--ended", "--dry-run")):
        done = ddpkit(*words)
        assert "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("path", [".:{}", ":{}", "bin:{}", "HERE/bin:{}"])
def test_no_program_of_the_directory_that_is_looked_at_runs(
    path: str, ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    """PATH with a point, an empty or a relative entry: `./scontrol` was asked. One by its whole path still is."""
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    folder, entry = tmp_path / "logs" / ID, Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs", ID)
    record = planted(folder, job=JOB, job_id="7")
    (folder / ".ddpkit").write_text("run\n")
    entry.write_text(json.dumps({"folder": str(folder), "host": os.uname().nodename, "run": record}))
    entry.chmod(0o600)
    (tmp_path / "bin").mkdir()
    for place in (tmp_path, tmp_path / "bin"):
        for name in ("scontrol", "squeue", "sacct", "git", "ssh", "tmux"):
            (place / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
            (place / name).chmod(0o755)
    for words in (("ps",), ("status", ID), ("report", ID), ("launch", "--dry-run", "-b", "slurm", "--", "job.py")):
        ddpkit(*words, env={"PATH": path.format("/usr/bin:/bin").replace("HERE", str(tmp_path))})
    assert (tmp_path / "ran").exists() == path.startswith("HERE")


def test_the_id_of_a_record_is_no_path_that_is_deleted(ddpkit: DDPKIT, tmp_path: Path) -> None:
    keys = tmp_path / "authorized_keys"
    keys.write_text("key")
    for run_id in (str(keys), "../../authorized_keys", f"{ID}/../../../authorized_keys"):
        planted(tmp_path / ID, run_id=run_id, state="done")
        done = ddpkit("rm", str(tmp_path / ID))
        assert done.returncode == 121
        assert f"{tmp_path / ID}/run.json is not a record of ddpkit: run_id: the id of a run is required" in done.stderr
        assert keys.exists()
        assert (tmp_path / ID / "all.log").exists()


@pytest.mark.parametrize("words", [("stop",), ("stop", "--now"), ("dump",), ("top", "--once")], ids=" ".join)
@pytest.mark.parametrize("in_program", [False, True])
def test_a_process_that_a_record_names_gets_no_signal(
    ddpkit: DDPKIT, tmp_path: Path, sleeper: subprocess.Popen[bytes], words: tuple[str, ...], in_program: bool
) -> None:
    folder = tmp_path / ID
    planted(
        folder, backend="local", state="running", launcher_pid=sleeper.pid, launcher_started=start_of(sleeper.pid),
        in_program=in_program,
    )  # fmt: skip
    folder.chmod(0o755 if not in_program else 0o777)
    done = ddpkit(*words, str(folder))
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr
    assert sleeper.poll() is None
    assert not (folder / "requests").exists()


def test_a_reader_of_a_log_is_not_its_launcher(ddpkit: DDPKIT, tmp_path: Path) -> None:
    folder = tmp_path / ID
    record = planted(folder, backend="local", state="running")
    reader = subprocess.Popen(["tail", "-f", str(folder / "all.log")], stdout=subprocess.DEVNULL)
    try:
        (folder / "run.json").write_text(
            json.dumps({**record, "launcher_pid": reader.pid, "launcher_started": start_of(reader.pid)})
        )
        done = ddpkit("stop", str(folder))
        assert f"process {reader.pid} is not the launcher of run {ID}" in done.stderr
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait(PATIENCE)


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_no_host_of_a_record_outside_of_the_index_is_connected_to(
    ddpkit: DDPKIT, tmp_path: Path, other: Path, mode: int
) -> None:
    via = {"host": "evil.example", "user": "me", "port": 22, "transport": "openssh", "python": "./evil"}
    folder = tmp_path / "logs" / ID
    planted(folder, job={**JOB, "via": via}, job_id="7")
    folder.chmod(mode)
    for words in LOOKS:
        assert "Traceback" not in ddpkit(*words, str(folder)).stderr
    assert not other.exists(), other.read_text()


def another_users(folder: Path, control: Path) -> None:
    folder.rename(folder.with_name("away"))
    shutil.copytree(folder.with_name("away"), folder)
    for path in (*folder.iterdir(), folder):
        os.chown(path, 60001, 60001)


def another_of_this_users(folder: Path, control: Path) -> None:
    folder.rename(folder.with_name("away"))
    shutil.copytree(folder.with_name("away"), folder)


def a_pipe(folder: Path, control: Path) -> None:
    (folder / "connection").unlink()
    os.mkfifo(folder / "connection")


def a_socket_of_another_user(folder: Path, control: Path) -> None:
    os.chown(control, 60001, 60001)


def a_directory_that_others_can_enter(folder: Path, control: Path) -> None:
    control.parent.chmod(0o755)


def a_link_of_another_user(folder: Path, control: Path) -> None:
    control.parent.rename(control.parent.with_name("real"))
    control.parent.symlink_to("real")
    os.lchown(control.parent, 60001, 60001)


def as_it_was(folder: Path, control: Path) -> None:
    pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize(
    "change",
    [
        another_users, another_of_this_users, a_pipe, a_socket_of_another_user, a_directory_that_others_can_enter,
        a_link_of_another_user, as_it_was,
    ],
)  # fmt: skip
def test_no_connection_is_used_that_others_put_there(
    ddpkit: DDPKIT, team: Path, tmp_path: Path, clean_environ: dict[str, str], other: Path,
    change: Callable[[Path, Path], None], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The file `connection` of a run in the `logs/` of a team: commands for the job go over that connection."""
    via = {"host": "login1", "user": "me", "port": 22, "transport": "openssh", "python": "python3"}
    folder, control = team / ID, tmp_path / "ssh/master0"
    control.parent.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as master:
        monkeypatch.chdir(control.parent)  # its path may have 107 bytes
        master.bind(control.name)
    record = planted(folder, job={**JOB, "via": via}, job_id="7")
    (folder / ".ddpkit").write_text("run\n")
    (folder / "connection").write_text(str(control))
    for path in folder.iterdir():
        path.chmod(0o600)
    marker = (folder / ".ddpkit").stat()
    index = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs")
    index.mkdir(0o700, parents=True)
    kept = {"folder": str(folder), "host": os.uname().nodename, "run": record}
    (index / ID).write_text(json.dumps({**kept, "marker": [marker.st_dev, marker.st_ino]}))
    (index / ID).chmod(0o600)
    change(folder, control)
    for words in (("ps",), ("status", ID), ("stop", ID)):
        assert "Traceback" not in ddpkit(*words).stderr
    asked = other.read_text()
    assert "login1" in asked
    assert (f"-S {control} -Ocheck" in asked) == (change is as_it_was)


@pytest.mark.parametrize(
    "via",
    [
        {"host": "-oProxyCommand=touch PWNED"}, {"host": "a b"}, {"host": "a", "user": "-lroot"},
        {"host": "a", "port": 0}, {"host": "a", "port": "22"}, {"host": "a", "transport": "sh"}, {"host": "a\nb"},
        {"host": "a", "python": "-c"}, {"host": "$(id)"}, {},
    ],
    ids=str,
)  # fmt: skip
def test_a_login_host_has_the_form_of_one(ddpkit: DDPKIT, tmp_path: Path, via: dict[str, Any]) -> None:
    planted(tmp_path / ID, job={**JOB, "via": via}, job_id="7")
    done = ddpkit("status", str(tmp_path / ID))
    assert done.returncode == 121
    assert "run.json is not a record of ddpkit: job.via" in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"exit_code": "<meta http-equiv=refresh>"}, {"world_size": "2"}, {"world_size": -1}, {"started": "now"},
        {"started": float("nan")}, {"started": 1e300}, {"launcher_pid": 0}, {"launcher_pid": -1}, {"hosts": "node1"},
        {"attempts": [{"number": "<b>", "hosts": [], "started": 1}]}, {"state": "<b>"}, {"backend": "../../x"},
        {"job_id": "--all"}, {"job_id": "7; id"}, {"run_id": "x"}, {"command": "sh"}, {"ranks": {"node1": ["0"]}},
        {"session": {"token": "../x"}}, {"folder": "a\0b"}, {"verdict": "\ud800"}, {"failure": {"host": "a"}},
        {"surprise": 1}, {"format": 99}, {"versions": {"node1": {"python": 3}}}, {"launcher_host": "-oProxyCommand=id"},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_of_another_type_or_form_is_refused_with_the_file(
    ddpkit: DDPKIT, tmp_path: Path, change: dict[str, Any]
) -> None:
    planted(tmp_path / ID, state="done", **{**{"exit_code": 0}, **change} if "state" not in change else {})
    if "state" in change:
        planted(tmp_path / ID, **change)
    for words in (("status",), ("report", "-o", "page.html"), ("rm",), ("logs",), ("stop",)):
        done = ddpkit(*words, str(tmp_path / ID))
        assert done.returncode == 121, done.stderr
        assert done.stderr.startswith(f"ddpkit: error: {tmp_path / ID}/run.json is not a record of ddpkit: ")
        assert done.stderr.count("\n") <= 2
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("kind", ["fifo", "zero", "link", "directory", "large", "deep"])
def test_a_record_that_never_ends_or_is_no_file_is_refused(ddpkit: DDPKIT, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / ID
    planted(folder, state="done")
    text = (folder / "run.json").read_bytes()
    (folder / "run.json").unlink()
    if kind == "fifo":
        os.mkfifo(folder / "run.json")
    elif kind == "zero":
        (folder / "run.json").symlink_to("/dev/zero")
    elif kind == "link":
        (tmp_path / "elsewhere.json").write_bytes(text)
        (folder / "run.json").symlink_to(tmp_path / "elsewhere.json")
    elif kind == "directory":
        (folder / "run.json").mkdir()
    else:
        (folder / "run.json").write_bytes(b" " * (17 << 20) + text if kind == "large" else b"[" * (1 << 20))
    for words in (("status",), ("logs",), ("rm",), ("stop",), ("explain",)):
        done = ddpkit(*words, str(folder))
        assert done.returncode == 121, done.stderr
        assert f"{folder}/run.json is not a record of ddpkit: " in done.stderr
    assert (folder / "all.log").exists()


# ---- which run


@pytest.fixture
def two_projects(ddpkit: DDPKIT, tmp_path: Path) -> tuple[Path, Path]:
    """Two projects; the second has a run, which has ended."""
    projects = tmp_path / "mine", tmp_path / "theirs"
    for each in projects:
        each.mkdir()
        (each / "ddpkit.toml").touch()
    assert ddpkit("launch", "-n", "1", "--", "true", cwd=projects[1]).returncode == 0
    return projects


def test_a_few_characters_are_no_run_of_another_project(ddpkit: DDPKIT, two_projects: tuple[Path, Path]) -> None:
    mine, theirs = two_projects
    (folder,) = theirs.glob("logs/*")
    run_id = folder.name
    for verb in ("rm", "stop"):
        for word in ("", run_id[-1], run_id[:1], run_id[-3:], run_id[-4:], run_id[:-1], run_id[:8]):
            done = ddpkit(verb, word, cwd=mine)
            assert done.returncode == 121, (verb, word, done.stdout)
            assert folder.exists()
    for word in ("", run_id[-1], run_id[-3:], "true"):  # nor of this project
        assert ddpkit("rm", word, cwd=theirs).returncode == 121
        assert folder.exists()
    assert ddpkit("stop", run_id[-3:], cwd=theirs).returncode == 121
    assert ddpkit("stop", run_id, cwd=mine).returncode == 0
    assert ddpkit("rm", run_id[-4:], cwd=theirs).returncode == 0
    assert not folder.exists()


def test_a_whole_id_names_a_run_everywhere(ddpkit: DDPKIT, two_projects: tuple[Path, Path]) -> None:
    (folder,) = two_projects[1].glob("logs/*")
    assert ddpkit("rm", folder.name, cwd=two_projects[0]).stdout == f"removed {folder}\n"
    assert not folder.exists()


def test_a_directory_below_a_project_is_not_the_project(
    start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    script("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("] ready")
    (tmp_path / "empty").mkdir()
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    for words in (("stop", "--all"), ("rm", "--ended"), ("stop",)):
        ddpkit(*words, cwd=tmp_path / "empty")
    assert command.process.poll() is None
    assert len(list(tmp_path.glob("logs/*"))) == 2
    assert ddpkit("stop").returncode == 0


# ---- what is removed


@pytest.mark.parametrize("word", [".", "", "project", "./"])
def test_a_directory_that_ddpkit_did_not_make_stays(ddpkit: DDPKIT, tmp_path: Path, word: str) -> None:
    project = tmp_path / "project"
    planted(project, state="done", backend="local")
    (project / "thesis.tex").write_text("months of work")
    done = ddpkit("rm", word, "--yes", cwd=tmp_path if word == "project" else project)
    assert done.returncode == 121, done.stdout
    assert (project / "thesis.tex").exists()
    # Nor one that has the name of a run.
    planted(tmp_path / ID, state="done", backend="local")
    done = ddpkit("rm", "--yes", str(tmp_path / ID))
    assert f"ddpkit did not make {tmp_path / ID}: it was not removed" in done.stderr
    assert (tmp_path / ID / "all.log").exists()


def test_files_that_are_not_ddpkits_are_named_first(ddpkit: DDPKIT, tmp_path: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    (folder / "checkpoint-7.pt").write_text("weights")
    (folder / "attempt-1").mkdir()
    (folder / "attempt-1" / "best.pt").write_text("weights")
    for words in (("rm", folder.name), ("rm", "--ended"), ("rm", str(folder))):
        done = ddpkit(*words)
        assert done.returncode == 121
        assert f"not made by ddpkit, in {folder}: attempt-1/best.pt, checkpoint-7.pt\n" in done.stderr
        assert (folder / "checkpoint-7.pt").exists()
    assert ddpkit("rm", folder.name, "--yes").returncode == 0
    assert not folder.exists()
    assert json.loads(ddpkit("ps", "--json").stdout)["runs"] == []


def test_what_takes_the_place_of_a_run_while_rm_asks_stays(
    ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    (folder / "checkpoint-7.pt").write_text("weights")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("months of work")
    for place in (folder, other):
        (place / ".ddpkit").write_text("run\n")
    terminal = Terminal([sys.executable, "-m", "ddpkit", "rm", folder.name], tmp_path, clean_environ)
    try:
        terminal.wait_for(lambda: terminal.shows("Remove them as well"))
        folder.rename(tmp_path / "moved")
        other.rename(folder)
        os.write(terminal.handle, b"y\n")
        assert terminal.end() == 125
        assert terminal.shows("another directory came in its place"), terminal.glass.lines
    finally:
        terminal.close()
    assert (folder / "thesis.tex").read_text() == "months of work"
    assert (tmp_path / "moved" / "checkpoint-7.pt").exists()


def test_what_comes_into_a_run_while_rm_asks_of_another_stays(
    ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    for _ in range(2):
        assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    first, second = sorted(tmp_path.glob("logs/*"))
    (first / "note.txt").touch()
    words = ["rm", first.name, second.name]
    terminal = Terminal([sys.executable, "-m", "ddpkit", *words], tmp_path, clean_environ)
    try:
        terminal.wait_for(lambda: terminal.shows("Remove them as well"))
        (second / "checkpoints").mkdir()
        (second / "checkpoints" / "best.pt").write_text("months of work")
        os.write(terminal.handle, b"y\n")
        assert terminal.end() == 125
        assert terminal.shows("it came after the question"), terminal.glass.lines
    finally:
        terminal.close()
    assert (second / "checkpoints" / "best.pt").read_text() == "months of work"


def test_a_record_of_more_ranks_than_a_run_can_have_is_refused_at_once(ddpkit: DDPKIT, tmp_path: Path) -> None:
    folder = tmp_path / ID
    planted(folder, world_size=(1 << 31) - 1)
    done = ddpkit("status", str(folder))
    assert done.returncode == 121
    assert f"{folder}/run.json is not a record of ddpkit: world_size: a number from 0 to 1000000" in done.stderr, (
        done.stderr
    )


@pytest.mark.parametrize(
    "mine",
    [
        "tests/test_model.py", "hook/pre-commit.sh", "marks/geometry.csv", "preload/weights.pt", "stage/copy.bin",
        "__pycache__/train.cpython-311.pyc", "dump-20260131-235959/mine.txt", "attempt-1/marks/mine", "all.log.d/x",
        "tests/20260131-235959-train-0a1b/all.log", "rank_7.log/weights.pt", "hook/__pycache__/mine.pyc", "tests",
    ],
)  # fmt: skip
def test_a_directory_of_the_user_with_a_name_of_ours_is_the_users(ddpkit: DDPKIT, tmp_path: Path, mine: str) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    record = json.loads((folder / "run.json").read_text())  # a job of a scheduler has more of them
    (folder / "run.json").write_text(json.dumps({**record, "backend": "slurm-srun"}))
    for name in ("hook/sitecustomize.py", "marks/0", "marks/job", "hook/__pycache__/sitecustomize.cpython-312.pyc"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).touch()
    (folder / mine).parent.mkdir(exist_ok=True, parents=True)
    (folder / mine).write_text("months of work")
    done = ddpkit("rm", folder.name)
    assert done.returncode == 121
    named = done.stderr.partition(f"not made by ddpkit, in {folder}: ")[2].partition("\n")[0]
    assert mine == named or mine.startswith(f"{named}/"), done.stderr
    assert (folder / mine).exists()
    assert not run_files.is_of_attempt(folder / mine.partition("/")[0])  # no attempt moves it
    assert ddpkit("rm", folder.name, "--yes").returncode == 0


def test_a_link_to_a_directory_of_logs_is_not_followed(ddpkit: DDPKIT, tmp_path: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    data = tmp_path / "data"
    data.mkdir()
    (data / "months").touch()
    (folder / "tests").symlink_to(data)
    refused = ddpkit("rm", folder.name)
    assert refused.returncode == 121
    assert f"not made by ddpkit, in {folder}: tests\n" in refused.stderr
    assert ddpkit("rm", folder.name, "--yes").returncode == 0
    assert (data / "months").exists()
    assert not folder.exists()


ELSEWHERE = {
    "machine": ({"launcher_boot": "00000000-0000-0000-0000-000000000000 pid:[4026531836]"}, "on that machine: "),
    "container": ({"launcher_boot": f"{boot().split()[0]} pid:[1234]"}, "lsns 1234, and in that container: "),
    "host": ({"launcher_host": "login2", "launcher_python": ""}, "ssh login2 'ddpkit "),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_a_live_run_of_another_machine_with_this_name_is_not_lost(ddpkit: DDPKIT, tmp_path: Path, where: str) -> None:
    """Pods and laptops are often called `localhost`, and have one disk. No hint leads back to this host."""
    identity, hint = ELSEWHERE[where]
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    found = json.loads((folder / "run.json").read_text())
    changed = {"state": "running", "exit_code": None, "ended": None}
    (folder / "run.json").write_text(json.dumps({**found, **identity, **changed}))
    entry = next(tmp_path.parent.glob(f"state*/ddpkit/runs/{folder.name}"))
    file = json.loads(entry.read_text())
    entry.write_text(json.dumps({**file, "run": {**file["run"], **identity}}))
    (now,) = json.loads(ddpkit("ps", "--json").stdout)["runs"]
    assert now["state"] == "elsewhere"
    for command in ("stop", "dump", "top"):
        assert f"hint: {hint}" in ddpkit(command, folder.name).stderr.replace("ssh -t", "ssh")
    ddpkit("rm", "--ended")
    assert ddpkit("rm", folder.name).returncode == 121
    assert (folder / "all.index").exists()


# ---- the index


def test_a_disk_that_is_not_mounted_loses_no_run(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    assert ddpkit("launch", "-n", "1", "--log-dir", "disk/logs", "--", "true").returncode == 0
    (tmp_path / "disk").rename(tmp_path / "unmounted")
    for words in (("ps",), ("ps", "--all"), ("status",), ("stop", "--all"), ("rm", "--ended")):
        done = ddpkit(*words)
        assert "Traceback" not in done.stderr
    assert "it was removed, or its disk is not mounted" in ddpkit("ps").stderr
    (tmp_path / "unmounted").rename(tmp_path / "disk")
    assert len(json.loads(ddpkit("ps", "--json").stdout)["runs"]) == 1


def test_many_runs_without_their_directories_are_one_line(
    ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    index = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs")
    (entry,) = index.iterdir()
    file = json.loads(entry.read_text())
    lost = [f"{ID[:-2]}{number}" for number in range(10, 40)]
    for number, run_id in enumerate(lost):
        where = {"folder": str(tmp_path / "project" / run_id), "host": file["host"] if number else "node9", "run": None}
        (index / run_id).write_text(json.dumps({**file, **where}))
    what = "30 runs whose directories were removed, or are on another host or on an unmounted disk"
    how = "to list them: ddpkit ps --all; to remove one from the list: ddpkit rm RUN"
    shown = ddpkit("ps")
    assert entry.name[-4:] in shown.stdout
    assert shown.stderr == f"not shown: {what}; {how}\n"
    assert ddpkit("ps", "--all").stderr.count("not shown: run ") == 30
    assert ddpkit("rm", *lost[2:]).stdout.count("from the list of runs: its directory is missing") == 28
    assert ddpkit("rm", lost[0]).returncode == 121  # another host may have it
    assert sorted(path.name for path in index.glob("2*")) == sorted([entry.name, *lost[:2]])


@pytest.mark.parametrize("folder_is", ["there", "missing"])
def test_a_job_that_no_scheduler_knows_can_be_forgotten(
    ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str], other: Path, folder_is: str
) -> None:
    """Its scheduler gives no answer, and never will. Only the list of runs changes, and only for a whole id."""
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    index, folder = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs"), tmp_path / "logs" / ID
    record = planted(folder, job=JOB, job_id="7")
    (folder / ".ddpkit").write_text("run\n")
    (index / ID).write_text(json.dumps({"folder": str(folder), "host": os.uname().nodename, "run": record}))
    (index / ID).chmod(0o600)
    if folder_is == "missing":
        shutil.rmtree(folder)
    refused = ddpkit("rm", ID)
    assert refused.returncode == 121
    assert refused.stderr.endswith(f"; to take it off the list of runs: ddpkit rm --forget {ID}\n")
    assert ddpkit("rm", "--forget", ID[-8:]).returncode == 121
    assert json.loads(ddpkit("rm", "--forget", ID, "--dry-run", "--json").stdout)["forgotten"] == [ID]
    assert (index / ID).exists()
    assert (
        ddpkit("rm", "--forget", ID).stdout == f"removed {ID} from the list of runs; its directory and its job stay\n"
    )
    assert len(list(index.glob("2*"))) == 1
    assert (folder / "run.json").exists() == (folder_is == "there")
    assert "scancel" not in other.read_text()


def test_a_living_run_is_not_forgotten(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    command = start("launch", "-n", "1", "--", "job.py")
    command.wait_for("ready")
    (folder,) = tmp_path.glob("logs/*")
    shown = ddpkit("rm", "--forget", folder.name)
    assert (shown.returncode, shown.stderr.splitlines()[1]) == (121, f"hint: ddpkit stop {folder.name}")
    assert ddpkit("stop", folder.name).returncode == 0
    assert command.end() == 143


def test_a_directory_that_cannot_be_read_hides_no_other_run(
    ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    index = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs")
    (entry,) = index.iterdir()
    file = json.loads(entry.read_text())
    broken = {
        f"{ID[:-1]}0": json.dumps({**file, "folder": f"/proc/self/{'x' * 300}", "run": None}),  # ENAMETOOLONG
        f"{ID[:-1]}1": json.dumps({**file, "folder": "/proc/1/task/1/mem", "run": None}),
        f"{ID[:-1]}2": "not JSON",
        f"{ID[:-1]}3": json.dumps({**file, "folder": 7}),
        f"{ID[:-1]}4": json.dumps(file),  # of another run
    }
    for name, text in broken.items():
        (index / name).write_text(text)
    os.mkfifo(index / f"{ID[:-1]}5")
    (index / f"{ID[:-1]}6").symlink_to("/dev/zero")
    for words in (("ps",), ("status",), ("stop",), ("stop", "--all"), ("rm", "--ended", "--dry-run")):
        done = ddpkit(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    shown = ddpkit("ps")
    assert entry.name[-4:] in shown.stdout
    assert shown.stderr.count("not shown: run 20260101-000000-train-0a1") >= 5


def test_looking_changes_nothing(ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    (folder,) = tmp_path.glob("logs/*")
    folder.chmod(0o775)

    def seen() -> dict[str, tuple[int, int, int]]:
        roots = (tmp_path, Path(clean_environ["XDG_STATE_HOME"]))
        paths = [each for root in roots for each in root.rglob("*")]
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_mode, path.lstat().st_ino) for path in paths}

    before = seen()
    for words in (
        ("ps",),
        ("ps", "--all"),
        ("status",),
        ("logs",),
        ("explain", folder.name),
        ("rm", "--ended", "--dry-run"),
    ):
        assert ddpkit(*words).returncode == 0, words
    assert seen() == before


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_the_index_is_private(ddpkit: DDPKIT, clean_environ: dict[str, str], umask: int) -> None:
    old = os.umask(umask)
    try:
        assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    finally:
        os.umask(old)
    index = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs")
    assert index.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in index.iterdir()} == {0o600}


def test_an_index_that_was_open_to_others_is_closed(ddpkit: DDPKIT, clean_environ: dict[str, str]) -> None:
    index = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs")
    index.mkdir(parents=True)
    index.chmod(0o777)
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    assert index.stat().st_mode & 0o777 == 0o700


# ---- stop


def test_stop_now_ends_a_launch_that_a_script_started_with_an_ampersand(
    ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    """A shell without job control ignores INT and QUIT for it."""
    script("import signal, time\nsignal.signal(15, lambda *_: None)\nprint('ready', flush=True)\ntime.sleep(600)")
    line = f"{sys.executable} -m ddpkit launch -n 1 --grace 500 -- job.py & wait"
    shell = subprocess.Popen(["sh", "-c", line], cwd=tmp_path, env=clean_environ, stdout=subprocess.PIPE)
    assert shell.stdout is not None
    assert b"ready" in shell.stdout.readline()
    began = time.monotonic()
    done = ddpkit("stop", "--now")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 25
    assert ": stopped" in done.stdout
    shell.communicate(timeout=PATIENCE)


def test_a_report_of_somebody_elses_record_shows_no_file_of_this_users(ddpkit: DDPKIT, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "metrics.jsonl").write_text('{"step": 1, "loss": 424242.0}\n')
    folder = tmp_path / "theirs" / ID
    log = {**JOB, "log": str(mine / "metrics.jsonl")}
    planted(folder, workdir=str(mine), job=log, job_id="7", started=time.time() - 60, state="failed", ended=time.time())
    folder.chmod(0o777)
    shown = ddpkit("report", str(folder), "-o", str(tmp_path / "page.html"))
    assert "Traceback" not in shown.stderr
    assert "424242" not in shown.stdout + shown.stderr + (tmp_path / "page.html").read_text()
    assert "424242" not in ddpkit("logs", str(folder)).stdout


@pytest.mark.parametrize("words", [("status",), ("attach",), ("dump",), ("top", "--once"), ("stop",)])
def test_no_hint_names_a_host_that_others_wrote_down(ddpkit: DDPKIT, tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = tmp_path / ID
    session = {"token": "0123456789abcdef"}
    planted(folder, backend="local", state="running", launcher_host="evil.example.org", session=session)
    for mode in (0o755, 0o777):  # a directory of this user's may be an archive that was unpacked
        folder.chmod(mode)
        shown = ddpkit(*words, str(folder))
        assert "not visible from here" in shown.stdout + shown.stderr
        assert "ssh " not in shown.stdout + shown.stderr


# ---- the directory of a team, to which its group can write


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A directory of a group that is nobody's own."""
    folder = tmp_path / "team"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, 0, 54399)
    folder.chmod(0o2775 if os.geteuid() == 0 else 0o777)
    return folder


@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_a_run_in_the_directory_of_a_team_is_its_users_alone(ddpkit: DDPKIT, team: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert ddpkit("launch", "-n", "1", "--log-dir", str(team), "--", "true").returncode == 0
    finally:
        os.umask(before)
    (folder,) = team.iterdir()
    writable = [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o022]
    assert writable == []
    assert ": done" in ddpkit("status", str(folder)).stdout
    assert ddpkit("rm", str(folder)).returncode == 0
    assert not folder.exists()


def test_what_is_above_a_home_does_not_count(ddpkit: DDPKIT, team: Path, clean_environ: dict[str, str]) -> None:
    """The homes of a site may be in a directory of a group."""
    (team / "me/project").mkdir(parents=True)
    here, env = team / "me/project", {"HOME": str(team / "me"), "XDG_STATE_HOME": ""}
    for path in (team / "me", here):
        path.chmod(0o755)
        os.chown(path, -1, os.getegid())
    assert ddpkit("launch", "-n", "1", "--", "true", cwd=here, env=env).returncode == 0
    (folder,) = here.glob("logs/*")
    assert ddpkit("rm", str(folder), env={**env, "XDG_STATE_HOME": str(team / "me/none")}).returncode == 0
    assert not folder.exists()


@pytest.mark.parametrize("words", [("stop",), ("stop", "--now"), ("dump",), ("rm", "--yes"), ("top", "--once")])
def test_a_record_in_the_directory_of_a_team_is_not_obeyed(
    ddpkit: DDPKIT, team: Path, sleeper: subprocess.Popen[bytes], words: tuple[str, ...]
) -> None:
    """Whoever can write to the directory above can put another one of this user's in its place."""
    folder = team / ID
    state = "done" if words[0] == "rm" else "running"
    planted(
        folder, backend="local", state=state, launcher_pid=sleeper.pid, launcher_started=start_of(sleeper.pid),
        in_program=True,
    )  # fmt: skip
    (folder / ".ddpkit").write_text("run\n")
    done = ddpkit(*words, str(folder))
    assert done.returncode == 121, done.stdout
    assert "Traceback" not in done.stderr
    assert sleeper.poll() is None
    assert sorted(path.name for path in folder.iterdir()) == [".ddpkit", "all.log", "run.json"]
    assert f"run {ID}" in ddpkit("status", str(folder)).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_others_in_the_place_of_a_run_says_nothing_of_it(
    ddpkit: DDPKIT, start: START, script: SCRIPT, team: Path
) -> None:
    script("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    command = start("launch", "-n", "1", "--log-dir", str(team), "--", "job.py")
    command.wait_for("ready")
    (folder,) = team.iterdir()
    record = json.loads((folder / "run.json").read_text())
    folder.rename(team / "away")
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({**record, "state": "done", "exit_code": 0, "ended": time.time()}))
    os.chown(folder / "run.json", 54399, 54399)
    os.chown(folder, 54399, 54399)
    (shown,) = json.loads(ddpkit("ps", "--json").stdout)["runs"]
    assert shown["state"] == "running"
    assert ddpkit("rm", folder.name).returncode == 121
    for words in (("dump",), ("top", "--once")):
        assert f"replaced by another one: {folder}\n" in ddpkit(*words, folder.name).stderr
    assert (folder / "run.json").exists()
    assert ddpkit("stop", folder.name).returncode == 0  # its launcher holds a file that this user's index knows
    assert command.end() == 143
    assert sorted(path.name for path in folder.iterdir()) == ["run.json"]


@pytest.mark.parametrize("there", ["nothing", "a copy", "another run", "no record"])
def test_who_moves_the_directory_of_a_run_takes_no_command_away(
    ddpkit: DDPKIT, start: START, script: SCRIPT, team: Path, there: str
) -> None:
    script("import time\nprint('ready', flush=True)\ntime.sleep(600)")
    command = start("launch", "-n", "1", "--log-dir", str(team), "--", "job.py")
    command.wait_for("ready")
    (folder,) = team.iterdir()
    folder.rename(team / "away")
    if there == "a copy":
        shutil.copytree(team / "away", folder)
    elif there != "nothing":
        planted(folder)  # of another id
        (folder / "run.json").write_text("" if there == "no record" else (folder / "run.json").read_text())
        (folder / ".ddpkit").write_text("run\n")
    what = "moved or deleted" if there == "nothing" else "replaced by another one"
    assert ddpkit("dump", folder.name).stderr.splitlines()[0] == (
        f"ddpkit: error: cannot ask the launcher of run {folder.name}: its directory was {what}: {folder}"
    )
    for words in (("status",), ("logs",), *((("explain",),) if there in ("nothing", "a copy") else ())):
        shown = ddpkit(*words, folder.name)
        assert f"{what}: {folder}" in shown.stdout + shown.stderr
    (hint,) = re.findall(r"hint: (ddpkit .*)", ddpkit("rm", folder.name).stderr)
    assert ddpkit(*shlex.split(hint)[1:]).returncode == 0
    assert command.end() == 143


@pytest.mark.parametrize("owner", [0, 54399])
def test_a_launch_in_a_program_takes_no_request_in_the_place_of_its_directory(
    ddpkit: DDPKIT, team: Path, clean_environ: dict[str, str], owner: int
) -> None:
    """Nor does a record there say that it has ended: the program may live on after a run, so its record is read."""
    if owner and os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    code = "import ddpkit, sys\nddpkit.launch('sleep', ['600'], nproc_per_node=1, log_dir=sys.argv[1]).wait()"
    program = subprocess.Popen([sys.executable, "-c", code, str(team)], cwd=team.parent, env=clean_environ)
    try:
        wait_until(lambda: list(team.glob("*/status.json")))
        (folder,) = team.iterdir()
        folder.rename(team / "away")
        shutil.copytree(team / "away", folder)
        if owner:
            (folder / ".ddpkit").unlink()
            (folder / ".ddpkit").hardlink_to(team / "away/.ddpkit")  # where the kernel lets others make hard links
            record = json.loads((folder / "run.json").read_text())
            (folder / "run.json").write_text(
                json.dumps({**record, "state": "done", "exit_code": 0, "ended": time.time()})
            )
            for path in (folder / "run.json", folder):
                os.chown(path, owner, owner)
        assert json.loads(ddpkit("status", folder.name, "--json").stdout)["state"] == "running"
        assert f"its directory was replaced by another one: {folder}" in ddpkit("stop", folder.name).stderr
        assert not (folder / "requests").exists()
        (folder.rename(team / "copy"), (team / "away").rename(folder))
        assert ddpkit("stop", folder.name).returncode == 0
    finally:
        program.terminate()
        program.wait(PATIENCE)


# Modes and groups of the directories `team` and `team/logs`, and of `home`, where the script is; and who is refused.
# The group 60000 has no name and no members, and neither has the user 60001.
FOLDERS = {
    "private": ((0o755, 0, 0), (0o755, 0, 0), (0o755, 0, 0), ""),
    "a group writes to it": ((0o755, 0, 0), (0o2775, 0, 60000), (0o755, 0, 0), "group 60000 can put another"),
    "a group writes above it": ((0o2775, 0, 60000), (0o755, 0, 0), (0o755, 0, 0), "group 60000 can put another"),
    "everyone writes to it": ((0o755, 0, 0), (0o777, 0, 0), (0o755, 0, 0), "every user can put another"),
    "everyone writes to it, sticky": ((0o755, 0, 0), (0o1777, 0, 0), (0o755, 0, 0), ""),
    "of another user": ((0o755, 0, 0), (0o755, 60001, 0), (0o755, 0, 0), "user 60001 can put another"),
    "of another user, sticky": ((0o755, 0, 0), (0o1777, 60001, 0), (0o755, 0, 0), "user 60001 can put another"),
    "the script is the group's too": ((0o2775, 0, 60000), (0o755, 0, 0), (0o2775, 0, 60000), ""),
    "the script is another group's": ((0o755, 0, 0), (0o2775, 0, 60000), (0o2775, 0, 60002), "group 60000 can put"),
    "everyone writes to the script": ((0o755, 0, 0), (0o2775, 0, 60000), (0o777, 0, 0), ""),
}


@pytest.mark.parametrize(
    ("kind", "command", "files"),
    [
        ("script", ("train.py", "a.sh"), ["train.py"]),
        ("script", ("/opt/train.py",), ["/opt/train.py"]),
        ("module", ("-m", "pkg.train"), ["pkg/train.py"]),
        ("module", ("-m", "pkg"), ["pkg/__main__.py"]),
        ("module", ("-m", "json.tool", "a.sh"), []),
        ("module", ("-c", "print(1)", "a.sh"), []),
        ("program", ("./train.sh", "a.sh"), ["train.sh"]),
        ("program", ("bash", "-x", "a.sh"), ["a.sh"]),
        ("program", ("nvidia-smi", "none.sh"), []),
    ],
)
def test_the_files_by_which_a_user_trusts_a_directory(
    tmp_path: Path, kind: Literal["script", "module", "program"], command: tuple[str, ...], files: list[str]
) -> None:
    """Of a job's own code: whoever can replace that, the user trusts with the programs of the job's run as well."""
    (tmp_path / "pkg").mkdir()
    for name in ("a.sh", "pkg/train.py", "pkg/__main__.py"):
        (tmp_path / name).touch()
    job = Job(run_id=ID, command=command, kind=kind, workdir=str(tmp_path), python="python3")
    assert program_files(job) == [tmp_path / file for file in files]


CALLS = """\
import ddpkit
try:
    ddpkit.call(print, nproc_per_node=1, nnodes=1, backend="slurm")
except ddpkit.DdpkitError as error:
    print(error)
"""
IN_TEAM = {
    "code": ("launch", "-b", "slurm", "-N", "1", "-n", "1", "--dry-run", "--", "-c", "print(1)"),
    "a module of Python": ("launch", "-b", "slurm", "-N", "1", "-n", "1", "--dry-run", "--", "-m", "json.tool"),
    "test": ("test", "-b", "slurm", "-N", "1", "-n", "1", "--dry-run"),
    "bench": ("bench", "-b", "slurm", "-N", "1", "-n", "2", "--dry-run"),
}


@pytest.fixture
def of_team(tmp_path: Path) -> Path:
    """The directory of a team, without a program, and one of this user beside it."""
    for name in ("team", "own"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "team", 0, 60000)
    (tmp_path / "team").chmod(0o2775)
    return tmp_path / "team"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("name", IN_TEAM)
def test_a_job_without_a_file_trusts_nobody_who_can_write_to_its_directory(
    name: str, of_team: Path, ddpkit: DDPKIT
) -> None:
    done = ddpkit(*IN_TEAM[name], cwd=of_team)
    assert (done.returncode, "group 60000 can put another directory" in done.stderr) == (121, True), done.stderr
    words = [*IN_TEAM[name]]
    words[1:1] = ["--log-dir", str(of_team.parent / "own/logs")]  # the hint
    assert ddpkit(*words, cwd=of_team).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("where", ["own", "team"])
def test_a_call_trusts_whoever_can_write_where_its_program_is(
    where: str, of_team: Path, clean_environ: dict[str, str]
) -> None:
    """Ranks search modules there. The directory in which the program was started is none of them."""
    (of_team.parent / where / "calls.py").write_text(CALLS)
    argv = [sys.executable, str(of_team.parent / where / "calls.py")]
    done = subprocess.run(argv, cwd=of_team, env=clean_environ, capture_output=True, text=True, timeout=60, check=False)
    assert ("group 60000 can put another directory" in done.stdout) == (where == "own"), done
    assert ("sbatch" in done.stdout) == (where == "team"), done  # no scheduler here: it came that far


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize("backend", ["slurm-srun", "slurm-torchrun"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_job_loads_no_program_that_others_can_put_in_place(
    name: str, backend: str, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """A job may wait for hours: who can rename the directory of its run can put programs there."""
    *facts, refused = FOLDERS[name]
    for folder, (mode, user, group) in zip(("team", "team/logs", "home"), facts, strict=True):
        (tmp_path / folder).mkdir()
        os.chown(tmp_path / folder, user, group)
        (tmp_path / folder).chmod(mode)
    (tmp_path / "home/job.py").write_text("")
    where = ("--workdir", str(tmp_path / "home"), "--log-dir", str(tmp_path / "team/logs"))
    done = ddpkit("launch", "-b", backend, "-N", "1", "-n", "2", *where, "--dry-run", "--", "job.py")
    assert done.returncode == (121 if refused else 0), done.stderr
    assert refused in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
@pytest.mark.parametrize(("kind", "refused"), [("theirs", "group 60000, user 60001 can put another"), ("mine", "")])
def test_a_job_loads_no_program_by_a_link_that_others_can_lead_elsewhere(
    kind: str, refused: str, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    """The job's script names the directory by the link: whoever changes that while the job waits chooses programs."""
    for name in ("shared", "mine", "real/logs"):
        (tmp_path / name).mkdir(parents=True)
    os.chown(tmp_path / "shared", 0, 60000)
    (tmp_path / "shared").chmod(0o2775)
    (tmp_path / "mine/job.py").write_text("")
    link = tmp_path / ("shared/to" if kind == "theirs" else "mine/to")
    link.symlink_to(tmp_path / "real")
    if kind == "theirs":
        os.lchown(link, 60001, 60000)
    where = ("--workdir", str(tmp_path / "mine"), "--log-dir", str(link / "logs"))
    done = ddpkit("launch", "-b", "slurm-srun", "-N", "1", "-n", "2", *where, "--dry-run", "--", "job.py")
    assert done.returncode == (121 if refused else 0), done.stderr
    assert refused in done.stderr


@pytest.mark.parametrize("log", ["{top}/secret", "{folder}/job.log", "{folder}/array_{{job}}"])
def test_no_output_outside_of_its_directory_is_shown_for_a_record_of_no_index(
    ddpkit: DDPKIT, tmp_path: Path, log: str
) -> None:
    """As of an archive that was unpacked: all its files are this user's, and what they say is another's."""
    (tmp_path / "secret").write_text("PRIVATE\n")
    folder, page = tmp_path / "logs" / ID, tmp_path / "page.html"
    job = {"log": log.format(top=tmp_path, folder=folder), "many": "array" in log}
    planted(folder, state="failed", exit_code=1, job_id="7", job=job)
    for name in ("job.log", "array_7_1"):
        (folder / name).symlink_to(tmp_path / "secret")
    done = ddpkit("logs", str(folder))
    assert "PRIVATE" not in done.stdout
    assert "names an output outside of its directory, and is not in this user's index" in done.stderr
    for words in (("explain",), ("report", "-o", str(page)), ("status",)):
        done = ddpkit(*words, str(folder))
        assert "PRIVATE" not in done.stdout + done.stderr + (page.read_text() if page.exists() else "")


def test_no_hint_of_a_record_of_no_index_names_its_host_or_its_program(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """As of an archive that was unpacked. What is pasted would connect to a stranger's host, or run his program."""
    folder = tmp_path / "logs" / ID
    failure = {
        "host": "evil1", "rank": 0, "what": "rank", "code": 1, "signal": None,
        "diagnosis": {"id": "x", "cause": "c", "fix": "sh /evil/fix"},
    }  # fmt: skip
    job = {"log": str(folder / "job.log"), "many": False, "controller": "evil2", "cluster": "evil3"}
    cases: list[dict[str, Any]] = [
        {"launcher_host": "evil4", "launcher_python": "/evil/python3", "state": "running"},
        {"launcher_host": "localhost", "launcher_python": "/evil/python3", "state": "running"},
        {"launcher_host": "evil4", "launcher_python": "/evil/python3", "job_id": "7", "job": job},
        {"job_id": "7", "job": job},
        {"state": "failed", "exit_code": 1, "failure": failure},
    ]
    for case in cases:
        planted(folder, **case)
        for words in (("status",), ("status", "--json"), ("explain",), ("report",), ("dump",), ("top",), ("stop",)):
            done = ddpkit(*words, str(folder))
            assert "Traceback" not in done.stderr
            hints = re.findall(r"(?m)^ *(?:hint|to follow it|fix):? .*", done.stdout + done.stderr)
            hints += re.findall(r'"(?:hint|fix)": ".*"', done.stdout)
            assert not [line for line in hints if "evil" in line], (case, words, hints)
    (page,) = tmp_path.glob("**/report.html")
    assert "sh /evil/fix" not in page.read_text()
