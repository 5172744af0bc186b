"""Protocol between launcher and supervisor: the request, and the `Link` that carries it and the events.

A `Link` is one supervisor, wherever it runs: something that takes commands and yields events (see
`ddpkit.node.supervisor`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, Protocol
from weakref import WeakSet

from ddpkit.errors import no_process
from ddpkit.launchers import plan as plans
from ddpkit.launchers.events import AnswerEvent, BadEventError, Command, Event, from_node, ranks_of
from ddpkit.launchers.plan import Plan, Step, exec_argv
from ddpkit.launchers.shell import Raw, Secret, Value
from ddpkit.launchers.typed_json import is_plain
from ddpkit.node.bundle import read_texts
from ddpkit.node.child import HOLDER
from ddpkit.node.seal import Seal

# Asks a launcher where its ranks are (`ddpkit dump`). By default it is ignored: it ends no older launcher.
ASK = signal.SIGURG
# Asks it for a sample of its nodes (`ddpkit top`), if a shell wants one: a terminal sends it when its size changes.
LOOK = signal.SIGWINCH
HELD_LIMIT = 1 << 25  # characters of outputs and answers that come in pieces, and of which more is to come
ANSWER_LIMIT = 1 << 26  # bytes of an answer, unpacked: a node could send a few that become more than this machine has
ANSWER_PARTS = 1 << 21  # values in it: a list of two bytes takes 64 here
ERROR_LIMIT = 2000  # characters of the error in an answer
ANSWER_TIME = 2.0  # seconds beyond a call's own limit, for its answer's way back
STEP_START_TIME = 1.0  # seconds more where the call is answered by a SLURM step, which has to start
PACKED = ("stack_dump.collect",)  # functions whose answers stay packed until they are read: there can be thousands
NODE = Path(__file__).parents[1] / "node"
# Imported, and not run as a file: Python keeps the compiled form of what is imported. The packages are empty modules,
# so that nothing else of ddpkit is imported, and no other folder comes onto the path.
NODE_PACKAGE = 'import sys; new = type(sys); sys.modules["ddpkit"] = new("ddpkit"); '
NODE_PACKAGE += 'm = sys.modules["ddpkit.node"] = new("ddpkit.node"); m.__path__ = [sys.argv[1]]; '
_START = NODE_PACKAGE + "from ddpkit.node import supervisor; supervisor.main(*sys.argv[2:])"


# The command line holds only this: what follows comes over its input, where `ps` does not show it. It has no quotes of
# the kind that a shell needs, and nothing that csh, fish or a POSIX shell would expand. The alarm ends it where the
# program never comes: a network that is cut at this moment gives no end of file for hours. The supervisor turns it off.
# It has a handler, because process 1 of a container ignores every signal that has none.
# A Python that is too old to read the program says its version: `channel.too_old` knows these words.
# `signal` itself imports enum, which takes 3 ms.
BOOT = 'import sys;sys.version_info<(3,8) and sys.exit("Python "+sys.version.split()[0]+" is older than 3.8");'
BOOT += "import _signal as s;s.signal(14,lambda*_:sys.exit(1));s.alarm(60);"
BOOT += 'exec(open(0,"rb",0,closefd=False).readline())'
# Ends the client of a container runtime that outlives its input by 3 s: podman's may wait for a lock for ever. The
# container does not end with it. The client is the only child of this shell, process $$.
_CLIENT = "exec 3<&0; { { cat; exec >&2; n=15; while [ $n -gt 0 ] && [ -d /proc/$$ ]; do sleep .2; n=$((n-1)); done; "
_CLIENT += 'kill -9 $(cat /proc/$$/task/$$/children); } <&3 2>/dev/null & } | exec "$@" 3<&-'
# The first line of its input reads what follows it: all of `ddpkit/node`, which is imported from there. `os.read` takes
# what is there and not a byte more.
_READ = """
import os,sys,zlib,json
if sys.platform!="linux": sys.exit("a node has to run Linux, and this one runs "+sys.platform)
d=b""
while len(d)<{size}:
 c=os.read(0,{size}-len(d))
 if not c: os._exit(0)
 d+=c
