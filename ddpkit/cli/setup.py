"""`ddpkit init`, `backends`, `env` and `completion`: what a project, a shell and this machine have."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from ddpkit import templates
from ddpkit.cli import completion as values
from ddpkit.cli.app import JsonFlag, LeanCommand, app, option, print_json, shown
from ddpkit.cli.line import LETTERS
from ddpkit.cli.look import WIDEST, rich_out, table
from ddpkit.errors import UsageError
from ddpkit.files import LIMIT, create_whole, read_bounded


@app.command(cls=LeanCommand)
def init(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="Directory of the project. [default: this one]")
    ] = None,
    train: Annotated[
        bool, option("--train", "Also write train.py, the reference script, and config/default.yaml.")
    ] = False,
    no_toml: Annotated[bool, option("--no-toml", "Write no ddpkit.toml.")] = False,
    dry_run: Annotated[bool, option("--dry-run", "Print what would be written; write nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented ddpkit.toml into a project. Existing files are not overwritten."""
    if no_toml and not train:
        raise UsageError("--no-toml leaves nothing to write", "--train")
    project = Path(folder or ".")
    if not project.is_dir():
        raise UsageError(f"directory {project} not found", f"mkdir -p {shlex.quote(str(project))}")
    files = files_of_project(project, toml=not no_toml, train=train)
    if not dry_run:
        check_files(files)
        write_files(project, files)
    if as_json:
        written = [{"path": str(project / each.path), "state": each.state} for each in files]
        print_json("init", {"dry_run": dry_run, "files": written})
    else:
        words = {"new": "would be written" if dry_run else "written", "same": "exists already, the same"}
        for each in files:
            print(f"{project / each.path}: {words.get(each.state, each.state)}{_ABOUT.get(each.path, '')}")
        if train:
            print("train.py needs, besides torch: pip install numpy scikit-learn", file=sys.stderr)
        if not dry_run:
            print(_next(project, "train.py" if (project / "train.py").is_file() else "SCRIPT"), file=sys.stderr)
    if dry_run:
        check_files(files)


# What the main files are.
_ABOUT = {
    "ddpkit.toml": " (every setting as a comment, with its default or an example; nothing is set yet)",
    "train.py": " (the reference script)",
    "config/default.yaml": " (the settings of train.py)",
}


def _next(project: Path, script: str) -> str:
    change = "" if project == Path() else f"cd {shlex.quote(str(project))} && "
    return f"next: {change}ddpkit launch -n 2 --dry-run -- {script} prints what would run; without --dry-run it runs"


_TRAIN = ("train.py", "config/default.yaml")


@dataclass(frozen=True)
class NewFile:
    """One file to be written."""

    path: str  # relative to the project
    text: bytes
    state: str  # "new"; "same": it exists with this text; or the reason why it cannot be written

    @property
    def mode(self) -> int:
        """Programs can be started as they are; config and what others read cannot. No other user may write to them."""
        return 0o755 if self.text.startswith(b"#!") else 0o644


def files_of_project(project: Path, *, toml: bool, train: bool) -> list[NewFile]:
    """Return the files that would be written into a directory, each with its state."""
    from ddpkit.config import FILE

    names = [*([FILE] if toml else ()), *(_TRAIN if train else ())]
    texts = {path: templates.find(path).read_bytes() for path in names}
    return [NewFile(path, text, _state(project, path, text)) for path, text in texts.items()]


def _state(project: Path, path: str, text: bytes) -> str:
    """Return the state of a file that would be written: see `NewFile.state`."""
    from ddpkit.config import FILE

    target = project / path
    for folder in reversed(target.relative_to(project).parents):
        if os.path.lexists(project / folder) and not (project / folder).is_dir():
            return f"{folder} is not a directory"
    if _content(target, len(text)) == text:
        return "same"
    if os.path.lexists(target):
        return "exists already"
    if path == FILE and b"[tool.ddpkit" in _content(project / "pyproject.toml", LIMIT):
        return "pyproject.toml has a table [tool.ddpkit], which ddpkit would no longer read"
    return "new"


def _content(path: Path, limit: int) -> bytes:
    """Return the content of a file; empty where it is larger, or cannot be read."""
    try:
        return read_bounded(path, limit, follow=True)
    except OSError:
        return b""


def check_files(new_files: list[NewFile]) -> None:
    """Raise UsageError where a file cannot be written."""
    from ddpkit.config import FILE

    problems = [each for each in new_files if each.state not in ("new", "same")]
    if not problems:
        return
    text = "; ".join(f"{each.path}: {each.state}" for each in problems)
    only_toml = [each.path for each in problems] == [FILE]
    hint = "ddpkit init --no-toml --train" if only_toml else "ddpkit init DIR"
    raise UsageError(f"nothing was written: {text}", hint)


def write_files(project: Path, new_files: list[NewFile]) -> None:
    """Write the new files. Raises UsageError."""
    for each in new_files:
        target = project / each.path
        try:
            target.parent.mkdir(0o755, parents=True, exist_ok=True)
            if each.state == "new":
                create_whole(str(target), each.text, each.mode)
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror}", "ddpkit init DIR") from None


