"""What torchrun, srun and ssh alone do when something is wrong with one of two nodes, and after how long.

Each row of one_bad_node_rows.py makes one fault on one host of the lab, types what a person would type, and writes
down what came on the screen, when, with which exit code, or that nothing came. Then, or instead (`--part test`), what
`ddpkit test` says of the same fault. The table in docs/internals/torchrun-alone.md was measured once. Rows run at once,
each on two nodes of its own; they mostly sleep. Results go to a JSON file as they come, and rows that are in it are not
played again.

    python bench/one_bad_node.py [--limit 1200] [--only L01,N05] [--part alone,test] [--to alone.json]
    python bench/one_bad_node.py --show [--to alone.json]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/lab")]
from bare_nodes import Bare  # noqa: E402
from cluster import LOGIN, Lab  # noqa: E402
from one_bad_node_rows import ROWS, Place, Row  # noqa: E402

SLOTS = 26  # pairs of nodes; more wait in a line
SETTLED = 11.0  # seconds after which torch is imported, and the next row may start
TEST_PATIENCE = 180.0
KEPT = 60  # lines of a side that are kept, from its beginning and its end
TELLS = re.compile(
    r"Error\b.{0,40}: |Error$|error: |Error waiting|No module named|Permission denied|verification failed|not found|"
    r"No space|timed out after|"
    r"Connection (refused|closed|timed|reset)|No route|Read-only|CANCELLED|disabled|refused|^sum |still there|"
    r"got signal|exit code|\(SIG|good morning"
)
NOISE = re.compile(r"ChildFailedError|multiprocessing/api.py|retrying \(|frame #|tail: ")


class Side:
    """One line that a person types on the login host, and what it says from then on."""

    def __init__(self, place: Place, label: str, line: str) -> None:
        self.label, self.line = label, line
        self.code: int | None = None
        self.seconds: float | None = None
        self.lines: list[tuple[float, str]] = []
        self._place = place
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            place.lab.argv(LOGIN, ["bash", "-c", line], place.folder),
            env=place.lab.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            self.lines.append((round(time.monotonic() - self._began, 1), self._place.plain(text.rstrip())))
        self.code = self._process.wait()
        self.seconds = round(time.monotonic() - self._began, 1)

    @property
    def ended(self) -> bool:
        return not self._reader.is_alive()

    def end(self) -> None:
        """It has waited long enough: what it said by now counts, and no exit code."""
        if not self.ended:
            self.waited = round(time.monotonic() - self._began, 1)
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    waited: float | None = None

    def as_dict(self) -> dict[str, Any]:
        lines = self.lines if len(self.lines) <= 2 * KEPT else [*self.lines[:KEPT], *self.lines[-KEPT:]]
        found: dict[str, Any] = {"label": self.label, "typed": self._place.plain(self.line)}
        if self.waited is None:
            found |= {"code": self.code, "seconds": self.seconds}
        else:
            found |= {"waited": self.waited}
        return {**found, "lines": lines}


def telling(lines: Sequence[tuple[float, str]]) -> tuple[float, str] | None:
    """The last line that tells something, for a reader who knows what to look for."""
    for seconds, text in reversed(lines):
        if TELLS.search(text) and not NOISE.search(text):
            return seconds, text
    return None


def alone(row: Row, place: Place, gate: threading.Semaphore, limit: float) -> list[dict[str, Any]]:
    """Type it, and wait until all sides ended or the limit."""
    began = time.monotonic()
    with gate:
        sides = [Side(place, label, place.filled(line)) for label, line in row.typed.items()]
        began = time.monotonic()
        while time.monotonic() - began < SETTLED and not all(side.ended for side in sides):
            time.sleep(0.2)
    first_end = None
    while not all(side.ended for side in sides):
        if any(side.ended for side in sides) and first_end is None:
            first_end = time.monotonic()
        # Where one side failed at once the other waits as it does for any node that does not come.
        over = row.bound is not None and first_end is not None and time.monotonic() - first_end > row.bound
        if over or time.monotonic() - began > limit:
            break
        time.sleep(0.5)
    for side in sides:
        side.end()
    return [side.as_dict() for side in sides]


def asked(row: Row, place: Place, gate: threading.Semaphore) -> dict[str, Any]:
    """What ddpkit says of it."""
    words = [place.filled(word) for word in row.test]
    argv = [sys.executable, "-m", "ddpkit", *words]
    if words[0] == "test":
        argv[4:4] = ["--json"]
    argv = place.lab.argv(LOGIN, ["bash", "-c", place.filled(row.before) + ' "$@"', "bash", *argv], place.folder)
    with gate:
        began = time.monotonic()
        try:
            done = subprocess.run(
                argv,
                env=place.bare.environ(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TEST_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"words": words, "seconds": None, "code": None}
        seconds = round(time.monotonic() - began, 1)
    found: dict[str, Any] = {
        "words": [place.plain(word) for word in words],
        "seconds": seconds,
        "code": done.returncode,
    }
    try:
        shown = json.loads(done.stdout)
        found["seconds"] = shown["seconds"]
        odd = [check for check in shown["checks"] if check["status"] in ("fail", "warn")]
        keys = ("status", "id", "host", "rank", "evidence", "cause", "fix", "doc")
        found["odd"] = [{key: place.plain(str(check[key])) for key in keys} for check in odd]
    except ValueError:
        found["said"] = [place.plain(line) for line in (done.stdout + done.stderr).splitlines()[-25:]]
    return found


def play(row: Row, place: Place, parts: Sequence[str], gate: threading.Semaphore, limit: float) -> dict[str, Any]:
    """One row."""
    found: dict[str, Any] = {"id": row.id, "fault": row.fault}
    for name, text in row.files.items():
        (place.folder / name).write_text(text)
    try:
        row.make(place)
        if "test" in parts and row.test:
            found["test"] = asked(row, place, gate)
        if "alone" in parts and row.typed:
            found["alone"] = alone(row, place, gate, limit)
    except Exception as error:  # one row that cannot be made must not end the others
        found["wrong"] = f"{type(error).__name__}: {error}"
    finally:
        place.clear()
        place.bare.undo()
    return found


class Book:
    """The results, on disk at any moment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.rows: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def add(self, name: str, found: dict[str, Any]) -> None:
        with self._lock:
            self.rows[name] = {**self.rows.get(name, {}), **found}
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(self.rows, indent=1))
            fresh.rename(self._path)
            print(show(name, self.rows[name]), flush=True)


