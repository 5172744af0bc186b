"""Pages of the site about known failures, from the catalogue: the index by symptom, and a page for each category."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from catalogue_examples import EXAMPLES

from ddpkit.diagnosis import catalogue
from ddpkit.diagnosis.catalogue import category
from ddpkit.diagnosis.catalogue.entry import Entry, filled

KINDS = {
    "consequence": "This text follows another failure. Look for an earlier error on another rank.",
    "death": "This text shows how the process ended, and seldom why. Look for an earlier error.",
    "generic": "Several causes print this text. Look for a more specific error in the same log.",
    "hint": "This text is a warning. It can precede a failure.",
    "noise": "This text is harmless.",
}
ROOT = Path(__file__).resolve().parents[1]
# Without those of the site where the pages are made.
PARTS = {
    title: found
    for title, entries in catalogue.PARTS.items()
    if (found := tuple(entry for entry in entries if not entry.origin))
}


def pages() -> dict[str, str]:
    """The text of each page, by its file name in docs/troubleshooting. ddpkit.md alone is written by hand."""
    found = {f"{slug(title)}.md": _page(title, entries) for title, entries in PARTS.items()}
    return {"index.md": _index(), **found}


def slug(title: str) -> str:
    """The name of a page, or the anchor of a heading."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-")


def _index() -> str:
    """TROUBLESHOOTING.md, then all entries."""
    guide = (
        (ROOT / "TROUBLESHOOTING.md").read_text().replace("](docs/troubleshooting/", "](").replace("](docs/", "](../")
    )
    lines = [
        guide,
        f"## All {sum(map(len, PARTS.values()))} known failures",
        "",
        "`ddpkit explain LOG` searches them.",
        "",
    ]
    for title, entries in PARTS.items():
        lines += ["", f"### {title}", "", "| I see | entry |", "|---|---|"]
        lines += [f"| {_cell(entry.title)} | [`{entry.id}`]({_target(entry)}) |" for entry in entries]
    return "\n".join(lines) + "\n"


def _target(entry: Entry) -> str:
    return f"{slug(category(entry))}.md#{entry.id}"


# ---- a category


def _page(title: str, entries: tuple[Entry, ...]) -> str:
    lines = [f"# {title}", "", "`ddpkit explain ID` prints an entry in the terminal.", ""]
    for entry in entries:
        lines += [f'<a id="{entry.id}"></a>', "", f"## {_title(entry.title)}", "", f"Id: `{entry.id}`", ""]
        if entry.id in EXAMPLES:
            lines += ["```text", *(text.strip() for text, _ in EXAMPLES[entry.id][:2]), "```", ""]
        lines += [_cause(entry), ""]
        if entry.kind in KINDS:
            lines += [KINDS[entry.kind], ""]
        lines += [*_steps(entry), f"More: <{entry.link}>", ""]
    return "\n".join(lines)


def _cause(entry: Entry) -> str:
    return f"**Cause.** {_plain(_sentence(filled(entry.cause, None)))}"


def _steps(entry: Entry) -> Iterator[str]:
    """The lines of the check and the fix: a code block for commands, a paragraph for a text."""
    for label, text in (("Check", filled(entry.probe, None)), ("Fix", filled(entry.fix, None))):
        if not text:
            continue
        block = code_lines(text)
        if block:
            yield from (f"**{label}.**", "", "```sh", *block, "```", "")
        else:
            yield from (f"**{label}.** {_plain(_sentence(_with_code(text)))}", "")


# ---- commands in a text

_PROGRAMS = frozenset(
    """
    apt-get cat chmod chronyc command conda curl date ddpkit deepspeed df dmesg docker du echo env export fi_info file
    free gcc getent grep head ibstat id ip last ldconfig ldd ls lscpu lsmod lspci mount mpirun munge nc
    ninja nproc nvcc nvidia-smi pdsh perfquery pgrep
    pip ping ps py-spy python quota ray rm sacct sacctmgr sbatch scontrol sha256sum show_gids sinfo squeue srun ss ssh
    ssh-copy-id ssh-keygen strings sudo sysctl systemctl taskset torchrun ulimit uname unset
    """.split()
)
_PROSE = frozenset("a an and as at by for from if in of on or started that the then to when where which with".split())
_PLACE = re.compile(r"((?:on|in|two ranks of|the same way|as administrator)\b[^:'\"]*|the same way): (.+)", re.DOTALL)


