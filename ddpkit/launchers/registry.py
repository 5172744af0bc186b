"""Backends by name. A backend is one frozen dataclass with one pure method. Its fields are its `-o` options.

    @dataclass(frozen=True, kw_only=True)
    class Mine:
        \"\"\"The line that `ddpkit backends` shows.\"\"\"

        name: ClassVar[str] = "mine"
        reach: ClassVar[str] = "local"  # local, ssh, pdsh, slurm or scheduler: see `ddpkit.transports.choose`
        needs: ClassVar[str] = "programs that must be installed, and where"
        queue: str = option("", "one line of documentation")  # str, int, float, bool or a Literal

        def plan(self, job: Job, world: World) -> Plan: ...

`plan` gets a `World` from local, ssh and pdsh, and a `Request` from slurm and scheduler. A backend that reaches nodes
by ssh or pdsh may have the fields of `ddpkit.launchers.backends.NodeOptions`; one that it lacks has its default. One
that submits jobs also has `scheduler: ClassVar[Scheduler]`: other commands find it there by the backend's name. No base
class is needed. The entry-point group `ddpkit.launchers` adds backends. A backend is imported when its name is used.
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from ddpkit.errors import UsageError, nearest, similar

if TYPE_CHECKING:  # many commands look up a backend's name alone
    from ddpkit.launchers.plan import Job, Plan, Scheduler

GROUP = "ddpkit.launchers"
_BUILT_IN = {
    "local": "ddpkit.launchers.backends:Local",
    "ssh-torchrun-auto": "ddpkit.launchers.backends:SshTorchrunAuto",
    "pdsh": "ddpkit.launchers.backends:Pdsh",
    "legacy": "ddpkit.launchers.backends:Legacy",
    "slurm-srun": "ddpkit.launchers.slurm:SlurmSrun",
    "slurm-torchrun": "ddpkit.launchers.slurm:SlurmTorchrun",
}
_ALIASES = {"slurm": "slurm-srun", "ssh": "ssh-torchrun-auto"}


class Launcher(Protocol):
    """A backend. The world of its plan is a `World` or a `Request`, as its reach says."""

    name: ClassVar[str]
    reach: ClassVar[str]
    needs: ClassVar[str]

    def plan(self, job: Job, world: Any) -> Plan:
        """Return all that will run. Pure: the same job and world always give the same plan."""


class Option(NamedTuple):
    """One `-o NAME=VALUE` of a backend."""

    name: str
    kind: Any  # str, int, float, bool or a Literal
    default: Any
    doc: str
    alone: str = ""  # the value that `--name` without a value stands for; empty: it needs one

    @property
    def values(self) -> str:
        """The values that may be given, for people."""
        if typing.get_origin(self.kind) is Literal:
            return " | ".join(typing.get_args(self.kind))
        return {bool: "true | false", int: "an integer", float: "a number"}.get(self.kind, "text")

    def example(self, text: str) -> str:
        """A value that may be given instead of `text`."""
        if typing.get_origin(self.kind) is Literal:
            allowed = typing.get_args(self.kind)
            return similar(text.lower(), allowed) or str(allowed[0])
        return "true" if self.kind is bool else str(self.default or 1)


def _plug_ins() -> dict[str, str]:
    import importlib.metadata  # reads every installed package: only for names that are not built in

    return {entry.name: entry.value for entry in importlib.metadata.entry_points(group=GROUP)}


def names() -> list[str]:
    """The names of all backends, built in and plugged in."""
    return sorted({*_BUILT_IN, *_plug_ins()})


def aliases() -> Mapping[str, str]:
    """Shorter names of some backends, each with the whole one."""
    return _ALIASES


def short_name(name: str) -> str:
    """The shortest name of a backend that `-b` takes."""
    return next((short for short, whole in _ALIASES.items() if whole == name), name)


# Programs that are no backends, and the options that use them.
_MEANT = {
    **dict.fromkeys(("torchrun", "torch", "elastic"), "add -b local --starter torchrun"),
    **dict.fromkeys(("srun", "sbatch", "salloc"), "add -b slurm"),
    **dict.fromkeys(("mpi", "mpirun", "openmpi", "accelerate", "deepspeed", "none"), "add -b ssh"),
    **dict.fromkeys(("gpu", "cuda", "nccl", "gloo"), "ddpkit backends"),
}


def load(name: str) -> type[Any]:
    """Import the class of a backend. A built-in name cannot be taken by a plug-in."""
    name = _ALIASES.get(name, name)
    target = _BUILT_IN.get(name) or _plug_ins().get(name)
    if target is None:
        meant = similar(name, [*names(), *_ALIASES])
        hint = _MEANT.get(name) or (f"add -b {meant}" if meant else "ddpkit backends")
        raise UsageError(f"backend {name!r} not found", hint)
    module, _, attribute = target.partition(":")
    try:
        backend: type[Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"backend {name!r} cannot be loaded from {target}: {error}") from error
    return backend


def scheduler_of(name: str) -> Scheduler:
    """Return the commands of a backend's scheduler. Raises UsageError for a backend that is not there, or has none."""
    from ddpkit.launchers.plan import Scheduler

    scheduler = getattr(load(name), "scheduler", None)
    if not isinstance(scheduler, Scheduler):
        raise UsageError(f"backend {name!r} has no `scheduler`, by which its jobs can be queried and stopped")
    return scheduler


def options(backend: type[Any]) -> list[Option]:
    """The options of a backend, from its fields."""
    kinds = typing.get_type_hints(backend)
    return [
        Option(
            name=entry.name,
            kind=kinds[entry.name],
            default=None if entry.default is MISSING else entry.default,
            doc=entry.metadata.get("doc", ""),
            alone=entry.metadata.get("alone") or ("true" if kinds[entry.name] is bool else ""),
        )
        for entry in fields(backend)
    ]


def backends_with(key: str) -> list[str]:
    """The built-in backends that have this option, by their shorter names."""
    usual = {"slurm-srun": "slurm", "ssh-torchrun-auto": "ssh", "local": "local", "pdsh": "pdsh"}
    return [short for name, short in usual.items() if any(each.name == key for each in options(load(name)))]


def build(backend: type[Any], given: Mapping[str, object]) -> Launcher:
    """Make a backend with options, each checked against its field's type."""
    known = {option.name: option for option in options(backend)}
    values = {}
    for word, value in given.items():
        name = word.replace("-", "_")
        if name not in known:
            others = backends_with(name)
            hint = f"add -b {others[0]}" if others else nearest(name, known)
            raise UsageError(
                f"backend {backend.name!r} has no option {name!r}", hint or f"ddpkit backends {backend.name}"
            )
        values[name] = _parse(backend.name, known[name], value)
    made: Launcher = backend(**values)
    return made


def _parse(backend: str, option: Option, value: object) -> Any:
    """A value from the command line is text; one from a TOML file has its own type already."""
    text = str(value)
    if option.kind is bool:
        if text.lower() in ("true", "yes", "on", "1"):
            return True
        if text.lower() in ("false", "no", "off", "0"):
            return False
    elif option.kind in (int, float):
        try:
            return option.kind(text)
        except ValueError:
            pass
    elif typing.get_origin(option.kind) is Literal:
        if text in typing.get_args(option.kind):
            return text
    else:
        return text
    what = f"-o {option.name}={text}: backend {backend!r} requires {option.values}"
    raise UsageError(what, f"add -o {option.name}={option.example(text)}")
