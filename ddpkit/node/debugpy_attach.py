"""Attaches debugpy to a rank, on the rank's node. Its text follows that of `relay.py`, whose functions it uses.

debugpy asks nobody for a password, and its port is open to all users of the node. A server that is not this user's is
not taken for it. It stays in the rank, so that it is there already after an earlier `ddpkit debug`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ddpkit.node.relay import check_users, users_of

LIMIT = 20.0  # seconds until debugpy listens
LOGIN_DEFS = "/etc/login.defs"
FIRST_USER = 1000  # of people, unless login.defs has a lower one
SERVICES = range(60001, 65535)  # ids of services above those of people: systemd's, Debian's, and nobody
NO_SHELLS = ("nologin", "false")
OF_HOST = 0xEFFFFFFC  # number of the kernel's first process namespace
HIDING = ("2", "4", "invisible", "ptraceable")  # values of hidepid


def attach(pid: str, port: int, program: str) -> None:
    """Return when debugpy listens at a port of this host. Ends with a message where it cannot, or must not.

    `program`: runs the module debugpy, and takes nothing of the working directory: another user's may be there.
    """
    host = os.uname().nodename
    if importlib.util.find_spec("debugpy") is None:
        sys.exit("ddpkit: debugpy not found\nhint: %s -m pip install debugpy" % sys.executable)
    hidden = why_hidden()
    if hidden:
        what = "ddpkit: %s of %s hides the processes of others, who could enter the rank by debugpy" % (hidden, host)
        sys.exit(what + "\nhint: use a node without that, or for the stacks: ddpkit dump")
    for name in other_users():
        what = "ddpkit: %s has processes on %s, and debugpy lets every user of a node into the rank" % (name, host)
        other = "ddpkit debug, without --port (pdb)" if sys.version_info >= (3, 14) else "ddpkit dump, for the stacks"
        sys.exit(what + "\nhint: use a node without other users (SLURM: --exclusive), or: " + other)
    if not is_attached(port):
        check_users(port, users_of(port))
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            why = os.strerror(error.errno or 0)
            sys.exit("ddpkit: port %d of %s: %s\nhint: add --port %d" % (port, host, why, port + 1))
        words = ["-c", program, "--listen", "127.0.0.1:%d" % port, "--pid", pid]
        code = subprocess.call([sys.executable, *words], env={"PYTHONSAFEPATH": "ddpkit", **os.environ})
        if code:
            sys.exit(code)
    until = time.monotonic() + LIMIT
    while (users := users_of(port)) != {os.geteuid()}:
        check_users(port, users)
        if time.monotonic() > until:
            what = "ddpkit: debugpy does not listen at port %d of %s, and the rank has printed why" % (port, host)
            sys.exit(what + "\nhint: ddpkit logs")
        time.sleep(0.05)


def why_hidden() -> str:
    """Return what hides the processes of others, so that nobody can say whether there are any; empty: nothing does."""
    with open("/proc/self/mountinfo") as file:
        of_proc = [line.split() for line in file if " - proc " in line]
    options = ",".join(line[-1] for line in of_proc if line[4] == "/proc").split(",")
    if os.geteuid() != 0 and any(each.partition("=")[2] in HIDING for each in options if each[:8] == "hidepid="):
        return "/proc with hidepid"
    # The host's network alone has this file.
    if os.stat("/proc/self/ns/pid").st_ino != OF_HOST and os.path.exists("/proc/sys/net/core/netdev_budget"):
        return "a container in the network"
    return ""


def other_users() -> list[str]:
    """Return the names of those beside this user and root who have a process here, without services of the system."""
    uids = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            uids.add(os.stat("/proc/" + name).st_uid)
        except OSError:
            pass  # it has ended
    first, names = first_user(), []
    for uid in sorted(uids - {os.geteuid(), 0}):
        try:
            account = pwd.getpwuid(uid)
        except KeyError:
            names.append(str(uid))
            continue
        can_be_service = (uid < first or uid in SERVICES) and not has_more_users(uid)
        if not can_be_service or os.path.basename(account.pw_shell) not in NO_SHELLS:
            names.append(account.pw_name)
    return names


def first_user() -> int:
    """Return the first id of people. Sites of old systems have 500; a higher one than usual takes nobody away."""
    try:
        with open(LOGIN_DEFS, encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return FIRST_USER
    return min([FIRST_USER, *(int(row[1]) for row in rows if row[:1] == ["UID_MIN"] and "".join(row[1:2]).isdecimal())])


def has_more_users(uid: int) -> bool:
    """Tell whether this id stands for every user whom a container does not know."""
    try:
        with open("/proc/self/uid_map") as maps:
            ranges = [line.split() for line in maps]
    except OSError:
        return False
    return not any(int(first) <= uid < int(first) + int(count) for first, _, count in ranges)


def is_attached(port: int) -> bool:
    """Tell whether debugpy of this process's rank serves a port."""
    own = {os.fsencode("%s=%s" % (name, os.environ.get(name))) for name in ("DDPKIT_RUN", "RANK")}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = _read(name, "cmdline")
            if b"--for-server" in words and b"%d" % port in words[words.index(b"--for-server") :]:
                return own <= set(_read(name, "environ"))
        except OSError:
            pass  # another user's, or it has ended
    return False


def _read(process: str, file: str) -> list[bytes]:
    with open("/proc/%s/%s" % (process, file), "rb") as opened:
        return opened.read(1 << 22).split(b"\0")
