"""Hosts that ask for a code after the key, over `-o transport=openssh`: each asks once for a launch, and for no command
that follows it.

The sshd of these hosts has PAM, whose only module asks for a code and counts its questions.
"""

from __future__ import annotations

import os
import re
import signal
import termios
from collections.abc import Iterator

import pytest
from bare_nodes import Bare
from cluster import LOGIN
from launches import ask_run, processes, temporary
from terminal import Terminal

RANKS = ("-n", "1", "-o", "starter=ranks")
CODE = "x7-code-4711"
PAM = """\
auth required pam_exec.so expose_authtok quiet {check}
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""
CHECK = """\
#!/bin/sh
echo asked >> {folder}/asked.$(uname -n)
[ "$(tr -d '\\0\\n')" = {code} ]
"""
JOB = """\
import os, time
print("ready", os.environ["RANK"], flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
"""


class Factor:
    """Hosts with a second factor, and launches on a terminal."""

    def __init__(self, bare: Bare) -> None:
        self.bare = bare
        self.terminals: list[Terminal] = []
        check = bare.folder / "check"
        check.write_text(CHECK.format(folder=bare.folder, code=CODE))
        check.chmod(0o755)
        (bare.folder / "pam").write_text(PAM.format(check=check))
        (bare.folder / "job.py").write_text(JOB)
        bare.ssh_config("Host node*\n  BatchMode no\n")

    def require(self, *hosts: str) -> None:
        for host in hosts:
            self.bare.show(host, "/etc/pam.d/sshd", self.bare.folder / "pam")
            more = "KbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive\n"
            self.bare.sshd(host, {"UsePAM no": "UsePAM yes"}, more=more)

    def asked(self) -> dict[str, int]:
        """How often each host asked."""
        found = self.bare.folder.glob("asked.*")
        return {path.suffix[1:]: len(path.read_text().splitlines()) for path in found}

    def launch(self, *args: str, backend: str = "openssh", term: str = "xterm") -> Terminal:
        words = args if "--" in args else (*args, *RANKS, "--", "job.py")
        argv = self.bare.argv("-b", backend, *words)
        env = self.bare.environ({"TMPDIR": self.bare.lab.tmp, "TERM": term})
        self.terminals.append(Terminal(argv, self.bare.folder, env))
        return self.terminals[-1]

    def answer(self, terminal: Terminal, *codes: str) -> list[str]:
        """Answer one question after the other. Returns the hosts that asked."""
        for number, code in enumerate(codes, 1):
            terminal.wait_for(lambda number=number: len(re.findall(rb"(\S+) asks: ", terminal.raw)) == number)  # type: ignore[misc]
            os.write(terminal.handle, code.encode() + b"\n")
        return [host.decode() for host in re.findall(rb"(\S+) asks: ", terminal.raw)]


@pytest.fixture
def factor(bare: Bare) -> Iterator[Factor]:
    made = Factor(bare)
    yield made
    for terminal in made.terminals:
        terminal.close()
    bare.nothing_left()


def finish(factor: Factor, terminal: Terminal) -> None:
    (factor.bare.folder / "go").touch()
    assert terminal.end() == 0, terminal.glass.lines
    assert CODE.encode() not in terminal.raw


def launcher(factor: Factor) -> int:
    shown = processes(factor.bare.lab, [LOGIN])
    return min(pid for pid, (_, line) in shown.items() if "-m ddpkit launch" in line)


def no_ssh_left(bare: Bare) -> None:
    """Wait until the login host has no ssh and no directory of a launch."""

    def ours() -> list[str]:
        return [line for _, line in processes(bare.lab, [LOGIN]).values() if "ssh" in line or "ddpkit" in line]

    bare.wait(lambda: not ours() and not temporary(bare.lab), f"left behind: {ours()} {temporary(bare.lab)}")


def test_each_host_asks_once_for_a_launch_and_not_for_its_commands(factor: Factor) -> None:
    factor.require("node1", "node2")
    terminal = factor.launch("node1", "node2")
    assert sorted(factor.answer(terminal, CODE, CODE)) == ["node1", "node2"]
    terminal.wait_for(lambda: terminal.shows("ready 0") and terminal.shows("ready 1"))
    lines = [line for _, line in processes(factor.bare.lab).values()]
    assert any("ControlPersist=no" in line for line in lines)
    assert not [line for line in lines if CODE in line]
    for command in ("status", "logs", "dump", "top", "stop"):
        done = ask_run(factor.bare.lab, factor.bare.folder, command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert terminal.end() == 143, terminal.glass.lines
    assert factor.asked() == {"node1": 1, "node2": 1}
    no_ssh_left(factor.bare)
    records = (factor.bare.folder / "logs").rglob("*")
    assert not [path for path in records if path.is_file() and CODE.encode() in path.read_bytes()]


def test_a_login_host_asks_once_for_a_launch_and_not_for_its_commands(factor: Factor) -> None:
    factor.require("node1")
    words = ("--via", "node1", "-o", "transport=openssh", "-n", "1", "--", "job.py")
    terminal = factor.launch(*words, backend="slurm")
    assert factor.answer(terminal, CODE) == ["node1"]
    terminal.wait_for(lambda: terminal.shows("ready 0"))
    for command in ("status", "logs", "dump", "top", "stop"):
        done = ask_run(factor.bare.lab, factor.bare.folder, command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert terminal.end() == 143, terminal.glass.lines
    assert factor.asked() == {"node1": 1}
    no_ssh_left(factor.bare)


def test_a_wrong_code_is_asked_for_again(factor: Factor) -> None:
    factor.require("node1")
    terminal = factor.launch("node1")
    assert factor.answer(terminal, "000000", CODE) == ["node1", "node1"]
    finish(factor, terminal)
    assert factor.asked() == {"node1": 2}


def test_copies_use_the_connection_of_the_launch(factor: Factor) -> None:
    factor.require("node1", "node2")
    there = factor.bare.folder.parent / f"{factor.bare.folder.name} there"
    there.mkdir()
    factor.bare.toml("".join(f'[host.node{n}]\nworkdir = "{there}/{n}"\n' for n in (1, 2)))
    for number in (1, 2):
        (there / str(number)).mkdir()
        (there / str(number) / "go").touch()
    terminal = factor.launch("node1", "node2", "--sync", term="dumb")
    factor.answer(terminal, CODE, CODE)
    finish(factor, terminal)
    assert (there / "1/job.py").read_text() == JOB
    assert factor.asked() == {"node1": 1, "node2": 1}


def test_a_launcher_on_another_host_asks_once(factor: Factor) -> None:
    """For the copy and the start of the launcher."""
    factor.require("node1")
    factor.bare.toml(f'[host.node1]\nworkdir = "{factor.bare.folder} there"\n')
    words = ("--detach", "--on", "node1", "--sync", "-o", "transport=openssh")
    terminal = factor.launch(*words, backend="local", term="dumb")
    factor.answer(terminal, CODE)
    assert terminal.end() == 0, terminal.glass.lines
    assert factor.asked() == {"node1": 1}
    there = factor.bare.folder.parent / f"{factor.bare.folder.name} there"
    assert (there / "job.py").read_text() == JOB
    (there / "go").touch()
    no_ssh_left(factor.bare)


def test_a_jump_host_asks_once_for_all_hosts_behind_it(factor: Factor) -> None:
    factor.bare.ssh_config("Host node3 node4\n  ProxyJump node1\n")
    factor.require("node1")
    terminal = factor.launch("node3", "node4")
    assert factor.answer(terminal, CODE) == ["node1"]
    finish(factor, terminal)
    assert factor.asked() == {"node1": 1}


def test_without_a_terminal_the_host_and_the_command_are_named(factor: Factor) -> None:
    factor.require("node2")
    done = factor.bare.launch("-b", "openssh", "node1", "node2", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert re.findall(r"^  (\S+): (.*)", done.err, re.MULTILINE) == [
        ("node2", "its sshd requires a second factor or a password, and the answer is missing or wrong")
    ]
    assert re.search("hint: launch from a terminal, and answer as for: ssh node2$", done.err, re.MULTILINE), done.text
    assert factor.asked() == {}


def test_paramiko_names_the_transport_that_can_log_in(factor: Factor) -> None:
    factor.bare.sshd("node2", {}, more="PubkeyAuthentication no\nKbdInteractiveAuthentication yes\n")
    done = factor.bare.launch("-b", "ssh", "node2", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert "accepts no keys (" in done.err
    assert re.search(r"hint: ddpkit launch -b ssh .*node2 .*-o transport=openssh -- job.py", done.err), done.err


def test_a_detached_launcher_has_no_terminal(factor: Factor) -> None:
    """Its tmux session has one, which nobody sees."""
    factor.require("node2")
    done = factor.bare.launch("-b", "openssh", "node2", *RANKS, "--detach", "--", "job.py")
    assert done.code == 123, done.text
    assert "its sshd requires a second factor" in done.err


def test_a_connection_that_the_user_shares_already_is_used_and_stays(factor: Factor) -> None:
    """Opened before the host asks for a code, so that any other connection would fail without a terminal."""
    bare = factor.bare
    path = bare.folder / "shared"
    bare.ssh_config(f"Host node1\n  ControlPath {path}\n")
    bare.daemon(LOGIN, "ssh", "-M", "-N", "-oPermitLocalCommand=yes", "-oLocalCommand=echo up", "node1")
    factor.require("node1")
    (bare.folder / "go").touch()
    done = bare.launch("-b", "openssh", "node1", *RANKS, "--", "job.py")
    assert done.code == 0, done.text
    assert bare.lab.run(LOGIN, "ssh", "-O", "check", "node1", check=False).returncode == 0
    assert factor.asked() == {}


@pytest.mark.parametrize("moment", ["question", "ranks"])
def test_nothing_is_left_of_a_launcher_that_was_killed(factor: Factor, moment: str) -> None:
    factor.require("node1", "node2")
    terminal = factor.launch("node1", "node2")
    if moment == "ranks":
        factor.answer(terminal, CODE, CODE)
        terminal.wait_for(lambda: terminal.shows("ready 0") and terminal.shows("ready 1"))
    else:
        terminal.wait_for(lambda: b" asks: " in terminal.raw)
    os.kill(launcher(factor), signal.SIGKILL)
    no_ssh_left(factor.bare)


def test_echo_is_on_again_after_an_interrupt_at_a_question(factor: Factor) -> None:
    factor.require("node1")
    terminal = factor.launch("node1")
    terminal.wait_for(lambda: b" asks: " in terminal.raw)

    def echo() -> bool:
        return bool(termios.tcgetattr(terminal.handle)[3] & termios.ECHO)

    factor.bare.wait(lambda: not echo(), "the answer would be shown")
    os.kill(launcher(factor), signal.SIGINT)
    assert terminal.end() == 130, terminal.glass.lines
    assert echo()
