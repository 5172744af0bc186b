"""The tmux session of a launcher whose parent was killed."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest
from program import wait_until

from ddpkit.files import make_directory
from ddpkit.run import tmux

pytestmark = pytest.mark.live


def test_the_directory_of_a_start_that_was_killed_goes_later(tmp_path: Path) -> None:
    old, new, other = (tmp_path / f"ddpkit-{number}{'0' * 15}" for number in (1, 2, 3))
    for each in (old, new):
        make_directory(str(each), tmux.KIND)
        os.mkfifo(each / "given")
    other.mkdir()
    make_directory(str(used := tmp_path / f"ddpkit-4{'0' * 15}"), tmux.KIND)
    (used / "mine").touch()
    for each in (old, other, used):
        os.utime(each, (0, 0))
    tmux._sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == [new, other, used]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
def test_a_session_that_nobody_takes_over_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where libutempter took the news of the first program's end from tmux: it did so in one of ten."""
    monkeypatch.setattr(tmux, "UNREAD", 0.2)
    monkeypatch.setattr(tmux, "TAKEN_WITHIN", 2)
    name = f"ddpkit-{secrets.token_hex(8)}"
    server = ["tmux", "-S", str(Path("/tmp", name)), "-f", "/dev/null"]
    try:
        tmux._new_session(server, name, tmp_path / "given")
        wait_until(lambda: subprocess.run([*server, "has-session"], capture_output=True, check=False).returncode != 0)
    finally:
        subprocess.run([*server, "kill-server"], capture_output=True, check=False)
        Path("/tmp", name).unlink(missing_ok=True)
