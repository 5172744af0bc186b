"""Carries TCP connections over one pair of pipes: `ddpkit forward` has one end here, and one where a rank runs.

A message is a line, because srun passes on whole lines: the number of a connection, a space, and one of these.

    BASE64    bytes. The first message of a connection, which is empty, opens it; a later empty one: no more comes
    =COUNT    so many bytes of the other end have been taken: it reads no further than ROOM ahead
    -         the connection is gone, in both directions

Both ends end with the pipes. A port of a host is open to all of its users: here a connection is taken from this user
alone, and there nothing is carried to another user's server. Who listens can change at any moment, so that the
connection itself is looked at (`takers_of`), after it is made and before a byte is sent.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
from binascii import Error, a2b_base64, b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

READY = b"ready\n"
PIECE = 3 << 14  # bytes that are read at once
ROOM = 1 << 22  # bytes of one connection on their way


LISTENS, OPEN, OPENS = "0A", "01", "03"  # states of a socket in /proc/net/tcp
IN_QUEUE = "0"  # the inode of a connection that nobody has taken, or of one that its program has closed


def users_of(port: int, other: int = 0) -> set[int] | None:
    """Return the users of TCP sockets with a local port: of those that listen, or of the one connected to `other`.

    None: this system does not say.
    """
    rows = _sockets_at(port)
    if rows is None:
        return None
    # A socket that its program has closed already has no inode, and user 0 whoever it was.
    chosen = [row for row in rows if (row[1] == other if other else row[2] == LISTENS)]
    return {user for user, _, _, inode in chosen if inode != IN_QUEUE}


def takers_of(connection: socket.socket) -> set[int] | None:
    """Return the users who get what is sent over a connection to a port of this host.

    That is the user whose program has taken it. Until then it is in the queue of those who listen, with whom it would
    end. Empty: it is over. None: its other end is elsewhere, or this system does not say.
    """
    try:
        here, there = connection.getsockname()[1], connection.getpeername()[1]
    except OSError:
        return set()
    rows = _sockets_at(there)
    if rows is None:
        return None
    ends = [row for row in rows if row[1] == here and row[2] != LISTENS]
    found = {user for user, _, _, inode in ends if inode != IN_QUEUE}
    if any(state in (OPEN, OPENS) and inode == IN_QUEUE for _, _, state, inode in ends):
        found |= {user for user, _, state, _ in rows if state == LISTENS}
    if ends:
        return found
    number = getattr(socket, "TCP_INFO", None)  # of Linux
    is_open = number is None or connection.getsockopt(socket.IPPROTO_TCP, number, 1) == b"\1"
    return None if is_open else set()  # the kernel hands it on, as to a container


def _sockets_at(port: int) -> list[tuple[int, int, str, str]] | None:
    """TCP sockets with a local port: user, remote port, state, inode. None: this system does not say."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/net/" + name, encoding="ascii") as file:
                rows = [line.split() for line in file.read().splitlines()[1:]]
        except OSError:
            if name == "tcp":
                return None
            continue
        for row in rows:
            local, remote = (int(row[column].rpartition(":")[2], 16) for column in (1, 2))
            if local == port:
                found.append((int(row[7]), remote, row[3], row[9]))
    return found


def _is_own(end: socket.socket) -> bool:
    """Tell whether the program at the other end of a connection is this user's."""
    try:
        users = users_of(end.getpeername()[1], end.getsockname()[1])
    except OSError:
        return False  # it is gone
    return users is None or users == {os.geteuid()}


