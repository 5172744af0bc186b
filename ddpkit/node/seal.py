"""Seal: a tag at the end of each line between launcher and supervisor, which only these two can make.

A rank runs as the same user as its supervisor, and could write into the channel: `/proc/PID/fd/1` of a supervisor or an
sshd opens a pipe once more. The key comes with the supervisor's program, before there is a rank. Each tag counts the
lines before it, so that a line is accepted once, and only in its place.
"""

from __future__ import annotations

TAG = 16  # hexadecimal digits: 64 bits, of which each line is one guess


class Seal:
    """One direction of a channel. `sender` is `launcher` or `node`. Without a key lines have no tag."""

    def __init__(self, key: str, sender: str) -> None:
        self._key = (key + sender).encode() if key else b""
        self._count = 0
        if key:
            from hashlib import sha256  # takes 4 ms, which a supervisor of this machine does not need

            self._sha256 = sha256

    def _tag(self, text: bytes) -> bytes:
        return self._sha256(b"%b %d %b" % (self._key, self._count, text)).hexdigest()[:TAG].encode()

    def close(self, text: bytes) -> bytes:
        """Return a line with its tag and its end."""
        if not self._key:
            return text + b"\n"
        tag = self._tag(text)
        self._count += 1
        return b"%b %b\n" % (text, tag)

    def open(self, line: bytes) -> bytes | None:
        """Return a line, which has no end any more, without its tag; None: somebody else wrote it."""
        if not self._key:
            return line
        text, _, tag = line.rpartition(b" ")
        if tag != self._tag(text):
            return None
        self._count += 1
        return text
