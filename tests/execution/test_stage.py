"""Copies on local disks: which files, where the job then runs, and what a node does with a copy."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import zlib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import conda_prefix
import pytest

from ddpkit.errors import UsageError
from ddpkit.execution import rsync
from ddpkit.execution.stage import Answer, Content, by_nodes, check_node, environment, project, relocate
from ddpkit.launchers.nodes import NodeOptions
from ddpkit.launchers.plan import Job
from ddpkit.node import stage
from ddpkit.run.timeline import read_copies


def content(kind: Literal["project", "env"] = "project", source: str = "/w", names: tuple[str, ...] = ()) -> Content:
    base = "/usr/bin/python3.11" if kind == "env" else ""
    return Content(
        kind=kind, source=source, names=names, size=9, digest="d", base=base, version=(3, 11) if base else ()
    )


def job(*command: str, kind: Literal["script", "module", "program"] = "script", workdir: str = "/w") -> Job:
    return Job(run_id="r", command=command, kind=kind, workdir=workdir, python="/venv/bin/python")


# ---- files of the project


def test_the_files_are_those_that_rsync_copies(tmp_path: Path) -> None:
    source, target = tmp_path / "a b", tmp_path / "there"
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
    chosen = rsync.selection(str(source), str(source / "logs"))
    names = rsync.list_files(str(source), chosen)
    subprocess.run(["rsync", "-a", "--no-specials", *chosen, f"{source}/", f"{target}/"], check=True)
    assert sorted(names) == sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    assert {"new\nline", "b\\#101", "link", "empty", "pkg"} <= set(names)
    assert not {"fifo", "data", "logs", ".git", "pkg/x.tmp"} & set(names)


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
    assert "pip.conf" not in found.names
    assert {"pyvenv.cfg", "bin/python", "bin/activate", "lib"} <= set(found.names)
    assert Path(found.base).is_file()
    assert not found.base.startswith(str(tmp_path))
    assert found.version == sys.version_info[:2]


def test_an_environment_that_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    with pytest.raises(UsageError, match="is in no virtual environment or conda environment"):
        environment(str(tmp_path / "bin/python"))


def test_a_conda_environment_has_its_own_python(tmp_path: Path) -> None:
    conda_prefix.make(tmp_path / "conda")
    (tmp_path / "conda/bin/python").symlink_to(sys.executable)
    found = environment(str(tmp_path / "conda/bin/python"))
    assert (found.source, found.base, found.version) == (f"{tmp_path}/conda", "", ())
    assert {"bin/python", "bin/tool", "conda-meta/tool-1.0-0.json"} <= set(found.names)
    assert not {".condarc", "envs", "pkgs"} & {name.partition("/")[0] for name in found.names}


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


def answer(**more: Any) -> Answer:
    usual = {"state": "absent", "bases": [], "problem": "", "fix": "", "machine": os.uname().machine}
    found: Any = {**usual, "python": [3, 11], **more}
    return cast("Answer", found)


@pytest.mark.parametrize(
    ("one", "said", "what"),
    [
        (content("env"), answer(), None),
        (content("env"), answer(python=[3, 9]), "/usr/bin/python3.11 is Python 3.9, and /w requires 3.11"),
        (content("project"), answer(python=[3, 9]), None),
        (replace(content("env"), base="", version=()), answer(python=[3, 9]), None),
        (content("env"), answer(machine="riscv64"), "its architecture is riscv64"),
        (content("project"), answer(machine="riscv64"), None),
        (content("project"), answer(problem="no space", fix="df"), "no space"),
    ],
)
def test_what_a_node_cannot_use(one: Content, said: Answer, what: str | None) -> None:
    found = check_node(one, said)
    assert (found is None) if what is None else found is not None and found[0].startswith(what)


# ---- on the node


class Node:
    """A stage directory, and files that are copied into it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "stage"
        self.source = folder / "source"
        self.source.mkdir()
        (self.source / "train.py").write_text("lr = 1")
        self.names = ["train.py"]

    def look(self, name: str = "project-a", needs: tuple[int, int] = (1, 1), *, dry: bool = False) -> dict[str, Any]:
        return stage.look(str(self.root), name, list(needs), dry)

    def copy(self, name: str = "project-a") -> dict[str, str]:
        subprocess.run(["cp", "-a", f"{self.source}/.", str(self.root / name)], check=True)
        wanted = stage.digest(str(self.source), self.names, True)
        packed = b64encode(zlib.compress("\0".join(self.names).encode())).decode()
        return stage.finish(str(self.root), name, packed, wanted, True, "")


