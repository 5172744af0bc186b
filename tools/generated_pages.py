"""Hook of the documentation site: it adds the pages that the code and the catalogue write.

The search lists pages about a subject before pages of known failures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BOOST = 0.25  # of 1: what hundreds of printed messages contain is seldom their subject


def pages() -> dict[str, str]:
    """The text of each generated page, by its path below docs."""
    sys.path += [str(ROOT / "tools"), str(ROOT / "tests/diagnosis")]  # mkdocs imports a hook by its path alone
    import reference
    import troubleshooting

    made = {"reference": reference.pages(), "troubleshooting": troubleshooting.pages()}
    return {f"{folder}/{name}": text for folder, found in made.items() for name, text in found.items()}


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if page.file.src_uri.startswith("troubleshooting/"):
        page.meta.setdefault("search", {})["boost"] = BOOST
    return markdown
