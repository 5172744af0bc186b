"""A job of one's own, with programs in the place of salloc and scancel: it ends, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.errors import LaunchError
from ddpkit.transports.allocation import own_allocation

SALLOC = """\
#!/bin/sh
echo $$ > {0}/pid
export SLURM_JOB_ID=7 SLURM_JOB_NODELIST=node1 ZZ='notes:
SLURM_JOB_ID=123
'
"$@"
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_job_of_ones_own_ends(killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("salloc", SALLOC), ("scancel", '#!/bin/sh\necho "$@" >> {0}/cancelled\n')):
        (tmp_path / name).write_text(text.format(tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with own_allocation(["salloc"], print) as variables:
        assert variables == {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node1"}
        assert not (tmp_path / "cancelled").exists()
        if killed:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert set((tmp_path / "cancelled").read_text().splitlines()) == {"--quiet 7"}


def test_it_ends_also_where_the_launcher_and_salloc_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "cancelled")
    for name, text in (("salloc", SALLOC), ("scancel", '#!/bin/sh\necho "$@" > {0}/cancelled\n')):
        (tmp_path / name).write_text(text.format(tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    kill = (
        "import os, signal, sys\nfrom ddpkit.transports.allocation import own_allocation\n"
        "with own_allocation(['salloc'], print):\n"
        "    os.kill(int(open(sys.argv[1] + '/pid').read()), signal.SIGKILL)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", kill, str(tmp_path)]) as launcher:
        assert (tmp_path / "cancelled").read_text() == "--quiet 7\n"
    assert launcher.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("error: fetch_config: DNS SRV lookup failed", "run the command on a login node"),
        ("error: Unable to contact slurm controller (connect failure)", "scontrol ping"),
        ("error: Invalid account or account/partition combination specified", "use an account and a partition"),
        ("error: words that nobody knows", "sinfo --summarize"),
    ],
)
def test_the_hint_for_a_refusal_is_not_the_same_command(
    said: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "salloc").write_text(f'#!/bin/sh\necho "salloc: {said}" >&2\nexit 1\n')
    (tmp_path / "salloc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(LaunchError) as refused, own_allocation(["salloc"], print):
        pass
    assert str(refused.value) == f"SLURM gave no nodes: {said.removeprefix('error: ')}"
    assert hint in str(refused.value.hint)
