"""rsync writes in the directory that was made for it, whatever has the name of that meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.errors import UsageError
from ddpkit.execution.copies import Folder, Way, project_files
from ddpkit.node import owned
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import NoConnector

pytestmark = pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")
SSH = '#!/bin/sh\nwhile [ "$1" != node1 ]; do shift; done\nshift\nexec {shell} -c "$*"\n'


@pytest.fixture
def environ(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """An environment in which ssh runs the command here, in the shell of a user."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH.format(shell=request.param))
    (tmp_path / "bin/ssh").chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def linked(path: Path) -> None:
    path.symlink_to(path.parent / "theirs")


def moved(path: Path) -> None:
    (path.parent / "theirs").rename(path)


def nothing(_: Path) -> None:
    pass


SHELLS = [each for each in ("sh", "bash", "zsh", "tcsh", "fish") if shutil.which(each)]


@pytest.mark.parametrize("environ", SHELLS, indirect=True)
@pytest.mark.parametrize("name", ["draft", 'a draft\'s "$(name)"'])
@pytest.mark.parametrize("took_its_place", [linked, moved, nothing])
def test_what_took_the_place_of_the_draft_stays(
    took_its_place: Callable[[Path], None], name: str, environ: dict[str, str], tmp_path: Path
) -> None:
    """In the directory of a team another user can rename the draft, and let its name lead to files of this user."""
    project, home, draft = tmp_path / "project", tmp_path / "home", tmp_path / name
    project.mkdir()
    (project / "train.py").write_text("print()\n")
    home.mkdir()
    (home / "train.py").write_text("months of work\n")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/files").symlink_to(home)
    owned.make_directory(str(draft), "sync")
    folder = Folder(str(draft), str(draft.stat().st_ino))
    if took_its_place is not nothing:
        draft.rename(tmp_path / "renamed")
        took_its_place(draft)
    way = Way(connector=NoConnector(5.0), python="python3", silence=0.0)
    spec = HostSpec(name="node1")
    argv = way.command(spec, f"{project}/", "files/", ["--recursive"], login=(), folder=folder)
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert (home / "train.py").read_text() == "months of work\n"
    if took_its_place is nothing:
        assert done.returncode == 0, done.stderr
        assert (draft / "files/train.py").read_text() == "print()\n"
    else:
        assert done.returncode != 0
        assert f"another directory took the place of {draft}" in done.stderr


def test_a_list_of_files_is_no_file(tmp_path: Path) -> None:
    """rsync opens each .gitignore, and waits for a pipe without end."""
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "sub/.gitignore")
    with pytest.raises(UsageError, match=r"sub/\.gitignore is not a regular file, and rsync would wait for it"):
        project_files(str(tmp_path), str(tmp_path / "logs"))
