"""A test that hangs fails with the stacks of all threads, and the next one runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from program import run_to_end

HANGS = """
import threading


def waits_for_ever():
    threading.Event().wait()


def test_hangs():
    threading.Thread(target=waits_for_ever, daemon=True).start()
    threading.Event().wait()


def test_next():
    pass
"""


def test_a_hang_ends_one_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from hang_limit import pytest_runtest_protocol\n")
    (tmp_path / "test_it.py").write_text(HANGS)
    ended = run_to_end(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "DDPKIT_TEST_LIMIT": "1", "PYTHONPATH": str(Path(__file__).parent)},
    )
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "test_hangs" in ended.stdout
    assert "the test did not end within 1 s" in ended.stdout
    assert "in waits_for_ever" in ended.stdout
