"""fabric and paramiko, imported without what a launch does not use of invoke: a launch should add next to nothing.

Both import invoke, which imports unittest.mock (and by it asyncio) for its `MockContext`, with which others test their
tasks, and a YAML parser for its settings files. Together they are a third of the time in which a launch by ssh imports.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["fabric", "paramiko"]


class _Later(ModuleType):
    """Stands for a module: each of its names is a function, and the module is imported when one is called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return partial(self._call, name)

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(self.__name__), name)(*args, **kwargs)


@contextmanager
def _later(*names: str) -> Iterator[None]:
    """Inside, an import of these modules gives a stand-in; where one is known already, nothing changes."""
    missing = [name for name in names if name not in sys.modules]
    sys.modules.update((name, _Later(name)) for name in missing)
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


with _later("unittest.mock", "invoke.vendor.yaml"):
    import fabric
    import paramiko
