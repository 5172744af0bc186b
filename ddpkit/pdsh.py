"""Gets into nodes through the pdsh program: one pdsh for all of them, and each node's supervisor at the end of its ssh.

pdsh itself passes no input on, so that nothing could be told to a node, and secrets would have to stand on its command
line. It starts `ssh` by its name, though: in a private folder in front of PATH lies one of ours, which starts the real
ssh with a named pipe as its input. What the nodes print comes back through pdsh, with the host in front of every line.

pdsh 2.34 ended by TERM or KILL leaves its ssh and every remote process behind. Here it runs under a supervisor on this
machine, and the pipes end with us.
"""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ddpkit.door import RefusedError, not_started
from ddpkit.errors import UsageError
from ddpkit.hosts import HostSpec
from ddpkit.link import Event, LocalLink, program_request
from ddpkit.shell import join, quote

# A name that pdsh takes as it is: it reads `ssh:user@host`, brackets, and cuts a domain off in what it prints.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_ENDED = re.compile(r"ssh exited with exit code (\d+)")
_ENDED_WELL = b"ddpkit: ssh ended"  # of which pdsh itself says nothing
# sshd drops connections over MaxStartups before a word is said: ssh has read nothing yet, and may try again.
_DROPPED = "kex_exchange_identification|Connection closed by|Connection reset by"
TRIES = 8
# What OpenSSH says, and what helps.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    ("is marked as revoked", "its host key was revoked", "ask who runs the host"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed", "if you know why: ssh-keygen -R {host}"),
    ("Host key verification failed", "its host key is not known", "ssh to it once and compare: ssh {target}"),
    ("Could not resolve hostname", "its name does not resolve here", "getent hosts {host}"),
    ("Connection refused", "nobody answers at its ssh port (connection refused)", "on {host}: systemctl status ssh"),
    ("No route to host", "nobody answers at its ssh port (no route to host)", "ping {host}"),
    ("timed out", "no answer from it in time: off, or a firewall", "ping {host}"),
    ("Permission denied", "sshd there takes none of the keys", "ssh-copy-id {target}"),
    (_DROPPED, "sshd there closed every connection before a word was said", "sshd -T | grep -i maxstartups"),
)

_SHIM = """\
#!/bin/sh
# pdsh calls this in place of ssh: [-oConnectTimeout=10] HOST USER COMMAND. The user is ssh's to know.
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift 2
case $host in
{cases}
esac
for try in {tries}; do
    # shellcheck disable=SC2086
    ssh "$@" < "{folder}/$host.in" 2> "{folder}/$host.err"
    code=$?
    [ "$code" = 0 ] && printf '\n{ended}\n'
    cat "{folder}/$host.err" >&2
    [ "$code" = 255 ] && [ ! -e "{folder}/$host.up" ] && grep -qE '{dropped}' "{folder}/$host.err" || exit "$code"
    sleep "0.$((($$ + try) % 9 + 1))"
done
exit "$code"
"""


