"""Tables, panels and files of the commands: Rich where a person looks, plain lines elsewhere; Rich is imported late."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from ddpkit.cli.app import note, option
from ddpkit.console.guarded import unguarded
from ddpkit.console.style import Panel, is_rich
from ddpkit.errors import UsageError
from ddpkit.files import check_replaceable, create, write_atomically
from ddpkit.text import one_line, printable

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


# States, with a sign that needs no colour, and a colour.
SIGNS = {
    "pass": ("✓", "green"),
    "done": ("✓", "green"),
    "running": ("●", "green"),
    "queued": ("●", "yellow"),
    "WARN": ("!", "yellow"),
    "stopped": ("■", "yellow"),
    "FAIL": ("✗", "bold red"),
    "FAILED": ("✗", "bold red"),
    "failed": ("✗", "bold red"),
    "lost": ("✗", "bold red"),
    "skip": ("-", "dim"),
    "unknown": ("?", "yellow"),
}
WIDEST = 120  # columns of a panel: longer lines are hard to read
SHORT = 24  # characters: a column of shorter cells keeps each on one line
_LABELS = {"hint": "bold cyan", "cause": "bold"}


def rich_out() -> bool:
    """Whether standard output is for a person's eyes."""
    return is_rich(os.environ, terminal=sys.stdout.isatty())


def as_text(value: str, style: str = "") -> Text:
    """Return a text for Rich, which passes controls on: everything that is drawn begins here."""
    from rich.text import Text

    return Text(printable(value), style, overflow="fold")


def cell_text(value: str) -> Text:
    return as_text("\n".join(one_line(line) for line in value.split("\n")))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the window; in a pipe aligned columns, each row on one line."""
    if rich_out():
        _print(as_table(head, rows))
        return
    for line in plain_table(head, rows):
        print(line)


def plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table as text: columns side by side, two spaces between them."""
    every = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in every]


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table for a terminal. A column of states has signs and colours."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for number, name in enumerate(head):
        short = all(len(row[number]) <= SHORT for row in rows)
        drawn.add_column(as_text(name), no_wrap=short, overflow="fold")
    for row in rows:
        cells = zip(head, row, strict=True)
        drawn.add_row(
            *(signed(cell) if name.lower() in ("status", "state") else cell_text(cell) for name, cell in cells)
        )
    return drawn


def signed(state: str) -> Text:
    """Return a state with its sign and colour."""
    sign, style = SIGNS.get(state, ("", ""))
    return as_text(f"{sign} {state}" if sign and has_signs(sys.stdout) else state, style)


def write(lines: Sequence[str | Text]) -> None:
    """Print the lines of a table that fit the window: first its head."""
    if not rich_out():
        print("\n".join(map(str, lines)))
        return
    console = terminal_console()
    for number, line in enumerate(lines):
        text = as_text(line) if isinstance(line, str) else line
        console.print(text, style="bold" if number == 0 else None, no_wrap=True, overflow="ignore", crop=False)


def coloured(line: str, state: str, at: int) -> Text | str:
    """Return a line of a table with the colour of the state in its column."""
    if not rich_out():
        return line
    text = as_text(line)
    text.no_wrap = True
    text.stylize(SIGNS.get(state, ("", ""))[1], at, at + len(state))
    return text


def show(panel: Panel) -> None:
    """Print a panel; in a pipe each fact on a line of its own."""
    if rich_out():
        _print(_panel(panel, has_signs(sys.stdout)), most=WIDEST)
        return
    for line in plain_panel(panel):
        print(line)


def plain_panel(panel: Panel) -> list[str]:
    """Return the lines of a panel as text."""
    lines = [one_line(f"{panel.state} {panel.headline}".strip())]
    indent = "    " if panel.state else ""
    lines += [f"{indent}{label}: {one_line(text)}" for label, text in panel.facts]
    lines += [f"last lines of {panel.lines_of}:"] if panel.lines else []
    return [*lines, *(f"    {one_line(each)}" for each in panel.lines)]


