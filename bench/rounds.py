"""Starts launches on the lab's nodes and ends each in a random way at a random moment: nothing may be left of any.

Each round: a backend (SLURM's, in an allocation, only if it is chosen), a starter, a script and an event, all by chance
from a seed. Then it waits, and checks the exit code, that no process of the launch is alive on any host, that a foreign
process with the ranks' command line is, and that no folder of ours is left. A host that is cut off is looked at while
it is cut off.

With --stage, each host has a disk of its own, on which nothing but the cache of copies may be left.

As a program: rounds.py [--rounds N] [--seed S] [--only EVENT] [--backend B] [--starter S] [--stage]. Exit code 1:
anything was wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/lab"))
import via_rounds
from cluster import NODES, Lab
from launches import Launch, foreign, processes, restart_sshd
from program import undo_ignored_signals

GRACE = 1.0
SILENCE = 3.0
END_LIMIT = 60.0  # seconds that an end may take before it counts as none
STAGED = 16 << 20  # bytes that each round copies to each host, with --stage
TOO_BUSY = "did not answer in time"
UNASKED = 90.0  # the same for a supervisor that was cut off before it was given anything to do

# Ranks that wait for each other as in an all_reduce, without torch: everybody sends to rank 0 and waits for its answer.
# Every rank has a child that left its session and ignores TERM; some ignore TERM themselves.
JOB = """
import os, signal, socket, subprocess, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if os.path.exists("stubborn"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); time.sleep(3600)"
subprocess.Popen([sys.executable, "-S", "-c", child])
if rank == 0:
    server = socket.create_server(("", 0), backlog=64)
    with open("port.new", "w") as file:
        file.write(os.uname().nodename + " " + str(server.getsockname()[1]))
    os.rename("port.new", "port")
    others = [server.accept()[0] for _ in range(size - 1)]
else:
    while not os.path.exists("port"):
        time.sleep(0.02)
    host, port = open("port").read().split()
    others = [socket.create_connection((host, int(port)))]
print("rank", rank, "ready", flush=True)
while True:
    if os.path.exists("exit7." + str(rank)):
        print("last words", flush=True)
        os._exit(7)
    if rank == 0:
        for other in others:
            if not other.recv(1): sys.exit("a peer is gone")
        time.sleep(0.02)
        done = os.path.exists("go")
        for other in others:
            other.sendall(b"q" if done else b"x")
        if done: sys.exit(0)
    else:
        others[0].sendall(b"x")
        said = others[0].recv(1)
        if not said: sys.exit("rank 0 is gone")
        if said == b"q": sys.exit(0)
