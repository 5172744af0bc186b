"""Runs the hint of an error where the error was printed: it must be another command, and must not fail in the same way.

A command of ddpkit is run as its dry run. `add WORDS` and `remove WORDS` are done to the command that failed. Programs
that only look are run as they are. What has a placeholder, as `HOST`, is for a person.
"""

from __future__ import annotations

import ast
import functools
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence

import rooms

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]  # a whole command, where the error was printed
DRY = ("launch", "test", "bench", "stop", "rm")  # commands with --dry-run
LOOKS = ("status", "logs", "ps", "explain", "backends", "env", "nodes", "timeline")
# They only look.
PROGRAMS = frozenset("ls command cat grep stat id df getent ssh-keygen git sinfo squeue ss ps namei".split())
# Errors of a command that was never one. Others say what the directory or the machine lacks.
REFUSED = ("option ", "ddpkit ", "backend local runs on this machine only", "--")
_PLACEHOLDER = re.compile(r"\b(?!DDPKIT|CUDA|SLURM|PATH=)[A-Z]{3,}\b|\.\.\.")
_END = re.compile(r"; |, (?:or|with|and|as|if|in|which|ddpkit) ?|: ddpkit | lists | shows ")  # of the first command
# What deletes, overwrites or ends something, in any hint. Whether it is the user's, a text cannot know.
DESTROYS = re.compile(
    r"(?<![\w./-])(?:(?<!ddpkit )rm (?=[-~/{`'\w$])|rmdir |shred |truncate |mv |unlink |scancel\b"
    r"|kill -(?!CONT|0\b)|kill (?=\d|PID|\{)|killall |pkill "
    r"|sed -i|chown |mkfs|dd |scontrol (?:update|requeue)|git (?:reset|clean|checkout|stash)"
    r"|docker (?:rm|rmi|kill|stop) "
    r"|docker \w* ?prune|podman (?:rm|system reset)|ipcrm|kubectl (?:delete|drain|replace)|enroot remove"
    r"|conda (?:remove|clean)|pip uninstall|pip cache purge|tmux kill|modprobe -r|rmmod"
    r"|systemctl (?:stop|restart|disable)|fuser -k|ssh-keygen -R|umount |ray stop|chmod )"
    r"|(?:^|[;&|`(]|: |sudo |xargs |-exec )\s*(?:rsync|tee(?! -a)) |\s-delete\b|--overwrite_"
    r"|\b[Dd]elete (?:the|that|this|its|them|each|all|old|sessions|a)\b"
    r"|(?<![-<>=|&\w\d\[])>{1,2} ?(?!=|/dev/null|LOG\b)[~/.$A-Za-z]"
)


# A hint is the second argument of one of these, or `hint=` or `fix=` of any call.
_ERRORS = re.compile(r"(?:Error|Refused|Problem)$")


def of(stderr: str) -> list[str]:
    return re.findall(r"^\s*hint: (.*)$", stderr, re.MULTILINE)


def first_error(stderr: str) -> str:
    """Return the first error; of one that is a list, with the first line of that."""
    found = re.search(r"error: (.*(?:(?<=:)\n.*)?)", stderr)
    return found[1] if found else ""


def candidate(hint: str, args: Sequence[str]) -> list[str] | None:
    """The command of a hint, or the failed one with its words added or removed. None: it is for a person."""
    text = _END.split(hint)[0].removeprefix("did you mean ").strip("?")
    if _PLACEHOLDER.search(text):
        return None
    try:
        words = shlex.split(text)
    except ValueError:
        return None
    cut = list(args).index("--") if "--" in args else len(args)
    if words[:1] == ["ddpkit"]:
        return words
    if words[:1] == ["add"] and words[1:2] and words[1].startswith("-"):
        return ["ddpkit", args[0], *words[1:], *args[1:]]
    if words[:1] == ["remove"] and words[1:2] and words[1].startswith("-"):
        taken, size = words[1:], len(words) - 1
        at = next((at for at in range(cut) if list(args[at : at + size]) == taken), None)
        return None if at is None else ["ddpkit", *args[:at], *args[at + size :]]
    return words if words[:1] and words[0] in PROGRAMS else None


def dry(command: Sequence[str]) -> list[str] | None:
    """A command that changes nothing; None: there is none."""
    if command[0] != "ddpkit":
        return list(command)
    if len(command) < 2:
        return None
    name, rest = command[1], list(command[2:])
    if name in DRY:
        return ["ddpkit", name, *([] if "--dry-run" in rest else ["--dry-run"]), *rest]
    return list(command) if name in LOOKS or "--help" in command else None


def problems(args: Sequence[str], stderr: str, run: Run) -> list[str]:
    """What is wrong with the hints of a command of ddpkit that failed."""
    found = []
    if "srun starts this command" in stderr:  # to be run elsewhere
        return []
    for hint in of(stderr):
        if DESTROYS.search(hint):
            found.append(f"destroys: {hint}")
            continue
        command = candidate(hint, args)
        safe = dry(command) if command else None
        if safe is None:
            continue
        if safe[0] == "ddpkit":
            if safe[1:] == list(args):
                found.append(f"the same command: {hint}")
                continue
            done = run(safe)
            error = first_error(done.stderr)
            if done.returncode != 0 and error == first_error(stderr):
                found.append(f"fails in the same way: {hint}: {error}")
            elif done.returncode == 121 and error.startswith(REFUSED):
                found.append(f"is no command: {shlex.join(safe)}: {error}")
        else:
            done = run(["bash", "-c", hint.partition("; or")[0]])
            if done.returncode in (2, 126, 127) and "syntax" in done.stderr + "not found" * (done.returncode == 127):
                found.append(f"no command: {hint}: {done.stderr.strip()}")
    return found


def texts(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The hints of errors and the fixes of problems in a module, with `{}` for their values, and where they stand."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [word.value for word in node.keywords if word.arg in ("hint", "fix")]
        given += node.args[1:2] if _ERRORS.search(name) else []
        for each in given:
            pieces = [part for part in ast.walk(each) if isinstance(part, ast.JoinedStr)]
            inner = {id(word) for part in pieces for word in ast.walk(part)} - {id(part) for part in pieces}
            for part in ast.walk(each):
                if isinstance(part, ast.JoinedStr):
                    words = (str(word.value) if isinstance(word, ast.Constant) else "{}" for word in part.values)
                    yield "".join(words), part
                elif isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in inner:
                    yield part.value, part


@functools.cache
def in_source() -> dict[str, str]:
    """Every hint of the source, and its module."""
    found = {}
    for name, path in rooms.sources().items():
        if "/catalogue/" not in path.as_posix():
            found.update({text: name for text, _ in texts(ast.parse(path.read_text()))})
    assert len(found) > 300
    return found
