"""Launch plans and the backends that make them: pure. What a backend of your own needs is exported here."""

from ddpkit.launchers.containers import option
from ddpkit.launchers.plan import Job, Plan, World
from ddpkit.launchers.shell import quote

__all__ = ["Job", "Plan", "World", "option", "quote"]
