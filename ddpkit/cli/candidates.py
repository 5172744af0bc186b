"""Candidates for the word under the cursor of a shell: commands, options, backends, hosts and runs.

The shell's part (`ddpkit completion bash`) runs ddpkit with VARIABLE set and the words typed so far. Candidates are
printed one a line; without any the shell offers files. Values of options need no import of typer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddpkit.cli.line import Line
from ddpkit.errors import DdpkitError

if TYPE_CHECKING:
    from ddpkit.launchers.registry import Option

VARIABLE = "_DDPKIT_COMPLETE"
_HOSTED = ("launch", "hold", "test", "test-distributed", "bench")


@dataclass(frozen=True)
class Parameter:
    """An option or an argument of a command."""

    names: tuple[str, ...]  # empty: an argument
    takes_value: bool
    metavar: str


Commands = Callable[[], Mapping[str, Sequence[Parameter]]]


def list_candidates(words: Sequence[str], commands: Commands) -> list[str]:
    """List the words that the last word begins. `words` come after `ddpkit`; the last one may be empty."""
    try:
        names = _candidates(list(words), commands)
    except (DdpkitError, OSError):
        return []  # the command itself will report the error
    return sorted({each for each in names if each.startswith(words[-1])})


def _candidates(words: list[str], commands: Commands) -> Iterable[str]:
    current = words[-1]
    if len(words) == 1:
        return [*commands(), "help", "--help", "--version"]
    if words[0] == "help":
        return commands()
    if words[0] in _HOSTED and _line(words).has_script:
        return []  # the script's own
    before = words[-2] if len(words) > 2 else ""
    quick = _value(before, current, words)
    if quick is not None:
        return quick
    parameters = commands().get(words[0], ())
    flags = words[0] in _HOSTED and "=" not in current and (current[:1] == "-" or before[:2] == "--")
    backend = _backend_options(words) if flags else {}
    valued = {name for each in parameters if each.takes_value for name in each.names}
    if before in valued:
        return []  # a number, a file
    if before in backend and not backend[before].alone:
        values = backend[before].values
        return values.split(" | ") if " | " in values else []
    if current.startswith("-"):
        name, equals, value = current.partition("=")
        if equals and name.startswith("--"):
            return [f"{name}={each}" for each in _value(name, value, words) or ()]
        return [*(name for each in parameters for name in each.names), *backend]
    return _argument(words, parameters)


def _argument(words: list[str], parameters: Sequence[Parameter]) -> Iterable[str]:
    metavars = "".join(each.metavar for each in parameters if not each.names)
    if "RUN" in metavars:
        return runs()
    if words[0] == "backends":
        return backends()
    if words[0] == "nodes":
        return bad_nodes(words)
    if words[0] == "completion":
        return ("bash", "zsh", "fish")
    if words[0] == "explain" and words[-1]:  # else the shell offers files
        from ddpkit.diagnosis.catalogue import BY_ID

        return BY_ID
    return hosts(words) if words[0] in _HOSTED else ()


def _value(option: str, current: str, words: Sequence[str]) -> Iterable[str] | None:
    """Return the values of an option; None where it is none of these."""
    if option in ("-b", "--backend"):
        return backends()
    if option in ("-o", "--option"):
        return _options(_line(words), current)
    if option == "--profile":
        return profiles()
    if option == "--role":
        return roles(words)
    if option == "--on":
        return hosts(words, always=True)
    if option in ("-n", "--nproc-per-node"):
        return ("auto",)
    if option == "--env":
        return () if "=" in current else (each for name in os.environ for each in (name, f"{name}="))
    return None


def backends() -> list[str]:
    from ddpkit.launchers import registry

    return [*registry.names(), *registry.aliases()]


def _backend_options(words: Sequence[str]) -> dict[str, Option]:
    """Return the options of the chosen backend, by their flags."""
    known = _line(words).backend_options
    return {f"--{name.replace('_', '-')}": each for name, each in known.items()}


def _options(line: Line, current: str) -> list[str]:
    """`KEY=` of a backend's options; after the `=`, the values where they are few."""
    known = line.backend_options.values()
    key, equals, _ = current.partition("=")
    if not equals:
        return [f"{each.name}=" for each in known]
    chosen = [each for each in known if each.name == key.replace("-", "_")]
    return [f"{key}={value}" for each in chosen if " | " in each.values for value in each.values.split(" | ")]


