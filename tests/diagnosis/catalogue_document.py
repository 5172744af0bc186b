"""The catalogue as text for TROUBLESHOOTING.md; headings are symptoms."""

from __future__ import annotations

import re

from catalogue_examples import EXAMPLES

from ddpkit.diagnosis.catalogue import PARTS
from ddpkit.diagnosis.catalogue.entry import Entry, filled

MARK = "<!-- What follows comes from ddpkit/diagnosis/catalogue: `make golden` writes it. -->"


def document() -> str:
    """Everything below the mark."""
    lines = [MARK, ""]
    for title, entries in PARTS.items():
        lines += [f"## {title}", ""]
        for entry in entries:
            lines += _entry(entry)
    return "\n".join(lines)


def _entry(entry: Entry) -> list[str]:
    lines = [f"### {_plain(entry.title)}", ""]
    if entry.id in EXAMPLES:
        lines += ["```text", *(text.strip() for text, _ in EXAMPLES[entry.id][:2]), "```", ""]
    harmless = "Harmless: " if entry.kind == "noise" else ""
    lines.append(f"{harmless}{_plain(filled(entry.cause, {}))}.")
    lines += [f"- Look: {_plain(filled(entry.probe, {}))}", f"- Fix: {_plain(filled(entry.fix, {}))}"]
    lines += [f"- More: <{entry.link}> (`{entry.id}`)", ""]
    return lines


def _plain(text: str) -> str:
    """Text that Markdown shows as it stands; what stands between backticks is shown so anyway."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*<_\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