@pytest.fixture
def node(tmp_path: Path) -> Any:
    return Node(tmp_path)


def test_a_copy_is_present_from_its_end_on(node: Node) -> None:
    assert node.look(dry=True)["state"] == "absent"
    assert not node.root.exists()
    assert node.look()["state"] == "absent"
    assert node.root.stat().st_mode & 0o777 == 0o700
    assert node.copy() == {"problem": "", "fix": ""}
    assert node.look()["state"] == "present"
    assert node.look("project-b")["bases"] == ["project-a"]
    stage.release(str(node.root), "project-b")
    assert not list(node.root.glob("*.lock"))


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("longer text")])
def test_a_damaged_copy_is_copied_again(node: Node, damage: Any) -> None:
    node.look()
    node.copy()
    (node.root / "project-a/output").write_text("written by a rank: no damage")
    assert node.look()["state"] == "present"
    damage(node.root / "project-a/train.py")
    assert node.look()["state"] == "absent"
    node.copy()
    assert node.look()["state"] == "present"


def test_of_a_verified_environment_only_the_directories_are_looked_at(node: Node, monkeypatch: Any) -> None:
    """It has tens of thousands of files. What replaces one of them changes its directory."""
    name = "env-a"
    node.names = ["lib", "lib/part.py", "lib/__pycache__", "lib/__pycache__/part.pyc"]
    (node.source / "lib/__pycache__").mkdir(parents=True)
    (node.source / "lib/part.py").write_text("lr = 1")
    (node.source / "lib/__pycache__/part.pyc").write_text("compiled")
    described = list[str]()
    describe = stage._describe

    def count(path: str, content: bool) -> tuple[list[str], int]:
        described.append(path)
        return describe(path, content)

    node.look(name)
    node.copy(name)
    monkeypatch.setattr(stage, "_describe", count)
    copy = node.root / name

    def looked_at(change: Any) -> tuple[str, bool]:
        """Its state, and whether its files were looked at."""
        described.clear()
        change()
        return node.look(name)["state"], bool(described)

    assert looked_at(lambda: None) == ("present", False)
    assert looked_at(lambda: (copy / "lib/__pycache__/more.pyc").write_text("compiled")) == ("present", False)
    assert looked_at(lambda: (copy / "lib/more.py").write_text("not of the copy")) == ("present", True)
    assert looked_at(lambda: None) == ("present", False)
    stamp = stage._stamp
    monkeypatch.setattr(stage, "_stamp", lambda *args: f"after a restart: {stamp(*args)}")
    assert looked_at(lambda: None) == ("present", True)
    assert looked_at(lambda: None) == ("present", False)
    monkeypatch.setattr(stage, "_stamp", lambda *args: "")
    assert looked_at(lambda: None) == ("present", True)
    monkeypatch.setattr(stage, "_stamp", stamp)
    (copy / "new.py").write_text("longer text")
    assert looked_at(lambda: (copy / "new.py").rename(copy / "lib/part.py")) == ("absent", True)
    stage.release(str(node.root), name)


def test_a_torn_copy_is_never_complete(node: Node) -> None:
    node.look()
    subprocess.run(["cp", "-a", f"{node.source}/.", str(node.root / "project-a")], check=True)
    (node.source / "train.py").write_text("lr = 2")
    wanted = stage.digest(str(node.source), node.names, True)
    packed = b64encode(zlib.compress(b"train.py")).decode()
    assert "differs" in stage.finish(str(node.root), "project-a", packed, wanted, True, "")["problem"]
    assert node.look()["state"] == "absent"
    stage.release(str(node.root), "project-a")


def test_a_second_launch_waits_for_the_first(node: Node) -> None:
    node.look()
    with (node.root / "project-b.lock").open("w") as other:  # of another process, for the kernel
        fcntl.flock(other, fcntl.LOCK_EX)
        assert node.look("project-b")["state"] == "busy"
    assert node.look("project-b")["state"] == "absent"
    for name in ("project-a", "project-b"):
        stage.release(str(node.root), name)


