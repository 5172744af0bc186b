"""SLURM's notation of many hosts or counts, expanded in SLURM's order.

`scontrol show hostnames` is no replacement: a container may lack it, and 10,000 ranks would load the controller.
"""

from __future__ import annotations

import re
from itertools import product
from math import prod

from ddpkit.distributed.env_values import is_number
from ddpkit.errors import EnvError

_NO_NAME = re.compile(r"[^\w.-]")
MOST = 65536  # hosts: more are a typing error, and their names would fill the memory


def expand_nodelist(text: str) -> list[str]:
    """Expand `a[01-03,7]b[1-2],c` to host names, in the order of `scontrol show hostnames`.

    The first host has rank 0. `n01` and `n1` are two hosts. Raises EnvError where the text is no node list.
    """
    hosts: list[str] = []
    for item in _split_outside_brackets(text):
        *outer, inner = parts = _parts(item, text)
        if len(hosts) + prod(map(len, parts)) > MOST:
            raise _unreadable(text, f"more than {MOST} hosts")
        # The last bracket varies fastest; of the others the first does: SLURM's order (22.05).
        for chosen in product(*reversed(outer)):
            front = "".join(reversed(chosen))
            hosts.extend(front + last for last in inner)
    return hosts


def first_of_nodelist(text: str) -> str | None:
    """Return the first host of a node list, None for an empty one, without expanding the rest."""
    items = _split_outside_brackets(text)
    return "".join(part[0] for part in _parts(items[0], text, first_only=True)) if items else None


def expand_tasks_per_node(text: str) -> list[int]:
    """Expand SLURM's `3,1(x2)` to `[3, 1, 1]`."""
    counts: list[int] = []
    for item in text.split(","):
        number, _, times = item.strip().partition("(x")
        if not is_number(number) or (times and not (times.endswith(")") and is_number(times[:-1]))):
            raise EnvError(
                f"the tasks per node {text!r} cannot be read: {item!r} is not a count",
                "echo $SLURM_STEP_TASKS_PER_NODE",
            )
        counts.extend([int(number)] * (int(times[:-1]) if times else 1))
    return counts


def _split_outside_brackets(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    if not text.strip():
        return []
    items: list[str] = []
    item = ""
    for piece in text.split(","):
        item = f"{item},{piece}" if item else piece
        if item.count("[") <= item.count("]"):
            if not item.strip():
                raise _unreadable(text, "a name is missing at a comma")
            items.append(item.strip())
            item = ""
    if item:
        raise _unreadable(text, "a bracket is not closed")
    return items


def _parts(item: str, text: str, *, first_only: bool = False) -> list[list[str]]:
    """Cut one item of a node list at its brackets: for each its alternatives, or the first, with the text before it."""
    parts: list[list[str]] = []
    while item:
        name, bracket, item = item.partition("[")
        if "]" in name:
            raise _unreadable(text, "its brackets do not match")
        if _NO_NAME.search(name) or (name[:1] == "-" and not parts):
            raise _unreadable(text, f"{name!r} is not a host name")
        if bracket:
            ranges, _, item = item.partition("]")
            numbers = (name + number for one in ranges.split(",") for number in _numbers(one, text, first_only))
            parts.append([next(numbers)] if first_only else list(numbers))
        else:
            parts.append([before + name for before in parts.pop()] if parts else [name])
    return parts


def _numbers(one: str, text: str, first_only: bool) -> list[str]:
    """Expand `7` or `01-03`, the inside of a bracket, with the zero padding of the lower end."""
    low, dash, high = one.partition("-")
    if not is_number(low) or (dash and not is_number(high)) or (dash and int(high) < int(low)):
        raise _unreadable(text, f"{one!r} is not a range of numbers")
    if not dash or first_only:
        return [low]
    if int(high) - int(low) >= MOST:
        raise _unreadable(text, f"more than {MOST} hosts")
    width = len(low)
    return [str(number).zfill(width) for number in range(int(low), int(high) + 1)]


def _unreadable(text: str, why: str) -> EnvError:
    return EnvError(f"the node list {text!r} cannot be read: {why}", f"scontrol show hostnames {text!r}")