n=type(sys)
sys.modules["ddpkit"]=n("ddpkit")
p=sys.modules["ddpkit.node"]=n("ddpkit.node")
p.__path__=[]
p.texts=json.loads(zlib.decompress(d))
class Bundle:
 def find_spec(self,name,path=None,target=None):
  if name.startswith("ddpkit.node."):
   for f in name[12:].replace(".","/"),name[12:]+"/__init__":
    if f in p.texts: return type(sys.__spec__)(name,self,origin=f,is_package=f[-1]=="_")
 def create_module(self,spec): return None
 def exec_module(self,m): exec(compile(p.texts[m.__spec__.origin],m.__name__+".py","exec"),m.__dict__)
sys.meta_path.insert(0,Bundle())
from ddpkit.node import {main}
{main}.main({key})
"""


def container_argv(container: plans.Container) -> list[str]:
    """The command line of a Python in a container that reads its program from its input, and ends with that input."""
    argv = [*container.enter, container.python, "-S", "-I", "-c", BOOT]
    return ["sh", "-c", _CLIENT, "sh", *argv] if container.runtime in ("docker", "podman") else argv


def program(main: str = "supervisor", key: str = "") -> bytes:
    """Return the first bytes of a connection: the programs of a node, and what reads them and calls `main` of one.

    `key`: of the connection's seals (`ddpkit/node/seal.py`).
    """
    bundle = _bundle()
    text = _READ.format(size=len(bundle), main=main, key=f"key={key!r}" if key else "")
    return f"exec({text!r})\n".encode() + bundle


def new_key() -> str:
    """Return the key of a new connection's seals."""
    return os.urandom(16).hex()


@cache
def _bundle() -> bytes:
    """Texts of all modules of `ddpkit/node`, by name, packed."""
    return zlib.compress(json.dumps(read_texts()).encode(), 1)  # 131 KB in 3 ms; level 6: 107 KB in 45 ms


class Caller:
    """Calls of functions on one supervisor."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """`write` takes one command, which has no end of a line."""
        self._write = write
        self.unanswered: set[int] = set()  # numbers of calls
        self.packed: set[int] = set()  # those of them whose answer stays packed
        self._calls = 0

    def call(self, function: str, args: Mapping[str, object], **more: object) -> int:
        """Call PROGRAM.NAME. Returns the number that the answer will have."""
        self._calls += 1
        self.unanswered.add(self._calls)
        if function in PACKED:
            self.packed.add(self._calls)
        call = {"c": "call", "id": self._calls, "function": function, "args": args, **more}
        self._write(json.dumps(call).encode())
        return self._calls


def parse_event(line: bytes) -> Event | None:
    """Read one line of a supervisor. None: a kind that this version does not know. Raises BadEventError."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise BadEventError("a line that is not JSON") from None
    return from_node(value)


