"""The ways in that people have: ports, configuration files, jump hosts, known hosts, keys with passphrases."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bare_nodes import ALL, Bare, Done
from cluster import LOGIN, NODES
from conftest import PATIENCE

BACKENDS = ("ssh", "pdsh", "openssh")
RANKS = ("-n", "1", "-o", "starter=ranks")


def ran(done: Done, *hosts: str) -> None:
    assert done.code == 0, done.text
    assert sorted(re.findall(r"ran (\d+) (\S+)", done.out)) == [(str(rank), host) for rank, host in enumerate(hosts)]


# ---- ports and addresses


@pytest.mark.parametrize("backend", BACKENDS)
def test_users_ports_and_ipv6_addresses(bare: Bare, backend: str) -> None:
    key = (bare.lab.folder / "ssh/host_node3.pub").read_text()
    bare.ip(LOGIN, "address", "add", "fd00:77::5/64", "dev", "eth0", "nodad")
    bare.later(lambda: bare.ip(LOGIN, "address", "del", "fd00:77::5/64", "dev", "eth0"))
    for number in (3, 4):
        bare.ip(f"node{number}", "address", "add", f"fd00:77::{number}/64", "dev", "eth0", "nodad")
        words = ("address", "del", f"fd00:77::{number}/64", "dev", "eth0")
        bare.later(lambda number=number, words=words: bare.ip(f"node{number}", *words))  # type: ignore[misc]
        bare.sshd(f"node{number}", {}, port=2222)
    bare.sshd("node2", {}, port=2223)
    # As OpenSSH has it: another port's sshd may show the key that is known for the host.
    other = (bare.lab.folder / "ssh/host_node4.pub").read_text()
    bare.known_hosts(lambda text: f"{text}[fd00:77::3]:2222 {key}[fd00:77::4]:2222 {other}")
    hosts = ("node1", "root@node2:2223", "[fd00:77::3]:2222", "root@[fd00:77::4]:2222")
    ran(bare.launch("-b", backend, *hosts, *RANKS, "--", "job.py"), *NODES)


def test_hosts_whose_names_are_like_those_that_pdsh_is_given(bare: Bare) -> None:
    """pdsh cannot be given a port: it sees host1 for the second, which is the name of the first here."""
    bare.names("10.77.0.1 host1\n")
    bare.ssh_config("Host host1\n  HostKeyAlias node1\nHost 7\n  HostName node2\n  HostKeyAlias node2\n")
    (bare.folder / "hosts").write_text("host1\nnode3 port=22\n7\n")
    done = bare.launch("-b", "pdsh", "--hostfile", "hosts", *RANKS, "--", "job.py")
    ran(done, "node1", "node3", "node2")


def test_a_port_that_says_nothing(bare: Bare) -> None:
    text = 'import socket, time; s = socket.create_server(("", 2299)); print("ready", flush=True); time.sleep(3600)'
    bare.daemon("node3", sys.executable, "-c", text)
    for backend in BACKENDS:
        done = bare.launch("-b", backend, "node1", "node2", "node3:2299", *RANKS, "--", "job.py")
        assert done.code == 123, done.text
        assert done.seconds < 15 or done.slow, done.text
        assert re.findall(r"^  (\S+): ", done.err, re.MULTILINE) == ["node3:2299"], done.text
        assert re.search("no answer|accepts connections, and sends nothing", done.err), done.text
    bare.nothing_left(["node1", "node2"])


# ---- configuration


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_configuration_says_is_done(bare: Bare, backend: str) -> None:
    key = bare.key("mine")
    bare.authorize(key.with_suffix(".pub"))
    bare.no_own_key()
    bare.sshd("node2", {}, port=2222)
    folder = bare.lab.folder / "dot_ssh/conf.d"
    folder.mkdir()
    bare.later(folder.rmdir)
    part = folder / "lab"
    part.write_text(
        f"Host a\n  HostName node1\nHost b\n  HostName 10.77.0.2\n  HostKeyAlias node2\n  Port 2222\n"
        f"Host a b c\n  User root\n  IdentityFile {key}\n"
        "Host c\n  HostName node3\n  ProxyCommand sh -c 'echo through >&2; exec "
        f"{sys.executable} {bare.folder}/nc.py %h %p'\n"
    )
    bare.later(part.unlink)
    (bare.folder / "nc.py").write_text(
        "import os, socket, sys, threading\n"
        "s = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536):\n        s.sendall(data)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536):\n    os.write(1, data)\n"
    )
    bare.ssh_config("Include\tconf.d/*\n")
    ran(bare.launch("-b", backend, "a", "b", "c", *RANKS, "--", "job.py"), "node1", "node2", "node3")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sshd", ["", "MaxStartups 2:100:3\n"])
def test_a_chain_of_two_jump_hosts(bare: Bare, backend: str, sshd: str) -> None:
    if sshd:
        bare.sshd("node1", {}, more=sshd)
    for host in ("node3", "node4"):
        bare.firewall(host, "tcp dport 22 ip saddr != 10.77.0.2 drop")
    bare.firewall("node2", "tcp dport 22 ip saddr 10.77.0.5 drop")
    bare.ssh_config("Host node2\n  ProxyJump node1\nHost node3 node4\n  ProxyJump node2\n")
    done = bare.launch("-b", backend, "node3", "node4", *RANKS, "--", "job.py")
    ran(done, "node3", "node4")


@pytest.mark.parametrize("backend", BACKENDS)
def test_jump_hosts_with_commas_are_gone_through_in_their_order(bare: Bare, backend: str) -> None:
    """And what a pattern says of all holds for no jump host that says `none`."""
    bare.firewall("node3", "tcp dport 22 ip saddr != 10.77.0.2 drop")
    bare.firewall("node2", "tcp dport 22 ip saddr != 10.77.0.1 drop")
    text = (
        "Host node1\n  ProxyJump none\nHost node3\n  ProxyJump ssh://root@node1:22,node2\nHost *\n  ProxyJump node1\n"
    )
    bare.ssh_config(text)
    ran(bare.launch("-b", backend, "node3", "node1", *RANKS, "--", "job.py"), "node3", "node1")


@pytest.mark.parametrize("backend", ["ssh", "openssh"])
def test_jump_hosts_that_go_in_a_circle_are_named(bare: Bare, backend: str) -> None:
    bare.ssh_config("Host node1\n  ProxyJump node2\nHost node2\n  ProxyJump node1\n")
    done = bare.launch("-b", backend, "node1", "node2", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert "node1: ProxyJump contains a cycle: node1 through node2 through node1" in done.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_people_have_in_their_configuration_is_no_hindrance(bare: Bare, backend: str) -> None:
    """A key of another machine, a service's name for a port, a command for those who log in by hand, no input."""
    lines = ("IdentityFile ~/.ssh/of-the-old-laptop", "Port ssh", "RemoteCommand tmux attach", "StdinNull yes")
    bare.ssh_config("\n  ".join(("Host node1", *lines)) + "\n")
    ran(bare.launch("-b", backend, "node1", "node2", *RANKS, "--", "job.py"), "node1", "node2")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_port_that_is_forwarded_for_people_is_no_hindrance(bare: Bare, backend: str) -> None:
    """Only one ssh at a time can have it."""
    bare.ssh_config("Host node*\n  LocalForward 8888 localhost:8888\n  ExitOnForwardFailure yes\n")
    ran(bare.launch("-b", backend, "node1", "node2", *RANKS, "--", "job.py"), "node1", "node2")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_proxy_command_that_is_ssh_itself(bare: Bare, backend: str) -> None:
    """How jump hosts are written since before ProxyJump."""
    bare.firewall("node2", "tcp dport 22 ip saddr != 10.77.0.1 drop")
    bare.ssh_config("Host node2\n  ProxyCommand ssh -W %h:%p node1\n")
    ran(bare.launch("-b", backend, "node2", "node3", *RANKS, "--", "job.py"), "node2", "node3")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_proxy_says_is_not_the_nodes(bare: Bare, backend: str) -> None:
    bare.ssh_config(
        "Host node1\n  ProxyCommand sh -c 'echo 407 authentication required >&2; exit 1'\n"
        "Host node3\n  ProxyCommand sleep 60\n"
    )
    done = bare.launch("-b", backend, "node1", "node2", "node3", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert re.search(r"^  node1: its proxy \(ProxyCommand sh -c .*407 authentication required", done.err, re.MULTILINE)
    assert re.search(r"^  node3: its proxy \(ProxyCommand sleep 60\) connects to no SSH server", done.err, re.MULTILINE)
    assert "  node2:" not in done.err
    assert "hint: ssh -v node1 true" in done.err
    assert done.seconds < 15 or done.slow, done.text


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_node_that_lets_in_only_those_with_a_job_there(bare: Bare, backend: str) -> None:
    """As pam_slurm_adopt does: the key was accepted, and a banner has the reason."""
    said = bare.lab.folder / "denied"
    said.write_text("Access denied by pam_slurm_adopt: you have no active jobs on this node")
    lines = ("auth required pam_permit.so", f"account required pam_echo.so file={said}")
    bare.write("node1", Path("/etc/pam.d/sshd"), "\n".join((*lines, "account required pam_deny.so\n")))
    bare.sshd("node1", {"UsePAM no": "UsePAM yes"})
    done = bare.launch("-b", backend, "node1", "node2", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert "  node1: this site permits SSH to a node only while one of your jobs runs on it\n" in done.err
    assert "hint: allocate the nodes first (salloc -N 2), or start through SLURM: ddpkit launch -b slurm" in done.err
    assert "  node2:" not in done.err


def test_the_users_options_for_the_ssh_of_pdsh(bare: Bare) -> None:
    key = bare.key("mine")
    bare.authorize(key.with_suffix(".pub"))
    bare.no_own_key()
    bare.sshd("node1", {}, port=2222)
    env = {"PDSH_SSH_ARGS_APPEND": f"-o HostKeyAlias=node1 -i {key} -p 2222"}
    ran(bare.launch("-b", "pdsh", "node1", *RANKS, "--", "job.py", env=env), "node1")
    done = bare.launch("-b", "pdsh", "node1", *RANKS, "--", "job.py", env={"PDSH_SSH_ARGS": "-n %h"})
    assert done.code == 121, done.text
    assert "PDSH_SSH_ARGS: -n is not for a launch" in done.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_agent_that_the_configuration_names(bare: Bare, backend: str) -> None:
    """As of 1Password: the file has the public part alone, and SSH_AUTH_SOCK is not set."""
    key = bare.key("mine")
    bare.authorize(key.with_suffix(".pub"))
    bare.no_own_key()
    socket = bare.folder / "own-agent"
    bare.daemon(LOGIN, "ssh-agent", "-D", "-a", str(socket))
    bare.lab.run(LOGIN, "ssh-add", str(key), env={"SSH_AUTH_SOCK": str(socket)})
    key.unlink()
    bare.ssh_config(
        f"Host alpha # my first node\n  HostName node1 # the address\n  HostKeyAlias node1\n  User root # me\n"
        f"  IdentityFile {key}.pub\n  IdentitiesOnly yes\n  IdentityAgent {socket}\n  Port 22 # usual\n"
    )
    ran(bare.launch("-b", backend, "alpha", *RANKS, "--", "job.py", env={"SSH_AUTH_SOCK": ""}), "node1")


def test_pdsh_does_not_end_a_run_after_so_many_seconds(bare: Bare) -> None:
    words = ("-b", "pdsh", "node1", *RANKS, "--", "sh", "-c", 'sleep 2; exec "$0" job.py', sys.executable)
    ran(bare.launch(*words, env={"PDSH_COMMAND_TIMEOUT": "1"}), "node1")


@pytest.mark.parametrize("backend", ["ssh", "openssh"])
def test_a_jump_host_that_is_off_is_named(bare: Bare, backend: str) -> None:
    bare.cut("node1")
    bare.ssh_config("Host node3 node4\n  ProxyJump node1\n")
    done = bare.launch("-b", backend, "node2", "node3", "node4", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert done.seconds < 15 or done.slow, done.text
    for host in ("node3", "node4"):
        assert re.search(f"{host}: its jump host node1: no", done.err), done.text
    assert "  node2:" not in done.err
    bare.nothing_left(["node2", "node3", "node4"])


@pytest.mark.parametrize("backend", ["ssh", "openssh"])
def test_a_jump_host_that_is_not_known_is_named(bare: Bare, backend: str) -> None:
    bare.known_hosts(lambda text: "".join(line for line in text.splitlines(True) if "node1" not in line))
    bare.ssh_config("Host node3\n  ProxyJump node1\n")
    done = bare.launch("-b", backend, "node2", "node3", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert "node3: its jump host node1: its host key is not known" in done.err
    assert "hint: connect once, and compare the fingerprint: ssh node1; or add -o accept_new_host_keys=true" in done.err
    bare.nothing_left(["node2", "node3"])


def test_a_locked_key_for_a_jump_host_without_a_terminal(bare: Bare) -> None:
    key = locked(bare)
    bare.ssh_config("Host node3\n  ProxyJump node1\n")
    done = bare.launch("-b", "ssh", "node3", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert f"a passphrase is needed for {key}" in done.err


# ---- known hosts


@pytest.mark.parametrize("backend", BACKENDS)
def test_known_hosts_hashed_and_elsewhere(bare: Bare, backend: str) -> None:
    path = bare.folder / "known"
    path.write_text((bare.lab.folder / "ssh/known_hosts").read_text())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    bare.known_hosts(lambda _: "")
    bare.ssh_config(f"Host *\n  UserKnownHostsFile {path}\n")
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py"), *NODES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_host_that_is_known_by_another_kind_of_key(bare: Bare, backend: str) -> None:
    """The server would offer its ed25519 key first; what we know is its RSA key."""
    rsa = bare.key("rsa", "rsa")
    bare.sshd("node3", {}, more=f"HostKey {rsa}\n")
    line = " ".join(rsa.with_suffix(".pub").read_text().split()[:2])
    bare.known_hosts(lambda text: re.sub(r"node3,(\S+) .*", rf"node3,\1 {line}", text))
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py"), *NODES)


def test_only_a_kind_of_key_that_is_not_offered_is_known(bare: Bare) -> None:
    line = " ".join(bare.key("rsa", "rsa").with_suffix(".pub").read_text().split()[:2])
    bare.known_hosts(lambda text: re.sub(r"node3,(\S+) .*", rf"node3,\1 {line}", text))
    done = bare.launch("-b", "ssh", ALL, *RANKS, "-o", "accept_new_host_keys=true", "--", "job.py")
    assert done.code == 123, done.text
    assert re.search("node3: .*no host key of the known type", done.err), done.text
    assert "ssh-keygen -F node3" in done.err


def test_new_keys_are_added_when_asked_for_and_changed_ones_are_not(bare: Bare) -> None:
    path = bare.lab.folder / "ssh/known_hosts"
    whole = path.read_text()
    other = bare.key("other").with_suffix(".pub").read_text().split()[1]
    bare.known_hosts(lambda text: "".join(line for line in text.splitlines(True) if "node3" not in line))
    done = bare.launch("-b", "ssh", ALL, *RANKS, "-o", "accept_new_host_keys=true", "--", "job.py")
    ran(done, *NODES)
    assert f"ddpkit: added the ssh-ed25519 key of node3 to {path}" in done.err
    assert re.search(r"^node3 ssh-ed25519 \S+$", path.read_text(), re.MULTILINE)
    ran(bare.launch("-b", "pdsh", ALL, *RANKS, "--", "job.py"), *NODES)  # OpenSSH reads it as well
    path.write_text(re.sub(r"(node3,\S+ \S+) \S+", rf"\1 {other}", whole))
    done = bare.launch("-b", "ssh", ALL, *RANKS, "-o", "accept_new_host_keys=true", "--", "job.py")
    assert done.code == 123, done.text
    assert "node3: its host key has changed" in done.err


# ---- forwarding


def test_no_agent_is_forwarded(bare: Bare) -> None:
    """A node's administrator could use it. `ForwardAgent` is for sessions of people; a launch needs none."""
    agent = str(bare.folder / "agent")
    bare.daemon(
        LOGIN, "sh", "-c", f"ssh-agent -D -a {agent} & until [ -S {agent} ]; do sleep 0.01; done; echo up; wait"
    )
    bare.ssh_config("Host *\n  ForwardAgent yes\n  ForwardX11 yes\n")
    seen = bare.folder / "seen"
    bare.start_up("node2", f'\necho "agent=$SSH_AUTH_SOCK display=$DISPLAY" >> {seen}\n')
    env, job = {"SSH_AUTH_SOCK": agent, "DISPLAY": ":7"}, ("node2", *RANKS, "--", "job.py")
    assert bare.launch("-b", "ssh", "--sync", *job, env=env).code == 0
    assert bare.launch("-b", "pdsh", *job, env=env).code == 0
    assert bare.launch("-b", "ssh", "-o", "transport=openssh", *job, env=env).code == 0
    logins = seen.read_text().splitlines()
    assert len(logins) >= 4  # rsync and three launches
    assert set(logins) == {"agent= display="}


# ---- keys with a passphrase


def locked(bare: Bare) -> Path:
    key = bare.key("locked", passphrase="locked up")
    bare.authorize(key.with_suffix(".pub"))
    bare.no_own_key()
    bare.ssh_config(f"Host *\n  IdentityFile {key}\n")
    return key


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_locked_key_without_a_terminal(bare: Bare, backend: str) -> None:
    key = locked(bare)
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    words = f"a passphrase is needed for {key}" if backend == "ssh" else f"and {key} needs a passphrase"
    assert words in done.err
    assert f"hint: ssh-add {key}" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_locked_key_in_an_agent(bare: Bare, backend: str) -> None:
    key = locked(bare)
    socket = bare.folder / "agent"
    bare.daemon(LOGIN, "ssh-agent", "-D", "-a", str(socket))
    ask = bare.folder / "ask"
    ask.write_text("#!/bin/sh\necho 'locked up'\n")
    ask.chmod(0o755)
    asking = {"SSH_AUTH_SOCK": str(socket), "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
    bare.lab.run(LOGIN, "ssh-add", str(key), env=asking)
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py", env={"SSH_AUTH_SOCK": str(socket)}), *NODES)


@pytest.mark.parametrize("words", [["locked up"], ["wrong", "locked up"], ["wrong", "wrong", "wrong"]])
def test_a_locked_key_at_a_terminal(bare: Bare, words: list[str]) -> None:
    locked(bare)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        bare.argv("-b", "ssh", ALL, *RANKS, "--", "job.py"),
        env=bare.environ(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said, left, until = "", list(words), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if not select.select([ours], [], [], 1.0)[0]:
            continue
        try:
            said += os.read(ours, 65536).decode(errors="replace")
        except OSError:
            break  # the other end is closed
        if left and said.count("passphrase of") == len(words) - len(left) + 1:
            os.write(ours, left.pop(0).encode() + b"\n")
    os.close(ours)
    code = process.wait(PATIENCE)
    assert "locked up" not in said
    assert "Traceback" not in said
    if words[-1] == "wrong":
        assert code == 123, said
        assert "a passphrase is wrong for" in said
    else:
        assert code == 0, said
        assert said.count("ran ") == 4
        assert said.count("passphrase of") == len(words)  # once, for all four hosts


# ---- certificates

NOW, WORDS = ("-V", "-5m:+5m"), r"accepts none of the keys.*: the certificate {} {}"
CERTIFICATES = {  # as ssh-keygen signs them, and what is said
    "expired": (("-n", "root", "-V", "20200101:20200102"), "expired on 2020-01-02 00:00"),
    "early": (("-n", "root", "-V", "20990101:20990102"), "is not valid before 2099-01-01 00:00"),
    "principal": (("-n", "ubuntu,me", *NOW), "is for ubuntu, me, and the user is root"),
    "nobody": (NOW, "is for nobody, and the user is root"),
    "host": (("-h", "-n", "root", *NOW), "is one of a host, not of a user"),
    "other": (("-n", "root", *NOW), "is signed by a key that the host may not trust"),
}


def signed(bare: Bare, key: Path, *words: str, by: str = "authority") -> Path:
    """The certificate of a key. node1 trusts one authority alone."""
    authority = bare.key("authority")
    bare.sshd("node1", {}, more=f"TrustedUserCAKeys {authority}.pub\n")
    signer = authority if by == "authority" else bare.key(by)
    subprocess.run(["ssh-keygen", "-q", "-s", str(signer), "-I", "my laptop", *words, f"{key}.pub"], check=True)
    bare.no_own_key()
    return Path(f"{key}-cert.pub")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_certificate_that_sshd_accepts(bare: Bare, backend: str) -> None:
    key = bare.key("mine")
    signed(bare, key, "-n", "root", *NOW)
    bare.ssh_config(f"Host *\n  IdentityFile {key}\n")
    ran(bare.launch("-b", backend, "node1", *RANKS, "--", "job.py"), "node1")


@pytest.mark.parametrize("fault", CERTIFICATES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_certificate_that_sshd_refuses_is_named(bare: Bare, backend: str, fault: str) -> None:
    words, said = CERTIFICATES[fault]
    key = bare.key("mine")
    certificate = signed(bare, key, *words, by="another" if fault == "other" else "authority")
    bare.ssh_config(f"Host *\n  IdentityFile {key}\n")
    done = bare.launch("-b", backend, "node1", *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert re.search(WORDS.format(certificate, said), done.err), done.text
    assert f"hint: ssh-keygen -L -f {certificate}\n" in done.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_expired_certificate_elsewhere_or_in_an_agent_is_named(bare: Bare, backend: str) -> None:
    key = bare.key("mine", "ecdsa")
    certificate = signed(bare, key, *CERTIFICATES["expired"][0])
    elsewhere = certificate.rename(bare.folder / "of-today.pub")
    bare.ssh_config(f"Host *\n  IdentityFile {key}\n  CertificateFile {elsewhere}\n")
    done = bare.launch("-b", backend, "node1", *RANKS, "--", "job.py")
    assert re.search(WORDS.format(elsewhere, "expired on 2020-01-02 00:00"), done.err), done.text
    elsewhere.rename(certificate)
    socket = str(bare.folder / "agent")
    bare.daemon(LOGIN, "ssh-agent", "-D", "-a", socket)
    bare.lab.run(LOGIN, "ssh-add", str(key), env={"SSH_AUTH_SOCK": socket})
    certificate.unlink()
    bare.no_own_key()
    done = bare.launch("-b", backend, "node1", *RANKS, "--", "job.py", env={"SSH_AUTH_SOCK": socket})
    assert re.search(WORDS.format("in the agent", "expired on 2020-01-02 00:00"), done.err), done.text
    assert "hint: ssh-add -L | ssh-keygen -L -f -\n" in done.err


# ---- other Pythons


# Each version over one way; all over both in the thorough tests.
PYTHONS = [
    pytest.param(backend, version, marks=() if backend == usual else pytest.mark.thorough)
    for version, usual in {"3.8": "ssh", "3.9": "pdsh", "3.10": "ssh", "3.13": "pdsh"}.items()
    for backend in ("ssh", "pdsh")
]


@pytest.mark.parametrize(("backend", "version"), PYTHONS)
def test_another_python_on_the_nodes(bare: Bare, backend: str, version: str) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} here")
    job = ["sh", "-c", 'echo "ran $RANK $(hostname)"']
    ran(bare.launch("-b", backend, "--python", str(found[-1]), ALL, *RANKS, "--", *job), *NODES)
    # A program that is no Python script does not care.
    bare.toml(f'[host.node3]\npython = "{found[-1]}"\n')
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", *job), *NODES)
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")
    assert done.code == 122, done.text
    assert f"node3: {found[-1]} is Python {version}." in done.err
