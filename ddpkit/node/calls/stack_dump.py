"""Stacks of the ranks of one node, with their state in the kernel, their Flight Recorder and NCCL RAS.

The launcher calls it (`rpc.py`). A rank that does not answer is reported, and costs the others nothing. Its sources, in
the order of what they tell and cost:

1. /proc: state, where in the kernel; also of a process that is stopped, or is no Python.
2. The thread of `rank_responder.py`, if the rank has one. It disturbs nobody.
3. The signal for faulthandler, if the rank waits for it (its file in memory is there, and /proc says that the signal is
   caught): C code, which answers also where the interpreter lock is held. It interrupts the main thread for a moment.
4. py-spy, where it is installed and the kernel lets it look: for a stopped process, or one without our handler.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

from ddpkit.node.calls.hardware import Look
from ddpkit.node.calls.resource_sample import hung_smi
from ddpkit.node.kernel import list_names, open_files, read_text, tcp_sockets
from ddpkit.node.process_tree import below, processes, read_process
from ddpkit.node.rpc import host_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Sequence

LIMIT = 6.0  # seconds for everything but RAS
PATIENCE = 1.0  # seconds for the thread to begin; then faulthandler is asked
RAS_ADDR = "localhost:28028"  # NCCL 2.24 and later, unless NCCL_RAS_ADDR says otherwise
RAS_LIMIT = 15.0  # seconds; NCCL waits twice for its peers, and 5 s longer for those that wait for others
RAS_PEERS = 2  # seconds that NCCL waits for a peer
RAS_TRIES = 16  # connections, until a process of these ranks answers
JUST_NOW = 5.0  # seconds in which a collective begins or ends in a run that does not hang
STILL = 0.06  # seconds without a new byte after which faulthandler has said everything
LOOK_AGAIN = 0.02
THREAD = b"ddpkit-dump"
NOT_OBSERVED = "for these start it with --observe stacks"
MEMORY = re.compile(r"/memfd:ddpkit-(\d+)-(\d+) ")
MOST_FRAMES = 100  # that faulthandler writes of a thread
FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
HEAD = re.compile(r"(Current thread|Thread) (0x[0-9a-f]+)(?: \[(.*)\])? \(most recent call first\):")


def collect(
    ranks: dict[str, dict[str, Any]], limit: float = LIMIT, asks: Sequence[int] | None = None
) -> dict[str, Any]:
    """Everything about these ranks ({rank: {"pid"}}) of this machine, in `limit` seconds, the stacks in LIMIT.

    Each rank and NCCL RAS are asked in threads of their own: one that does not answer in time leaves a gap.

    asks: ranks whose hosts ask NCCL RAS; None: all do.
    """
    began = time.monotonic()
    until, end = began + min(limit, LIMIT), began + min(limit, RAS_LIMIT)
    table = processes()
    look = Look()
    facts: dict[str, Any] = {}
    asked = []
    for rank, process in ranks.items():
        one = _AskedRank(process["pid"])
        facts[rank] = one.facts
        asked.append(threading.Thread(target=one.ask, args=(until,), daemon=True))
    ras: list[Any] = []
    asking_ras = threading.Thread(target=lambda: ras.append(_ras(ranks, end)), daemon=True)
    asks_ras = asks is None or any(str(rank) in ranks for rank in asks)
    for thread in [*asked, *([asking_ras] if asks_ras else [])]:
        thread.start()
    for thread in asked:
        thread.join(max(0.0, until + 0.5 - time.monotonic()))
    now = time.time()
    since = min((table[each["pid"]].started for each in ranks.values() if each["pid"] in table), default=0.0)
    hung = hung_smi(table)
    hardware = look.finish(end - 0.5, since, gpus=not hung and not moves(facts, now))
    if asks_ras:
        asking_ras.join(max(0.0, end + 0.5 - time.monotonic()))
    return {
        "host": host_name(),
        "t": now,
        "ranks": facts,
        "ras": ras[0] if ras else None,
        "hardware": {**hardware, "why": hung} if hung else hardware,
    }


def moves(facts: Mapping[str, Mapping[str, Any]], now: float) -> bool:
    """Whether a rank began or ended a collective a moment ago. Then nvidia-smi does not disturb it."""
    last = [(each.get("fr") or {}).get("last") for each in facts.values()]
    return any(now - time < JUST_NOW for time in last if time)


def ending(ranks: dict[str, dict[str, Any]], only: list[int], limit: float = LIMIT) -> list[int]:
    """Those of the ranks `only` whose Python has left the script: an exception ended it, and its teardown takes long.

    A rank whose main thread runs is not asked, and not returned: it is still in its script, or will have ended soon.
    """
    until = time.monotonic() + limit - 0.5
    return [rank for rank in only if str(rank) in ranks and _is_ending(ranks[str(rank)]["pid"], until)]


def _is_ending(pid: int, until: float) -> bool:
    """Tell whether Python has left the script of a rank. The rank is asked only where its main thread stands still."""
    found = _find_answer_file([pid, *below(pid, processes())]) if sys.platform == "linux" else None
    if found is None:
        return False
    python, _, number = found
    if not caught(python, number):
        return True  # Python has ended, and C++ has not
    if not _blocked(python):
        return False
    one = _AskedRank(pid)
    one.ask(until)
    threads = one.facts["threads"]
    if not threads:
        return False
    frames = next((thread["frames"] for thread in threads if thread["main"]), None)
    # Without a frame of the script, or none at all: it waits for threads, or calls what was registered for the end.
    return frames is None or (len(frames) < MOST_FRAMES and frames[-1][2] not in ("<module>", "_run_module_as_main"))


def _blocked(pid: int) -> bool:
    """Whether the main thread has not run for a moment."""

    def activity() -> str:
        text = read_text("/proc/%d/task/%d/status" % (pid, pid))
        return text[text.find("voluntary_ctxt_switches") :] if re.search(r"^State:\s*[SD]", text, re.M) else ""

    before = activity()
    time.sleep(3 * LOOK_AGAIN)
    return bool(before) and activity() == before


class _AskedRank:
    """One rank, while it is asked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.facts: dict[str, Any] = {"pid": pid, "state": "", "threads": None, "how": "", "why": "", "fr": None}

    def ask(self, until: float) -> None:
        """Fill `facts`: from /proc, from the process itself, else from py-spy."""
        facts = self.facts
        if sys.platform != "linux":
            facts["why"] = "stacks are available only on Linux (here: sudo py-spy dump --pid %d)" % self.pid
            return
        try:
            facts.update(kernel(self.pid))
            if not facts["state"] or facts["state"] in "ZX":
                facts["why"] = "it has ended"
                return
            found = _find_answer_file([self.pid, *below(self.pid, processes())])
            if facts["state"] in "Tt":
                facts["why"] = "it is stopped" if facts["state"] == "T" else "a debugger has stopped it"
            elif found is None:
                facts["why"] = "it is not a Python process with ddpkit's hook (DDPKIT_DUMP=0, -I, -E, another program)"
            else:
                facts["switches"] = switches(found[0])
                self.listen(*found, until=until)
            if facts["threads"] is None:
                self.spy(until)
        except Exception as problem:
            facts["why"] = "%s: %s" % (type(problem).__name__, problem)

    def listen(self, pid: int, path: str, number: int, *, until: float) -> None:
        """Ask the process itself, whose answer comes in its file in memory: its own thread first, if it has one.

        faulthandler is asked where there is no such thread, or where the thread has not begun after PATIENCE.
        """
        self.facts["pid"] = pid
        with open(path, "r+b", buffering=0) as file:
            if not _locked(file, until):
                self.facts["why"] = "another request to it is in progress"
                return
            file.truncate(0)
            thread = answering(pid)
            if thread is None and not _observed(pid):
                self.facts["fr"] = {"entries": [], "total": 0, "status": {}, "off": NOT_OBSERVED}
            began = time.monotonic()
            faulthandler_asked = thread is None or not send(pid, thread, number)
            if faulthandler_asked and not self.ask_faulthandler(pid, path, number):
                return
            data, grew_at, done = b"", began, False
            while time.monotonic() < until:
                time.sleep(LOOK_AGAIN)
                now = time.monotonic()
                new = _content(file)
                if len(new) != len(data):
                    data, grew_at = new, now
                done = b'{"ddpkit": "end"' in data and data.endswith(b"\n")
                still = data and now - grew_at > STILL  # faulthandler tells no end
                if done or (thread is None and still):
                    break
                if not faulthandler_asked and now - began > PATIENCE and not data:
                    faulthandler_asked = True
                    if not self.ask_faulthandler(pid, path, number):
                        break
                if thread is None and now - began > 2 * PATIENCE:
                    break
            self.read(data.decode("utf-8", "replace"))
            if not data and not self.facts["why"]:
                self.facts["why"] = "it did not answer"

    def ask_faulthandler(self, pid: int, path: str, number: int) -> bool:
        """Send the signal to the main thread. Never where it is not waited for: it would end the process."""
        if not caught(pid, number) or not os.path.exists(path):
            self.facts["why"] = "it has replaced the handler of ddpkit's signal"
            return False
        return send(pid, pid, number)

    def read(self, text: str) -> None:
        """Take the answer: lines of the rank's thread, by their kinds, and the stacks that faulthandler wrote."""
        rest = []
        for line in text.split("\n"):
            if line.startswith('{"ddpkit": '):
                try:
                    line_facts = json.loads(line)
                except ValueError:
                    continue
                self.facts[line_facts["ddpkit"]] = line_facts["value"]
                if line_facts["error"]:
                    self.facts["why"] = "%s: %s" % (line_facts["ddpkit"], line_facts["error"])
            else:
                rest.append(line)
        self.facts.pop("end", None)
        self.facts.update(reduce_facts(self.facts))
        if self.facts["threads"] is not None:
            self.facts["how"] = "thread"
        else:
            self.facts["threads"] = stacks("\n".join(rest)) or None
            self.facts["how"] = "faulthandler" if self.facts["threads"] else ""

    def spy(self, until: float) -> None:
        """Look with py-spy, where it is installed. What it could not do is added to `why`."""
        program = py_spy(self.pid)
        if program is None:
            if self.facts["state"] in "Tt":
                self.facts["why"] += "; py-spy could print its stack, but is not installed"
            return
        argv = [program, "dump", "--nonblocking", "--json", "--pid", str(self.pid)]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=max(0.1, until - time.monotonic()),
                check=False,
            )
            self.facts["threads"] = spied(json.loads(done.stdout), self.pid)
            self.facts["how"] = "py-spy"
        except ValueError:
            words = " ".join(done.stderr.decode("utf-8", "replace").split())[:300]
            self.facts["why"] += "; py-spy: " + (words or "exit code %d" % done.returncode)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.facts["why"] += "; py-spy: %s" % error