def test_leftovers_and_old_copies_are_removed_and_used_ones_are_not(node: Node) -> None:
    used = subprocess.Popen([sys.executable, "-c", "input()", str(node.root / "project-1/train.py")], stdin=-1)
    for index, name in enumerate(("project-1", "project-2", "project-3", "project-4", "env-1")):
        node.look(name)
        node.copy(name)
        os.utime(node.root / f"{name}.ok", (index, index))
    (node.root / "project-torn").mkdir()
    (node.root / "project-busy").mkdir()
    try:
        with (node.root / "project-busy.lock").open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            node.look("project-new")
            left = {path.name for path in node.root.iterdir() if path.is_dir()}
            assert left == {"project-1", "project-3", "project-4", "project-busy", "env-1"}
    finally:
        used.communicate(b"\n")
    stage.release(str(node.root), "project-new")
    node.look("project-new")
    assert {path.name for path in node.root.iterdir() if path.is_dir()} == {f"project-{n}" for n in (3, 4)} | {"env-1"}
    stage.release(str(node.root), "project-new")


def test_a_node_without_room_is_a_problem(node: Node) -> None:
    assert "MB and 1 files free" not in node.look()["problem"]
    stage.release(str(node.root), "project-a")
    found = node.look("project-big", needs=(1 << 60, 1))
    assert "free; the copy needs 1099511627777 MB and 1 files" in found["problem"]
    assert "--stage-dir" in found["fix"]
    stage.release(str(node.root), "project-big")


def test_a_directory_of_others_is_refused(node: Node, tmp_path: Path) -> None:
    node.root.mkdir(mode=0o700)
    node.root.chmod(0o777)
    assert "other users can write to it" in node.look()["problem"]
    node.root.rmdir()
    (tmp_path / "else").mkdir()
    node.root.symlink_to(tmp_path / "else")
    assert "not a directory" in node.look()["problem"]
    node.root.unlink()
    node.root.write_text("")
    assert "not a directory" in node.look()["problem"]


def test_paths_in_programs_are_those_of_the_copy(tmp_path: Path) -> None:
    old, node = tmp_path / "old", Node(tmp_path)
    (old / "bin").mkdir(parents=True)
    (old / "bin/tool").write_text(f"#!{old}/bin/python3\nprint('here')\n")
    (old / "bin/tool").chmod(0o755)
    (old / "bin/activate").write_text(f'VIRTUAL_ENV="{old}"\n')
    (old / "bin/python3").symlink_to(sys.executable)
    (old / "bin/binary").write_bytes(f"\0{old}/bin/".encode())
    node.look("env-a")
    place = node.root / "env-a"
    subprocess.run(["cp", "-a", f"{old}/.", str(place)], check=True)
    names = ["bin", *(f"bin/{path.name}" for path in (old / "bin").iterdir())]
    packed = b64encode(zlib.compress("\0".join(names).encode())).decode()
    wanted = stage.digest(str(old), names, False)
    assert stage.finish(str(node.root), "env-a", packed, wanted, False, str(old))["problem"] == ""
    assert subprocess.run([place / "bin/tool"], capture_output=True, text=True, check=True).stdout == "here\n"
    assert (place / "bin/activate").read_text() == f'VIRTUAL_ENV="{place}"\n'
    assert (place / "bin/binary").read_bytes() == f"\0{old}/bin/".encode()
    assert node.look("env-a")["state"] == "present"


def move_conda(node: Node, old: Path) -> str:
    """Copy a conda environment to the node. Returns the problem."""
    node.look("env-a")
    subprocess.run(["cp", "-al", f"{old}/.", str(node.root / "env-a")], check=True)  # files that a base shares
    names = [str(path.relative_to(old)) for path in old.rglob("*")]
    packed = b64encode(zlib.compress("\0".join(names).encode())).decode()
    wanted = stage.digest(str(old), names, False)
    return stage.finish(str(node.root), "env-a", packed, wanted, False, str(old))["problem"]


