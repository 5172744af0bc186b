"""Launch plans and the backends that make them: pure. What a backend of your own needs is exported here."""

TYPE_CHECKING = False  # type checkers take it for typing's
if TYPE_CHECKING:
    from ddpkit.launchers.containers import option as option
    from ddpkit.launchers.plan import Job as Job
    from ddpkit.launchers.plan import Plan as Plan
    from ddpkit.launchers.plan import World as World
    from ddpkit.launchers.shell import quote as quote

__all__ = ["Job", "Plan", "World", "option", "quote"]
_PLACES = {"Job": "plan", "Plan": "plan", "World": "plan", "option": "containers", "quote": "shell"}


def __getattr__(name: str) -> object:
    """Import at the first use: many commands need one module of this room, and no plan."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
