"""A laptop with macOS launches on nodes by ssh: nothing that only Linux has is used on the launching side.

There is no macOS here. What stands for it is this Python without what Linux alone has (no /proc, and no function of
`os`, `signal`, `select`, `socket` that macOS lacks), on a host of the lab that says it is Darwin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import LOGIN, Lab
from launching import ROOT

# PYTHONPATH, and so this file, goes with the ranks to the nodes, which are Linux.
SITE = """
import os

def laptop():
    import fcntl, posix, resource, select, signal, socket, sys, time
    import _signal, _socket

    sys.platform = "darwin"
    os.uname = lambda: posix.uname_result(("Darwin", "login", "24.6.0", "Darwin Kernel Version 24.6.0", "arm64"))
    gone = {
        (os, posix): "pipe2 memfd_create pidfd_open sched_getaffinity sched_setaffinity posix_fadvise copy_file_range "
        "splice eventfd getrandom getxattr setxattr setns unshare O_TMPFILE O_PATH O_DIRECT waitid getresuid setresuid "
        "fdatasync",
        (signal, _signal): "SIGRTMIN SIGRTMAX sigtimedwait sigwaitinfo SIGSTKFLT SIGPOLL SIGPWR SIGCLD "
        "pidfd_send_signal",
        (select,): "epoll",
        (resource,): "prlimit",
        (fcntl,): "F_SETPIPE_SZ F_GETPIPE_SZ",
        (socket, _socket): "SOCK_CLOEXEC SOCK_NONBLOCK TCP_QUICKACK TCP_USER_TIMEOUT TCP_KEEPIDLE AF_NETLINK",
        (time,): "CLOCK_BOOTTIME",
    }
    for modules, names in gone.items():
        for module in modules:
            for name in names.split():
                if hasattr(module, name):
                    delattr(module, name)

if os.uname().nodename == "login":
    laptop()
"""
JOB = "import os\nprint('rank', os.environ['RANK'], 'on', os.uname().nodename)\n"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Run:
    """`ddpkit ARGS` on the host that is taken for a laptop, to its end."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE)
    (tmp_path / "job.py").write_text(JOB)
    names = {"PYTHONPATH": f"{tmp_path}/site:{ROOT}", "XDG_STATE_HOME": f"{tmp_path}/state", "NO_COLOR": "1"}
    hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return lab.run(
            LOGIN, *hidden, sys.executable, "-m", "ddpkit", *args, cwd=tmp_path, env=names, check=False
        )  # fmt: skip

    return run


def test_ranks_on_nodes(laptop: Run) -> None:
    words = ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"]
    done = laptop("launch", *words, "--", "job.py")
    assert done.returncode == 0, done.stderr
    said = {line.partition("] ")[2] for line in done.stdout.splitlines()}
    assert said == {f"rank {rank} on node{rank // 2 + 1}" for rank in range(4)}
    (run,) = json.loads(laptop("ps", "--json").stdout)
    assert (run["state"], run["hosts"]) == ("done", ["node1", "node2"])
    assert "rank 3 on node2" in laptop("logs", "--rank", "3").stdout
    assert laptop("status").returncode == 0


def test_a_failure_and_a_bad_node(laptop: Run, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os\nos._exit(7 if os.environ['RANK'] == '1' else 0)\n")
    done = laptop("launch", "-b", "ssh", "node1", "node2", "-n", "1", "-o", "starter=ranks", "--", "job.py")
    assert done.returncode == 7, done.stderr
    assert "rank 1 on node2 failed first" in done.stderr
    done = laptop("launch", "-b", "ssh", "node1", "node9", "-n", "1", "--", "job.py")
    assert done.returncode == 4, done.stderr
    assert "node9: its name node9 does not resolve here" in done.stderr


def test_nodes_are_examined(laptop: Run) -> None:
    done = laptop("test", "-b", "ssh", "node1", "node2", "-n", "1", "--no-ranks", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["-n", "1"], "backend local"),
        (["-b", "pdsh", "node1", "-n", "1"], "backend pdsh"),
        (["-b", "ssh", "node1", "-n", "1", "--sync"], "--sync"),
    ],
)
def test_what_needs_linux_says_so(words: list[str], what: str, laptop: Run, tmp_path: Path) -> None:
    done = laptop("launch", *words, "--", "job.py")
    assert done.returncode == 2, done.stderr
    assert f"ddpkit: {what} needs Linux on this machine, and it is darwin" in done.stderr
    assert not (tmp_path / "logs").exists()
