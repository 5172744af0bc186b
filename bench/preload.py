"""Start of ranks with and without `--preload`, under SLURM and over ssh, as ratios; also where files open slowly.

Each way starts ranks that do one all_reduce, in a lab of its own (`tests/lab/cluster.py`). The ways are interleaved, so
that noise hits all alike, and a ratio is that of the medians. A shared file system is a small library in the ranks: it
counts the opened files of Python packages, and waits before each. The dynamic linker opens its files past it.

Usage: python bench/preload.py [--rounds N] [--ranks N,...] [--delays MS,...] [--json]
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import LOGIN, Lab, missing
from nodes import DONE, JOB, LIMIT, ROOT
from start import PYTHON

from ddpkit.transports.this_machine import free_port

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static void slow(const char *path) {
    static int (*plain)(const char *, int, ...);
    if (!path || !strstr(path, "/site-packages/")) return;
    if (!plain) plain = dlsym(RTLD_NEXT, "open");
    int log = plain(getenv("SLOW_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (log >= 0) { if (write(log, "x", 1)) {} close(log); }
    long delay = atol(getenv("SLOW_MS")) * 1000000;
    struct timespec left = {delay / 1000000000, delay % 1000000000};
    nanosleep(&left, 0);
}
#define OPEN(name, before, given) \
    int name before { \
        static int (*next) before; \
        int mode = 0; va_list more; va_start(more, flags); mode = va_arg(more, int); va_end(more); \
        if (!next) next = dlsym(RTLD_NEXT, #name); \
        slow(path); \
        return next given; \
    }
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))
"""
BOUND = 0.60


@dataclass(kw_only=True)
class Way:
    """One way to start ranks: the words before the job, and the way that it is compared with."""

    name: str
    script: str
    ranks: int
    delay: int = 0  # ms
    base: str = ""
    bound: float | None = None
    seconds: list[float] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)


def ways(ranks: int, delay: int, slow: dict[str, str]) -> list[Way]:
    """One node of SLURM: srun by hand, and ddpkit with both."""
    salloc = f"exec salloc -Q -N1 --ntasks-per-node={ranks}"
    task = "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec " + PYTHON + " job.py"
    env = " ".join(f"{name}={shlex.quote(value)}" for name, value in slow.items())
    given = " ".join(f"--env {name}={shlex.quote(value)}" for name, value in slow.items())
    hand = f"{env} MASTER_ADDR=node1 MASTER_PORT=$PORT srun --export=ALL sh -c {shlex.quote(task)}"
    ours = f"{salloc} {PYTHON} -m ddpkit launch -b slurm --quiet {given}"
    label = f"{ranks} ranks, {delay} ms"
    return [
        Way(name=f"srun, {label}", script=f"{salloc} env sh -c {shlex.quote(hand)}", ranks=ranks, delay=delay),
        Way(
            name=f"ddpkit -b slurm, {label}",
            script=f"{ours} -- job.py",
            ranks=ranks,
            delay=delay,
            base=f"srun, {label}",
        ),
        Way(
            name=f"ddpkit -b slurm --preload, {label}",
            script=f"{ours} --preload -- job.py",
            ranks=ranks,
            delay=delay,
            base=f"srun, {label}",
            bound=None if delay else BOUND,
        ),
    ]


def over_ssh(folder: Path, first: str) -> list[Way]:
    """Two nodes of four ranks."""
    here, lines = shlex.quote(str(folder)), []
    for node in (0, 1):
        shared = f"export MASTER_ADDR={first} MASTER_PORT=$PORT WORLD_SIZE=8"
        each = "".join(f"RANK={4 * node + local} LOCAL_RANK={local} {PYTHON} job.py & " for local in range(4))
        lines.append(f'ssh node{node + 1} "cd {here} && {{ {shared}; {each}wait; }}" &')
    ours = f"exec {PYTHON} -m ddpkit launch -q -b ssh --starter ranks node1 node2 -n 4"
    base = "bare over ssh, 2 x 4 ranks"
    return [
        Way(name=base, script="\n".join([*lines, "wait"]), ranks=8),
        Way(name="ddpkit -b ssh, 2 x 4 ranks", script=f"{ours} -- job.py", ranks=8, base=base),
        Way(
            name="ddpkit -b ssh --preload, 2 x 4 ranks",
            script=f"{ours} --preload -- job.py",
            ranks=8,
            base=base,
            bound=BOUND,
        ),
    ]


def measure(lab: Lab, way: Way, folder: Path, *, keep: bool) -> None:
    log = folder / "opened"
    log.write_text("")
    argv = lab.argv(
        LOGIN, ["timeout", str(LIMIT), "sh", "-c", f"PORT={free_port()}\nexport PORT\n{way.script}"], folder
    )
    begin = time.perf_counter()
    env = {**lab.environ(), "PYTHONPATH": str(ROOT), "SLOW_MS": str(way.delay)}
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 0 or done.stdout.count(DONE) != way.ranks:
        sys.exit(f"{way.name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    if keep:
        way.seconds.append(seconds)
        way.opened.append(log.stat().st_size)


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is started (default 5)")
    parser.add_argument("--ranks", default="4,8", help="ranks of the node of SLURM (default 4,8)")
    parser.add_argument("--delays", default="0,1,10", help="ms before each file is opened (default 0,1,10)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    reason = missing()
    if reason or shutil.which("cc") is None:
        sys.exit(reason or "cc not found")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    top = Path(tempfile.mkdtemp(prefix="ddpkit-bench-"))
    lab = Lab(top / "lab")
    (folder := top / "work").mkdir()
    (folder / "job.py").write_text(JOB)
    shim = folder / "slow.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), "-xc", "-", "-ldl"], input=SHIM, text=True, check=True)
    slow = {"LD_PRELOAD": str(shim), "SLOW_LOG": str(folder / "opened")}
    every: list[Way] = []
    for ranks in map(int, options.ranks.split(",")):
        for delay in map(int, options.delays.split(",")):
            every += ways(ranks, delay, {**slow, "SLOW_MS": str(delay)})
    try:
        lab.up()
        every += over_ssh(folder, lab.address["node1"])
        for number in range(options.rounds + 1):
            for way in every:
                measure(lab, way, folder, keep=number > 0)  # the first round fills caches
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        lab.down()
        shutil.rmtree(top, ignore_errors=True)
    by_name = {way.name: way for way in every}
    rows = []
    for way in every:
        median, base = statistics.median(way.seconds), statistics.median(by_name[way.base or way.name].seconds)
        rows.append(
            {
                "way": way.name,
                "seconds": round(median, 2),
                "ratio": round(median / base, 2),
                "bound": way.bound,
                "opened": int(statistics.median(way.opened)) or None,
            }
        )
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'way':<44} {'median s':>8} {'ratio':>6} {'files opened':>13}")
    for row in rows:
        bound = f"  (at most {row['bound']:.2f})" if row["bound"] else ""
        print(f"{row['way']:<44} {row['seconds']:>8.2f} {row['ratio']:>6.2f} {row['opened'] or '':>13}{bound}")


if __name__ == "__main__":
    main()
