"""The `ddpkit` program: its options, its errors, and functions that all commands use."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cached_property, partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from ddpkit.cli import __version__
from ddpkit.cli.line import Line
from ddpkit.console.guarded import guarded_output
from ddpkit.errors import NO_THREAD, DdpkitError, UsageError, no_process, no_thread, similar
from ddpkit.run import state

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.cli.line import Flags
    from ddpkit.launchers.host_names import Via
    from ddpkit.launchers.plan import Plan
    from ddpkit.transports.ssh.login_host import LoginHost


def _skip_type_conversion(parameters: list[Any]) -> list[Any]:
    """Take parameters without conversion: all are text, lists of text, or flags.

    Typer from 0.27 converts values with pydantic. Importing that takes longer than everything else that a launch does
    before its ranks start. Replaced are three methods that Click documents: `process_value`, `get_usage_pieces` and
    `get_help_record`. Nothing else of Typer is changed.
    """
    for parameter in parameters:
        many = parameter.nargs == -1 or getattr(parameter, "multiple", False)
        parameter.process_value = partial(_raw_value, parameter, () if many else None)
        if parameter.param_type_name == "argument":  # typer would show `[[RUN]]`, and `<list[str]>`
            shown = parameter.metavar or parameter.name.upper()
            parameter.get_usage_pieces = partial(_always, [shown])
            parameter.get_help_record = partial(_always, (shown, parameter.help or ""))
    return parameters


def _always(value: Any, _context: Any) -> Any:
    return value


def _raw_value(parameter: Any, missing: Any, context: Any, value: Any) -> Any:
    value = missing if value is None else value
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


class LeanCommand(typer.core.TyperCommand):
    """A command whose parameters cost no import."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _skip_type_conversion(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List arguments, then each group of options."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for each in self.get_params(ctx):
            shown = each.get_help_record(ctx)
            if shown is not None:
                default = "Arguments" if each.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(each, "rich_help_panel", None) or default, []).append(shown)
        groups |= {"Options": groups.pop("Options")}  # last
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the text, and the lines that are commands as they are."""
        lines = (self.epilog or "").splitlines()
        text = " ".join(line for line in lines if not line.startswith("ddpkit "))
        if text:
            formatter.write_paragraph()
            formatter.write_text(text)
        examples = [line for line in lines if line.startswith("ddpkit ")]
        if examples:
            with formatter.section("Examples"):
                for line in examples:
                    formatter.write(f"{' ' * formatter.current_indent}{line}\n")


# The list of `ddpkit --help`, in the order of use, in words that fit beside the names.
COMMANDS = {
    "Run": {
        "launch": "Run a script on every rank; the first failure ends the run.",
        "hold": "Keep nodes and a warm Python for launches.",
        "test": "Check nodes, network, GPUs and ranks before a launch.",
        "bench": "Measure the speed of collectives between the ranks.",
        "drill": "Inject faults into a short run of a script.",
    },
    "Watch": {
        "ps": "List runs.",
        "status": "Show a run rank by rank, and ranks without progress.",
        "logs": "Print the output of a run.",
        "top": "Show GPUs, CPUs and memory, live.",
        "attach": "Follow a running run.",
        "stop": "Stop a run, and wait for its end.",
        "dump": "Show the stack of every rank of a run that hangs.",
        "shell": "Open a shell where a rank runs.",
        "debug": "Attach a debugger to a rank.",
        "forward": "Forward a port to the node of a rank.",
        "report": "Write one HTML page about a run.",
        "rm": "Remove the directories of ended runs.",
        "nodes": "List bad nodes, check them again, or forgive them.",
        "explain": "Show the first failure in a log, its cause and its fix.",
    },
    "Set up": {
        "init": "Write a commented ddpkit.toml.",
        "backends": "List the backends and their options.",
        "env": "Show rank and world size, and where they come from.",
        "completion": "Print the shell script that completes ddpkit's commands.",
    },
}
# The module of each command: one command imports one of them.
_MODULES = {
    "launch": "launch",
    "hold": "launch",
    "drill": "drill",
    **dict.fromkeys(("test", "test-distributed", "bench", "nodes"), "test"),
    **dict.fromkeys(("ps", "status", "logs", "attach", "stop", "rm"), "runs"),
    **dict.fromkeys(("top", "dump"), "live"),
    **dict.fromkeys(("shell", "debug", "forward"), "at_rank"),
    **dict.fromkeys(("explain", "report"), "explain"),
    **dict.fromkeys(("init", "backends", "env", "completion"), "setup"),
}
# Names of other programs for these commands.
_MEANT = {
    **dict.fromkeys(("run", "start", "train", "torchrun"), "launch"),
    **dict.fromkeys(("sbatch", "salloc", "srun", "submit"), "launch -b slurm"),
    **dict.fromkeys(("list", "ls", "runs", "jobs", "queue", "squeue", "sacct"), "ps"),
    **dict.fromkeys(("kill", "cancel", "scancel", "end"), "stop"),
    **dict.fromkeys(("check", "preflight", "doctor"), "test"),
    **dict.fromkeys(("log", "tail"), "logs"),
    **dict.fromkeys(("why", "diagnose"), "explain"),
    **dict.fromkeys(("exec", "ssh", "enter"), "shell"),
    "stacks": "dump",
    "config": "init",
}


class LeanGroup(typer.core.TyperGroup):
    """`ddpkit` itself: it imports no more than its commands do, and lists them in groups."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _skip_type_conversion(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<11}", words) for name, words in commands.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command by its name. Raises UsageError for another word, with what was probably meant."""
        word = args[0] if args else ""
        if word.startswith("-") or word in self.commands:
            return super().resolve_command(ctx, args)
        from ddpkit.launchers.shell import quote

        if word.endswith(".py"):
            here = [path.name for path in Path().glob("*.py")]
            script = word if Path(word).is_file() else similar(word, here) or word
            meant = f"launch {quote(script)}"
        else:
            meant = _MEANT.get(word) or similar(word, [*_MODULES, "--version"]) or ""
        # The options of scancel and kill are not those of stop.
        keep = [each for each in args[1:] if meant.startswith("launch") or not each.startswith("-")]
        if meant.startswith(("launch", "stop")) and keep:
            from ddpkit.launchers.shell import join

            meant = f"{meant} {join(keep)}"
        raise UsageError(f"command {word!r} not found", f"ddpkit {meant}" if meant else "ddpkit --help")


app = typer.Typer(
    name="ddpkit",
    help="Start an unmodified PyTorch script on every rank, and report why it failed.",
    add_completion=False,  # `ddpkit completion` prints the function of a shell, and changes no file
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, at once: the boxes cost as much time as everything else
    context_settings={"help_option_names": ["-h", "--help"]},
)


def option(names: str, text: str, metavar: str | None = None, group: str | None = None, complete: Any = None) -> Any:
    """Declare an option: its names, its line in the help, the placeholder of its value, and its group in the help.

    `complete`: a function of `completion` for its values.
    """
    return typer.Option(*names.split(), help=text, metavar=metavar, rich_help_panel=group, autocompletion=complete)


JsonFlag = Annotated[bool, option("--json", "Print JSON on standard output.")]


def run(argv: list[str]) -> int:
    """Run one command line. Returns the exit code (see `ddpkit.errors`)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name of a file need not be text, and LANG=C knows few characters
            stream.reconfigure(errors="backslashreplace")
    with guarded_output():
        return _run_to_its_end(argv)


