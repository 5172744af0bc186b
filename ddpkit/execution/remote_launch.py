"""`launch --detach --on HOST`: the launcher itself runs on a node, in a tmux session there, so that a laptop may leave.

The same command is given to the ddpkit of that host, in the same folder. Values of variables travel inside the
connection, never on a command line.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ddpkit.errors import LaunchError, UsageError
from ddpkit.transports import ssh_agent
from ddpkit.transports.channel import RefusedError, at_home
from ddpkit.transports.hosts import HostSpec

SILENCE = 8.0  # after which a person is told what is waited for, and again
LIMIT = 120.0  # seconds for the launcher over there to start the run, or to say why not
_NO_FOLDER = 96  # an exit code that no program here has
# Reads {"env", "cwd", "argv"} and becomes the command. One line, and no quotes that a shell would need.
_BOOT = (
    "import os,sys,json;j=json.loads(sys.stdin.readline());os.environ.update(j[chr(101)]);"
    f"d=os.path.expanduser(j[chr(99)]);os.path.isdir(d) and os.access(d,os.X_OK) or sys.exit({_NO_FOLDER});os.chdir(d);"
    "os.execv(sys.executable,[sys.executable]+j[chr(97)])"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the launcher over there said."""

    code: int
    record: str  # its run as JSON; empty where there is none
    words: str


def there(argv: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command line for the other host, without `--on`, and the variables that it needs there.

    `--env NAME=VALUE` becomes `--env NAME`: on a command line everybody could read the value.
    """
    words, found, rest = [], dict(env), list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += [word, *rest]
            break
        if word == "--on":
            rest.pop(0)
        elif word == "--env" and rest:
            name, equals, value = rest.pop(0).partition("=")
            found |= {name: value} if equals else {}
            words += ["--env", name]
        elif word.startswith("--env="):
            name, equals, value = word[6:].partition("=")
            found |= {name: value} if equals else {}
            words += ["--env", name]
        elif not word.startswith("--on=") and word != "--json":
            words.append(word)
    words.insert(1, "--json")
    return words, found


def launch(
    spec: HostSpec,
    python: str,
    workdir: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    timeout: float,
    note: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Run `ddpkit ARGV` on a host to its end. Raises LaunchError where the host or ddpkit on it cannot be reached."""
    from ddpkit.transports.ssh import Ssh

    ssh_agent.leave_out_if_silent(os.environ, note)
    way = Ssh(accept_new=False, timeout=timeout, note=lambda _: None)
    until = time.monotonic() + LIMIT
    try:
        wire = way.enter(spec, f"exec {at_home(python)} -c '{_BOOT}'", until)
    except RefusedError as refused:
        raise LaunchError(f"{spec.label}: {refused.what}", refused.fix) from None
    said = b""
    try:
        wire.write(json.dumps({"e": dict(env), "c": workdir, "a": ["-m", "ddpkit", *argv]}).encode() + b"\n")
        began = told = time.monotonic()
        while time.monotonic() < until:
            said += wire.read()
            if time.monotonic() > told + SILENCE:
                told = time.monotonic()
                note(f"waiting for the launcher on {spec.label}: it has not started after {told - began:.0f} s")
        raise LaunchError(f"{spec.label}: its launcher said nothing final in {LIMIT:g} s", f"ssh {spec.target}")
    except EOFError:
        code = wire.code()
    finally:
        wire.close()
        way.close()
    text = said.decode("utf-8", "replace")
    record = _record(text) if code == 0 else ""
    words = text.replace(record, "") if record else text
    if re.search("No module named '?(ddpkit|typer)", text) or code in (126, 127):
        fix = f"ssh {spec.target} {python} -m pip install ddpkit, or --python PATH for one that has it"
        raise LaunchError(f"{spec.label}: {python} has no ddpkit, which has to run there with --on", fix)
    if code == _NO_FOLDER:
        raise UsageError(f"{spec.label}: there is no folder {workdir}", f"--workdir DIR, or --sync from {workdir}")
    return Answer(code=code, record=record, words=words.strip())


def _record(text: str) -> str:
    """The record that the launcher printed behind whatever a start-up file, and it itself, said; empty: none."""
    for found in reversed(list(re.finditer(r"^\{$", text, re.MULTILINE))):
        try:
            value, end = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError:
            continue
        if "run_id" in value:
            return text[found.start() : end]
    return ""
