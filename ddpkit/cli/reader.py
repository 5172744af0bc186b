"""Arguments of `launch`, `test` and `bench`, in ddpkit's own form.

Options of the backend are flags as well, under SLURM also with sbatch's letters; torchrun's flags are translated.
Without `--`, the script begins at the first argument that can only be a script. An error comes with the whole corrected
command line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ddpkit.cli.line import (
    BOTH,
    LETTERS,
    NODES,
    RANKS,
    SBATCH,
    TORCHRUN,
    Flags,
    Line,
    Use,
    is_script,
    replacement,
    torchrun_name,
)
from ddpkit.cli.mistakes import check_host, check_script, on_nodes, unknown_option, with_script
from ddpkit.errors import UsageError
from ddpkit.launchers.command_line import Token, find_launcher, split_option


@dataclass
class Translated:
    """A command line in ddpkit's own words."""

    words: list[str]
    script: list[str] | None  # None: not given
    notes: list[str] = field(default_factory=list)


def translate(line: Line, commands: Mapping[str, Flags]) -> Translated:
    """Read a command line. `commands`: all of them, with their options. Raises UsageError."""
    return _Reader(line, commands).read()


class _Reader:
    def __init__(self, line: Line, commands: Mapping[str, Flags]) -> None:
        self.line, self.commands = line, commands
        self.words, self.script, self.notes = [line.command], line.script, list[str]()
        self.hosts: list[str] = []
        self.given: dict[str, str] = {}  # ddpkit's own options, by name
        self.passed: dict[str, list[str]] = {"sbatch": [], "srun": []}  # more options for them
        self.torchrun: dict[str, str] = {}  # its flags, with their values

    def read(self) -> Translated:
        for token in self.line.tokens[1:]:
            if token.is_option:
                self._take_option(token)
            elif token.is_script:
                self._begin_script(token)
                break
            else:
                check_host(self.line, token)
                self.words.append(token.word)
                self.hosts.append(token.word)
        self._name_script()
        self._apply_torchrun()
        for program, words in self.passed.items():
            if words:
                from ddpkit.launchers.shell import join

                self._add_option(program, f"{self.line.option(program)} {join(words)}".strip())
        self._divide_tasks()
        self._check_nested()
        return Translated(self.words, self.script, self.notes)

    def _note(self, flag: str, text: str) -> None:
        self.notes.append(f"{flag}: {text}")

    def _add_option(self, key: str, value: str) -> None:
        self.words += ["-o", f"{key}={value}"]

    # ---- the script

    def _begin_script(self, token: Token) -> None:
        following = self.line.words[token.at :]
        if self.script is not None:
            corrected = self.line.write(until=token, script=[*following, *self.script])
            raise UsageError(f"{token.word} is in the place of a host; the script comes after `--`", corrected)
        check_script(self.line, token)
        self.script = following

    def _name_script(self) -> None:
        """Follow torchrun's --module and --no-python."""
        named = self.torchrun.keys() & {"--module", "--no-python"}
        if "--module" in named and self.script is not None:
            self.script = ["-m", *self.script]
        elif named and self.script is None and self.line.takes_script:
            what = "module" if "--module" in named else "program"
            raise UsageError(f"the name of a {what} is missing", f"ddpkit {self.line.command} -n 2 -- -m pkg.train")

    def _check_nested(self) -> None:
        """Refuse a launcher as the script."""
        nested = find_launcher(self.script) if self.line.takes_script and self.script else None
        if nested and self.script and not self.line.settings.allow_nested:
            what = f"{nested.problem} (the setting allow_nested = true starts it anyway)"
            raise UsageError(what, with_script(self.line, self.script, nested, until=self.line.script_token))

    # ---- options

    def _take_option(self, token: Token) -> None:
        if token.name == "-e" and "--env" in self.line.options and re.match(r"\w+=", token.value or ""):
            corrected = self.line.corrected(token, "--env", str(token.value))
            raise UsageError(f"-e {str(token.value).partition('=')[0]}: variables of the ranks are --env", corrected)
        if token.name in self.line.options and not self._is_letter_of_sbatch(token):
            self._take_own_option(token)
            return
        # Each takes the token, or returns False.
        takers = (self._take_backend_option, self._take_sbatch_flag, self._take_torchrun_flag, self._take_site_flag)
        if not any(take(token) for take in takers):
            raise unknown_option(self.line, token, self.commands)

    def _is_letter_of_sbatch(self, token: Token) -> bool:
        """Tell whether a letter that ddpkit and sbatch have is sbatch's here: it has a value."""
        return token.name in BOTH and token.value is not None and self.line.takes_script and self.line.slurm

    def _value(self, token: Token) -> str:
        """Return the value of an option that needs one."""
        if token.value is None:
            raise UsageError(f"{token.name} needs a value", f"{token.name} VALUE")
        self._refuse_option(token)
        return token.value

    def _refuse_option(self, token: Token) -> None:
        """Refuse an option of the command in the place of a value."""
        following = "".join(token.words[1:])
        if split_option(following)[0] in self.line.options and not re.fullmatch(r"-\d+", following):
            corrected = self.line.corrected(token, token.name, "VALUE", following)
            raise UsageError(f"{token.name} needs a value, and {following} follows", corrected)

    def _take_own_option(self, token: Token) -> None:
        """Take an option of the command: as it was typed, or in the words of its translator."""
        joined = "=" if token.name[:2] == "--" else ""
        typed = [f"{token.name}{joined}{token.value}"] if token.attached else [token.name, *token.words[1:]]
        self._refuse_option(token)
        self.given[token.name] = token.value or ""
        translate = _OWN.get(token.name)
        self.words += (translate(self, token) if translate else None) or typed

    def _translate_ranks(self, token: Token) -> list[str] | None:
        """Translate torchrun's `-n gpu`; None: another number of ranks. Raises UsageError for `cpu` and `xpu`."""
        if token.value not in ("gpu", "cpu", "xpu"):
            return None
        if token.value != "gpu":
            what = f"-n {token.value}: a number of ranks, or auto: one for each visible GPU"
            raise UsageError(what, f"-n {os.cpu_count()}")
        self._note("-n gpu", "-n auto: one rank for each visible GPU, or 1")
        return ["--nproc-per-node", "auto"]

    def _check_backend_option(self, token: Token) -> None:
        """Refuse sbatch's `-o FILE`, with `--output`: ddpkit's -o is KEY=VALUE."""
        value = token.value or ""
        if "=" in value or not self.line.transport.slurm:
            return
        stem, dot, ending = value.rpartition(".") if "." in value else (value, "", "")
        path = value if "%" in value else f"{stem}-%j{dot}{ending}"
        what = f"-o {value}: ddpkit's -o is KEY=VALUE, and sbatch's is --output"
        raise UsageError(what, self.line.corrected(token, "--output", path))

    def _translate_sync(self, token: Token) -> list[str] | None:
        return None if token.attached else ["--sync=true"]

    def _check_nodes(self, token: Token) -> None:
        """Refuse sbatch's MIN-MAX, with the number that a job can have."""
        if self.line.slurm and re.fullmatch(r"\d+-\d+", token.value or ""):
            corrected = self.line.corrected(token, "-N", str(token.value).partition("-")[2])
            name = self.line.typed_backend or self.line.backend.name
            raise UsageError(f"-N {token.value}: backend {name} requires one number of nodes", corrected)

    def _take_backend_option(self, token: Token) -> bool:
        """Take `--partition gpu` as `-o partition=gpu`, under SLURM also sbatch's letters. False: no such option."""
        name = LETTERS.get(token.name, token.name) if self.line.transport.slurm else token.name
        key, negated = name.removeprefix("--").replace("-", "_"), False
        if name[:2] != "--" or name in TORCHRUN:
            return False
        options = self.line.backend_options
        if key.startswith("no_") and key[3:] in options:
            key, negated = key[3:], True
        option = options.get(key)
        if option is None or (negated and not option.alone):
            return False
        if option.alone and not token.attached:
            self._add_option(key, "false" if negated else option.alone)
        else:
            self._add_option(key, self._value(token))
        return True

    # ---- sbatch

    def _take_sbatch_flag(self, token: Token) -> bool:
        """Take a flag of sbatch that is none of the backend's. False: sbatch has no such flag, or it is a mistake."""
        name = LETTERS.get(token.name, token.name)
        if not self.line.transport.slurm or name not in SBATCH:
            return False
        flag = SBATCH[name]
        if flag.use is Use.READ:
            _SBATCH[name](self, token)
        elif flag.use is Use.SAME:
            self.given[flag.instead] = self._value(token)
            if flag.instead == "--nnodes":
                self._check_nodes(token)
            self.words += [flag.instead, self.given[flag.instead]]
        elif flag.use in (Use.PASSED, Use.SRUN):
            program = "sbatch" if flag.use is Use.PASSED else "srun"
            self.passed[program].append(name if flag.alone else f"{name}={self._value(token)}")
        elif flag.use is Use.NOT_NEEDED and not token.attached:
            self._note(token.word, f"not needed; {flag.reason}")
        elif flag.use is Use.REFUSED:
            nodes = int(self._number(*NODES, "--nodes") or self._known_nodes())
            words = replacement(name, flag.instead, self._value(token), nodes, int(self._number(*RANKS) or 1))
            raise UsageError(f"{token.word}: {flag.reason}", self.line.corrected(token, *words))
        else:
            return False
        return True

    def _take_site_flag(self, token: Token) -> bool:
        """Take an option that only the sbatch of this machine knows. False: it does not, or there is none."""
        from ddpkit.transports.slurm_nodes import known_to_sbatch

        word = token.name if token.value is None else f"{token.name}={token.value}"
        if not (self.line.slurm and self.line.may_be_sbatch(token.name) and known_to_sbatch(word)):
            return False
        self.passed["sbatch"].append(word)
        return True

    def _gpu_bind(self, token: Token) -> None:
        if "none" not in self._value(token):
            what = f"{token.word}: each rank must see all GPUs of its node"
            raise UsageError(what, self.line.corrected(token))
        self._note(f"{token.name} {token.value}", "not needed; each rank sees all GPUs of its node")

    def _ntasks_per_gpu(self, token: Token) -> None:
        """Take one rank for each GPU, which is the default; refuse another number, with that of a node."""
        number, gpus = self._value(token), self.line.option("gpus_per_node").rpartition(":")[2]
        if number != "1":
            ranks = str(int(number) * int(gpus)) if number.isdecimal() and gpus.isdecimal() else "RANKS"
            what = f"{token.word}: ddpkit takes the number of ranks on each node"
            raise UsageError(what, self.line.corrected(token, "-n", ranks))
        self._note(f"{token.name} {number}", "not needed; ddpkit starts one rank for each GPU of --gpus-per-node")

    def _jobid(self, token: Token) -> None:
        job_id = self._value(token)
        step = f"srun --jobid={job_id} --overlap --nodes=1 --ntasks=1"
        what = f"--jobid {job_id}: ddpkit uses the allocation of its own shell"
        raise UsageError(what, f"{step} {self.line.corrected(token)}")

    def _ntasks(self, token: Token) -> None:
        """Take the number of all ranks."""
        self.given["--ntasks"] = self._value(token)

    def _number(self, *names: str) -> str:
        """Return the number of one of these options, wherever in the line; empty: none."""
        value = self.line.value(*names)
        return value if value.isdecimal() else ""

    def _known_nodes(self) -> int:
        """Return the number of nodes: of -N or --nnodes, under SLURM also of the settings; 1 where nothing says it."""
        from ddpkit.execution.requested_nodes import number_of_nodes

        line = self.line
        text = self.given.get("-N") or self.given.get("--nnodes") or str(line.settings.nnodes or "")
        if text or not line.transport.slurm:
            return int(text) if text.isdecimal() else 1
        options = {**line.settings.options, "nodelist": line.option("nodelist")}
        return number_of_nodes(replace(line.settings, options=options), line.backend, os.environ) or 1

    def _nodes_of_tasks(self) -> int:
        """The number of nodes for --ntasks: of -N, else the hosts, else the allocation, else the node list, else 1."""
        from ddpkit.execution.requested_nodes import scheduled_hosts
        from ddpkit.transports.slurm_nodes import allocation, count_listed

        settings = self.line.settings
        if self.given.keys() & {*NODES} or settings.nnodes:
            return self._known_nodes()
        if self.hosts or "--hostfile" in self.given:
            settings = replace(settings, hosts=tuple(self.hosts), hostfile=self.given.get("--hostfile", ""))
        names, _ = scheduled_hosts(settings)
        inside = allocation(os.environ) and self.line.option("new_job") != "true"
        held = count_listed(os.environ.get("SLURM_JOB_NODELIST", "")) if inside else 0
        return len(names) or held or self._known_nodes()

    def _divide_tasks(self) -> None:
        """Divide --ntasks among the nodes. Refuse, or note, a -n that is or may be meant as sbatch's: all ranks."""
        if "--ntasks" in self.given:
            nodes, total = self._nodes_of_tasks(), self.given["--ntasks"]
            if not total.isdecimal() or int(total) % nodes:
                what = f"--ntasks {total}: not a multiple of the {nodes} nodes"
                raise UsageError(what, "--ntasks-per-node N: the ranks of each node")
            self.words += ["--nproc-per-node", str(int(total) // nodes)]
            return
        number, line = self.given.get("-n", ""), self.line
        if not (number.isdecimal() and line.slurm) or (nodes := self._known_nodes()) < 2:
            return
        gpus = line.option("gpus_per_node").rpartition(":")[2]
        if gpus.isdecimal() and int(number) > int(gpus):
            what = f"-n {number} is the number of ranks on each node, which has {gpus} GPUs"
            typed = next(token for token in line.options_typed if token.name == "-n")
            raise UsageError(what, line.corrected(typed, "--ntasks", number))
        writes_as_sbatch = any(token.name in LETTERS.keys() - line.options.keys() for token in line.options_typed)
        if writes_as_sbatch or not self.given.keys() & {*NODES}:
            ranks = f"{number} rank{'' if number == '1' else 's'}"
            self._note(f"-n {number}", f"{ranks} on each of {nodes} nodes; sbatch's -n is --ntasks")

    # ---- torchrun

    def _take_torchrun_flag(self, token: Token) -> bool:
        """Take a flag of torchrun, for `_apply_torchrun`. False: torchrun has no such flag."""
        flag, line = torchrun_name(token.name), self.line
        if token.name in ("-t", "-r") and line.transport.scheduled:
            name = line.backend.name
            raise UsageError(f"{flag[1:3]}: torchrun's {flag}, or an option of {name}?", f"ddpkit backends {name}")
        of_tee = re.fullmatch(r"-.*|[0-3]|\d+:[0-3](,\d+:[0-3])*", token.value or "") or is_script(token.value or "")
        if token.name == "-t" and line.transport.local and token.value and not of_tee:
            raise UsageError(f"-t {token.value}: --time is an option of backend slurm", line.with_backend("slurm"))
        if flag not in TORCHRUN or (TORCHRUN[flag].alone and token.attached):
            return False
        self.torchrun[flag] = "" if TORCHRUN[flag].alone else self._value(token)
        return True

    def _apply_torchrun(self) -> None:
        """Do what flags of torchrun ask for, or note why they are not needed."""
        flags, line = self.torchrun, self.line
        nodes = self.given.get("-N") or self.given.get("--nnodes") or "1"
        host = _host_of_rendezvous(flags)
        if "--node-rank" in flags and (flags["--node-rank"] != "0" or nodes not in ("1", "1:1")):
            what = f"--node-rank {flags['--node-rank']}: run ddpkit once; it starts all nodes"
            raise UsageError(what, self._on_all_nodes(nodes, host))
        if nodes not in ("1", "1:1") and host and not line.typed_backend and line.transport.local:
            able = "ssh does" if ":" in nodes else "ssh and slurm do"
            what = f"backend local runs on this machine only, and does not support -N {nodes}; {able}"
            raise UsageError(what, self._on_all_nodes(nodes, host))
        for name, value in flags.items():
            flag, shown = TORCHRUN[name], f"{name} {value}".rstrip()
            if flag.use is Use.NOT_NEEDED:
                self._note(shown, f"not needed; {flag.reason}")
            elif flag.use is Use.REFUSED:
                raise UsageError(f"{shown}: {flag.reason}", flag.instead)
            elif name in _TORCHRUN:
                _TORCHRUN[name](self, shown, value)

    def _on_all_nodes(self, nodes: str, host: str) -> str:
        """Return the command line that starts all nodes. torchrun's address is that of the first node."""
        more = [] if self.line.typed_backend else on_nodes(nodes, host)
        foreign = {token: () for token in self.line.options_typed if torchrun_name(token.name) in self.torchrun}
        return self.line.write(foreign, until=self.line.script_token, add=more, script=self.script)

    def _standalone(self, _shown: str, _value: str) -> None:
        if not self.line.transport.local:
            what = f"--standalone means this machine only, and backend {self.line.backend.name} uses other nodes"
            raise UsageError(what, "remove --standalone, or use -b local")
        self._note("--standalone", "not needed; backend local uses this machine only, with a free port")

    def _max_restarts(self, shown: str, value: str) -> None:
        line = self.line
        if value == "0":
            return
        if not line.takes_script:
            self._note(shown, f"not needed; `ddpkit {line.command}` restarts no ranks")
            return
        if "max_restarts" not in line.backend_options:
            raise UsageError(f"{shown}: backend {line.backend.name} does not restart ranks", f"--retries {value}")
        options = {"max_restarts": value}
        if line.backend_options["starter"].default == "ranks" and not line.option("starter"):
            options = {"starter": "torchrun", **options}
        for key, text in options.items():
            self._add_option(key, text)
        words = " ".join(f"-o {key}={text}" for key, text in options.items())
        self._note(shown, f"{words}; torchrun restarts after every failure, --retries where it can help")

    def _numa(self, shown: str, value: str) -> None:
        line = self.line
        if not line.takes_script:
            self._note(shown, f"not needed; `ddpkit {line.command}` binds ranks as a launch does")
            return
        if "numa" not in line.backend_options:
            what = f"{shown}: with backend {line.backend.name} srun binds the ranks"
            raise UsageError(what, "-o srun=--cpu-bind=cores")
        if value not in ("node", "socket"):
            raise UsageError(f"{shown}: ddpkit binds ranks to a NUMA node or a socket", "-o numa=node")
        self._add_option("numa", value)
        self._note(shown, f"-o numa={value}")

    def _master_port(self, shown: str, value: str) -> None:
        self._address("master_port", shown, value, "a free port of that host")

    def _master_addr(self, shown: str, value: str) -> None:
        self._address("master_addr", shown, value, "the address")

    def _address(self, key: str, shown: str, value: str, chosen: str) -> None:
        if key in self.line.backend_options:
            self._add_option(key, value)
            return
        where = "this machine" if self.line.transport.local else "the job's first node"
        self._note(shown, f"not needed; the rendezvous is on {where}, and ddpkit chooses {chosen}")

    def _node_rank(self, shown: str, _value: str) -> None:
        self._note(shown, "not needed; ddpkit starts all nodes")


def _host_of_rendezvous(flags: Mapping[str, str]) -> str:
    """Return the host of --rdzv-endpoint or --master-addr; empty: none, or this machine."""
    endpoint = flags.get("--rdzv-endpoint", "")
    address = flags.get("--master-addr") or endpoint.rpartition(":")[0] or endpoint
    return "" if address in ("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]") else address


# Functions by the name of their flag. One of ddpkit's own returns other words for it, or nothing.
_OWN: Mapping[str, Callable[[_Reader, Token], list[str] | None]] = {
    **dict.fromkeys(NODES, _Reader._check_nodes),
    **dict.fromkeys(RANKS, _Reader._translate_ranks),
    "-o": _Reader._check_backend_option,
    "--sync": _Reader._translate_sync,
}
_SBATCH: Mapping[str, Callable[[_Reader, Token], None]] = {
    "--jobid": _Reader._jobid,
    "--ntasks": _Reader._ntasks,
    "--gpu-bind": _Reader._gpu_bind,
    "--ntasks-per-gpu": _Reader._ntasks_per_gpu,
}
_TORCHRUN: Mapping[str, Callable[[_Reader, str, str], None]] = {
    "--standalone": _Reader._standalone,
    "--max-restarts": _Reader._max_restarts,
    "--numa-binding": _Reader._numa,
    "--master-port": _Reader._master_port,
    "--master-addr": _Reader._master_addr,
    "--node-rank": _Reader._node_rank,
}
