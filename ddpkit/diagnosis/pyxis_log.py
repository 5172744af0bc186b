"""The message of enroot in the log that pyxis prints when a container does not start. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

# pyxis prints enroot's log with a margin; lines of its own have none.
_LINE = re.compile(r"pyxis: {3,}(?!\[(?:INFO|WARN)\])(?:\[ERROR\] )?(?P<reason>\S.*\w.*)")
LINES = 40  # above and below a match


def message_of_enroot(lines: Sequence[str], index: int) -> dict[str, str]:
    """Return the last message of enroot near a line of pyxis, as a value of an entry."""
    around = lines[max(0, index - LINES) : index + LINES]
    messages = [match["reason"] for line in around if (match := _LINE.search(line))]
    return {"reason": messages[-1]} if messages else {}