"""
TORCH_JOB = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
print("rank", dist.get_rank(), "ready", flush=True)
while True:
    if os.path.exists("exit7." + str(dist.get_rank())):
        os._exit(7)
    done = torch.tensor([float(os.path.exists("go"))])
    dist.all_reduce(done)
    if done.item(): break
    time.sleep(0.02)
os._exit(0)
"""
SIGNALS = {"INT": (130,), "INT twice": (130,), "TERM": (143, -15), "HUP": (129, -1), "QUIT": (131, -3), "KILL": (-9,)}
OF_SLURM = (*SIGNALS, "rank killed", "exit 7", "none")
EVENTS = (*SIGNALS, "cut", "host killed", "sshd restarted", "session killed", "rank killed", "exit 7", "none")
MOMENTS = ("connect", "start", "running")


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is to happen."""

    backend: str
    starter: str
    torch: bool
    event: str
    moment: str
    delay: float  # a share of the moment's length
    hosts: tuple[str, ...]
    nproc: int
    victim: int  # which host, or which rank
    stubborn: bool
    stage: bool


@dataclass(kw_only=True)
class Result:
    wrong: list[str]
    code: int
    end: float  # seconds from the event to the launcher's end
    gone: float  # seconds from the event to the last process's end


def draw(chance: random.Random, choice: argparse.Namespace) -> Round:
    via = (choice.backend or "").startswith("via")
    events = via_rounds.EVENTS if via else OF_SLURM if choice.backend == "slurm" else EVENTS
    # A forked rank shows the environment of the process that forked it: which rank it is cannot be seen from outside.
    event = choice.only or chance.choice(
        [each for each in events if (choice.starter, each) != ("preload", "rank killed")]
    )
    moment = chance.choice(MOMENTS)
    if event in ("rank killed", "exit 7", "none", "session killed"):
        moment = "running"
    return Round(
        backend=choice.backend or chance.choice(("ssh", "pdsh", "openssh")),
        starter=choice.starter or chance.choice(("ranks", "torchrun")),
        torch=chance.random() < 0.08,
        event=event,
        moment=moment,
        delay=chance.random(),
        hosts=tuple(chance.sample(NODES, chance.choice((2, 2, 3)))),
        nproc=chance.choice((1, 2)),
        victim=chance.randrange(100),
        stubborn=chance.random() < 0.3,
        stage=choice.stage,
    )


def play(lab: Lab, plan: Round) -> Result:
    """One round."""
    if plan.backend.startswith("via"):
        try:
            wrong, code, end, gone = via_rounds.play(lab, plan)
        except subprocess.TimeoutExpired:
            wrong, code, end, gone = [f"no end in {via_rounds.LIMIT:g} s"], 0, END_LIMIT, 0.0
        return Result(wrong=wrong, code=code, end=end, gone=gone)
    folder = Path(tempfile.mkdtemp(prefix="round-", dir=lab.folder))
    (folder / "job.py").write_text(TORCH_JOB if plan.torch else JOB)
    if plan.stubborn and plan.event != "none":
        (folder / "stubborn").touch()
    others = {name: foreign(lab, name, folder) for name in plan.hosts}
    words, before = ["-b", plan.backend, *plan.hosts], []
    if plan.backend == "slurm":
        words = ["-b", "slurm-torchrun" if plan.starter == "torchrun" else "slurm"]
        words += ["--preload=json"] if plan.starter == "preload" else []
        before = ["salloc", "-Q", "-w", ",".join(plan.hosts), f"--ntasks-per-node={plan.nproc}"]
    else:
        starter = ["--starter", "ranks", "--preload=json"] if plan.starter == "preload" else ["--starter", plan.starter]
        words += ["-o", f"heartbeat_timeout={SILENCE:g}", *starter]
    if plan.stage:
        (folder / "data.bin").write_bytes(os.urandom(STAGED))
        words += ["--stage", "--stage-dir", str(disk(lab))]
    if plan.backend == "openssh":
        words[1:2] = ["ssh", "-o", "transport=openssh"]
    words += ["-n", str(plan.nproc), "--grace", str(GRACE)]
    launch = Launch(lab, folder, [*words, "--", "job.py"], before=before)
    host = plan.hosts[plan.victim % len(plan.hosts)]
    try:
        return _play(lab, plan, launch, folder, host)
    except AssertionError as error:
        return Result(wrong=[f"before the event: {error}"], code=0, end=0.0, gone=0.0)
    finally:
        launch.clean_up()
        lab.mend(host)
        for name, process in others.items():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            elif not (plan.event == "host killed" and name == host):
                raise AssertionError(f"a foreign process on {name} was ended")
        if plan.event == "host killed":
            boot(lab, host, plan.stage)
            for name in launch.folders():  # a dead host takes nothing away
                shutil.rmtree(Path(lab.tmp, name))


def disk(lab: Lab) -> Path:
    """Where each host has a disk of its own."""
    return lab.folder / "disk"


def boot(lab: Lab, host: str, stage: bool) -> None:
    """Start a host that was killed; with its disk, which is empty."""
    lab.boot(host)
    if stage:
        mount_disk(lab, host)


def mount_disk(lab: Lab, host: str) -> None:
    disk(lab).mkdir(exist_ok=True)
    lab.run(host, "mount", "-t", "tmpfs", "-o", "size=400M", "none", str(disk(lab)))


def misplaced(lab: Lab, host: str, *, ended: bool) -> list[str]:
    """What is on a host's disk and is no copy, or its lock. `ended`: by itself, so that nothing else may be there.

    A launcher that was killed leaves the beginning of a copy, and its archive, to the next launch.
    """
    stage = "ddpkit-stage-0"
    script = f"cd {disk(lab)}; ls -A; ls -A {stage}; ls {stage}/*/.ddpkit-complete"
    lines = lab.run(host, "sh", "-c", f"{{ {script}; }} 2>/dev/null || true").stdout.split()
    copies = {line.split("/")[1] for line in lines if "/" in line}
    known = {stage, ".ddpkit", *copies, *(f"{name}.lock" for name in copies)}
    wrong = [line for line in lines if "/" not in line and line not in known]
    begun = r"project-\w{32}(\.lock|\.(new|tar)-\w{16})?"
    return wrong if ended else [name for name in wrong if not re.fullmatch(begun, name)]


def _play(lab: Lab, plan: Round, launch: Launch, folder: Path, host: str) -> Result:
    total = len(plan.hosts) * plan.nproc
    if plan.moment == "connect":
        time.sleep(plan.delay * (4.0 if plan.stage else 0.6))  # the round's moment, which nothing announces
    elif plan.moment == "start":
        launch.wait_for("logs in")
        time.sleep(plan.delay * (2.0 if plan.starter == "torchrun" or plan.torch else 0.3))
    else:
        launch.wait_for(" ready", times=total)
        time.sleep(plan.delay * 0.5)
    allowed, happened = _happen(lab, plan, launch, folder, host)
    wrong = []
    try:
        code = launch.end(END_LIMIT)
    except subprocess.TimeoutExpired:
        wrong.append(f"no end in {END_LIMIT:g} s:\n{launch.text}")
        return Result(wrong=wrong, code=0, end=END_LIMIT, gone=0.0)
    end = time.time() - happened
    if plan.backend == "slurm":
        # salloc ends as a shell would, or with 0 or 1 after a command that a signal killed: a Python that still starts.
        killed = plan.event == "KILL" or plan.moment == "connect"
        allowed = (*allowed, *(128 - each for each in allowed if each < 0), *([0, 1] if killed else []))
    # `python -m` has imported nothing of ours yet, and its own words for an interrupt then end with 1.
    still_python = (
        plan.event.startswith("INT") and code == 1 and "runpy" in launch.text and "/ddpkit/" not in launch.text
    )
    if code not in allowed and not still_python:
        wrong.append(f"exit code {code}, not {' or '.join(str(each) for each in allowed)}:\n{launch.text}")
    # A rank's lines, and torchrun's, have a label in front. What comes before our first line of code is Python's own.
    if "\nTraceback" in f"\n{launch.text}" and ("paramiko" in launch.text or "ddpkit/cli" in launch.text):
        wrong.append(f"a traceback of the launcher:\n{launch.text}")
    if plan.event in ("cut", "host killed") and host not in launch.text:
        wrong.append(f"{host} is not named:\n{launch.text}")
    dead = plan.event in ("cut", "host killed")
    # srun kills what does not end in time, guards as well: the next start on a node sweeps the folder with their pipes.
    killed_at_once = plan.backend == "slurm" and plan.starter != "ranks"

    def spared(where: str, line: str) -> bool:
        # The session of a host that is cut off is for sshd to give up: by default in hours.
        return dead and where == host and line.startswith("sshd: ")

    limit = UNASKED if plan.event == "cut" and plan.moment != "running" else END_LIMIT
    until = time.monotonic() + limit
    while True:
        folders = () if plan.event == "host killed" or killed_at_once else launch.folders()
        left = [*launch.left(spared).items(), *folders]
        if not left:
            break
        if time.monotonic() > until:
            wrong.append(f"left behind: {left}\n{launch.text}")
            break
        time.sleep(0.02)
    for name in plan.hosts if plan.stage else ():
        if not (plan.event == "host killed" and name == host):
            found = misplaced(lab, name, ended=plan.event == "none")
            wrong += [f"left behind on the disk of {name}: {found}\n{launch.text}"] if found else []
    return Result(wrong=wrong, code=code, end=end, gone=time.time() - happened)


def _happen(lab: Lab, plan: Round, launch: Launch, folder: Path, host: str) -> tuple[tuple[int, ...], float]:
    """Make the event. Returns the exit codes that are right, and when it happened."""
    if plan.event in SIGNALS:
        name, _, twice = plan.event.partition(" ")
        try:
            launch.signal(signal.Signals[f"SIG{name}"])
            happened = time.time()
            if twice:
                time.sleep(0.1)
                launch.signal(signal.Signals[f"SIG{name}"])
        except (ProcessLookupError, AssertionError, FileNotFoundError):
            happened = time.time()  # it had ended by the first
        early = (-2,) if name == "INT" and plan.moment == "connect" else ()  # Python itself still starts
        return (*SIGNALS[plan.event], *early), happened
    happened = time.time()
    if plan.event == "cut":
        lab.cut(host)
        return (125, 123), happened
    if plan.event == "host killed":
        lab.kill(host)
        return (125, 123), happened
    if plan.event == "session killed":
        # sshd's own process for this connection, not the one that listens
        shown = processes(lab, [host])
        sessions = [pid for pid, (_, line) in shown.items() if pid not in launch.before and line.startswith("sshd: ")]
        assert sessions, f"no session on {host}: {launch.text}"
        os.kill(max(sessions), signal.SIGKILL)
        return (125,), happened
    if plan.event == "sshd restarted":
        restart_sshd(lab, host)
        (folder / "go").touch()
        # Who comes while nobody listens is refused.
        return (0, 123) if plan.moment == "connect" else (0,), happened
    if plan.event == "none":
        (folder / "go").touch()
        return (0,), happened
    rank = plan.victim % (len(plan.hosts) * plan.nproc)
    if plan.event == "rank killed":
        os.kill(launch.ranks()[rank][1], signal.SIGKILL)
        return (137,), happened
    (folder / f"exit7.{rank}").touch()
    return (7,), happened


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=EVENTS)
    parser.add_argument("--backend", choices=("ssh", "pdsh", "openssh", "slurm", "via", "via-openssh"))
    parser.add_argument("--starter", choices=("ranks", "torchrun", "preload"))
    parser.add_argument("--stage", action="store_true", help="ranks run from copies on disks of the hosts")
    choice = parser.parse_args(argv)
    undo_ignored_signals()
    folder = Path(tempfile.mkdtemp(prefix="ddpkit-rounds-"))
    lab = Lab(folder)
    results: list[tuple[Round, Result]] = []
    try:
        lab.up()
        for name in NODES if choice.stage else ():
            mount_disk(lab, name)
        for number in range(choice.rounds):
            plan = draw(random.Random(f"{choice.seed}.{number}"), choice)
            for _ in range(3):
                try:
                    result = play(lab, plan)
                except (AssertionError, LookupError, OSError, ValueError) as error:
                    result = Result(wrong=[f"{type(error).__name__}: {error}"], code=0, end=0.0, gone=0.0)
                # On a machine that is busy with something else a launch may come to its end before the event.
                if not any(TOO_BUSY in text and text.startswith("before") for text in result.wrong):
                    break
            results.append((plan, result))
            shown = (
                f"{plan.backend:11} {plan.starter:8} {'torch' if plan.torch else '-':5} {plan.event:14} {plan.moment:7}"
            )
            state = "WRONG" if result.wrong else "ok"
            print(
                f"{number:3} {shown} code {result.code:3} end {result.end:5.1f} gone {result.gone:5.1f} {state}",
                flush=True,
            )
            for text in result.wrong:
                print(f"    {text}\n    {plan}", flush=True)
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)
    _table(results)
    return 1 if any(result.wrong for _, result in results) else 0


def _table(results: list[tuple[Round, Result]]) -> None:
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for plan, result in results:
        groups.setdefault((plan.event, plan.backend, plan.starter), []).append(result)
    print(f"\n{'event':14} {'backend':8} {'starter':9} rounds survivors codes  longest end, all gone (s)")
    for (event, backend, starter), found in sorted(groups.items()):
        left = sum(any("left behind" in text for text in each.wrong) for each in found)
        codes = sum(any("left behind" not in text for text in each.wrong) for each in found)
        longest = f"{max(each.end for each in found):5.1f} {max(each.gone for each in found):5.1f}"
        print(f"{event:14} {backend:8} {starter:9} {len(found):6} {left:9} {codes:5}  {longest}")
    print(f"{len(results)} rounds, {sum(bool(result.wrong) for _, result in results)} wrong")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
