"""The lab: a host can die and come back, two labs stand side by side, and nothing is left when one is down."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import cluster
import pytest
from cluster import NODES, Lab
from launching import wait_until


def test_a_host_can_die_and_come_back(lab: Lab) -> None:
    lab.kill("node4")
    assert lab.run("login", "ping", "-c1", "-W1", "node4", check=False).returncode != 0
    lab.boot("node4")
    lab.wait_idle()
    assert lab.run("login", "ssh", "node4", "hostname").stdout.strip() == "node4"


def test_a_host_without_its_slurmd_is_booted_again(idle_lab: Lab) -> None:
    idle_lab.run("node2", "pkill", "-KILL", "-x", "slurmd")
    wait_until(lambda: idle_lab.run("login", "sinfo", "-h", "-n", "node2", "-o", "%T").stdout.strip().endswith("*"))
    idle_lab.wait_idle()
    done = idle_lab.run("login", "srun", "-w", "node2", "hostname")
    assert done.stdout == "node2\n"


def test_two_labs_side_by_side_and_nothing_left(lab: Lab, tmp_path: Path) -> None:
    # As long as munge's socket allows it. A socket of a step has a longer name, and is not in this folder.
    other = Lab(tmp_path / "other".ljust(89 - len(str(tmp_path)), "-"))
    try:
        other.up()
        assert other.run("login", "srun", "-N2", "hostname").stdout.split()
        pids = [other.init_pid(name) for name in NODES]
    finally:
        other.down()
    assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith(other.tag)]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "process 1 of the machine collects them")
    assert lab.run("login", "srun", "hostname").stdout.split() == ["node1"]


DEBOOTSTRAP = """#!/bin/sh
for new; do :; done
stat -c %a "$new" > "$new/mode"
test ! -e "$new/half" || echo "an earlier half" > "$new/mode"
touch "$new/half"
exit {code}
"""


def test_a_system_has_its_name_when_it_is_whole(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages run programs as users of their own, to whom "/" must be open. What an earlier try left is removed."""
    program = tmp_path / "debootstrap"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(cluster, "ROOTS", tmp_path / "roots")
    root = tmp_path / "roots/sid"
    for code in (1, 0):
        program.write_text(DEBOOTSTRAP.format(code=code))
        program.chmod(0o755)
        with pytest.raises(RuntimeError, match="exit code 1") if code else nullcontext():
            cluster.make_system(root)
        assert root.exists() == (code == 0)
    assert (root / "mode").read_text() == "755\n"
