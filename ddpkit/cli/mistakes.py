"""What was probably meant by a word in the wrong place or an unknown option; each error has the corrected line."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath

from ddpkit.cli.line import BACKEND, LETTERS, NAMES_SCRIPT, NODES, RANKS, SBATCH, TORCHRUN, Flags, Line, Use, of_sbatch
from ddpkit.errors import UsageError, similar
from ddpkit.launchers.command_line import (
    MIGRATION,
    Nested,
    Token,
    find_launcher,
    is_option,
    names_program,
    plain_script,
    split_option,
    tokenize,
)

# Other names of flags, some of them sbatch's, and ddpkit's for the same purpose.
_MEANT = {
    "--nodes": "-N",
    **dict.fromkeys(("--ntasks-per-node", "--gpus", "--nproc"), "-n"),
    **dict.fromkeys(("--cwd", "--chdir", "--working-dir"), "--workdir"),
    **dict.fromkeys(("--retry", "--max-retries"), "--retries"),
    **dict.fromkeys(("--venv", "--virtualenv", "--conda-prefix"), "--python"),
}
_MEANT_OF_SLURM = {name: flag.instead for name, flag in SBATCH.items() if flag.use is Use.MISTAKEN}
# Flags of launchers whose command lines ddpkit does not read.
_FOREIGN = {
    "accelerate": "--num-processes --num-machines --machine-rank --main-process-ip --main-process-port --multi-gpu "
    "--distributed-type --mixed-precision --gpu-ids --config-file",
    "deepspeed": "--num-gpus --num-nodes --include",
    "mpirun": "-np --np -H --host --hosts --machinefile --machine-file --host-file --map-by --bind-to --mca",
}


def check_script(line: Line, script: Token) -> None:
    """Refuse options of ddpkit after a script that no `--` precedes: `ok.py --dry-run` would run, `ok.py -n 2` once.

    After `--` everything belongs to the script.
    """
    typed = line.words[script.at + 1 :]
    # A backend among them decides which options there are.
    backends = (token.value or "" for token in _tokens_after_script(line, typed) if token.name in BACKEND)
    line.take_backend(next(backends, ""))
    typed_before = {tuple(token.words) for token in line.options_typed if token.at < script.at}
    own, of_script, first = list[str](), list[str](), ""  # first: the option that the error names
    for token in _tokens_after_script(line, typed):
        words = typed[token.at : token.at + len(token.words)]
        if token.is_option and token.name in _own_spellings(line).values():
            first = first or words[0]
            own += () if tuple(token.words) in typed_before else token.words
        else:
            of_script += words
    if not first:
        return
    corrected = line.write(until=script, add=own, script=[script.word, *of_script])
    as_typed = line.write(until=script, script=[script.word, *typed])
    what = f"{first} comes after the script, and is an option of ddpkit"
    raise UsageError(what, f"{corrected}; if it is the script's own: {as_typed}")


def _tokens_after_script(line: Line, typed: Sequence[str]) -> list[Token]:
    """The tokens after the script, with ddpkit's spelling of its options: of `--dry_run`, `--dryrun` and `–n`."""
    known, words = _own_spellings(line), list[str]()
    for word in typed:
        plain = word.translate(_DASHES)
        name, value = split_option(plain) if is_option(plain) else ("", None)
        own = known.get(_plain(name) if name[:2] == "--" else name)
        joined = "" if value is None else f"={value}" if name[:2] == "--" else value
        words.append(word if own is None else own + joined)
    takes_value = line.takes_value
    return tokenize(words, lambda name, following: not is_option(following) and takes_value(name, following))


def _own_spellings(line: Line) -> dict[str, str]:
    """Return the options of ddpkit, its backend and under SLURM sbatch, by their names without dashes and capitals."""
    letters = [name for name in line.options if name[:2] != "--"] + (list(LETTERS) if line.slurm else [])
    names = [name for name in line.options if name[:2] == "--"]
    for key, option in line.backend_options.items():
        flag = key.replace("_", "-")
        names += [f"--{flag}", *([f"--no-{flag}"] if option.alone else [])]
    if line.slurm:
        names += [*of_sbatch(Use.SAME, Use.PASSED), "--ntasks", "--test-only", *LETTERS.values()]
    return {**{_plain(name): name for name in names}, **{letter: letter for letter in letters}}


_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")


def _plain(name: str) -> str:
    return name.replace("-", "").lower()


def with_script(line: Line, words: Sequence[str], nested: Nested | None, until: Token | None = None) -> str:
    """Return the command line with these words as the script, or the script that a launcher among them starts."""
    script, count = plain_script(words), list[str]()
    if nested is not None:
        if nested.hint:
            return nested.hint
        script = nested.script or ("train.py" if Path("train.py").is_file() else "SCRIPT",)
        known = nested.count and (nested.per_node or (line.transport.local and not nested.nodes))
        typed = {token.name for token in line.options_typed if until is None or token.at < until.at}
        count = ["-n", nested.count] if known and typed.isdisjoint(RANKS) else []
        named = [token for token in line.tokens[1:] if not token.is_option and (until is None or token.at < until.at)]
        if nested.nodes and not named and typed.isdisjoint((*NODES, "--hostfile")):
            count = [*_options_for_nodes(line, nested.nodes), *count]
    flags = {token: () for token in line.options_typed if token.name in NAMES_SCRIPT}
    return line.write(flags, until=until, add=count, script=script)


