"""Progress of the start of each rank, seen from outside: libraries, connections and threads in /proc.

The launcher calls it (`rpc.py`), in a process of its own: the kernel may keep one waiting that reads of a rank which
waits for a dead disk. Nothing in a rank is changed or disturbed by it. Marks, in the words of `rank_events.py`:

    import      libraries of torch are in its memory: `import torch` has begun
    meet        it listens at MASTER_PORT, or connects to it
    group       threads of gloo or NCCL are there: its process group has started. torch 2.6 and later name them
    past        no such thread, and yet it is beyond its rendezvous: it prints, or computes

With `--observe start` a rank tells more, and more exactly.
"""

from __future__ import annotations

import os
import re
import time

from ddpkit.node.kernel import list_names, open_files, read_link, read_text, tcp_sockets
from ddpkit.node.process_tree import children, read_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TORCH = re.compile(r"(/\S.*/torch)/lib/libtorch\w*\.so")
GROUPS = ("pt_gloo_runloop", "pt_nccl_watchdg")
BUSY = 20.0  # seconds of a processor after which a rank does not wait in a rendezvous
TOGETHER = 0.3  # seconds after the first new mark, in which those of other ranks come
LOOK_EVERY = (0.1, 2.0)  # seconds: between the first looks and, as the start lasts longer, between the last ones
REST = 20  # times what a look costs: sockets take the kernel 9 ms, and the ranks need the processors


def watch(ranks: dict[str, dict[str, Any]], known: dict[str, list[str]], age: float, limit: float) -> dict[str, Any]:
    """New marks of the ranks ({rank: {"pid", "last_line"}}), soon after the first one; none within `limit` seconds.

    Returns {"t": time here, "over": whether no more can come, "marks": {rank: {name: t}}, "versions": None or those of
    Python, torch, CUDA and NCCL}.

    known: the marks that calls before have seen. age: seconds since the ranks were started.
    """
    began = time.monotonic() - age
    until = began + age + limit
    starts = [_Start(process, known.get(rank, [])) for rank, process in ranks.items()]
    while True:
        sockets, before = _Sockets(), time.process_time()
        for start in starts:
            start.look(sockets)
        over = all(start.over for start in starts)
        if any(start.marks for start in starts):
            until = min(until, time.monotonic() + TOGETHER)
        now = time.monotonic()
        shortest, longest = LOOK_EVERY
        pause = min(max((now - began) / 20, shortest), longest)
        pause = max(pause, REST * (time.process_time() - before))
        if over or now + pause >= until:
            break
        time.sleep(pause)
    marks = {rank: start.marks for rank, start in zip(ranks, starts) if start.marks}
    versions = next((start.versions for start in starts if start.versions), None)
    return {"t": time.time(), "over": over, "marks": marks, "versions": versions}


class _Sockets:
    """Sockets of this machine with their ports, read at most once a look."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, set[int]]] = {}  # by network namespace: link of a socket: ports

    def ports(self, pid: int, links: set[str]) -> set[int]:
        """Ports of these sockets of a process."""
        space = read_link("/proc/%d/ns/net" % pid)
        if space not in self._of:
            self._of[space] = {link: {local, remote} for local, remote, _, link in tcp_sockets(pid)}
        return {port for link in links for port in self._of[space].get(link, ())}


class _Start:
    """One rank, while it is watched."""

    def __init__(self, process: dict[str, Any], known: list[str]) -> None:
        self.marks: dict[str, float] = {}
        self.versions: list[str] | None = None
        self.over = False
        self._process = process
        self._known = set(known)
        self._pid = 0  # of the process that has torch
        self._port = 0
        self._busy = 0.0
        self._links: set[str] = set()  # to its sockets, at the last look
        self._settled: set[str] = set()  # links of two looks: they have no part in the rendezvous

    def look(self, sockets: _Sockets) -> None:
        """Add the marks that are new. `over`: no more can come."""
        top = read_process(self._process["pid"])
        if self.over or top is None or top.state == "Z":
            self.over = True  # it ended, if it was not through before
            return
        try:
            if not self._pid:
                self._find()
            if self._pid and "meet" not in self._known and self._port and self._meets(sockets):
                self._mark("meet")
            if "meet" in self._known:
                self._look_past()
        except (OSError, ValueError):
            pass  # it ended, or may not be looked at

    def _mark(self, name: str) -> None:
        if name not in self._known:
            self._known.add(name)
            self.marks[name] = time.time()
        self.over = self.over or bool({"group", "past"} & self._known)

    def _find(self) -> None:
        """Find the process of the rank that has libraries of torch: the rank's own, or one below it."""
        family = [self._process["pid"]]
        for pid in family:  # it grows meanwhile
            family += sorted(children(pid))
            match = TORCH.search(read_text("/proc/%d/maps" % pid))
            if match:
                self._pid = pid
                self._port = _port(read_text("/proc/%d/environ" % pid))
                self.versions = None if "import" in self._known else _versions("/proc/%d/root" % pid, match[1])
                self._mark("import")
                return

    def _meets(self, sockets: _Sockets) -> bool:
        """Whether a socket has the port of the rendezvous. Only sockets that are new are looked up."""
        links = {target for target in open_files(self._pid).values() if target.startswith("socket:")}
        new = links - self._settled
        self._settled = links & self._links  # at its first look a socket may have no port yet
        self._links = links
        return bool(new) and self._port in sockets.ports(self._pid, new)

    def _look_past(self) -> None:
        """Look whether the rank is beyond its rendezvous: by threads of its group, or by what it prints or computes."""
        folder = "/proc/%d/task" % self._pid
        if any(read_text("%s/%s/comm" % (folder, task)).strip() in GROUPS for task in list_names(folder)):
            self._mark("group")
            return
        process = read_process(self._pid)
        if process is not None:
            self._busy = self._busy or process.seconds + BUSY
            line = self._process.get("last_line") or 0.0
            if process.seconds > self._busy or line > self.marks.get("meet", line):
                self._mark("past")


def _port(environ: str) -> int:
    match = re.search(r"(?:^|\0)MASTER_PORT=(\d{1,5})\0", environ)
    return int(match[1]) if match else 0


def _versions(root: str, folder: str) -> list[str] | None:
    """The versions of Python, torch, CUDA and NCCL by the files of torch; None without such files. `-`: not known."""
    text = read_text(root + folder + "/version.py", 1 << 13)
    torch = re.search(r"^__version__ = '([\w.+-]{1,60})'", text, re.MULTILINE)
    cuda = re.search(r"^(cuda|hip)(?:: .*?)? = '([\w.+-]{1,60})'", text, re.MULTILINE)
    version = "-" if cuda is None else "rocm-" + cuda[2] if cuda[1] == "hip" else cuda[2]
    python = re.search(r"/python(3\.\d+)/", folder)
    beside = " ".join(list_names(root + os.path.dirname(folder)))
    nccl = re.search(r"(?:^| )nvidia_nccl_cu\d+-([\d.]+)\.dist-info", beside)
    return [python[1] if python else "-", torch[1], version, nccl[1] if nccl else "-"] if torch else None
