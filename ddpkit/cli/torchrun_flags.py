"""Flags of torchrun on a command line of ddpkit: mapped, not needed, or refused, each with one line.

Also its form without `--`: the first word that can only be a script begins the script's own words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpkit.errors import UsageError

if TYPE_CHECKING:
    from ddpkit.config import LaunchSettings

# Flags that change nothing in a run of ddpkit, each with the reason.
_NOT_NEEDED = {
    "--rdzv-backend": "the ranks find each other: ddpkit chooses address and port",
    "--rdzv-endpoint": "the ranks find each other: ddpkit chooses address and port",
    "--rdzv-id": "every run has an id of its own",
    "--rdzv-conf": "the ranks find each other: ddpkit chooses address and port",
    "--monitor-interval": "the end of a rank is seen at once",
    "--start-method": "every rank is a program of its own",
    "--role": "the verdict names host and rank",
    "--local-addr": "the nodes are asked for the addresses by which they reach each other",
    "--redirects": "what a rank prints is shown, and kept in logs/RUN/rank_N.log",
    "--tee": "what a rank prints is shown, and kept in logs/RUN/rank_N.log",
    "--local-ranks-filter": "every rank is shown; `ddpkit logs RUN --rank N` shows one alone",
    "--duplicate-stdout-filters": "every line is shown; `ddpkit logs` chooses among them",
    "--duplicate-stderr-filters": "every line is shown; `ddpkit logs` chooses among them",
    "--logs-specs": "what a rank prints is shown, and kept in logs/RUN/rank_N.log",
    "--event-log-handler": "logs/RUN/run.json is the record of a run",
    "--signals-to-handle": "TERM, HUP and Ctrl-C end the ranks, USR1 and USR2 reach them",
}
_NOT_NEEDED_FLAGS = {
    "--use-env": "LOCAL_RANK is in the environment of every rank",
    "--run-path": "the script is run as it is",
}
# Flags that ddpkit cannot follow, each with the reason and a hint.
_REFUSED = {
    "--numa-binding": ("ddpkit binds no rank to processors", "-b slurm -o srun=--cpu-bind=cores, or numactl in front"),
    "--shutdown-timeout": ("the time between TERM and KILL has another name", "--grace SECONDS"),
}
_REFUSED_FLAGS = {
    "--virtual-local-rank": (
        "every rank keeps its own LOCAL_RANK",
        "a wrapper that sets CUDA_VISIBLE_DEVICES to LOCAL_RANK and LOCAL_RANK to 0",
    ),
}
_SHORT = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
_VALUES = {"--max-restarts", "--master-port", "--master-addr", "--node-rank", *_NOT_NEEDED, *_REFUSED}
_FLAGS = {"--module", "--no-python", "--standalone", *_NOT_NEEDED_FLAGS, *_REFUSED_FLAGS}
# Flags of other launchers, and ddpkit's for the same purpose.
_ELSEWHERE = {
    **dict.fromkeys(("--num-processes", "--num-gpus", "--np", "--ntasks-per-node", "--gpus", "--nproc"), "-n"),
    **dict.fromkeys(("--num-nodes", "--num-machines", "--nodes"), "-N"),
    **dict.fromkeys(("--machine-file", "--host-file"), "--hostfile"),
    **dict.fromkeys(("--host", "--hosts", "--include", "-H"), "-b ssh node1 node2"),
    "--main-process-port": "--master-port",
    "--main-process-ip": "--master-addr",
    "--machine-rank": "--node-rank",
}
# srun's and sbatch's one letter for an option of the backend.
_LETTERS = {"-p": "partition", "-A": "account", "-q": "qos", "-J": "job_name", "-C": "constraint", "-w": "nodelist"}
# Flags of accelerate and deepspeed that ddpkit does not need, each with the hint.
_ALONE = {
    **dict.fromkeys(("--multi-gpu", "--distributed-type"), "leave it out: -n is the number of ranks on each node"),
    "--mixed-precision": "it is the script's: behind `--`, or for Accelerate --env ACCELERATE_MIXED_PRECISION=bf16",
    "--gpu-ids": "CUDA_VISIBLE_DEVICES=0,1 in front of ddpkit, or --env CUDA_VISIBLE_DEVICES=0,1",
}


@dataclass
class Typed:
    """A command line in ddpkit's own words."""

    words: list[str]
    script: list[str] | None  # None: not named
    notes: list[str] = field(default_factory=list)


