"""What was probably meant by a word in the wrong place or an unknown option; each error has the corrected line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath

from ddpkit.cli.line import BACKEND, LETTERS, NAMES_SCRIPT, RANKS, SBATCH, TORCHRUN, Flags, Line, Use, of_sbatch
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

# ---- options after the script


def check_script(line: Line, script: Token) -> None:
    """Refuse options of ddpkit after a script that no `--` precedes: `ok.py --dry-run` would run, `ok.py -n 2` once.

    After `--` everything belongs to the script.
    """
    typed = line.words[script.at + 1 :]
    line.take_backend(next((token.value or "" for token in _after(line, typed) if token.name in BACKEND), ""))
    before = {tuple(token.words) for token in line.options_typed if token.at < script.at}
    own, kept, first = list[str](), list[str](), ""
    for token in _after(line, typed):
        words = typed[token.at : token.at + len(token.words)]
        if token.is_option and token.name in _known(line).values():
            first = first or words[0]
            own += () if tuple(token.words) in before else token.words
        else:
            kept += words
    if not first:
        return
    corrected = line.write(until=script, add=own, script=[script.word, *kept])
    as_typed = line.write(until=script, script=[script.word, *typed])
    what = f"{first} comes after the script, and is an option of ddpkit"
    raise UsageError(what, f"{corrected}; if it is the script's own: {as_typed}")


def _after(line: Line, typed: Sequence[str]) -> list[Token]:
    """The tokens after the script, with ddpkit's spelling of its options: of `--dry_run`, `--dryrun` and `–n`."""
    known, words = _known(line), list[str]()
    for word in typed:
        plain = word.translate(_DASHES)
        name, value = split_option(plain) if is_option(plain) else ("", None)
        own = known.get(_plain(name) if name[:2] == "--" else name)
        joined = "" if value is None else f"={value}" if name[:2] == "--" else value
        words.append(word if own is None else own + joined)
    takes_value = line.takes_value
    return tokenize(words, lambda name, following: not is_option(following) and takes_value(name, following))


def _known(line: Line) -> dict[str, str]:
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


# ---- a script that is a launcher, or has a Python before it


def with_script(line: Line, words: Sequence[str], nested: Nested | None, until: Token | None = None) -> str:
    """Return the command line with these words as the script, or the script that a launcher among them starts."""
    script, count = plain_script(words), list[str]()
    if nested is not None:
        if nested.hint:
            return nested.hint
        script = nested.script or ("train.py" if Path("train.py").is_file() else "SCRIPT",)
        known = nested.count and (nested.per_node or line.transport.local)
        typed = {token.name for token in line.options_typed if until is None or token.at < until.at}
        count = ["-n", nested.count] if known and typed.isdisjoint(RANKS) else []
    flags = {token: () for token in line.options_typed if token.name in NAMES_SCRIPT}
    return line.write(flags, until=until, add=count, script=script)


# ---- arguments that are no hosts


def check_host(line: Line, token: Token) -> None:
    """Refuse an argument that is no host."""
    for check in (*_OF_ALL, *(_OF_A_SCRIPT if line.scripted else ())):
        error = check(line, token)
        if error:
            raise error


def _following(line: Line, token: Token) -> list[str]:
    """Return the words from here to the end, without the `--` of a script."""
    return [*line.words[token.at :], *(line.script or ())]


def _backend_name(line: Line, token: Token) -> UsageError | None:
    from ddpkit.launchers import registry

    if line.typed_backend or line.takes_hosts:
        return None
    if token.word not in registry.aliases() and token.word not in registry.names():
        return None
    return UsageError(f"{token.word} is a backend, not a host", line.corrected(token, "-b", token.word))


def _batch_script(line: Line, token: Token) -> None:
    from ddpkit.execution.job import check_batch_script, is_batch_script

    if is_batch_script(Path(token.word)):
        words = line.words[token.at :]
        check_batch_script(Path(), words, allowed=line.settings.allow_nested)


