"""A launch of the drill can be ended, however the drill was started."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ddpkit.monitor.drill.trial import Launch


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
