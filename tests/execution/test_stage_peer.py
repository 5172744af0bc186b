"""Copies from node to node: what arrives, what is refused, and whose turn it is."""

from __future__ import annotations

import os
import socket
import threading
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ddpkit.execution.stage_sources import FROM_LAUNCHER, FROM_NODE, CopySources, ServedCopy
from ddpkit.node import stage, stage_peer

NAME = "project-a"
SIZES = (0, 1, stage_peer.PIECE - 1, stage_peer.PIECE, 2 * stage_peer.PIECE + 5)


class Copies:
    """A complete copy in `one/`, which another process can fetch into `two/`."""

    def __init__(self, folder: Path) -> None:
        self.source, self.one, self.two = folder / "source", folder / "one", folder / "two"
        (self.source / "closed").mkdir(parents=True)
        for size in SIZES:
            (self.source / f"{size}.bin").write_bytes(os.urandom(size))
        (self.source / "closed/new\nline").write_text("text")
        (self.source / "run.sh").write_text("#!/bin/sh")
        (self.source / "run.sh").chmod(0o755)
        (self.source / "link").symlink_to("closed/new\nline")
        self.names = [str(path.relative_to(self.source)) for path in self.source.rglob("*")]
        self.packed = b64encode(zlib.compress("\0".join(self.names).encode())).decode()
        (self.source / "closed").chmod(0o555)
        assert self.look(self.one)["state"] == "absent"
        stage.copy(stage.Directory(str(self.source), True), str(self.one / NAME), self.names, [], True)
        assert self.finish(self.one) == ""

    def look(self, root: Path, name: str = NAME) -> dict[str, Any]:
        return stage.look(str(root), name, [1, 1], False)

    def finish(self, root: Path, name: str = NAME) -> str:
        wanted = stage.digest(str(self.source), self.names, True)
        return stage.finish(str(root), name, self.packed, wanted, True, "")["problem"]

    def fetch(self, port: int, key: str, name: str = NAME, bases: tuple[str, ...] = ()) -> dict[str, Any]:
        self.look(self.two, name)
        return stage_peer.fetch(str(self.two), name, self.packed, list(bases), True, ["127.0.0.1"], port, key)


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    found = Copies(tmp_path)
    yield found
    stage.release(str(found.two), NAME)  # of a copy that did not become complete


@pytest.fixture
def served(copies: Copies) -> Iterator[dict[str, Any]]:
    yield stage_peer.serve(str(copies.one), NAME, True, fresh=False)
    stage_peer.close()


def test_a_copy_is_fetched_whole_and_then_its_changes_alone(copies: Copies, served: dict[str, Any]) -> None:
    whole = sum(SIZES) + len("text") + len("#!/bin/sh")
    assert copies.fetch(served["port"], served["key"]) == {"size": whole, "problem": ""}
    assert copies.finish(copies.two) == ""
    for name in copies.names:
        one, two = (os.lstat(root / NAME / name) for root in (copies.one, copies.two))
        assert one.st_mode == two.st_mode
        assert two.st_nlink == one.st_nlink
        if not (copies.two / NAME / name).is_dir() and name != "link":
            assert one.st_mtime_ns == two.st_mtime_ns
    assert copies.fetch(served["port"], served["key"], "project-b", (NAME,)) == {"size": 0, "problem": ""}
    assert copies.finish(copies.two, "project-b") == ""
    assert (copies.two / "project-b/run.sh").stat().st_nlink == 2
    (copies.two / NAME / "run.sh").write_text("other")  # also that of project-b
    (copies.two / "project-b/0.bin").unlink()
    assert copies.fetch(served["port"], served["key"], "project-b") == {"size": len("#!/bin/sh"), "problem": ""}
    assert copies.finish(copies.two, "project-b") == ""


def test_a_copy_that_changed_on_its_node_is_not_served(copies: Copies) -> None:
    (copies.one / NAME / "run.sh").write_text("other")
    assert "changed on this node" in stage_peer.serve(str(copies.one), NAME, True, fresh=False)["problem"]
    assert copies.look(copies.one)["state"] == "absent"
    stage.release(str(copies.one), NAME)


