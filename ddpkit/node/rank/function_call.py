"""A rank of `ddpkit.call`: loads the function, calls it, and writes what it returned, or how it failed, into a file.

The rank runs this text with `-c`, in the environment of a script: nothing of torch is imported or initialised. A folder
of the node has `function`, with this text and its input, and gets `value.RANK`, which the supervisor of the rank reads.

A value is 8 bytes with the length of its head, the head, and the bytes behind it. The head is JSON, by the exact
types: None, bool, int, float, str and lists as in JSON, all others as {TYPE: ...}. What is not in this list is an
error, unless the caller trusts pickle.
"""

from __future__ import annotations

import marshal
import os
import sys
from _io import BytesIO
from _pickle import Unpickler, loads  # `json` and `pickle` take 15 ms more to import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn, Sequence

LIMIT = 1 << 24  # bytes of the value of one rank
FREE_MODULES = ("sys", "types")  # for functions of cloudpickle: their import takes no time
LOADING = "ddpkit_function_loading"  # in `sys.modules` while the modules of the function are imported
PARTS = 1 << 20  # values in it, without those in arrays
LONG = 200  # characters of a text from which on it stands behind the JSON
TEXT_LIMIT = 1 << 16  # characters of a traceback or a message
DEEPEST = 100  # lists in lists
NUMPY_KINDS = "biufcmMSU"  # of dtypes whose bytes are the whole value
TORCH_TYPES = (
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex128 complex64 int64 int32 int16 int8 uint8 bool"
).split()
_TOO_LARGE = "it is larger than %d MiB: write it into a file, and return the file's name" % (LIMIT >> 20)

_NO_FORM = (
    "its type%s is %s, which is not sent. Numbers, text, bytes, lists, tuples, sets, dicts, arrays and tensors are. "
    "Any type: trust='pickle'; then nodes can execute code in this program"
)


class CannotReturnError(Exception):
    """The value has a type, or a size, that does not travel."""


def _text(value: str) -> str:
    """Return the JSON of a text."""
    from _json import encode_basestring_ascii  # type: ignore[import-not-found,unused-ignore]  # numbers need no library

    text: str = encode_basestring_ascii(value)
    return text


def _name_of(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)


class Writer:
    """Writes one value. `pickled` packs what has no form of its own; None: that is an error."""

    def __init__(self, pickled: Callable[[object], bytes] | None = None) -> None:
        self._pickled = pickled
        self._parts: list[bytes] = []
        self._size = self._count = 0

    def write(self, value: object) -> bytes:
        """Return the file of a value. Raises CannotReturnError."""
        head = ('{"value":%s}' % self._form(value, "", 0)).encode("ascii")
        if 8 + len(head) + self._size > LIMIT:
            raise CannotReturnError(_TOO_LARGE)
        return b"".join([len(head).to_bytes(8, "little"), head, *self._parts])

    def _form(self, value: Any, where: str, depth: int) -> str:
        """Return the JSON of a value. `where` it stands in the whole one."""
        kind = type(value)
        self._count += 1
        if self._count > PARTS:
            raise CannotReturnError("it has more than %d values: return an array, or write a file" % PARTS)
        if value is None or kind is bool:
            return "null" if value is None else "true" if value else "false"
        if kind is float:
            return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value)) or repr(value)
        if kind is int:
            return str(value) if -(1 << 63) <= value < 1 << 64 else '{"int":"%s"}' % hex(value)
        if kind is str:
            return _text(value) if len(value) <= LONG else self._bytes("str", value.encode("utf-8", "surrogatepass"))
        if depth > DEEPEST:
            raise CannotReturnError("it has more than %d lists in lists, or holds itself" % DEEPEST)
        if kind in (list, tuple, set, frozenset):
            forms = ",".join([self._form(each, "%s[%d]" % (where, n), depth + 1) for n, each in enumerate(value)])
            return "[%s]" % forms if kind is list else '{"%s":[%s]}' % (kind.__name__, forms)
        if kind is dict:
            pairs = [
                (self._form(key, where, depth + 1), self._form(each, "%s[%.40r]" % (where, key), depth + 1))
                for key, each in value.items()
            ]
            return '{"dict":[%s]}' % ",".join(["[%s,%s]" % pair for pair in pairs])
        if kind is complex:
            return '{"complex":[%s,%s]}' % (self._form(value.real, "", depth), self._form(value.imag, "", depth))
        if kind in (bytes, bytearray):
            return self._bytes(kind.__name__, value)
        return self._form_of_library(value) or self._form_of_other(value, where)

    def _form_of_library(self, value: Any) -> str:
        """Return the JSON of an array or a tensor; empty: it is neither. Imports neither library."""
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None and (type(value) is numpy.ndarray or isinstance(value, numpy.generic)):
            if value.dtype.kind not in NUMPY_KINDS:
                return ""
            name = "array" if type(value) is numpy.ndarray else "scalar"
            return self._bytes(name, value.tobytes(), value.dtype.str, value.shape)
        torch: Any = sys.modules.get("torch")
        if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter):
            name = str(value.dtype).partition(".")[2]
            if value.layout is not torch.strided or name not in TORCH_TYPES:
                return ""
            import ctypes

            whole = value.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
            size = whole.numel() * whole.element_size()
            return self._bytes("tensor", ctypes.string_at(whole.data_ptr(), size), name, whole.shape)
        return ""

    def _form_of_other(self, value: object, where: str) -> str:
        if self._pickled is None:
            raise CannotReturnError(_NO_FORM % (" at " + where if where else "", _name_of(value)))
        return self._bytes("pickle", self._pickled(value))

    def _bytes(self, kind: str, data: Any, dtype: str = "", shape: Sequence[int] = ()) -> str:
        """Keep bytes behind the JSON. Returns their place, their number, and for an array what they are."""
        start = self._size
        self._size += len(data)
        if self._size > LIMIT:
            raise CannotReturnError(_TOO_LARGE)
        self._parts.append(bytes(data))
        more = ",%s,[%s]" % (_text(dtype), ",".join(map(str, shape))) if dtype else ""
        return '{"%s":[%d,%d%s]}' % (kind, start, len(data), more)


