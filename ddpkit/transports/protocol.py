"""Protocol between launcher and supervisor: the request, and the `Link` that carries it and the events.

A `Link` is one supervisor, wherever it runs: something that takes commands and yields events (see
`ddpkit.node.supervisor`).
"""

from __future__ import annotations

import json
import marshal
import signal
import subprocess
import sys
import threading
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import IO, Any, Protocol

from ddpkit.errors import no_process
from ddpkit.launchers.events import AnswerEvent, Command, Event, LoadCommand
from ddpkit.launchers.plan import Container, Plan, Step, exec_argv
from ddpkit.launchers.shell import Raw, Secret, Value
from ddpkit.transports import lifeline

# Asks a launcher where its ranks are (`ddpkit dump`). By default it is ignored: it ends no older launcher.
ASK = signal.SIGURG
# Asks it for a sample of its nodes (`ddpkit top`), if a shell wants one: a terminal sends it when its size changes.
LOOK = signal.SIGWINCH
WHOLE_LIMIT = 1 << 28  # bytes of one output or answer, which comes in pieces
ANSWER_LIMIT = 1 << 26  # bytes of an answer, unpacked: a node could send a few that become more than this machine has
ANSWER_TIME = 2.0  # seconds beyond a call's own limit, for its answer's way back
STEP_START_TIME = 1.0  # seconds more where the call is answered by a SLURM step, which has to start
NODE = Path(__file__).parents[1] / "node"
# Modules that the supervisor imports, each after those that it imports itself.
PARTS = (
    "owned", "scratch_dir", "oom", "rpc", "daemons", "process_tree", "event_loop", "launcher_io", "rank_output",
    "children", "rank_table", "rank_pipes", "spawn", "shutdown", "rank_calls",
)  # fmt: skip
# Modules that each other program of the node imports, and that no supervisor has.
COMPANIONS = {
    "probe": ("env_names", "cpu_topology"),
    "inventory": ("env_names", "cpu_topology", "amd_gpus", "gpu_inventory"),
    "resource_sample": ("cpu_topology", "amd_gpus"),
    "login_host": ("env_names",),
    "stage_peer": ("stage",),
}
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
BOOT = "import signal,sys;signal.signal(14,lambda*_:sys.exit(1));signal.alarm(60);"
BOOT += 'sys.version_info<(3,8) and sys.exit("Python "+sys.version.split()[0]+" is '
BOOT += 'older than 3.8");exec(open(0,"rb",0,closefd=False).readline())'
# Ends the client of a container runtime that outlives its input by 3 s: podman's may wait for a lock for ever. The
# container does not end with it. The client is the only child of this shell, process $$.
_CLIENT = "exec 3<&0; { { cat; exec >&2; n=15; while [ $n -gt 0 ] && [ -d /proc/$$ ]; do sleep .2; n=$((n-1)); done; "
_CLIENT += 'kill -9 $(cat /proc/$$/task/$$/children); } <&3 2>/dev/null & } | exec "$@" 3<&-'
# The first line of its input reads what follows it: the supervisor and its parts, as modules. `os.read` takes what is
# there and not a byte more. Compiled ones are for a Python that has our bytecode; any other asks for their text, and is
# sent a second such line. `_frozen_importlib_external` is in every CPython; `importlib.util` is slow to import.
_READ = """
import os,sys,zlib,marshal
if sys.platform!="linux": sys.exit("a node has to run Linux, and this one runs "+sys.platform)
d=b""
while len(d)<{size}:
 c=os.read(0,{size}-len(d))
 if not c: os._exit(0)
 d+=c
if {magic!r} not in (b"",getattr(sys.modules.get("_frozen_importlib_external"),"MAGIC_NUMBER",0)):
 os.write(1,b'{{"e":"source"}}\\n')
 exec(open(0,"rb",0,closefd=False).readline())
else:
 for n,c in marshal.loads(zlib.decompress(d)):
  m=sys.modules[n]=type(sys)(n)
  exec(compile(c,n+".py","exec") if type(c) is str else c,m.__dict__)
 m.main()
"""
_MARSHAL = 4  # the format's version that every Python since 3.4 reads