def test_nobody_without_the_key_gets_or_gives_a_file(copies: Copies, served: dict[str, Any]) -> None:
    refused = copies.fetch(served["port"], "00" * 32)
    assert "the connection ended" in refused["problem"]
    assert list((copies.two / NAME).iterdir()) == []
    stage_peer.close()
    assert "Connection refused" in copies.fetch(served["port"], served["key"])["problem"]


def test_an_altered_byte_is_found(copies: Copies, served: dict[str, Any]) -> None:
    """Between the nodes, something alters one byte of the files."""
    with socket.create_server(("127.0.0.1", 0)) as accepting:

        def relay(source: socket.socket, target: socket.socket, flip: int) -> None:
            passed = 0
            with suppress(OSError):
                while data := bytearray(source.recv(1 << 16)):
                    if passed <= flip < passed + len(data):
                        data[flip - passed] ^= 1
                    passed += len(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_RDWR)

        def between() -> None:
            with accepting.accept()[0] as client, socket.create_connection(("127.0.0.1", served["port"])) as server:
                back = threading.Thread(target=relay, args=(client, server, -1), daemon=True)
                back.start()
                relay(server, client, 1 << 20)
                back.join()

        both = threading.Thread(target=between, daemon=True)
        both.start()
        fetched = copies.fetch(accepting.getsockname()[1], served["key"])
        both.join()
    assert "a message is not of the other node" in fetched["problem"]
    assert copies.finish(copies.two) != ""


def test_a_node_that_says_nothing_holds_up_nobody(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_peer, "SILENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as accepting:
        assert "timed out" in copies.fetch(accepting.getsockname()[1], "00" * 32)["problem"]


# ---- turns


def served_by(label: str) -> ServedCopy:
    return ServedCopy(label=label, addresses=(label,), port=1, key="k", digest="d")


def test_nodes_come_before_the_launcher() -> None:
    sources = CopySources(8)
    with sources.turn("p", "a") as first, sources.turn("p", "b") as second:
        assert (first, second) == (None, None)
        sources.add("p", served_by("a"))
        with sources.turn("p", "c") as third, sources.turn("p", "d") as fourth:
            assert [each.label for each in (third, fourth) if each] == ["a", "a"]
    with sources.turn("p", "e") as third, sources.turn("p", "f") as fourth, sources.turn("q", "e") as other:
        assert third is not None
        assert fourth is not None
        assert other is None  # nobody serves that one
    assert (FROM_LAUNCHER, FROM_NODE) == (2, 2)


def test_a_node_waits_until_another_one_has_the_copy() -> None:
    sources, got = CopySources(8), []
    sources.expect(3)
    with sources.turn("p", "a"), sources.turn("p", "b"):
        assert not sources.wanted("p", "a", copied=False)  # it had the copy before, and nobody waits

        def take() -> None:
            with sources.turn("p", "c") as served:
                got.append(served)

        waiting = threading.Thread(target=take, daemon=True)
        waiting.start()
        while not sources.wanted("p", "a", copied=False):
            waiting.join(0.01)
        sources.add("p", served_by("a"))
        waiting.join()
    assert [each.label for each in got if each] == ["a"]
    assert not sources.wanted("p", "c", copied=True)  # all three have it


def test_a_copied_node_serves_those_that_are_yet_to_be_asked() -> None:
    sources = CopySources(8)
    sources.expect(2)
    with sources.turn("p", "a"):
        assert sources.wanted("p", "a", copied=True)
        assert not sources.wanted("p", "b", copied=False)
        assert not sources.wanted("p", "a", copied=True)


def test_after_two_nodes_that_are_not_reached_the_launcher_sends_to_all() -> None:
    sources = CopySources(8)
    for label in ("a", "b", "c"):
        sources.add("p", served_by(label))
    for label in ("d", "e"):
        with sources.turn("p", label) as served:
            assert served is not None
            sources.drop(served.label)
    turns = [sources.turn("p", str(number)) for number in range(8)]
    assert [turn.__enter__() for turn in turns] == [None] * 8
    assert not sources.wanted("p", "d", copied=True)
    for turn in turns:
        turn.__exit__(None, None, None)
