"""A function as the program of a run: what its ranks get, and what they returned.

The function travels with its request to nodes that are reached by a connection, and in a private directory of the run
where a scheduler starts the ranks. It is in no command line, log or record. Values come back the same way.
"""

from __future__ import annotations

import binascii
import importlib
import json
import marshal
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from ddpkit import files
from ddpkit.console.relay import Relay
from ddpkit.diagnosis.outcome import Failure, Outcome
from ddpkit.errors import DdpkitError, RankError, UsageError, no_process
from ddpkit.execution.job import search_path
from ddpkit.execution.lifecycle import RecordedRun
from ddpkit.execution.prepare import Ready
from ddpkit.launchers.values import BadValueError, PickledError, Raised, read_value
from ddpkit.node.bundle import read_texts
from ddpkit.node.child import NOT_FROM_HERE
from ddpkit.node.rank.function_call import FREE_MODULES, LIMIT, TEXT_LIMIT
from ddpkit.run import run_index
from ddpkit.transports.protocol import NODE, NODE_PACKAGE

VALUE_LIMIT = LIMIT + 8 * TEXT_LIMIT  # bytes of the file of one rank
MOST_BYTES = 1 << 30  # of the values of all ranks together
_NAME = "ddpkit_call"
FOLDER = "call"  # in the directory of a scheduler's run
_OUTLIVES = NODE_PACKAGE + "from ddpkit.node import caller_end; caller_end.main(*sys.argv[2:])"
_CODE = """\
{first}
import marshal
d = os.environ.get("DDPKIT_CALL") or os.path.join({log_dir!r}, os.environ["DDPKIT_RUN"], {folder!r})
g = {{"__name__": "{name}"}}
with open(d + "/function", "rb") as f:
    tag, code, text, *rest = [f.read(int.from_bytes(f.read(8), "little")) for _ in range(5)]
same = tag == str(sys.implementation.cache_tag).encode()
exec(marshal.loads(code) if same else compile(text, "{name}", "exec"), g)
g["main"](d, *rest)"""


def code_of(log_dir: str) -> str:
    """Return the Python code of every rank. It has nothing of the function."""
    return _CODE.format(first=NOT_FROM_HERE, log_dir=str(Path(log_dir).absolute()), folder=FOLDER, name=_NAME)


def name_of(function: Callable[..., object]) -> str:
    """Return a name for people: `train`."""
    inner = getattr(function, "func", function)  # of a partial
    return str(getattr(inner, "__name__", type(inner).__name__)).strip("<>")


def pack(
    function: Callable[..., object],
    args: tuple[object, ...],
    keywords: Mapping[str, object],
    *,
    trust: str,
    workdir: str,
) -> bytes:
    """Return the function and its arguments as the ranks read them. Raises UsageError."""
    if trust not in ("", "pickle"):
        raise UsageError(f"trust={trust!r}: the only value is 'pickle'", "remove it, or trust='pickle'")
    what = (function, args, dict(keywords))
    name = name_of(function)
    try:
        library: Any = importlib.import_module("cloudpickle")
    except ImportError:
        library = None
    try:
        data: bytes = pickle.dumps(what) if library is None else library.dumps(what)
    except Exception as error:
        what_failed = f"{name} cannot be sent to the ranks: {str(error) or type(error).__name__}"
        hint = "pip install cloudpickle" if library is None else "pass what it needs as plain values, or open it inside"
        raise UsageError(what_failed, hint) from error
    if library is None and b"__main__" in data:
        raise UsageError(f"{name} is defined in __main__, and cloudpickle is not installed", "pip install cloudpickle")
    if len(data) > LIMIT:
        size = f"{len(data) / (1 << 20):.1f} MiB with its arguments; the limit is {LIMIT >> 20} MiB"
        raise UsageError(f"{name} is {size}", "write the data into a file, and pass the file's name")
    by_value = library is not None and b"cloudpickle" in data
    head = {
        "python": list(sys.version_info[:2]),
        "path": search_path(workdir),
        "trust": trust,
        "by_value": by_value,
        **(_library(library, data, whole=bool(trust)) if by_value else {}),
    }
    parts = (*_caller(), pickle.dumps(head, protocol=4), data)
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


