"""Decision after an attempt in a submitted SLURM job: see `ddpkit.execution.job_attempts`. The job's script runs it:

python -m ddpkit.cli.job_attempts DIR CODE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddpkit.execution.job_attempts import decide, settings_of_test
from ddpkit.launchers.plan import JOB_HOOK


def check(hosts: Sequence[str], folder: Path) -> Mapping[str, str]:
    """Test each host in a step of this job. Returns the reasons of those with a fault. Raises DdpkitError."""
    from ddpkit.preflight.run import find_faults

    settings = settings_of_test(os.environ)
    os.environ.pop(JOB_HOOK, None)  # the ranks of the test do not get it
    return find_faults(settings, os.environ, hosts, folder)


if __name__ == "__main__":
    raise SystemExit(decide(sys.argv[1:], check))