class Pieces:
    """Puts together output and answers that a supervisor sends in pieces."""

    def __init__(self, asked: set[int], packed: Container[int] = ()) -> None:
        """`asked`: numbers of the calls that have no answer yet. `packed`: of those whose answer stays packed."""
        self._asked, self._packed = asked, packed
        self._held: dict[tuple[int | None, ...], list[str]] = {}  # by (rank, fd; 0: of a value), or (id of a call,)
        self._size = 0  # characters of all these pieces

    def take(self, event: Event) -> Event | None:
        """The event, whole; None while more of it is to come. Raises BadEventError."""
        if event["e"] == "out":
            data = self._join((event["rank"], event["fd"]), event["data"], event.get("more", False))
            return None if data is None else {**event, "data": data}
        if event["e"] == "value":
            data = self._join((event["rank"], 0), event["data"], event.get("more", False))
            return None if data is None else {**event, "data": data}
        if event["e"] == "answer":
            if event["id"] not in self._asked:
                raise BadEventError(f"an answer to call {event['id']}, which it did not get")
            data = self._join((event["id"],), event["data"], event.get("more", False))
            if data is None:
                return None
            self._asked.discard(event["id"])
            if event["id"] in self._packed:
                return {**event, "data": "", "values": [PackedAnswer(data)], "error": None}
            return _unpack_answer(event, data)
        return event

    def _join(self, key: tuple[int | None, ...], data: str, more: bool) -> str | None:
        """Return the whole of which this is the last piece; None: `more` is to come. Raises BadEventError."""
        if more:
            self._held.setdefault(key, []).append(data)
            self._size += len(data) + 64
            if self._size > HELD_LIMIT:
                raise BadEventError(f"more than {HELD_LIMIT} bytes of outputs and answers that do not end")
            return None
        pieces = self._held.pop(key, None)
        if pieces is None:
            return data
        self._size -= sum(len(piece) + 64 for piece in pieces)
        return "".join([*pieces, data])


class PackedAnswer:
    """An answer as it came: unpacked it can take a hundred times the memory."""

    def __init__(self, data: str) -> None:
        self._data = data

    def unpack(self) -> object:
        """Return the value. Raises ValueError."""
        try:
            value, error = _unpack(self._data)
        except (zlib.error, TypeError, RecursionError) as problem:
            raise ValueError(str(problem)) from None
        if error is not None:
            raise ValueError(error)
        return value


def _unpack(data: str) -> tuple[object, str | None]:
    """Return the value and the error of an answer. Raises zlib.error, ValueError, TypeError, RecursionError."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(b64decode(data), ANSWER_LIMIT)
    if unpacker.unconsumed_tail:
        raise ValueError(f"more than {ANSWER_LIMIT} bytes")
    if sum(map(text.count, (b",", b"[", b"{"))) > ANSWER_PARTS:
        raise ValueError(f"more than {ANSWER_PARTS} values")
    value, error = json.loads(text)
    if not is_plain(value, ANSWER_PARTS) or not isinstance(error, str | None):
        raise ValueError("lists in lists without end")
    return value, error


def _unpack_answer(event: AnswerEvent, data: str) -> AnswerEvent:
    try:
        value, error = _unpack(data)
    except (zlib.error, ValueError, TypeError, RecursionError) as problem:
        value, error = None, f"its answer cannot be read: {problem}"
    if error is not None:
        error = "".join(char if char.isprintable() else " " for char in error[:ERROR_LIMIT])
    return {**event, "data": "", "values": [] if error else [value], "error": error}


class Gate:
    """Lets through what one node may say of the step that it was given; after the first other event, nothing.

    A node speaks for its own ranks. What it sends of another's ends its link, and harms the other's run in no way.
    """

    def __init__(self, step: Step, plan: Plan, post: Callable[[Event | None], None], cut: Callable[[], None]) -> None:
        """`post` takes what is let through. `cut` ends the link."""
        self._ranks = range(plan.world_size) if step.elastic else step.ranks
        self._plan = plan
        self._host, self._post, self._cut = step.host, post, cut
        self._shut = False

    def __call__(self, event: Event | None) -> None:
        if self._shut:
            return
        ranks = () if event is None else ranks_of(event)
        foreign_rank = next((rank for rank in ranks if rank not in self._ranks), None)
        if foreign_rank is None:
            self._post(event)
            return
        self._shut = True
        home = next((each.host for each in self._plan.steps if foreign_rank in each.ranks), "")
        where = f"which runs on {home}" if home else "which this run does not have"
        self._post({"e": "lost", "reason": f"{self._host} sent an event of rank {foreign_rank}, {where}"})
        self._post(None)
        self._cut()


# ---- streams that no child may hold


class HasFileno(Protocol):
    """An open file, pipe or socket. A closed one raises ValueError or returns -1."""

    def fileno(self) -> int: ...


_streams: WeakSet[HasFileno] = WeakSet()


def hold(stream: HasFileno) -> None:
    """Keep a stream out of forked children, as long as it is open."""
    _streams.add(stream)


def _replace_in_child() -> None:
    """Put /dev/null in the place of each stream. Its number stays in use: the child will close it."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in list(_streams):
        try:
            if (number := stream.fileno()) >= 0:
                os.dup2(null, number, inheritable=False)
        except (OSError, ValueError):
            continue
    os.close(null)


