"""Lines of a run as text to Python streams, or to none. Starts no thread, and needs no file descriptor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from ddpkit.console.progress import Standing


class TextStream:
    """Decodes bytes to a text stream. None: discards them."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        if self._stream is not None:
            try:
                _write_text(self._stream, data.decode("utf-8", "replace"))
            except Exception:  # closed, or an object of the program that fails; the logs of the run have all lines
                self._stream = None

    def flush(self) -> None:
        if self._stream is not None and hasattr(self._stream, "flush"):  # `print` needs no more than `write`
            try:
                self._stream.flush()
            except Exception:
                self._stream = None


def _write_text(stream: TextIO, text: str) -> None:
    """Write text, with escapes for characters that the encoding of the stream lacks."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))


class TextDisplay:
    """The display of a run in another program: two text streams, without status lines."""

    has_status = False
    is_full = False  # writes do not wait in a queue

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = TextStream(out)
        self.err = TextStream(err)

    def hurry(self) -> None:
        """No line waits for a reader."""

    def suspend(self) -> None:
        """There is no status line to take away."""

    def begin(self, source: Callable[[], Standing], /) -> None:
        """There is no status line to show."""

    def end(self) -> None:
        """There is no status line to take away."""
