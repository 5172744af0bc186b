"""Sample of the resources of one node: processors, memory and GPUs, and the share of each rank.

The launcher calls it (`rpc.py`). A value that could not be read is None, or text that says why: never 0. Counters come
as they are, so that two samples give rates, and nothing is waited for on the node.

It runs while ranks train: it imports little and reads /proc once.
"""

from __future__ import annotations

import os
import select
import signal
import time

from ddpkit.node.calls.gpus import inside, sample_amd_gpus
from ddpkit.node.child import die_with_parent
from ddpkit.node.kernel import meminfo, read_text
from ddpkit.node.process_tree import TICKS, below, kill, processes, read_process
from ddpkit.node.rpc import host_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ddpkit.node.process_tree import Process

LIMIT = 4.0  # seconds for everything
NAMES_LIMIT = 0.5  # seconds for the names of other users, which a directory service may know
GPU = (
    "index", "uuid", "pci.bus_id", "name", "utilization.gpu", "memory.used", "memory.total", "temperature.gpu",
    "power.draw", "power.limit",
)  # fmt: skip
APPS = ("gpu_uuid", "gpu_bus_id", "pid", "used_memory")


def sample(
    ranks: dict[str, dict[str, Any]], span: float = 0.0, pss: bool = False, limit: float = LIMIT
) -> dict[str, Any]:
    """Take one sample. `ranks`: {rank: {"pid", "last_line"}}.

    `span`: seconds between two looks at the processors, for a caller that has no earlier sample; 0: one look.
    """
    until = time.monotonic() + limit
    table = processes(zombies=True)
    hung = hung_smi(table)
    gpus, users = (None, None) if hung else (_Smi("--query-gpu=", GPU), _Smi("--query-compute-apps=", APPS))
    families = {rank: [each["pid"], *below(each["pid"], table)] for rank, each in ranks.items() if each["pid"] in table}
    looks = [_look(families, table)]
    if span:
        time.sleep(span)
        known = {pid: facts for pids in families.values() for pid in pids for facts in [read_process(pid)] if facts}
        looks.append(_look(families, known))
    now = time.time()
    shown = {
        rank: {
            "pid": ranks[rank]["pid"],
            "state": table[pids[0]].state,
            "rss": sum(table[pid].memory for pid in pids),
            "pss": _pss(pids) if pss else None,
            "quiet": now - ranks[rank]["last_line"] if ranks[rank].get("last_line") else None,
            "tasks": len(pids),
        }
        for rank, pids in families.items()
    }
    rows = hung if gpus is None else gpus.answer(until)
    apps = None if users is None else users.answer(until)
    asked = max((each.took for each in (gpus, users) if each is not None), default=0.0)
    if rows is None or "No devices" in rows:
        rows, apps = sample_amd_gpus() or (rows, apps)
    return {
        "host": host_name(),
        "t": now,
        "cpus": os.cpu_count(),
        "load": _numbers("/proc/loadavg", 3),
        "memory": _memory(),
        "shm": _shm(),
        "looks": looks,
        "ranks": shown,
        "gpus": rows,
        "apps": _apps(apps, families, table) if isinstance(apps, list) else apps,
        "asked": asked,  # seconds for which nvidia-smi held the driver
    }


def _numbers(path: str, most: int) -> list[float]:
    try:
        return [float(word) for word in read_text(path).split()[:most]]
    except ValueError:
        return []


def _look(families: dict[str, list[int]], table: dict[int, Any]) -> dict[str, Any]:
    """Counters: the machine's processor seconds (busy, all), and those of each rank with all below it."""
    words = read_text("/proc/stat").split("\n", 1)[0].split()[1:9]
    ticks = [int(word) for word in words]
    # user nice system idle iowait irq softirq steal; guest time is in user already
    busy = sum(ticks) - sum(ticks[3:5])
    return {
        "m": time.monotonic(),
        "busy": busy / TICKS,
        "all": sum(ticks) / TICKS,
        "ranks": {
            rank: round(sum(table[pid].seconds for pid in pids if pid in table), 2)
            for rank, pids in families.items()
            if pids[0] in table
        },
    }


def _pss(pids: list[int]) -> int | None:
    """Bytes, those shared by several processes divided among them; None where the kernel says it of none."""
    total = None
    for pid in pids:
        for line in read_text("/proc/%d/smaps_rollup" % pid).splitlines():
            if line.startswith("Pss:"):
                total = (total or 0) + int(line.split()[1]) * 1024
    return total


# ---- memory


def _memory() -> dict[str, int] | None:
    sizes = meminfo()
    if "MemTotal" not in sizes or "MemAvailable" not in sizes:
        return None
    return {"total": sizes["MemTotal"], "used": sizes["MemTotal"] - sizes["MemAvailable"]}


