"""Process 1 of one lab host: gives it its name and files, starts its daemons, and collects what they leave.

Runs in network, UTS, mount and process namespaces of its own, so that ending this process is ending the host. Standard
library only. Usage: host.py SPEC, a JSON file with `name`, `root` (another system, or null), `kept` (the machine's
paths that it has as well), `cgroups` (those of the host), `layer` (an empty directory for `own_etc`), `binds` ({path:
what to show there}), `daemons` ([argv]), `log` and `ready` (written when all daemons were started).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

CLONE_NEWCGROUP = 0x02000000


def change_root(root: str, kept: list[str]) -> None:
    """Make another system this host's own, with the paths of the machine in `kept`. nsenter ignores a mere chroot."""
    subprocess.run(["mount", "--bind", root, root], check=True)
    for path in sorted(set(kept)):
        Path(root + path).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--rbind", path, root + path], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "run", f"{root}/run"], check=True)
    Path(root, "run/sshd").mkdir()
    for path in ("/etc/hosts", "/etc/hostname"):
        Path(root + path).touch()
    os.chdir(root)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True)


def own_etc(layer: str) -> None:
    """Lay an empty layer over /etc, in which the host's files are bound. A bound file goes when its place is replaced.

    Any package, and `sed -i`, replaces a file in the machine's /etc: the layer's place for it stays.
    """
    upper, work = f"{layer}/upper", f"{layer}/work"
    subprocess.run(["mount", "-t", "tmpfs", "etc", layer], check=True)
    Path(upper).mkdir(0o755)
    Path(work).mkdir()
    options = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "etc", "/etc"], check=False)  # not every kernel has it


def main() -> None:
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    socket.sethostname(spec["name"])
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if spec["root"]:
        change_root(spec["root"], spec["kept"])
    if spec["cgroups"]:
        for path in spec["cgroups"]:
            Path(path, "cgroup.procs").write_text(str(os.getpid()))
        ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWCGROUP)  # /proc/PID/cgroup has the paths of this host
    own_etc(spec["layer"])
    for path, shown in spec["binds"].items():
        subprocess.run(["mount", "--bind", shown, path], check=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for argv in spec["daemons"]:
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    Path(spec["ready"]).touch()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            signal.pause()


if __name__ == "__main__":
    main()
