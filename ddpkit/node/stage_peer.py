"""A local copy on the way from one node to another, over TCP: `serve` on the node that has it, `fetch` on the next.

Standard library only, Python 3.8 and later. Both sides know a key, which comes over the launcher's own connections.
Each sends 16 random bytes, then messages: 4 bytes of length, an HMAC-SHA256 under the key, and the data. The HMAC
covers both random beginnings, the direction and the number of the message. Files are authenticated, and not encrypted.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import threading
import zlib

from ddpkit.node.stage import READERS, Directory, copy, is_whole, marker, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CONNECT_TIME = 5.0  # seconds
SILENCE = 20.0  # seconds: a node that dies while it serves holds up nobody for longer
PREPARE_TIME = 300.0  # seconds: a node that fetches first looks at the copies that it has
PIECE = 1 << 20  # bytes of a message
LIST_LIMIT = 1 << 26  # bytes of a list of files
_served: list[Server] = []


class Wire:
    """An authenticated connection. `side` is 0 on the node that serves. All methods raise OSError."""

    def __init__(self, connection: socket.socket, key: str, side: int) -> None:
        self._connection, self._key, self._side = connection, bytes.fromhex(key), side
        self._numbers = [0, 0]
        connection.settimeout(SILENCE)
        own = os.urandom(16)
        connection.sendall(own)
        both = [own, self._exactly(16)]
        self._session = b"".join(both if side == 0 else both[::-1])

    def send(self, data: bytes) -> None:
        """Send data of any length: messages of `PIECE` bytes, then a shorter one."""
        view = memoryview(data)
        for start in range(0, len(data) + 1, PIECE):
            piece = bytes(view[start : start + PIECE])
            self._connection.sendall(len(piece).to_bytes(4, "big") + self._mac(self._side, piece) + piece)

    def receive(self, limit: int) -> bytes:
        """Receive what `send` sent, `limit` bytes at most."""
        pieces, size, last = [], 0, PIECE
        while last == PIECE:
            head = self._exactly(36)
            last = int.from_bytes(head[:4], "big")
            size += last
            if last > PIECE or size > limit:
                raise OSError(0, "a message is too long")
            piece = self._exactly(last)
            if not hmac.compare_digest(self._mac(1 - self._side, piece), head[4:]):
                raise OSError(0, "a message is not of the other node")
            pieces.append(piece)
        return b"".join(pieces)

    def _mac(self, side: int, data: bytes) -> bytes:
        self._numbers[side] += 1
        head = self._session + bytes([side]) + self._numbers[side].to_bytes(8, "big")
        return hmac.new(self._key, head + data, "sha256").digest()

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._connection.recv(size - len(data))
            if not more:
                raise OSError(0, "the connection ended")
            data += more
        return data


class Server:
    """Serves one copy until `close`: a thread for each connection, which has to know the key."""

    def __init__(self, place: str, names: list[str], content: bool) -> None:
        self.key = os.urandom(32).hex()
        self._source, self._names = Directory(place, content), sorted(names)
        v6 = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if v6 else socket.AF_INET
        self._socket = socket.create_server(("", 0), family=family, dualstack_ipv6=v6)
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        from concurrent.futures import ThreadPoolExecutor

        try:
            with connection:
                wire = Wire(connection, self.key, 0)
                wire.receive(0)
                connection.settimeout(PREPARE_TIME)
                with ThreadPoolExecutor(READERS) as pool:
                    described = self._source.describe(self._names, pool)
                wire.send(zlib.compress(json.dumps(described).encode()))
                for index in json.loads(wire.receive(LIST_LIMIT)):
                    self._send_file(wire, os.path.join(self._source.root, self._names[index]))
        except (OSError, ValueError, IndexError):
            pass  # the other side reports it

    def _send_file(self, wire: Wire, path: str) -> None:
        """Send the time and the bytes of a file; a message without bytes ends it."""
        with open(path, "rb") as file:
            wire.send(str(os.fstat(file.fileno()).st_mtime_ns).encode())
            data = b"-"
            while data:
                data = file.read(PIECE - 1)
                wire.send(data)


class Peer:
    """The copy on another node, for `copy`."""

    def __init__(self, wire: Wire, names: list[str]) -> None:
        self._wire = wire
        self._numbers = {name: index for index, name in enumerate(sorted(names))}
        self._modes: dict[str, int] = {}

    def describe(self, names: list[str], _: Any) -> list[list[str]]:
        self._wire.send(b"")
        described: list[list[str]] = json.loads(zlib.decompress(self._wire.receive(LIST_LIMIT)))
        self._modes = {name: int(each[1], 8) for name, each in zip(names, described) if each[0] == "file"}
        return described

    def fetch(self, names: list[str], place: str, _: Any) -> int:
        self._wire.send(json.dumps([self._numbers[name] for name in names]).encode())
        total = 0
        for name in names:
            path = os.path.join(place, name)
            when = int(self._wire.receive(PIECE))
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(fd, "wb") as file:
                while True:
                    data = self._wire.receive(PIECE)
                    if not data:
                        break
                    file.write(data)
                    total += len(data)
            os.chmod(path, self._modes[name])
            os.utime(path, ns=(when, when))
        return total


def serve(root: str, name: str, content: bool, fresh: bool) -> dict[str, Any]:
    """Serve a complete copy. Returns `port`, `key`, `addresses` of this node, and `digest` (see `stage.finish`).

    `fresh`: this launch verified all files. A copy whose files changed is a `problem`, and is no longer complete.
    """
    answer = {"problem": "", "addresses": [], "port": 0, "key": "", "digest": ""}
    if not fresh and not is_whole(root, name, quick=False):
        os.unlink(marker(root, name))
        return {**answer, "problem": "files of %s changed on this node" % os.path.join(root, name)}
    with open(marker(root, name)) as file:
        listed = json.load(file)
    server = Server(os.path.join(root, name), listed["names"], content)
    _served.append(server)
    # The address that the launcher reached is one that other nodes most likely reach as well.
    addresses = [*os.environ.get("SSH_CONNECTION", "").split()[2:3], os.uname().nodename]
    return {**answer, "port": server.port, "key": server.key, "addresses": addresses, "digest": listed["digest"]}


def fetch(
    root: str, name: str, names: str, bases: list[str], content: bool, addresses: list[str], port: int, key: str
) -> dict[str, Any]:
    """Fetch a copy from a node that serves it. Returns `size` in bytes, and `problem`: in words, or empty."""
    known = [os.path.join(root, base) for base in bases]
    listed = unpack(names)
    problem = "it has no address"
    for address in addresses:
        try:
            connection = socket.create_connection((address, port), CONNECT_TIME)
        except OSError as error:
            problem = "no connection to %s port %d: %s" % (address, port, error.strerror or error)
            continue
        try:
            with connection:
                peer = Peer(Wire(connection, key, 1), listed)
                return {"size": copy(peer, os.path.join(root, name), listed, known, content), "problem": ""}
        except (OSError, ValueError, KeyError) as error:
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            return {"size": 0, "problem": "%s port %d: %s" % (address, port, words)}
    return {"size": 0, "problem": problem}


def close() -> None:
    """End what is served: the run begins."""
    while _served:
        _served.pop().close()
