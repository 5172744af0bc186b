"""A launch on the lab's login host, seen from outside: its lines as they come, what of it lives, on which host."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster import HOSTS, Lab
from program import MARK as MARK
from program import PATIENCE as PATIENCE
from program import Program, wait_until
from program import marked as marked

ROOT = Path(__file__).parents[2]
DDPKIT = (sys.executable, "-m", "ddpkit")


def processes(lab: Lab, hosts: Iterable[str] = HOSTS) -> dict[int, tuple[str, str]]:
    """Every living process of these hosts: its id as the machine outside counts, host and command line.

    What belongs to the hosts themselves (process 1, sshd that listens, SLURM) is left out.
    """
    spaces = {}
    for name in hosts:
        try:
            first = lab.init_pid(name)
            spaces[str(Path(f"/proc/{first}/ns/pid").readlink())] = (name, first)
        except (OSError, IndexError):
            continue  # that host is dead
    found = {}
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            name, first = spaces[str((path / "ns/pid").readlink())]
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except (OSError, KeyError):
            continue
        own = (
            int(path.name) == first
            or "[listener]" in line
            or "sshd -D" in line
            or Path(line.split(" ")[0]).name.startswith("slurm")
        )
        if line and not own:
            found[int(path.name)] = (name, line)
    return found


def temporary(lab: Lab) -> set[str]:
    """The folders of ours in the lab's TMPDIR."""
    return {path.name for path in Path(lab.tmp).glob("ddpkit-*")}


def restart_sshd(lab: Lab, host: str) -> None:
    """What `systemctl restart ssh` does: the listening process goes, its sessions live on."""
    spaces = Path(f"/proc/{lab.init_pid(host)}/ns/pid").readlink()
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and (path / "ns/pid").readlink() == spaces:
                line = (path / "cmdline").read_bytes()
                if b"[listener]" in line or b"sshd\0-D" in line:
                    os.kill(int(path.name), signal.SIGTERM)
        except OSError:
            continue
    wait_until(lambda: not lab.run(host, "ss", "-Hltn", "sport = :22").stdout.strip())
    lab.run(host, "/usr/sbin/sshd", "-f", f"{lab.folder}/ssh/sshd_{host}.conf")


def supervisor_on(lab: Lab, host: str) -> tuple[int, int]:
    """Return the guard and its worker. The worker may have processes of its own, which look at the ranks."""
    parents = {}
    for pid, (_, line) in processes(lab, [host]).items():
        if "alarm" in line:
            with suppress(OSError):  # a call that is over
                parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    (guard,) = [pid for pid, parent in parents.items() if parent not in parents]
    return guard, next(pid for pid, parent in parents.items() if parent == guard)


class Launch(Program):
    """One `ddpkit launch`. Its ranks carry a mark; what else it starts is what was not there before."""

    def __init__(
        self, lab: Lab, folder: Path, args: list[str], *, read: bool = True, before: Iterable[str] = ()
    ) -> None:
        self.lab = lab
        self.mark = secrets.token_hex(8)
        self.before = set(processes(lab))
        self.folders_before = temporary(lab)
        kept = {**lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "DDPKIT_GPUS": "0", MARK: self.mark}
        self.under = [*before]  # the program that starts it, salloc
        argv = lab.argv("login", [*before, *DDPKIT, "launch", "--env", MARK, *args], folder)
        super().__init__(argv, env={**kept, "TMPDIR": lab.tmp}, read=read)

    def pid(self) -> int:
        """The launcher itself, which nsenter waits for, or salloc after it."""
        outer = self.process.pid
        until = time.monotonic() + PATIENCE
        while True:
            words = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
            name = Path(f"/proc/{words[0]}/comm").read_text() if words else ""
            if self.under and outer == self.process.pid:
                outer = int(words[0]) if name == "salloc\n" else outer
            elif words and (not self.under or name.startswith("python")):
                return int(words[0])
            assert self.process.poll() is None, "it ended"
            assert time.monotonic() < until
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        os.kill(self.pid(), number)

    def ranks(self, script: str = "job.py") -> dict[int, tuple[str, int]]:
        """Host and process of every rank that lives: not torchrun, not the tap before it, not its children."""
        found = {}
        for pid, (host, line) in processes(self.lab).items():
            if [Path(word).name for word in line.split()[1:2]] == [script] and host != "login":
                try:
                    names = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if f"{MARK}={self.mark}".encode() in names:
                    rank = next(int(name[5:]) for name in names if name.startswith(b"RANK="))
                    found[rank] = (host, pid)
        return found

    def left(self, spared: Callable[[str, str], bool] = lambda host, line: False) -> dict[int, str]:
        """What of this launch lives anywhere. `spared` (host, command line) says what does not count."""
        found = dict(marked(self.mark))
        for pid, (host, line) in processes(self.lab).items():
            if pid not in self.before and not spared(host, line):
                found[pid] = f"{host}: {line}"
        return found

    def folders(self) -> set[str]:
        return temporary(self.lab) - self.folders_before

    def wait_for_nothing_left(
        self,
        seconds: float = PATIENCE,
        spared: Callable[[str, str], bool] = lambda host, line: False,
        *,
        folders: bool = True,
    ) -> None:
        """Wait until no process and no folder of this launch is anywhere; fails with the names of what is.

        `folders`: False where nobody was left who could take a supervisor's folder away.
        """
        wait_until(
            lambda: not self.left(spared) and not (folders and self.folders()),
            lambda: f"left behind: {self.left(spared)} {self.folders()}\n{self.text}",
            seconds,
        )

    def clean_up(self) -> None:
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.send_signal(signal.SIGCONT)  # nsenter stops when the launcher is stopped
        self.process.wait(PATIENCE)


@contextmanager
def started_jobs(lab: Lab, folder: Path, job: str) -> Iterator[Callable[..., Launch]]:
    """A function that launches `job.py`, which has the text `job` or another; all that it started ends."""
    started: list[Launch] = []

    def run(*args: str, before: Iterable[str] = (), text: str = job) -> Launch:
        (folder / "job.py").write_text(text)
        started.append(Launch(lab, folder, list(args), before=before))
        return started[-1]

    yield run
    for each in started:
        each.clean_up()


def ask_run(lab: Lab, folder: Path, command: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `ddpkit COMMAND RUN ARGS` on the login host for the one run that a folder has."""
    (run,) = (folder / "logs").iterdir()
    env = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return lab.run("login", *DDPKIT, command, str(run), *args, cwd=folder, env=env, check=False)


def foreign(lab: Lab, host: str, folder: Path) -> subprocess.Popen[bytes]:
    """Somebody else's process with the command line of a rank."""
    script = folder / "foreign/job.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text("import time; print(flush=True); time.sleep(3600)")
    process = subprocess.Popen(
        lab.argv(host, [sys.executable, "job.py"], script.parent),
        env=lab.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process
