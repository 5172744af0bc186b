"""Runs the ranks of one node, tells the launcher everything about them, and never outlives it.

Standard library only, Python 3.8 and later: with its parts (`process_tree.py`, `rpc.py`, `oom.py` and `scratch_dir.py`)
it is also sent over a connection, to nodes that have nothing of ours installed (`ddpkit.transports.protocol.program`).
Standard input is its lifeline: at end of file the launcher is gone, however it went, and every process that was started
here is ended. On a network the end may never come: there, a launcher that has not been heard for the request's
`silence` seconds is gone as well. What is read are lines of JSON: questions first (see `Questions`), then the request,
then commands.

Events go to standard output, one JSON object a line:

    {"e": "hello", "pid", "host", "t"}                      before anything is asked or started
    {"e": "answer", "id", "value", "error", "t"}            to a question; one of the two is null
    {"e": "beat", "t", "ranks"}                             every few seconds: a sign of life, and how the ranks are
    {"e": "start", "rank", "pid", "t"}                      a rank runs
    {"e": "mark", "rank", "name", "t"}                      how far its start is (`rank_events.py`)
    {"e": "steps", "t", "ranks"}                            with a beat: how long its steps took since the last one
    {"e": "out", "rank", "fd", "data"}                      whole lines of a rank (null: of the agent, e.g. torchrun);
                                                            with "more" they go on in the next one
    {"e": "exit", "rank", "code", "signal", "t"}            a rank ended; one of the two is null. With "oom" (text) the
                                                            kernel ended it for want of memory, and where it says so
    {"e": "failed", "rank", "code", "signal", "t", "what"}  the first failure on this node: the others are being ended.
                                                            With "raised" (an exception's name) it has not ended yet
    {"e": "left", "names"}                                  processes that outlived their rank, and were ended
    {"e": "stuck", "names"}                                 processes that even KILL does not end (state D)
    {"e": "dump", "id", "data"}                             what `stack_dump.py` found, packed; with "more" it goes on
    {"e": "top", "id", "data"}                              the same of `resource_sample.py`
    {"e": "refused", "message"}                             nothing was started
    {"e": "end", "t"}                                       nothing of this run is alive here any more

Bytes that are no UTF-8 travel as lone surrogates (`surrogateescape`), so that logs are exact.

To end a run: TERM to each rank (and to nobody else, so that a rank which saves a checkpoint keeps its DataLoader
workers), then TERM to what the ranks left behind, then KILL. A child that called `setsid` or whose parent died is still
found: this process is their subreaper, so that they become its children. It is two processes: the one that works, and
one that only waits for it and, should it be killed, ends what it leaves.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import selectors
import signal
import sys
import time
import zlib
from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every run
    from typing import Any

if TYPE_CHECKING or __package__:
    from ddpkit.node.oom import Oom
    from ddpkit.node.process_tree import (
        LOOK_AGAIN,
        below,
        childless,
        descendants,
        groups,
        kill,
        kill_all_below,
        name_of,
        processes,
    )
    from ddpkit.node.rpc import Questions
    from ddpkit.node.scratch_dir import FOLDER, make_folder, remove, sweep
else:
    from oom import Oom
    from process_tree import LOOK_AGAIN, below, childless, descendants, groups, kill, kill_all_below, name_of, processes
    from rpc import Questions
    from scratch_dir import FOLDER, make_folder, remove, sweep

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CHUNK = 1 << 16
LINE_LIMIT = 1 << 20  # a line without an end is passed on in pieces of this size
PIECE = 20000  # bytes of output in one event: at 6 characters a byte, a line that pdsh does not cut off (2.34: 131072)
BACKLOG_HIGH = 4 << 20  # bytes that wait for the launcher before the ranks' pipes are left to fill up
BACKLOG_LOW = 1 << 20
AGENT_PATIENCE = 1.0  # seconds for torchrun to end by itself once its ranks are gone
LEFTOVER_PATIENCE = 2.0  # seconds between TERM and KILL for processes whose rank is gone
STUCK_AFTER = 5.0  # seconds of KILL without effect
BEAT = 5.0  # seconds between two signs of life
PARTING = 1.0  # seconds for last words to a launcher that is taken for gone
SETTLE = 0.7  # seconds between an exception that ends a rank and its being called the first failure
UNSAID = 100  # records of a rank's steps that wait for a beat
DONE = -1.0
# These come from a terminal or a scheduler, and are the launcher's to decide on.
FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
RANK_SIGNALS = (*FROM_TERMINAL, signal.SIGTERM)  # what a rank may be sent

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        _libc.prctl(option, value, 0, 0, 0)


def _status(status: int) -> tuple[int | None, int | None]:
    """A wait status as (exit code, None) or (None, signal)."""
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def _default_signals() -> None:
    """Undo what Python and this program changed: an ignored signal would stay ignored in the rank."""
    for number in (*RANK_SIGNALS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _exec(argv: list[str], env: dict[str, str]) -> None:
    """Become `argv`, or say why not and exit as a shell would."""
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(2, f"ddpkit: cannot start {argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if error.errno == errno.ENOENT else 126)


class Stream:
    """One output pipe of one rank: bytes in, whole lines out."""

    def __init__(self, fd: int, number: int, rank: int | None) -> None:
        self.fd = fd
        self.number = number  # 1: standard output, 2: standard error
        self.rank = rank
        self.held = b""
        self.closed = False

    def take(self, data: bytes) -> bytes:
        """The part of the input so far that ends a line. A carriage return (a progress bar) ends one as well."""
        held = self.held + data
        # A carriage return at the very end may be the first half of a Windows line end.
        cut = max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1)) + 1
        if cut == 0 and len(held) >= LINE_LIMIT:
            cut = len(held)
        self.held = held[cut:]
        return held[:cut]


class Rank:
    """What is known of one rank."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.alive = True
        self.raised = False  # an exception ends it: it is on its way, and needs no TERM