class Pdsh:
    """One pdsh for all nodes of a launch."""

    def __init__(self, *, timeout: float, args: str) -> None:
        self.timeout = timeout
        self._args = shlex.split(args)
        self._wires: dict[str, PdshWire] = {}
        self._links: list[LocalLink] = []
        self._folder = ""
        self._held = {1: b"", 2: b""}

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Start pdsh for all of them: once for each command, and nearly always that is once."""
        if shutil.which("pdsh") is None or shutil.which("ssh") is None:
            raise UsageError("there is no pdsh on this machine", "apt-get install pdsh, or -b ssh, which needs neither")
        self._folder = tempfile.mkdtemp(prefix="ddpkit-pdsh-")
        cases: list[str] = []
        commands: dict[str, list[str]] = {}
        real = shutil.which("ssh")
        for index, (spec, command) in enumerate(calls):
            name = spec.name if _PLAIN.fullmatch(spec.name) and spec.port is None else f"host{index}"
            os.mkfifo(f"{self._folder}/{name}.in", 0o600)
            self._wires[name] = PdshWire(f"{self._folder}/{name}", spec)
            commands.setdefault(command, []).append(name)
            ssh = [str(real), "-a", "-x", "-T", "-oBatchMode=yes", f"-oConnectTimeout={max(1, round(self.timeout))}"]
            ssh += ["-l", spec.user] if spec.user else []
            ssh += ["-p", str(spec.port)] if spec.port else []
            cases.append(f'{name}) set -- {join([*ssh[1:], "--", spec.name])} "$@" ;;')
        text = _SHIM.format(
            cases="\n".join(cases),
            tries=" ".join(str(n) for n in range(TRIES)),
            folder=self._folder,
            dropped=_DROPPED,
            ended=_ENDED_WELL.decode(),
        )
        shim = Path(self._folder, "ssh")
        shim.write_text(text.replace("    ssh ", f"    {quote(str(real))} "))
        shim.chmod(0o700)
        env = {"PATH": f"{self._folder}:{os.environ.get('PATH', os.defpath)}", "PDSH_SSH_ARGS": "%h %u"}
        for command, names in commands.items():
            # The fan-out is the number of nodes: with less, the last would wait for the end of the first.
            argv = ["pdsh", "-R", "ssh", "-f", str(len(names)), *self._args, "-w", ",".join(names)]
            link = LocalLink()
            self._links.append(link)
            request = program_request("pdsh", [*argv, command.replace("%", "%%")], env)
            link.start(request, partial(self._post, [self._wires[name] for name in names]))

    def enter(self, spec: HostSpec, command: str, until: float) -> PdshWire:
        return next(wire for wire in self._wires.values() if wire.spec == spec)

    def _post(self, wires: Sequence[PdshWire], event: Event | None) -> None:
        """What one pdsh, for these nodes, prints: lines with a host in front."""
        if event is None:
            for wire in wires:
                wire.end("pdsh ended")
        elif event["e"] == "out":
            for line in event["data"].encode("utf-8", "surrogateescape").splitlines(keepends=True):
                self._line(wires, event["fd"], line)

    def _line(self, wires: Sequence[PdshWire], number: int, line: bytes) -> None:
        name, _, text = line.partition(b": ")
        if number == 2 and name.startswith(b"pdsh@"):
            # "pdsh@login: node1: ssh exited with exit code 255"
            name, _, text = text.partition(b": ")
        wire = self._wires.get(name.decode("utf-8", "replace"))
        ended = _ENDED.match(text.decode("utf-8", "replace")) if number == 2 else None
        if wire is None:
            for each in wires:
                each.feed(line)  # of pdsh itself: it speaks of all
        elif ended:
            wire.end(f"ssh exited with code {ended[1]}", int(ended[1]))
        elif number == 1 and text.rstrip() == _ENDED_WELL:
            wire.end("", 0)
        else:
            wire.feed(text)

    def close(self) -> None:
        for link in self._links:
            threading.Thread(target=link.close, daemon=True).start()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


class PdshWire:
    """One node behind pdsh: a named pipe to it, labelled lines from it."""

    def __init__(self, path: str, spec: HostSpec) -> None:
        self.spec = spec
        self._path = path
        # For both, so that opening does not wait for ssh, and that our end is the last one: ssh reads the end with us.
        self._pipe = os.open(f"{path}.in", os.O_RDWR | os.O_CLOEXEC)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = False
        self._why = ""
        self._code: int | None = None
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        # Many threads write, and a line must stay one.
        with self._lock:
            while data:
                data = data[os.write(self._pipe, data) :]

    def read(self) -> bytes:
        try:
            line = self._lines.get(timeout=1.0)
        except queue.Empty:
            return b""
        if line is None:
            raise EOFError
        if line.startswith(b'{"e":"hello"'):
            Path(f"{self._path}.up").touch()
        return line

    def feed(self, line: bytes) -> None:
        self._lines.put(line)

    def end(self, why: str, code: int | None = None) -> None:
        if not self._ended:
            self._ended, self._why, self._code = True, why, code
        self._lines.put(None)

    def why(self) -> str:
        return "the connection was lost" if self._code == 255 else self._why

    def refusal(self, said: Sequence[str]) -> RefusedError | None:
        words = {"host": self.spec.name, "target": self.spec.target}
        for pattern, what, fix in _CAUSES:
            if re.search(pattern, "\n".join(said)):
                own = re.search(r"ssh-keygen -f .* -R .*", "\n".join(said))  # it knows which file has the key
                return RefusedError(what, f"if you know why: {own[0]}" if own else fix.format(**words))
        return not_started(self._code, said, self.spec.name) if self._code is not None else None

    def close(self) -> None:
        with self._lock:
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1
