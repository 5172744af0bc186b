"""Connections through the user's own ssh program: one shared connection to each host, and sessions over it.

ssh does every login that OpenSSH can do: Kerberos, hardware keys, passwords, second factors. It reads its own
configuration. Its questions come to the terminal of the launch through SSH_ASKPASS, each once. Without a terminal, ssh
runs in batch mode.

A control master that already runs by the user's configuration is used. Otherwise the shared connection is a control
master of this launch, in a private directory. It runs below a supervisor, and ends with this process.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ddpkit.errors import UsageError, install
from ddpkit.launchers.events import Event
from ddpkit.launchers.shell import join, quote
from ddpkit.node.owned import who_can_replace
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.hosts import ALONE, HostSpec
from ddpkit.transports.ssh.config import last_jump
from ddpkit.transports.ssh.program import (
    ANSWER_TIMEOUT,
    DROPPED,
    NO_JOB,
    SSH_ITSELF,
    TRIES,
    PrivateFolder,
    Questions,
    SshStream,
    against_config,
    make_pipe,
    no_login,
    printable,
    user_and_port,
)

LOGIN_TIME = 2.0  # of the time for a connection: for a login without questions
LOCAL_LIMIT = 10.0  # seconds for an ssh that connects to nothing
LATE = -1  # in place of an exit code
PAUSE = (0.1, 1.0)  # seconds between two tries, at random
_BATCH = "-oBatchMode=yes"
_OVER_SHARED = ("-oControlMaster=no", _BATCH)  # an ssh over a shared connection has no question

# Each line is the name of a command, which runs in the background. Its end is printed.
_RUNNER = """\
#!/bin/sh
while read -r name; do
    ( . "{folder}/$name.sh"; echo "ended $name $?" ) &
