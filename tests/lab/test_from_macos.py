"""A laptop with macOS: launches on nodes by ssh and pdsh, copies its folder there, runs ranks of its own.

There is no macOS here. What stands for it is a Python without what Linux alone has (no /proc, and no function of `os`,
`signal`, `select`, `socket` that macOS lacks) which says that it is Darwin; a host of the lab has it for its own. The
launcher, the supervisor of local ranks and their taps run in it; the ranks themselves, and the nodes, are Linux.
`make check` adds what a type checker knows of macOS.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import LOGIN, Lab
from launching import PATIENCE, ROOT, wait_until

SITE = """
def laptop(executable):
    import ctypes, fcntl, os, posix, resource, select, signal, socket, sys, time
    import _signal, _socket

    sys.platform = "darwin"
    sys.executable = executable
    os.uname = lambda: posix.uname_result(("Darwin", "login", "24.6.0", "Darwin Kernel Version 24.6.0", "arm64"))
    library = ctypes.CDLL

    class Library(library):
        def __getattr__(self, name):
            if name == "prctl":
                raise AttributeError(name)
            return super().__getattr__(name)

    ctypes.CDLL = Library
    gone = {
        (os, posix): "pipe2 memfd_create pidfd_open sched_getaffinity sched_setaffinity posix_fadvise copy_file_range "
        "splice eventfd getrandom getxattr setxattr setns unshare O_TMPFILE O_PATH O_DIRECT waitid getresuid setresuid "
        "fdatasync",
        (signal, _signal): "SIGRTMIN SIGRTMAX sigtimedwait sigwaitinfo SIGSTKFLT SIGPOLL SIGPWR SIGCLD "
        "pidfd_send_signal",
        (select,): "epoll POLLRDHUP",
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
"""
# What runs in that Python; any other command line is a rank's, or torchrun's, and Linux.
PYTHON = """\
#!/bin/sh
[ "$(uname -n)" = login ] || exec {python} "$@"
laptop='exec(open("{site}").read()); laptop("{here}"); import runpy, sys'
case "$1 $2" in
"-S -I")
    code=$4
    shift 4
    exec {python} -S -I -c "$laptop; $code" "$@" ;;
"-m ddpkit")
    shift 2
    exec {python} -c "$laptop; sys.argv[0] = 'ddpkit'; runpy.run_module('ddpkit', run_name='__main__')" "$@" ;;
"-u "*/rank_wrapper.py | *"/rank_wrapper.py "*)
    [ "$1" = -u ] && shift
    exec {python} -u -c "$laptop; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')" "$@" ;;
esac
exec {python} "$@"
"""
# Of a machine whose /proc the others cannot see.
PS = '#!/bin/sh\nexec unshare --mount sh -c \'mount -t proc proc /proc && exec {ps} "$@"\' sh "$@"\n'
JOB = "import os\nprint('rank', os.environ['RANK'], 'on', os.uname().nodename)\n"
Run = Callable[..., "subprocess.CompletedProcess[str]"]
HIDDEN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]


class Laptop:
    """The host that is taken for one."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab, self._folder = lab, folder
        (folder / "site.py").write_text(SITE)
        self.program(
            "python", PYTHON.format(site=folder / "site.py", here=folder / "bin/python", python=sys.executable)
        )
        self.program("ps", PS.format(ps="/bin/ps"))
        (folder / "job.py").write_text(JOB)
        self.env = {
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": f"{folder}/state",
            "NO_COLOR": "1",
            "PATH": f"{folder}/bin:{lab.environ()['PATH']}",
        }
        self.python = str(folder / "bin/python")

    def program(self, name: str, text: str) -> None:
        path = self._folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        """`ddpkit ARGS`, to its end."""
        argv = [*HIDDEN, self.python, "-m", "ddpkit", *args]
        return self._lab.run(LOGIN, *argv, cwd=self._folder, env=self.env, check=False)


def left(lab: Lab) -> dict[int, str]:
    """What still runs there."""
    return {
        pid: line
        for pid, line in lab.processes(LOGIN).items()
        if any(word in line for word in ("job.py", "supervisor", "sleep 7777"))
    }


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Laptop:
    return Laptop(lab, tmp_path)


def test_ranks_on_nodes(laptop: Laptop) -> None:
    words = ["-b", "ssh", "node1", "node2", "-n", "2", "-o", "starter=ranks"]
    done = laptop("launch", *words, "--", "job.py")
    assert done.returncode == 0, done.stderr
    said = {line.partition("] ")[2] for line in done.stdout.splitlines()}
    assert said == {f"rank {rank} on node{rank // 2 + 1}" for rank in range(4)}
    (run,) = json.loads(laptop("ps", "--json").stdout)["runs"]
    assert (run["state"], run["hosts"]) == ("done", ["node1", "node2"])
    assert "rank 3 on node2" in laptop("logs", "--rank", "3").stdout
    assert laptop("status").returncode == 0


def test_ranks_on_nodes_by_pdsh(laptop: Laptop) -> None:
    done = laptop("launch", "-b", "pdsh", "node1", "node2", "-n", "1", "-o", "starter=ranks", "--", "job.py")
    assert done.returncode == 0, done.stderr
    assert {line.partition("] ")[2] for line in done.stdout.splitlines()} == {"rank 0 on node1", "rank 1 on node2"}


