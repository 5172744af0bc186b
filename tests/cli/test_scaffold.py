"""`ddpkit init` writes everything or nothing, overwrites nothing, and what it writes is understood and runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DDPKIT
from program import run_to_end

from ddpkit import config
from ddpkit.cli import setup
from ddpkit.errors import UsageError

ROOT = Path(__file__).parents[2]
TOML = (ROOT / "ddpkit" / "templates" / "ddpkit.toml").read_text()
SETTINGS = [line for line in TOML.splitlines() if re.match(r"#[^ :]", line)]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_written_file_sets_nothing(tmp_path: Path, ddpkit: DDPKIT) -> None:
    done = ddpkit("init")
    assert done.returncode == 0
    assert done.stdout.startswith("ddpkit.toml: written (every setting as a comment")
    command = "ddpkit launch -n 2 --dry-run -- SCRIPT"
    assert done.stderr == f"next: {command} prints what would run; without --dry-run it runs\n"
    (tmp_path / "train.py").touch()
    assert "--dry-run -- train.py prints" in ddpkit("init").stderr
    found = config.collect_settings(tmp_path, {}, None, {})
    assert found == config.LaunchSettings(file=str(tmp_path / "ddpkit.toml"))
    assert found.rows(), "and each is shown"


def test_all_of_it_is_understood(tmp_path: Path) -> None:
    text = re.sub(r"(?m)^#(?=[^ :])", "", TOML)
    (tmp_path / "ddpkit.toml").write_text(text)
    file = config.read_file(tmp_path)
    assert config.SETTINGS.keys() == file.values.keys(), "each setting has a line"
    assert all((file.profile, file.profiles, file.groups, file.host)), "and so has each table"
    for name in (None, *file.profiles):
        assert config.collect_settings(tmp_path, {}, name, {}).rows()


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_each_line_alone_is_understood(number: int, tmp_path: Path) -> None:
    before = [line for line in SETTINGS[: number + 1] if line.startswith("#[")][-1:]
    if SETTINGS[number] == '#profile = "two"':
        before = ["#[profiles.two]"]  # the one that it names
        lines = [SETTINGS[number], *before]
    else:
        lines = [*before, SETTINGS[number]] if before != [SETTINGS[number]] else before
    (tmp_path / "ddpkit.toml").write_text("".join(f"{line[1:]}\n" for line in lines))
    config.collect_settings(tmp_path, {}, None, {})


def test_the_examples_of_options_are_options(tmp_path: Path) -> None:
    from ddpkit.launchers import registry

    (tmp_path / "ddpkit.toml").write_text(re.sub(r"(?m)^#(?=[^ :])", "", TOML))
    file = config.read_file(tmp_path)
    for table in (file.values, *file.profiles.values()):
        options = table.get("options", {})
        assert isinstance(options, dict)
        registry.build(registry.load(str(table.get("backend", "local"))), options)


def test_a_directory_that_does_not_exist_is_not_made(tmp_path: Path, ddpkit: DDPKIT) -> None:
    done = ddpkit("init", "nope")
    assert done.returncode == 121
    assert "error: directory nope not found\nhint: mkdir -p nope\n" in done.stderr
    assert tree(tmp_path) == {}


def test_everything(tmp_path: Path, ddpkit: DDPKIT) -> None:
    (tmp_path / "new/project").mkdir(parents=True)
    done = ddpkit("init", "new/project", "--train", "--json")
    assert done.returncode == 0, done.stderr
    written = {entry["path"]: entry["state"] for entry in json.loads(done.stdout)["files"]}
    found = tree(tmp_path)
    assert written == dict.fromkeys(found, "new")
    for path, text in found.items():
        own = path.removeprefix("new/project/")
        source = ROOT / ("ddpkit/templates/ddpkit.toml" if own == "ddpkit.toml" else own)
        assert text == source.read_bytes()
        assert os.access(tmp_path / path, os.X_OK) == text.startswith(b"#!")
    names = {path.removeprefix("new/project/") for path in found}
    assert names == {"ddpkit.toml", "train.py", "config/default.yaml"}
    again = ddpkit("init", "new/project", "--train")
    assert again.returncode == 0
    # What the reference script needs is said: the words are those of the extra `train`.
    (said,) = re.findall("pip install (.*)", again.stderr)
    extra = re.search(r"^train = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert extra is not None
    assert said.split() == re.findall(r'"([a-z-]+)', extra[1])
    assert done.stderr == ""
    assert again.stderr.splitlines()[-1].startswith("next: cd new/project && ddpkit launch -n 2 --dry-run -- train.py ")
    assert again.stdout.count("exists already, the same") == len(found)


@pytest.mark.parametrize("taken", ["train.py", "config", "config/default.yaml"])
def test_nothing_is_overwritten_and_nothing_half_written(taken: str, tmp_path: Path, ddpkit: DDPKIT) -> None:
    (tmp_path / taken).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / taken).write_text("mine")
    before = tree(tmp_path)
    shown = ddpkit("init", "--train", "--dry-run")
    done = ddpkit("init", "--train")
    for each in (shown, done):
        assert each.returncode == 121
        assert f"{taken}: exists already" in each.stderr or f"{taken} is not a directory" in each.stderr
    assert tree(tmp_path) == before
    assert "ddpkit.toml: would be written" in shown.stdout


def test_a_file_of_ones_own_stays(tmp_path: Path, ddpkit: DDPKIT) -> None:
    (tmp_path / "ddpkit.toml").write_text('backend = "ssh"\n')
    refused = ddpkit("init", "--train")
    assert refused.returncode == 121
    assert "--no-toml" in refused.stderr
    done = ddpkit("init", "--train", "--no-toml")
    assert done.returncode == 0, done.stderr
    assert sorted(tree(tmp_path)) == ["config/default.yaml", "ddpkit.toml", "train.py"]
    assert (tmp_path / "ddpkit.toml").read_text() == 'backend = "ssh"\n'


def test_a_table_in_pyproject_is_not_hidden(tmp_path: Path, ddpkit: DDPKIT) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ddpkit]\nbackend = 'ssh'\n")
    done = ddpkit("init")
    assert done.returncode == 121
    assert "[tool.ddpkit]" in done.stderr
    assert not (tmp_path / "ddpkit.toml").exists()


def test_a_file_that_came_meanwhile_stays(tmp_path: Path) -> None:
    found = setup.files_of_project(tmp_path, toml=True, train=True)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "default.yaml").write_text("came after the look")
    with pytest.raises(UsageError, match=r"default\.yaml: File exists"):
        setup.write_files(tmp_path, found)
    assert (tmp_path / "config" / "default.yaml").read_text() == "came after the look"


def test_a_wheel_has_them_all(tmp_path: Path) -> None:
    """Built for real, installed alone, and used from there."""
    pytest.importorskip("hatchling")
    wheels = tmp_path / "wheels"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)],
        cwd=ROOT, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    [wheel] = wheels.glob("*.whl")
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)], check=True, capture_output=True, timeout=120
    )
    project = tmp_path / "project"
    project.mkdir()
    code = "import ddpkit, sys; from ddpkit.__main__ import main; print(ddpkit.__file__, file=sys.stderr); main()"

    def ddpkit(*words: str) -> subprocess.CompletedProcess[str]:
        return run_to_end(
            [sys.executable, "-c", code, *words], env={**os.environ, "PYTHONPATH": str(site)}, cwd=project
        )

    done = ddpkit("init", "--train")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(str(site))
    here = {each.path: each.text for each in setup.files_of_project(tmp_path, toml=True, train=True)}
    assert tree(project) == here


def test_nobody_else_can_write_to_what_is_written(tmp_path: Path) -> None:
    """Whatever the umask: ddpkit would not obey the settings file, and others could change what a user starts."""
    text = f"umask 000; {sys.executable} -m ddpkit init . --train"
    subprocess.run(["sh", "-c", text], cwd=tmp_path, check=True, capture_output=True)
    assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o022] == []
    config.read_file(tmp_path)  # raises where it is not obeyed
