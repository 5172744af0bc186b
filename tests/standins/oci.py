"""`docker run` and `podman run`, as their documents say, for those options that ddpkit and its tests use.

A client sends the request to what holds containers (docker: a daemon that was there before; podman: a monitor of its
own, in a session of its own), passes on its input, output and signals, and exits with the command's code. As with both,
the container's standard input ends when the client is gone, and the container does not end with the client.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from image import become, fail, load

FLAGS = {"--rm", "--interactive", "-i"}
VALUED = {
    "--network",
    "--ipc",
    "--label",
    "--env",
    "--volume",
    "--mount",
    "--workdir",
    "--gpus",
    "--device",
    "--ulimit",
}
REFUSED = 125  # the code of both for what is their own failure
PROXIED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def parse(program: str, argv: list[str]) -> dict[str, Any]:
    """A request from a command line. An option that is not known is refused, as both do."""
    if argv[:1] != ["run"]:
        fail(program, REFUSED, f"unknown command: {argv}")
    words = argv[1:]
    env: dict[str, str] = {}
    mounts: list[list[str]] = []
    flags: set[str] = set()
    workdir = "/"
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if name in FLAGS and not equals:
            flags.add(name)
            continue
        if name not in VALUED:
            fail(program, REFUSED, f"unknown flag: {name}")
        value = value if equals else words.pop(0)
        if name == "--env":
            key, given, text = value.partition("=")
            if given or key in os.environ:  # a name alone: the client's own value, if there is one
                env[key] = text if given else os.environ[key]
        elif name == "--volume":
            mounts.append(value.split(":"))
        elif name == "--mount":
            fields = dict(field.partition("=")[::2] for field in value.split(","))
            if set(fields) != {"type", "source", "target"} or fields["type"] != "bind":
                fail(program, REFUSED, f"invalid argument {value!r} for --mount")
            if not Path(fields["source"]).exists():
                fail(program, REFUSED, f"bind source path does not exist: {fields['source']}")
            mounts.append([fields["source"], fields["target"]])
        elif name == "--workdir":
            workdir = value
    for source, *rest in mounts:
        if not source.startswith("/") or not rest or not rest[0].startswith("/"):
            fail(program, REFUSED, f"invalid mount: {source}:{rest}")
    if "--rm" not in flags or not words:
        fail(program, REFUSED, "the stand-in wants --rm and an image")
    image = load(Path(os.environ["STANDIN_IMAGES"]) / words[0].replace("/", "_"))
    if image is None:
        fail(program, REFUSED, f"Unable to find image '{words[0]}'")
    interactive = bool(flags & {"--interactive", "-i"})
    return {
        "image": image, "argv": words[1:], "env": env, "mounts": mounts, "workdir": workdir, "interactive": interactive
    }  # fmt: skip


def send(to: socket.socket, kind: bytes, data: bytes = b"") -> None:
    to.sendall(kind + struct.pack("!I", len(data)) + data)


def receive(source: socket.socket) -> tuple[bytes, bytes] | None:
    head = b""
    while len(head) < 5:
        piece = source.recv(5 - len(head))
        if not piece:
            return None
        head += piece
    (size,) = struct.unpack("!I", head[1:])
    data = b""
    while len(data) < size:
        piece = source.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return head[:1], data


def client(connection: socket.socket, request: dict[str, Any]) -> int:
    """Pass everything on until the command has ended. Returns its code."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    for number in PROXIED:
        signal.signal(number, lambda *_: None)
    send(connection, b"R", json.dumps(request).encode())
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    for fd in (read, *([0] if request["interactive"] else [])):
        selector.register(fd, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is connection:
                message = receive(connection)
                if message is None:
                    return REFUSED
                kind, data = message
                while kind == b"X" and request["image"].get("stuck"):  # as with a lock that another client holds
                    signal.pause()
                if kind == b"X":
                    return data[0]
                os.write(1 if kind == b"1" else 2, data)
            elif key.fd == read:
                for byte in os.read(read, 64):
                    send(connection, b"S", bytes([byte]))
            else:
                data = os.read(0, 1 << 16)
                send(connection, b"I", data)  # nothing: the end
                if not data:
                    selector.unregister(0)


def hold(connection: socket.socket) -> None:
    """Run one container for one client, and go on when the client is gone, until the command ends by itself."""
    message = receive(connection)
    if message is None:
        return
    request = json.loads(message[1])
    env = {"HOME": "/", **request["image"]["env"], **request["env"]}
    process = subprocess.Popen(
        [sys.executable, __file__, "inside", json.dumps({**request, "env": env})],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=env,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    selector = selectors.DefaultSelector()
    for source in (connection, process.stdout, process.stderr):
        selector.register(source, selectors.EVENT_READ)
    streams, there = {process.stdout.fileno(): b"1", process.stderr.fileno(): b"2"}, True
    while streams:
        for key, _ in selector.select():
            if key.fileobj is connection:
                message = receive(connection)
                if message is None or message == (b"I", b""):
                    process.stdin.close()
                    there = message is not None
                    if not there:
                        selector.unregister(connection)
                elif message[0] == b"I":
                    process.stdin.write(message[1])
                    process.stdin.flush()
                else:
                    process.send_signal(message[1][0])
                continue
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fileobj)
                del streams[key.fd]
            elif there:
                try:
                    send(connection, streams[key.fd], data)
                except OSError:
                    there = False
    code = process.wait()
    if there:
        send(connection, b"X", bytes([code if code >= 0 else 128 - code]))


if __name__ == "__main__" and sys.argv[1:2] == ["inside"]:
    spec = json.loads(sys.argv[2])
    become(spec["image"], spec["argv"], spec["env"], spec["workdir"], spec["mounts"])