@cache
def _caller() -> tuple[bytes, bytes, bytes]:
    """Return the program that calls a function: for which Python it is compiled, its code, and its text for others."""
    text = read_texts("rank/function_call")["rank/function_call"]
    code = marshal.dumps(compile(text, _NAME, "exec", dont_inherit=True))
    return str(sys.implementation.cache_tag).encode(), code, text.encode()


def _library(library: Any, data: bytes, *, whole: bool) -> dict[str, object]:
    """Return what the ranks need of cloudpickle: a few functions as `part`, or all of it, whose import takes 60 ms."""
    part = {} if whole else _part(library.cloudpickle, data)
    return {"part": part} if part else {"version": library.__version__, "cloudpickle": _texts(library)}


def _part(module: Any, data: bytes) -> dict[str, bytes]:
    """Return the code of the functions that the data names; empty: it names more, or they need other modules."""
    if b"cloudpickle" in data.replace(b"cloudpickle.cloudpickle", b"").replace(b"_cloudpickle_submodules", b""):
        return {}
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    wanted, found = [name for name in own if name.encode() in data], dict[str, bytes]()
    for name in wanted:  # it grows meanwhile
        function = vars(module)[name]
        if type(function) is not FunctionType or function.__defaults__ or function.__kwdefaults__:
            return {}
        wanted += (_names(function.__code__) & vars(module).keys()) - {"__builtins__", *FREE_MODULES, *wanted}
        found[name] = marshal.dumps(function.__code__)  # both sides have the same version of Python
    return found


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _texts(library: Any) -> dict[str, str]:
    """Return the texts of cloudpickle's modules, which are Python alone. The package is last: it imports the others."""
    folder = Path(library.__file__).parent
    names = sorted((path.stem for path in folder.glob("*.py")), key=lambda name: name == "__init__")
    full = {name: "cloudpickle" if name == "__init__" else f"cloudpickle.{name}" for name in names}
    return {
        full[name]: files.read_bounded(folder / f"{name}.py", LIMIT).decode()
        for name in names
        if name != "cloudpickle_fast"
    }


class _Outlived:
    """A process that ends the job and removes the function where this program is killed: `node/caller_end.py`."""

    def __init__(self, folder: str) -> None:
        argv = [sys.executable, "-S", "-I", "-c", _OUTLIVES, str(NODE), folder, FOLDER]
        null = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                argv, cwd="/", stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
            )
        except OSError as error:
            raise no_process(error) from None

    def tell(self, cancel: Sequence[str] | None) -> None:
        """Tell the command that ends the job; None: nothing is left."""
        assert self._process.stdin is not None
        words = cancel and [shutil.which(cancel[0]) or cancel[0], *cancel[1:]]
        with suppress(OSError):  # somebody killed it
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """End it: the run has ended, and nothing is left."""
        self.tell(None)
        self._process.communicate()


