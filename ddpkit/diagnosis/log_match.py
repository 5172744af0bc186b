"""LogMatch: one failure that was recognised in a log, with its cause and its fix in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpkit.diagnosis.catalogue.entry import UNKNOWN, Entry, filled, filled_command
from ddpkit.diagnosis.line_prefixes import UNKNOWN_SPEAKER, Speaker

# Kinds in the order in which they say what ended a run.
LAYERS = {"cause": 0, "death": 1, "generic": 2, "consequence": 3, "hint": 4}
# What advice is about: an option, a variable, or what does not fit.
_TERM = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*|[A-Z][A-Z_]{3,}(?==)|too (?:old|new)|outdated|incompatible|unsupported"
)
NO_PROBE = "nothing to check"


@dataclass(frozen=True, kw_only=True)
class LogMatch:
    """One recognised failure. `entry` is UNKNOWN for an exception that the catalogue does not know."""

    entry: Entry
    kind: str
    file: str
    number: int  # of the line, from 1
    end: int  # the last line that belongs to it
    said: str = ""  # advice, or a reason, in its line behind what its entry knows
    above: str = ""  # the text of a line above it that no entry knows, and that can be its reason
    begin: int = 0  # the first line of its traceback; 0: it stands in none
    text: str
    speaker: Speaker = UNKNOWN_SPEAKER
    when: float | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""  # of an exception of the script's own: its words, file and line
    location: str = ""  # and where to look at it
    doubtful: bool = False  # its text stands outside of a traceback, and is also printed where nothing is wrong
    warned: bool = False  # the line is a warning, whatever its entry is
    traced: bool = False  # it stands in a traceback
    program: str = ""  # the file of the first frame of a traceback that begins there
    reporter: Speaker | None = None  # the rank that printed the line, where `speaker` is the one that it waited for
    overcome: bool = False  # the log shows that this warning did no harm
    decisive: bool = False  # a launcher or a kernel reports the end of a process

    @property
    def ended_program(self) -> bool:
        """Whether its traceback begins with the program's first frame: no code around it can have caught it."""
        return bool(self.program)

    @property
    def was_cause(self) -> bool:
        """Whether only the level of its line makes it a hint."""
        return self.warned and self.entry.kind == "cause"

    @property
    def may_end_a_run(self) -> bool:
        """Of a hint: whether only its level makes it one, or it explains failures."""
        return self.was_cause or bool(self.entry.explains)

    @property
    def known(self) -> bool:
        return self.entry is not UNKNOWN

    @property
    def id(self) -> str:
        return self.entry.id

    @property
    def cause(self) -> str:
        return f"{self._cause.rstrip('.')}. The log says above: {self.above}" if self.above else self._cause

    @property
    def _cause(self) -> str:
        if not self.known:
            return self.summary
        cause = filled(self.entry.cause, self.values)
        known = f"{cause} {self.fix}"
        new = any(each not in known for each in _TERM.findall(self.said))
        return f"by its own message: {self.said.rstrip('.')}. In general, {cause}" if new else cause

    @property
    def bare_cause(self) -> str:
        """The cause for a sentence that names its rank already."""
        return self.cause.partition("own exception: ")[2] or self.cause

    @property
    def fix(self) -> str:
        return filled_command(self.entry.fix, self.values) if self.known else self.location

    @property
    def probe(self) -> str:
        """A command that shows it; empty where there is none."""
        values = {"script": self.program, **self.values} if self.program else self.values
        probe = filled_command(self.entry.probe, values)
        return "" if probe == NO_PROBE else probe
