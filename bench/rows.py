"""Rows of figures, as programs of this directory print them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print one JSON list, or a line for each row."""
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(", ".join(f"{name} {value}" for name, value in row.items()))