# ---- the kernel


def kernel(pid: int) -> dict[str, Any]:
    """What /proc says of a process: letter, where in the kernel its main thread waits, processor seconds, name."""
    process = read_process(pid)
    if process is None:
        return {"state": ""}
    facts = {
        "state": process.state,
        "name": process.name,
        "cpu": process.seconds,
        "wchan": read_text("/proc/%d/wchan" % pid),
    }
    threads = [read_text("/proc/%d/task/%s/stat" % (pid, task)) for task in list_names("/proc/%d/task" % pid)]
    # One thread that runs means that the process is busy, whatever the main thread waits for.
    facts["running"] = sum(text.rpartition(")")[2].split()[:1] == ["R"] for text in threads)
    return facts


def switches(pid: int) -> int | None:
    """How often the main thread of a process has waited for something."""
    words = re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", read_text("/proc/%d/task/%d/status" % (pid, pid)), re.M)
    return int(words[1]) if words else None


def _find_answer_file(pids: list[int]) -> tuple[int, str, int] | None:
    """The first of these processes that has a file of `rank_hook.py` in its own name: process, path, signal."""
    for pid in pids:
        for fd, target in sorted(open_files(pid).items(), reverse=True):
            match = MEMORY.match(target)
            # In a process namespace of its own it has another number there; then it is the only one that says so.
            if match and (int(match[1]) == pid or int(match[1]) in _namespace_numbers(pid)):
                return pid, "/proc/%d/fd/%d" % (pid, fd), int(match[2])
    return None


