"""Kills each of 20 processes of a run of four roles on the lab's nodes, one a round: the run names it, and ends.

A round starts the run, waits until all processes work, and kills one with SIGKILL: a rank, the parent of one, the
launcher, all processes of a node (`halted`), or a node with its cable (`node`), which only its silence tells. Then it
checks the role, the host and the exit code in the last lines, the time to the end, and that nothing is left.

As a program: role_kills.py [--backend ssh] [--only train.0:5]. Exit code 1: anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
from cluster import NODES, Lab
from launches import Launch, processes
from program import MARK, undo_ignored_signals

GRACE = 3.0
SERVE = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler)
print("works", flush=True)
server.serve_forever()
"""
WORK = "import time; print('works', flush=True); time.sleep(3600)\n"
ROLES = """
[roles.infer]
nnodes = 4
beside = "train"
command = "serve.py {port}"
ready = "http:/health"
[roles.data]
nnodes = 4
beside = "train"
command = "work.py"
ready = "line: works"
[roles.train]
nnodes = 4
nproc_per_node = 2
command = "work.py {infer.urls}"
after = ["infer", "data"]
ends_run = true
[roles.eval]
nnodes = 4
beside = "train"
command = "work.py"
after = ["train"]
"""
Rank = tuple[str, int]  # the replica, and the rank in it
# Of a run that SLURM holds: a killed launcher has no time to end it, and the job ends with the pipe of salloc.
ALONE = ("launcher", "halted", "node")
# Seconds beyond the grace. What a killed launcher leaves, its nodes end. A dead cable is noticed by the silence of
# `heartbeat_timeout`; under SLURM the controller notices both by SlurmdTimeout, and looks at every third of it.
MORE = {"launcher": 60.0, "halted": 2.0, "node": 35.0}


def write_programs(folder: Path) -> None:
    """Write the programs of the roles, and their ddpkit.toml."""
    for name, text in (("serve.py", SERVE), ("work.py", WORK), ("ddpkit.toml", ROLES)):
        (folder / name).write_text(text)


def ranks_of(launch: Launch, scripts: Sequence[str] = ("serve.py", "work.py")) -> dict[Rank, tuple[str, int]]:
    """Host and process of each rank of each replica."""
    found = {}
    for pid, (host, line) in processes(launch.lab, NODES).items():
        if [Path(word).name for word in line.split()[1:2]] not in [[each] for each in scripts]:
            continue
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        names = dict(word.split("=", 1) for word in words if "=" in word)
        if names.get(MARK) == launch.mark and "RANK" in names:
            replica = f"{names['DDPKIT_ROLE']}.{names['DDPKIT_REPLICA']}"
            found[replica, int(names["RANK"])] = (host, pid)
    return found


@contextmanager
def started(lab: Lab, backend: str, folder: Path) -> Iterator[Launch]:
    """A run of roles, all processes of which work."""
    hosts = [] if backend.startswith("slurm") else [*NODES]
    launch = Launch(lab, folder, ["-b", backend, *hosts, "--grace", f"{GRACE:g}"])
    try:
        launch.wait_for(" works", 20)
        yield launch
    finally:
        launch.clean_up()


def kill(lab: Lab, launch: Launch, victim: Rank | str) -> tuple[str, str]:
    """Kill it. Returns the words and the host that the verdict has to name."""
    if victim == "launcher":
        os.kill(launch.pid(), signal.SIGKILL)
        return "", ""
    if victim in ("node", "halted"):
        (lab.kill if victim == "node" else lab.halt)(NODES[2])
        return "", NODES[2]
    if victim == "parent":
        host, pid = ranks_of(launch)["train.0", 5]
        os.kill(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        return "train.0", host
    assert not isinstance(victim, str)
    host, pid = ranks_of(launch)[victim]
    os.kill(pid, signal.SIGKILL)
    return f"{victim[0]}", host


def round_(lab: Lab, backend: str, victim: Rank | str) -> str:
    """Return what was wrong; empty: nothing."""
    folder = Path(tempfile.mkdtemp(prefix="round-", dir=lab.folder))
    write_programs(folder)
    with started(lab, backend, folder) as launch:
        before = len(launch.lines)
        replica, host = kill(lab, launch, victim)
        began = time.monotonic()
        code = launch.end()
        seconds = time.monotonic() - began
        text = "\n".join(launch.lines[before:])
        if victim in ("node", "halted"):
            lab.boot(NODES[2])
        wrong = _wrong(victim, replica, host, code, text)
        lost = "node" if backend.startswith("slurm") and victim == "halted" else str(victim)
        limit = GRACE + MORE.get(lost, 2.0)
        wrong += [f"took {seconds:.1f} s"] if seconds > limit else []
        try:
            launch.wait_for_nothing_left(GRACE + 2 if victim not in ALONE else 60.0, folders=victim not in ALONE)
        except AssertionError as error:
            wrong.append(str(error).partition("\n")[0])
        if backend.startswith("slurm"):
            lab.wait_idle()
        print(f"{backend} {victim}: exit code {code} after {seconds:.1f} s  {'; '.join(wrong) or 'ok'}", flush=True)
        if wrong:
            print(text)
    shutil.rmtree(folder, ignore_errors=True)
    return "; ".join(wrong)


def _wrong(victim: Rank | str, replica: str, host: str, code: int, text: str) -> list[str]:
    if victim == "launcher":
        return [] if code == -9 else [f"exit code {code}"]
    if isinstance(victim, str):
        named = re.search(rf"ddpkit: {replica or '[a-z]+[.][0-9]'}: .*{host}.* failed first", text)
        return ([] if named else [f"{replica} on {host} is not named"]) + ([] if code else ["exit code 0"])
    first = re.findall(r"ddpkit: (\S+): rank (\d+) on (\w+) failed first", text)
    wrong = [] if first == [(replica, str(victim[1]), host)] else [f"not {victim} on {host} is named: {first}"]
    return wrong + ([] if code == 137 else [f"exit code {code}"])


def victims() -> list[Rank | str]:
    """Every process, then the launcher and a node."""
    services: list[Rank | str] = [(f"{role}.{n}", 0) for role in ("infer", "data", "eval") for n in range(4)]
    return [*services, *(("train.0", rank) for rank in range(8)), "parent", *ALONE]


def main() -> int:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="ssh,slurm-srun")
    parser.add_argument("--only", default="", help="infer.2:0, launcher, halted or node")
    options = parser.parse_args()
    undo_ignored_signals()
    folder = Path(tempfile.mkdtemp(prefix="ddpkit-roles-"))
    lab = Lab(folder)
    bad = 0
    try:
        lab.up()
        for backend in options.backend.split(","):
            for victim in victims():
                name = victim if isinstance(victim, str) else f"{victim[0]}:{victim[1]}"
                if not options.only or name in options.only.split(","):
                    bad += bool(round_(lab, backend, victim))
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{bad} rounds were wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
