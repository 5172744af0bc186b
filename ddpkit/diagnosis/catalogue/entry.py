"""Entry: one known failure, as the catalogue has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# cause: ends a run by itself. death: says how a process died, and little of why. generic: says that something failed,
# and not what. hint: a warning that may be behind a failure. consequence: what the others print when one has failed.
# noise: harmless.
Kind = Literal["cause", "death", "generic", "hint", "consequence", "noise"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One known failure. Its id is stable: checks, verdicts and documents name it.

    `patterns` are regular expressions, each searched for in one line. Each holds a whole word outside of groups, by
    which lines are chosen (see `matcher`). Named groups fill `{host}`, `{port}`, `{rank}` ... in `cause`, `probe` and
    `fix`; what the text does not say is shown as HOST, PORT, RANK. `needs` must stand somewhere in the same log.
    """

    id: str
    title: str  # the symptom, in the words of whoever sees it
    cause: str
    probe: str  # one command that shows it
    fix: str  # one command, or one change
    link: str
    kind: Kind = "cause"
    patterns: tuple[str, ...] = ()  # empty: nothing is printed; a check finds it
    needs: str = ""
    doubtful: bool = False  # also printed where nothing is wrong: outside of a traceback it gives way to other causes


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with its `{names}` replaced by values; where one is not known by its name in capitals."""
    return re.sub(r"\{([a-z]+)\}", lambda name: values.get(name[1]) or name[1].upper(), text)