os.register_at_fork(after_in_child=_replace_in_child)


# ---- links


class Link(Protocol):
    """One supervisor, or a stand-in for one."""

    outlives: str  # note for a launcher that leaves, where the ranks go on without it; else empty
    margin: float  # seconds beyond the grace: for leftovers, and for the answer's way back

    @property
    def ahead(self) -> float:
        """Seconds that the node's clock is ahead of ours, as far as it is known; else 0."""

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        """Start it, send the request, and post its events from then on; None is its end."""

    def send(self, command: Command) -> None:
        """Send a command; to a supervisor that is gone it does nothing."""

    def call(self, function: str, args: Mapping[str, object]) -> int:
        """Call PROGRAM.NAME of `ddpkit/node` about the ranks. An `AnswerEvent` with the returned number follows."""

    def close(self) -> None:
        """Cut the lifeline, and wait for it a moment."""


class LocalLink:
    """A supervisor on this machine, in a session of its own, so that Ctrl-C reaches the launcher alone.

    It is reached through sockets: unlike a pipe, no other process can open them once more (`/proc/PID/fd`).
    """

    outlives = ""
    margin = 10.0
    ahead = 0.0
    argv: Sequence[str] = (sys.executable, "-S", "-I", "-c", _START, str(NODE))
    stderr: int | None = None  # the launcher's own

    def __init__(self, folder: str = "", key: str = "") -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._input: IO[bytes] | None = None
        self._folder = [folder] if folder else []  # one of ours that it takes away at its end
        self._caller = Caller(self._write_command)
        self._sent, self._received = Seal(key, "launcher"), Seal(key, "node")

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        self.open(post)
        self.request(request)

    def open(self, post: Callable[[Event | None], None]) -> None:
        """Start the supervisor, which ends with this process, and its ranks with it. Raises LaunchError."""
        argv = [*self.argv, *self._folder]
        stdin, stdout = socket.socketpair(), socket.socketpair()
        try:
            self._process = subprocess.Popen(
                argv, stdin=stdin[1].fileno(), stdout=stdout[1].fileno(), stderr=self.stderr, start_new_session=True
            )
        except OSError as error:
            stdin[0].close()
            stdout[0].close()
            raise no_process(error) from None
        finally:
            stdin[1].close()
            stdout[1].close()
        self._input = open(stdin[0].detach(), "wb")
        hold(self._input)
        output = open(stdout[0].detach(), "rb", buffering=1 << 16)  # it reads what is there
        threading.Thread(target=self._read_output, args=(output, post), daemon=True).start()

    def request(self, text: str) -> None:
        self._write_command(text.encode())

    def _read_output(self, output: IO[bytes], post: Callable[[Event | None], None]) -> None:
        with output:
            self._read(output, post)

    def _read(self, lines: Iterable[bytes], post: Callable[[Event | None], None]) -> None:
        """Post the events of the supervisor up to its last word, then None."""
        pieces = Pieces(self._caller.unanswered, self._caller.packed)
        try:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # it was killed in the middle of a word
                text = self._received.open(line[:-1])
                read = None if text is None else parse_event(text)
                event = None if read is None else pieces.take(read)
                if event is not None:
                    post(event)
                if event is not None and event["e"] == "end":
                    break  # nothing of the run is alive; the client of a container runtime may take longer
        except BadEventError as error:
            post({"e": "lost", "reason": f"it sent {error}"})
        finally:
            post(None)

    def _write_command(self, text: bytes) -> None:
        self._write(self._sent.close(text))

    def _write(self, data: bytes) -> None:
        assert self._input is not None
        try:
            self._input.write(data)
            self._input.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is gone; its end says so

    def send(self, command: Command) -> None:
        self._write_command(json.dumps(command).encode())
        if command["c"] == "stop":
            self._wake()

    def _wake(self) -> None:
        """Let a supervisor and its guard go on that were stopped (SIGSTOP): they are to end their ranks."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGCONT)  # a session of its own

    def call(self, function: str, args: Mapping[str, object]) -> int:
        return self._caller.call(function, args)

    def close(self) -> None:
        self._wake()
        if self._process is None:
            return
        assert self._input is not None
        try:
            self._input.close()
        except (BrokenPipeError, ConnectionResetError):
            pass
        _wait(self._process, 5.0)  # with its lifeline cut it ends everything in its own time, also without us


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of a process. Python's own wait with a limit sleeps for up to 50 ms between two looks."""
    if sys.platform == "linux" and process.poll() is None:
        with suppress(OSError), open(os.pidfd_open(process.pid), "rb") as ended:  # an old kernel has none
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            poll.poll(seconds * 1000)
            seconds = 0.0
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)