def _shm() -> dict[str, int] | None:
    try:
        stat = os.statvfs("/dev/shm")
    except OSError:
        return None
    total = stat.f_blocks * stat.f_frsize
    return {"total": total, "used": total - stat.f_bfree * stat.f_frsize}


# ---- GPUs


class _Smi:
    """One nvidia-smi, while it runs. It is not waited for beyond the limit: with a driver that hangs it never ends."""

    def __init__(self, query: str, names: tuple[str, ...]) -> None:
        self.pid, self.took = 0, 0.0
        self.names, self._began = names, time.monotonic()
        program = _find_program("nvidia-smi")
        if not program:
            return
        argv = [program, query + ",".join(names), "--format=csv,noheader,nounits"]
        self.fd, write = os.pipe()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                die_with_parent(parent, signal.SIGKILL)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(write, 1)
                os.dup2(write, 2)
                signal.alarm(0)
                os.execv(program, argv)
            finally:
                os._exit(126)
        os.close(write)

    def answer(self, until: float) -> list[list[str]] | str | None:
        """Rows of words; text: why there are none; None: there is no nvidia-smi."""
        if not self.pid:
            return None
        output, ended, poll = b"", False, select.poll()
        poll.register(self.fd, select.POLLIN)
        while not ended and poll.poll(1000 * max(0.0, until - time.monotonic())):
            data = os.read(self.fd, 1 << 16)
            output, ended = output + data, not data
        os.close(self.fd)
        self.took = time.monotonic() - self._began
        status = None
        while status is None:
            done, ended_with = os.waitpid(self.pid, os.WNOHANG)
            if done:
                status = ended_with
            elif time.monotonic() >= until:
                kill(self.pid, signal.SIGKILL)
                return "nvidia-smi does not answer within %g s: it hangs, or persistence mode is off" % LIMIT
            else:
                time.sleep(0.002)
        text = output.decode("utf-8", "replace").strip()
        if status:
            return text.splitlines()[0] if text else "nvidia-smi failed (wait status %d)" % status
        return [row for row in (_words(line) for line in text.splitlines()) if len(row) == len(self.names)]


def _words(line: str) -> list[str]:
    return [word.strip() for word in line.split(",")]


def _find_program(name: str) -> str:
    """Where a program is; empty: nowhere. (`shutil` costs more to import than all of this.)"""
    for folder in (os.environ.get("PATH") or os.defpath).split(os.pathsep):
        if os.access(folder + "/" + name, os.X_OK):
            return folder + "/" + name
    return ""


def hung_smi(table: dict[int, Process]) -> str | None:
    """Why no other nvidia-smi is to be started: one that nobody waits for any more hangs in the driver."""
    up = (_numbers("/proc/uptime", 1) or [0.0])[0]
    for pid, process in table.items():
        late = up - process.started
        in_driver = process.name == "nvidia-smi" and process.state == "D"
        if in_driver and process.parent in (1, os.getppid()) and late > LIMIT:
            return "nvidia-smi does not answer: process %d hangs in the driver for %.0f s" % (pid, late)
    return None


def _apps(rows: list[list[str]], families: dict[str, list[int]], table: dict[int, Any]) -> list[dict[str, Any]]:
    """Who uses the GPUs: the rank, or the user.

    `ours` is None where it cannot be known: a container has process numbers of its own, and the driver has others.
    """
    ranks = {pid: rank for rank, pids in families.items() for pid in pids}
    contained, processes = inside(), []
    for uuid, bus, word, memory in rows:
        if word.isdecimal():
            pid = int(word)
            ours = True if pid in ranks else None if contained else False
            name = table[pid].name if pid in table and not (contained and pid not in ranks) else ""
            one: dict[str, Any] = {"uuid": uuid, "bus": bus, "pid": pid, "memory": memory, "rank": ranks.get(pid)}
            processes.append({**one, "ours": ours, "name": name, "user": ""})
    users = _users([each["pid"] for each in processes if each["ours"] is False])
    for each in processes:
        each["user"] = users.get(each["pid"], "")
    return processes


def _users(pids: list[int]) -> dict[int, str]:
    """Whose processes these are. A directory service that does not answer leaves numbers."""
    uids = {}
    for pid in pids:
        try:
            uids[pid] = os.stat("/proc/%d" % pid).st_uid
        except OSError:
            continue
    names: dict[int, str] = {}
    if uids:
        import pwd
        import threading

        def ask() -> None:
            for uid in set(uids.values()):
                try:
                    names[uid] = pwd.getpwuid(uid).pw_name
                except KeyError:
                    continue

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(NAMES_LIMIT)
    return {pid: names.get(uid, "uid %d" % uid) for pid, uid in uids.items()}
