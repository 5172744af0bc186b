#!/usr/bin/env python3
"""Recorder of the labelled logs: record_cases.py [--missing] [--interop BIN] [CATEGORY or part of a name]...

Provokes each fault again with real programs in the lab, and writes tests/diagnosis/cases/CATEGORY/NAME.txt. It needs
root and the lab's packages (`make lab`); some cases need Open MPI, podman, or `make test-interop`'s Python. The labels
are in recording/*.py: they state what was provoked, and are never taken from an answer.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/lab")]

from recording import scene  # noqa: E402

CASES = ROOT / "tests/diagnosis/cases"


def record(here: scene.Scene, each: scene.Recorded, folder: Path) -> None:
    """Make one log, and write it with its header."""
    here.folder.mkdir(parents=True)
    try:
        here.codes.clear()
        log = here.neutral(each.record(here))
        if each.label["cause"] == "healthy" and any(here.codes):
            raise RuntimeError(f"a healthy run ended with {here.codes}:\n{log}")
    finally:
        while here.undo:
            here.undo.pop()()
        shutil.rmtree(here.folder, ignore_errors=True)
    write(folder / f"{each.name}.txt", each, log)
    print(f"{each.name}: {len(log)} characters", flush=True)


def write(path: Path, each: scene.Recorded, log: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "".join(f"{key}: {value}\n" for key, value in each.label.items())
    path.write_text(f"{header}---\n{log}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--missing", action="store_true", help="cases without a recording only")
    parser.add_argument("--relabel", action="store_true", help="write the headers of recordings again, and no log")
    parser.add_argument("--to", type=Path, default=CASES, help="directory of the recordings")
    parser.add_argument("--interop", default=str(ROOT / ".venv-interop/bin"))
    args = parser.parse_args()
    from recording import clusters, frameworks, healthy, machine, training  # noqa: F401  fill the table

    chosen = [each for name, each in scene.CASES.items() if not args.parts or any(part in name for part in args.parts)]
    if args.relabel:
        for each in chosen:
            if (path := args.to / f"{each.name}.txt").exists():
                write(path, each, path.read_text(encoding="utf-8").partition("---\n")[2])
        return 0
    if args.missing:
        chosen = [each for each in chosen if not (args.to / f"{each.name}.txt").exists()]
    return record_all(chosen, args.to, args.interop)


def record_all(chosen: list[scene.Recorded], folder: Path, interop: str) -> int:
    """Record cases in a lab of their own. Return 1 if one could not be recorded."""
    shared = Path(tempfile.mkdtemp(prefix="ddpkit-record-"))
    lab = scene.Cluster(shared)
    failed = 0
    try:
        lab.up()
        here = scene.Scene(lab, shared / "project", interop)
        for each in chosen:
            try:
                record(here, each, folder)
            except Exception:
                failed += 1
                print(f"{each.name}: not recorded\n{traceback.format_exc()}", flush=True)
    finally:
        lab.down()
        shutil.rmtree(shared, ignore_errors=True)
    print(f"{len(chosen) - failed} recorded, {failed} not")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