def program_request(name: str, argv: list[str], env: dict[str, str]) -> str:
    """The request for one program of ours on this machine that is to end whenever we end: pdsh."""
    proc = {"name": name, "argv": argv, "env": env, "rank": None, "restarts": 0, "cpus": []}
    empty: dict[str, Any] = {"env": {}, "ranks": [], "preload": [], "inside": "", "programs": []}
    return json.dumps({"run": "", "workdir": "/", "procs": [proc], "grace": 0.0, "silence": 0.0, **empty})


def revealed(env: dict[str, Value]) -> dict[str, str | None]:
    """The environment as it is, secrets included, for a program's environment or its standard input."""
    plain: dict[str, str | None] = {}
    for name, value in env.items():
        if isinstance(value, Raw):
            raise TypeError(f"{name}: a supervisor has no shell to expand {value.text} with")
        plain[name] = value.reveal() if isinstance(value, Secret) else value
    return plain


def _programs(step: Step) -> set[str]:
    """Return the programs of `ddpkit/node` that a supervisor writes for its ranks. A scheduler's step has its own."""
    has_agent = any(proc.rank is None for proc in step.procs) and not step.scheduled
    programs = set[str]()
    if step.preload:
        programs.add("fork_server")
    elif has_agent:
        programs.add("rank_wrapper")
    if HOLDER in step.env:
        programs.add("holder")
    elif not step.scheduled:
        programs.add("rank_hook")
    if "DDPKIT_OBSERVE" in step.env and not step.scheduled:
        programs.add("rank_observe")
    return programs


def request(step: Step, plan: Plan) -> str:
    """The first line that a supervisor reads. It holds secrets: it goes over its standard input and nowhere else."""
    return json.dumps(
        {
            "run": plan.run_id,
            "workdir": step.workdir,
            "env": revealed(dict(step.env)),
            "ranks": list(step.ranks),
            "procs": [
                {
                    "name": proc.name,
                    "argv": exec_argv(proc),
                    "env": revealed(dict(proc.env)),
                    "rank": proc.rank,
                    "restarts": proc.restarts,
                    "cpus": sorted(proc.cpus),
                }
                for proc in step.procs
            ],
            "preload": list(step.preload),
            "inside": plan.run_id if step.container else "",
            "programs": sorted(_programs(step)),
            "copies": [copy.target for copy in plan.stage if not copy.by_nodes],
            # Ranks of a scheduler's step have it in the run's directory.
            "function": "" if step.scheduled else b64encode(plan.function).decode(),
            "grace": plan.grace,
            "silence": plan.heartbeat_timeout,
            "stdin": plan.stdin if plan.stdin in step.ranks else None,
            "cpus": step.env.get(plans.CPUS) or "",  # None: that of another launch is left out
        }
    )
