"""`launch --detach --on HOST`: starts the launcher on a node, in a tmux session there, so that a laptop may leave.

The ddpkit of that host gets the same command, in the same folder. Values of variables travel inside the connection,
never on a command line.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpkit.config import LaunchSettings
from ddpkit.errors import LaunchError, UsageError
from ddpkit.execution import sync
from ddpkit.launchers import registry
from ddpkit.launchers.nodes import NodeOptions
from ddpkit.launchers.shell import run_module
from ddpkit.transports.channel import RefusedError, at_home
from ddpkit.transports.choose import transport_class
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import Connector
from ddpkit.transports.transport import SshTransport

NOTE_INTERVAL = 8.0  # seconds between two notes about a launcher that is waited for
LIMIT = 120.0  # seconds until the remote launcher has started the run, or has failed
_NO_FOLDER = 96  # an exit code that no program here has
# Reads {"env", "cwd", "argv"} and becomes the command. One line, and no quotes that a shell would need.
_BOOT = (
    "import os,sys,json;j=json.loads(sys.stdin.readline());os.environ.update(j[chr(101)]);"
    f"d=os.path.expanduser(j[chr(99)]);os.path.isdir(d) and os.access(d,os.X_OK) or sys.exit({_NO_FOLDER});os.chdir(d);"
    "os.execv(sys.executable,[sys.executable]+j[chr(97)])"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The output of the remote launcher."""

    code: int
    record: str  # the run as JSON; empty: there is none
    messages: str


@dataclass(frozen=True, kw_only=True)
class RemoteCommand:
    """The launcher's command on another host."""

    python: str
    workdir: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


def prepare_host(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    spec: HostSpec,
    argv: Sequence[str],
    progress: Callable[[str, int], None],
    way: Connector,
    note: Callable[[str], None],
) -> RemoteCommand:
    """Make the command for a launcher on another host from that of this one. --sync copies the folder there first."""
    workdir = str(Path(settings.workdir).absolute())
    if settings.sync:
        sync.bring(
            [spec],
            workdir,
            settings.log_dir,
            progress,
            way,
            python=settings.python,
            overwrite=settings.sync == "overwrite",
            note=note,
            silence=NodeOptions.heartbeat_timeout,
        )
    again = transport_class(registry.load(settings.backend)).names_nodes  # from there to its nodes
    words, env = translate_command(argv, settings.env, again=again)
    return RemoteCommand(
        python=spec.python or settings.python, workdir=spec.workdir or workdir, argv=tuple(words), env=env
    )


def translate_command(argv: Sequence[str], env: Mapping[str, str], *, again: bool) -> tuple[list[str], dict[str, str]]:
    """The command line for the other host, without `--on`, and the variables that it needs there. `again`: with --sync.

    `--env NAME=VALUE` becomes `--env NAME`: on a command line everybody could read the value.
    """
    words, variables, rest = [], dict(env), list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            words += [word, *rest]
            break
        if word == "--on":
            rest.pop(0)
        elif word == "--env" and rest:
            name, equals, value = rest.pop(0).partition("=")
            variables |= {name: value} if equals else {}
            words += ["--env", name]
        elif word.startswith("--env="):
            name, equals, value = word[6:].partition("=")
            variables |= {name: value} if equals else {}
            words += ["--env", name]
        elif not word.startswith("--on=") and word != "--json" and (again or word.partition("=")[0] != "--sync"):
            words.append(word)
    words.insert(1, "--json")
    return words, variables


def connector(settings: LaunchSettings, note: Callable[[str], None]) -> Connector:
    """Return the connector to the host, with the SSH options of the backend. Raises UsageError."""
    backend = registry.build(registry.load(settings.backend), settings.options)
    return SshTransport.connector(NodeOptions.of(backend), note)


def launch(
    spec: HostSpec, command: RemoteCommand, way: Connector, note: Callable[[str], None] = lambda _: None
) -> Answer:
    """Run a launcher on a host to its end. Raises LaunchError where the host or ddpkit on it cannot be reached."""
    request = {"e": dict(command.env), "c": command.workdir, "a": ["-c", run_module("ddpkit"), *command.argv]}
    until = time.monotonic() + LIMIT
    try:
        stream = way.enter(spec, f"exec {at_home(command.python)} -c '{_BOOT}'", until)
    except RefusedError as refused:
        raise LaunchError(f"{spec.label}: {refused.what}", refused.fix) from None
    output = b""
    try:
        stream.write(json.dumps(request).encode() + b"\n")
        began = noted = time.monotonic()
        while time.monotonic() < until:
            output += stream.read()
            if time.monotonic() > noted + NOTE_INTERVAL:
                noted = time.monotonic()
                note(f"waiting for the launcher on {spec.label}: it has not started after {noted - began:.0f} s")
        raise LaunchError(f"{spec.label}: its launcher did not report a start within {LIMIT:g} s", f"ssh {spec.target}")
    except EOFError:
        code = stream.code()
    finally:
        stream.close()
        way.close()
    text = output.decode("utf-8", "replace")
    record = _record(text) if code == 0 else ""
    messages = text.replace(record, "") if record else text
    if re.search("No module named '?(ddpkit|typer)", text) or code in (126, 127):
        fix = f"ssh {spec.target} {command.python} -m pip install ddpkit, or --python PATH with ddpkit installed"
        raise LaunchError(f"{spec.label}: {command.python} has no ddpkit, which --on requires", fix)
    if code == _NO_FOLDER:
        workdir = command.workdir
        raise UsageError(
            f"{spec.label}: directory not found: {workdir}",
            f"--workdir DIR, or --sync from {shlex.quote(str(workdir))}",
        )
    return Answer(code=code, record=record, messages=messages.strip())


def _record(text: str) -> str:
    """Find the record among the launcher's messages and those of start-up files. Empty: none."""
    for match in reversed(list(re.finditer(r"^\{$", text, re.MULTILINE))):
        try:
            value, end = json.JSONDecoder().raw_decode(text, match.start())
        except ValueError:
            continue
        if "run_id" in value:
            return text[match.start() : end]
    return ""
