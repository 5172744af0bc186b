"""Cost of a launch on nodes, in time and processor seconds, as ratios to other launchers in the same run.

Two tables. `ranks`: time to "all_reduce done and exited" on 2 nodes with 2 ranks each. `hosts`: `true` on 64 hosts.
Both in a lab of its own (`tests/lab/cluster.py`), whose hosts share the processors of this machine, from its login
host; the ways are interleaved, so that noise hits all alike, and a ratio is that of the medians.

DeepSpeed and torchrunx are installed beside the same torch into .venv/peers, at the first time.

Usage: python bench/nodes.py [--rounds N] [--only ranks|hosts] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import LOGIN, Lab, missing
from start import ALL_REDUCE, PYTHON

from ddpkit.transports.this_machine import free_port

ROOT = Path(__file__).parents[1]
HOSTS = 64
DONE = "all_reduce done"
LIMIT = 300  # seconds for one start
PEERS = ROOT / ".venv/peers"
# The same for all, however they pass an environment on: one thread of torch for each rank.
JOB = f'import os\nos.environ["OMP_NUM_THREADS"] = "1"\n{ALL_REDUCE}print("{DONE}", flush=True)\n'
TORCHRUNX = f"""
import torchrunx

def work():
    import os
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    import torch.distributed as dist
    total = torch.ones(1)
    dist.all_reduce(total)
    assert total.item() == 4
    return "{DONE}"

if __name__ == "__main__":
    launcher = torchrunx.Launcher(hostnames=["node1", "node2"], workers_per_host=2, backend="gloo")
    done = launcher.run(work)
    print(*(done.rank(rank) for rank in range(4)))
