"""Commands of a scheduler: each runs to its end within a time limit, with nothing on its standard input."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COMMAND_TIMEOUT = 30.0  # seconds; a command may wait for its controller
NOT_RUN = 127  # exit codes of a shell for a command that could not run, and of `timeout` for one that did not end
TIMED_OUT = 124


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Exit code and output of a command. `error` is its standard error, or the reason why it has no end, in a line."""

    exit_code: int
    output: str = ""
    error: str = ""
    missing: bool = False  # there is no such program
    timed_out: bool = False  # it was ended; `error` has its standard error until then


def run_command(argv: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = COMMAND_TIMEOUT) -> Reply:
    """Run a command to its end. `env` replaces the environment; `timeout` is in seconds. Raises nothing."""
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        error = f"{argv[0]} not found on {os.uname().nodename}"
        return Reply(exit_code=NOT_RUN, error=error, missing=True)
    except OSError as problem:
        return Reply(exit_code=NOT_RUN, error=f"{argv[0]}: {problem.strerror}")
    except subprocess.TimeoutExpired as problem:
        written = " ".join(decode(problem.stderr).split())
        error = f"{argv[0]} did not answer in {timeout:g} s, and was ended{': ' + written if written else ''}"
        return Reply(exit_code=TIMED_OUT, error=error, timed_out=True)
    return Reply(exit_code=done.returncode, output=done.stdout, error=" ".join(done.stderr.split()))


def decode(output: str | bytes | None) -> str:
    """Decode the output of a program that was ended. Python gives bytes even where text was asked for."""
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""
