"""A launch of the drill can be ended, however the drill was started. What its ranks write is counted."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from program import wait_until

from ddpkit.monitor.drill.trial import Launch, Writes


def test_a_launch_of_a_drill_in_the_background_of_a_script_is_ended(tmp_path: Path) -> None:
    """A shell without job control lets a program that it starts with `&` ignore SIGQUIT."""
    program = "import time; print('[0 node1] step 1', file=__import__('sys').stderr, flush=True); time.sleep(60)"
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with Launch([sys.executable, "-c", program], dict(os.environ), tmp_path) as launch:
            assert launch.wait(60, lambda trial: bool(trial.lines))
            launch.signal(signal.SIGQUIT)
            assert launch.finish(30).code == -signal.SIGQUIT
    finally:
        signal.signal(signal.SIGQUIT, before)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")
def test_a_file_that_is_renamed_before_it_is_closed_was_written_once(tmp_path: Path) -> None:
    """As safetensors writes it: in a drill of Accelerate each rank seemed to write the model."""
    draft, model, end = tmp_path / "draft.tmp", tmp_path / "model.safetensors", tmp_path / "end"
    writes = Writes(tmp_path)
    try:
        for _ in range(3):
            with draft.open("w") as file:
                file.write("weights")
                draft.rename(model)
            with end.open("w"):
                pass
        wait_until(lambda: len(writes.times().get(str(end), ())) == 3, lambda: str(writes.times()))
        assert len(writes.times()[str(model)]) == 3
    finally:
        writes.close()
