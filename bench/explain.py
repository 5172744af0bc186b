#!/usr/bin/env python3
"""Time and memory of `ddpkit explain` on logs that are hard to read: explain.py [MEBIBYTES]. Default: 200.

Each log is read by a process of its own, as a file and from standard input. CPU seconds are those of user and system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MIB = 1 << 20
ERROR = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    go()\nKeyError: 'a'\n"
SIGNED = "https://host.example/a/b?X-Amz-Signature=" + "0123456789abcdef" * 500 + "&X-Amz-Expires=3600\n"
SOCKET = (
    "[W1128 10:00:00.{0:06d} socket.cpp:697] [c10d] The client socket has failed to connect to [node{0}]:29500 "
    "(errno: 111 - Connection refused).\n"
)
SMALL = {  # 1 MiB of each
    "row of _": "_" * 8000 + "\n",
    "one line of [E": "[E ",
    "signed URLs": SIGNED,
    "words of one line": "CUDA error NCCL timeout rank 3 failed ",
    "frames": '  File "/a/b.py", line 3, in f\n    g()\n',
    "JSON": '{"a": {"b": ' + "[1, 2, 3], " * 600 + "}}\n",
}


def lines(form: str, size: int) -> Iterator[str]:
    """Yield lines of a long log with a failure near its begin."""
    done = number = 0
    yield ERROR
    while done < size:
        block = "".join(form.format(each, each / 7) for each in range(number, number + 1000))
        number += 1000
        done += len(block)
        yield block


def measure(path: Path, *, stdin: bool) -> tuple[float, float, str]:
    """Return CPU seconds, MiB of memory and the first line of the answer."""
    command = [sys.executable, "-m", "ddpkit", "explain", "-" if stdin else str(path)]
    with open(path, "rb") as log, tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdin=log, stdout=out, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        out.seek(0)
        answer = out.read().decode(errors="replace").strip().partition("\n")[0]
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, answer


def report(name: str, path: Path) -> None:
    for stdin in (False, True):
        seconds, memory, answer = measure(path, stdin=stdin)
        size = path.stat().st_size / MIB
        figures = f"{size:7.1f} MiB {seconds:7.2f} s CPU {memory:7.0f} MiB"
        print(f"{name:24} {'stdin' if stdin else 'file':6} {figures}  {answer[:60]}")


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_text("step 1 loss 2\n" + ERROR)
        report("short", path)
        for name, line in SMALL.items():
            path.write_text((line * (MIB // len(line) + 1))[:MIB] + "\n" + ERROR)
            report(name, path)
        long = {"steps": "step {0} loss {1:.4f} lr 0.001\n", "socket warnings": SOCKET, "CSV": "{0},{1:.5f},{1:.3f}\n"}
        for name, form in long.items():
            with open(path, "w") as log:
                log.writelines(lines(form, size * MIB))
            report(name, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