class FunctionRun(RecordedRun):
    """The run of a function. `values`: what each rank wrote, as it came."""

    def __init__(self, ready: Ready, *options: Any, **more: Any) -> None:
        """Refuse a run whose end nobody sees here. Raises UsageError, LaunchError."""
        batch = ready.plan.batch
        if batch is not None and (batch.via or not batch.follow):
            what = "--via" if batch.via else "a job array"
            raise UsageError(f"values of a function do not come back from {what}", "run this program on the login host")
        self.values: dict[int, bytes] = {}
        self._size = 0
        self._outlived: _Outlived | None = None
        self._scheduled = any(step.scheduled for step in ready.plan.steps)
        super().__init__(ready, *options, **more)
        if ready.settings.replica:  # it is no part of another run
            self._unlisted = run_index.add_run(self.record)

    def submit(self) -> None:
        """Write the function, where no connection carries it, and submit the job."""
        if self._scheduled:
            folder = self.folder.absolute() / FOLDER
            try:
                files.make_directory(str(folder), FOLDER)
                files.create(folder / "function", self.plan.function, 0o600)
            except OSError as error:
                raise UsageError(f"cannot write to {folder}: {error.strerror}", "--log-dir DIR") from None
            self._outlived = _Outlived(str(folder))
        super().submit()
        if self._outlived and self.plan.batch is not None and self.job_id is not None:
            self._outlived.tell(self.plan.batch.scheduler.stop_of(self.job_id))

    def _run_attempts(self, relay: Relay, attempt: Callable[[], Outcome]) -> Outcome:
        """Keep the values of the last attempt alone: they say how it failed."""

        def fresh() -> Outcome:
            self.values.clear()
            self._size = 0
            return attempt()

        return super()._run_attempts(relay, fresh)

    def finish(self, relay: Relay, outcome: Outcome, *, cancelled: bool = False) -> Outcome:
        """Take the values out of the run's directory at its end, which keeps no arguments."""
        if self._scheduled:
            for rank in range(self.plan.world_size):
                with suppress(OSError):
                    self._keep(rank, files.read_bounded(self.folder / FOLDER / f"value.{rank}", VALUE_LIMIT))
            with suppress(OSError):
                files.remove_directory(str(self.folder / FOLDER), FOLDER)
        if self._outlived:
            self._outlived.end()
        return super().finish(relay, outcome, cancelled=cancelled)

    def on_value(self, rank: int, data: str) -> None:
        """Take the value of a rank that its supervisor sent."""
        with suppress(binascii.Error):
            self._keep(rank, binascii.a2b_base64(data))

    def _keep(self, rank: int, data: bytes) -> None:
        """Keep a value, unless it is empty, or those of this run together are too large."""
        if not data:
            return  # the rank was ended before it wrote one
        self._size += len(data)
        if self._size <= MOST_BYTES:
            self.values[rank] = data

    def results(self, *, trust: bool) -> list[Any]:
        """Return the value of each rank of a run that succeeded, by rank. Raises RankError, DdpkitError."""
        return [self._value(rank, trust=trust) for rank in range(self.plan.world_size)]

    def _value(self, rank: int, *, trust: bool) -> Any:
        """Return the value of a rank. Raises RankError where the function raised or did not end, or DdpkitError."""
        data = self.values.get(rank)
        host = next((name for name, ranks in self.record.ranks.items() if rank in ranks), self.record.hosts[0])
        whose = f"the value of rank {rank} on {host}"
        if data is None and self._size > MOST_BYTES:
            what = f"the values of all ranks are larger than {MOST_BYTES >> 30} GiB together"
            raise DdpkitError(what, "write them into files, and return their names")
        if data is None:
            what = "it ended with exit code 0 before the function returned"
            raise self._error(rank, host, "", what, "", what, DdpkitError.exit_code)
        try:
            value = read_value(data, trust=trust)
        except PickledError as error:
            raise DdpkitError(f"{whose} cannot be read: {error}", "add trust='pickle'") from None
        except BadValueError as error:
            hint = f"ddpkit logs {self.record.run_id} --rank {rank}"
            raise DdpkitError(f"{whose} cannot be read: {error}", hint) from error
        if isinstance(value, Raised):
            raise self._error(rank, host, value.kind, value.message, value.traceback, "", DdpkitError.exit_code)
        return value

    def failure(self, failure: Failure, verdict: str) -> RankError:
        """Return the error for the first failing rank."""
        assert failure.rank is not None
        try:
            value = read_value(self.values.get(failure.rank, b""))
        except BadValueError:
            value = None
        if isinstance(value, Raised):
            kind, reason, traceback = value.kind, value.message, value.traceback
        else:
            kind, reason, traceback = "", verdict, "\n".join(failure.last_lines)
        return self._error(failure.rank, failure.host, kind, reason, traceback, verdict, failure.exit_code)

    def _error(
        self, rank: int, host: str, kind: str, reason: str, traceback: str, verdict: str, exit_code: int
    ) -> RankError:
        return RankError(
            host=host,
            rank=rank,
            kind=kind,
            reason=reason,
            traceback=traceback,
            verdict=verdict,
            run_id=self.record.run_id,
            exit_code=exit_code,
        )