def container_argv(container: Container) -> list[str]:
    """The command line of a Python in a container that reads its program from its input, and ends with that input."""
    argv = [*container.enter, container.python, "-S", "-I", "-c", BOOT]
    return ["sh", "-c", _CLIENT, "sh", *argv] if container.runtime in ("docker", "podman") else argv


@cache
def program(*parts: str, compiled: bool = True) -> bytes:
    """Return the first bytes of a connection: the supervisor with its parts, or other modules, and their reader.

    The last module's `main` is called. A Python that cannot run our bytecode answers `{"e": "source"}` to compiled
    modules, and waits for their text.
    """
    packed = _pack(parts or (*PARTS, "supervisor"), compiled)
    text = _READ.format(size=len(packed), magic=MAGIC_NUMBER if compiled else b"")
    return f"exec({text!r})\n".encode() + packed


def companions(name: str) -> tuple[str, ...]:
    """A program of `ddpkit/node`, after the modules that it imports and that no supervisor has."""
    return (*COMPANIONS.get(name, ()), name)


@cache
def load_command(name: str, *, compiled: bool) -> LoadCommand:
    """The command that loads a program of `ddpkit/node`."""
    return {"c": "load", "modules": b64encode(_pack(companions(name), compiled)).decode()}


def _pack(names: Sequence[str], compiled: bool) -> bytes:
    parts = [(f"ddpkit.node.{name}", _code(name) if compiled else _source(name)) for name in names]
    return zlib.compress(marshal.dumps(parts, _MARSHAL), 6)