def say(text: str, state: str) -> None:
    """Print a line with the sign and the colour of its state."""
    text = one_line(text)
    if not rich_out():
        print(text)
        return
    sign, style = SIGNS[state]
    _print(as_text(f"{sign} {text}" if has_signs(sys.stdout) else text, style))


class StatusLine:
    """One line on standard error that is written over while something waits; on a terminal only."""

    def __init__(self, *, shown: bool = True) -> None:
        self.shown = shown and sys.stderr.isatty() and is_rich(os.environ, terminal=True)
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Replace the line; an empty text erases it. It is cut to the window: a broken line could not be erased."""
        if not text:
            self.clear()
        elif self.shown:
            try:
                columns = os.get_terminal_size(2).columns
            except OSError:
                columns = 80
            with self._lock:
                unguarded(sys.stderr).write(f"\r\x1b[J{f'{one_line(text)} ...'[: columns - 1]}")
                sys.stderr.flush()

    def note(self, text: str) -> None:
        """Print a line that stays, in place of this one."""
        self.clear()
        note(text)

    def clear(self) -> None:
        if self.shown:
            with self._lock:
                unguarded(sys.stderr).write("\r\x1b[J")
                sys.stderr.flush()


def draw(panel: Panel, stream: IO[bytes], *, signs: bool = True) -> bytes:
    """Return a panel as what a terminal shows of it."""
    from rich.console import Console

    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        columns = 0
    columns = columns or int(os.environ.get("COLUMNS") or 80)
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=min(columns, WIDEST), highlight=False, legacy_windows=False)
    console.print(_panel(panel, signs))
    return text.getvalue().encode("utf-8", "surrogateescape")


def _panel(panel: Panel, signs: bool) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.padding import Padding
    from rich.panel import Panel as Frame
    from rich.table import Table

    sign, style = SIGNS.get(panel.state, ("", ""))
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for label, text in panel.facts:
        facts.add_row(as_text(label, _LABELS.get(label, "dim")), as_text(one_line(text)))
    parts: list[RenderableType] = [as_text(one_line(panel.headline), "bold")]
    if panel.lines:
        parts += ["", as_text(f"last lines of {panel.lines_of}:", "dim")]
        parts += [Padding(as_text("\n".join(map(one_line, panel.lines))), (0, 0, 0, 2))]
    if panel.facts:
        parts += ["", facts]
    title = as_text(f"{sign} {panel.state}" if signs and sign else panel.state, style) if panel.state else None
    shape = box.HORIZONTALS if signs else box.ASCII2
    return Frame(Group(*parts), title=title, title_align="left", border_style=style, box=shape, padding=0)


def has_signs(stream: object) -> bool:
    """Whether an output can show more than ASCII."""
    return "utf" in str(getattr(stream, "encoding", "") or "").lower()


def _print(what: RenderableType, most: int | None = None) -> None:
    console = terminal_console()
    if most is not None:
        console.width = min(console.width, most)
    console.print(what)


def terminal_console() -> Console:
    """Return Rich's console for standard output, which is one that a person sees."""
    from rich.console import Console

    return Console(file=unguarded(sys.stdout), force_terminal=True, highlight=False)


Force = Annotated[bool, option("--force", "Replace the file of --output. Never a link, or a device.")]


def check_output(option: str, path: Path, *, force: bool) -> None:
    """Raise UsageError where the file may not be written."""
    try:
        there = check_replaceable(str(path))
    except OSError as error:
        raise _refusal(option, path, error) from None
    if there is not None and not force:
        other = path.with_name(f"{path.stem}-2{path.suffix}")
        raise UsageError(f"{option} {path}: the file exists", f"{option} {shlex.quote(str(other))}, or add --force")


def write_output(option: str, path: Path, content: str | bytes, *, force: bool) -> None:
    """Write the file. Raises UsageError."""
    check_output(option, path, force=force)
    try:
        (write_atomically if force else create)(path, content)
    except OSError as error:
        raise _refusal(option, path, error) from None


def _refusal(option: str, path: Path, error: OSError) -> UsageError:
    why = "a link: the file it leads to would be replaced" if path.is_symlink() else error.strerror or str(error)
    return UsageError(f"cannot write {path}: {why}", f"{option} FILE, with a writable FILE")
