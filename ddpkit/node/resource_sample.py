"""Takes a sample of one node: processors, memory and GPUs, and what each rank of a run uses of them.

The supervisor runs this in a process of its own when it is asked to; under SLURM srun starts it on each node, where it
takes a sample for each line that it reads. What could not be looked at is None, or text that says why: never 0.
Counters come as they are, so that whoever has two samples has rates, and none is waited for on the node.

Standard library only, Python 3.8 and later. It runs while ranks train: it imports little and reads /proc once.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT = 4.0  # seconds for everything
NAMES_LIMIT = 0.5  # seconds for the names of other users, which a directory service may know
PR_SET_PDEATHSIG = 1
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FIRST_SPACE = "pid:[4026531836]"  # the process namespace of the machine itself (PROC_PID_INIT_INO)
GPU = (
    "index", "uuid", "pci.bus_id", "name", "utilization.gpu", "memory.used", "memory.total", "temperature.gpu",
    "power.draw", "power.limit",
)  # fmt: skip
APPS = ("gpu_uuid", "gpu_bus_id", "pid", "used_memory")


def sample(asked: dict[str, Any]) -> dict[str, Any]:
    """One sample for {"ranks": {rank: pid}, "out": {rank: time}, "span", "pss", "limit"}.

    `span`: seconds between two looks at the processors, for whoever has no earlier sample; 0: one look.
    """
    until = time.monotonic() + asked.get("limit", LIMIT)
    table = processes()
    hung = _hung(table)
    gpus, users = (None, None) if hung else (_Smi("--query-gpu=", GPU), _Smi("--query-compute-apps=", APPS))
    families = {rank: family(pid, table) for rank, pid in asked["ranks"].items() if pid in table}
    looks = [_look(families, table)]
    if asked.get("span"):
        time.sleep(asked["span"])
        known = {pid: facts for pids in families.values() for pid in pids for facts in [_process(pid)] if facts}
        looks.append(_look(families, known))
    out = asked.get("out") or {}
    now = time.time()
    ranks = {
        rank: {
            "pid": asked["ranks"][rank],
            "state": table[pids[0]][1],
            "rss": sum(table[pid][3] for pid in pids),
            "pss": _pss(pids) if asked.get("pss") else None,
            "quiet": now - out[rank] if rank in out else None,
            "tasks": len(pids),
        }
        for rank, pids in families.items()
    }
    found: dict[str, Any] = {
        "host": here(),
        "t": now,
        "cpus": os.cpu_count(),
        "load": _numbers("/proc/loadavg", 3),
        "memory": _memory(),
        "shm": _shm(),
        "looks": looks,
        "ranks": ranks,
        "gpus": hung if gpus is None else gpus.answer(until),
        "apps": None,
    }
    if users is not None:
        rows = users.answer(until)
        found["apps"] = _apps(rows, families, table) if isinstance(rows, list) else rows
    return found


def here() -> str:
    """This host, as SLURM calls it where it is SLURM that asks."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def _text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _numbers(path: str, most: int) -> list[float]:
    try:
        return [float(word) for word in _text(path).split()[:most]]
    except ValueError:
        return []


# ---- processes


def _process(pid: int) -> tuple[int, str, float, int, str, float] | None:
    """Of a living process: parent, state, processor seconds, bytes, name, and when it started (seconds after boot)."""
    try:
        fd = os.open("/proc/%d/stat" % pid, os.O_RDONLY)  # half the time of `open`: machines have thousands of them
        try:
            before, _, after = os.read(fd, 4096).rpartition(b")")
        finally:
            os.close(fd)
    except OSError:
        return None
    words = after.split()
    if len(words) < 22 or words[0] in (b"X", b"x"):
        return None
    # utime, stime, and those of the children that were waited for
    ticks = sum(int(word) for word in words[11:15])
    name = before.partition(b"(")[2].decode("utf-8", "replace")
    return int(words[1]), words[0].decode(), ticks / TICKS, int(words[21]) * PAGE, name, int(words[19]) / TICKS


def processes() -> dict[int, tuple[int, str, float, int, str, float]]:
    """Every process of this machine."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            facts = _process(int(name))
            if facts is not None:
                found[int(name)] = facts
    return found


def family(pid: int, table: dict[int, tuple[int, str, float, int, str, float]]) -> list[int]:
    """A process and all below it; itself first."""
    children: dict[int, list[int]] = {}
    for each, facts in table.items():
        children.setdefault(facts[0], []).append(each)
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def _look(families: dict[str, list[int]], table: dict[int, Any]) -> dict[str, Any]:
    """Counters: the machine's processor seconds (busy, all), and those of each rank with all below it."""
    words = _text("/proc/stat").split("\n", 1)[0].split()[1:9]
    ticks = [int(word) for word in words]
    # user nice system idle iowait irq softirq steal; guest time is in user already
    busy = sum(ticks) - sum(ticks[3:5])
    return {
        "m": time.monotonic(),
        "busy": busy / TICKS,
        "all": sum(ticks) / TICKS,
        "ranks": {
            rank: round(sum(table[pid][2] for pid in pids if pid in table), 2)
            for rank, pids in families.items()
            if pids[0] in table
        },
    }