def failed(kind: str, message: str, traceback: str) -> bytes:
    """Return the file of a failure."""
    texts = [text if len(text) <= TEXT_LIMIT else "..." + text[-TEXT_LIMIT:] for text in (kind, message, traceback)]
    head = ('{"error":[%s]}' % ",".join(map(_text, texts))).encode("ascii")
    return len(head).to_bytes(8, "little") + head


# ---- the function


def _load(head: dict[str, Any], data: bytes) -> Any:
    """Unpickle the function with its arguments. What the launcher's side pickled this side may not be able to read."""
    if head["by_value"] and list(sys.version_info[:2]) != head["python"]:
        here, there = (".".join(map(str, version[:2])) for version in (sys.version_info, head["python"]))
        raise RuntimeError(
            "the function's code is Python %s's, and this rank runs Python %s: give the ranks the launcher's Python, "
            "or move the function into a module" % (there, here)
        )
    if head.get("part"):
        return _Loader(head["part"], data).load()
    if head["by_value"]:
        _provide_cloudpickle(head["version"], head["cloudpickle"])
    return loads(data)


class _Loader(Unpickler):  # type: ignore[misc,unused-ignore]
    """Loads with a few functions of the launcher's cloudpickle, which is not imported."""

    def __init__(self, part: dict[str, bytes], data: bytes) -> None:
        super().__init__(BytesIO(data))
        self._part: dict[str, Any] = {name: __import__(name) for name in FREE_MODULES}
        self._part["__builtins__"] = __builtins__
        for name, code in part.items():
            self._part[name] = self._part["types"].FunctionType(marshal.loads(code), self._part)

    def find_class(self, module: str, name: str) -> Any:
        return self._part[name] if module == "cloudpickle.cloudpickle" else super().find_class(module, name)


def _provide_cloudpickle(version: str, texts: dict[str, str]) -> None:
    """Make the launcher's cloudpickle importable, which the pickled code needs. A node may have another, or none."""
    import importlib

    try:
        if importlib.import_module("cloudpickle").__version__ == version:
            return
    except Exception:
        pass
    for name in [name for name in sys.modules if name.partition(".")[0] == "cloudpickle"]:
        del sys.modules[name]
    for name, text in texts.items():  # the package is last: it imports its own modules
        module = sys.modules[name] = type(sys)(name)
        module.__dict__["__package__"] = "cloudpickle"
        if name == "cloudpickle":
            module.__path__ = []
        exec(compile(text, "<%s of the launcher>" % name, "exec"), module.__dict__)


def _set_path(entries: list[str]) -> None:
    """Search modules where the launcher's side does. A relative entry is one of the working directory."""
    new = [os.path.normpath(os.path.join(os.getcwd(), entry)) for entry in entries]
    sys.path[:] = [*new, *(entry for entry in sys.path if entry not in new)]


def _write(path: str, content: bytes) -> None:
    """Write the value, in place of what is there. It is read when this process has ended."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)


def main(folder: str, packed: bytes, data: bytes) -> None:
    """Call the function. Ends this process as a script that raises the same exception would."""
    place = os.path.join(folder, "value.%d" % int(os.environ["RANK"]))
    os.environ.pop("DDPKIT_CALL", None)
    sys.argv[1:] = []
    head = loads(packed)
    try:
        _write(place, b"")  # that of an earlier attempt is not this one's
    except OSError:
        pass  # the same follows at the end
    _set_path(head["path"])
    try:
        sys.modules[LOADING] = sys  # a call that stands in one of them would start ranks in each rank, and so on
        function, args, keywords = _load(head, data)
        del sys.modules[LOADING]
        value = function(*args, **keywords)
    except Exception as error:
        _end(place, error)
    try:
        content = Writer(_pickler(head) if head["trust"] == "pickle" else None).write(value)
    except Exception as error:  # of pickle too
        what = "rank %s returned a value that cannot be sent: %s" % (os.environ["RANK"], str(error) or _name_of(error))
        sys.stderr.write("TypeError: " + what + "\n")
        sys.stderr.flush()
        _write(place, failed("TypeError", what, ""))
        sys.exit(1)
    _write(place, content)


def _pickler(head: dict[str, Any]) -> Callable[[object], bytes]:
    """Return what pickles a value. Classes of the launcher's `__main__` are known to cloudpickle, which sent them."""
    import importlib

    dumps: Callable[[object], bytes] = importlib.import_module("cloudpickle" if head["by_value"] else "pickle").dumps
    return dumps


def _end(place: str, error: Exception) -> NoReturn:
    """Report an exception as Python does, without the frames of this file, and leave with its exit code."""
    import traceback

    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals is globals():
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    try:
        message = str(error)
    except Exception:
        message = ""
    try:
        _write(place, failed(_name_of(error), message, text))
    except OSError:
        pass  # a full disk: its log has the traceback
    sys.excepthook(type(error), error.with_traceback(frames), frames)
    sys.exit(1)
