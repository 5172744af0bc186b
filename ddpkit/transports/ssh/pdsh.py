"""Connections through the pdsh program: one pdsh for all nodes, and each node's supervisor at the end of its ssh.

pdsh itself passes no input on, so that nothing could be told to a node, and secrets would have to stand on its command
line. It starts `ssh` by its name, though: in a private folder in front of PATH lies one of ours, which starts the real
ssh with named pipes as its input and output. What the nodes print comes back through these: in pdsh's own output a node
could put another one's name in front of a line, or hide a line of another with a NUL.

pdsh 2.34 ended by TERM or KILL leaves its ssh and every remote process behind. Here it runs under a supervisor on this
machine, which takes the folder away as well; and the pipes end with us.
"""

from __future__ import annotations

import getopt
import getpass
import os
import re
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ddpkit.errors import LIMIT_FIX, LIMIT_REACHED, UsageError, install
from ddpkit.launchers.containers import split_option
from ddpkit.launchers.events import Event
from ddpkit.launchers.shell import join, quote
from ddpkit.node.owned import open_for_append
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.hosts import ALONE, HostSpec
from ddpkit.transports.ssh.program import (
    DROPPED,
    NO_ANSWER,
    NO_JOB,
    TRIES,
    PrivateFolder,
    SshStream,
    against_config,
    user_and_port,
)

# A name that pdsh takes as it is: it reads `ssh:user@host`, brackets, and cuts a domain off in what it prints.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_SUBSTITUTE = re.compile(r"host\d+")  # for a node with any other name
_ENDED = re.compile(r"([\w-]+): ended (\d{1,3})")  # printed by our own ssh, and by nobody else there
ERRORS = 20  # lines of pdsh's own that are kept
# Options of pdsh that ddpkit sets by itself, and what sets them.
_RESERVED: tuple[tuple[str, str], ...] = (
    ("aAFgiwX", "list the hosts after `-b pdsh`, in a host file, or in a group"),
    ("x", "-o exclude=HOST"),
    ("f", "remove it: ddpkit connects to all nodes at the same time"),
    ("l", "user@host, or User in ~/.ssh/config"),
    ("t", "-o connect_timeout=SECONDS"),
    ("u", "timeout SECONDS ddpkit launch ..."),
    ("R", "remove it: -b pdsh always uses ssh"),
    ("hLNqQV", "remove it: ddpkit reads pdsh's normal output"),
)

# Options of ssh (ssh(1)), as getopt writes them, and those with which ssh would not run a supervisor at its input.
_SSH_OPTIONS = "1246ab:c:e:fgi:kl:m:no:p:qstvxAB:CD:E:F:GI:J:KL:MNO:P:Q:R:S:TVw:W:XYy"
_NOT_FOR_US = "fnstGMNOQVW"  # input taken away, a terminal, no command
_VARIABLES = ("PDSH_SSH_ARGS_APPEND", "PDSH_SSH_ARGS")  # in pdsh's order: of two values ssh takes the first

_SHIM = """\
#!/bin/sh
# pdsh calls this in place of ssh: [-oConnectTimeout=10] HOST USER COMMAND. The user is ssh's to know.
PATH={path}  # for the ssh in a ProxyCommand, which is no node's
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift 2
case $host in
{cases}
esac
# Opened once, while the launcher has them open: later, a pipe without another end would hold this shell up for ever.
exec 3< "{folder}/$host.in" 4> "{folder}/$host.out"
for try in {tries}; do
    # shellcheck disable=SC2086
    ssh "$@" <&3 >&4 2> "{folder}/$host.err" 3<&- 4>&-
    code=$?
    [ "$code" = 255 ] && [ ! -e "{folder}/$host.up" ] && grep -qE '{dropped}' "{folder}/$host.err" || break
    ! grep -q '{no_job}' "{folder}/$host.err" || break
    sleep "0.$((($$ + try) % 9 + 1))"
done
cat "{folder}/$host.err" >&4
echo "ended $code"
"""


def _user_words(args: str) -> list[str]:
    """The user's own words for pdsh. Raises UsageError for those that would take the nodes, or the way in, from us."""
    words = split_option("pdsh_args", args)
    for word in words:
        for letters, hint in _RESERVED:
            if len(word) > 1 and word[0] == "-" and word[1] in letters:
                raise UsageError(f"-o pdsh_args: {word} is an option that ddpkit sets itself", hint)
    return words


def ssh_options(environ: Mapping[str, str], spec: HostSpec) -> list[str]:
    """Return the user's own options for the ssh of pdsh, as pdsh reads them: split at spaces, with %h and %u.

    Raises UsageError for those with which ssh would not do what ddpkit needs.
    """
    user = spec.user or getpass.getuser()
    found: list[str] = []
    for name in _VARIABLES:
        # The word %h is the place of the host.
        words = [word for word in environ.get(name, "").split() if word != "%h"]
        try:
            options, rest = getopt.getopt(
                [word.replace("%h", spec.name).replace("%u", user) for word in words], _SSH_OPTIONS
            )
        except getopt.GetoptError as error:
            raise UsageError(f"{name}: {error.msg}", f"unset {name}") from None
        wrong = [*rest, *(flag for flag, _ in options if flag[1] in _NOT_FOR_US)]
        if wrong:
            raise UsageError(
                f"{name}: {wrong[0]} is not for a launch, whose ssh has a program at its input", f"unset {name}"
            )
        found += [flag + value for flag, value in options]
    return found