def test_a_failure_and_a_bad_node(laptop: Laptop, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os\nos._exit(7 if os.environ['RANK'] == '1' else 0)\n")
    done = laptop("launch", "-b", "ssh", "node1", "node2", "-n", "1", "-o", "starter=ranks", "--", "job.py")
    assert done.returncode == 7, done.stderr
    assert "rank 1 on node2 failed first" in done.stderr
    done = laptop("launch", "-b", "ssh", "node1", "node9", "-n", "1", "--", "job.py")
    assert done.returncode == 123, done.stderr
    assert "node9: its name does not resolve on this machine" in done.stderr


def test_nodes_are_examined(laptop: Laptop) -> None:
    done = laptop("test", "-b", "ssh", "node1", "node2", "-n", "1", "--no-ranks", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["ok"]


def test_a_node_that_runs_macos_is_named(laptop: Laptop, tmp_path: Path) -> None:
    text = PYTHON.format(site=tmp_path / "site.py", here=laptop.python, python=sys.executable)
    laptop.program("python-there", text.replace("= login ]", "= node1 ]"))
    done = laptop("launch", "-b", "ssh", "node1", "-n", "1", "--python", f"{tmp_path}/bin/python-there", "--", "job.py")
    assert done.returncode == 123, done.stderr
    assert "its output: a node has to run Linux, and this one runs darwin" in done.stderr


# ---- the folder is copied


def test_the_folder_is_copied(laptop: Laptop, tmp_path: Path) -> None:
    there = f"{tmp_path}-there"
    (tmp_path / "ddpkit.toml").write_text(f'[host.node1]\nworkdir = "{there}"\n')
    try:
        words = ["-b", "ssh", "node1", "-n", "1", "-o", "starter=ranks", "--sync"]
        done = laptop("launch", *words, "--", sys.executable, "-c", "import os; print('in', os.getcwd(), os.listdir())")
        assert done.returncode == 0, done.stderr
        assert f"in {there} " in done.stdout
        assert "'job.py'" in done.stdout
    finally:
        shutil.rmtree(there, ignore_errors=True)


@pytest.mark.parametrize(
    "said",
    ["openrsync: protocol version 29, rsync version 2.6.9 compatible", "rsync  version 2.6.9  protocol version 29"],
)
def test_an_old_rsync_is_named(said: str, laptop: Laptop, tmp_path: Path) -> None:
    laptop.program("rsync", f"#!/bin/sh\necho '{said}'\n")
    done = laptop("launch", "-b", "ssh", "node1", "-n", "1", "--sync", "--", "job.py")
    assert done.returncode == 121, done.stderr
    assert f"copies require rsync 3.1 or later; this machine has: {said}\nhint: " in done.stderr
    assert not (tmp_path / "logs").exists()


# ---- ranks of its own


@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
def test_its_own_ranks(starter: str, laptop: Laptop) -> None:
    done = laptop("launch", "-n", "2", "-o", f"starter={starter}", "--", "job.py")
    assert done.returncode == 0, done.stderr
    assert {line.partition("] ")[2] for line in done.stdout.splitlines()} == {
        f"rank {rank} on login" for rank in (0, 1)
    }
    assert laptop("status").returncode == 0


@pytest.mark.parametrize("starter", ["ranks", "torchrun"])
def test_its_own_rank_fails(starter: str, laptop: Laptop, lab: Lab, tmp_path: Path) -> None:
    text = "import os, time\nif os.environ['RANK'] == '1':\n    os._exit(7)\ntime.sleep(3600)\n"
    (tmp_path / "job.py").write_text(text)
    done = laptop("launch", "-n", "2", "-o", f"starter={starter}", "--grace", "1", "--", "job.py")
    assert done.returncode == 7, done.stderr
    assert "rank 1 on login failed first" in done.stderr
    assert not left(lab)


def test_it_is_examined(laptop: Laptop) -> None:
    done = laptop("test", "2", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {check["id"]: check["status"] for check in json.loads(done.stdout)["checks"]}
    assert found["memory"] == "unknown"
    assert found["gloo"] == "pass", found


CHILD = """
import os, subprocess, sys, time
# Its parent dies at once: launchd's child, and still of the rank's process group.
subprocess.run(["sh", "-c", "sleep 7777 &"])
print("ready", flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_end_of_its_launcher_is_the_end_of_all(end: int, laptop: Laptop, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(CHILD)
    argv = lab.argv(LOGIN, [*HIDDEN, laptop.python, "-m", "ddpkit", "launch", "-n", "2", "--", "job.py"], tmp_path)
    env = {**lab.environ(), **laptop.env}
    with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as launch:
        assert launch.stdout is not None
        assert all("ready" in launch.stdout.readline() for _ in range(2))
        pid = min(pid for pid, line in lab.processes(LOGIN).items() if "ddpkit" in line and " launch -n 2" in line)
        try:
            wait_until(lambda: "MiB" in laptop("status").stdout)
            assert "stacks are available only on Linux (here: sudo py-spy dump --pid" in laptop("dump").stdout
        except BaseException:
            end = signal.SIGKILL
            raise
        finally:
            lab.run(LOGIN, "kill", f"-{end}", str(pid))
        launch.wait(PATIENCE)
    wait_until(lambda: not left(lab))