"""


@dataclass(kw_only=True)
class LaunchMethod:
    """One way to start something: a shell script for the login host, given a free port."""

    name: str
    script: Callable[[int], str]
    base: str = ""  # the name of the way that it is compared with; empty: it is one
    wall: float | None = None  # bounds of the ratios
    cpu: float | None = None
    expect: int = 0  # how often its output must say DONE
    peer: bool = False  # not ours: where it does not work the row says so, and that is all
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    problem: str = ""


def ranks_ways(lab: Lab, folder: Path, no_peers: str) -> list[LaunchMethod]:
    """2 nodes of 2 ranks, until all of them have done their all_reduce and are gone."""
    first = lab.address["node1"]
    here = shlex.quote(str(folder))

    def by_hand(make: Callable[[int, int], str]) -> Callable[[int], str]:
        return lambda port: "\n".join(
            [*(f"ssh node{node + 1} {shlex.quote(f'cd {here} && {make(node, port)}')} &" for node in (0, 1)), "wait"]
        )

    def bare(node: int, port: int) -> str:
        shared = f"export MASTER_ADDR={first} MASTER_PORT={port} WORLD_SIZE=4 LOCAL_WORLD_SIZE=2"
        each = "".join(f"RANK={2 * node + local} LOCAL_RANK={local} {PYTHON} job.py & " for local in (0, 1))
        return f"{{ {shared}; {each}wait; }}"

    def torchrun(node: int, port: int) -> str:
        where = f"--nnodes 2 --node-rank {node} --master-addr {first} --master-port {port}"
        return f"exec {PYTHON} -m torch.distributed.run {where} --nproc-per-node 2 job.py"

    def ddpkit(*words: str) -> Callable[[int], str]:
        return lambda _: f"{PYTHON} -m ddpkit launch {' '.join(words)} node1 node2 -n 2 -- job.py"

    python = shlex.quote(str(PEERS / "bin/python"))
    floor, typed = "bare ranks over ssh", "torchrun by hand over ssh"
    deepspeed = f"{python} {PEERS}/bin/deepspeed --hostfile deepspeed.hosts --no_local_rank --master_addr {first}"
    return [
        LaunchMethod(name=floor, script=by_hand(bare), expect=4),
        LaunchMethod(
            name="ddpkit -b ssh, starter ranks",
            script=ddpkit("-b ssh -o starter=ranks"),
            base=floor,
            wall=1.1,
            expect=4,
        ),
        LaunchMethod(name=typed, script=by_hand(torchrun), expect=4),
        LaunchMethod(name="ddpkit -b ssh", script=ddpkit("-b ssh"), base=typed, wall=1.05, expect=4),
        LaunchMethod(name="ddpkit -b pdsh", script=ddpkit("-b pdsh"), base=typed, expect=4),
        LaunchMethod(
            name="DeepSpeed (pdsh)",
            script=lambda port: f"{deepspeed} --master_port {port} job.py",
            base=floor,
            expect=4,
            peer=True,
            problem=no_peers,
        ),
        LaunchMethod(
            name="torchrunx",
            script=lambda _: f"{python} torchrunx_job.py",
            base=floor,
            expect=4,
            peer=True,
            problem=no_peers,
        ),
    ]


def hosts_ways() -> list[LaunchMethod]:
    """`true` on many hosts."""
    nodes = f"node[1-{HOSTS}]"
    launch = f"{PYTHON} -m ddpkit launch -b ssh '{nodes}' -n 1 -o starter=ranks -- true"
    return [
        LaunchMethod(name="pdsh", script=lambda _: f"exec pdsh -R ssh -f {HOSTS} -w '{nodes}' true"),
        LaunchMethod(
            name="ddpkit -b ssh, starter ranks", script=lambda _: f"exec {launch}", base="pdsh", wall=1.0, cpu=0.35
        ),
    ]


def measure(lab: Lab, way: LaunchMethod, folder: Path, *, keep: bool) -> None:
    """Run it once on the login host. Its processor seconds are those of the client and of all its local children."""
    argv = lab.argv(LOGIN, ["timeout", str(LIMIT), "sh", "-c", way.script(free_port() or 29500)], folder)
    # An installed package comes compiled; one that is run from its sources compiles itself in the first round.
    path = f"{PEERS / 'bin'}:{lab.environ()['PATH']}" if way.peer else lab.environ()["PATH"]
    env = {**lab.environ(), "PATH": path, "PYTHONPATH": str(ROOT), "DS_BUILD_OPS": "0"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)  # it was waited for behind its back
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode != 0 or text.count(DONE) < way.expect:
        way.problem = f"exit code {process.returncode}: {' / '.join(text.strip().splitlines()[-12:])}"
    elif keep:
        way.seconds.append(seconds)
        way.cpu_seconds.append(usage.ru_utime + usage.ru_stime)


def compare(lab: Lab, ways: list[LaunchMethod], folder: Path, rounds: int, table: str) -> list[dict[str, Any]]:
    for number in range(rounds + 1):
        for way in ways:
            if not (way.peer and way.problem):
                measure(lab, way, folder, keep=number > 0)  # the first round fills caches
    by_name = {way.name: way for way in ways}
    rows = []
    for way in ways:
        base = by_name[way.base or way.name]
        row: dict[str, Any] = {"table": table, "way": way.name, "to": way.base, "problem": way.problem}
        for kind, bound in (("seconds", way.wall), ("cpu_seconds", way.cpu)):
            mine, theirs = getattr(way, kind), getattr(base, kind)
            row[kind] = round(statistics.median(mine), 3) if mine else None
            row[f"{kind}_ratio"] = round(row[kind] / statistics.median(theirs), 3) if mine and theirs else None
            row[f"{kind}_bound"] = bound
        rows.append(row)
    return rows


def install_peers() -> str:
    """Make the other launchers' virtual environment. Returns why there is none, or nothing."""
    ready = PEERS / ".ready"
    if ready.exists():
        return ""
    pip = [str(PEERS / "bin/pip"), "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    env = {**os.environ, "DS_BUILD_OPS": "0"}
    for argv in ([sys.executable, "-m", "venv", str(PEERS)], [*pip, "torch"], [*pip, "deepspeed", "torchrunx"]):
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
            return f"cannot be installed: {errors[-1] if errors else done.returncode}"
    ready.touch()
    return ""


def in_lab(rounds: int, only: str) -> Iterator[list[dict[str, Any]]]:
    """The tables that need hosts, each when it is done. The lab is gone at the end, also at Ctrl-C."""
    no_peers = install_peers() if only != "hosts" else ""
    top = Path(tempfile.mkdtemp(prefix="ddpkit-bench-"))
    folder = top / "work"
    folder.mkdir()
    (folder / "job.py").write_text(JOB)
    (folder / "torchrunx_job.py").write_text(TORCHRUNX)
    (folder / "deepspeed.hosts").write_text("node1 slots=2\nnode2 slots=2\n")
    lab = Lab(top / "lab", plain=HOSTS)
    try:
        lab.up()
        if only != "hosts":
            yield compare(lab, ranks_ways(lab, folder, no_peers), folder, rounds, "ranks")
        if only != "ranks":
            yield compare(lab, hosts_ways(), folder, rounds, "hosts")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # it is ending already
        lab.down()
        shutil.rmtree(top, ignore_errors=True)


def tables(rounds: int, only: str) -> Iterator[list[dict[str, Any]]]:
    reason = missing()
    if reason:
        print(f"no hosts to start anything on: {reason}", file=sys.stderr)
    else:
        yield from in_lab(rounds, only)


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    def compared(row: Mapping[str, Any], kind: str) -> str:
        ratio, bound = row[f"{kind}_ratio"], row[f"{kind}_bound"]
        return f"{row[kind]:>8.2f} {ratio:>6.2f}" + (f" (at most {bound:.2f})" if bound else "")

    titles = {"ranks": "2 nodes of 2 ranks, all_reduce done and exited", "hosts": f"`true` on {HOSTS} hosts"}
    for table, title in titles.items():
        these = [row for row in rows if row["table"] == table]
        if these:
            print(f"{title}\n  {'way':<30} {'median s':>8} {'ratio':>6}   client's CPU s, ratio")
        for row in these:
            if row["seconds"] is None:
                print(f"  {row['way']:<30} {row['problem']}")
                continue
            figures = f"{compared(row, 'seconds')}   {compared(row, 'cpu_seconds')}"
            print(f"  {row['way']:<30} {figures}  to {row['to'] or 'itself'}")
            if row["problem"]:
                print(f"    failed at least once: {row['problem']}")


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a table is shown when it is done
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is started (default 5)")
    parser.add_argument("--only", choices=("ranks", "hosts"), default="", help="one table")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    rows: list[dict[str, Any]] = []
    for table in tables(options.rounds, options.only):
        rows += table
        if not options.json:
            show(table)
    if options.json:
        print(json.dumps(rows, indent=2))
    sys.exit(any(row.get("problem") and row["way"].startswith("ddpkit") for row in rows))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