def _run_to_its_end(argv: list[str]) -> int:
    """Run one command line, and report every error: ddpkit's own with a hint, a defect with its traceback."""
    state.connect = _login_host
    try:
        code = _run(argv)
        sys.stdout.flush()  # Python itself would complain too late, and in its own words
    except BrokenPipeError:  # a program like `head` read enough
        redirect_to_devnull(1)
        return 141
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            what = f"a name of {len(str(error.filename))} characters: {error.strerror}"
            return _explain(UsageError(what, "ddpkit ps, or ddpkit --help"))
        if error.errno in (errno.EMFILE, errno.EAGAIN):
            return _explain(no_process(error))
        if error.filename is not None or error.errno not in _FULL:
            sys.excepthook(*sys.exc_info())
            return DdpkitError.exit_code
        redirect_to_devnull(1)
        return _explain(DdpkitError(f"cannot write the output: {error.strerror}", "df -h, then repeat the command"))
    except Exception:  # a defect of ddpkit: never the exit code of a script
        sys.excepthook(*sys.exc_info())
        return DdpkitError.exit_code
    return code


def _login_host(via: Via, control: Callable[[], str]) -> LoginHost:
    from ddpkit.transports.ssh.login_host import of_record

    return of_record(via, control)


# Errors of a write to a full file system.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def redirect_to_devnull(*outputs: int) -> None:
    """Discard what Python still writes to these descriptors, so that it reports no error while it exits."""
    null = os.open(os.devnull, os.O_WRONLY)
    for output in outputs:
        os.dup2(null, output)


def _explain(error: DdpkitError, line: Line | None = None) -> int:
    """Print an error and its hint. `line`: hints are written as this whole command line. Returns the exit code."""
    # The message can list problems, each with its hint.
    message = re.sub("(?m)(?<=^    hint: ).*", lambda hint: hint_for(hint[0], line), error.message)
    error.rephrase(message, error.hint and hint_for(error.hint, line))  # which masks what was typed
    print(f"ddpkit: error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code


def hint_for(hint: str, line: Line | None) -> str:
    """Write a hint as the whole command line, if it is one of a launch."""
    return line.whole_hint(hint) if line is not None and line.command in _LAUNCHES else hint


def _run(argv: list[str]) -> int:
    """Run one command line. Returns the exit code, after an error of ddpkit or Click with its text."""
    # Everything after the first `--` belongs to the script, in commands that have one. Typer would remove the `--`.
    has_script = "--" in argv and argv[0] in (*_LAUNCHES, "shell")
    end = argv.index("--") if has_script else len(argv)
    line, is_translated = Line(argv[:end], argv[end + 1 :] if has_script else None), False
    if line.command not in (*_LAUNCHES, "shell") or "--dry-run" in line.words:
        _forget_relative_path()
    try:
        if line.words[:1] == ["help"]:
            line = Line([*line.words[1:2], "--help"], None)
        group = program(*line.words[:1])
        if line.command in _LAUNCHES and line.words[1:] not in (["--help"], ["-h"]):
            line.options = _Options(group)[line.command]
            line, is_translated = _translate(line, group), True
        with group.make_context("ddpkit", [*line.words] or ["--help"], obj=line) as context:
            group.invoke(context)
    except DdpkitError as error:
        # An error of the translation has a whole command already.
        is_change = is_translated or (error.hint or "").startswith(("add ", "remove "))
        return _explain(error, line if is_change else None)
    except typer.Exit as end:
        return end.exit_code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else DdpkitError.exit_code
    except Exception as error:
        if str(error) == NO_THREAD:
            return _explain(no_thread())
        if not hasattr(error, "format_message"):
            raise
        return _explain(_parse_error(error, group, line.words))
    return 0


def _forget_relative_path() -> None:
    """Search programs in absolute directories alone: a look runs no `scontrol` of the directory that it looks at."""
    absolute = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]
    os.environ["PATH"] = os.pathsep.join(absolute) or os.defpath