class Pdsh:
    """The nodes of a launch, by way of pdsh."""

    by_hand = "ssh {}"

    def __init__(self, *, timeout: float, args: str) -> None:
        self.timeout = timeout
        self.asks = False  # ssh runs in batch mode
        self._args = _user_words(args)
        self._calls: list[_Call] = []

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Start pdsh for all of them: once for each command, and nearly always that is once."""
        self.close()  # calls of the attempt before
        ssh = shutil.which("ssh")
        if shutil.which("pdsh") is None or ssh is None:
            raise UsageError("pdsh not found on this machine", f"{install('pdsh')}, or use -b ssh")
        for spec, _ in calls:
            ssh_options(os.environ, spec)  # before anything is made
        options = (*against_config(ssh), f"-oConnectTimeout={max(1, round(self.timeout))}")
        commands: dict[str, list[HostSpec]] = {}
        for spec, command in calls:
            commands.setdefault(command, []).append(spec)
        for command, specs in commands.items():
            self._calls.append(_Call(specs))
            self._calls[-1].begin(command, ssh, options, self._args)

    def enter(self, spec: HostSpec, command: str, until: float) -> PdshStream:
        return next(stream for call in self._calls for stream in call.streams.values() if stream.spec == spec)

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return (*user_and_port(spec), *ssh_options(os.environ, spec))

    def close(self) -> None:
        while self._calls:
            self._calls.pop().close()


class _Call:
    """One pdsh, which runs one command on some nodes."""

    def __init__(self, specs: Sequence[HostSpec]) -> None:
        self._folder = PrivateFolder("pdsh")
        self.streams: dict[str, PdshStream] = {}
        for index, spec in enumerate(specs):
            keeps_name = _PLAIN.fullmatch(spec.name) and not _SUBSTITUTE.fullmatch(spec.name) and spec.port is None
            name = spec.name if keeps_name else f"host{index}"
            self.streams[name] = PdshStream(f"{self._folder.path}/{name}", spec)

    def begin(self, command: str, ssh: str, options: Sequence[str], args: Sequence[str]) -> None:
        """Write our own ssh into the folder, and start pdsh with it. `options`: of ssh; `args`: the user's, of pdsh."""
        self._folder.make(self._post)
        cases: list[str] = []
        for name, stream in self.streams.items():
            stream.open()
            spec = stream.spec
            words = ["-oControlMaster=no", *ALONE, *options, *user_and_port(spec), *ssh_options(os.environ, spec), "-T"]
            cases.append(f'{name}) set -- {join([*words, "--", spec.name])} "$@" ;;')
        path = os.environ.get("PATH", os.defpath)
        text = _SHIM.format(
            path=quote(path),
            cases="\n".join(cases),
            tries=" ".join(str(n) for n in range(TRIES)),
            folder=self._folder.path,
            dropped=DROPPED,
            no_job=NO_JOB,
        )
        self._folder.write("ssh", text.replace("    ssh ", f"    {quote(ssh)} "))
        # Its limit for a command is one for people's: it would end every run so many seconds after the start.
        env = {"PATH": f"{self._folder.path}:{path}", "PDSH_COMMAND_TIMEOUT": "0"}
        env |= {"PDSH_SSH_ARGS": "%h %u", "PDSH_SSH_ARGS_APPEND": ""}  # the user's are in our ssh
        # The fan-out is the number of nodes: with less, the last would wait for the end of the first.
        argv = ["pdsh", "-R", "ssh", "-f", str(len(self.streams)), *args, "-w", ",".join(self.streams)]
        self._folder.run([*argv, command.replace("%", "%%")], env)

    def _post(self, event: Event | None) -> None:
        """Take the output of pdsh: lines of our own ssh with its host in front, and pdsh's errors."""
        if event is None:
            for stream in self.streams.values():
                stream.end("pdsh ended")
        elif event["e"] == "out":
            for line in event["data"].split("\n"):
                ended = _ENDED.fullmatch(line) if event["fd"] == 1 else None
                if ended is not None and ended[1] in self.streams:
                    code = int(ended[2])
                    self.streams[ended[1]].end(f"ssh exited with code {code}" if code else "", code)
                elif event["fd"] == 2:
                    for stream in self.streams.values():
                        stream.take_error(line)  # of pdsh itself: it speaks of all

    def close(self) -> None:
        for stream in self.streams.values():
            stream.close()
        self._folder.close()


class PdshStream(SshStream):
    """The pipes of one node's ssh, which pdsh starts."""

    def __init__(self, path: str, spec: HostSpec) -> None:
        super().__init__(path, spec)
        self._errors: deque[str] = deque(maxlen=ERRORS)
        self._up = False

    def read(self) -> bytes:
        data = super().read()
        if data and not self._up:
            self._up = True
            with suppress(OSError):  # pdsh has ended, and its folder with it: nothing is tried again
                os.close(open_for_append(f"{self.path}.up"))
        return data

    def take_error(self, line: str) -> None:
        if line.strip():
            self._errors.append(line)

    def refusal(self, lines: Sequence[str]) -> RefusedError | None:
        if re.search(r"pdsh@\S+: (pthread_create|pipecmd: fork)", "\n".join(self._errors)):
            return RefusedError(f"pdsh could not start ssh on this machine: {LIMIT_REACHED}", LIMIT_FIX)
        refused = super().refusal([*lines, *self._errors])
        if refused is not None and refused.what == NO_ANSWER:  # pdsh has no terminal for its ssh
            refused.fix = "launch from a terminal with -b ssh -o transport=openssh"
        return refused
