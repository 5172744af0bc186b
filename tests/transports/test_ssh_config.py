"""The configuration of a host: what `ssh -G` prints, and what our own reading makes of the same files without it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import run_to_end

from ddpkit.errors import UsageError
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.ssh import config as ssh_config
from ddpkit.transports.ssh.client import Ssh
from ddpkit.transports.ssh.config import (
    ConfigError,
    SshConfig,
    SshHost,
    Values,
    ask_ssh,
    host_of,
    last_jump,
    read_files,
)

SSH = shutil.which("ssh")
needs_ssh = pytest.mark.skipif(SSH is None, reason="no ssh program here")
HOME = ssh_config.home()


def program(folder: Path, text: str = 'exec {ssh} -F "{folder}/config" "$@"') -> str:
    """An ssh program that reads another file in place of the user's and the machine's."""
    path = folder / "bin/ssh"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text.format(ssh=SSH, folder=folder)}\n")
    path.chmod(0o755)
    return str(path)


def own(folder: Path, name: str = "x", **more: object) -> SshHost:
    spec = HostSpec(name=name, **more)  # type: ignore[arg-type]
    return host_of(spec, read_files(spec, [folder / "config"]))


# ---- both ways


def test_what_openssh_takes_our_own_reading_takes(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "Host x # the first\n    HostName node1  # the address\n    User root # me\n\tPort\t=\t2222 # usual\n"
        "Host y # the second, not x\n    IdentitiesOnly yes\nMatch originalhost x # again\n    HostKeyAlias it\n"
        'ProxyCommand nc %h %p # "not a comment"\n'
    )
    host = own(tmp_path)
    assert (host.hostname, host.user, host.port, host.host_key_alias) == ("node1", "root", 2222, "it")
    assert host.proxy_command == 'nc node1 2222 # "not a comment"'
    assert not host.identities_only


def test_includes_are_followed_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "conf d").mkdir()
    (tmp_path / "config").write_text(
        f'Include\t"conf d/*" {tmp_path}/absolute nothing/*\nHost a\n  Include in_a\n  Port 7\nHost *\n  User last\n'
    )
    (tmp_path / "conf d/1").write_text("Host a\n  User first\n")
    (tmp_path / "conf d/2").write_text("# a comment\nHost b\n  Include nested\nInclude = in_a\n")
    (tmp_path / "nested").write_text("User nested\nPort 9\n")  # beside the outermost file, as OpenSSH has it
    (tmp_path / "absolute").write_text("HostKeyAlias all\n")
    (tmp_path / "in_a").write_text("HostName a.example\n")
    a, b, c = (own(tmp_path, name) for name in "abc")
    assert (a.user, a.port, a.hostname, a.host_key_alias) == ("first", 7, "a.example", "all")
    assert (b.user, b.port, b.hostname) == ("nested", 9, "a.example")
    assert (c.user, c.port, c.hostname, c.host_key_alias) == ("last", 22, "c", "all")


@pytest.mark.parametrize(
    "text",
    [
        "Include config\n",
        "Frobnicate yes\n",
        "Match exec true\n  User me\n",
        "Match tagged x\n",
        "Match canonical\n",
        "Match host x final\n",
        "Host x\n  User\n",
        'User "me\n',
        "User me you\n",
        "Port nothing\n",
        "Port 99999\n",
        "IdentityFile %Z\n",
        "HostName %p\n",
        "Host\n",
    ],
)
def test_what_our_own_reading_does_not_know_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError) as refused:
        own(tmp_path)
    assert "use -o transport=openssh" in refused.value.fix


@needs_ssh
def test_a_configuration_that_ssh_cannot_read_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host *\n  Frobnicate yes\n")
    ssh = program(tmp_path)
    reader = Ssh(accept_new=False, timeout=1.0, note=print, config=SshConfig(lambda spec: ask_ssh(ssh, spec)))
    with pytest.raises(UsageError, match="Bad configuration option: frobnicate") as refused:
        reader.begin([(HostSpec(name="a", user="me", port=7), "true"), (HostSpec(name="b"), "true")])
    assert refused.value.hint == "ssh -G -l me -p 7 -- a"


@pytest.mark.parametrize("message", ["unknown option -- G", "ssh: illegal option -- G", "Unknown argument '-G'", ""])
def test_a_program_without_that_option_is_no_error(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSH before 6.8, and dropbear."""
    ssh = program(tmp_path, f"echo {shlex.quote(message)} >&2; exit {255 if message else 0}")
    monkeypatch.setattr(ssh_config, "read_files", lambda spec: {"user": ["own"]})
    assert ask_ssh(ssh, HostSpec(name="x")) == {"user": ["own"]}


def test_an_ssh_that_hangs_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_config, "LIMIT", 0.3)
    with pytest.raises(ConfigError, match=r"a Match exec in ~/.ssh/config hangs") as refused:
        ask_ssh(program(tmp_path, "exec sleep 60"), HostSpec(name="x"))
    assert refused.value.fix == "ssh -G -- x"


