"""Errors of the Python interface show no secret, whatever was mistyped: they stand in logs of others."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import ddpkit
from ddpkit.errors import hide_in_text
from ddpkit.transports import hosts

WORD = "AbCdEfGh" * 4
TOKEN = "hf_" + WORD
URL = f"https://me:{WORD}@node1"
CALLS: dict[str, Callable[[], object]] = {
    "a backend": lambda: ddpkit.launch("ok.py", backend=URL),
    "a script": lambda: ddpkit.launch(f"{URL}/ok.py"),
    "a host": lambda: ddpkit.launch("ok.py", backend="ssh", hosts=[URL]),
    "hosts": lambda: ddpkit.launch("ok.py", backend="ssh", hosts=[f"me:{WORD}@node1 node2"]),
    "a number": lambda: ddpkit.launch("ok.py", nproc_per_node=TOKEN),
    "a list": lambda: ddpkit.launch("ok.py", env={"DB": [WORD]}),  # type: ignore[dict-item]
    "a rank": lambda: ddpkit.launch("ok.py", env={"RANK": WORD}),
    "an option": lambda: ddpkit.launch("ok.py", options={TOKEN: 1}),
    "a value of an option": lambda: ddpkit.launch("ok.py", backend="ssh", options={"starter": TOKEN}),
    "a profile": lambda: ddpkit.plan("ok.py", profile=TOKEN),
    "a run": lambda: ddpkit.open_run(f"token={WORD}"),
    "a launcher": lambda: ddpkit.launch("torchrun", ["ok.py", f"--api-key={WORD}", "--url", URL]),
    "a test": lambda: ddpkit.test(backend=TOKEN),
    "a file": ddpkit.launch,
}


@pytest.mark.parametrize("what", CALLS)
def test_no_error_shows_a_secret(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.py").touch()
    if what == "a file":
        (tmp_path / "ddpkit.toml").write_text(f"nnodes = '{TOKEN}'\n")
    with pytest.raises(ddpkit.DdpkitError) as caught:
        CALLS[what]()
    error = caught.value
    again = pickle.loads(pickle.dumps(error))
    shown = [str(error), repr(error), error.message, error.hint, again, *traceback.format_exception_only(error)]
    shown += [repr(error.__cause__), repr(error.__context__)]
    assert not [text for text in shown if WORD in str(text)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"hint: ls /home/https:/me:{WORD}@node1", "hint: ls /home/https://***@node1"),
        (f"DB_PASSWORD={WORD}, and 'api-key={WORD}'", "DB_PASSWORD=***, and 'api-key=***'"),
        ("add --env HF_TOKEN, or --max-tokens 4096", "add --env HF_TOKEN, or --max-tokens 4096"),
        ("--token=none --max-token=409600000000 HF_TOKEN=own", "--token=none --max-token=409600000000 HF_TOKEN=own"),
        ("LD_LIBRARY_PATH=/a:/b:/home/me@work", "LD_LIBRARY_PATH=/a:/b:/home/me@work"),
        ("it asks for a password: ssh-copy-id me@node1", "it asks for a password: ssh-copy-id me@node1"),
        ("user@node1:2222, [fe80::1]:2222 or @group", "user@node1:2222, [fe80::1]:2222 or @group"),
    ],
)
def test_what_has_the_form_of_a_secret_is_masked_and_nothing_else(text: str, shown: str) -> None:
    assert hide_in_text(text) == shown


@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028"])
def test_a_value_in_an_error_writes_no_line_of_ddpkits(end: str) -> None:
    error = ddpkit.UsageError(f"a{end}hint: evil | sh: no{end}ddpkit: error: x", f"b{end}ddpkit: done")
    assert error.message == f"a{end}> hint: evil | sh: no{end}> ddpkit: error: x"
    assert error.hint == f"b{end}> ddpkit: done"
    error.rephrase(error.message, error.hint)
    assert error.message.count("> ") == 2


@pytest.mark.parametrize("host", ["a\nhint: evil", "me@a\n    hint: evil", "a\x1b[2J", "@g\nhint: evil"])
def test_a_host_of_a_file_writes_no_line(host: str, tmp_path: Path) -> None:
    with pytest.raises(ddpkit.UsageError) as caught:
        hosts.parse([host], {}, {})
    assert len(str(caught.value).splitlines()) == 1
    assert "is not the name of a host" in caught.value.message