class Look:
    """A process of ours that looks at the ranks, and what it said so far."""

    def __init__(self, kind: str, number: int, pid: int, fd: int) -> None:
        self.kind = kind  # dump, top
        self.number = number
        self.pid = pid
        self.fd = fd
        self.said = b""


class Supervisor:
    def __init__(self, request: dict[str, Any], commands: bytes = b"") -> None:
        self.request = request
        self.grace = float(request["grace"])
        self.restarts = max([0, *(proc.get("restarts", 0) for proc in request["procs"])])
        self.selector = selectors.DefaultSelector()
        self.out = bytearray()
        self.out_open = True
        self.paused = False
        self.commands = commands  # read from standard input, and not yet carried out
        self.ranks: dict[int, Rank] = {}
        self.agents: dict[int, str] = {}  # process id: name, of the programs that start ranks themselves
        self.pidfds: dict[int, int] = {}  # process id: its descriptor
        self.pids: dict[int, int] = {}  # process id: rank, of the ranks that are our own children
        self.streams: dict[int, list[Stream]] = {}  # by rank, of ranks that are our own children
        self.local: dict[int, list[Stream]] = {}  # by local rank, of ranks behind a tap
        self.failures: list[dict[str, Any]] = []  # of the current attempt, first one first
        self.failed = False
        self.raised: tuple[int, float, str] | None = None  # rank, time, exception: perhaps the first failure
        self.settled = 0.0  # time.monotonic() at which it is
        self.folder = ""
        self.looks: list[Look] = []
        self.programs: dict[str, Any] = {}  # by kind of look: what looks; it comes with the first command
        self.oom = Oom()
        self.events_fd = -1
        self.events_held = b""
        self.marks_fd = -1
        self.marks_held = b""
        self.steps: dict[str, list[list[float]]] = {}  # by rank: what was told and not yet said
        # Ending. All times are time.monotonic().
        self.deadline: float | None = None  # None: nobody asked to end yet
        self.quiet_since: float | None = None  # all ranks ended well
        self.ranks_gone: float | None = None  # all ranks ended, of a run that is being ended
        self.told: set[int] = set()  # process ids that got TERM
        self.killing_since: float | None = None
        # A launcher that may be cut off. Local ones say 0: their end always comes as an end of file.
        self.silence = float(request.get("silence", 0.0))
        self.heard = time.monotonic()
        self.beat_every = min(BEAT, self.silence / 4) if self.silence else BEAT
        self.beat_at = self.heard + self.beat_every
        self.looked = self.heard  # when the loop came by for the last time
        self.cut_off = False  # the launcher was not heard for too long
        self.last_out: dict[int, float] = {}  # rank: time.time() of its last line

    # ---- talking to the launcher

    def say(self, **event: object) -> None:
        if self.out_open and not (self.cut_off and len(self.out) > BACKLOG_HIGH):
            self.out += json.dumps(event, separators=(",", ":")).encode() + b"\n"
            self.flush()

    def flush(self) -> None:
        while self.out and self.out_open:
            try:
                sent = os.write(1, self.out[: 1 << 20])
            except BlockingIOError:
                break
            except OSError:
                self.lose_launcher()
                return
            del self.out[:sent]
        self.watch_stdout(bool(self.out))
        if not self.paused and len(self.out) > BACKLOG_HIGH and not self.cut_off:
            self.paused = True
            for stream in self.all_streams():
                self.unwatch(stream.fd)
        elif len(self.out) < BACKLOG_LOW:
            self.go_on_reading()

    def go_on_reading(self) -> None:
        if self.paused:
            self.paused = False
            for stream in self.all_streams():
                self.watch(stream.fd, stream)

    def watch(self, fd: int, data: object, events: int = selectors.EVENT_READ) -> None:
        try:
            self.selector.register(fd, events, data)
        except KeyError:
            pass

    def unwatch(self, fd: int) -> None:
        try:
            self.selector.unregister(fd)
        except KeyError:
            pass

    def watch_stdout(self, wanted: bool) -> None:
        if wanted:
            self.watch(1, "stdout", selectors.EVENT_WRITE)
        else:
            self.unwatch(1)

    def lose_launcher(self) -> None:
        """Nobody listens any more: end everything."""
        if self.out_open:
            self.out_open = False
            self.out.clear()
            self.unwatch(1)
            self.go_on_reading()  # a rank that cannot print cannot clean up either
        self.stop(self.grace)

    def give_up_launcher(self) -> None:
        """It was not heard for too long. Should it only have been stopped, it reads the reason when it goes on."""
        self.cut_off = True
        if self.deadline is None:
            why = f"it heard nothing of the launcher for {self.silence:g} s: stopped there, or the network was down"
            self.say(e="failed", rank=None, code=None, signal=None, t=time.time(), what="the supervisor", reason=why)
        self.go_on_reading()
        self.stop(self.grace)

    def read_commands(self) -> None:
        try:
            data = os.read(0, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.unwatch(0)
            self.lose_launcher()
            return
        self.heard = time.monotonic()
        self.commands += data
        self.obey()

    def obey(self) -> None:
        *lines, self.commands = self.commands.split(b"\n")
        for line in lines:
            command = json.loads(line)
            if command["c"] == "stop":
                self.stop(float(command["grace"]))
            elif command["c"] == "signal":
                self.signal_ranks(getattr(signal, command["name"]))
            elif command["c"] in ("dump", "top"):
                self.look(command)

    # ---- looking at the ranks

    def look(self, command: dict[str, Any]) -> None:
        """Look at the ranks in a process of its own: it may take seconds, and this one must go on."""
        if self.deadline is not None:
            return  # they are being ended
        kind = command["c"]
        if "source" in command:
            self.programs[kind] = compile(command.pop("source"), "ddpkit-" + kind, "exec")
        read, write = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            _default_signals()
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(write, 1)
            os.dup2(null, 2)
            known: dict[str, Any] = {"__name__": kind}
            ranks = {rank: one.pid for rank, one in self.ranks.items() if one.alive}
            try:
                exec(self.programs[kind], known)
                known["main"](json.dumps({**command, "ranks": ranks, "out": self.last_out}))
            finally:
                os._exit(0)
        os.close(write)
        os.set_blocking(read, False)
        self.looks.append(Look(kind, command["id"], pid, read))
        self.watch(read, self.looks[-1])

    def read_look(self, look: Look) -> None:
        try:
            data = os.read(look.fd, CHUNK)
        except BlockingIOError:
            return
        look.said += data
        if data:
            return
        self.unwatch(look.fd)
        os.close(look.fd)
        self.looks.remove(look)
        text = b2a_base64(zlib.compress(look.said, 6), newline=False).decode()
        for start in range(0, len(text), PIECE):
            more = {"more": True} if start + PIECE < len(text) else {}
            self.say(e=look.kind, id=look.number, data=text[start : start + PIECE], **more)

    def end_looks(self) -> None:
        """Nobody is left to be looked at."""
        for look in self.looks:
            kill(look.pid, signal.SIGKILL)

    def beat(self) -> None:
        """A sign of life in each direction, where it is due. Called when everything that came in was read."""
        now = time.monotonic()
        away = now - self.looked - self.beat_every
        self.looked = now
        if away > 1.0:
            self.heard += away  # this machine, or this process, stood still: that says nothing of the launcher
        if self.silence and now - self.heard > self.silence and self.out_open and not self.cut_off:
            self.give_up_launcher()
        if now >= self.beat_at:
            self.beat_at = now + self.beat_every
            if not self.out:  # where the launcher does not read, there is enough for it to hear
                self.say(e="beat", t=time.time(), ranks=self.vitals())
                self.say_steps()

    def vitals(self) -> dict[int, dict[str, Any]]:
        """What the kernel tells of each living rank: its state; processor seconds and memory of it and all below it."""
        table = processes()
        shown = {}
        for number, rank in self.ranks.items():
            if rank.alive and rank.pid in table:
                family = [rank.pid, *below(rank.pid, table)]
                shown[number] = {
                    "pid": rank.pid,
                    "state": table[rank.pid][1],
                    "cpu": round(sum(table[pid][2] for pid in family), 2),
                    "rss": sum(table[pid][3] for pid in family),
                    "out": self.last_out.get(number),
                }
        return shown

    # ---- starting

    def start(self) -> None:
        request = self.request
        if request.get("inside") and os.environ.pop("DDPKIT_INSIDE", "") != request["inside"]:
            raise OSError(errno.EINVAL, "the ranks belong in a container, and this is not it")
        os.chdir(request["workdir"])
        base = _with({**os.environ, "PWD": request["workdir"]}, request["env"])
        if request["preload"]:
            self.start_preloaded(base)
            return
        for proc in request["procs"]:
            env = self.hooked(_with(base, proc["env"]), proc)
            if proc["rank"] is None:
                if "rank_wrapper" in request["sources"]:
                    self.make_folder(len(request["ranks"]))
                    env["DDPKIT_TAP"] = self.write_tap()
                    # torchrun makes a folder for logs that it does not write here, and leaves it behind.
                    env.setdefault("PET_LOG_DIR", self.folder)
                self.start_agent(proc["argv"], env, proc["name"])
            else:
                rank = proc["rank"]
                pid = self.spawn(proc["argv"], env, rank)
                self.pids[pid] = rank
                self.ranks[rank] = Rank(pid)
                self.say(e="start", rank=rank, pid=pid, t=time.time())

    def hooked(self, env: dict[str, str], proc: dict[str, Any]) -> dict[str, str]:
        """The environment of a Python that can be asked where it is (`rank_hook.py`); a tap hands it on to its rank."""
        sources = self.request["sources"]
        if "rank_hook" not in sources or env.get("DDPKIT_DUMP") == "0":
            return env
        try:
            self.make_private()
            hook = f"{self.folder}/hook"
            if not os.path.isdir(hook):
                os.mkdir(hook)
                _write(f"{hook}/sitecustomize.py", sources["rank_hook"])
                _write(f"{hook}/rank_responder.py", sources["rank_responder"])
                _write(f"{hook}/rank_events.py", sources["rank_events"])
                os.mkfifo(f"{hook}/marks", 0o600)
                self.marks_fd = os.open(f"{hook}/marks", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                self.watch(self.marks_fd, "marks")
        except OSError:
            return env  # a full disk: a run must not end because of it
        env["DDPKIT_HOOK"] = hook
        if proc["rank"] is not None and os.path.basename(proc["argv"][0]).startswith("python"):
            env["PYTHONPATH"] = os.pathsep.join([hook, *filter(None, [env.get("PYTHONPATH")])])
        elif proc["rank"] is not None:
            del env["DDPKIT_HOOK"]
        return env

    def start_agent(self, argv: list[str], env: dict[str, str], name: str) -> None:
        self.agents[self.spawn(argv, env, None)] = name

    def start_preloaded(self, base: dict[str, str]) -> None:
        """One interpreter runs the ranks' own command; the hook that it finds on its path forks the ranks."""
        request = self.request
        self.make_folder(len(request["procs"]))
        hook = f"{self.folder}/preload"
        os.mkdir(hook)
        _write(f"{hook}/sitecustomize.py", request["sources"]["fork_server"])
        ranks = [{"rank": proc["rank"], "env": proc["env"]} for proc in request["procs"]]
        spec = {"folder": self.folder, "hook": hook, "modules": request["preload"], "ranks": ranks}
        env = self.hooked(dict(base), {"rank": None})
        spec["answer"] = env.pop("DDPKIT_HOOK", "")
        _write(f"{self.folder}/preload.json", json.dumps(spec))
        env["DDPKIT_PRELOAD"] = f"{self.folder}/preload.json"
        env["PYTHONPATH"] = os.pathsep.join([hook, *filter(None, [base.get("PYTHONPATH")])])
        self.start_agent(request["procs"][0]["argv"], env, "preload")

    def make_folder(self, ranks: int) -> None:
        """A private folder with two named pipes for each rank that another program starts, and one for their news."""
        self.make_private()
        os.mkfifo(f"{self.folder}/events", 0o600)
        self.events_fd = os.open(f"{self.folder}/events", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.watch(self.events_fd, "events")
        for local_rank in range(ranks):
            for number, name in ((1, "out"), (2, "err")):
                path = f"{self.folder}/{name}.{local_rank}"
                os.mkfifo(path, 0o600)
                # Open for both, so that it never reads as ended between two lives of a rank.
                fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
                stream = Stream(fd, number, self.request["ranks"][local_rank])
                self.local.setdefault(local_rank, []).append(stream)
                self.watch(fd, stream)

    def make_private(self) -> None:
        if not self.folder:
            make_folder(FOLDER)
            self.folder = FOLDER

    def write_tap(self) -> str:
        path = f"{self.folder}/rank_wrapper.py"
        _write(path, self.request["sources"]["rank_wrapper"])
        return path

    def spawn(self, argv: list[str], env: dict[str, str], rank: int | None) -> int:
        pipes = [os.pipe() for _ in range(2)]
        supervisor = os.getpid()
        # A TERM that comes before the child has its own handling of it would be lost: it waits until then.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, RANK_SIGNALS)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            # The second line of defence, should this process itself be killed.
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:
                os._exit(1)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(pipes[0][1], 1)
            os.dup2(pipes[1][1], 2)
            _default_signals()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _exec(argv, env)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        groups.add(pid)
        if hasattr(os, "pidfd_open"):  # not in Python 3.8, nor on macOS
            try:
                # Ready descriptors come in the order in which they became so; `waitpid` goes by the order of starts.
                self.pidfds[pid] = os.pidfd_open(pid)
                self.watch(self.pidfds[pid], pid)
            except OSError:  # Linux before 5.3
                pass
        for number, (read, write) in enumerate(pipes, 1):
            os.close(write)
            os.set_blocking(read, False)
            stream = Stream(read, number, rank)
            self.streams.setdefault(-1 if rank is None else rank, []).append(stream)
            self.watch(read, stream)
        return pid

    # ---- output

    def all_streams(self) -> list[Stream]:
        return [stream for group in (self.streams, self.local) for streams in group.values() for stream in streams]

    def pass_on(self, stream: Stream, data: bytes) -> None:
        if data:
            if stream.rank is not None:
                self.last_out[stream.rank] = time.time()
            for start in range(0, len(data), PIECE):
                text = data[start : start + PIECE].decode("utf-8", "surrogateescape")
                more = {"more": True} if start + PIECE < len(data) else {}
                self.say(e="out", rank=stream.rank, fd=stream.number, data=text, **more)

    def read_stream(self, stream: Stream) -> bool:
        """Read once. False: there is nothing more to read now."""
        if stream.closed:
            return False  # ended a moment ago, in the same turn of the loop
        try:
            data = os.read(stream.fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.finish_stream(stream)
            self.unwatch(stream.fd)
            os.close(stream.fd)
            stream.closed = True
            for group in (self.streams, self.local):
                for streams in group.values():
                    if stream in streams:
                        streams.remove(stream)
            return False
        self.pass_on(stream, stream.take(data))
        return True

    def finish_stream(self, stream: Stream) -> None:
        """A last line without an end is a line as well."""
        held, stream.held = stream.held, b""
        self.pass_on(stream, held)

    def drain(self, streams: list[Stream]) -> None:
        """Read what a rank that ended has written. What its own children write later still comes."""
        for stream in list(streams):
            budget = 1 << 24
            while budget > 0 and self.read_stream(stream):
                budget -= CHUNK
        for stream in list(streams):  # last: what follows a line without an end would look like its end
            self.finish_stream(stream)

    # ---- news of the ranks

    def read_events(self) -> None:
        """News from taps and from the preloading interpreter: lines shorter than PIPE_BUF, so never mixed."""
        while True:
            try:
                data = os.read(self.events_fd, CHUNK)
            except OSError:
                return
            *lines, self.events_held = (self.events_held + data).split(b"\n")
            for line in lines:
                kind, local, rank, *rest = line.decode().split()
                if kind == "start":
                    self.rank_started(int(local), int(rank), int(rest[0]), float(rest[1]))
                else:
                    code, number = (None if word == "None" else int(word) for word in rest[:2])
                    self.drain(self.local.get(int(local), []))
                    self.rank_ended(int(rank), code, number, float(rest[2]))

    def read_marks(self) -> None:
        """Read events of ranks: start and steps (`rank_events.py`). Nonsense, from a script, must do no harm."""
        while True:
            try:
                data = os.read(self.marks_fd, CHUNK)
            except OSError:
                return
            *lines, self.marks_held = (self.marks_held + data).split(b"\n")
            for line in lines:
                try:
                    kind, rank, *rest = line.decode().split()
                    if kind == "mark":
                        self.say(e="mark", rank=int(rank), name=rest[0], t=float(rest[1]))
                    elif kind == "raised":
                        self.rank_raised(int(rank), float(rest[0]), rest[1])
                    elif kind == "steps" and len(self.steps.setdefault(rank, [])) < UNSAID:
                        self.steps[rank].append([float(word) for word in rest])
                except (ValueError, IndexError):
                    continue

    def say_steps(self) -> None:
        if self.steps:
            self.say(e="steps", t=time.time(), ranks=self.steps)
            self.steps = {}

    def rank_started(self, local_rank: int, rank: int, pid: int, when: float) -> None:
        if not any(known.alive for known in self.ranks.values()):
            self.failures.clear()  # torchrun starts its ranks again: what failed before is history
        self.ranks[rank] = Rank(pid)
        for stream in self.local.get(local_rank, []):
            stream.rank = rank
        self.say(e="start", rank=rank, pid=pid, t=when)
        if self.deadline is not None:
            kill(pid, signal.SIGTERM)

    def rank_ended(self, rank: int, code: int | None, number: int | None, when: float) -> None:
        if rank in self.ranks:
            self.ranks[rank].alive = False
        why = self.oom.why(self.ranks[rank].pid) if number == signal.SIGKILL and rank in self.ranks else ""
        more = {"oom": why} if why and self.deadline is None else {}
        self.say(e="exit", rank=rank, code=code, signal=number, t=when, **more)
        if code != 0:
            self.failures.append({"rank": rank, "code": code, "signal": number, "t": when, "what": "rank", **more})
            if self.restarts == 0:
                self.fail()

    def rank_raised(self, rank: int, when: float, name: str) -> None:
        """An exception ends a rank. Torch takes seconds for its part of that, or never comes to it."""
        if rank in self.ranks and self.ranks[rank].alive and self.raised is None and not self.restarts:
            self.raised = (rank, when, name)
            self.settled = time.monotonic() + SETTLE

    def settle(self) -> None:
        """It is the first failure, if until now no rank has ended: it may be that one's end that it raised about."""
        if self.raised is None or time.monotonic() < self.settled:
            return
        rank, when, name = self.raised
        self.raised = None
        if self.ranks[rank].alive and self.deadline is None and not self.failed:
            self.ranks[rank].raised = True
            self.drain([stream for stream in self.all_streams() if stream.rank == rank])
            self.failures = [{"rank": rank, "code": 1, "signal": None, "t": when, "what": "rank", "raised": name}]
            self.fail()

    def agent_ended(self, pid: int, status: int) -> None:
        name = self.agents.pop(pid)
        self.read_events()
        self.drain(self.streams.get(-1, []))
        code, number = _status(status)
        if code != 0:
            self.failures.append({"rank": None, "code": code, "signal": number, "t": time.time(), "what": name})
            self.fail()

    def fail(self) -> None:
        """The first failure on this node ends the others. Once a stop was asked for, nothing is a failure."""
        if self.deadline is None and not self.failed:
            self.failed = True
            self.say(e="failed", **self.failures[0])
            self.stop(self.grace)

    def reap(self) -> None:
        """Collect children. Those with a process descriptor in the selector wait there, in the order of their ends."""
        try:
            if sys.platform == "linux":
                while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                    if ended.si_pid in self.pidfds:
                        return
                    self.child_ended(ended.si_pid)
            else:  # no descriptors there, and `waitid` only since Python 3.13
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    self.collected(*found)
        except ChildProcessError:
            pass  # none is left

    def child_ended(self, pid: int) -> None:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            self.collected(pid, status)

    def collected(self, pid: int, status: int) -> None:
        if pid in self.pidfds:
            fd = self.pidfds.pop(pid)
            self.unwatch(fd)
            os.close(fd)
        if pid in self.pids:
            rank = self.pids.pop(pid)
            self.drain(self.streams.get(rank, []))
            self.rank_ended(rank, *_status(status), time.time())
        elif pid in self.agents:
            self.agent_ended(pid, status)

    # ---- ending

    def signal_ranks(self, number: int) -> None:
        for rank in self.ranks.values():
            if rank.alive and not (rank.raised and number == signal.SIGTERM):
                kill(rank.pid, number)

    def stop(self, grace: float) -> None:
        """Begin to end everything, or end it sooner than begun."""
        deadline = time.monotonic() + grace
        self.end_looks()
        if self.deadline is None:
            self.deadline = deadline
            if self.restarts:
                # Signalled alone, the ranks would be started again.
                for pid in self.agents:
                    self.told.add(pid)
                    kill(pid, signal.SIGTERM)
            else:
                self.signal_ranks(signal.SIGTERM)
        self.deadline = min(self.deadline, deadline)

    def end_by_signal(self) -> None:
        """Somebody on this node ends the supervisor: an administrator, or the kernel because its guard was killed."""
        if self.deadline is None:
            self.say(e="failed", rank=None, code=None, signal=signal.SIGTERM, t=time.time(), what="the supervisor")
        self.stop(self.grace)

    def ranks_alive(self) -> bool:
        return any(rank.alive for rank in self.ranks.values())

    def look_for_leftovers(self) -> float:
        """All ranks ended well. What they left behind gets a moment to end by itself, then is ended."""
        self.end_looks()
        if childless():
            return DONE
        left = descendants()
        now = time.monotonic()
        if self.quiet_since is None:
            self.quiet_since = now
        if now >= self.quiet_since + LEFTOVER_PATIENCE:
            self.say(e="left", names=[f"{pid} ({name_of(pid)})" for pid in left])
            self.stop(self.grace)
        return LOOK_AGAIN

    def wind_down(self) -> float:
        """One look at an ending run. Returns the seconds until the next look, or DONE: nothing is left."""
        now = time.monotonic()
        assert self.deadline is not None
        if now < self.deadline and (self.ranks_alive() or (self.restarts and self.agents)):
            return min(self.deadline - now, 1.0)
        if self.ranks_gone is None:
            self.ranks_gone = now
        if childless():
            return DONE
        left = descendants()
        patience = AGENT_PATIENCE if self.ranks and self.agents else 0.0
        killing = now >= self.deadline or now >= self.ranks_gone + patience + LEFTOVER_PATIENCE
        if killing:
            if self.killing_since is None:
                self.killing_since = now
            kill_all_below()
            if now > self.killing_since + STUCK_AFTER:
                self.say(e="stuck", names=[f"{pid} ({name_of(pid)})" for pid in left])
                return DONE
        elif now >= self.ranks_gone + patience:
            for pid in left:
                if pid not in self.told:
                    self.told.add(pid)
                    kill(pid, signal.SIGTERM)
        return LOOK_AGAIN

    # ---- the loop

    def run(self) -> None:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for number in FROM_TERMINAL:
            signal.signal(number, signal.SIG_IGN)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self.watch(0, "stdin")
        self.watch(wake_read, "wake")
        try:
            self.start()
        except OSError as error:
            what = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
            self.say(e="refused", message=f"cannot start {'all ranks' if self.pids else 'any rank'}: {what}")
            self.stop(0.0)
        self.obey()
        timeout: float | None = None
        while True:
            if self.deadline is None and not self.pids and not self.agents:
                timeout = self.look_for_leftovers()
            if self.deadline is not None:
                timeout = self.wind_down()
            if timeout == DONE:
                break
            due = min(self.beat_at, self.settled if self.raised else self.beat_at) - time.monotonic()
            due = due if timeout is None else min(timeout, due)
            for key, _ in self.selector.select(max(0.0, due)):
                if key.data == "stdin":
                    self.read_commands()
                elif key.data == "stdout":
                    self.flush()
                elif key.data == "events":
                    self.read_events()
                elif key.data == "marks":
                    self.read_marks()
                elif key.data == "wake":
                    if signal.SIGTERM in os.read(wake_read, CHUNK):
                        self.end_by_signal()
                elif isinstance(key.data, int):
                    self.child_ended(key.data)
                elif isinstance(key.data, Look):
                    self.read_look(key.data)
                elif isinstance(key.data, Stream):
                    self.read_stream(key.data)
            self.reap()
            self.settle()
            self.beat()
        if self.events_fd >= 0:
            self.read_events()
        if self.marks_fd >= 0:
            self.read_marks()
            self.unwatch(self.marks_fd)
        self.drain(self.all_streams())
        self.say_steps()
        self.say(e="end", t=time.time())
        for stream in self.all_streams():
            self.unwatch(stream.fd)
        self.unwatch(wake_read)
        if self.events_fd >= 0:
            self.unwatch(self.events_fd)
        self.flush_all()
        if self.folder:
            remove(self.folder)

    def flush_all(self) -> None:
        """The launcher may read slowly, or be stopped by Ctrl-Z. While it lives it gets everything."""
        until = time.monotonic() + PARTING
        while self.out and self.out_open and not (self.cut_off and time.monotonic() > until):
            for key, _ in self.selector.select(min(self.beat_every, PARTING)):
                if key.data == "stdin":
                    self.read_commands()
            self.flush()
            self.beat()


def _with(env: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    """An environment with changes; None takes a name away."""
    merged = {**env, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _write(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def guard(worker: int, folder: str) -> None:
    """Outlive the supervisor proper: should it be killed, its orphans come to this process, which ends them."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for number in FROM_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(worker, signal.SIGTERM))
    sweep()  # here, where nothing waits for it
    status = os.waitpid(worker, 0)[1]
    until = time.monotonic() + STUCK_AFTER
    # Where the status is 0 the worker saw to everything itself.
    while status != 0 and time.monotonic() < until:
        kill_all_below()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(LOOK_AGAIN)
    remove(folder)
    os._exit(_status(status)[0] or 0)


def main(folder: str = FOLDER) -> None:
    """Supervise. `folder` is taken away at the end, whoever made it."""
    signal.alarm(0)  # of the command line that we came by
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    me = os.getpid()
    worker = os.fork()
    if worker:
        guard(worker, folder)
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != me:
        os._exit(1)
    Supervisor(*Questions().until_request()).run()
    os._exit(0)  # nothing is left to tidy up, and the launcher waits


if __name__ == "__main__":
    main()