def _options_for_nodes(line: Line, nodes: str) -> list[str]:
    """Return the options with which a launch has N or MIN:MAX nodes; empty: the settings name some."""
    settings = line.settings
    if settings.nnodes or settings.hosts or settings.hostfile:
        return []
    if line.slurm:
        return ["-N", nodes.rpartition(":")[2]]
    if line.has_backend and line.transport.local and line.typed_backend:
        return []
    where = on_nodes(nodes) if not line.has_backend or line.transport.local else ["HOST"] * _places_of_hosts(nodes)
    return where if "HOST" in where and nodes.isdecimal() else [*where, "-N", nodes]


def on_nodes(nodes: str, host: str = "") -> list[str]:
    """Return the backend for N or MIN:MAX nodes, and names for their hosts, where none was typed."""
    slurm = "SLURM_JOB_ID" in os.environ or (not host and ":" not in nodes and shutil.which("sbatch"))
    return ["-b", "slurm"] if slurm else ["-b", "ssh", host or "HOST", *["HOST"] * (_places_of_hosts(nodes) - 1)]


def _places_of_hosts(nodes: str) -> int:
    """Return how often a hint has HOST for N or MIN:MAX nodes: a reader needs no more than eight."""
    most = nodes.rpartition(":")[2]
    return min(max(int(most), 2), 8) if most.isdecimal() else 2


def check_host(line: Line, token: Token) -> None:
    """Refuse an argument that is no host. Raises UsageError."""
    for find in _MISTAKES_FOR_HOSTS if line.takes_script else _MISTAKES_FOR_HOSTS[:1]:
        error = find(line, token)
        if error is not None:
            raise error


def _backend(line: Line, token: Token) -> UsageError | None:
    from ddpkit.launchers import registry

    if (line.typed_backend or line.takes_hosts) or token.word not in (*registry.aliases(), *registry.names()):
        return None
    return UsageError(f"{token.word} is a backend, not a host", line.corrected(token, "-b", token.word))


def _batch_script(line: Line, token: Token) -> None:
    from ddpkit.execution.job import check_shell_script

    check_shell_script(Path(), line.words[token.at :], allowed=line.settings.allow_nested, of_sbatch=True)


def _number(line: Line, token: Token) -> UsageError | None:
    if not token.word.isdecimal():
        return None
    return UsageError(f"{token.word} is in the place of a host", line.corrected(token, "-n", token.word))


def _host_of_mpirun(line: Line, token: Token) -> UsageError | None:
    """Of `node1:8`, where ddpkit would take the number of ranks for a port."""
    if not (re.fullmatch(r"[^:/=]+:(\d|1\d|2[01])", token.word) and line.has_backend and line.takes_hosts):
        return None
    number = token.word.rpartition(":")[2]
    return UsageError(f"{token.word}: {number} is not the port of an SSH server; -n is the number of ranks", MIGRATION)


def _value_of_switch(line: Line, token: Token) -> UsageError | None:
    """Of `--container-writable true`: a flag that stands alone takes its value behind `=`."""
    word = token.word
    before = next((each for each in line.options_typed if each.at == token.at - 1), token)
    option = line.backend_options.get(before.name.removeprefix("--").replace("-", "_"))
    if option is None or not option.alone or (word not in ("true", "false", "torch", "env") and "," not in word):
        return None
    what = f"{word} is in the place of a host; the form is {before.name}={word}"
    return UsageError(what, line.write({before: (f"{before.name}={word}",), token: ()}))


def _file(line: Line, token: Token) -> UsageError | None:
    word = token.word
    if line.takes_hosts:
        return None
    if "." not in word and Path(f"{word}.py").is_file():
        what = f"{word} is in the place of a host, and {word}.py is a script"
        return UsageError(what, line.corrected(token, f"{word}.py"))
    if not Path(word).is_file():
        return None
    return UsageError(f"`{word}` is a file here, not a host", line.write(until=token, script=_words_from(line, token)))


def _program(line: Line, token: Token) -> UsageError | None:
    word = token.word
    host = line.takes_hosts or word in ("localhost", "127.0.0.1", socket.gethostname().partition(".")[0])
    if not names_program(word) and (host or shutil.which(Path(word).name) is None):
        return None
    nested = find_launcher(_words_from(line, token))
    what = nested.problem if nested else f"`{word}` is a program, not a host"
    return UsageError(what, with_script(line, _words_from(line, token), nested, until=token))


def _words_from(line: Line, token: Token) -> list[str]:
    """Return the words from an argument on, which were meant as the script."""
    return [*line.words[token.at :], *(line.script or ())]


