"""`ddpkit.launch(roles={...})`: several programs as one run of this program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import wait_until

import ddpkit

SERVES = """
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["DDPKIT_REPLICA"].encode())
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
ASKS = """
import sys, time, urllib.request
print(*(urllib.request.urlopen(url).read().decode() for url in sys.argv[1].split(",")), flush=True)
time.sleep(600 * (sys.argv[2] == "wait"))
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ddpkit.Run]:
    (tmp_path / "serves.py").write_text(SERVES)
    (tmp_path / "asks.py").write_text(ASKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DDPKIT_GPUS", "0")

    def run(end: str, **settings: Any) -> ddpkit.Run:
        infer = ddpkit.Role("serves.py {port}", nnodes=2, ready="http:/", restart=1)
        train = ddpkit.Role(["asks.py", "{infer.urls}", end], after=["infer"], ends_run=True, nproc_per_node=2)
        return ddpkit.launch(roles={"infer": infer, "train": train}, backend="local", **settings)

    return run


def test_a_run_of_roles(start: Callable[..., ddpkit.Run]) -> None:
    run = start("0")
    assert run.wait(60, check=True).ok
    assert run.state is ddpkit.RunState.DONE
    assert run.outcome is not None
    assert run.outcome.exit_code == 0
    assert {name: [each.words for each in of_role] for name, of_role in run.roles.items()} == {
        "infer": ["stopped", "stopped"],
        "train": ["done"],
    }
    lines = [line for line in run.logs(role="train") if line.rank is not None]
    assert [(line.role, line.text) for line in lines] == [("train.0", "0 1")] * 2
    assert str(lines[0]).startswith("[train ")
    train = run.roles["train"][0].run
    assert train is not None
    assert train.world_size == 2
    assert train.outcome is not None
    assert train.outcome.ok


def test_a_role_that_fails_fails_the_run(start: Callable[..., ddpkit.Run]) -> None:
    with pytest.raises(ddpkit.RunFailedError, match=r"train\.0") as failed:
        start("7").wait(60, check=True)
    assert failed.value.outcome.exit_code == 7


def test_one_replica_is_stopped_and_then_the_run(start: Callable[..., ddpkit.Run]) -> None:
    with start("wait") as run:
        wait_until(lambda: sum(line.text == "0 1" for line in run.logs(role="train")) == 2)  # nobody asks any more
        server = run.roles["infer"][1].run
        assert server is not None
        assert server.stop().state is ddpkit.RunState.STOPPED
        wait_until(lambda: run.roles["infer"][1].words == "ready, restarted 1")
        assert run.roles["infer"][0].restarts == 0
        assert run.state is ddpkit.RunState.RUNNING
        assert run.stop().state is ddpkit.RunState.STOPPED


def test_another_program_finds_and_stops_it(start: Callable[..., ddpkit.Run]) -> None:
    run = start("wait")
    wait_until(lambda: sum(line.text == "0 1" for line in run.logs(role="train")) == 2)
    found = ddpkit.open_run(run.run_id)
    assert found.roles["infer"][0].words == "ready"
    assert found.stop().state is ddpkit.RunState.STOPPED
    assert run.wait(60).exit_code == 143


@pytest.mark.parametrize(
    ("roles", "error"),
    [
        ({"train": ddpkit.Role("x.py", ends_run=True, restart="two")}, r"roles\.train\.restart = 'two'"),  # type: ignore[arg-type]
        ({"train": ddpkit.Role("x.py", ends_run=True, restrt=1)}, r"roles\.train\.restrt: no such setting"),  # type: ignore[call-arg]
        ({"train": ddpkit.Role("x.py", ends_run=True, hosts=["a"])}, r"roles\.train\.hosts: it holds for the whole"),
        ({"train": ddpkit.Role("x.py", ends_run=True, grace="soon")}, "grace"),
        ({"train": {}}, "train is {}, and not a ddpkit.Role"),
        ({}, "there are no roles"),
        (3, "roles=3 is not a dict"),
    ],
)
def test_a_wrong_role_names_the_keyword(
    roles: Any, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ddpkit.UsageError, match=error):
        ddpkit.launch(roles=roles, backend="local")
    assert list(tmp_path.iterdir()) == []


def test_a_script_and_roles_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ddpkit.UsageError, match="exclude each other"):
        ddpkit.launch("train.py", roles={"train": ddpkit.Role("x.py", ends_run=True)})
