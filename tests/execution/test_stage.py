"""Copies on local disks: which files, what is in an archive of them, and where the job then runs."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from ddpkit.errors import UsageError
from ddpkit.execution.copies import project_files
from ddpkit.execution.stage import (
    Content,
    by_nodes,
    check_node,
    conda_archive,
    environment,
    pack_archive,
    project,
    relocate,
    write_archive,
)
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.plan import Archive, Job
from ddpkit.launchers.starters import is_conda_archive
from ddpkit.node import bundle
from ddpkit.node.calls import stage
from ddpkit.run.timeline import read_copies


def content(kind: Literal["project", "env"] = "project", source: str = "/w", names: tuple[str, ...] = ()) -> Content:
    base = "/usr/bin/python3.11" if kind == "env" else ""
    described = dict.fromkeys(names, "file 644 1 1")
    version = (3, 11) if base else ()
    return Content(kind=kind, source=source, described=described, size=9, digest="d", base=base, version=version)


def job(*command: str, kind: Literal["script", "module", "program"] = "script", workdir: str = "/w") -> Job:
    return Job(run_id="r", command=command, kind=kind, workdir=workdir, python="/venv/bin/python")


# ---- files of the project


def test_the_files_of_a_project(tmp_path: Path) -> None:
    source = tmp_path / "a b"
    for name in (
        ".git/HEAD",
        "logs/run/rank_0.log",
        "data/big.bin",
        "pkg/.gitignore",
        "pkg/x.tmp",
        "#hash",
        "new\nline",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("text")
    (source / ".gitignore").write_text("data/\n")
    (source / "pkg/.gitignore").write_text("*.tmp\n")
    (source / "b\\#101").write_text("no escape")
    (source / "empty").mkdir()
    (source / "link").symlink_to("#hash")
    os.mkfifo(source / "fifo")
    names = project_files(str(source), str(source / "logs"))
    kept = {".gitignore", "pkg/.gitignore", "#hash", "new\nline", "b\\#101", "empty", "link", "pkg"}
    assert set(names) - {"train.py"} == kept
    assert len(names) == len(set(names))


def test_a_change_of_any_kind_is_other_content(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("lr = 1")
    os.utime(file, (1, 1))
    seen = [project(str(tmp_path), "logs").name]
    file.write_text("lr = 2")  # of the same size
    os.utime(file, (1, 1))
    seen.append(project(str(tmp_path), "logs").name)
    file.chmod(0o700)
    seen.append(project(str(tmp_path), "logs").name)
    (tmp_path / "link").symlink_to("train.py")
    seen.append(project(str(tmp_path), "logs").name)
    assert len(set(seen)) == 4
    os.utime(file, (2, 2))  # no change
    assert project(str(tmp_path), "logs").name == seen[-1]


def test_a_virtual_environment_leaves_out_passwords_and_names_its_python(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (tmp_path / "venv/pip.conf").write_text("[global]\nindex-url = https://me:secret@host/\n")
    found = environment(str(tmp_path / "venv/bin/python"))
    assert "pip.conf" not in found.described
    assert {"pyvenv.cfg", "bin/python", "bin/activate", "lib"} <= set(found.described)
    assert Path(found.base).is_file()
    assert not found.base.startswith(str(tmp_path))
    assert found.version == sys.version_info[:2]


def test_an_environment_that_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    with pytest.raises(UsageError, match="is in no virtual environment on this machine"):
        environment(str(tmp_path / "bin/python"))
    (tmp_path / "conda-meta").mkdir()
    with pytest.raises(UsageError) as refused:
        environment(str(tmp_path / "bin/python"))
    assert f"conda-pack -p {tmp_path} -o env.tar.gz; then add --stage=env.tar.gz" in str(refused.value.hint)


def test_an_archive_of_conda_pack_is_known_by_its_size_and_time(tmp_path: Path) -> None:
    archive = tmp_path / "env.tar.gz"
    with pytest.raises(UsageError, match="no such file"):
        conda_archive(str(archive))
    archive.write_text("1")
    first = conda_archive(str(archive))
    archive.write_text("22")
    assert first.conda
    assert first.name != conda_archive(str(archive)).name
    with pytest.raises(UsageError, match="off, project, env, or an archive"):
        is_conda_archive("my-env")


# ---- archives


def unpacked(content: Content, place: Path) -> dict[str, str]:
    """Unpack an archive of a directory as a node does. Returns what is there."""
    archive = content.archive("/s")
    place.mkdir()
    file = io.BytesIO()
    pack_archive(archive, file)
    file.seek(0)
    entry = content.for_node("/s")
    stage.extract(file, str(place), entry["limits"], entry["links"])
    paths = [path for path in place.rglob("*") if not path.is_dir() or path.is_symlink()]
    return {
        str(path.relative_to(place)): str(path.readlink()) if path.is_symlink() else path.read_text() for path in paths
    }


def test_an_archive_holds_what_the_directory_holds(tmp_path: Path) -> None:
    source = tmp_path / "project"
    (source / "pkg/new\nline").mkdir(parents=True)
    (source / "pkg/part.py").write_text("text")
    (source / "pkg/part.py").chmod(0o640)
    (source / "inner").symlink_to(source / "pkg")
    (source / "pkg/data").symlink_to("../../data")
    (source / "far").symlink_to("/data/imagenet")
    (source / os.fsdecode(b"latin-\xe4")).write_text("odd")
    found = unpacked(project(str(source), "logs"), tmp_path / "copy")
    assert found == {
        "pkg/part.py": "text",
        "inner": "pkg",
        "pkg/data": str(tmp_path / "data"),  # no other directory is meant by it
        "far": "/data/imagenet",
        os.fsdecode(b"latin-\xe4"): "odd",
    }
    assert (tmp_path / "copy/pkg/new\nline").is_dir()
    assert (tmp_path / "copy/pkg/part.py").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("change", [lambda path: path.write_text("other text"), lambda path: path.unlink()])
def test_a_file_that_changes_before_it_is_packed(change: Callable[[Path], object], tmp_path: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "a b.py").write_text("text")
    described = project(str(source), "logs")
    change(source / "a b.py")
    with pytest.raises(UsageError, match=r"a b\.py changed while it was copied"):
        unpacked(described, tmp_path / "copy")


def test_the_output_of_this_launch_is_in_no_copy(tmp_path: Path) -> None:
    """As with `nohup ddpkit launch --stage > nohup.out`, which changes all the time."""
    (tmp_path / "train.py").touch()
    code = f"from ddpkit.execution.stage import project; print(*project({str(tmp_path)!r}, 'logs').described)"
    with (tmp_path / "nohup.out").open("w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "nohup.out").read_text() == "train.py\n"


def test_programs_of_an_environment_have_its_new_path(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv / "bin/tool").write_text(f"#!{venv}/bin/python\n")
    (venv / "bin/binary").write_bytes(f"\0{venv}/bin/".encode())
    content = environment(str(venv / "bin/python"))
    found = unpacked(content, tmp_path / "copy")
    assert found["bin/tool"] == f"#!/s/{content.name}/bin/python\n"
    assert f"/s/{content.name}" in found["bin/activate"]
    assert str(venv) not in found["bin/activate"]
    assert found["bin/binary"] == f"\0{venv}/bin/"
    assert Path(found["bin/python3"]).name.startswith("python")


def test_a_run_takes_the_archive_of_an_earlier_one(tmp_path: Path) -> None:
    """An environment has gigabytes."""
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/file").write_text("text")
    archive = Archive(source=f"{tmp_path}/venv", described={"file": "file 644 4 1"}, moved_to="/s/env")
    os.utime(tmp_path / "venv/file", (1, 1))
    (tmp_path / "venv/file").chmod(0o644)
    places = [tmp_path / f"logs/{run}/stage/env-1.tar" for run in ("one", "two", "three")]
    for place in places:
        place.parent.mkdir(parents=True)
        write_archive(archive, place)
        assert [path.name for path in place.parent.iterdir()] == ["env-1.tar"]
    assert places[0].samefile(places[1])
    for place in places[:2]:
        place.chmod(0o666)
    places[2].unlink()
    write_archive(archive, places[2])
    assert not places[0].samefile(places[2])  # others could have written it


# ---- where the job then runs


@pytest.mark.parametrize(
    ("before", "command"),
    [
        (job("train.py", "--lr", "1"), ("/s/P/train.py", "--lr", "1")),
        (job("/w/train.py"), ("/s/P/train.py",)),
        (job("../w/./train.py"), ("/s/P/train.py",)),
        (job("/other/train.py"), ("/other/train.py",)),
        (job("./run.sh", kind="program"), ("/s/P/run.sh",)),
        (job("nvidia-smi", "-L", kind="program"), ("nvidia-smi", "-L")),
    ],
)
def test_the_script_runs_in_the_copy(before: Job, command: tuple[str, ...]) -> None:
    one = content(names=("train.py", "run.sh"))
    after = relocate(before, [one], "/s")
    assert after.command == tuple(word.replace("P", one.name) for word in command)
    assert (after.workdir, after.python) == (before.workdir, before.python)


def test_the_python_is_that_of_the_copy() -> None:
    env = content("env", source="/venv")
    assert relocate(job("train.py"), [content(names=("train.py",)), env], "/s").python == f"/s/{env.name}/bin/python"


def test_a_program_of_an_environment_in_the_project_runs_in_the_copy_of_the_environment() -> None:
    project, env = content(names=("train.py",)), content("env", source="/w/.venv", names=("bin/run",))
    after = relocate(job(".venv/bin/run", "x", kind="program"), [project, env], "/s")
    assert after.command == (f"/s/{env.name}/bin/run", "x")


def test_a_script_that_is_in_no_copy_is_refused() -> None:
    with pytest.raises(UsageError, match="--stage"):
        relocate(job("left_out.py"), [content(names=("train.py",))], "/s")


def test_code_imports_from_the_copy(tmp_path: Path) -> None:
    for place, text in (("work", "old"), (content().name, "new")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "part.py").write_text(f"text = {text!r}\n")
    code = "from __future__ import annotations\nimport sys, part\nprint(part.text, __name__, sys.argv)"
    after = relocate(job("-c", code, "--lr", "1", kind="module"), [content()], str(tmp_path))
    done = subprocess.run(
        [sys.executable, *after.command], cwd=tmp_path / "work", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "new __main__ ['-c', '--lr', '1']"


def test_a_module_is_read_from_the_copy(tmp_path: Path) -> None:
    for place, text in (("work", "old"), (content().name, "new")):
        (tmp_path / place / "pkg").mkdir(parents=True)
        (tmp_path / place / "pkg/part.py").write_text(f"text = {text!r}\n")
        main = (
            "import os, sys\nfrom . import part\nprint(part.text, __name__, __spec__.name, sys.argv[1:], os.getcwd())\n"
        )
        (tmp_path / place / "pkg/train.py").write_text(main)
    after = relocate(job("-m", "pkg.train", "--lr", "1", kind="module"), [content()], str(tmp_path))
    done = subprocess.run(
        [sys.executable, *after.command], cwd=tmp_path / "work", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"new __main__ pkg.train ['--lr', '1'] {tmp_path / 'work'}"


def answer(**more: Any) -> dict[str, Any]:
    return {"state": "absent", "problem": "", "fix": "", "machine": os.uname().machine, "python": [3, 11], **more}


@pytest.mark.parametrize(
    ("one", "said", "what"),
    [
        (content("env"), answer(), None),
        (content("env"), answer(python=[3, 9]), "/usr/bin/python3.11 is Python 3.9, and /w requires 3.11"),
        (content("project"), answer(python=[3, 9]), None),
        (replace(content("env"), conda=True, version=()), answer(python=[3, 9], machine="riscv64"), None),
        (content("env"), answer(machine="riscv64"), "its architecture is riscv64"),
        (content("project"), answer(machine="riscv64"), None),
        (content("project"), answer(problem="no space", fix="df"), "no space"),
    ],
)
def test_what_a_node_cannot_use(one: Content, said: dict[str, Any], what: str | None) -> None:
    found = check_node(one, said)
    assert (found is None) if what is None else found is not None and found[0].startswith(what)


# ---- another account with the same user id


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of the account."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project/job.py").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def name_of_copy(state: Path, *, dry: bool = False) -> str:
    asked = replace(job("job.py", workdir=str(state.parent / "project")), folder="/logs/run")
    return Path(
        by_nodes(asked, NodeOptions(stage="project", stage_dir="/local"), "logs", dry=dry).command[0]
    ).parent.name


def test_an_account_finds_no_copy_of_an_earlier_one_with_its_user_id(state: Path) -> None:
    """What a deleted user has left on a node belongs to the next one with the number, and may be changed."""
    earlier = {name_of_copy(state), name_of_copy(state), name_of_copy(state, dry=True)}
    token = state / "ddpkit/stage_account"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    state.rename(state.with_name("earlier"))
    later = {name_of_copy(state), name_of_copy(state), name_of_copy(state, dry=True)}
    assert (len(earlier), len(later), len(earlier | later)) == (1, 1, 2)


def a_file_that_others_can_write(state: Path) -> None:
    name_of_copy(state)
    (state / "ddpkit/stage_account").chmod(0o666)


def half_a_file(state: Path) -> None:
    name_of_copy(state)
    (state / "ddpkit/stage_account").write_text("0" * 31)


def no_directory(state: Path) -> None:
    state.write_text("")


@pytest.mark.parametrize("made", [a_file_that_others_can_write, half_a_file, no_directory])
def test_without_a_secret_of_the_account_each_launch_has_its_own_copy(
    made: Callable[[Path], None], state: Path
) -> None:
    made(state)
    assert name_of_copy(state) != name_of_copy(state)


def test_a_dry_run_keeps_no_secret(state: Path) -> None:
    name_of_copy(state, dry=True)
    assert not state.exists()


# ---- in a job of SLURM


def task(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a node, as a step of a job does."""
    argv = [sys.executable, "-I", "-S", str(folder / bundle.NAME), "calls.stage", str(folder / "stage"), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def submit(folder: Path, source: Path, root: Path) -> Job:
    """Write what a launch writes into the directory of a run."""
    asked = replace(job("job.py", workdir=str(source)), folder=str(folder))
    moved = by_nodes(asked, NodeOptions(stage="project", stage_dir=str(root)), "logs", dry=False)
    assert moved.stage is not None
    (folder / "stage").mkdir(parents=True)
    texts = {
        name: text.replace('"bcachefs ', '"9p bcachefs ') for name, text in bundle.read_texts().items()
    }  # of sandboxes
    (folder / bundle.NAME).write_bytes(bundle.pack(texts))
    (folder / "stage/contents.json").write_text(moved.stage.contents)
    for path, archive in moved.stage.archives.items():
        assert archive is not None
        write_archive(archive, Path(path))
    return moved


def test_a_job_unpacks_once_for_each_content_and_holds_it(tmp_path: Path) -> None:
    source, disk = tmp_path / "project", tmp_path / "disk"
    source.mkdir()
    for number in "123":
        (source / "job.py").write_text(number)
        run = tmp_path / f"run{number}"
        moved = submit(run, source, disk)
        (source / "job.py").write_text("changed while the job waited")
        assert task(run, "look").returncode == stage.ABSENT
        done = task(run, "unpack", "0" * 16)
        assert (done.returncode, done.stderr) == (0, "")
        assert Path(moved.command[0]).read_text() == number
        ((times,),) = read_copies(run).values()
        assert (times["kind"], times["copied"], times["size"]) == ("project", True, 1)
        assert task(run, "look").returncode == 0
        ((times,),) = read_copies(run).values()
        assert (times["copied"], times["size"]) == (False, 0)
        assert times["began"] <= times["ended"]
    copy = str(Path(moved.command[0]).parent)
    root, name = os.path.split(copy)
    code = f"import fcntl; fcntl.flock(open({copy + '.lock'!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    held = task(run, "hold", copy, "--", sys.executable, "-c", code)
    assert "BlockingIOError" in held.stderr, held.stderr
    (Path(copy) / stage.COMPLETE).unlink()
    gone = task(run, "hold", copy, "--", "echo", "ran")
    assert (gone.returncode, gone.stdout) == (123, "")
    assert f"the local copy is gone: launch again: {copy}" in gone.stderr
    assert Path(root, name).is_dir()


def test_an_archive_that_sbcast_brought_is_used_and_half_of_one_is_not(tmp_path: Path) -> None:
    source, disk = tmp_path / "project", tmp_path / "disk"
    source.mkdir()
    (source / "job.py").write_text("1")
    moved = submit(tmp_path / "run", source, disk)
    assert moved.stage is not None
    (archive,) = (Path(path) for path in moved.stage.archives)
    copy, brought = Path(moved.command[0]).parent, Path(f"{Path(moved.command[0]).parent}.tar-{'1' * 16}")
    assert task(tmp_path / "run", "look").returncode == stage.ABSENT
    brought.write_bytes(archive.read_bytes()[:100])
    assert task(tmp_path / "run", "unpack", "1" * 16).returncode == 0
    assert sorted(path.name for path in copy.parent.iterdir()) == [".ddpkit", copy.name, f"{copy.name}.lock"]
    shutil.rmtree(copy)
    brought.write_bytes(archive.read_bytes())
    archive.write_bytes(b"\0" * archive.stat().st_size)
    assert task(tmp_path / "run", "unpack", "1" * 16).returncode == 0
    assert (copy / "job.py").read_text() == "1"
    assert sorted(path.name for path in copy.parent.iterdir()) == [".ddpkit", copy.name, f"{copy.name}.lock"]


def test_the_cache_is_outside_of_what_is_copied(tmp_path: Path) -> None:
    """Its copies would be copied into themselves."""
    (tmp_path / "job.py").write_text("1")
    options = NodeOptions(stage="project", stage_dir=f"{tmp_path}/x/../cache")
    with pytest.raises(UsageError, match=r"/cache: is inside .*, whose files are copied"):
        by_nodes(job("job.py", workdir=str(tmp_path)), options, "logs", dry=True)


@pytest.mark.parametrize("workdir", ["/", str(Path.home()), "/tmp"])
def test_a_home_directory_is_not_copied(workdir: str) -> None:
    with pytest.raises(UsageError, match=r"home directory|directory of the system"):
        project(workdir, "logs")
