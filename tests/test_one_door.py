"""Files and processes of others: `node/owned.py` alone deletes and overwrites, `node/process_tree.py` alone signals.

The package is read as a syntax tree, the shell text in it and its scripts as text. What is declared here needs a
reason why it cannot touch what ddpkit did not make.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rooms

ROOT = Path(__file__).parents[1]
FILES = rooms.sources()

# Functions of modules, whatever their arguments.
FORBIDDEN = {
    "os": "kill killpg remove removedirs rename renames replace rmdir truncate unlink".split(),
    "shutil": "copy copy2 copyfile copytree move rmtree".split(),
    "signal": ["pidfd_send_signal"],
    "tempfile": "NamedTemporaryFile TemporaryDirectory mkdtemp mkstemp".split(),
}
METHODS = "rename rmdir touch truncate unlink write_bytes write_text".split()  # of a Path, or of a file
WRITES = re.compile("[wax+]")
# Flags of `os.open` with which no file is made or emptied. A pipe, or a device, is written to.
READING = {"os", *"O_RDONLY O_WRONLY O_RDWR O_NONBLOCK O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NOCTTY O_PATH".split()}

# Each in the form "module: what", with its reason.
DECLARED = {
    "node.owned": "the one door for files",
    "files: os.open": "reads: O_RDONLY",
    "node.process_tree": "the one door for signals: to processes below this one",
    # Programs that run alone on a node, as one file.
    "node.rank.rank_wrapper: os.kill": "its own children, which it has not waited for",
    "node.rank.function_call: os.open": "its own value, in a private directory of this run: O_NOFOLLOW",
    "distributed.torch: .unlink": "its own drafts, known by name and lock; `ddpkit init` copies it for other nodes",
    "distributed.torch: os.open": "a new draft: O_EXCL",
    "distributed.torch: .replace": "its own draft over the checkpoint that the script names",
    "node.calls.stage: os.open": "a lock: nothing is written to it",
    "node.collect: os.open": "appends in the run's own directory: O_NOFOLLOW",
    "node.calls.stack_dump: open": "the answer of a rank, a file in memory",
    "node.calls.stack_dump: .truncate": "the answer of a rank, a file in memory",
    "node.rank.rank_responder: open": "the name of its own thread, in /proc/self",
    "node.drill_fault: os.kill": "a rank that `at_rank` found, by its start: another process with its number gets none",
    # On the launcher.
    "run.launcher_process: os.kill": "the launcher of a run: checked by its start, boot and host",
    "run.launcher_process: signal.pidfd_send_signal": "the launcher of a run: checked by its start, boot and host",
    "machine: os.killpg": "the group of a command that it started, and has not waited for",
    "transports.protocol: os.killpg": "continues the supervisor that it started, and has not waited for",
    "run.bad_nodes: os.open": "a lock: nothing is written to it",
    "run.tmux: open": "a pipe of its own, by its descriptor",
    "transports.ssh.keys: open": "appends a host's key to the user's known_hosts, as ssh does",
    "__main__: open": "standard output that was closed: /dev/null",
    "cli.app: .write_text": "a paragraph of a help text",
}


def writes(call: ast.Call) -> bool:
    """Whether a call of `open` can write. A mode that is no text may be any."""
    modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    if isinstance(call.func, ast.Attribute):  # of a Path
        modes = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(not isinstance(mode, ast.Constant) or WRITES.search(str(mode.value)) for mode in modes)


def is_own(call: ast.Call) -> bool:
    """`os.kill(os.getpid(), ...)`, and `os.kill(pid, 0)`, which signals nothing."""
    return ast.unparse(call.args[0]) == "os.getpid()" or ast.unparse(call.args[1]) == "0"


def found_in(call: ast.Call) -> str:
    """What a call does that only a door may do; empty: nothing."""
    function = call.func
    if isinstance(function, ast.Name):
        # A descriptor that a door or `os.open` gave is no name.
        first = ast.unparse(call.args[0].func) if call.args and isinstance(call.args[0], ast.Call) else ""
        given = (
            first.rpartition(".")[2] == "open_for_append" or first in ("os.open", "_open") or first.endswith(".detach")
        )
        opens = function.id == "open" and writes(call) and not given
        return "open" if opens else ""
    if not isinstance(function, ast.Attribute):
        return ""
    module = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr in FORBIDDEN.get(module, ()):
        return "" if function.attr == "kill" and is_own(call) else f"{module}.{function.attr}"
    if module in ("os", "shutil"):
        flags = ast.unparse(call.args[1]) if function.attr == "open" and len(call.args) > 1 else ""
        terminal = "null" in ast.unparse(call.args[0]) if call.args else False
        unclear = bool(flags) and not set(re.findall(r"\w+", flags)) <= READING
        return "os.open" if unclear and not terminal and "/proc/self/fd/" not in ast.unparse(call) else ""
    if function.attr in METHODS:
        return f".{function.attr}"
    if function.attr == "open" and module not in ("webbrowser", "owned"):
        return ".open" if call.args and isinstance(call.args[0], ast.Constant) and writes(call) else ""
    # Text has `replace` with two arguments, a date with keywords.
    return ".replace" if function.attr == "replace" and len(call.args) == 1 and not call.keywords else ""


def handed_on(function: ast.Attribute) -> str:
    """`atexit.register(path.unlink)`, `killpg = os.killpg`."""
    module = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr in FORBIDDEN.get(module, ()):
        return f"{module}.{function.attr}"
    return f".{function.attr}" if function.attr in METHODS and module not in FORBIDDEN else ""


def offences(name: str, text: str) -> Iterator[tuple[str, int]]:
    tree = ast.parse(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and (what := found_in(node))) or (
            isinstance(node, ast.Attribute) and id(node) not in called and (what := handed_on(node))
        ):
            yield f"{name}: {what}", node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN:
            yield from (
                (f"{name}: {node.module}.{each.name}", node.lineno)
                for each in node.names
                if each.name in FORBIDDEN[node.module]
            )


def test_only_the_doors_delete_overwrite_and_signal() -> None:
    seen = [
        (what, line)
        for name, path in FILES.items()
        if name not in DECLARED
        for what, line in offences(name, path.read_text())
        if what not in DECLARED
    ]
    assert seen == [], "use ddpkit/node/owned.py, ddpkit/files.py or process_tree.kill"


def test_each_exception_is_needed() -> None:
    seen = {what for name, path in FILES.items() for what, _ in offences(name, path.read_text())}
    assert {each for each in DECLARED if ":" in each} <= seen
    assert {each for each in DECLARED if ":" not in each} <= set(FILES)


@pytest.mark.parametrize(
    "text",
    [
        "os.unlink(path)",
        "shutil.rmtree(folder, ignore_errors=True)",
        "Path(path).unlink(missing_ok=True)",
        "beside.replace(kept)",
        "os.killpg(process.pid, 9)",
        "os.kill(pid, signal.SIGKILL)",
        "open(path, 'w').write(text)",
        "path.open('ab')",
        "open(path, mode='r+')",
        "path.write_text(text)",
        "os.open(path, os.O_WRONLY | os.O_TRUNC)",
        "tempfile.mkdtemp(prefix='ddpkit-')",
        "from shutil import rmtree",
        "atexit.register(Path(path).unlink)",
        "killpg = os.killpg",
        "os.open(path, flags)",
        "open(log.replace('a', 'b'), 'ab')",
    ],
)
def test_what_is_not_allowed_is_found(text: str) -> None:
    assert list(offences("a", text))


@pytest.mark.parametrize(
    "text",
    [
        "name.replace('a', 'b')",
        "when.replace(hour=3)",
        "replace(run, state='done')",
        "os.kill(os.getpid(), signal.SIGTSTP)",
        "os.kill(pid, 0)",
        "open(path, 'rb')",
        "path.open()",
        "process.kill()",  # of subprocess: its own child, which was not waited for
        "open(owned.open_for_append(path), 'wb')",
        "os.open(os.devnull, os.O_RDWR)",
    ],
)
def test_what_is_harmless_is_not_found(text: str) -> None:
    assert not list(offences("a", text))


# ---- shell

# What deletes, moves, overwrites or signals, at the beginning of a command.
SHELL = re.compile(
    r"(?:^|[;&|({`]|\bthen|\bdo|\belse|\$\(|['\"])\s*(rm|rmdir|mv|truncate|kill|pkill|killall|shred|dd)\s+(?=\S)"
)
ALLOWED = {
    # A directory that `mktemp -d` of the same function made.
    'rm -rf -- "$scratch"',
    'rm -r -- "$scratch"',
    # A mark in a directory of ddpkit's own, which belongs to this user alone.
    'rm -- "$part.half"',
    # Its own child, or itself.
    "kill -$name $child",
    "kill -KILL -$$",
    'kill -0 "$child"',
    "kill -$((code - 128)) $$",
    "kill -9 $(cat /proc/$$/task/$$/children)",
    'kill -0 "$watch"',
    'kill "$watch"',
    'kill -KILL "$pdsh"',
    'kill "$guard"',
    'kill -0 "$pid"',
}
PROSE = re.compile(r"^\s*#(?!!)")


def shell_commands(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if PROSE.match(line):
            continue
        for found in SHELL.finditer(line):
            rest = line[found.start(1) :]
            if not any(rest.startswith(each) for each in ALLOWED):
                yield rest


def texts_of(name: str) -> Iterator[str]:
    """Texts in a module that are no docstrings."""
    tree = ast.parse(FILES[name].read_text())
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


SCRIPTS = sorted(
    path
    for folder in ("scripts", "scripts/ssh", "scripts/slurm")
    for path in (ROOT / folder).iterdir()
    if path.suffix in (".sh", ".sbatch", ".slurm")
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_delete_and_signal_only_their_own(path: Path) -> None:
    assert list(shell_commands(path.read_text())) == []


@pytest.mark.parametrize("room", ["launchers", "transports", "execution", "node"])
def test_written_shell_deletes_and_signals_only_its_own(room: str) -> None:
    seen = [
        (name, command)
        for name in FILES
        if name.startswith(f"{room}.")
        for text in texts_of(name)
        for command in shell_commands(text)
    ]
    assert seen == []


def test_no_program_that_deletes_is_started() -> None:
    programs = {"rm", "rmdir", "mv", "pkill", "killall", "shred", "truncate", "unlink"}
    seen = {(name, text) for name in FILES if not name.startswith(("diagnosis.", "cli.")) for text in texts_of(name)}
    assert [(name, text) for name, text in seen if text.rpartition("/")[2] in programs] == []


def test_scratch_is_what_mktemp_made() -> None:
    for path in SCRIPTS:
        text = path.read_text()
        for found in re.finditer(r"\bscratch=(.*)", text):
            assert found[1] == "$(TMPDIR=/tmp mktemp -d)", path
