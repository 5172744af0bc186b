"""Messages of ssh at a failed login, and the cause and fix that a launch reports."""

from __future__ import annotations

import pytest

from ddpkit.errors import UsageError
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.ssh.pdsh import PdshStream, ssh_options
from ddpkit.transports.ssh.program import QUESTION_LENGTH, explain_login, no_login, printable, question_of_host

NODE = HostSpec(name="node1", user="me", port=2222)


@pytest.mark.parametrize(
    ("message", "what", "fix"),
    [
        ("me@node1: Permission denied (publickey).", "accepts none of the keys", "ssh-copy-id -p 2222 me@node1"),
        (
            "you have no active jobs on this node\nConnection closed by 10.0.0.1 port 22",
            "while one of your jobs",
            "salloc",
        ),
        ("me@node1: Permission denied (publickey,keyboard-interactive).", "none of the keys", "ssh-copy-id"),
        ("me@node1: Permission denied (gssapi-with-mic,publickey,password).", "none of the keys", "ssh-copy-id"),
        ("me@node1: Permission denied (keyboard-interactive).", "requires a second factor", "from a terminal"),
        ("me@node1: Permission denied (password).", "or a password, and the answer", "launch from a terminal"),
        ("me@node1: Permission denied (hostbased,keyboard-interactive).", "requires a second factor", "ssh -p 2222"),
        ("Host key verification failed.", "host key is not known", "compare the fingerprint: ssh -p 2222 me@node1"),
        (
            "ssh: Could not resolve hostname node1: Name or service not known",
            "does not resolve on this machine",
            "correct the name, or add node1 to /etc/hosts on this machine",
        ),
        ("ssh: connect to host node1 port 2222: Connection refused", "connection refused", "systemctl status ssh"),
        ("ssh: connect to host node1 port 2222: Connection timed out", "no answer in time", "ping node1"),
        ("kex_exchange_identification: Connection closed by remote host", "before the login", "maxstartups"),
        ("Connection closed by UNKNOWN port 65535", "before the login", "maxstartups"),
    ],
)
def test_a_message_of_ssh_has_a_cause_and_a_fix(message: str, what: str, fix: str) -> None:
    refused = explain_login(["Welcome", message], NODE)
    assert refused is not None
    assert what in refused.what
    assert fix in refused.fix


def test_a_message_of_no_known_kind_is_quoted() -> None:
    assert explain_login(["something new"], NODE) is None
    refused = no_login(["something new"], NODE)
    assert (refused.what, refused.fix) == (
        "ssh could not log in; its output: something new",
        "ssh -p 2222 me@node1 true",
    )


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("Code: ", "Code:"),
        ("Choose:\n 1. Push\n 2. Phone\n\nPasscode: ", "Choose:\n1. Push\n2. Phone\n\nPasscode:"),
        ("\x1b]0;title\x07Code\x1b[31m:", "]0;titleCode[31m:"),
        ("x" * 1000, "x" * QUESTION_LENGTH),
    ],
)
def test_a_question_is_shown_line_by_line_without_control_characters(question: str, shown: str) -> None:
    assert printable(question) == shown


@pytest.mark.parametrize(
    ("question", "shown"),
    [
        ("Code: ", "node1 asks: Code:"),
        ("ok\npassphrase of /root/.ssh/id_rsa: ", "node1 asks: ok\nnode1: passphrase of /root/.ssh/id_rsa:"),
        ("x" + " " * 70 + "passphrase of y: ", "node1 asks: x\nnode1: passphrase of y:"),
        ("-" * 68 + "passphrase of x: ", "node1 asks: " + "-" * 67 + "\nnode1: -passphrase of x:"),
        ("\u4e2d" * 40, "node1 asks: " + "\u4e2d" * 33 + "\nnode1: " + "\u4e2d" * 7),
    ],
)
def test_each_row_of_a_question_has_its_host(question: str, shown: str) -> None:
    """A node asked for the passphrase of a key in the words of ddpkit, on the second row."""
    assert question_of_host("node1", question, 80) == shown


def test_pdsh_has_no_terminal_for_an_answer() -> None:
    stream = PdshStream("/nowhere/node1", NODE)
    stream.end("", 255)
    refused = stream.refusal(["me@node1: Permission denied (keyboard-interactive)."])
    assert refused is not None
    assert refused.fix == "launch from a terminal with -b ssh -o transport=openssh"


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, []),
        ({"PDSH_SSH_ARGS_APPEND": "-o X=y  -i ~/key -p 2222"}, ["-oX=y", "-i~/key", "-p2222"]),
        ({"PDSH_SSH_ARGS": "-2 -a -x -l%u %h"}, ["-2", "-a", "-x", "-lme"]),
        ({"PDSH_SSH_ARGS": "-q", "PDSH_SSH_ARGS_APPEND": "-oA=%h -xv"}, ["-oA=node1", "-x", "-v", "-q"]),
    ],
)
def test_the_users_options_for_the_ssh_of_pdsh(environ: dict[str, str], options: list[str]) -> None:
    """In pdsh's order: what PDSH_SSH_ARGS_APPEND says comes first."""
    assert ssh_options(environ, NODE) == options


@pytest.mark.parametrize("words", ["-tt", "-xn", "-N", "-W a:1", "-p", "-k=1 other", "-Z"])
@pytest.mark.parametrize("name", ["PDSH_SSH_ARGS", "PDSH_SSH_ARGS_APPEND"])
def test_options_with_which_ssh_would_start_no_supervisor(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: ") as refused:
        ssh_options({name: words}, NODE)
    assert refused.value.hint == f"unset {name}"