done < "{folder}/commands"
"""

# `<>` opens the pipe before anybody writes to it. Its first line is `y` if an answer follows.
_ASK = """\
#!/bin/sh
# ssh calls this with a question. The answer comes from the terminal of the launch.
own="{folder}/ask.$$"
mkfifo -m 600 "$own" && exec 3<> "$own" || exit 1
printf '%s\\n' "$1" > "$own.text"
printf '%s %s %s\\n' "$$" "${{SSH_ASKPASS_PROMPT:-text}}" "$ASKPASS_HOST" > "{folder}/questions"
[ "$SSH_ASKPASS_PROMPT" != none ] || exec sleep {limit}
read -r given <&3 && [ "$given" = y ] && IFS= read -r answer <&3 && printf '%s\\n' "$answer"
"""


class OpenSsh:
    """The nodes of a launch, by way of the ssh program. Used by many threads at once."""

    by_hand = "ssh {}"

    def __init__(self, *, accept_new: bool, timeout: float, note: Callable[[str], None], control: str = "") -> None:
        """Take the settings. Raises UsageError if this machine has no ssh.

        `control`: the socket of a control master of another process of this user, which is used while it runs.
        """
        ssh = shutil.which("ssh")
        if ssh is None:
            raise UsageError("ssh not found on this machine", install("openssh-client"))
        self.timeout = timeout
        self._ssh = ssh
        self._note = note
        self._control = control
        self._terminal = sys.stdin.isatty()
        self._questions = Questions()
        options = [*ALONE, f"-oConnectTimeout={max(1, round(timeout))}"]
        if self._terminal:
            options.remove(_BATCH)
        options += ["-oStrictHostKeyChecking=accept-new"] if accept_new else []
        self._options = tuple(options)
        self._folder: PrivateFolder | None = None
        self._commands = self._asked = -1  # named pipes
        self._against_config: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._names = itertools.count()
        self._states: dict[str, int | None] = {}  # of each master by name: its exit code; None: it is connected
        self._streams: dict[str, SshStream] = {}
        self._shared: dict[str, _Shared] = {}  # by the arguments of a user's ssh
        self._answered: set[str] = set()  # labels of hosts that got an answer: they do not ask again
        self._closed = False

    @property
    def asks(self) -> bool:
        return self._questions.pending

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Start the supervisor of all ssh programs of this launch. Raises UsageError."""
        with self._lock:
            if self._folder is not None:
                return
            self._against_config = against_config(self._ssh)
            folder = PrivateFolder("ssh")
            folder.make(self._post)
            self._commands = make_pipe(f"{folder.path}/commands")
            env = {"SSH_ASKPASS": "/bin/false"}
            if self._terminal:
                self._asked = make_pipe(f"{folder.path}/questions")
                ask = folder.write("ask", _ASK.format(folder=folder.path, limit=round(ANSWER_TIMEOUT)))
                # Before OpenSSH 8.4 ssh needs a DISPLAY, which it does not use, to call the program.
                display = os.environ.get("DISPLAY", "none")
                env = {"SSH_ASKPASS": ask, "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": display}
                threading.Thread(target=self._take_questions, args=(folder.path,), daemon=True).start()
            folder.run(["sh", folder.write("run", _RUNNER.format(folder=folder.path))], env)
            self._folder = folder

    def enter(self, spec: HostSpec, command: str, until: float) -> SshStream:
        """Start a command on a node over its shared connection. Raises RefusedError."""
        self.begin(())
        way = self._share(spec, until, ())
        name = f"session{next(self._names)}"
        assert self._folder is not None
        stream = SshStream(f"{self._folder.path}/{name}", spec)
        stream.open()
        self._streams[name] = stream
        argv = [self._ssh, *way, _BATCH, "-T", *self._options, *self._against_config, *user_and_port(spec)]
        argv += ["--", spec.name, command]
        self._run(name, f"{join(argv)} < {stream.path}.in > {stream.path}.out 2>&1")
        return stream

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        """Log in. Returns the options with which another ssh uses the same connection. Raises RefusedError."""
        self.begin(())
        return self._share(spec, time.monotonic() + LOGIN_TIME * self.timeout, ())

    def close(self) -> None:
        self._questions.close()
        if self._folder is not None and not self._closed:
            self._closed = True
            self._folder.close()
            with self._lock:
                os.close(self._commands)
                self._commands = -1
            if self._terminal:
                os.write(self._asked, b"\n")  # wakes the thread that reads it

    # ---- shared connections

    def _share(self, spec: HostSpec, until: float, seen: tuple[str, ...], jumps: str | None = None) -> tuple[str, ...]:
        """Open the one connection to a host. Returns the options to use it.

        `seen`: hosts that are reached through this one. `jumps`: the way to it; None: as the configuration has it.
        """
        with self._lock:
            shared = self._shared.setdefault(f"{jumps} {spec.target}", _Shared())
        if shared.options is None and shared.refused is None:
            # Its jump hosts come before the lock: one that waits for another's connection holds up nobody.
            config = self._configuration(spec)
            way = self._way(spec, config.get("proxyjump", "none") if jumps is None else jumps, until, seen)
            with shared.lock:
                if shared.options is None and shared.refused is None:
                    try:
                        shared.options = self._open(spec, config, way, until)
                    except RefusedError as refused:
                        shared.refused = refused
        if shared.options is None:
            assert shared.refused is not None
            raise shared.refused
        return shared.options

    def _open(self, spec: HostSpec, config: dict[str, str], way: list[str], until: float) -> tuple[str, ...]:
        """Return the options for a shared connection: the user's own, the one that was lent, or else a new one.

        A new one is tried again where a busy sshd dropped it. Raises RefusedError.
        """
        if (
            config.get("controlpath", "none") != "none"
            and self._local("-Ocheck", *user_and_port(spec), "--", spec.name)[0] == 0
        ):
            return _OVER_SHARED
        lent = ("-S", self._control)
        if _is_private(self._control) and self._local(*lent, "-Ocheck", *user_and_port(spec), "--", spec.name)[0] == 0:
            return (*lent, *_OVER_SHARED)
        for number in range(TRIES):
            name = f"master{next(self._names)}"
            assert self._folder is not None
            path = f"{self._folder.path}/{name}"
            up = f"-oLocalCommand=echo up {name}"
            argv = [self._ssh, "-N", "-M", "-S", path, "-oControlPersist=no", "-oPermitLocalCommand=yes", up, *way]
            argv += [*self._options, *self._against_config, *user_and_port(spec), "--", spec.name]
            self._run(name, f"ASKPASS_HOST={quote(spec.label)} {join(argv)} 2> {path}.err")
            code = self._wait(name, until)
            if code is None:
                times = "once" if number == 1 else f"{number} times"
                if number:
                    self._note(f"{spec.label}: sshd dropped the connection {times} (MaxStartups?), then accepted it")
                return ("-S", path, *_OVER_SHARED)
            lines = Path(f"{path}.err").read_text(encoding="utf-8", errors="replace").splitlines()
            if code == LATE:
                raise _refusal([*lines, "timed out"], spec)
            pause = random.uniform(*PAUSE)  # jitter: nobody to await
            text = "\n".join(lines)
            dropped = re.search(DROPPED, text) and NO_JOB not in text
            if not dropped or spec.label in self._answered or time.monotonic() + pause > until:
                break  # a host that got an answer would ask again
            time.sleep(pause)
        raise _refusal(lines, spec)

    def _way(self, spec: HostSpec, jumps: str, until: float, seen: tuple[str, ...]) -> list[str]:
        """Return the options for the way to a host: over one connection to its jump host, which others share."""
        before, hop = last_jump(jumps)
        if jumps.lower() in ("none", "") or hop is None:
            return []  # what cannot be read here, ssh itself reads
        if hop.name == spec.name:
            return ["-oProxyJump=none"]  # the host is its own jump host, by a pattern such as `Host *`
        if hop.name in seen:
            circle = " through ".join((*seen, spec.name, hop.name))
            raise RefusedError(f"ProxyJump contains a cycle: {circle}", f"ssh -G {hop.name} | grep -i proxyjump")
        try:
            # Only the first jump host is reached as its own configuration says.
            over = self._share(hop, until, (*seen, spec.name), before or None)
        except RefusedError as refused:
            what = refused.what if "cycle" in refused.what else f"its jump host {hop.label}: {refused.what}"
            raise RefusedError(what, refused.fix) from None
        return [f"-oProxyCommand={join([self._ssh, *over, *user_and_port(hop)])} -W '[%h]:%p' -- {quote(hop.name)}"]

    def _configuration(self, spec: HostSpec) -> dict[str, str]:
        """Return what ssh itself reads of the user's configuration for a host; empty for an ssh before 6.8."""
        lines = self._local("-G", *user_and_port(spec), "--", spec.name)[1].splitlines()
        return {name: value for name, _, value in (line.partition(" ") for line in lines)}

    def _local(self, *options: str) -> tuple[int, str]:
        """Run an ssh that opens no connection. Returns its exit code and its output."""
        argv = [self._ssh, _BATCH, *options]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LOCAL_LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return SSH_ITSELF, ""  # a control master that hangs
        return done.returncode, done.stdout

    # ---- commands

    def _run(self, name: str, command: str) -> None:
        with self._lock:
            if self._folder is not None and self._commands >= 0:
                self._folder.write(f"{name}.sh", command)
                os.write(self._commands, f"{name}\n".encode())

    def _wait(self, name: str, until: float) -> int | None:
        """Wait for a control master. Returns its exit code; None: it is connected; LATE: neither."""
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: name in self._states, 0.2):
                    return self._states[name]
            last = max(until, self._questions.answered_at + LOGIN_TIME * self.timeout)
            if not self.asks and time.monotonic() > last:
                return LATE

    def _post(self, event: Event | None) -> None:
        """Take an event of the shell that runs the commands. None: it has ended, and every command with it."""
        if event is None:
            for stream in tuple(self._streams.values()):
                stream.end("ssh ended")
        elif event["e"] == "out" and event["fd"] == 1:
            for line in event["data"].splitlines():
                self._take_line(line)

    def _take_line(self, line: str) -> None:
        """Take a line of that shell: `up NAME` of a control master, `ended NAME EXIT_CODE` of any command."""
        match line.split():
            case ["up", master]:
                self._set_state(master, None)
            case ["ended", session, code] if session in self._streams:
                self._streams[session].end("" if code == "0" else f"ssh exited with code {code}", int(code))
            case ["ended", master, code]:
                self._set_state(master, int(code))

    def _set_state(self, master: str, exit_code: int | None) -> None:
        with self._changed:
            self._states[master] = exit_code
            self._changed.notify_all()

    # ---- questions

    def _take_questions(self, folder: str) -> None:
        """Answer the questions of every ssh, one after the other, until `close`."""
        with open(self._asked, encoding="utf-8", errors="replace", closefd=True) as lines:
            for line in lines:
                if self._closed:
                    return
                number, kind, host = line.split()
                own = f"{folder}/ask.{number}"
                with suppress(OSError):  # ssh ended while it waited for the answer
                    text = Path(f"{own}.text").read_text(encoding="utf-8", errors="replace")
                    if kind == "none":
                        self._note(f"{host}: {printable(text)}")
                        continue
                    self._answered.add(host)
                    answer = self._ask(host, text)
                    pipe = os.open(own, os.O_WRONLY | os.O_NONBLOCK)
                    os.write(pipe, answer.encode())
                    os.close(pipe)

    def _ask(self, host: str, text: str) -> str:
        try:
            return f"y\n{self._questions.ask_for(host, text)}\n"
        except EOFError:
            return "n\n"


def _is_private(control: str) -> bool:
    """Tell whether a path is a socket of this user in a directory that no other user can enter, or replace."""
    try:
        socket, above = Path(control).lstat(), Path(control).parent.lstat()
        whole = stat.S_ISSOCK(socket.st_mode) and stat.S_ISDIR(above.st_mode) and not above.st_mode & 0o077
        return whole and {socket.st_uid, above.st_uid} == {os.geteuid()} and not who_can_replace(control)
    except OSError:
        return False


def _refusal(lines: Sequence[str], spec: HostSpec) -> RefusedError:
    refused = no_login(lines, spec)
    if "host key is not known" in refused.what:
        refused.fix += "; or add -o accept_new_host_keys=true"
    return refused


class _Shared:
    """The connection to one host that others share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.options: tuple[str, ...] | None = None
        self.refused: RefusedError | None = None
