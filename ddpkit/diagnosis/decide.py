"""Decision: which of the recognised lines is the first failure, by one order. Pure.

Causes come before deaths, failures without a reason, consequences and warnings; of one layer, the earliest comes first.
What is known to explain it, along the edges of the catalogue, takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from ddpkit.diagnosis.log_match import LogMatch

LAYERS = {"cause": 0, "death": 1, "generic": 2, "consequence": 3, "hint": 4}
BELOW = 3  # lines below an error that can hold its reason, as NCCL's `Last error:` does


def first_of(failures: Sequence[LogMatch], hints: Collection[LogMatch]) -> LogMatch:
    """Return the first of some failures, or the warning above that explains it."""
    ended = any(each.top and not each.doubtful for each in failures)
    below = _below_launchers(failures)
    layers = {id(each): _layer(each, late=(each.doubtful and ended) or id(each) in below) for each in failures}
    deaths = [each for each in failures if each.kind == "death"]
    top = min(layers.values())
    timed = all(each.when is not None for each in failures if layers[id(each)] == top)

    def order(match: LogMatch) -> tuple[object, ...]:
        noticed = match.kind == "consequence"
        when = match.when if timed and match.when is not None and not noticed else 0.0
        return layers[id(match)], match.doubtful, noticed and _notices(match), when, _place(match, deaths)

    return _root(min(failures, key=order), (*hints, *failures))


def _layer(match: LogMatch, late: bool) -> float:
    """Return the layer of a failure. `late`: below what has no reason."""
    layer = LAYERS[match.kind]
    return max(layer, LAYERS["generic"] + 0.5) if late else layer


def _below_launchers(failures: Sequence[LogMatch]) -> set[int]:
    """Return the lines, as `id`, that a shell came to after its launcher, which had run something that failed."""
    scopes: dict[str, set[str]] = {}  # of the failures above, by file
    found = set()
    for each in sorted(failures, key=lambda each: each.number):
        above = scopes.setdefault(each.file, set())
        if each.scope == "shell" and "launcher" in above and above - {"launcher", "shell"}:
            found.add(id(each))
        above.add(each.scope)
    return found


def _notices(match: LogMatch) -> tuple[bool, bool]:
    """Order consequences: who reports the end of a process says more than those that noticed."""
    return not match.decisive, not match.values.get("local")


def _place(match: LogMatch, deaths: Sequence[LogMatch]) -> int:
    """Return the line of a failure; of a cause that is reported at the end, the line of the first death from it."""
    if match.kind != "cause":
        return match.number
    own = (each.number for each in deaths if each.file == match.file and explains(match, each))
    return min((match.number, *own))


def _root(first: LogMatch, candidates: Collection[LogMatch]) -> LogMatch:
    """Follow the edges of the catalogue from a failure to what explains it."""
    seen = {id(first)}
    while True:
        reasons = (each for each in candidates if id(each) not in seen and explains(each, first))
        reason = next((each for each in reasons if _can_precede(each, first)), None)
        if reason is None:
            return first
        seen.add(id(reason))
        first = reason if reason.kind == "consequence" else replace(reason, kind="cause")


def _can_precede(reason: LogMatch, failure: LogMatch) -> bool:
    if reason.file != failure.file or reason.number < failure.number:
        return True
    # Another rank may be the one that prints the reason, and its lines can come later.
    return reason.number <= failure.end + BELOW or reason.kind == failure.kind == "generic"


def explains(match: LogMatch, failure: LogMatch) -> bool:
    """Whether a failure has its reason in another line."""
    if match.entry is None:
        return False
    if failure.id in match.entry.explains:
        return True
    text = match.entry.explains_text
    return failure.entry is None and bool(text) and re.search(text, failure.text) is not None