def _namespace_numbers(pid: int) -> list[int]:
    """The numbers of a process in the process namespaces that it is in."""
    words = re.search(r"^NSpid:\s*(.*)$", read_text("/proc/%d/status" % pid), re.MULTILINE)
    return [int(word) for word in words[1].split()] if words else []


def _observed(pid: int) -> bool:
    """Whether a rank was started with `--observe stacks`; then it has a thread that answers, once torch has a group."""
    match = re.search(r"(?:^|\0)DDPKIT_OBSERVE=([^\0]*)", read_text("/proc/%d/environ" % pid))
    return bool(match) and "stacks" in match[1]  # type: ignore[index]


def answering(pid: int) -> int | None:
    """The thread of `rank_responder.py`."""
    for task in list_names("/proc/%d/task" % pid):
        if read_text("/proc/%d/task/%s/comm" % (pid, task)).encode() == THREAD:
            return int(task)
    return None


def ask_thread(pid: int, question: bytes, until: float) -> tuple[dict[str, Any], str]:
    """Ask the thread of a rank, or of the first process below it that has one: see `rank_responder.py`.

    Returns what it said by its kind, and why there is nothing.
    """
    found = _find_answer_file([pid, *below(pid, processes())]) if sys.platform == "linux" else None
    python, path, number = found or (0, "", 0)
    thread = answering(python) if found else None
    if thread is None:
        return {}, "it has no process group of torch yet" if found and _observed(python) else "not observed"
    with open(path, "r+b", buffering=0) as file:
        if not _locked(file, until):
            return {}, "another request to it is in progress"
        file.truncate(0)
        file.write(question + b"\n")
        if not send(python, thread, number):
            return {}, "it has ended"
        while time.monotonic() < until:
            time.sleep(LOOK_AGAIN / 2)
            data = _content(file)
            if b'{"ddpkit": "end"' in data and data.endswith(b"\n"):
                lines = [json.loads(line) for line in data.splitlines() if line.startswith(b'{"ddpkit": ')]
                problem = next((str(line["error"]) for line in lines if line["error"]), "")
                return {line["ddpkit"]: line["value"] for line in lines}, problem
        file.truncate(0)  # it must not take the question later
    return {}, "it did not answer"


