"""The thread of a rank that answers: stacks, torch's Flight Recorder, process groups. The end of torch's threads.

`rank_observe.py` starts it. It waits for a signal that is sent to it alone, and writes lines of JSON into the rank's
file in memory. A thread and not a handler, because Python runs handlers in the main thread only, and that one is
blocked in C++ when it is asked. Where the interpreter lock never comes free it cannot answer: then the handler of
faulthandler does, with the stacks.

    {"ddpkit": "threads", "value": [{"name", "main", "frames": [[file, line, function], ...]}], "error"}
    {"ddpkit": "fr", "value": {"entries", "total", "status", "off": why nothing is recorded, or ""}, "error"}
    {"ddpkit": "groups", "value": {name: {"ranks", "backend"}}, "error"}
    {"ddpkit": "end", "value": null, "error": null}

A question stands in the file before the signal. Without one, all of that is answered. `watch SECONDS` begins to look
where the main thread is, every 10 ms, and goes on by itself; `watched` answers with what was seen since:

    {"ddpkit": "watch", "value": {"began", "looks": [number in each part of the time],
     "places": [[innermost frame, frame of the script, [number in each part]], ...],
     "collectives": [[group, number, when it began, ms that it took or null], ...],
     "calls": all calls of a backend, send and recv included, "groups", "off"}, "error"}
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

THREAD = "ddpkit-dump"  # as /proc/PID/task/TID/comm shows it: at most 15 characters
ENTRIES = 300  # of the Flight Recorder that an answer holds, the last ones
FRAMES = 100  # of one thread
EVERY = 0.01  # seconds between two looks of a watch
LONGEST = 120.0  # seconds of a watch
PARTS = 20  # of the time of a watch
PLACES = 60  # that a watch keeps: the most frequent ones
COLLECTIVES = 2000  # the last ones of a watch
LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3", "<")
# Frames that only pass a call on: the one that called them says where a thread is.
PASSES = ("/torch/_ops.py", "/torch/utils/_contextlib.py", "/torch/distributed/c10d_logger.py")


def start(fd: int, number: int) -> None:
    """Start the thread, once: torch may have a default process group more than once."""
    held = "/proc/self/fd/%d" % fd
    name = os.readlink(held)
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        tasks = []
    if THREAD not in [_name(task) for task in tasks]:
        _thread.start_new_thread(_run, (fd, number, os.getpid(), _thread.get_ident(), name))


def _name(task: str) -> str:
    try:
        with open("/proc/self/task/%s/comm" % task) as file:
            return file.read().strip()
    except OSError:
        return ""


def _run(fd: int, number: int, pid: int, main: int, name: str) -> None:
    """Wait for questions, and answer them, until this is a fork or the file is another one."""
    try:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, [number])
        # The name says to which thread the signal may be sent: from here on it does no harm.
        with open("/proc/self/task/%d/comm" % _thread.get_native_id(), "w") as file:
            file.write(THREAD)
        watch = None
        while True:
            # `sigtimedwait` of Python returns as if the signal had come where the process stood still meanwhile.
            if watch is not None and not watch.over and number not in _signal.sigpending():
                time.sleep(EVERY)
                watch.look()
                continue
            _signal.sigwait([number])
            # A script may have closed the file, and opened another under its number.
            if os.getpid() != pid or os.readlink("/proc/self/fd/%d" % fd) != name:
                return
            question = os.pread(fd, 64, 0).split()[:2]
            if question[:1] == [b"watch"]:
                watch = Watch(main, min(float(question[1]), LONGEST))
            elif question == [b"watched"]:
                _say(fd, "watch", watch.result if watch is not None else lambda: None)
            else:
                for kind, look in (("threads", lambda: _threads(main)), ("fr", _flight_recorder), ("groups", _groups)):
                    _say(fd, kind, look)
            _say(fd, "end", lambda: None)
    except BaseException:
        pass  # the script must not see it; the handler of faulthandler is still there


def _say(fd: int, kind: str, look: Callable[[], Any]) -> None:
    import json

    try:
        value, error = look(), None
    except Exception as problem:
        value, error = None, "%s: %s" % (type(problem).__name__, problem)
    text = "\n" + json.dumps({"ddpkit": kind, "value": value, "error": error}, default=str) + "\n"
    data = memoryview(text.encode("utf-8", "replace"))
    while data:
        data = data[os.write(fd, data) :]


def _threads(main: int) -> list[dict[str, Any]]:
    """Every thread of Python: its name, and its frames, the innermost first."""
    # A look into the module, and not `enumerate()`: that one waits for a lock which a blocked thread may hold.
    active = getattr(sys.modules.get("threading"), "_active", {})
    names = {ident: thread.name for ident, thread in list(active.items())}
    threads = []
    for ident, frame in sys._current_frames().items():
        if ident != _thread.get_ident():
            frames: list[list[Any]] = []
            here: Any = frame
            while here is not None and len(frames) < FRAMES:
                code = here.f_code
                frames.append([code.co_filename, here.f_lineno, code.co_name])
                here = here.f_back
            threads.append({"name": names.get(ident, "?"), "main": ident == main, "frames": frames})
    return threads


class Watch:
    """Where the main thread is, looked at again and again for `span` seconds."""

    def __init__(self, main: int, span: float) -> None:
        self.over = False
        self._main, self._span = main, span
        self._began, self._clock = time.time(), time.monotonic()
        self._looks = [0] * PARTS
        self._places: dict[tuple[Any, Any], list[int]] = {}

    def look(self) -> None:
        """Count one look at the main thread, in its part of the time."""
        part = int((time.monotonic() - self._clock) / self._span * PARTS)
        self.over = part >= PARTS
        frame = sys._current_frames().get(self._main)
        if self.over or frame is None:
            return
        self._looks[part] += 1
        place = _place(frame)
        if place in self._places or len(self._places) < 10 * PLACES:
            self._places.setdefault(place, [0] * PARTS)[part] += 1

    def result(self) -> dict[str, Any]:
        """End the watch, and return what it saw, with the collectives that began meanwhile."""
        self.over = True
        record = _flight_recorder(COLLECTIVES)
        since = self._began * 1e9
        entries = [entry for entry in record["entries"] if (entry.get("time_created_ns") or 0) >= since]
        numbers = [int(entry["op_id"]) for entry in entries if "op_id" in entry]
        often = sorted(self._places.items(), key=lambda item: -sum(item[1]))[:PLACES]
        return {
            "began": self._began,
            "looks": self._looks,
            "places": [[inner, script, counts] for (inner, script), counts in often],
            "collectives": [_collective(entry) for entry in entries if not entry.get("is_p2p")],
            "calls": max(numbers) - min(numbers) + 1 if numbers else 0,
            "groups": _groups(),
            "off": record["off"],
        }


def _collective(entry: dict[str, Any]) -> list[Any]:
    group, backend = (entry.get("process_group") or ["?"])[0], str(entry.get("profiling_name")).partition(":")[0]
    number = int(entry.get("collective_seq_id", 0))
    return ["%s:%s" % (group, backend), number, entry["time_created_ns"] / 1e9, entry.get("duration_ms")]


def _place(frame: Any) -> tuple[Any, Any]:
    """The innermost frame that does something, and the innermost one of the script: (file, line, function) each."""
    inner = script = None
    while frame is not None and script is None:
        file = frame.f_code.co_filename
        found = (file, frame.f_lineno, frame.f_code.co_name)
        if inner is None and not file.endswith(PASSES):
            inner = found
        if not any(part in file for part in LIBRARY):
            script = found
        frame = frame.f_back
    return inner or script, script


def _flight_recorder(most: int = ENTRIES) -> dict[str, Any]:
    """What torch recorded of this rank's collectives, the last `most`.

    There are two records: one of NCCL (2.2 and later), and one of every other backend.
    """
    import pickle

    c10d = sys.modules.get("torch._C._distributed_c10d")
    entries: list[Any] = []
    status: dict[str, Any] = {}
    dumps = [getattr(c10d, name, None) for name in ("_dump_nccl_trace", "_dump_fr_trace")]
    for dump in filter(None, dumps):
        try:
            # Without the stacks of each entry: to name their lines, torch (2.13) imports sympy and half of itself,
            # which takes a second, and for ever if the main thread hangs in an import.
            record = pickle.loads(dump(True, False, False))
        except TypeError:
            record = pickle.loads(dump())  # 2.2 and 2.3 take no arguments
        if isinstance(record, list):
            record = {"entries": record}  # 2.2
        entries += record.get("entries") or []
        status.update(record.get("pg_status") or {})
    entries.sort(key=lambda entry: entry.get("time_created_ns") or 0)
    off = "" if entries else _off(dumps[0] is not None, dumps[1] is not None)
    return {"entries": entries[-most:], "total": len(entries), "status": status, "off": off}


def _off(nccl: bool, others: bool) -> str:
    """Why torch records no collective, or "". `nccl`, `others`: it has the recorder of NCCL, of other backends."""
    version = sys.modules["torch"].__version__
    backends = sorted({group["backend"] for group in _groups().values()})
    if not others and not (nccl and "nccl" in "".join(backends)):
        return "torch %s has no Flight Recorder for %s" % (version, " and ".join(backends) or "its backend")
    number = [int(part) for part in version.split(".")[:2]]
    name, old = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"
    if number < [2, 8]:
        name = old
    size = os.environ.get(name) or os.environ.get(old)
    if (size or ("2000" if number >= [2, 11] else "0")).strip() != "0":
        return ""  # on, and no collective was called
    return "torch's Flight Recorder is off (%s)" % ("%s=0" % name if size else "%s is not set" % name)


def _groups() -> dict[str, dict[str, Any]]:
    """The process groups of this rank by name: their global ranks, in order, and the backend."""
    world = sys.modules["torch.distributed.distributed_c10d"]._world
    groups = {}
    for group, ranks in list(world.pg_group_ranks.items()):
        backend = world.pg_map.get(group, ("?", None))[0]
        groups[str(world.pg_names.get(group, "?"))] = {"ranks": sorted(ranks, key=ranks.get), "backend": str(backend)}
    return groups