def _pss(pids: list[int]) -> int | None:
    """Bytes, those shared by several processes divided among them; None where the kernel says it of none."""
    found = None
    for pid in pids:
        for line in _text("/proc/%d/smaps_rollup" % pid).splitlines():
            if line.startswith("Pss:"):
                found = (found or 0) + int(line.split()[1]) * 1024
    return found


# ---- memory


def _memory() -> dict[str, int] | None:
    words = {line.split(":")[0]: line.split()[1] for line in _text("/proc/meminfo").splitlines() if ":" in line}
    if "MemTotal" not in words or "MemAvailable" not in words:
        return None
    total = int(words["MemTotal"]) * 1024
    return {"total": total, "used": total - int(words["MemAvailable"]) * 1024}


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
        self.pid = 0
        self.names = names
        program = _found("nvidia-smi")
        if not program:
            return
        argv = [program, query + ",".join(names), "--format=csv,noheader,nounits"]
        self.fd, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
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
        said, ended = b"", False
        while not ended and select.select([self.fd], [], [], max(0.0, until - time.monotonic()))[0]:
            data = os.read(self.fd, 1 << 16)
            said, ended = said + data, not data
        os.close(self.fd)
        status = None
        while status is None:
            done, found = os.waitpid(self.pid, os.WNOHANG)
            if done:
                status = found
            elif time.monotonic() >= until:
                os.kill(self.pid, signal.SIGKILL)
                return "nvidia-smi does not answer"
            else:
                time.sleep(0.002)
        text = said.decode("utf-8", "replace").strip()
        if status:
            return text.splitlines()[0] if text else "nvidia-smi failed (wait status %d)" % status
        return [row for row in (_words(line) for line in text.splitlines()) if len(row) == len(self.names)]


def _words(line: str) -> list[str]:
    return [word.strip() for word in line.split(",")]


def _found(name: str) -> str:
    """Where a program is; empty: nowhere. (`shutil` costs more to import than all of this.)"""
    for folder in (os.environ.get("PATH") or os.defpath).split(os.pathsep):
        if os.access(folder + "/" + name, os.X_OK):
            return folder + "/" + name
    return ""


def _hung(table: dict[int, tuple[int, str, float, int, str, float]]) -> str | None:
    """Why no other nvidia-smi is to be started: one that nobody waits for any more hangs in the driver."""
    up = (_numbers("/proc/uptime", 1) or [0.0])[0]
    for pid, (parent, state, _, _, name, started) in table.items():
        if name == "nvidia-smi" and state == "D" and parent in (1, os.getppid()) and up - started > LIMIT:
            return "nvidia-smi does not answer: process %d hangs in the driver for %.0f s" % (pid, up - started)
    return None


def _apps(rows: list[list[str]], families: dict[str, list[int]], table: dict[int, Any]) -> list[dict[str, Any]]:
    """Who uses the GPUs: the rank, or the user.

    `ours` is None where it cannot be known: a container has process numbers of its own, and the driver has others.
    """
    ranks = {pid: rank for rank, pids in families.items() for pid in pids}
    try:
        inside = os.readlink("/proc/self/ns/pid") != FIRST_SPACE
    except OSError:
        inside = False
    found = []
    for uuid, bus, word, memory in rows:
        if word.isdigit():
            pid = int(word)
            ours = True if pid in ranks else None if inside else False
            name = table[pid][4] if pid in table and not (inside and pid not in ranks) else ""
            one: dict[str, Any] = {"uuid": uuid, "bus": bus, "pid": pid, "memory": memory, "rank": ranks.get(pid)}
            found.append({**one, "ours": ours, "name": name, "user": ""})
    users = _users([each["pid"] for each in found if each["ours"] is False])
    for each in found:
        each["user"] = users.get(each["pid"], "")
    return found


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


# ---- how it is asked


def main(words: str) -> None:
    """Print one sample as one line."""
    asked = json.loads(words)
    signal.alarm(int(asked["limit"] + asked.get("span", 0)) + 2)  # whatever hangs, it does not hang for ever
    os.write(1, json.dumps(sample(asked)).encode() + b"\n")


def main_of_step() -> None:
    """The same as a task of a step, for each line {"id", "ranks": {host: ...}, "idle"}, until there are no more.

    Each answer is `ID+ PART` ... `ID. PART`: srun cuts lines after 1,024 bytes (Slurm 22.05).
    """
    import zlib
    from base64 import b64encode

    held = b""
    while True:
        while b"\n" not in held:
            data = os.read(0, 1 << 16)
            if not data:
                os._exit(0)
            held += data
        line, _, held = held.partition(b"\n")
        asked = json.loads(line)
        signal.alarm(int(asked["idle"]) + 1)  # who asks is gone, and the network did not say so
        found = sample({**asked, "ranks": asked["ranks"].get(here(), {})})
        text = b64encode(zlib.compress(json.dumps(found).encode())).decode()
        for start in range(0, len(text), 900):
            more = "+" if start + 900 < len(text) else "."
            os.write(1, ("%d%s %s\n" % (asked["id"], more, text[start : start + 900])).encode())