def _parse_error(error: Any, group: Any, words: list[str]) -> UsageError:
    """Turn an error of Click, whose module depends on the version of typer, into one of ddpkit's own."""
    hint = f"ddpkit {words[0]} --help" if words[0] in group.commands else "ddpkit --help"
    option = getattr(error, "option_name", None)
    if option is None:
        extra = re.search(r"unexpected extra argument(?:s|\(s\))? \((.*)\)", error.message)
        if extra:
            return UsageError(f"unexpected argument: {extra[1]}", hint)
        return UsageError(error.format_message().rstrip("."), hint)
    if not hasattr(error, "possibilities"):
        return UsageError(f"{option} {'needs a' if 'requires' in error.message else 'takes no'} value", hint)
    if error.possibilities:
        hint = f"did you mean {' or '.join(sorted(error.possibilities))}? {hint} lists all"
    elif words[0] == "-v":
        hint = "ddpkit --version"
    elif words[0].startswith("-") and any(word.endswith(".py") for word in words):
        from ddpkit.launchers.shell import join

        hint = f"ddpkit launch {join(words)}"
    return UsageError(f"option {option} not found", hint)


# Commands that also take the flags of other launchers.
_LAUNCHES = ("launch", "hold", "drill", "test", "test-distributed", "bench")


def program(*commands: str) -> Any:
    """Build `ddpkit` with these commands: to import and build all takes longer than to run one."""
    for module in {_MODULES[command] for command in commands if command in _MODULES}:
        importlib.import_module(f"ddpkit.cli.{module}")
    part = copy(app)
    part.registered_commands = [
        each for each in app.registered_commands if (each.name or getattr(each.callback, "__name__", "")) in commands
    ]
    return typer.main.get_command(part)


def whole_program() -> Any:
    """Build `ddpkit` with all commands."""
    return program(*_MODULES)


def _takes_word(option: Any) -> bool:
    """Tell whether a value of an option is the next word. A value in brackets always follows `=`."""
    return not option.is_flag and not (option.metavar or "").startswith("[")


class _Options(Mapping[str, "Flags"]):
    """The options of each command by its name; those of other commands than this one are read for an error only."""

    def __init__(self, group: Any) -> None:
        self.group = group

    @cached_property
    def _all(self) -> Any:
        return whole_program().commands

    def __getitem__(self, name: str) -> Flags:
        command = self.group.commands.get(name) or self._all[name]
        flags = {flag: _takes_word(each) for each in command.params for flag in each.opts if flag[0] == "-"}
        return {**flags, "-h": False, "--help": False}

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def _translate(line: Line, group: Any) -> Line:
    """Translate options of backends and of torchrun. Prints notes."""
    from ddpkit.cli import reader

    typed = reader.translate(line, _Options(group))
    for text in typed.notes:
        note(text)
    return Line(typed.words, typed.script, line.options)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ddpkit {__version__}")
        raise typer.Exit


@app.callback(cls=LeanGroup)
def _root(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def print_json(name: str, document: Mapping[str, object], *, line: bool = False) -> None:
    """Print a document of `--json`, described by docs/schema/NAME.json; as one `line` where others follow."""
    text = json.dumps({"schema": f"ddpkit.{name}/1", **document}, indent=None if line else 2)
    print(text, flush=True)


def show_plan(plan: Plan, as_json: bool, name_programs: Callable[[str], str] = str) -> None:
    """Print the dry run of a command. `name_programs`: shows those of ddpkit by their names."""
    from ddpkit.launchers.plan import plan_as_dict

    if as_json:
        print_json("plan", plan_as_dict(plan))
        return
    text = name_programs(str(plan))
    if sys.stdout.isatty():
        print(text, end="")
    else:
        # A program reads it: exact, as its words are bytes that need not be text.
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line for a person, on standard error."""
    print(text if text.startswith(("ddpkit: ", "hint: ", "    ")) else f"ddpkit: {text}", file=sys.stderr)


def shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