def profiles() -> list[str]:
    from ddpkit import config

    return list(config.read_file(Path.cwd()).profiles)


def runs() -> list[str]:
    """Return the ids of all runs, for any command that takes a RUN."""
    from ddpkit.run import run_index

    return [entry.run.run_id for entry in run_index.list_runs() if entry.run is not None]


def roles(words: Sequence[str]) -> list[str]:
    """Return the roles and the replicas of the run that is named, else of the newest of this project."""
    from ddpkit.run import run_index, status

    known = run_index.list_runs()
    every = {entry.run_id: entry.run for entry in known if entry.run is not None}
    mine = [entry.run for entry in status.runs_of_project(known) if entry.run is not None]
    run = next((every[word] for word in words[1:-2] if word in every), mine[0] if mine else None)
    names = run.replicas if run is not None else ()
    return [*dict.fromkeys(name.rpartition(".")[0] for name in names), *names]


def bad_nodes(words: Sequence[str]) -> list[str]:
    """Return the actions of `ddpkit nodes`; after one, the bad nodes."""
    import time

    from ddpkit.run.bad_nodes import known

    if not {"check", "forgive"} & set(words[1:-1]):
        return ["check", "forgive"]
    line = _line(words)
    file = line.typed("--bad-nodes") or line.settings.bad_nodes
    return [node.host for node in known(file, time.time()).nodes]


def hosts(words: Sequence[str], *, always: bool = False) -> list[str]:
    """Return groups, and the nodes that ddpkit.toml or the host file names; none for a backend that takes none."""
    from ddpkit.files import read_trusted
    from ddpkit.transports.hosts import parse, parse_file

    line = _line(words)
    settings = line.settings
    if not (always or line.transport.names_nodes):
        return []
    labels = [f"@{group}" for group in settings.groups] + list(settings.host)
    specs = [spec for group in settings.groups for spec in parse([f"@{group}"], settings.groups, {})]
    if settings.hosts:
        specs += parse(settings.hosts, settings.groups, {})
    path = line.typed("--hostfile") or settings.hostfile
    if path:
        text, untrusted = read_trusted(Path(path))
        specs += [] if untrusted else parse_file(path, text, {}, "", settings.groups)
    return [*labels, *(f"{spec.user}@{spec.label}" if spec.user else spec.label for spec in specs)]


def _line(words: Sequence[str]) -> Line:
    """Return the words before the cursor. Flags of settings are known without typer."""
    from ddpkit.config import SETTINGS

    flags = {name: each.takes_word for each in SETTINGS.values() for name in each.spellings}
    end = words.index("--") if "--" in words[:-1] else len(words) - 1
    return Line(words[:end], words[end + 1 : -1] if end < len(words) - 1 else None, {**flags, "--profile": True})


SCRIPTS = {
    "bash": """\
_ddpkit() {
    local IFS=$' \\t' words prefix
    read -r -a words <<<"${COMP_LINE:0:COMP_POINT}"
    case ${COMP_LINE:0:COMP_POINT} in *[[:blank:]]) words+=('') ;; esac
    prefix=${words[${#words[@]} - 1]}
    prefix=${prefix%"${prefix##*[=:@]}"} # bash has these as words of their own
    IFS=$'\\n'
    COMPREPLY=($(_DDPKIT_COMPLETE=1 "${words[0]}" "${words[@]:1}" 2>/dev/null))
    case $COMP_WORDBREAKS in *=*) COMPREPLY=("${COMPREPLY[@]#"$prefix"}") ;; esac
    if [ ${#COMPREPLY[@]} -eq 1 ]; then case ${COMPREPLY[0]} in *=) compopt -o nospace ;; esac; fi
}
complete -o default -F _ddpkit ddpkit
""",
    "zsh": """\
#compdef ddpkit
_ddpkit() {
    local -a found
    found=(${(f)"$(_DDPKIT_COMPLETE=1 ${words[1]} "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found == 0 )); then _files; return; fi
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
if [[ $funcstack[1] == _ddpkit ]]; then _ddpkit "$@"; else compdef _ddpkit ddpkit; fi
""",
    "fish": """\
function __ddpkit_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (_DDPKIT_COMPLETE=1 command $words[1] $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c ddpkit -f -a '(__ddpkit_complete)'
""",
}