def _without_ending(line: Line, token: Token) -> UsageError | None:
    word, local = token.word, not line.has_backend or line.transport.local
    if not local or "." in word or not Path(f"{word}.py").is_file():
        return None
    what = f"{word} is in the place of a host, and {word}.py is a script"
    return UsageError(what, line.corrected(token, f"{word}.py"))


def _ranks(line: Line, token: Token) -> UsageError | None:
    """Refuse mpirun's `node1:2`: ddpkit would take 2 for the port of an SSH server."""
    number = token.word.rpartition(":")[2] if re.fullmatch(r"[^:/=]+:\d+", token.word) else ""
    if not (number and 0 < int(number) < 22 and line.has_backend and line.takes_hosts):
        return None
    return UsageError(f"{token.word}: {number} is not the port of an SSH server; -n is the number of ranks", MIGRATION)


def _value(line: Line, token: Token) -> UsageError | None:
    word, flag = token.word, line.words[token.at - 1]
    option = line.backend_options.get(flag.removeprefix("--").replace("-", "_"))
    switch = option is not None and bool(option.alone) and word in ("true", "false")
    modules = flag == "--preload" and (word == "torch" or "," in word)
    if not (switch or modules or (flag == "--stage" and word == "env")):
        return None
    what = f"{word} is in the place of a host; the form is {flag}={'MODULES' if modules else word}"
    before = next(each for each in line.tokens if each.at == token.at - 1)
    return UsageError(what, line.write({before: (f"{flag}={word}",), token: ()}))


def _number(line: Line, token: Token) -> UsageError | None:
    if not token.word.isdecimal():
        return None
    return UsageError(f"{token.word} is in the place of a host", line.corrected(token, "-n", token.word))


def _file(line: Line, token: Token) -> UsageError | None:
    if line.takes_hosts or not Path(token.word).is_file():
        return None
    hint = line.write(until=token, script=_following(line, token))
    return UsageError(f"`{token.word}` is a file here, not a host", hint)


def _program(line: Line, token: Token) -> UsageError | None:
    if not names_program(token.word):
        here = line.takes_hosts or _is_this_machine(token.word)
        if here or shutil.which(PurePath(token.word).name) is None:
            return None  # a host, perhaps one for which the backend is the wrong one
    words = _following(line, token)
    nested = find_launcher(words)
    what = nested.problem if nested else f"`{token.word}` is a program, not a host"
    return UsageError(what, with_script(line, words, nested, until=token))


def _is_this_machine(word: str) -> bool:
    return word in ("localhost", "127.0.0.1", socket.gethostname().partition(".")[0])


_Check = Callable[[Line, Token], UsageError | None]
# In this order. After each check: what was typed.
_OF_ALL: tuple[_Check, ...] = (_backend_name,)  # launch slurm -N 2 train.py
_OF_A_SCRIPT: tuple[_Check, ...] = (
    _batch_script,  # launch job.sbatch
    _without_ending,  # launch train
    _ranks,  # launch -b ssh node1:2 node2:2 train.py
    _value,  # launch --preload torch train.py
    _number,  # launch 2 train.py
    _file,  # launch notes.txt
    _program,  # launch python train.py
)

# ---- options that a command does not have

# Other names of flags, some of them sbatch's, and ddpkit's for the same purpose.
_ELSEWHERE = {
    **dict.fromkeys(("--ntasks-per-node", "--gpus", "--nproc"), "-n"),
    "--nodes": "-N",
    **dict.fromkeys(("--cwd", "--chdir", "--working-dir"), "--workdir"),
    **dict.fromkeys(("--retry", "--max-retries"), "--retries"),
}
_MISTAKEN = {name: flag.instead for name, flag in SBATCH.items() if flag.use is Use.MISTAKEN}
_ENVIRONMENTS = ("--venv", "--virtualenv", "--conda-prefix")
# Flags of launchers whose command lines ddpkit does not read.
_FOREIGN = {
    "accelerate": "--num-processes --num-machines --machine-rank --main-process-ip --main-process-port --multi-gpu "
    "--distributed-type --mixed-precision --gpu-ids --config-file",
    "deepspeed": "--num-gpus --num-nodes --include",
    "mpirun": "-np --np -H --host --hosts --machinefile --machine-file --host-file --map-by --bind-to --mca",
}


