"""Runs a command as an ordinary user on a plain Debian or Ubuntu, with this repository as that user's own.

PATH is Debian's, so that there is no `python`, and nothing of a virtual environment. Root becomes a user who exists for
this command alone: in a mount namespace, which ends with it, there are a clone of what is committed in place of the
repository, an account, a home, and a way to the Python. On the machine nothing is changed. Anyone else is an ordinary
user already. Where it cannot be done, it says why, and ends with 0.

Usage: ordinary_user.py COMMAND [ARGUMENT...], in the repository
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "ddpkit"
NUMBER = 29999  # of the user and of the group
PLAIN = "/usr/local/bin:/usr/bin:/bin"
NEEDED = ("unshare", "mount", "git")


def main() -> int:
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.geteuid() != 0:
        return subprocess.run(sys.argv[1:], env={**os.environ, "PATH": PLAIN}, check=False).returncode
    place = os.environ.pop("ORDINARY_USER_PLACE", "")
    if place:  # in the namespace
        set_up(Path(place))
        become(Path(place), sys.argv[1:])
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        return refuse(f"there is no {lacking[0]}")
    with tempfile.TemporaryDirectory(prefix="ddpkit-user-") as place:
        Path(place).chmod(0o755)
        test = ["unshare", "--mount", "--propagation", "private"]
        if subprocess.run([*test, "true"], check=False).returncode != 0:
            return refuse("this machine gives root no mount namespace")
        clone = ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), f"{place}/clone"]
        if subprocess.run(clone, check=False).returncode != 0:
            return refuse("the repository cannot be cloned")
        argv = [*test, sys.executable, __file__, *sys.argv[1:]]
        return subprocess.run(argv, env={**os.environ, "ORDINARY_USER_PLACE": place}, check=False).returncode


def refuse(why: str) -> int:
    print(f"not run as an ordinary user: {why}", flush=True)
    return 0


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def set_up(place: Path) -> None:
    """Make the machine of that user, in this namespace."""
    clone, home = place / "clone", place / "home"
    home.mkdir()
    for folder, folders, files in os.walk(place):
        for name in (".", *folders, *files):
            os.lchown(f"{folder}/{name}", NUMBER, NUMBER)
    for name, line in (
        ("passwd", f"{NAME}:x:{NUMBER}:{NUMBER}::{home}:/bin/bash\n"),
        ("group", f"{NAME}:x:{NUMBER}:\n"),
    ):
        (place / name).write_text(Path("/etc", name).read_text() + line)
        mount("--bind", str(place / name), f"/etc/{name}")
    python, venv = Path(sys.base_prefix), Path(sys.prefix)
    (clone / venv.name).mkdir()
    mount("--bind", str(venv), str(clone / venv.name))
    shown = {python: place / "python", ROOT: place / "clone"}
    (place / "python").mkdir()
    mount("--bind", str(python), str(place / "python"))
    for path in shown:
        for above in reversed(path.parents):
            if not above.stat().st_mode & 0o001:  # as /root: another directory takes its place
                mount("-t", "tmpfs", "-o", "mode=755", "none", str(above))
                path.mkdir(parents=True)
                break
    for path, source in shown.items():
        path.mkdir(parents=True, exist_ok=True)
        mount("--rbind", str(source), str(path))


def become(place: Path, argv: list[str]) -> None:
    env = {name: os.environ[name] for name in ("CI", "LANG", "TERM") if name in os.environ}
    env |= {"PATH": PLAIN, "HOME": str(place / "home"), "USER": NAME, "LOGNAME": NAME, "SHELL": "/bin/bash"}
    os.chdir(ROOT)  # the clone
    os.setgroups([])
    os.setgid(NUMBER)
    os.setuid(NUMBER)
    os.umask(0o022)
    os.execve(argv[0], argv, env)


if __name__ == "__main__":
    raise SystemExit(main())
