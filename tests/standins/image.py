"""What the stand-ins have in common: an image, and a process that sees it.

An image is a JSON file: `env`, the variables that it sets; `hide`, a folder of the host that is empty in the container
but for what is mounted (as root only: it needs a mount namespace); `greeting`, what its entrypoint prints.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x00020000, 4096, 16384, 1 << 18


def fail(program: str, code: int, text: str) -> None:
    print(f"{program}: {text}", file=sys.stderr, flush=True)
    os._exit(code)


def load(path: str | Path) -> dict[str, Any] | None:
    """An image, or None: there is none at this path."""
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text())
    except OSError:
        return None
    return found


def become(image: dict[str, Any], argv: list[str], env: dict[str, str], workdir: str, mounts: list[list[str]]) -> None:
    """Turn this process into a command of the container. Each mount is source, target, flags; all checked."""
    _mount(image, mounts)
    try:
        os.chdir(workdir)
        if image.get("greeting"):
            os.write(1, image["greeting"].encode())
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


def _mount(image: dict[str, Any], mounts: list[list[str]]) -> None:
    if "hide" not in image or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    steps = [libc.unshare(CLONE_NEWNS), libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)]
    sources = [os.open(source, os.O_PATH) for source, *_ in mounts]
    steps.append(libc.mount(b"tmpfs", image["hide"].encode(), b"tmpfs", 0, None))
    for fd, (_, target, *_) in zip(sources, mounts, strict=True):
        if Path(target).exists() and not target.startswith(image["hide"]):
            continue  # what is not hidden is there already
        Path(target).mkdir(parents=True, exist_ok=True)
        steps.append(libc.mount(f"/proc/self/fd/{fd}".encode(), target.encode(), None, MS_BIND, None))
    for fd in sources:
        os.close(fd)
    assert not any(steps), f"cannot mount: {os.strerror(ctypes.get_errno())}"
