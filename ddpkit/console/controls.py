"""Lines of ranks for a terminal: their text and their colours, without controls that move, hide or answer.

A script may print the title of a window, the contents of the clipboard (OSC 52) or the start of a sequence without its
end, which takes in what is printed next: the verdict.
"""

from __future__ import annotations

import re

_COLOUR = rb"\x1b\[[\d;:]*m"
_SEQUENCE = re.compile(
    rb"(" + _COLOUR + rb")"
    rb"|\x1b[PX^_\]][^\x07\x1b]*(?:\x07|\x1b\\)?"  # strings: DCS, SOS, PM, APC, OSC
    rb"|\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI
    rb"|\x1b[ -/]*[0-~]?"
    rb"|[\x00-\x07\x0b-\x1f\x7f]|\xc2[\x80-\x9f]"
)
_ANY = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_RESET = b"\x1b[0m"


def harmless(line: bytes) -> bytes:
    """Return a line without controls but colours, which end with it. Backspaces have done what they do."""
    if _ANY.search(line) is None:
        return line
    text = _SEQUENCE.sub(lambda match: match[1] or b"", line)
    if b"\x08" in text:
        text = _go_back(re.sub(_COLOUR, b"", text).decode("utf-8", "surrogateescape"))
    return text + _RESET if b"\x1b" in text and not text.endswith((_RESET, b"\x1b[m")) else text


def _go_back(text: str) -> bytes:
    shown: list[str] = []
    at = 0
    for char in text:
        if char == "\b":
            at = max(0, at - 1)
        else:
            shown[at : at + 1] = [char]
            at += 1
    return "".join(shown).encode("utf-8", "surrogateescape")
