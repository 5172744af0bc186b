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
    from ddpkit.node.relay import check_server, users_of

LIMIT = 20.0  # seconds until debugpy listens
FIRST_USER = 1000  # of people, as in login.defs
NOBODY = 65534
HIDING = ("2", "4", "invisible", "ptraceable")  # values of hidepid


def attach(pid: str, port: int, program: str) -> None:
    """Return when debugpy listens at a port of this host. Ends with a message where it cannot, or must not.

    `program`: runs the module debugpy, and takes nothing of the working directory: another user's may be there.
    """
    host = os.uname().nodename
    if importlib.util.find_spec("debugpy") is None:
        sys.exit("ddpkit: debugpy not found\nhint: %s -m pip install debugpy" % sys.executable)
    if hides_others():
        what = "ddpkit: /proc of %s hides the processes of others, who could enter the rank by debugpy" % host
        sys.exit(what + "\nhint: use a node without hidepid, or for the stacks: ddpkit dump")
    for name in other_users():
        what = "ddpkit: %s has processes on %s, and debugpy lets every user of a node into the rank" % (name, host)
        other = "ddpkit debug, without --port (pdb)" if sys.version_info >= (3, 14) else "ddpkit dump, for the stacks"
        sys.exit(what + "\nhint: use a node without other users (SLURM: --exclusive), or: " + other)
    if not is_attached(port):
        check_server(port)
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
    while users_of(port) != {os.geteuid()}:
        check_server(port)
        if time.monotonic() > until:
            what = "ddpkit: debugpy does not listen at port %d of %s, and the rank has printed why" % (port, host)
            sys.exit(what + "\nhint: ddpkit logs")
        time.sleep(0.05)


def hides_others() -> bool:
    """Tell whether this user's /proc leaves out the processes of others: then nobody can say whether there are any."""
    with open("/proc/self/mountinfo") as file:
        of_proc = [line.split() for line in file if " - proc " in line]
    options = ",".join(line[-1] for line in of_proc if line[4] == "/proc").split(",")
    return os.geteuid() != 0 and any(each.partition("=")[2] in HIDING for each in options if each[:8] == "hidepid=")


def other_users() -> list[str]:
    """Return the names of people beside this user who have a process here."""
    uids = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            uids.add(os.stat("/proc/" + name).st_uid)
        except OSError:
            pass  # it has ended
    names = []
    for uid in sorted(uid for uid in uids if uid >= FIRST_USER and uid not in (os.geteuid(), NOBODY)):
        try:
            names.append(pwd.getpwuid(uid).pw_name)
        except KeyError:
            names.append(str(uid))
    return names


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