@app.command(cls=LeanCommand)
def backends(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One backend with all its options.", autocompletion=values.backends),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the backends, what they need, and their options."""
    from ddpkit.launchers import registry
    from ddpkit.transports.choose import transport_class

    try:
        chosen = [registry.load(each) for each in ([name] if name else registry.names())]
    except UsageError as error:  # its hint is one for a launch
        hint = re.sub(r"^add -b (\S+).*", r"ddpkit backends \1", error.hint or "")
        raise UsageError(error.message, hint or None) from None
    usual = _default_backend()
    described = [
        {
            "name": each.name,
            "alias": None if (short := registry.short_name(each.name)) == each.name else short,
            "default": each.name == usual,
            "summary": (each.__doc__ or "").partition("\n")[0],
            "needs": each.needs,
            "options": [
                {"name": entry.name, "values": entry.values, "default": entry.default, "doc": entry.doc}
                for entry in registry.options(each)
            ],
        }
        for each in chosen
    ]
    if as_json:
        print_json("backends", {"backends": described})
    elif name is None:
        rows = [(_shown_name(d), d["summary"], d["needs"]) for d in described]
        table(("backend", "what it does", "needs"), sorted(rows, key=lambda row: "default" not in row[0]))
        print("options of one backend: ddpkit backends NAME")
    else:
        one = described[0]
        print(f"{_shown_name(one)}: {one['summary']}\nneeds: {one['needs']}")
        letters = {long: f"{letter}, " for letter, long in LETTERS.items()} if transport_class(chosen[0]).slurm else {}
        named = [(f"--{entry['name'].replace('_', '-')}", entry) for entry in one["options"]]
        options = [(letters.get(f, "") + f, e["values"], shown(e["default"]), e["doc"]) for f, e in named]
        if rich_out() and shutil.get_terminal_size().columns < WIDEST:
            table(("option", "what it does"), [(option, _in_one_cell(*cells)) for option, *cells in options])
        else:
            table(("option", "values", "default", "what it does"), options)
        print("each also as -o NAME=VALUE, and in ddpkit.toml under [options]")


def _in_one_cell(values: str, default: str, doc: str) -> str:
    """Describe an option for a narrow window: `container runtime [auto | enroot; default: auto]`."""
    facts = [values] * (values != "text") + [f"default: {default}"] * bool(default)
    return f"{doc} [{'; '.join(facts)}]" if facts else doc


def _default_backend() -> str:
    """Return the backend of a launch without -b."""
    from ddpkit import config
    from ddpkit.launchers import registry

    chosen = config.collect_settings(config.current_folder(), os.environ, None, {}).backend
    return registry.aliases().get(chosen, chosen)


def _shown_name(described: Mapping[str, object]) -> str:
    """`ssh (ssh-torchrun-auto)`, `local (default)`."""
    name, alias = described["name"], described["alias"]
    notes = [str(name)] * bool(alias) + ["default"] * bool(described["default"])
    return f"{alias or name}{' (' + ', '.join(notes) + ')' if notes else ''}"


def _allowed_cpus() -> str:
    """Return the CPUs of this process in the form of `taskset -c`; macOS has no such list."""
    from ddpkit.launchers.cpu_binding import format_cpus

    return format_cpus(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ""


@app.command(name="env", cls=LeanCommand)
def show_env(
    as_json: JsonFlag = False,
    explain: Annotated[bool, option("--explain", "Also show which sources were not used, and why.")] = False,
) -> None:
    """Show this process's rank and world size, and where they come from."""
    from ddpkit.distributed.torch import explain as explain_environment
    from ddpkit.distributed.torch import gather_facts

    resolution = explain_environment(os.environ, (), gather_facts(os.environ))
    env, error = resolution.env, resolution.error
    if as_json:
        document = {
            "cpus": _allowed_cpus(),
            "env": env and {**asdict(env), "origin": dict(env.origin)},
            "error": error and error.message,
            "hint": error and error.hint,
            "seen": dict(resolution.seen),
            "rejected": [asdict(entry) for entry in resolution.rejected],
        }
        print_json("env", document)
    elif env is not None:
        values = {name: value for name, value in asdict(env).items() if name != "origin"}
        rows = [(name, shown(value), env.origin.get(name, "")) for name, value in values.items()]
        rows.append(("cpus", _allowed_cpus(), f"affinity of this process; the machine has {os.cpu_count()}"))
        table(("field", "value", "from"), rows)
    if explain and not as_json:
        table(("not used", "why"), [(entry.source, entry.reason) for entry in resolution.rejected])
        table(("variable seen", "value"), list(resolution.seen.items()))
    if error is not None:
        if as_json:
            raise typer.Exit(error.exit_code)
        raise error


@app.command(
    cls=LeanCommand,
    epilog='bash: `source <(ddpkit completion bash)` in ~/.bashrc. zsh: `eval "$(ddpkit completion zsh)"` in ~/.zshrc, '
    "after compinit. fish: `ddpkit completion fish > ~/.config/fish/completions/ddpkit.fish`.",
)
def completion(
    shell: Annotated[
        str | None, typer.Argument(metavar="bash|zsh|fish", help="Your shell.", autocompletion=values.shells)
    ] = None,
) -> None:
    """Print the shell script that completes ddpkit's commands, options and values."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from ddpkit.errors import nearest

    if shell is None:
        mine = os.environ.get("SHELL", "").rpartition("/")[2]
        raise UsageError("no shell given", f"ddpkit completion {mine if mine in values.SHELLS else 'bash'}")
    if shell not in values.SHELLS:
        raise UsageError(f"completion for {shell} not found", nearest(shell, values.SHELLS) or "bash, zsh or fish")
    text = get_completion_script(prog_name="ddpkit", complete_var=values.VARIABLE, shell=shell)
    # Typer's text for bash runs the word that was typed, which can be a path to somebody else's program.
    print(text.replace("=complete_bash $1", "=complete_bash ddpkit"))
