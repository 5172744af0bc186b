#!/usr/bin/env python3
"""CPU seconds of commands, also of those that read the logs of a long run: logs.py [GIGABYTES]. Default: 2.

The logs are those of 4 ranks, written by the launcher's own writer. Each command is run five times, and on a run of one
line as well; the least CPU time counts, user and system, start of Python included.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from ddpkit.run import record
from ddpkit.run.log_files import LogFiles
from ddpkit.run.record import Run
from ddpkit.run.state import RunState

RANKS, TOGETHER, ROUNDS = 4, 4, 5
LINE = "rank %d line %09d: step 100 loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB\n"
COMMANDS = (
    "-c 'import typer'",
    "-m ddpkit --version",
    "-m ddpkit --help",
    "-m ddpkit launch --help",
    "-m ddpkit ps",
    "-m ddpkit status RUN",
    "-m ddpkit logs RUN --tail 100",
    "-m ddpkit logs RUN --rank 2 --tail 100",
    "-m ddpkit explain RUN",
)


def make_run(parent: Path, size: int) -> Path:
    """Write the logs and the record of a run. Prints the CPU time of a line."""
    folder = record.make_folder(parent, record.new_id("bench"))
    logs, lines, began = LogFiles(folder), 0, time.process_time()
    while lines == 0 or lines * RANKS * len(LINE) < size:
        for rank in range(RANKS):
            text = "".join(LINE % (rank, number) for number in range(lines, lines + TOGETHER))
            logs.keep(str(rank), "node1", text.encode())
        lines += TOGETHER
        if logs.is_full:
            logs.sync()
    logs.close()
    seconds = time.process_time() - began
    written = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{written / 1e9:.2f} GB, {lines * RANKS} lines: {1e6 * seconds / lines / RANKS:.1f} us of CPU for a line")
    now = time.time()
    Run(
        run_id=folder.name,
        folder=str(folder),
        backend="local",
        command=("train.py",),
        workdir=str(parent),
        hosts=("node1",),
        ranks={"node1": [*range(RANKS)]},
        world_size=RANKS,
        launcher_pid=1,
        launcher_started="0",
        launcher_host=os.uname().nodename,
        started=now - 60.0,
        ended=now,
        state=RunState.FAILED,
        exit_code=1,
    ).save()
    return folder


def cpu(command: str, folder: Path) -> float:
    """Return the least CPU time of a command."""
    words = [str(folder) if word == "RUN" else word for word in shlex.split(command)]
    least = float("inf")
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder.parent,
            env={**os.environ, "XDG_STATE_HOME": str(folder.parent)},
        ) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, words
        least = min(least, usage.ru_utime + usage.ru_stime)
    return least


def main() -> None:
    size = float(sys.argv[1]) if sys.argv[1:] else 2.0
    with tempfile.TemporaryDirectory() as name:
        long, short = make_run(Path(name), int(size * 1e9)), make_run(Path(name), 0)
        for command in COMMANDS:
            print(f"{cpu(command, long):6.3f} s, of a short run {cpu(command, short):6.3f} s: python {command}")


if __name__ == "__main__":
    main()
