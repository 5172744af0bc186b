"""Hook of the documentation site: its search lists pages about a subject before pages of known failures."""

from __future__ import annotations

from typing import Any

BOOST = 0.25  # of 1: what hundreds of printed messages contain is seldom their subject


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if page.file.src_uri.startswith("troubleshooting/"):
        page.meta.setdefault("search", {})["boost"] = BOOST
    return markdown
