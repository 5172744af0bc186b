"""Entry: one known failure, as the catalogue has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# cause: ends a run. death: how a process died, without a reason. generic: a failure without a reason. hint: a warning
# that can explain a failure. consequence: printed by other ranks after the first failure. noise: harmless.
Kind = Literal["cause", "death", "generic", "hint", "consequence", "noise"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One known failure. Its id is stable: checks, verdicts and documents use it.

    `patterns` are regular expressions, each searched in one line. Each contains a whole word outside of groups; the
    matcher selects lines by these words. Named groups fill `{host}`, `{port}`, `{rank}` ... in `cause`, `probe` and
    `fix`. Unknown values are shown as HOST, PORT, RANK. `needs` must occur somewhere in the same log.
    """

    id: str
    title: str  # the symptom, as the user sees it
    cause: str
    probe: str  # one command that shows it
    fix: str  # one command, or one change
    link: str
    kind: Kind = "cause"
    patterns: tuple[str, ...] = ()  # empty: nothing is printed; a check detects it
    needs: str = ""
    doubtful: bool = False  # also printed by healthy runs: outside of a traceback, other causes take precedence


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with values in place of `{names}`; an unknown name is shown in capitals."""
    return re.sub(r"\{([a-z]+)\}", lambda name: values.get(name[1]) or name[1].upper(), text)
