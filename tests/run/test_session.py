"""The tmux session of a launcher whose parent was killed."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from pathlib import Path

import pytest
from program import wait_until

from ddpkit.run import tmux

pytestmark = pytest.mark.live


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux")
def test_a_session_that_nobody_takes_over_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tmux, "UNREAD", 0.2)
    monkeypatch.setattr(tmux, "_BECOME", "raise SystemExit(3)")  # as its alarm
    name = f"ddpkit-{secrets.token_hex(8)}"
    server = ["tmux", "-S", str(Path("/tmp", name)), "-f", "/dev/null"]
    try:
        tmux._new_session(server, name, tmp_path / "given")
        wait_until(lambda: subprocess.run([*server, "has-session"], capture_output=True, check=False).returncode != 0)
    finally:
        subprocess.run([*server, "kill-server"], capture_output=True, check=False)
        Path("/tmp", name).unlink(missing_ok=True)
