"""Files that `ddpkit init` writes. A wheel has them here; a clone has them where they are used, in the repository."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "templates", _PACKAGE.parent)
_ELSEWHERE = {"test_distributed.py": _PACKAGE / "distributed" / "check.py"}


def find(part: str) -> Path:
    """Return the file or directory of a template, for example `scripts/ssh`."""
    return _ELSEWHERE.get(part) or next(place / part for place in _PLACES if (place / part).exists())
