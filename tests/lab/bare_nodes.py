"""Launches on the lab's bare nodes, and everything that can be wrong with a node; all of it is undone at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import hints
from cluster import LOGIN, NODES, Lab
from conftest import PATIENCE
from program import run_to_end, wait_until

ALL = "node[1-4]"
ROOT = Path(__file__).parents[2]
JOB = 'import os\nprint("ran", os.environ["RANK"], os.uname().nodename, flush=True)\n'
DDPKIT = [sys.executable, "-m", "ddpkit"]
SUPERVISOR = "exec(open(0"  # in the command line of everything that we start on a node


@dataclass(frozen=True, kw_only=True)
class Done:
    """One launch that ended."""

    code: int
    out: str
    err: str
    seconds: float
    slow: bool = False  # this machine was busy, and nodes were given time: how long it took says nothing

    @property
    def text(self) -> str:
        return f"exit code {self.code} after {self.seconds:.1f} s\n{self.out}\n{self.err}"


def busy() -> bool:
    """Whether this machine has so much else to do that times say nothing: nodes are slow then, and are given time."""
    words = Path("/proc/pressure/cpu").read_text().split() if Path("/proc/pressure/cpu").exists() else []
    return any(word.startswith("avg10=") and float(word[6:]) > 60 for word in words[:2])


class Bare:
    """The lab's hosts without SLURM. `folder` is the workdir of every launch, on all of them."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self._undo: list[Callable[[], object]] = []
        (folder / "job.py").write_text(JOB)

    # ---- launching

    def words(self, *args: str, verb: str = "launch") -> list[str]:
        if args[:2] == ("-b", "openssh"):  # the same nodes and backend, through the ssh program
            args = ("-b", "ssh", "-o", "transport=openssh", *args[2:])
        return [verb, *args]

    def argv(self, *args: str, verb: str = "launch") -> list[str]:
        return self.lab.argv(LOGIN, [*DDPKIT, *self.words(*args, verb=verb)], self.folder)

    def environ(self, env: dict[str, str] | None = None) -> dict[str, str]:
        return {**self.lab.environ(), "NO_COLOR": "1", "DDPKIT_GPUS": "0", "PYTHONPATH": str(ROOT), **(env or {})}

    def launch(self, *args: str, env: dict[str, str] | None = None) -> Done:
        """`ddpkit launch ARGS` on the login host, to its end."""
        slow = busy()
        if slow:
            args = (*args[:2], "-o", "connect_timeout=20", *args[2:])
        return self._run(self.words(*args), env, slow=slow)

    def test(self, *args: str, env: dict[str, str] | None = None) -> Done:
        """`ddpkit test ARGS --json` on the login host, to its end."""
        return self._run(self.words("--json", *args, verb="test"), env, slow=busy())

    def ddpkit(self, verb: str, *args: str) -> Done:
        """`ddpkit VERB ARGS` on the login host, to its end."""
        return self._run(self.words(*args, verb=verb), None, slow=busy())

    def _run(self, args: Sequence[str], env: dict[str, str] | None, *, slow: bool) -> Done:
        def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            own = [*DDPKIT, *command[1:]] if command[0] == "ddpkit" else command
            argv = self.lab.argv(LOGIN, own, self.folder)
            return run_to_end(argv, env=self.environ(env), stdin=subprocess.DEVNULL)

        began = time.monotonic()
        done = run(["ddpkit", *args])
        seconds = time.monotonic() - began
        assert hints.problems(args, done.stderr, run) == [], done.stderr
        return Done(code=done.returncode, out=done.stdout, err=done.stderr, seconds=seconds, slow=slow)

    def nothing_left(self, hosts: Sequence[str] = NODES) -> None:
        """Wait until nothing of ours runs on the nodes: soon, since a launch has ended."""
        for name in hosts:

            def ours(name: str = name) -> bool:
                return any(SUPERVISOR in line or "job.py" in line for line in self.lab.processes(name).values())

            self.wait(lambda: not ours(), f"something is left on {name}: {self.lab.processes(name)}")

    def wait(self, event: Callable[[], object], otherwise: str) -> None:
        wait_until(event, otherwise)

    # ---- what can be wrong

    def later(self, action: Callable[[], object]) -> None:
        """Do this at the end of the test."""
        self._undo.append(action)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def cut(self, host: str) -> None:
        def mend() -> None:
            self.lab.mend(host)
            # Until the others have forgotten that it was gone.
            ping = ("ping", "-c1", "-W1", host)
            self.wait(lambda: self.lab.run(LOGIN, *ping, check=False).returncode == 0, f"{host} does not come back")

        self.lab.cut(host)
        self.later(mend)

    def show(self, host: str, path: str | Path, shown: str | Path) -> None:
        """On this host, show another file or folder in a place."""
        self.lab.run(host, "mount", "--bind", str(shown), str(path))
        self.later(lambda: self.lab.run(host, "umount", str(path)))

    def write(self, host: str, path: str | Path, text: str) -> None:
        """On this host alone, a file holds this text."""
        name = f"shown-{host}-{Path(path).name}"
        shown = self.folder.parent / f"{self.folder.name}-{name}"
        shown.write_text(text)
        shown.chmod(0o755)
        self.show(host, path, shown)

    def names(self, lines: str, hosts: Sequence[str] = (LOGIN, *NODES)) -> None:
        """More lines in /etc/hosts of some hosts, in front, so that they win."""
        for host in hosts:
            self.write(host, "/etc/hosts", lines + (self.lab.folder / "etc/hosts").read_text())

    def small(self, host: str, path: Path, options: str) -> None:
        """A file system of its own for one folder of one host."""
        path.mkdir(exist_ok=True)
        self.lab.run(host, "mount", "-t", "tmpfs", "-o", options, "none", str(path))
        self.later(lambda: self.lab.run(host, "umount", "-l", str(path)))

    def firewall(self, host: str, rule: str, way: str = "input") -> None:
        """A rule for what comes in, or goes out (`output`), as nft writes it."""
        rules = f"table inet faults {{ chain {way} {{ type filter hook {way} priority 0; {rule}; }}; }}"
        self.lab.run(host, "nft", rules)
        self.later(lambda: self.lab.run(host, "nft", "delete", "table", "inet", "faults"))

    def ip(self, host: str, *words: str) -> None:
        self.lab.run(host, "ip", *words)

    def interface(self, host: str, name: str, address: str) -> None:
        """Another interface of this host, which leads nowhere."""
        self.ip(host, "link", "add", name, "type", "veth", "peer", "name", f"{name}p")
        self.later(lambda: self.ip(host, "link", "delete", name))
        self.ip(host, "address", "add", address, "dev", name)
        self.ip(host, "link", "set", name, "up")
        self.ip(host, "link", "set", f"{name}p", "up")

    def daemon(self, host: str, *argv: str) -> subprocess.Popen[bytes]:
        """A program of this host, until the end of the test. It is ready when it prints a line."""
        process = subprocess.Popen(
            self.lab.argv(host, argv, self.folder),
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def end() -> None:
            # nsenter waits for the program, which got the same signal.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE)
            assert process.stdout is not None
            process.stdout.close()

        self.later(end)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    def sshd(self, host: str, changes: dict[str, str], port: int = 22, more: str = "") -> None:
        """This host's sshd with other settings. On another port it is one more sshd."""
        path = self.lab.folder / f"ssh/sshd_{host}.conf"
        before = path.read_text()
        text = before.replace("Port 22", f"Port {port}")
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        if port != 22:
            other = self.lab.folder / f"ssh/sshd_{host}_{port}.conf"
            other.write_text(text + more)
            self.daemon(host, "/usr/sbin/sshd", "-D", "-e", "-f", str(other))
            return
        self.later(lambda: self._again(host, before))
        self._again(host, text + more)

    def _again(self, host: str, text: str) -> None:
        (self.lab.folder / f"ssh/sshd_{host}.conf").write_text(text)
        log = self.lab.folder / f"log/{host}.log"
        seen = log.stat().st_size
        pid = min(pid for pid, line in self.lab.processes(host).items() if "sshd" in line and "[listener]" in line)
        self.lab.run(host, "kill", "-HUP", str(pid))
        self.wait(lambda: b"Server listening" in log.read_bytes()[seen:], f"sshd does not come back: {log}")

    def login_env(self, host: str, **values: str) -> None:
        """Variables of everyone who comes to this host by ssh."""
        words = "".join(f" {name}={value}" for name, value in values.items())
        own = f"SetEnv TMPDIR={self.lab.tmp}"  # sshd reads the first SetEnv alone
        self.sshd(host, {own: own + words})

    def start_up(self, host: str, lines: str) -> None:
        """More lines at the end of this host's ~/.bashrc."""
        self.write(host, Path.home() / ".bashrc", (self.lab.folder / "bashrc").read_text() + lines)

    def ssh_config(self, text: str, instead: bool = False) -> None:
        """Lines in front of ~/.ssh/config on every host, or a whole one."""
        path = self.lab.folder / "dot_ssh/config"
        before = path.read_text()
        self.later(lambda: path.write_text(before))
        path.write_text(text if instead else text + before)

    def known_hosts(self, change: Callable[[str], str]) -> None:
        path = self.lab.folder / "ssh/known_hosts"
        before = path.read_text()
        self.later(lambda: path.write_text(before))
        path.write_text(change(before))

    def no_own_key(self) -> None:
        """A configuration without the lab's key, for tests that bring their own."""
        known = self.lab.folder / "ssh/known_hosts"
        self.ssh_config(f"Host *\n  UserKnownHostsFile {known}\n", instead=True)

    def authorize(self, public: Path) -> None:
        """One more key opens every host."""
        path = self.lab.folder / "ssh/user.pub"
        before = path.read_text()
        self.later(lambda: path.write_text(before))
        path.write_text(before + public.read_text())

    def key(self, name: str, kind: str = "ed25519", passphrase: str = "") -> Path:
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True)
        return path

    def toml(self, text: str) -> None:
        (self.folder / "ddpkit.toml").write_text(text)