def show(name: str, found: dict[str, Any]) -> str:
    """One row for a reader."""
    lines = [f"{found['id']} {name}: {found['fault']}"]
    if "wrong" in found:
        lines.append(f"    WRONG {found['wrong']}")
    for side in found.get("alone", []):
        end = f"waits after {side['waited']} s" if "waited" in side else f"code {side['code']} at {side['seconds']} s"
        at, text = telling(side["lines"]) or (0, "(nothing)")
        lines.append(f"    {side['label']}: {end}; at {at} s: {text[:230]}")
    test = found.get("test")
    if test:
        odd = [
            f"{each['status']} {each['id']} {each['host']}: {each['evidence'][:120]}" for each in test.get("odd", [])
        ]
        odd += test.get("said", [])[-6:]
        lines.append(
            f"    ddpkit {test['words'][0]}: code {test['code']}, {test['seconds']} s: {'; '.join(odd) or 'nothing'}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds after which waiting has no end")
    parser.add_argument("--only", default="", help="ids or names of rows")
    parser.add_argument("--part", default="alone,test")
    parser.add_argument("--to", type=Path, default=Path("alone.json"))
    parser.add_argument("--slots", type=int, default=SLOTS)
    parser.add_argument("--show", action="store_true", help="print what was found, and do nothing")
    args = parser.parse_args()
    book = Book(args.to)
    if args.show:
        print("\n".join(show(name, found) for name, found in book.rows.items()))
        return 0
    parts, only = args.part.split(","), set(filter(None, args.only.split(",")))
    wanted = {name: row for name, row in ROWS.items() if not only or {row.id, name} & only}
    left = {
        name: row for name, row in wanted.items() if only or not all(part in book.rows.get(name, {}) for part in parts)
    }
    # A limit of those that start: their Pythons import torch.
    gate = threading.BoundedSemaphore(1)
    kinds = (False, True)
    threads = [
        threading.Thread(
            target=all_of, args=({n: r for n, r in left.items() if r.slurm is slurm}, slurm, args, gate, book)
        )
        for slurm in kinds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def all_of(rows: dict[str, Row], slurm: bool, args: argparse.Namespace, gate: threading.Semaphore, book: Book) -> None:
    """The rows of one kind, in a lab for them."""
    if not rows:
        return
    slots = 3 if slurm else min(args.slots, len(rows))
    folder = Path(tempfile.mkdtemp(prefix="ddpkit-alone-"))
    lab = Lab(folder / "lab") if slurm else Lab(folder / "lab", plain=2 * slots)
    pairs: Queue[tuple[str, str, int]] = Queue()
    for number in range(slots):
        # SLURM's four nodes have room for several jobs.
        at = (0, 0, 2)[number] if slurm else 2 * number
        pairs.put((f"node{at + 1}", f"node{at + 2}", 29500 + 100 * number))
    known = threading.Lock()

    def one(name: str, row: Row) -> None:
        with known if row.exclusive else threading.Lock():
            pair = pairs.get()
            place_folder = folder / name
            place_folder.mkdir()
            place = Place(bare=Bare(lab, place_folder), first=pair[0], second=pair[1], port=pair[2])
            try:
                book.add(name, play(row, place, args.part.split(","), gate, args.limit))
            finally:
                pairs.put(pair)

    try:
        lab.up()
        with ThreadPoolExecutor(slots) as pool:
            for each in [pool.submit(one, name, row) for name, row in rows.items()]:
                each.result()
    finally:
        lab.down()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