def translate(words: Sequence[str], script: Sequence[str] | None, options: Mapping[str, bool]) -> Typed:
    """Read a command line. `options`: the command's own, and whether each takes a value. Raises UsageError.

    `words` begin with the command; `script` is what stands behind `--`, None where there is no `--`.
    """
    return _Reader(words, script, options).read()


class _Reader:
    def __init__(self, words: Sequence[str], script: Sequence[str] | None, options: Mapping[str, bool]) -> None:
        self.command, *self.rest = words
        self.runs_script = not self.command.startswith("test")
        self.options = options
        self.typed = Typed([self.command], None if script is None else list(script))
        self.given: dict[str, str] = {}
        self.flags: dict[str, str] = {}  # torchrun's, as they were typed, with their values

    def read(self) -> Typed:
        while self.rest:
            word = self.rest.pop(0)
            if word.startswith("-") and word != "-":
                self._option(word)
            elif self.runs_script and self._is_script(word):
                self._begin(word)
            else:
                self.typed.words.append(word)
        if "--module" in self.flags and self.typed.script is not None:
            self.typed.script.insert(0, "-m")
        elif self.flags.keys() & {"--module", "--no-python"} and self.typed.script is None and self.runs_script:
            what = "module" if "--module" in self.flags else "program"
            raise UsageError(f"the name of a {what} is missing", f"ddpkit {self.command} -n 2 -- -m pkg.train ARGS")
        for flag, value in self.flags.items():
            self._mean(flag, value)
        return self.typed

    def _is_script(self, word: str) -> bool:
        """Whether a word is no host: hosts have no slash, and no name of a Python file."""
        named = self.flags.keys() & {"--module", "--no-python"} and self.typed.script is None
        return bool(named) or word.endswith(".py") or "/" in word

    def _begin(self, word: str) -> None:
        if self.typed.script is not None:
            from ddpkit.launchers.shell import join

            words = [*self.typed.words, "--", word, *self.rest, *self.typed.script]
            raise UsageError(f"{word} stands where hosts stand; the script comes behind `--`", f"ddpkit {join(words)}")
        self.typed.script, self.rest = [word, *self.rest], []

    def _option(self, word: str) -> None:
        long = word.startswith("--")
        name, equals, value = word.partition("=") if long else (word[:2], word[2:], word[2:])
        name = name.replace("_", "-") if long else name
        if name in self.options:
            self._own(word, name, equals, value)
            return
        flag = _SHORT.get(name, name)
        if flag in _FLAGS and not equals:
            self.flags[flag] = ""
        elif flag in _VALUES:
            if not equals and not self.rest:
                raise UsageError(f"{name} needs a value", f"{name} VALUE")
            self.flags[flag] = value.removeprefix("=") if equals else self.rest.pop(0)
        else:
            raise self._unknown(name, value)

    def _own(self, word: str, name: str, equals: str, value: str) -> None:
        """An option of the command, with its value."""
        words = [name + word[len(name) :] if equals else name]
        if self.options[name] and not equals and self.rest:
            value = self.rest.pop(0)
            words.append(value)
        self.given[name] = value
        if name in ("-n", "--nproc-per-node") and value in ("gpu", "cpu", "xpu"):
            words = ["--nproc-per-node", self._ranks(value)]
        self.typed.words += words

    def _ranks(self, value: str) -> str:
        """torchrun's `gpu` and `cpu`."""
        if value == "gpu":
            self._note("-n gpu", "-n auto: one rank for each visible GPU, or 1")
            return "auto"
        raise UsageError(f"-n {value}: a number of ranks, or auto: one for each visible GPU", f"-n {os.cpu_count()}")

    def _note(self, flag: str, text: str) -> None:
        self.typed.notes.append(f"{flag}: {text}")

    def _mean(self, flag: str, value: str) -> None:
        shown = f"{flag} {value}".rstrip()
        if flag in ("--module", "--no-python"):
            return
        if flag in _NOT_NEEDED or flag in _NOT_NEEDED_FLAGS:
            self._note(shown, f"not needed; {_NOT_NEEDED.get(flag) or _NOT_NEEDED_FLAGS[flag]}")
        elif flag in _REFUSED or flag in _REFUSED_FLAGS:
            what, hint = _REFUSED.get(flag) or _REFUSED_FLAGS[flag]
            raise UsageError(f"{shown}: {what}", hint)
        elif flag == "--node-rank":
            self._node_rank(shown, value)
        elif flag == "--standalone":
            self._standalone()
        elif flag == "--max-restarts":
            self._restarts(shown, value)
        else:
            self._address(flag, shown, value)

    def _node_rank(self, shown: str, value: str) -> None:
        nodes = self.given.get("-N") or self.given.get("--nnodes") or "1"
        if value != "0" or nodes not in ("1", "1:1"):
            raise UsageError(
                f"{shown}: ddpkit is typed once, and starts all nodes itself",
                f"ddpkit {self.command} -b ssh node1 node2 ..., or -b slurm -N 2: see `ddpkit backends`",
            )
        self._note(shown, "not needed; ddpkit starts all nodes itself")

    def _standalone(self) -> None:
        backend = self._backend()
        if not self._is_local(backend):
            raise UsageError(
                f"--standalone means this machine alone, and backend {backend.name} goes to others",
                "leave out --standalone, or -b local",
            )
        self._note("--standalone", "not needed; backend local is this machine alone, at a free port")

    def _restarts(self, shown: str, value: str) -> None:
        if value == "0":
            return
        if not self.runs_script:
            self._note(shown, "not needed; a test starts nothing again")
            return
        from ddpkit.launchers import registry

        backend = self._backend()
        known = {each.name: each for each in registry.options(backend)}
        if "max_restarts" not in known:
            raise UsageError(
                f"{shown}: backend {backend.name} starts no rank again by itself",
                "-o chain=3 starts the job again when its ranks exit with 75; -b ssh and local have max_restarts",
            )
        words = [f"max_restarts={value}"]
        if known["starter"].default == "ranks" and not self._chosen("starter"):
            words.insert(0, "starter=torchrun")
        self.typed.words += [word for each in words for word in ("-o", each)]
        self._note(shown, " ".join(f"-o {each}" for each in words))

    def _address(self, flag: str, shown: str, value: str) -> None:
        """--master-port, --master-addr."""
        from ddpkit.launchers import registry

        key = flag.removeprefix("--").replace("-", "_")
        backend = self._backend()
        if key in {each.name for each in registry.options(backend)}:
            self.typed.words += ["-o", f"{key}={value}"]
            return
        chosen = "a port that is free there" if key == "master_port" else "the address"
        where = "this machine" if self._is_local(backend) else "the job's first node"
        self._note(shown, f"not needed; the ranks meet on {where}, and ddpkit finds {chosen}")

    def _chosen(self, key: str) -> bool:
        typed = zip(self.typed.words, self.typed.words[1:], strict=False)
        if any(word in ("-o", "--option") and value.startswith(f"{key}=") for word, value in typed):
            return True
        return key in self._settings().options

    def _settings(self) -> LaunchSettings:
        from ddpkit import config

        return config.collect_settings(Path.cwd(), os.environ, self.given.get("--profile"), {})

    def _backend(self) -> Any:
        from ddpkit.launchers import registry

        typed = self.given.get("-b") or self.given.get("--backend")
        return registry.load(typed or self._settings().backend)

    @staticmethod
    def _is_local(backend: Any) -> bool:
        from ddpkit.transports.choose import transport_class

        return transport_class(backend).local

    def _unknown(self, name: str, value: str) -> UsageError:
        from ddpkit import errors
        from ddpkit.launchers import registry

        what = f"ddpkit {self.command} has no option {name}"
        if name in _ELSEWHERE:
            return UsageError(what, f"here it is {_ELSEWHERE[name]}")
        if name in _ALONE:
            return UsageError(what, _ALONE[name])
        key = _LETTERS.get(name, name.removeprefix("--").replace("-", "_"))
        if key in {each.name for each in registry.options(self._backend())}:
            given = value or (self.rest[0] if self.rest and not self.rest[0].startswith("-") else "VALUE")
            return UsageError(what, f"an option of the backend: -o {key}={given}")
        similar = errors.nearest(name, [each for each in (*self.options, *_VALUES, *_FLAGS) if each[:2] == "--"])
        behind = "words of the script stand behind `--`" if self.runs_script else f"ddpkit {self.command} --help"
        return UsageError(what, f"{similar} {behind}" if similar else behind)
