"""Arguments of `launch`, `emit`, `test` and `bench`, in ddpkit's own form.

Options of the backend are flags as well, under SLURM also with sbatch's letters. The order does not matter, because
the backend is found first. torchrun's flags are translated. Without `--`, the script begins at the first argument that
can only be a script. An error comes with the whole corrected command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath

from ddpkit.cli import slurm_flags, torchrun_flags
from ddpkit.cli.hints import command_line
from ddpkit.cli.request import Request
from ddpkit.errors import OWN_OPTIONS, UsageError, similar

# Flags of other launchers, and ddpkit's for the same purpose.
_ELSEWHERE = {
    **dict.fromkeys(("--num-processes", "--num-gpus", "--np", "-np", "--ntasks-per-node", "--gpus", "--nproc"), "-n"),
    **dict.fromkeys(("--num-nodes", "--num-machines", "--nodes"), "-N"),
    **dict.fromkeys(("--machine-file", "--machinefile", "--host-file"), "--hostfile"),
    **dict.fromkeys(("--cwd", "--chdir", "--working-dir"), "--workdir"),
    **dict.fromkeys(("--retry", "--max-retries"), "--retries"),
    "--main-process-port": "--master-port",
    "--main-process-ip": "--master-addr",
    "--machine-rank": "--node-rank",
}
_HOSTS = ("--host", "--hosts", "--include", "-H")
_ENVIRONMENTS = ("--venv", "--virtualenv", "--conda-prefix")
# Flags of accelerate and deepspeed that ddpkit does not need, each with the hint.
_ALONE = {
    **dict.fromkeys(("--multi-gpu", "--distributed-type"), "leave it out: -n is the number of ranks on each node"),
    "--mixed-precision": "it is the script's: after `--`, or for Accelerate --env ACCELERATE_MIXED_PRECISION=bf16",
    "--gpu-ids": "--env CUDA_VISIBLE_DEVICES=0,1",
}


Flags = Mapping[str, bool]  # the options of a command, and whether each takes a value


def translate(words: Sequence[str], script: Sequence[str] | None, commands: Mapping[str, Flags]) -> Request:
    """Read a command line. `commands`: all of them, with their options. Raises UsageError.

    `words` begin with the command; `script` is everything after `--`, or None without `--`.
    """
    return _Reader(words, script, commands).read()


class _Reader:
    def __init__(self, words: Sequence[str], script: Sequence[str] | None, commands: Mapping[str, Flags]) -> None:
        command, *self.rest = words
        self.all = list(words)
        self.commands = commands
        self.options = commands[command]
        self.request = Request(command, [command], None if script is None else list(script))
        self.torchrun: dict[str, str] = {}  # its flags, with their values
        self.sbatch: list[str] = []  # more options for it
        self.at = 1  # the index of the word that is read
        self._find_backend()

    def _find_backend(self) -> None:
        """Find -b and --profile, anywhere before the script."""
        words = iter(zip(self.rest, [*self.rest[1:], ""], strict=False))
        named = False
        for word, following in words:
            name, equals, value = _split(word)
            if not word.startswith("-") or word == "-":
                if named or self._is_script(word):
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
            elif request.scripted and self._is_script(word):
                self._begin(word)
            else:
                self._check_host(word)
                request.words.append(word)
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

    def _is_script(self, word: str) -> bool:
        """Tell whether a word is no host: hosts have no slash, and no name of a Python file."""
        named = self.torchrun.keys() & {"--module", "--no-python"}
        return bool(named and self.request.script is None) or word.endswith(".py") or "/" in word

    def _begin(self, word: str) -> None:
        if self.request.script is not None:
            words = [*self.request.words, "--", word, *self.rest, *self.request.script]
            raise UsageError(f"{word} is in the place of a host; the script comes after `--`", command_line(words))
        for late in [each for each in self.rest if each in OWN_OPTIONS]:
            self.request.note(
                late, "comes after the script, and is passed to it; put ddpkit's options before the script"
            )
        self.request.script, self.rest = [word, *self.rest], []

    def _check_host(self, word: str) -> None:
        """Refuse a word that is no host."""
        from ddpkit.execution.job import check_batch_script
        from ddpkit.launchers.nested import find_launcher, names_program

        request = self.request
        if (request.command, word) == ("bench", "start") and request.has_backend and not request.transport.names_nodes:
            rest = self.all[self.at + 1 :]
            raise UsageError(
                "start comes directly after bench", command_line(["bench start", *self.all[1 : self.at], *rest])
            )
        if (
            not request.typed_backend
            and request.has_backend
            and not request.transport.names_nodes
            and _is_backend(word)
        ):
            raise UsageError(f"{word} is a backend, not a host", self._corrected(self.at, 1, ["-b", word]))
        if not request.scripted:
            return
        check_batch_script(Path(), [word, *self.rest], allowed="--allow-nested" in request.given)
        local = not request.has_backend or request.transport.local
        if local and "." not in word and Path(f"{word}.py").is_file():
            what = f"{word} is in the place of a host, and {word}.py is a script"
            raise UsageError(what, self._corrected(self.at, 1, [f"{word}.py"]))
        if _ranks_of(word) and request.has_backend and request.transport.names_nodes:
            raise UsageError(f"{word}: {_ranks_of(word)} is not the port of an SSH server", self._ranks_for_ports())
        flag = self.all[self.at - 1]
        if (flag == "--preload" and (word == "torch" or "," in word)) or (flag == "--stage" and word == "env"):
            what = f"{word} is in the place of a host; the form is {flag}={'env' if word == 'env' else 'MODULES'}"
            raise UsageError(what, self._corrected(self.at - 1, 2, [f"{flag}={word}"]))
        if word.isdecimal():
            raise UsageError(f"{word} is in the place of a host", self._corrected(self.at, 1, ["-n", word]))
        if request.has_backend and not request.transport.names_nodes and Path(word).is_file():
            what = f"`{word}` is a file here, not a host"
            raise UsageError(what, command_line([*request.words, "--", word, *self.rest, *(request.script or ())]))
        program = names_program(word)
        if program or not (not request.has_backend or request.transport.names_nodes or _is_this_machine(word)):
            if not program and not _is_program(word):
                return  # a host, for which the backend is the wrong one
            words = [word, *self.rest, *(request.script or ())]
            what = f"`{word}` is a program, not a host"
            nested = find_launcher(words)
            raise UsageError(nested.problem if nested else what, self._with_script(words, nested))

    def _ranks_for_ports(self) -> str:
        """The command line with `node1 node2 -n 2` for `node1:2 node2:2`, which mpirun takes."""
        end = next((at for at, word in enumerate(self.all) if at >= self.at and self._is_script(word)), len(self.all))
        options = self.all[1:end]
        ranks = [count for count in map(_ranks_of, options) if count]
        hosts = [word.rpartition(":")[0] if _ranks_of(word) else word for word in options]
        number = ranks[0] if len(set(ranks)) == 1 else ",".join(ranks)
        script = [] if self.request.script is None else ["--", *self.request.script]
        return command_line([self.all[0], *hosts, "-n", number, *self.all[end:], *script])

    def _with_script(self, words: Sequence[str], nested: object) -> str:
        """The command line with these words as the script, or with the script that a launcher among them starts."""
        from ddpkit.launchers.nested import Nested, plain_script

        request = self.request
        head, script = list(request.words), plain_script(words)
        if isinstance(nested, Nested):
            script = nested.script or (_default_script(),)
            known = nested.count and (nested.per_node or request.transport.local)
            if known and not request.given.keys() & {"-n", "--nproc-per-node"}:
                head += ["-n", nested.count]
        return command_line([*head, "--", *script])

    def _check_nested(self) -> None:
        """Refuse a launcher as the script."""
        from ddpkit.launchers.nested import find_launcher

        request = self.request
        if not (request.scripted and request.script) or "--allow-nested" in request.given:
            return
        nested = find_launcher(request.script)
        if nested:
            what = f"{nested.problem} (--allow-nested starts it anyway)"
            raise UsageError(what, self._with_script(request.script, nested))

    # ---- options

    def _option(self, word: str) -> None:
        name, equals, value = _split(word)
        if word == "-np":
            name, equals, value = word, "", ""
        variable = value or (self.rest[0] if self.rest else "")
        if name == "-e" and "--env" in self.options and re.match(r"\w+=", variable):
            corrected = self._corrected(self.at, 1 if value else 2, ["--env", variable])
            raise UsageError(f"-e {variable}: variables of the ranks are --env", corrected)
        if name in self.options and not self._is_ambiguous(name, value):
            self._own(word, name, equals, value)
        elif not (self._of_backend(name, equals, value) or self._of_slurm(name, equals, value)):
            self._of_torchrun(name, equals, value)

    def _own(self, word: str, name: str, equals: str, value: str) -> None:
        """Take an option of the command, with its value."""
        words = [name + word[len(name) :] if equals else name]
        if self.options[name] and not equals and self.rest:
            value = self.rest.pop(0)
            if _split(value)[0] in self.options and not re.fullmatch(r"-\d+", value):
                raise UsageError(
                    f"{name} needs a value, and {value} follows", self._corrected(self.at, 1, [name, "VALUE"])
                )
            words.append(value)
        self.request.given[name] = value
        if name in ("-n", "--nproc-per-node") and value in ("gpu", "cpu", "xpu"):
            words = ["--nproc-per-node", self._ranks(value)]
        if name == "-o" and "=" not in value:
            if "--output" in self.options:
                words = ["--output", value]
            elif self.request.transport.slurm:
                stem, dot, ending = value.rpartition(".") if "." in value else (value, "", "")
                path = value if "%" in value else f"{stem}-%j{dot}{ending}"
                what = f"-o {value}: ddpkit's -o is KEY=VALUE, and sbatch's is --output"
                raise UsageError(what, self._corrected(self.at, 2, ["--output", path]))
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

    def _is_ambiguous(self, name: str, value: str) -> bool:
        """Tell whether a letter of ddpkit is sbatch's here. Raises UsageError if the request is ambiguous."""
        if name not in slurm_flags.AMBIGUOUS or not self.request.scripted or not self.request.transport.slurm:
            return False
        following = value or (self.rest[0] if self.rest else "-")
        if following.startswith("-") or self._is_script(following):
            own, theirs = slurm_flags.AMBIGUOUS[name]
            what = f"{name} is {own} in ddpkit, and {theirs} in sbatch"
            raise UsageError(what, self._corrected(self.at, 1, [own]))
        return True

    def _of_slurm(self, name: str, equals: str, value: str) -> bool:
        """Take an option of sbatch that is none of the backend's."""
        request = self.request
        if not request.transport.slurm:
            return False
        name = slurm_flags.LETTERS.get(name, name)
        if name in slurm_flags.SAME:
            own = slurm_flags.SAME[name]
            request.given[own] = self._value(name, equals, value)
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
            corrected = self._corrected(self.at, len(self.all) - len(self.rest) - self.at, [])
            raise UsageError(f"{name} {job_id}: ddpkit uses the allocation of its own shell", f"{step} {corrected}")
        elif name in slurm_flags.NOT_NEEDED and not equals:
            request.note(self.all[self.at], f"not needed; {slurm_flags.NOT_NEEDED[name]}")
        elif name in slurm_flags.REFUSED:
            what, instead = slurm_flags.REFUSED[name]
            text = self._value(name, equals, value)
            length = len(self.all) - len(self.rest) - self.at
            nodes, ranks = self._number_after("-N", "--nnodes", "--nodes"), self._number_after("-n", "--nproc-per-node")
            words = slurm_flags.replacement(name, instead, text, nodes or self._nodes(), ranks or 1)
            raise UsageError(f"{self.all[self.at]}: {what}", self._corrected(self.at, length, words))
        else:
            return False
        return True

    def _of_torchrun(self, name: str, equals: str, value: str) -> None:
        flag = torchrun_flags.SHORT.get(name, name)
        if name in ("-t", "-r") and self.request.transport.scheduled:
            name = self.request.backend.name
            raise UsageError(f"{flag[1:3]}: torchrun's {flag}, or an option of {name}?", f"ddpkit backends {name}")
        following = value or (self.rest[0] if self.rest else "")
        tee = re.fullmatch(r"-.*|[0-3]|\d+:[0-3](,\d+:[0-3])*", following) or self._is_script(following)
        if name == "-t" and self.request.transport.local and following and not tee:
            raise UsageError(f"-t {following}: --time is an option of backend slurm", self._with_backend("slurm"))
        if flag in torchrun_flags.FLAGS and not equals:
            self.torchrun[flag] = ""
        elif flag in torchrun_flags.VALUES:
            self.torchrun[flag] = self._value(name, equals, value)
        else:
            raise self._unknown(name, value)

    # ---- SLURM

    def _number_after(self, *names: str) -> int:
        """The number after one of these words, wherever in the command line; 0: none."""
        words = self.all[: self.all.index("--")] if "--" in self.all else self.all
        numbers = [number for word, number in pairwise(words) if word in names and number.isdecimal()]
        return int(numbers[-1]) if numbers else 0

    def _nodes(self) -> int:
        from ddpkit.transports.slurm_nodes import count_listed

        request = self.request
        text = request.given.get("-N") or request.given.get("--nnodes") or str(request.settings.nnodes or "")
        if text or not request.transport.slurm:
            return int(text) if text.isdecimal() else 1
        listed = str(request.settings.options.get("nodelist", ""))
        for word in request.words:
            listed = word.partition("=")[2] if word.startswith("nodelist=") else listed
        return count_listed(listed) or 1

    def _tasks(self, value: str) -> None:
        """Take sbatch's --ntasks, which is the number of all ranks."""
        self.request.given["--ntasks"] = value

    def _check_tasks(self) -> None:
        """Divide --ntasks among the nodes; refuse a -n that can only be meant as sbatch's, the number of all ranks."""
        given, request = self.request.given, self.request
        if "--ntasks" in given:
            nodes, total = self._nodes(), given["--ntasks"]
            if not total.isdecimal() or int(total) % nodes:
                what = f"--ntasks {total}: not a multiple of the {nodes} nodes"
                raise UsageError(what, "--ntasks-per-node N: the ranks of each node")
            request.words += ["--nproc-per-node", str(int(total) // nodes)]
            return
        each = given.get("-n", "")
        if not (each.isdecimal() and request.has_backend and request.transport.slurm) or (nodes := self._nodes()) < 2:
            return
        gpus = request.settings.options.get("gpus_per_node", "")
        for word in request.words:
            gpus = word.partition("=")[2] if word.startswith("gpus_per_node=") else gpus
        count = str(gpus).rpartition(":")[2]
        if count.isdecimal() and int(each) > int(count):
            what = f"-n {each} is the number of ranks on each node, which has {count} GPUs"
            at = self.all.index("-n") if "-n" in self.all else 1
            raise UsageError(what, self._corrected(at, 2, ["--ntasks", each]))
        letters = any(word[:2] in slurm_flags.LETTERS.keys() - self.options.keys() for word in self.all)
        if given.keys() & {"-N", "--nnodes"} and not letters:
            return
        ranks = f"{each} rank{'' if each == '1' else 's'}"
        request.note(f"-n {each}", f"{ranks} on each of {nodes} nodes; sbatch's -n is --ntasks")

    def _add_sbatch(self) -> None:
        if self.sbatch:
            from ddpkit.launchers.shell import join

            options = self.request.words
            typed = [word for word in options if word.startswith("sbatch=")]
            before = typed[-1].partition("=")[2] if typed else str(self.request.settings.options.get("sbatch", ""))
            self.request.add_option("sbatch", f"{before} {join(self.sbatch)}".strip())

    # ---- what is none of all these

    def _corrected(self, at: int, length: int, words: Sequence[str]) -> str:
        """The whole command line, with other words in the place of some."""
        script = [] if self.request.script is None else ["--", *self.request.script]
        return command_line([*self.all[:at], *words, *self.all[at + length :], *script])

    def _options_left(self) -> Iterator[tuple[int, int, str, str]]:
        """Yield each option from here to the script: its index, its number of words, its name and its value."""
        at = self.at
        while at < len(self.all):
            word, following = self.all[at], (*self.all[at + 1 : at + 2], "-")[0]
            name, equals, value = (word, "", "") if word == "-np" else _split(word)
            length = 1
            if word.startswith("-") and word != "-":
                if not equals and not following.startswith("-") and self._takes_value(name, following):
                    length, value = 2, following
                yield at, length, name, value
            elif self._is_script(word):
                return
            at += length

    def _takes_value(self, name: str, following: str) -> bool:
        key = slurm_flags.LETTERS.get(name, name).removeprefix("--").replace("-", "_")
        if name in self.options:
            return self.options[name]
        if key in self.request.options:
            return not self.request.options[key].alone
        alone = name in slurm_flags.PASSED_FLAGS or name in torchrun_flags.FLAGS
        return not (alone or slurm_flags.is_alone(name) or self._is_script(following))

    def _in_own_words(self, own: Mapping[str, str]) -> str:
        """The whole command line, with ddpkit's names for all these options at once."""
        words = list(self.all)
        for at, _, name, _ in reversed(list(self._options_left())):
            if name in own:
                value = "" if words[at] == "-np" else _split(words[at])[2]
                flag = own[name]
                words[at : at + 1] = [flag, value] if value and flag[:2] != "--" else [_with_value(flag, value)]
        return self._corrected(0, len(self.all), words)

    def _means_slurm(self, name: str) -> bool:
        """Tell whether this option of several launchers is sbatch's here: beside others, or where sbatch is."""
        import shutil

        if self.request.typed_backend or not self.request.transport.local:
            return False
        names = {each for _, _, each, _ in self._options_left() if each[:2] == "--"} - self.options.keys()
        if any(_backend_with(each) == "slurm" for each in names - _ELSEWHERE.keys()):
            return True
        own = name in slurm_flags.SAME and {"--nodes", "--ntasks-per-node"} & names
        return bool(own and shutil.which("sbatch"))

    def _for_program(self, program: str, known: frozenset[str]) -> str:
        """The whole command line, with all options of sbatch or srun as the backend's option of this name."""
        from ddpkit.launchers.shell import join

        words, given = list(self.all), list[str]()
        for at, length, name, value in reversed(list(self._options_left())):
            if name in known:
                given.insert(0, f"{name}={value}" if value else name)
                words[at : at + length] = []
        typed = [at for at, word in enumerate(words) if word.startswith(f"{program}=") and words[at - 1] == "-o"]
        before = str(self.request.settings.options.get(program, ""))
        if typed:
            before = words[typed[-1]].partition("=")[2]
            words[typed[-1] - 1 : typed[-1] + 1] = []
        at = min(self.at, len(words)) - 2 * bool(typed and typed[-1] < self.at)
        words[at:at] = ["-o", f"{program}={f'{before} {join(given)}'.strip()}"]
        return self._corrected(0, len(self.all), words)

    def _with_backend(self, name: str) -> str:
        """The whole command line, for another backend."""
        command, *words = self.all
        for at, word in enumerate(words):
            if word in ("-b", "--backend"):
                words = words[:at] + words[at + 2 :]
                break
        script = [] if self.request.script is None else ["--", *self.request.script]
        return command_line([command, "-b", name, *words, *script])

    def _unknown(self, name: str, value: str) -> UsageError:
        """Say what was probably meant."""
        request = self.request
        what = f"ddpkit {request.command} has no option {name}"
        following = [] if value or not self.rest or self.rest[0].startswith("-") else self.rest[:1]
        if name in _ELSEWHERE:
            if self._means_slurm(name):
                return UsageError(f"{name} is an option of backend slurm", self._with_backend("slurm"))
            return UsageError(what, self._in_own_words(_ELSEWHERE))
        if request.transport.slurm and name in slurm_flags.MEANT:
            return UsageError(what, self._in_own_words(slurm_flags.MEANT))
        if name in _ENVIRONMENTS and (value or following):
            python = str(PurePath(value or following[0], "bin", "python"))
            return UsageError(what, self._corrected(self.at, 1 + len(following), ["--python", python]))
        if name in _HOSTS:
            hosts = [word for text in (value.removeprefix("="), *following) for word in re.split("[,@]", text) if word]
            hosts = hosts if request.transport.names_nodes else ["-b", "ssh", *hosts]
            return UsageError(what, self._corrected(self.at, 1 + len(following), hosts))
        if name in _ALONE:
            return UsageError(what, _ALONE[name])
        for program, known in slurm_flags.PROGRAMS.items():
            if request.transport.slurm and name in known:
                return UsageError(f"{name} is an option of {program}", self._for_program(program, known))
        backend = _backend_with(name)
        if backend:
            return UsageError(f"{name} is an option of backend {backend}", self._with_backend(backend))
        commands = [(other, flags[name]) for other, flags in self.commands.items() if name in flags]
        if commands:
            command, takes_value = min(commands, key=lambda each: each[0] != "launch")
            hint = self._corrected(self.at, 1 if value or not takes_value else 2, [])
            if (request.command, name) == ("emit", "--json"):
                hint = self._corrected(0, 1, ["launch", "--dry-run"])
            return UsageError(f"{what}; `ddpkit {command}` has it", hint)
        options = {key.replace("_", "-"): key for key in request.options}
        own = [*self.options, *torchrun_flags.VALUES, *torchrun_flags.FLAGS, *(f"--{key}" for key in options)]
        meant = similar(name, [each for each in own if each[:2] == "--"]) if name[:2] == "--" else None
        if meant:
            return UsageError(what, self._corrected(self.at, 1, [_with_value(meant, value)]))
        if request.transport.slurm and name[:2] == "--":
            return UsageError(what, f"ddpkit backends {request.typed_backend or request.backend.name}")
        if request.script is None and request.scripted and name[:2] == "--":
            return UsageError(what, f"ddpkit {request.command} --help; the script's options come after `--`")
        return UsageError(what, f"ddpkit {request.command} --help")


def _backend_with(name: str) -> str:
    """The backend that has an option, by its name or by sbatch's letter; empty: none."""
    from ddpkit.launchers import registry

    name = slurm_flags.LETTERS.get(name, name)
    if name in slurm_flags.PASSED | slurm_flags.PASSED_FLAGS | slurm_flags.REFUSED.keys() | {"--ntasks"}:
        return "slurm"
    backends = registry.backends_with(name.removeprefix("--").replace("-", "_"))
    return min(backends, key=lambda backend: backend != "ssh", default="")  # the one of hosts, if it has the option


def _is_backend(word: str) -> bool:
    from ddpkit.launchers import registry

    return word in registry.aliases() or word in registry.names()


def _split(word: str) -> tuple[str, str, str]:
    """An option, and its value if that is in the same word: `--name=value`, `-nvalue`."""
    if not word.startswith("--"):
        return word[:2], word[2:], word[2:]
    name, equals, value = word.partition("=")
    return name.replace("_", "-"), equals, value


def _with_value(option: str, value: str) -> str:
    """An option, with the value that was in the same word as the mistyped one."""
    return f"{option}={value}" if value and option.startswith("--") else option + value


def _ranks_of(word: str) -> str:
    """The number of ranks of `node1:2`, where the port of an SSH server would be; empty: it has none."""
    number = word.rpartition(":")[2] if re.fullmatch(r"[^:/=]+:\d+", word) else ""
    return number if number and 0 < int(number) < 22 else ""


def _default_script() -> str:
    return "train.py" if Path("train.py").is_file() else "SCRIPT"


def _is_this_machine(word: str) -> bool:
    import socket

    return word in ("localhost", "127.0.0.1", socket.gethostname().partition(".")[0])


def _is_program(word: str) -> bool:
    import shutil

    return shutil.which(PurePath(word).name) is not None