def code_lines(text: str) -> list[str] | None:
    """The lines of a code block, each place as a comment. None for a text that is not commands alone."""
    lines: list[str] = []
    for part in _parts(text):
        place = _PLACE.fullmatch(part)
        command = place[2] if place else part
        if not _is_command(command):
            return None
        lines += [f"# {place[1]}"] if place else []
        lines.append(command)
    return lines


def _parts(text: str) -> list[str]:
    """The parts of a text between semicolons that are outside of quotes and of backticks."""
    return [part.strip() for part in re.findall(r"""(?:'[^']*'|"[^"]*"|`[^`]*`|[^;'"`]|['"])+""", text)]


def _is_command(text: str) -> bool:
    words = re.sub(r"""'[^']*'|"[^"]*"|\$\([^)]*\)""", "QUOTED", text).split()
    if (
        not words
        or "`" in text
        or (words == [words[0]] and words[0] in _VERBS)
        or (words[0] not in _PROGRAMS and not re.match(r"[A-Z_]+=\S", words[0]))
    ):
        return False
    return not (
        _PROSE & set(words)
        or re.search(r"[`(]|[,:.]$", " ".join(words))
        or any(w[-1] in ",:." and w not in (".", "...") for w in words)
    )


def _with_code(text: str) -> str:
    """A text whose commands are shown as code: a part between semicolons, or the beginning of one."""
    return "; ".join(_part_with_code(part) for part in _parts(text))


def _part_with_code(part: str) -> str:
    for end in ("$", r"\. ", ", ", " shows ", r" \(", ": "):
        found = re.search(end, part)
        head = part[: found.start()] if found else ""
        if found and _is_command(head) and (" " in head or end == "$"):
            return f"`{head}`{part[found.start() :]}"
    return part


_VERBS = frozenset("export mount unset".split())  # also programs


def _sentence(text: str) -> str:
    """A text with a full stop, and a capital letter at its beginning unless a name or a command stands there."""
    first, _, rest = text.partition(" ")
    name = (
        not re.fullmatch(r"[a-z][a-z'-]*[,.]?", first)
        or (first in _PROGRAMS - _VERBS)
        or re.match(r"[=+/$]|-[a-z] ", rest)
    )
    text = text if name else text[0].upper() + text[1:]
    return text if text[-1] in ".?!" else f"{text}."


# Options, variables, functions and paths in a text.
_NAME = re.compile(
    r"""(?<![\w`/~.-])(
        --[a-z][\w-]*(?:=[^\s,;)]*[^\s,;).])?
      | [A-Za-z][\w.]*_[\w.]*\w(?:=+[^\s,;)]*[^\s,;).])?(?:\((?:[^()]|\([^()]*\))*\))?
      | ~?(?:/[\w.*-]+)*/[\w.*-]*[\w*]
      )(?![\w`])""",
    re.VERBOSE,
)


def _plain(text: str, names: bool = True) -> str:
    """Text as Markdown: options, variables and paths as code, everything else as it stands."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        pieces = _NAME.split(parts[index]) if names else [parts[index]]
        pieces[::2] = [_escaped(piece) for piece in pieces[::2]]
        pieces[1::2] = [f"`{piece}`" for piece in pieces[1::2]]
        parts[index] = "".join(pieces)
    text = "".join(part if index % 2 == 0 else f"`{part}`" for index, part in enumerate(parts))
    return text.replace("` `", " ")  # an option and its value


def _escaped(text: str) -> str:
    return re.sub(r"([*_\[\]])", r"\\\1", text).replace("<", "&lt;")


def _title(text: str) -> str:
    """A title, which is text that a program printed."""
    return _plain(text, names=False)


def _cell(text: str) -> str:
    return _title(text).replace("|", "\\|")