@needs_ssh
def test_each_host_is_asked_for_once(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host a\n  User me\n")
    ssh = program(tmp_path, 'echo "$@" >> {folder}/log; exec {ssh} -F {folder}/config "$@"')
    config = SshConfig(lambda spec: ask_ssh(ssh, spec))
    for _ in range(3):
        assert config.host(HostSpec(name="a")).user == "me"
        assert config.host(HostSpec(name="a", user="you")).user == "you"
    assert (tmp_path / "log").read_text().splitlines() == ["-G -- a", "-G -l you -- a"]


@needs_ssh
def test_questions_are_expected_where_the_user_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ssh -G` prints `yes` for KbdInteractiveAuthentication also where nobody set it."""
    expected = {
        "": False,
        "KbdInteractiveAuthentication no\n": False,
        "PreferredAuthentications publickey,keyboard-interactive\n": True,
        "PreferredAuthentications publickey,keyboard-interactive\nBatchMode yes\n": False,
        "PreferredAuthentications keyboard-interactive\nKbdInteractiveAuthentication no\n": False,
        "ChallengeResponseAuthentication yes\n": True,
        "KbdInteractiveAuthentication yes\n": True,
    }
    include = f"Include {tmp_path}/config\nMatch all\nKbdInteractiveAuthentication no\n"
    monkeypatch.setattr(ssh_config, "_ASKS_ONLY_WHERE_SET", include)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    program(tmp_path, 'case $1 in -F) exec {ssh} "$@" ;; esac; exec {ssh} -F {folder}/config "$@"')
    for text, expects in expected.items():
        (tmp_path / "config").write_text(f"Host x\n{text}")
        assert SshConfig().expects_questions(HostSpec(name="x")) is expects, text


# ---- ours against OpenSSH's


def both(folder: Path, name: str = "x") -> tuple[SshHost | None, SshHost | None]:
    """What our own reading says, and what ssh says. None: refused."""
    answers: list[SshHost | None] = []
    spec = HostSpec(name=name)
    ways: list[Callable[[], Values]] = [
        lambda: read_files(spec, [folder / "config"]),
        lambda: ask_ssh(program(folder), spec),
    ]
    for read in ways:
        try:
            answers.append(host_of(spec, read()))
        except ConfigError:
            answers.append(None)
    return answers[0], answers[1]


def same(ours: SshHost, theirs: SshHost) -> None:
    def plain(host: SshHost) -> SshHost:
        # Which names of files ssh tries by default depends on its version.
        files = tuple(path for path in host.identity_files if not path.startswith(f"{HOME}/.ssh/id_"))
        return replace(host, identity_files=files, strict_host_keys={"true": "yes"}.get(*[host.strict_host_keys] * 2))

    assert plain(ours) == plain(theirs)


BUGS = {
    "comments": "Host x # my first node\n  HostName node1  # the address\n  User root # me\n  Port 22 # usual\n",
    "other comments": "Host y # the second, not x\n  Port 2299\nMatch originalhost x # first\n  HostName node1\n",
    "an agent of its own": "Host x\n  HostName node1\n  IdentityFile ~/.ssh/none\n  IdentityAgent ~/agent.sock\n",
    "an agent by a variable": "Host x\n  IdentityAgent $HOME\n",
    "proxies": 'Host x\n  ProxyCommand sh -c "echo HTTP/1.1 407; sleep 5"\nHost *\n  ProxyCommand sleep 60\n',
    "a tab behind Include": "Include\tINCLUDED\n",
    "spaces in paths": 'UserKnownHostsFile "~/x y" /z\nIdentityFile "/a b/c"\n',
}


@needs_ssh
@pytest.mark.parametrize("bug", BUGS)
def test_what_people_have(bug: str, tmp_path: Path) -> None:
    (tmp_path / "part").write_text("Host x\n  HostName node1\n")
    (tmp_path / "config").write_text(BUGS[bug].replace("INCLUDED", str(tmp_path / "part")))
    ours, theirs = both(tmp_path)
    assert ours is not None
    assert theirs is not None
    same(ours, theirs)


_VALUES = {
    "HostName": ["node1", "%h.lab", "10.0.0.1", "Foo", "a%%b"],
    "User": ["me", '"a b"', "'q'", "ro\\\\ot"],
    "Port": ["22", "2222", "ssh", "0", "99999", "007"],
    "IdentityFile": ["~/.ssh/a", "%d/b", "${HOME}/c", "none", '"/x y/key"', "/k/%r@%h-%n-%p-%u", "~/.ssh/a"],
    "IdentitiesOnly": ["yes", "no"],
    "IdentityAgent": ["none", "SSH_AUTH_SOCK", "$HOME", "~/agent.sock", "/x/%h"],
    "UserKnownHostsFile": ["~/.ssh/kh", "~/a ~/b", "none", "/dev/null", "/x/%h"],
    "GlobalKnownHostsFile": ["/etc/a /etc/b"],
    "StrictHostKeyChecking": ["yes", "no", "ask", "accept-new", "off"],
    "HostKeyAlias": ["alias"],
    "ProxyCommand": ["nc %h %p", 'sh -c "x # y"', "none", "nc %n %r %%"],
    "ProxyJump": ["none", "a", "a@b:22", "a,b"],
    "PreferredAuthentications": ["publickey,keyboard-interactive"],
    "BatchMode": ["yes", "no"],
    "AddressFamily": ["inet", "any"],
    "BindAddress": ["10.0.0.9"],
    "SendEnv": ["LANG LC_*"],
    "ServerAliveInterval": ["5"],
    "KnownHostsCommand": ["/bin/keys"],
    "Frobnicate": ["yes"],
    "Include": ["PART"],
}  # fmt: skip
_option = st.one_of(
    *(
        st.tuples(
            st.sampled_from([name, name.lower(), name.upper()]),
            st.sampled_from([" ", "\t", " = ", "=", "  ", "\t=\t"]),
            st.sampled_from(values),
        ).map("".join)
        for name, values in _VALUES.items()
    )
)
_pattern = st.sampled_from(["x", "x*", "?", "*", "!x", "y", "x.lab", '"x"', "!y", "X", "!*.lab", "x,y"])
_header = st.one_of(
    st.lists(_pattern, min_size=1, max_size=3).map(lambda words: "Host " + " ".join(words)),
    st.sampled_from(
        "Match all|Match host x|Match host node1|Match originalhost x,y|Match user me|Match !host y|Match host *,!x|"
        "match host=x|Match host x user root|Match localuser nobody|Match host x.lab|Match host foo|"
        "Match exec true|Match final all|Match tagged x|Match host|Host=x|Host\tx y|Match originalhost X".split("|")
    ),
)
_line = st.tuples(
    st.sampled_from(["", "  ", "\t"]),
    st.one_of(_option, _option, _option, _header),
    st.sampled_from(["", "", "", " # c", "#c", " ", "\t# Host y", ' "']),
).map("".join)
_file = st.lists(_line, min_size=1, max_size=9).map(lambda lines: "\n".join(lines) + "\n")


@needs_ssh
def test_our_own_reading_says_what_ssh_says_or_refuses(tmp_path_factory: pytest.TempPathFactory) -> None:
    """300 generated configurations. Where ssh refuses, so do we; where we answer, ssh says the same."""
    folder = tmp_path_factory.mktemp("configurations")
    answered, seen = [0], [0]

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(text=_file, part=_file)
    def compare(text: str, part: str) -> None:
        (folder / "part").write_text(part.replace("PART", f"{folder}/nothing"))
        (folder / "config").write_text(text.replace("PART", f"{folder}/part"))
        ours, theirs = both(folder)
        seen[0] += 1
        if ours is not None:
            assert theirs is not None, "ssh refuses"
            same(ours, theirs)
            answered[0] += 1

    compare()
    assert seen[0] >= 300
    assert answered[0] > 60, "nearly all were refused"


# ---- what only tokens, jumps and the home directory say


def test_tokens_and_variables_have_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/k")
    (tmp_path / "config").write_text(
        "HostName %h.lab\nUser me\nPort 7\nIdentityFile ${KEYS}/%n/%h/%p/%r/%i/%%\nProxyCommand a ${KEYS} %h\n"
    )
    host = own(tmp_path)
    assert host.identity_files == (f"/k/x/x.lab/7/me/{os.getuid()}/%",)
    assert host.proxy_command == "a ${KEYS} x.lab"  # its shell's to read
    monkeypatch.delenv("KEYS")
    with pytest.raises(ConfigError, match="KEYS"):
        own(tmp_path)


@pytest.mark.parametrize(
    ("jumps", "before", "last"),
    [
        ("a", "", HostSpec(name="a")),
        ("ssh://me@a:7/", "", HostSpec(name="a", user="me", port=7)),
        ("a,b, you@c", "a,b", HostSpec(name="c", user="you")),
        ("a b", "", None),
    ],
)
def test_the_last_jump_host(jumps: str, before: str, last: HostSpec | None) -> None:
    assert last_jump(jumps) == (before, last)


@needs_ssh
def test_a_dry_run_asks_nothing_of_hosts_that_a_file_names(tmp_path: Path) -> None:
    """`ssh -G` runs `Match exec`: only a launch that connects to the host may ask it."""
    program(tmp_path, f"echo asked >> {tmp_path}/asked; exit 255")
    (tmp_path / "ddpkit.toml").write_text('backend = "ssh"\nhosts = ["node1", "node2"]\n')
    (tmp_path / "train.py").write_text("")
    env = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    argv = [sys.executable, "-m", "ddpkit", "launch", "-n", "1", "--dry-run", "--", "train.py"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "no node was queried" in done.stderr
    assert not (tmp_path / "asked").exists()
    done = run_to_end([*argv[:-2], "--survey", *argv[-2:]], cwd=tmp_path, env=env)
    assert done.returncode != 0
    assert (tmp_path / "asked").exists()