def unknown_option(line: Line, token: Token, commands: Mapping[str, Flags]) -> UsageError:
    """Return the error for an option, with what was probably meant. `commands`: all, with their options."""
    what = f"ddpkit {line.command} has no option {token.name}"
    for meant in _MEANT:
        correction = meant(line, token)
        if isinstance(correction, UsageError):
            return correction
        if correction:
            return UsageError(what, correction)
    elsewhere = _other_command(line, token, commands)
    if elsewhere is not None:
        return elsewhere
    mistyped = _mistyped(line, token)
    if mistyped:
        return UsageError(what, mistyped)
    hint, long = f"ddpkit {line.command} --help", token.name[:2] == "--"
    if line.transport.slurm and long:
        hint = f"ddpkit backends {line.typed_backend or line.backend.name}"
        what += ", nor has the sbatch of this machine" if line.may_be_sbatch(token.name) else ""
        if line.may_be_sbatch(token.name, elsewhere=True):
            what += f"; that of {line.via} is asked when the job is submitted"
            word = token.name if token.value is None else f"{token.name}={token.value}"
            hint = line.corrected(token, "-o", f"sbatch={shlex.join([*shlex.split(line.option('sbatch')), word])}")
    elif line.script is None and line.scripted and long:
        hint += "; the script's options come after `--`"
    return UsageError(what, hint)


def _setting(line: Line, token: Token) -> UsageError | str:
    """Name the setting of ddpkit.toml that was once a flag of `launch`."""
    from ddpkit.config import SETTINGS

    name = token.name
    setting = "header" if name == "--no-header" else name.removeprefix("--").replace("-", "_")
    if line.command != "launch" or setting not in SETTINGS or SETTINGS[setting].flag:
        return ""
    alone = {"header": "false", "allow_nested": "true"}.get(setting, "")
    text = alone or token.value or "VALUE"
    variable = f"DDPKIT_{setting.upper()}={shlex.quote(text)}"
    shown = text if alone or re.fullmatch(r"[\d.]+", text) else json.dumps(text)
    kept = token.words[1:] if alone else ()
    hint = f"in ddpkit.toml: {setting} = {shown}; for one launch: {variable} {line.corrected(token, *kept)}"
    return UsageError(f"ddpkit launch has no option {name}; it is a setting: {setting}", hint)


def _foreign(line: Line, token: Token) -> UsageError | str:
    name = token.name
    launcher = next((launcher for launcher, flags in _FOREIGN.items() if name in flags.split()), "")
    return UsageError(f"{name} is a flag of {launcher}, which ddpkit does not read", MIGRATION) if launcher else ""


def _launcher(line: Line, token: Token) -> UsageError | str:
    if token.name not in _ELSEWHERE:
        return ""
    if _means_slurm(line, token.name):
        return UsageError(f"{token.name} is an option of backend slurm", line.with_backend("slurm"))
    return _in_own_words(line, _ELSEWHERE)


def _means_slurm(line: Line, name: str) -> bool:
    """Tell whether this option of several launchers is sbatch's here: beside others, or where sbatch is."""
    if line.typed_backend or not line.transport.local:
        return False
    names = {each.name for each in line.options_typed if each.name[:2] == "--"} - line.options.keys()
    if any(_backend_with(each) == "slurm" for each in names - _ELSEWHERE.keys()):
        return True
    own = name in of_sbatch(Use.SAME) and {"--nodes", "--ntasks-per-node"} & names
    return bool(own and shutil.which("sbatch"))


def _scheduler(line: Line, token: Token) -> str:
    return _in_own_words(line, _MISTAKEN) if line.slurm and token.name in _MISTAKEN else ""