@pytest.mark.parametrize("name", ["c", "a-path-that-is-longer-than-that-of-the-copy-" + "x" * 100])
def test_paths_in_a_conda_environment_are_those_of_the_copy(name: str, tmp_path: Path) -> None:
    old, node = tmp_path / name, Node(tmp_path)
    conda_prefix.make(old)
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    assert move_conda(node, old) == ""
    place = node.root / "env-a"
    assert (place / "bin/tool").read_text() == conda_prefix.TOOL.format(prefix=place)
    assert (place / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (place / "bin/pip").read_text() == f"#!{place}/bin/python\n"
    assert (place / conda_prefix.LIBRARY).read_bytes() == conda_prefix.binary(str(place))
    assert {path: path.read_bytes() for path in before} == before
    assert node.look("env-a")["state"] == "present"


def test_a_conda_environment_without_room_for_the_path_is_refused(tmp_path: Path) -> None:
    old, node = tmp_path / "c", Node(tmp_path)
    conda_prefix.make(old, room=str(old) + "_")
    assert move_conda(node, old) == f"lib/libpaths.so has no room for the path {node.root}/env-a"
    assert node.look("env-a")["state"] == "absent"
    stage.release(str(node.root), "env-a")


# ---- a node of a SLURM job copies from the shared directory


def stage_here(folder: Path, source: Path) -> subprocess.CompletedProcess[str]:
    """Run the program of a node, as a job's first step does."""
    asked = job(str(source / "job.py"), workdir=str(source))
    options = NodeOptions(stage="project", stage_dir=str(folder / "cache"))
    staged = by_nodes(asked, options, "logs").stage
    assert staged is not None
    (folder / "stage").mkdir(exist_ok=True)
    (folder / "stage/stage.py").write_text(Path(stage.__file__).read_text())
    (folder / "stage/contents.json").write_text(staged.contents)
    return run_stage(folder)


def run_stage(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", str(folder / "stage/stage.py")]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_a_node_copies_a_shared_directory_once_for_each_content(tmp_path: Path) -> None:
    source = tmp_path / "project"
    (source / "pkg").mkdir(parents=True)
    (source / "job.py").write_text("1")
    (source / "pkg/part.py").write_text("2")
    (source / "link").symlink_to("job.py")
    (source / "pkg").chmod(0o555)
    assert stage_here(tmp_path, source).returncode == 0
    (source / "job.py").write_text("3")
    assert stage_here(tmp_path, source).returncode == 0
    copies = [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]
    assert sorted((copy / "link").read_text() for copy in copies) == ["1", "3"]
    assert {(copy / "pkg/part.py").stat().st_nlink for copy in copies} == {2}
    assert {(copy / "pkg").stat().st_mode & 0o777 for copy in copies} == {0o555}
    assert len(list((tmp_path / "cache").iterdir())) == 4  # and a list each: no lock is left
    ((times,),) = read_copies(tmp_path).values()
    assert (times["kind"], times["copied"], times["size"]) == ("project", True, 1)  # of the changed file
    assert stage_here(tmp_path, source).returncode == 0
    ((times,),) = read_copies(tmp_path).values()
    assert (times["copied"], times["size"]) == (False, 0)
    assert times["began"] <= times["ended"]


@pytest.mark.parametrize("change", ["edited", "removed"])
def test_a_file_that_changed_after_the_launch(change: str, tmp_path: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "job.py").write_text("1")
    assert stage_here(tmp_path, source).returncode == 0
    (tmp_path / "cache").rename(tmp_path / "former")
    (source / "job.py").write_text("22")
    if change == "removed":
        (source / "job.py").unlink()
    done = run_stage(tmp_path)
    assert done.returncode == 123
    assert "ddpkit: error: " in done.stderr
    assert "hint: launch again" in done.stderr
    assert done.stderr.count("\n") == 2
    assert not list((tmp_path / "cache").glob("*.ok")) + list((tmp_path / "cache").glob("*.lock"))


def test_the_cache_is_outside_of_what_is_copied(tmp_path: Path) -> None:
    """Its copies would be copied into themselves."""
    (tmp_path / "job.py").write_text("1")
    options = NodeOptions(stage="project", stage_dir=f"{tmp_path}/x/../cache")
    with pytest.raises(UsageError, match=r"/cache: is inside .*, whose files are copied"):
        by_nodes(job("job.py", workdir=str(tmp_path)), options, "logs")