class Relay:
    """One end. `source`, `sink`: the pipes to the other one."""

    def __init__(self, source: int, sink: int, connect: Callable[[], socket.socket] | None = None) -> None:
        self._source, self._sink, self._connect = source, sink, connect
        self._selector = selectors.DefaultSelector()
        self._received, self._to_sink = b"", bytearray()
        self._sockets: dict[int, socket.socket] = {}
        self._waiting: dict[int, bytearray] = {}  # bytes for each socket
        self._not_taken: dict[int, int] = {}  # bytes of each that the other end has not taken yet
        self._ended: dict[int, set[str]] = {}  # "here": the socket sends no more; "there": nothing more comes for it
        self._last_number = 0  # of the connection that was opened last

    def run(self, listener: socket.socket | None = None) -> None:
        """Carry until the other end is gone. Closes the listener."""
        try:
            self._run(listener)
        except BrokenPipeError:
            pass  # it is gone while bytes wait for it
        finally:
            for end in filter(None, [listener, *self._sockets.values()]):
                end.close()

    def _run(self, listener: socket.socket | None) -> None:
        os.set_blocking(self._sink, False)
        if listener is not None:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
        while True:
            self._watch_what_can_go_on()
            for key, events in self._selector.select():
                if key.fd == self._source and not self._take(os.read(self._source, PIECE)):
                    return
                if key.fd == self._sink:
                    self._flush()
                elif key.fileobj is listener and listener is not None:
                    end = listener.accept()[0]
                    if not _is_own(end):
                        end.close()
                        continue
                    self._last_number += 1
                    self._add(self._last_number, end)
                    self._send(self._last_number, b"")
                elif key.data is not None:
                    self._on_socket_ready(key.data, events)

    def _watch_what_can_go_on(self) -> None:
        """Watch what can go on. A connection whose other end takes no bytes is not read, and holds up no other one."""
        self._watch(self._source, selectors.EVENT_READ)
        self._watch(self._sink, selectors.EVENT_WRITE if self._to_sink else 0)
        for number, end in self._sockets.items():
            reads = "here" not in self._ended[number] and self._not_taken[number] < ROOM
            events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self._waiting[number] else 0)
            self._watch(end, events, number)

    def _watch(self, file: int | socket.socket, events: int, data: int | None = None) -> None:
        known = self._selector.get_map().get(file)
        if known is None and events:
            self._selector.register(file, events, data)
        elif known is not None and not events:
            self._selector.unregister(file)
        elif known is not None and known.events != events:
            self._selector.modify(file, events, data)

    def _take(self, data: bytes) -> bool:
        """Take messages of the other end. Returns whether it is still there."""
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            word, _, rest = line.partition(b" ")
            try:
                number = int(word)
                sign = rest[:1]
                taken = int(rest[1:]) if sign == b"=" else 0
                piece = b"" if sign in (b"=", b"-") else a2b_base64(rest)
            except (ValueError, Error):
                continue  # words of a login script
            if sign in (b"=", b"-"):
                if number in self._sockets and taken:
                    self._not_taken[number] -= taken
                elif number in self._sockets:
                    self._drop(number)
                continue
            if self._connect is not None and number > self._last_number:
                self._last_number = number
                try:
                    self._add(number, self._connect())
                except OSError:
                    self._say(b"%d -\n" % number)
            elif number in self._sockets:
                self._waiting[number] += piece
                if not piece:
                    self._ended[number].add("there")
                self._write(number)
        return bool(data) and len(self._received) <= ROOM

    def _add(self, number: int, end: socket.socket) -> None:
        end.setblocking(False)
        self._sockets[number], self._waiting[number], self._ended[number] = end, bytearray(), set()
        self._not_taken[number] = 0

    def _on_socket_ready(self, number: int, events: int) -> None:
        """Write to a socket what waits for it. Send what it has to the other end; after its end, an empty message."""
        if events & selectors.EVENT_WRITE and number in self._sockets:
            self._write(number)
        if events & selectors.EVENT_READ and number in self._sockets:
            try:
                data = self._sockets[number].recv(PIECE)
            except OSError:
                data = b""
            self._not_taken[number] += len(data)
            self._send(number, data)
            if not data:
                self._ended[number].add("here")
                self._close_if_over(number)

    def _write(self, number: int) -> None:
        """Give the socket what waits for it. After the other end's last bytes close that direction of the socket."""
        end, waiting = self._sockets[number], self._waiting[number]
        try:
            sent = end.send(waiting) if waiting else 0
            del waiting[:sent]
            if sent:
                self._say(b"%d =%d\n" % (number, sent))
            if not waiting and "there" in self._ended[number]:
                end.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self._say(b"%d -\n" % number)
            self._drop(number)
            return
        self._close_if_over(number)

    def _close_if_over(self, number: int) -> None:
        if self._ended[number] == {"here", "there"} and not self._waiting[number]:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._watch(self._sockets[number], 0)
        self._sockets.pop(number).close()
        del self._waiting[number], self._ended[number], self._not_taken[number]

    def _send(self, number: int, data: bytes) -> None:
        self._say(b"%d %s" % (number, b2a_base64(data)))

    def _say(self, line: bytes) -> None:
        self._to_sink += line
        self._flush()

    def _flush(self) -> None:
        try:
            del self._to_sink[: os.write(self._sink, self._to_sink) if self._to_sink else 0]
        except BlockingIOError:
            pass


def main(port: str) -> None:
    """The end on a node: connects to a port of it. Its first line says that it runs."""

    check_users(int(port), users_of(int(port)))
    os.write(1, READY)
    try:
        Relay(0, 1, lambda: connect(int(port))).run()
    except (OSError, KeyboardInterrupt):
        sys.exit(0)  # the other end is gone


def connect(port: int) -> socket.socket:
    """Connect to a port of this host. Ends this process where another user than this one or root takes it."""
    try:
        end = socket.create_connection(("127.0.0.1", port), 10)
    except ConnectionRefusedError:  # not every /etc/hosts has both addresses of localhost
        end = socket.create_connection(("::1", port), 10)
    users = takers_of(end)
    if users is None or (users and users <= {os.geteuid(), 0}):
        return end
    end.close()
    check_users(port, users)
    raise ConnectionAbortedError  # it is over, and nobody can tell whose it was


def strangers_among(users: set[int] | None) -> set[int]:
    """Return those of some users who are neither this one nor root, the proxy of a container's port."""
    return (users or set()) - {os.geteuid(), 0}


def check_users(port: int, users: set[int] | None) -> None:
    """End this process where there is another user than this one or root among those of a port of this host."""
    others = strangers_among(users)
    if others:
        import pwd

        try:
            name = pwd.getpwuid(min(others)).pw_name
        except KeyError:
            name = str(min(others))
        sys.exit(
            "ddpkit: port %d of %s is another user's, %s: nothing is sent to it" % (port, os.uname().nodename, name)
        )
