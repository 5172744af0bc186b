"""Runs that nothing disturbs, with --retries: one attempt each, and no node is put aside or remembered.

python tests/lab/heal_healthy.py [RUNS]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import ddpkit


def main(runs: int) -> int:
    folder, wrong = Path(tempfile.mkdtemp(prefix="ddpkit-healthy-")), 0
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    os.chdir(folder)
    Path("job.py").write_text(
        "import os\nprint('rank', os.environ['RANK'], 'of attempt', os.environ['DDPKIT_ATTEMPT'])\n"
    )
    for number in range(1, runs + 1):
        run = ddpkit.launch("job.py", nproc_per_node=2, retries=2, bad_nodes="bad.json")
        code = run.wait().exit_code
        attempts = json.loads((Path(run.folder) / "run.json").read_text())["attempts"]
        if code or len(attempts) != 1 or attempts[0]["decision"] or Path("bad.json").exists():
            wrong += 1
            print(f"run {number}: exit code {code}, attempts {attempts}", flush=True)
        if number % 100 == 0:
            print(f"{number} runs, {wrong} wrong", flush=True)
    print(f"{runs} healthy runs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
