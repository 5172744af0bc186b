"""Runs the hint of an error where the error was printed: it must be another command, and must not fail in the same way.

A command of ddpkit is run as its dry run. `add WORDS` and `remove WORDS` are done to the command that failed. Programs
that only look are run as they are. What has a placeholder, as `HOST`, is for a person.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from program import run_to_end

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
DRY = ("launch", "test", "bench", "stop", "rm")  # commands with --dry-run
LOOKS = ("status", "logs", "ps", "explain", "backends", "env", "nodes", "timeline")
PROGRAMS = ("ls", "command", "cat", "grep", "stat", "id", "df", "getent", "ssh-keygen", "git")  # they change nothing
# Errors of a command that was never one. Others say what the directory or the machine lacks.
REFUSED = ("option ", "ddpkit ", "backend local runs on this machine only", "--")
_PLACEHOLDER = re.compile(r"\b(?!DDPKIT|CUDA|SLURM|PATH=)[A-Z]{3,}\b|\.\.\.")
_END = re.compile(r"; |, (?:or|with|and|as|if|in|ddpkit) ?|: ddpkit | lists | shows ")  # of the first command
# A hint may not have these, in whatever words: they delete, overwrite or end what is the user's.
DESTROYS = re.compile(
    r"(?:^|[;&|`(]|: |sudo |xargs |-exec )\s*"
    r"(?:rm|mv|dd|shred|truncate|pkill|killall|kill(?! -CONT)|chmod|chown|rsync|tee(?! -a)) |"
    r"\bsed -i|\bgit (?:checkout|reset|clean|stash)\b|\s>\s*[\w/~.$]|\bunlink |\bscancel\b"
)


def of(stderr: str) -> list[str]:
    return re.findall(r"^\s*hint: (.*)$", stderr, re.MULTILINE)


def first_error(stderr: str) -> str:
    found = re.search(r"error: (.*)", stderr)
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


def problems(args: Sequence[str], stderr: str, cwd: Path, env: Mapping[str, str], run: Run) -> list[str]:
    """What is wrong with the hints of a command that failed."""
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
            done = run(safe[1:])
            error = first_error(done.stderr)
            if done.returncode != 0 and error == first_error(stderr):
                found.append(f"fails in the same way: {hint}: {error}")
            elif done.returncode == 121 and error.startswith(REFUSED):
                found.append(f"is no command: {shlex.join(safe)}: {error}")
        else:
            done = run_to_end(["bash", "-c", hint.partition("; or")[0]], cwd=cwd, env=dict(env))
            if done.returncode in (2, 126, 127) and "syntax" in done.stderr + "not found" * (done.returncode == 127):
                found.append(f"no command: {hint}: {done.stderr.strip()}")
    return found
