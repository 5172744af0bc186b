"""enroot's container: made once, never removed unless ddpkit began to make it, and no wait without an end or a word."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from ddpkit.launchers.containers import Enroot, Want

# Containers are directories. `create` leaves half of one where it is told to die; `list` fails where it is told to.
ENROOT = """#!/bin/sh
cd "$CONTAINERS" || exit 1
echo "$*" >> ../calls
case $1 in
list) [ ! -e ../no-list ] && ls ;;
create) mkdir "$3" && { [ ! -e ../die ] || kill -9 $PPID $$; } && touch "$3/whole" ;;
remove) rm -r "$3" ;;
start) shift; while [ $# -gt 0 ] && [ "$1" != torch ] && [ "$1" != ddpkit-torch ]; do shift; done; echo "in $1" ;;
esac
"""


class Node:
    def __init__(self, folder: Path, clean: dict[str, str]) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin/enroot").write_text(ENROOT)
        (folder / "bin/enroot").chmod(0o755)
        (folder / "containers").mkdir()
        self.env = {
            **clean,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "CONTAINERS": str(folder / "containers"),
        }
        self.env.pop("XDG_STATE_HOME", None)
        (folder / "home").mkdir()

    def start(self) -> subprocess.CompletedProcess[str]:
        text = Enroot().enter(Want(image="/images/torch.sqsh", own=()))
        return subprocess.run(
            ["sh", "-c", text, "sh", "true"], env=self.env, capture_output=True, text=True, timeout=60, check=False
        )

    @property
    def containers(self) -> dict[str, list[str]]:
        return {each.name: [path.name for path in each.iterdir()] for each in (self.folder / "containers").iterdir()}

    def calls(self, word: str) -> int:
        return sum(line.startswith(word) for line in (self.folder / "calls").read_text().splitlines())


@pytest.fixture
def node(tmp_path: Path, clean_environ: dict[str, str]) -> Node:
    return Node(tmp_path, clean_environ)


def test_it_is_made_once(node: Node) -> None:
    for _ in range(2):
        done = node.start()
        assert (done.returncode, done.stdout) == (0, "in ddpkit-torch\n"), done.stderr
    assert node.containers == {"ddpkit-torch": ["whole"]}
    assert node.calls("create") == 1


def test_the_users_own_container_is_used_and_never_removed(node: Node) -> None:
    (node.folder / "containers/torch").mkdir()
    (node.folder / "containers/torch/installed").touch()
    assert node.start().stdout == "in torch\n"
    (node.folder / "no-list").touch()
    done = node.start()
    assert done.returncode == 1
    assert "enroot list failed" in done.stderr
    assert node.containers == {"torch": ["installed"]}
    assert node.calls("remove") == node.calls("create") == 0


def test_half_a_container_of_ours_is_made_again(node: Node) -> None:
    (node.folder / "die").touch()
    assert node.start().returncode != 0
    assert node.containers == {"ddpkit-torch": []}
    (node.folder / "die").unlink()
    assert node.start().stdout == "in ddpkit-torch\n"
    assert node.containers == {"ddpkit-torch": ["whole"]}


def test_one_that_was_whole_is_never_made_again(node: Node) -> None:
    node.start()
    (node.folder / "containers/ddpkit-torch/installed").touch()
    (node.folder / "containers/ddpkit-torch/whole").unlink()
    assert node.start().returncode == 0
    assert node.containers == {"ddpkit-torch": ["installed"]}


def test_a_lock_that_is_held_is_said(node: Node) -> None:
    node.start()
    (lock,) = (node.folder / "home/.local/state/ddpkit/enroot").glob("*.lock")
    assert lock.parent.stat().st_mode & 0o777 == 0o700
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = Enroot().enter(Want(image="/images/torch.sqsh", own=())).replace("-w 10 ", "-w 0 ").replace("1800", "1")
        done = subprocess.run(["sh", "-c", text], env=node.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "waiting for the container ddpkit-torch" in done.stderr
    assert "held by another process" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant a directory of another user")
def test_a_directory_of_another_user_is_not_used(node: Node) -> None:
    planted = node.folder / "home/.local/state/ddpkit/enroot"
    planted.mkdir(parents=True)
    os.chown(planted, 12345, 12345)
    done = node.start()
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr
    assert node.containers == {}