# What an argument in the place of a host can be, in the order in which it is asked. The first one: of any command.
_MISTAKES_FOR_HOSTS: tuple[Callable[[Line, Token], UsageError | None], ...] = (
    _backend,
    _batch_script,
    _number,
    _host_of_mpirun,
    _value_of_switch,
    _file,
    _program,
)


def unknown_option(line: Line, token: Token, commands: Mapping[str, Flags]) -> UsageError:
    """Return the error for an option, with what was probably meant. `commands`: all, with their options."""
    name, what = token.name, f"ddpkit {line.command} has no option {token.name}"
    launcher = next((launcher for launcher, flags in _FOREIGN.items() if name in flags.split()), "")
    if launcher:
        return UsageError(f"{name} is a flag of {launcher}, which ddpkit does not read", MIGRATION)
    meant = {**_MEANT, **_MEANT_OF_SLURM} if line.slurm else _MEANT
    backend = _backend_with(line, name)
    if name in meant and not backend:
        return UsageError(what, line.write({each: _renamed(each, meant) for each in line.options_typed}))
    if backend:
        return UsageError(f"{name} is an option of backend {backend}", line.with_backend(backend))
    error = _flag_of_setting(line, token)
    if error:
        return error
    for command in sorted(commands, key=lambda each: each != "launch"):
        if name in commands[command]:
            hint = line.corrected(token, *(() if commands[command][name] else token.words[1:]))
            return UsageError(f"{what}; `ddpkit {command}` has it", hint)
    options = [f"--{key.replace('_', '-')}" for key in line.backend_options]
    own = [each for each in (*line.options, *TORCHRUN, *options) if each[:2] == "--"]
    mistyped = similar(name, own) if name[:2] == "--" else None
    if mistyped:
        joined = f"={token.value}" if token.attached else ""
        return UsageError(what, line.corrected(token, f"{mistyped}{joined}", *token.words[1:]))
    return _unknown_everywhere(line, token, what)


def _renamed(token: Token, meant: Mapping[str, str]) -> Sequence[str]:
    """Return an option with ddpkit's name for it."""
    if token.name not in meant:
        return token.words
    flag, value = meant[token.name], token.value
    if flag == "--python" and value:
        value = str(PurePath(value, "bin", "python"))
    joined = token.attached and flag[:2] == "--"
    return [f"{flag}={value}"] if joined else [flag, *([] if value is None else [value])]


def _backend_with(line: Line, name: str) -> str:
    """Return another backend that has an option, by its name or by sbatch's letter; empty: none."""
    from ddpkit.launchers import registry

    if name in _MEANT:  # it is sbatch's beside others, such as `--nodes 2 --ntasks 4`
        others = {each.name for each in line.options_typed} & {"--nodes", "--ntasks-per-node", "--ntasks"}
        return "slurm" if others and not line.typed_backend and line.transport.local else ""
    name = LETTERS.get(name, name)
    if name in of_sbatch(Use.PASSED, Use.REFUSED, Use.READ, Use.SRUN):
        return "slurm"
    backends = registry.backends_with(name.removeprefix("--").replace("-", "_"))
    return min(backends, key=lambda backend: backend != "ssh", default="")  # the one of hosts, if it has the option


def _flag_of_setting(line: Line, token: Token) -> UsageError | None:
    """Return the error for a flag with the name of a setting that has none, such as `--fold 0`."""
    from ddpkit.config import SETTINGS, LaunchSettings

    name = token.name.removeprefix("--no-").removeprefix("--").replace("-", "_")
    if line.command != "launch" or name not in SETTINGS or SETTINGS[name].flag:
        return None
    alone = isinstance(getattr(LaunchSettings(), name), bool)
    value = str(not token.name.startswith("--no-")).lower() if alone else token.value or "VALUE"
    command = line.corrected(token, *(token.words[1:] if alone else ()))
    what = f"ddpkit launch has no option {token.name}; it is a setting of ddpkit.toml: {name}"
    return UsageError(what, f"DDPKIT_{name.upper()}={shlex.quote(value)} {command}")


def _unknown_everywhere(line: Line, token: Token, what: str) -> UsageError:
    """Return the error for an option that nothing resembles."""
    hint, long = f"ddpkit {line.command} --help", token.name[:2] == "--"
    if line.transport.slurm and long:
        hint = f"ddpkit backends {line.typed_backend or line.backend.name}"
        what += ", nor has the sbatch of this machine" if line.may_be_sbatch(token.name) else ""
        if line.may_be_sbatch(token.name, elsewhere=True):
            what += f"; that of {line.via} is asked when the job is submitted"
            word = token.name if token.value is None else f"{token.name}={token.value}"
            hint = line.corrected(token, "-o", f"sbatch={shlex.join([*shlex.split(line.option('sbatch')), word])}")
    elif line.script is None and line.takes_script and long:
        hint += "; the script's options come after `--`"
    return UsageError(what, hint)
