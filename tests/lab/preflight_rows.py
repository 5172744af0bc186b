"""`ddpkit test --json` in the lab, and what it has to say of a fault."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bare_nodes import Bare, busy
from cluster import LOGIN
from program import run_to_end

LIMIT = 15.0  # seconds


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What `ddpkit test --json` said."""

    code: int
    seconds: float
    slow: bool
    err: str
    checks: list[dict[str, Any]]

    def bad(self, *statuses: str) -> list[dict[str, Any]]:
        return [check for check in self.checks if check["status"] in (statuses or ("fail",))]

    @property
    def text(self) -> str:
        odd = "\n".join(map(str, self.bad("fail", "warn", "unknown")))
        return f"exit code {self.code} after {self.seconds:.1f} s\n{odd}\n{self.err}"


def examine(bare: Bare, *args: str, before: list[str] | None = None) -> Seen:
    """`ddpkit test ARGS --json` on the login host, to its end."""
    slow = busy()
    began = time.monotonic()
    done = run_to_end(
        bare.lab.argv(LOGIN, [*(before or []), sys.executable, "-m", "ddpkit", "test", *args, "--json"], bare.folder),
        env=bare.environ(),
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout, done.stderr
    seconds, report = time.monotonic() - began, json.loads(done.stdout)
    assert report["ok"] == (done.returncode == 0), done.stdout
    return Seen(code=done.returncode, seconds=seconds, slow=slow or busy(), err=done.stderr, checks=report["checks"])


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault, and what has to be said of it: regular expressions."""

    fault: Callable[[Bare], list[str]]  # returns options
    id: str
    evidence: str
    cause: str = "."
    fix: str = "."
    doc: str
    host: str | None = "node3"
    rank: int | None = 2
    level: str = "fail"
    limit: float = LIMIT


def named(row: Row, done: Seen) -> None:
    """One finding, or one for each that tells it: host, rank, evidence, cause, fix; and in time."""
    assert done.code == (122 if row.level == "fail" else 0), done.text
    found = done.bad(row.level)
    assert {(check["id"], check["host"], check["rank"]) for check in found} == {(row.id, row.host, row.rank)}, done.text
    assert len(found) == 1, done.text
    (check,) = found
    assert re.search(row.evidence, check["evidence"]), done.text
    assert re.search(row.cause, check["cause"]) or row.cause == ".", done.text
    assert check["cause"], done.text
    assert re.search(row.fix, check["fix"]), done.text
    assert check["doc"] == row.doc, done.text
    assert "Traceback" not in done.err
    print(f"{row.doc}: {done.seconds:.1f} s{' (busy)' if done.slow else ''}")
    # The bound is that of a machine with nothing else to do; other tests run beside this one.
    assert done.seconds < 2 * row.limit or done.slow, done.text
