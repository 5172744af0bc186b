"""Printed texts that lead to an entry of the catalogue: for each id, pairs of a text and its source.

Each module here has the name of the catalogue's module whose entries it is for. A source is a public link, or a version
and one of `run`, `source` and `documented`: "torch 2.6, run".
"""

import importlib
import pkgutil

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {}
for _info in pkgutil.iter_modules(__path__):
    _examples = importlib.import_module(f"{__name__}.{_info.name}").EXAMPLES
    assert EXAMPLES.keys().isdisjoint(_examples), f"{_info.name}: the id has examples in another module"
    EXAMPLES |= _examples
