"""Who may say what: a rank's process writes into the channel of its supervisor, and is not believed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from channel_forger import FORGER
from launching import Launch, torch

QUIET = "    print('rank 0 prints', flush=True); time.sleep(3600)\n"
ABOVE = "6"  # torchrun and its wrapper, the supervisor, its guard, and two of sshd
WAYS = [
    pytest.param(["-b", "ssh", "-o", "starter=ranks"], id="ssh"),
    pytest.param(["-b", "ssh", "-o", "starter=ranks", "-o", "transport=openssh"], id="openssh"),
    pytest.param(["-b", "pdsh", "-o", "starter=ranks"], id="pdsh"),
    pytest.param(["-b", "ssh"], id="ssh-torchrun", marks=torch),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_writes_into_every_pipe_above_it_is_not_believed(
    way: list[str], launch: Callable[..., Launch], tmp_path: Path
) -> None:
    """As root: `/proc/PID/fd/1` of its supervisor, and of the sshd that reads it, open once more."""
    (tmp_path / "job.py").write_text(FORGER)
    command = launch(*way, "node1", "-n", "1", "--", "job.py", ABOVE)
    assert command.end() == 7, command.tail
    assert int(re.search(r"wrote into (\d+) pipes", command.text)[1]) > 0, "it was no attack"  # type: ignore[index]
    assert command.record["failure"]["rank"] == 0
    assert command.record["failure"]["code"] == 7


def test_a_node_cannot_speak_in_the_name_of_another_behind_pdsh(launch: Callable[..., Launch], tmp_path: Path) -> None:
    """pdsh puts a name in front of each line. node2 forges it, and sends NULs, in which a line of node1 was lost."""
    (tmp_path / "job.py").write_text(
        FORGER.replace("import os, sys, time\n", "import os, sys, time\nif os.environ['RANK'] == '0':\n" + QUIET)
    )
    command = launch("-b", "pdsh", "-o", "starter=ranks", "node1", "node2", "-n", "1", "--", "job.py", ABOVE)
    assert command.end() == 7, command.tail
    assert (command.record["failure"]["rank"], command.record["failure"]["host"]) == (1, "node2")
    assert "rank 0 prints" in command.text
