"""`--stage=env` on many nodes: seconds, and bytes that leave this machine, beside rsync to each in turn.

Each way runs once, in a lab of its own (`tests/lab/cluster.py`). Each host has a directory of this machine's disk to
itself, and all share its processors. A launch without --stage reads the environment from the shared directory, which
here is a local disk as well: no server is waited for.

Usage: python bench/stage.py [--hosts N] [--few N] [--python VENV/bin/python] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import LOGIN, Lab, missing
from nodes import LIMIT, ROOT
from start import PYTHON

JOB = "import part\nprint('ran', part.TEXT, flush=True)\n"
TORCH = "import torch\nprint('ran', torch.ones(1).item(), flush=True)\n"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one way took."""

    way: str
    hosts: int
    seconds: float
    megabytes: float  # that left the client
    staged: float | None = None  # seconds of these, until all nodes had the copies


class Bench:
    """A lab whose hosts have a disk each, and a project."""

    def __init__(self, lab: Lab, top: Path, python: str) -> None:
        self.lab, self.python = lab, os.path.abspath(python)  # noqa: PTH100, as its symbolic links matter
        self.disk, self.disks, self.work = top / "disk", top / "disks", top / "work"
        for folder in (self.disk, self.work):
            folder.mkdir()
        for host in lab.hosts:
            (self.disks / host).mkdir(parents=True)
            lab.run(host, "mount", "--bind", str(self.disks / host), str(self.disk))
        for name, text in (
            ("job.py", JOB),
            ("torch_job.py", TORCH),
            ("part.py", "TEXT = 1\n"),
            (".gitignore", "logs\n"),
        ):
            (self.work / name).write_text(text)

    def sent(self) -> int:
        """Bytes that the client has sent."""
        shown = json.loads(self.lab.run(LOGIN, "ip", "-j", "-s", "link", "show", "eth0").stdout)
        return int(shown[0]["stats64"]["tx"]["bytes"])

    def run(self, way: str, hosts: int, script: str) -> tuple[Row, str]:
        env = {**self.lab.environ(), "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        argv = self.lab.argv(LOGIN, ["timeout", str(2 * LIMIT), "sh", "-c", script], self.work)
        before, began = self.sent(), time.perf_counter()
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        seconds, sent = time.perf_counter() - began, self.sent() - before
        if done.returncode != 0:
            sys.exit(f"{way}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        last = re.findall(r"^ddpkit: staged .* \((\d+\.\d) s\)$", done.stderr, re.MULTILINE)
        row = Row(
            way=way,
            hosts=hosts,
            seconds=round(seconds, 2),
            megabytes=round(sent / 1e6, 3),
            staged=float(last[-1]) if last else None,
        )
        return row, done.stdout

    def launch(self, way: str, hosts: int, *, stage: bool = True, job: str = "job.py") -> Row:
        words = f"-b ssh 'node[1-{hosts}]' -n 1 --starter ranks --python {self.python} -o connect_timeout=60"
        words += f" --stage=env --stage-dir {self.disk}/stage" if stage else ""
        row, text = self.run(way, hosts, f"exec {PYTHON} -m ddpkit launch {words} -- {job}")
        assert text.count("ran ") == hosts, text
        return row

    def rsync(self, hosts: int) -> Row:
        prefix = Path(self.python).parent.parent
        copies = [f"rsync -a {prefix}/ node{number}:{self.disk}/rsync/" for number in range(1, hosts + 1)]
        row, _ = self.run("rsync to each in turn", hosts, "set -e\n" + "\n".join(copies))
        for number in range(1, hosts + 1):
            shutil.rmtree(self.disks / f"node{number}/rsync")
        return row

    def change(self) -> None:
        (self.work / "part.py").write_text(f"TEXT = {time.time()}\n")


def measure(bench: Bench, hosts: int, few: int) -> list[Row]:
    rows = [bench.rsync(few), bench.launch("--stage=env, no node has it", hosts)]
    for number in (few, hosts):
        rows.append(bench.launch("--stage=env, all nodes have it", number))
        bench.change()
        rows.append(bench.launch("--stage=env, a line of the project changed", number))
        rows.append(bench.launch("without --stage", number, stage=False))
    rows.append(bench.launch("import torch, --stage=env", hosts, job="torch_job.py"))
    rows.append(bench.launch("import torch, without --stage", hosts, stage=False, job="torch_job.py"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--hosts", type=int, default=16, help="nodes (default 16)")
    parser.add_argument("--few", type=int, default=2, help="nodes of the smaller launches, and of rsync (default 2)")
    parser.add_argument("--python", default=sys.executable, help="Python of the environment (default: this one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    reason = missing()
    if reason:
        sys.exit(reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    top = Path(tempfile.mkdtemp(prefix="ddpkit-bench-"))
    lab = Lab(top / "lab", plain=options.hosts)
    try:
        lab.up()
        load = os.getloadavg()[0]
        rows = measure(Bench(lab, top, options.python), options.hosts, options.few)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        lab.down()
        shutil.rmtree(top, ignore_errors=True)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"{'way':<44} {'nodes':>5} {'seconds':>8} {'copies':>7} {'MB sent':>10}")
    for row in rows:
        staged = "" if row.staged is None else f"{row.staged:.1f}"
        print(f"{row.way:<44} {row.hosts:>5} {row.seconds:>8.2f} {staged:>7} {row.megabytes:>10.3f}")
    print(f"load average: {load:.1f} before, {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