def caught(pid: int, number: int) -> bool:
    words = re.search(r"^SigCgt:\s*([0-9a-f]+)$", read_text("/proc/%d/status" % pid), re.MULTILINE)
    return bool(words) and bool(int(words[1], 16) >> (number - 1) & 1)  # type: ignore[index]


def send(pid: int, task: int, number: int) -> bool:
    """A signal to one thread, and to nothing that got its number meanwhile in another process."""
    numbers = {"x86_64": 234, "aarch64": 131, "ppc64le": 250, "riscv64": 131, "s390x": 241}
    call = numbers.get(os.uname().machine)
    if call is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.syscall(call, pid, task, number) == 0)  # tgkill


def _locked(file: Any, until: float) -> bool:
    """Lock the file of an answer, for one question at a time. False: others ask, and too little time would be left."""
    import fcntl

    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until - 2 * PATIENCE:
                return False
            time.sleep(LOOK_AGAIN)
        else:
            return True


def _content(file: Any) -> bytes:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0) if size else b""


# ---- stacks


def stacks(text: str) -> list[dict[str, Any]]:
    """What faulthandler writes, as `rank_responder.py` gives it. The current thread is the one that got the signal."""
    threads: list[dict[str, Any]] = []
    for line in text.splitlines():
        head, frame = HEAD.fullmatch(line), FRAME.fullmatch(line)
        if head:
            threads.append({"name": head[3] or head[2], "main": head[1] == "Current thread", "frames": []})
        elif frame and threads:
            threads[-1]["frames"].append([frame[1], int(frame[2]) if frame[2].isdecimal() else 0, frame[3]])
    if threads and not any(thread["main"] for thread in threads):
        threads[-1]["main"] = True  # the interpreter lock was held elsewhere; it lists the oldest thread last
    return [thread for thread in threads if thread["frames"]]


