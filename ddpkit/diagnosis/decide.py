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
    layers = {id(each): _layer(each, failures) for each in failures}
    top = min(layers.values())
    timed = all(each.when is not None for each in failures if layers[id(each)] == top)

    def order(match: LogMatch) -> tuple[object, ...]:
        noticed = match.kind == "consequence"
        when = match.when if timed and match.when is not None and not noticed else 0.0
        return layers[id(match)], match.doubtful, noticed and _notices(match), when, _place(match, failures)

    return _root(min(failures, key=order), (*hints, *failures))


def _layer(match: LogMatch, failures: Sequence[LogMatch]) -> float:
    """Return the layer of a failure.

    Below what has no reason: a text of healthy runs where an exception ended the program, and a line that a shell
    came to after its launcher.
    """
    raised = match.doubtful and any(each.top and not each.doubtful for each in failures)
    above = [each for each in failures if each.file == match.file and each.number < match.number]
    scopes = {each.scope for each in above}
    later = match.scope == "shell" and "launcher" in scopes and bool(scopes - {"launcher", "shell"})
    layer = LAYERS[match.kind]
    return max(layer, LAYERS["generic"] + 0.5) if raised or later else layer


def _notices(match: LogMatch) -> tuple[bool, bool]:
    """Order consequences: who reports the end of a process says more than those that noticed."""
    return not match.decisive, not match.values.get("local")


def _place(match: LogMatch, failures: Sequence[LogMatch]) -> float:
    """Return the line of a failure; of one that is reported at the end, the line of the death that it explains."""
    deaths = (each.number for each in failures if each.kind == "death" and each.file == match.file)
    explained = match.kind == "cause" and any(each.kind == "death" and explains(match, each) for each in failures)
    return min(deaths, default=match.number) if explained else match.number


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
