"""Sample of the resources of one node, with how much of its span each rank waits for other ranks.

The launcher calls it (`rpc.py`).

The thread of `rank_responder.py` looks where the main thread of its rank is. A wait is a place inside
torch.distributed, or a line of a script that calls `wait()` of a work. What a backend's own threads wait for is told by
the collectives: see `ddpkit.monitor.slow`.
"""

from __future__ import annotations

import linecache
import os
import re
import stat
import threading
import time

from ddpkit.node.calls import resource_sample
from ddpkit.node.calls.stack_dump import ask_thread, ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 4.0  # seconds in which a rank answers; a dump may ask it at this moment
SHOWN = 12  # places of one rank
LARGEST = 1 << 22  # bytes of a file whose lines are read
WAITS = re.compile(r"\.\s*wait\s*\(")
INSIDE = "/torch/distributed/"


def sample(
    ranks: dict[str, dict[str, Any]], span: float, waits: int, pss: bool = False, limit: float = resource_sample.LIMIT
) -> dict[str, Any]:
    """Take a sample as `resource_sample` does, with "waits" by rank: what it saw of itself, or {"why": why nothing}.

    waits: collectives of each rank that are reported, the last ones.
    """
    began = _ask(ranks, b"watch %.3f" % span)
    taken = resource_sample.sample(ranks, span, pss, limit)
    watching = {rank: ranks[rank] for rank, (said, _) in began.items() if "end" in said}
    seen = {rank: {"why": why or "it did not answer"} for rank, (_, why) in began.items() if rank not in watching}
    for rank, (said, why) in _ask(watching, b"watched").items():
        seen[rank] = _reduced(said["watch"], waits) if said.get("watch") else {"why": why or "it did not answer"}
    return {**taken, "waits": seen}


def _ask(ranks: dict[str, dict[str, Any]], question: bytes) -> dict[str, tuple[dict[str, Any], str]]:
    """Ask all ranks at once. Returns by rank what it said by kind, and why there is nothing, as `ask_thread`."""
    answers: dict[str, tuple[dict[str, Any], str]] = {}
    until = time.monotonic() + PATIENCE

    def ask(rank: str, pid: int) -> None:
        try:
            answers[rank] = ask_thread(pid, question, until)
        except Exception as problem:
            answers[rank] = {}, "%s: %s" % (type(problem).__name__, problem)

    asked = [threading.Thread(target=ask, args=(rank, each["pid"]), daemon=True) for rank, each in ranks.items()]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join(max(0.0, until + 0.5 - time.monotonic()))
    return {rank: answers.get(rank, ({}, "it did not answer")) for rank in ranks}


def _reduced(watch: dict[str, Any], most: int) -> dict[str, Any]:
    """Return the looks of each part, those in which the rank waited, and where else it was."""
    waited, places = [0] * len(watch["looks"]), []
    for inner, script, counts in watch["places"]:
        if inner and is_wait(inner[0], _line(inner[0], inner[1])):
            waited = [before + more for before, more in zip(waited, counts)]
        else:
            places.append([sum(counts), inner, script])
    groups = {name: ranges(group["ranks"]) for name, group in watch["groups"].items()}
    return {
        "why": "",
        "began": watch["began"],
        "looks": watch["looks"],
        "waited": waited,
        "places": sorted(places, key=lambda place: -place[0])[:SHOWN],
        "collectives": watch["collectives"][-most:] if most else [],
        "cut": len(watch["collectives"]) > most,
        # The numbers of its calls have gaps where it sends or receives.
        "sends": watch["calls"] > len(watch["collectives"]) + 1,
        "groups": groups,
        "off": watch["off"],
    }


def is_wait(file: str, text: str) -> bool:
    """Tell whether the innermost frame of a thread waits for other ranks. `text`: its line, where it can be read.

    A `wait()` that is no function of Python is the innermost frame of the line that calls it.
    """
    return INSIDE in file or bool(WAITS.search(text))


def _line(file: str, number: int) -> str:
    if INSIDE in file:
        return ""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return ""
    return linecache.getline(file, number) if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST else ""