def spied(threads: list[dict[str, Any]], pid: int) -> list[dict[str, Any]]:
    """What `py-spy dump --json` prints, as `rank_responder.py` gives it."""
    return [
        {
            "name": thread.get("thread_name") or "?",
            "main": thread.get("thread_name") == "MainThread" or thread.get("os_thread_id") == pid,
            "frames": [[frame["filename"], frame["line"], frame["name"]] for frame in thread["frames"]],
        }
        for thread in threads
    ]


def py_spy(pid: int) -> str | None:
    """Beside the rank's own Python, or on this process's PATH."""
    first = read_text("/proc/%d/cmdline" % pid).split("\0")[0]
    return shutil.which("py-spy", path=os.path.dirname(first)) if "/" in first else shutil.which("py-spy")


# ---- NCCL RAS


def _ras(ranks: dict[str, dict[str, Any]], until: float) -> dict[str, Any] | None:
    """What NCCL's own watch of all its ranks says; None where nothing of these ranks listens."""
    address = RAS_ADDR
    for process in ranks.values():
        try:
            with open("/proc/%d/environ" % process["pid"], "rb") as file:
                for entry in file.read().split(b"\0"):
                    if entry.startswith(b"NCCL_RAS_ADDR="):
                        address = entry.partition(b"=")[2].decode()
        except (OSError, UnicodeDecodeError):
            continue
    pids = [process["pid"] for process in ranks.values()]
    table = processes()
    return ask_ras(address, until, [*pids, *(each for pid in pids for each in below(pid, table))])


def ask_ras(address: str, until: float, pids: list[int]) -> dict[str, Any] | None:
    """Ask NCCL RAS at HOST:PORT for its verbose status; None where none of these processes answers.

    Processes of all jobs of a host listen at one port (SO_REUSEPORT), and the kernel chooses one for each connection.
    One that is stopped takes a connection as well, and does not answer.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return None
    for _ in range(RAS_TRIES):
        try:
            with socket.create_connection((host.strip("[]") or "localhost", int(port)), 1.0) as connection:
                # For ranks that do not answer NCCL itself waits 5 s and more, unless the question has a shorter time.
                # NCCL 2.28 and later can answer in JSON; older ones answer that they do not know the command.
                said = [_reply(connection, command) for command in (b"TIMEOUT %d\n" % RAS_PEERS, b"SET FORMAT json\n")]
                if all(said) and _serves(connection, pids):
                    connection.sendall(b"VERBOSE STATUS\n")
                    return {"address": address, "text": _received(connection, until).decode("utf-8", "replace")}
        except socket.timeout:
            pass
        except OSError:
            return None
        if time.monotonic() > until:
            break
    return None


def _reply(connection: socket.socket, command: bytes) -> bytes:
    connection.settimeout(RAS_PEERS)
    connection.sendall(command)
    return connection.recv(1 << 16)


def _received(connection: socket.socket, until: float) -> bytes:
    """Read until the end, or until the time is over, which is said at the end of the text."""
    text = b""
    while time.monotonic() < until:
        connection.settimeout(max(0.1, until - time.monotonic()))
        try:
            data = connection.recv(1 << 16)
        except OSError:
            break
        if not data:
            return text
        text += data
    return text + b"\n(NCCL RAS had printed no more when the time was over)\n"


def _serves(connection: socket.socket, pids: list[int]) -> bool:
    """Whether one of these processes has the other end of a connection on this machine; true where nobody knows."""
    here, there = connection.getsockname()[1], connection.getpeername()[1]
    for local, remote, _, link in tcp_sockets():
        if (local, remote) == (there, here):
            return any(link in open_files(pid).values() for pid in pids)
    return True


# ---- the Flight Recorder, reduced to what tells a hang: the answers of thousands of ranks stay small


def reduce_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rank's facts with its record reduced, and with ranks of groups as text."""
    groups = facts.get("groups") or {}
    short = {name: {**group, "ranks": ranges(group["ranks"])} for name, group in groups.items()}
    record = facts.get("fr")
    return {**facts, "fr": reduced(record, groups) if record else record, "groups": short}