def _in_own_words(line: Line, own: Mapping[str, str]) -> str:
    """Return the command line with ddpkit's names for all these options at once."""
    changes = {}
    for token in line.options_typed:
        if token.name in own:
            flag, value = own[token.name], token.value
            joined = token.attached and flag[:2] == "--"
            changes[token] = [f"{flag}={value}"] if joined else [flag, *([] if value is None else [value])]
    nodes = next((each.value or "" for each in changes if own[each.name] == "-N"), "")
    alone = nodes in ("", "1") or line.typed_backend or not line.transport.local
    hosts = () if alone else ("HOST",) * min(max(int(nodes), 2), 8) if nodes.isdecimal() else ("HOST", "HOST")
    if not hosts:
        return line.write(changes)
    begin = line.script_token
    script = line.script if begin is None else line.words[begin.at :]
    return line.write(changes, until=begin, add=("-b", "ssh", *hosts), script=script)


def _environment(line: Line, token: Token) -> str:
    if token.name not in _ENVIRONMENTS or not token.value:
        return ""
    return line.corrected(token, "--python", str(PurePath(token.value, "bin", "python")))


def _passed_on(line: Line, token: Token) -> UsageError | str:
    """Name all options of srun as the backend's option of this name."""
    from ddpkit.launchers.shell import join

    use = SBATCH[token.name].use if line.slurm and token.name in SBATCH else None
    if use is not Use.SRUN:
        return ""
    program = str(use.value)
    changes = dict[Token, Sequence[str]]()
    given, before = list[str](), str(line.settings.options.get(program, ""))
    for each in line.options_typed:
        if each.name in of_sbatch(use):
            given.append(f"{each.name}={each.value}" if each.value is not None else each.name)
            changes[each] = ()
        elif each.name == "-o" and (each.value or "").startswith(f"{program}="):
            before, changes[each] = str(each.value).partition("=")[2], ()
    changes[token] = ("-o", f"{program}={f'{before} {join(given)}'.strip()}")
    return UsageError(f"{token.name} is an option of {program}", line.write(changes))


def _backend(line: Line, token: Token) -> UsageError | str:
    backend = _backend_with(token.name)
    what = f"{token.name} is an option of backend {backend}"
    return UsageError(what, line.with_backend(backend)) if backend else ""


def _backend_with(name: str) -> str:
    """Return the backend that has an option, by its name or by sbatch's letter; empty: none."""
    from ddpkit.launchers import registry

    name = LETTERS.get(name, name)
    if name in of_sbatch(Use.PASSED, Use.REFUSED, Use.READ):
        return "slurm"
    backends = registry.backends_with(name.removeprefix("--").replace("-", "_"))
    return min(backends, key=lambda backend: backend != "ssh", default="")  # the one of hosts, if it has the option


def _other_command(line: Line, token: Token, commands: Mapping[str, Flags]) -> UsageError | None:
    found = [(other, flags[token.name]) for other, flags in commands.items() if token.name in flags]
    if not found:
        return None
    command, takes_value = min(found, key=lambda each: each[0] != "launch")
    hint = line.corrected(token, *(() if takes_value else token.words[1:]))
    return UsageError(f"ddpkit {line.command} has no option {token.name}; `ddpkit {command}` has it", hint)


def _mistyped(line: Line, token: Token) -> str:
    if token.name[:2] != "--":
        return ""
    options = [f"--{key.replace('_', '-')}" for key in line.backend_options]
    own = [each for each in (*line.options, *TORCHRUN) if each[:2] == "--"]
    meant = similar(token.name, [*own, *options])
    joined = f"={token.value}" if token.attached else ""
    return line.corrected(token, f"{meant}{joined}", *token.words[1:]) if meant else ""


# In this order. Each returns a whole error, the hint alone, or nothing. After each: what was typed.
_MEANT: tuple[Callable[[Line, Token], UsageError | str], ...] = (
    _setting,  # --fold 0
    _foreign,  # --num-processes 4
    _launcher,  # --ntasks-per-node 4
    _scheduler,  # -b slurm --walltime 1:00
    _environment,  # --venv DIR
    _passed_on,  # -b slurm --mpi pmix
    _backend,  # --partition gpu, without -b slurm
)
