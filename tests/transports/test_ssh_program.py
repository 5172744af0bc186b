"""Messages of ssh at a failed login, and the cause and fix that a launch reports."""

from __future__ import annotations

import pytest

from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.questions import QUESTION_LENGTH, printable
from ddpkit.transports.ssh_program import explain_login, no_login

NODE = HostSpec(name="node1", user="me", port=2222)


@pytest.mark.parametrize(
    ("message", "what", "fix"),
    [
        ("me@node1: Permission denied (publickey).", "accepts none of the keys", "ssh-copy-id -p 2222 me@node1"),
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