class Caller:
    """Calls of functions on one supervisor. Each program is loaded before its first call."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.compiled = True  # the supervisor's Python runs our bytecode
        self._write = write
        self._loaded: set[str] = set()
        self._calls = 0

    def call(self, function: str, args: Mapping[str, object], **more: object) -> int:
        """Call PROGRAM.NAME. Returns the number that the answer will have."""
        name = function.partition(".")[0]
        if name not in self._loaded:
            self._loaded.add(name)
            self._send(load_command(name, compiled=self.compiled))
        self._calls += 1
        self._send({"c": "call", "id": self._calls, "function": function, "args": args, **more})
        return self._calls

    def _send(self, command: Mapping[str, object]) -> None:
        self._write(json.dumps(command).encode() + b"\n")


def _source(name: str) -> str:
    return (NODE / f"{name}.py").read_text()


def _code(name: str) -> CodeType:
    """The program as our Python compiles it, and keeps it in its cache."""
    code = SourceFileLoader(name, str(NODE / f"{name}.py")).get_code(name)
    assert code is not None
    return code


class Pieces:
    """Puts together output and answers that a supervisor sends in pieces."""

    def __init__(self) -> None:
        self._held: dict[tuple[int | None, ...], str] = {}

    def take(self, event: Event) -> Event | None:
        """The event, whole; None while more of it is to come."""
        if event["e"] == "out":
            data = self._join((event["rank"], event["fd"]), event["data"], event.get("more", False))
            return None if data is None else {**event, "data": data}
        if event["e"] == "answer":
            data = self._join((event["id"],), event["data"], event.get("more", False))
            return None if data is None else _unpack_answer(event, data)
        return event

    def _join(self, key: tuple[int | None, ...], data: str, more: bool) -> str | None:
        data = self._held.pop(key, "") + data
        if len(data) > WHOLE_LIMIT:
            raise ValueError(f"an output or an answer of more than {WHOLE_LIMIT} bytes")
        if more:
            self._held[key] = data
        return None if more else data


def _unpack_answer(event: AnswerEvent, data: str) -> AnswerEvent:
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(b64decode(data), ANSWER_LIMIT)
        if unpacker.unconsumed_tail:
            raise ValueError(f"more than {ANSWER_LIMIT} bytes")
        value, error = json.loads(text)
    except (zlib.error, ValueError, TypeError) as problem:
        value, error = None, f"its answer cannot be read: {problem}"
    return {**event, "data": "", "values": [] if error else [value], "error": error}


class Link(Protocol):
    """One supervisor, or a stand-in for one."""

    outlives: str  # note for a launcher that leaves, where the ranks go on without it; else empty
    margin: float  # seconds beyond the grace: for leftovers, and for the answer's way back

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        """Start it, send the request, and post its events from then on; None is its end."""

    def send(self, command: Command) -> None:
        """Send a command; to a supervisor that is gone it does nothing."""

    def call(self, function: str, args: Mapping[str, object]) -> int:
        """Call PROGRAM.NAME of `ddpkit/node` about the ranks. An `AnswerEvent` with the returned number follows."""

    def close(self) -> None:
        """Cut the lifeline, and wait for it a moment."""


class LocalLink:
    """A supervisor on this machine, in a session of its own, so that Ctrl-C reaches the launcher alone."""

    outlives = ""
    margin = 10.0
    argv: Sequence[str] = (sys.executable, "-S", "-I", "-c", _START, str(NODE))
    stderr: int | None = None  # the launcher's own

    def __init__(self, folder: str = "") -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = [folder] if folder else []  # one of ours that it takes away at its end
        self._caller = Caller(self._write)

    def start(self, request: str, post: Callable[[Event | None], None]) -> None:
        self.open(post)
        self.request(request)

    def open(self, post: Callable[[Event | None], None]) -> None:
        """Start the supervisor, which ends with this process, and its ranks with it. Raises LaunchError."""
        argv = [*self.argv, *self._folder]
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr, start_new_session=True
            )
        except OSError as error:
            raise no_process(error) from None
        assert self._process.stdin is not None
        lifeline.hold(self._process.stdin)
        threading.Thread(target=self._read_output, args=(self._process.stdout, post), daemon=True).start()

    def request(self, text: str) -> None:
        self._write(text.encode() + b"\n")

    def _read_output(self, output: IO[bytes], post: Callable[[Event | None], None]) -> None:
        with output:
            self._read(output, post)

    def _read(self, lines: Iterable[bytes], post: Callable[[Event | None], None]) -> None:
        pieces = Pieces()
        try:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # it was killed in the middle of a word
                event = pieces.take(json.loads(line))
                if event is not None:
                    post(event)
                if event is not None and event["e"] == "end":
                    break  # nothing of the run is alive; the client of a container runtime may take longer
        finally:
            post(None)

    def _write(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone; its end says so

    def send(self, command: Command) -> None:
        self._write(json.dumps(command).encode() + b"\n")

    def call(self, function: str, args: Mapping[str, object]) -> int:
        return self._caller.call(function, args)

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass  # with its lifeline cut it ends everything in its own time, also without us


def program_request(name: str, argv: list[str], env: dict[str, str]) -> str:
    """The request for one program of ours on this machine that is to end whenever we end: pdsh."""
    proc = {"name": name, "argv": argv, "env": env, "rank": None, "restarts": 0, "cpus": []}
    empty: dict[str, Any] = {"env": {}, "ranks": [], "preload": [], "inside": "", "sources": {}}
    return json.dumps({"run": "", "workdir": "/", "procs": [proc], "grace": 0.0, "silence": 0.0, **empty})


def revealed(env: dict[str, Value]) -> dict[str, str | None]:
    """The environment as it is, secrets included, for a program's environment or its standard input."""
    plain: dict[str, str | None] = {}
    for name, value in env.items():
        if isinstance(value, Raw):
            raise TypeError(f"{name}: a supervisor has no shell to expand {value.text} with")
        plain[name] = value.reveal() if isinstance(value, Secret) else value
    return plain


def request(step: Step, plan: Plan) -> str:
    """The first line that a supervisor reads. It holds secrets: it goes over its standard input and nowhere else."""
    agent = any(proc.rank is None for proc in step.procs) and not step.scheduled
    needed = {"fork_server"} if step.preload else {"rank_wrapper"} if agent else set()
    needed |= set() if step.scheduled else {"rank_hook", "rank_responder", "rank_events"}
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
            "sources": {name: _source(name) for name in needed},
            "grace": plan.grace,
            "silence": plan.heartbeat_timeout,
        }
    )
