"""Arguments of `launch`, `test` and `bench`, in ddpkit's own form.

Options of the backend are flags as well, under SLURM also with sbatch's letters. The order does not matter, because
the backend is found first. torchrun's flags are translated. Without `--`, the script begins at the first argument that
can only be a script. An error comes with the whole corrected command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ddpkit.cli import slurm_flags, torchrun_flags
from ddpkit.cli.hints import command_line
from ddpkit.cli.misplaced import check_host, check_script
from ddpkit.cli.request import Request
from ddpkit.cli.typed_line import Flags, TypedLine, split_option
from ddpkit.cli.unknown_options import unknown_option
from ddpkit.errors import UsageError


def translate(words: Sequence[str], script: Sequence[str] | None, commands: Mapping[str, Flags]) -> Request:
    """Read a command line. `commands`: all of them, with their options. Raises UsageError.

    `words` begin with the command; `script` is everything after `--`, or None without `--`.
    """
    return _Reader(words, script, commands).read()


class _Reader(TypedLine):
    def __init__(self, words: Sequence[str], script: Sequence[str] | None, commands: Mapping[str, Flags]) -> None:
        super().__init__(words, script, commands)
        self.sbatch: list[str] = []  # more options for it
        self.hosts: list[str] = []
        self._find_backend()

    def _find_backend(self) -> None:
        """Find -b and --profile, anywhere before the script."""
        words = iter(zip(self.rest, [*self.rest[1:], ""], strict=False))
        named = False
        for word, following in words:
            name, equals, value = split_option(word)
            if not word.startswith("-") or word == "-":
                if named or self.is_script(word):
                    return
                continue
            flag = torchrun_flags.SHORT.get(name, name)
            named = named or flag in ("--module", "--no-python")
            takes = self.options.get(name, flag not in torchrun_flags.FLAGS and not following.endswith(".py"))
            takes = takes and not equals and following[:1] != "-"
            if takes:
                next(words, None)
            text = value.removeprefix("=") if equals else following
            if name in ("-b", "--backend"):
                self.request.typed_backend = text
            elif name == "--profile":
                self.request.profile = text

    def read(self) -> Request:
        request = self.request
        while self.rest:
            self.at = len(self.all) - len(self.rest)
            word = self.rest.pop(0)
            if word.startswith("-") and word != "-":
                self._option(word)
            elif request.scripted and self.is_script(word):
                self._begin(word)
            else:
                check_host(self, word)
                request.words.append(word)
                self.hosts.append(word)
        if "--module" in self.torchrun and request.script is not None:
            request.script.insert(0, "-m")
        elif self.torchrun.keys() & {"--module", "--no-python"} and request.script is None and request.scripted:
            what = "module" if "--module" in self.torchrun else "program"
            raise UsageError(f"the name of a {what} is missing", f"ddpkit {request.command} -n 2 -- -m pkg.train")
        torchrun_flags.apply(request, self.torchrun)
        self._add_sbatch()
        self._check_tasks()
        self._check_nested()
        return request

    # ---- words that are no options

    def _begin(self, word: str) -> None:
        if self.request.script is not None:
            words = [*self.request.words, "--", word, *self.rest, *self.tail[1:]]
            raise UsageError(f"{word} is in the place of a host; the script comes after `--`", command_line(words))
        check_script(self, word)
        self.request.script, self.rest = [word, *self.rest], []

    def _check_nested(self) -> None:
        """Refuse a launcher as the script."""
        from ddpkit.launchers.nested import find_launcher

        request = self.request
        nested = find_launcher(request.script) if request.scripted and request.script else None
        if nested and request.script and not request.settings.allow_nested:
            what = f"{nested.problem} (the setting allow_nested = true starts it anyway)"
            raise UsageError(what, self.with_script(request.script, nested))

    # ---- options

    def _option(self, word: str) -> None:
        name, equals, value = split_option(word)
        if word == "-np":
            name, equals, value = word, "", ""
        variable = value or (self.rest[0] if self.rest else "")
        if name == "-e" and "--env" in self.options and re.match(r"\w+=", variable):
            corrected = self.corrected(self.at, 1 if value else 2, ["--env", variable])
            raise UsageError(f"-e {variable.partition('=')[0]}: variables of the ranks are --env", corrected)
        if name in self.options and not self._is_of_sbatch(name, value):
            self._own(word, name, equals, value)
        elif not (self._of_backend(name, equals, value) or self._of_slurm(name, equals, value)):
            self._of_torchrun(name, equals, value)

    def _own(self, word: str, name: str, equals: str, value: str) -> None:
        """Take an option of the command, with its value."""
        words = [name + word[len(name) :] if equals else name]
        if self.options[name] and not equals and self.rest:
            value = self.rest.pop(0)
            if split_option(value)[0] in self.options and not re.fullmatch(r"-\d+", value):
                raise UsageError(
                    f"{name} needs a value, and {value} follows", self.corrected(self.at, 1, [name, "VALUE"])
                )
            words.append(value)
        self.request.given[name] = value
        if name == "--sync" and not equals:
            words = ["--sync=true"]
        if name in ("-N", "--nnodes"):
            self._check_nodes(value)
        if name in ("-n", "--nproc-per-node") and value in ("gpu", "cpu", "xpu"):
            words = ["--nproc-per-node", self._ranks(value)]
        if name == "-o" and "=" not in value and self.request.transport.slurm:
            stem, dot, ending = value.rpartition(".") if "." in value else (value, "", "")
            path = value if "%" in value else f"{stem}-%j{dot}{ending}"
            what = f"-o {value}: ddpkit's -o is KEY=VALUE, and sbatch's is --output"
            raise UsageError(what, self.corrected(self.at, 2, ["--output", path]))
        self.request.words += words

    def _ranks(self, value: str) -> str:
        """Translate torchrun's `gpu` and `cpu`."""
        if value == "gpu":
            self.request.note("-n gpu", "-n auto: one rank for each visible GPU, or 1")
            return "auto"
        raise UsageError(f"-n {value}: a number of ranks, or auto: one for each visible GPU", f"-n {os.cpu_count()}")

    def _value(self, name: str, equals: str, value: str) -> str:
        """The value of an option that needs one."""
        if equals:
            return value.removeprefix("=")
        if not self.rest:
            raise UsageError(f"{name} needs a value", f"{name} VALUE")
        return self.rest.pop(0)

    def _of_backend(self, name: str, equals: str, value: str) -> bool:
        """Take `--partition gpu` as `-o partition=gpu`, and sbatch's letters for it under SLURM."""
        request = self.request
        if request.transport.slurm:
            name = slurm_flags.LETTERS.get(name, name)
        key, negated = name.removeprefix("--").replace("-", "_"), False
        if name[:2] != "--" or name in torchrun_flags.VALUES:
            return False
        if key.startswith("no_") and key[3:] in request.options:
            key, negated = key[3:], True
        option = request.options.get(key)
        if option is None or (negated and not option.alone):
            return False
        text = ("false" if negated else option.alone) if option.alone and not equals else ""
        request.add_option(key, text or self._value(name, equals, value))
        return True

    def _is_of_sbatch(self, name: str, value: str) -> bool:
        """Tell whether a letter of ddpkit is sbatch's here: it has a value."""
        if name not in slurm_flags.BOTH or not self.request.scripted or not self.request.transport.slurm:
            return False
        following = value or (self.rest[0] if self.rest else "-")
        return not (following.startswith("-") or self.is_script(following))

    def _of_slurm(self, name: str, equals: str, value: str) -> bool:
        """Take an option of sbatch that is none of the backend's."""
        request = self.request
        if not request.transport.slurm:
            return False
        name = slurm_flags.LETTERS.get(name, name)
        if name in slurm_flags.SAME:
            own = slurm_flags.SAME[name]
            request.given[own] = self._value(name, equals, value)
            if own == "--nnodes":
                self._check_nodes(request.given[own])
            request.words += [own, request.given[own]]
        elif name == "--ntasks":
            self._tasks(self._value(name, equals, value))
        elif name in slurm_flags.PASSED:
            self.sbatch.append(f"{name}={self._value(name, equals, value)}")
        elif name in slurm_flags.PASSED_FLAGS:
            self.sbatch.append(name)
        elif name == "--jobid":
            job_id = self._value(name, equals, value)
            step = f"srun --jobid={job_id} --overlap --nodes=1 --ntasks=1"
            corrected = self.corrected(self.at, len(self.all) - len(self.rest) - self.at, [])
            raise UsageError(f"{name} {job_id}: ddpkit uses the allocation of its own shell", f"{step} {corrected}")
        elif name in slurm_flags.NOT_NEEDED and not equals:
            request.note(self.all[self.at], f"not needed; {slurm_flags.NOT_NEEDED[name]}")
        elif name in slurm_flags.REFUSED:
            what, instead = slurm_flags.REFUSED[name]
            text = self._value(name, equals, value)
            length = len(self.all) - len(self.rest) - self.at
            nodes, ranks = self._number_after("-N", "--nnodes", "--nodes"), self._number_after("-n", "--nproc-per-node")
            words = slurm_flags.replacement(name, instead, text, nodes or self._nodes(), ranks or 1)
            raise UsageError(f"{self.all[self.at]}: {what}", self.corrected(self.at, length, words))
        else:
            return False
        return True

    def _of_torchrun(self, name: str, equals: str, value: str) -> None:
        flag = torchrun_flags.SHORT.get(name, name)
        if name in ("-t", "-r") and self.request.transport.scheduled:
            name = self.request.backend.name
            raise UsageError(f"{flag[1:3]}: torchrun's {flag}, or an option of {name}?", f"ddpkit backends {name}")
        following = value or (self.rest[0] if self.rest else "")
        tee = re.fullmatch(r"-.*|[0-3]|\d+:[0-3](,\d+:[0-3])*", following) or self.is_script(following)
        if name == "-t" and self.request.transport.local and following and not tee:
            raise UsageError(f"-t {following}: --time is an option of backend slurm", self.with_backend("slurm"))
        if flag in torchrun_flags.FLAGS and not equals:
            self.torchrun[flag] = ""
        elif flag in torchrun_flags.VALUES:
            self.torchrun[flag] = self._value(name, equals, value)
        else:
            raise unknown_option(self, name, value)

    # ---- SLURM

    def _number_after(self, *names: str) -> int:
        """The number after one of these words, wherever in the command line; 0: none."""
        words = self.all[: self.all.index("--")] if "--" in self.all else self.all
        numbers = [number for word, number in pairwise(words) if word in names and number.isdecimal()]
        return int(numbers[-1]) if numbers else 0

    def _nodes(self) -> int:
        """The number of nodes, as far as it is known; else 1."""
        from ddpkit.execution.requested_nodes import number_of_nodes

        request = self.request
        text = request.given.get("-N") or request.given.get("--nnodes") or str(request.settings.nnodes or "")
        if text or not request.transport.slurm:
            return int(text) if text.isdecimal() else 1
        options = {**request.settings.options, "nodelist": request.option("nodelist")}
        return number_of_nodes(replace(request.settings, options=options), request.backend, os.environ) or 1

    def _nodes_of_tasks(self) -> int:
        """The nodes among which --ntasks is divided: -N, else the hosts, else the allocation, else the node list."""
        from ddpkit.execution.requested_nodes import scheduled_hosts
        from ddpkit.transports.local_facts import allocation
        from ddpkit.transports.slurm_nodes import count_listed

        request, settings = self.request, self.request.settings
        if request.given.keys() & {"-N", "--nnodes"} or settings.nnodes:
            return self._nodes()
        file = request.given.get("--hostfile", "" if self.hosts else settings.hostfile)
        names, _ = scheduled_hosts(replace(settings, hosts=tuple(self.hosts) or settings.hosts, hostfile=file))
        held = count_listed(os.environ.get("SLURM_JOB_NODELIST", "")) if allocation(os.environ) else 0
        return len(names) or held or self._nodes()

    def _check_nodes(self, value: str) -> None:
        """Refuse sbatch's MIN-MAX, with the number that a job can have."""
        if self.request.has_backend and self.request.transport.slurm and re.fullmatch(r"\d+-\d+", value):
            length = len(self.all) - len(self.rest) - self.at
            corrected = self.corrected(self.at, length, ["-N", value.partition("-")[2]])
            name = self.request.typed_backend or self.request.backend.name
            raise UsageError(f"-N {value}: backend {name} requires one number of nodes", corrected)

    def _tasks(self, value: str) -> None:
        """Take sbatch's --ntasks, which is the number of all ranks."""
        self.request.given["--ntasks"] = value

    def _check_tasks(self) -> None:
        """Divide --ntasks among the nodes; refuse a -n that can only be meant as sbatch's, the number of all ranks."""
        given, request = self.request.given, self.request
        if "--ntasks" in given:
            nodes, total = self._nodes_of_tasks(), given["--ntasks"]
            if not total.isdecimal() or int(total) % nodes:
                what = f"--ntasks {total}: not a multiple of the {nodes} nodes"
                raise UsageError(what, "--ntasks-per-node N: the ranks of each node")
            request.words += ["--nproc-per-node", str(int(total) // nodes)]
            return
        each = given.get("-n", "")
        if not (each.isdecimal() and request.has_backend and request.transport.slurm) or (nodes := self._nodes()) < 2:
            return
        count = request.option("gpus_per_node").rpartition(":")[2]
        if count.isdecimal() and int(each) > int(count):
            what = f"-n {each} is the number of ranks on each node, which has {count} GPUs"
            at = self.all.index("-n") if "-n" in self.all else 1
            raise UsageError(what, self.corrected(at, 2, ["--ntasks", each]))
        letters = any(word[:2] in slurm_flags.LETTERS.keys() - self.options.keys() for word in self.all)
        if given.keys() & {"-N", "--nnodes"} and not letters:
            return
        ranks = f"{each} rank{'' if each == '1' else 's'}"
        request.note(f"-n {each}", f"{ranks} on each of {nodes} nodes; sbatch's -n is --ntasks")

    def _add_sbatch(self) -> None:
        if self.sbatch:
            from ddpkit.launchers.shell import join

            self.request.add_option("sbatch", f"{self.request.option('sbatch')} {join(self.sbatch)}".strip())