def reduced(record: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"groups", "incomparable", "last"} in place of a record's entries.

    `groups`: by name and backend (`0:gloo`; each counts by itself), with `begun` (number of the last collective),
    `open` ([operation, number, sizes, when it began, whether a GPU has started it] of the first that has not ended, or
    null) and `ops` (JSON of the numbers, with operation and sizes, in one text: equal ones are read once).
    `incomparable`: groups whose numbers count send and recv, which not all ranks call. `last`: when a collective began
    or ended.
    """
    names = [name for name, group in groups.items() if "nccl" in str(group.get("backend"))]
    entries = [_entry(entry, names) for entry in record.get("entries") or []]
    times = [entry.get(key) for entry in entries for key in ("time_created_ns", "time_discovered_completed_ns")]
    odd = {_key(entry) for entry in entries if entry.get("is_p2p") and entry.get("shared_numbers")}
    return {
        **{name: value for name, value in record.items() if name != "entries"},
        "groups": _groups(entries),
        "incomparable": sorted(odd),
        "last": max((time / 1e9 for time in times if time), default=None),
    }


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,8` for [0, 1, 2, 3, 8]."""
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1][1:] = [number]
        else:
            pieces.append([number])
    return ",".join("-".join(map(str, piece)) for piece in pieces)


def _entry(entry: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return an entry in the form of torch 2.4 and later. `names`: the rank's groups of NCCL, in their order.

    The form of 2.2 and 2.3 numbers the groups of each rank, and has one number for collectives and for send and recv
    (`torch/csrc/distributed/c10d/TraceUtils.h`). The time of 2.2 is in microseconds.
    """
    if "seq_id" not in entry:
        return entry
    group = entry.get("pg_id", 0)
    return {
        "collective_seq_id": entry["seq_id"],
        "process_group": [names[group] if group < len(names) else str(group)],
        "is_p2p": _op(entry).startswith(("send", "recv")),
        "shared_numbers": True,
        "time_created_ns": entry.get("time_created_us", 0) * 1000,
        **entry,
    }


def _groups(recorded: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Reduce the collectives of each group: the form is in `reduced`."""
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for entry in recorded:
        if not entry.get("is_p2p"):
            entries.setdefault(_key(entry), []).append(entry)
    groups = {}
    for name, rows in entries.items():
        # Gloo's never say "completed": they are retired when they are done (torch 2.13).
        open_ones = [row for row in rows if not row.get("retired") and row.get("state") != "completed"]
        first = min(open_ones, key=lambda row: int(row["collective_seq_id"]), default=None)
        waits: list[Any] | None = None
        if first is not None:
            begun, started = (first.get("time_created_ns") or 0) / 1e9, first.get("state") == "started"
            waits = [_op(first), int(first["collective_seq_id"]), _sizes(first), begun, started]
        groups[name] = {
            "begun": max(int(row["collective_seq_id"]) for row in rows),
            "open": waits,
            "ops": json.dumps([[int(row["collective_seq_id"]), _op(row), _sizes(row)] for row in rows]),
        }
    return groups


def _key(entry: Mapping[str, Any]) -> str:
    """The group of an entry, by name and backend: `0:gloo`."""
    group = entry.get("process_group") or ["?"]
    return "%s:%s" % (group[0], str(entry.get("profiling_name") or "").partition(":")[0])


def _op(entry: Mapping[str, Any]) -> str:
    """`gloo:all_reduce` as `all_reduce`."""
    return str(entry.get("profiling_name") or "?").rpartition(":")[2]


def _sizes(entry: Mapping[str, Any]) -> str:
    return " ".join("x".join(map(str, shape)) or "1" for shape in entry.get("input_sizes") or [])
