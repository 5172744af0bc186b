"""Does the drill find what is planted, and nothing in a good script? The scripts of tests/drill/scripts, some at once.

PAUSE=0.15 python bench/drill.py --rounds 3 --jobs 4

PAUSE: seconds of each of 100 steps. A busy machine needs longer runs: a fault takes seconds to be injected.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "tests/drill/scripts"
# The rows that are tried, of which one has to fail. A good script passes all that need neither torch nor a second node.
PLANTED = {
    "no_handler": ("usr1", "term"),
    "epoch_end": ("usr1", "term"),
    "at_end": ("usr1", "term"),
    "no_rename": ("save-kill",),
    "every_rank": ("clean",),
    "repeats": ("resume",),
    "skips": ("resume",),
    "data_again": ("resume",),
    "workers": ("term",),
    "bare_except": ("term",),
    "exit_zero": ("exit",),
    "long_save": ("term",),
    "last_barrier": ("clean",),
}
ROWS = ("clean", "exit", "usr1", "term", "kill", "stop", "save-kill", "disk", "resume")
OPTIONS = ["-n", "2", "-o", "starter=ranks", "--no-preflight"]
SHORT = ["--grace", "5", "--hang-timeout", "8"]  # of planted faults: a save takes 10 s


def drill(name: str) -> dict[str, tuple[str, str]]:
    """Return result and evidence of each row."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
        told = ["--checkpoint-dir-option", "--out"]
        if name == "good_resume":
            told = ["--checkpoint-dir-variable", "CKPT_DIR", "--resume-args=--resume"]
        words = [
            *OPTIONS,
            *(SHORT if name in PLANTED else ()),
            "--faults",
            ",".join(PLANTED.get(name, ROWS)),
            *told,
            "--json",
            "--",
            f"{name}.py",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "ddpkit", "drill", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        try:
            rows = json.loads(done.stdout)["rows"]
        except ValueError:
            raise SystemExit(f"{name}: {done.stderr}") from None
    return {row["row"]: (row["state"], row["evidence"]) for row in rows}


def judge(name: str, rows: dict[str, tuple[str, str]]) -> bool:
    """Whether the planted fault was found; of a good script, whether no row failed."""
    states = {row: state for row, (state, _) in rows.items()}
    return any(states.get(row) == "FAIL" for row in PLANTED.get(name, ROWS)) == (name in PLANTED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1), help="drills at once")
    parser.add_argument("--only", default="", help="names of scripts, with commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [*PLANTED, *sorted(p.stem for p in SCRIPTS.glob("good_*"))]
    right = dict.fromkeys(names, 0)
    with ThreadPoolExecutor(options.jobs) as pool:
        drills = {pool.submit(drill, name): name for _ in range(options.rounds) for name in names}
        for each in as_completed(drills):
            name, rows = drills[each], each.result()
            right[name] += judge(name, rows)
            odd = [f"{row} {state}: {why}" for row, (state, why) in rows.items() if state != "pass"]
            print(f"{name}: {'right' if judge(name, rows) else 'WRONG'}\n  " + "\n  ".join(odd), flush=True)
    print("\n".join(f"{name}: {number} of {options.rounds}" for name, number in right.items()))
    sys.exit(min(right.values()) < options.rounds)


if __name__ == "__main__":
    main()
