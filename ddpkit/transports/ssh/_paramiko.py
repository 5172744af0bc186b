"""fabric and paramiko, imported without what they import for tests alone: a launch should add next to nothing.

Both import invoke, which imports unittest.mock for its `MockContext`, with which others test their tasks; and by it
asyncio: a fifth of the time in which a launch by ssh imports. Nobody here makes a `MockContext`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

__all__ = ["fabric", "paramiko"]


@contextmanager
def _without_mock() -> Iterator[None]:
    """Inside, `from unittest.mock import Mock` gives a stand-in; where it is known already, nothing changes."""
    name = "unittest.mock"
    if name in sys.modules:
        yield
        return
    module = ModuleType(name)
    module.Mock = object  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        yield
    finally:
        del sys.modules[name]


with _without_mock():
    import fabric
    import paramiko
