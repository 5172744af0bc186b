"""Files that `ddpkit init` writes. A wheel has them here; a clone has them where they are used, in the repository."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "templates", _PACKAGE.parent)


def find(part: str) -> Path:
    """Return the file of a template, for example `config/default.yaml`."""
    return next(place / part for place in _PLACES if (place / part).exists())
