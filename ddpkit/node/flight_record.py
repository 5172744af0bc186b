"""Reduces a rank's Flight Recorder to what tells a hang, so that the answers of thousands of ranks stay small.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping, Sequence


def reduce_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rank's facts with its record reduced, and with ranks of groups as text."""
    groups = facts.get("groups") or {}
    short = {name: {**group, "ranks": ranges(group["ranks"])} for name, group in groups.items()}
    record = facts.get("fr")
    return {**facts, "fr": reduced(record, groups) if record else record, "groups": short}


def reduced(record: Mapping[str, Any], groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return {"groups", "incomparable", "last"} in place of a record's entries.

    `groups`: by name and backend (`0:gloo`; each counts by itself), with `begun` (number of the last collective),
    `open` ([operation, number, sizes, when it began] of the first that has not ended, or null) and `ops` (JSON of the
    numbers, with operation and sizes, in one text: equal ones are read once). `incomparable`: groups whose numbers
    count send and recv, which not all ranks call. `last`: when a collective began or ended.
    """
    names = [name for name, group in groups.items() if "nccl" in str(group.get("backend"))]
    entries = [_entry(entry, names) for entry in record.get("entries") or []]
    times = [entry.get(key) for entry in entries for key in ("time_created_ns", "time_discovered_completed_ns")]
    odd = {_key(entry) for entry in entries if entry.get("is_p2p") and entry.get("shared_numbers")}
    return {
        **{name: value for name, value in record.items() if name != "entries"},
        "groups": _groups(entries),
        "incomparable": sorted(odd),
        "last": max((time / 1e9 for time in times if time), default=None),
    }


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,8` for [0, 1, 2, 3, 8]."""
    pieces: list[list[int]] = []
    for number in numbers:
        if pieces and pieces[-1][-1] == number - 1:
            pieces[-1][1:] = [number]
        else:
            pieces.append([number])
    return ",".join("-".join(map(str, piece)) for piece in pieces)


def _entry(entry: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return an entry in the form of torch 2.4 and later. `names`: the rank's groups of NCCL, in their order.

    The form of 2.2 and 2.3 numbers the groups of each rank, and has one number for collectives and for send and recv
    (`torch/csrc/distributed/c10d/TraceUtils.h`). The time of 2.2 is in microseconds.
    """
    if "seq_id" not in entry:
        return entry
    group = entry.get("pg_id", 0)
    return {
        "collective_seq_id": entry["seq_id"],
        "process_group": [names[group] if group < len(names) else str(group)],
        "is_p2p": _op(entry).startswith(("send", "recv")),
        "shared_numbers": True,
        "time_created_ns": entry.get("time_created_us", 0) * 1000,
        **entry,
    }


def _groups(recorded: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for entry in recorded:
        if not entry.get("is_p2p"):
            entries.setdefault(_key(entry), []).append(entry)
    groups = {}
    for name, rows in entries.items():
        # Gloo's never say "completed": they are retired when they are done (torch 2.13).
        open_ones = [row for row in rows if not row.get("retired") and row.get("state") != "completed"]
        first = min(open_ones, key=lambda row: int(row["collective_seq_id"]), default=None)
        begun = None if first is None else (first.get("time_created_ns") or 0) / 1e9
        groups[name] = {
            "begun": max(int(row["collective_seq_id"]) for row in rows),
            "open": None if first is None else [_op(first), int(first["collective_seq_id"]), _sizes(first), begun],
            "ops": json.dumps([[int(row["collective_seq_id"]), _op(row), _sizes(row)] for row in rows]),
        }
    return groups


def _key(entry: Mapping[str, Any]) -> str:
    """The group of an entry, by name and backend: `0:gloo`."""
    group = entry.get("process_group") or ["?"]
    return "%s:%s" % (group[0], str(entry.get("profiling_name") or "").partition(":")[0])


def _op(entry: Mapping[str, Any]) -> str:
    """`gloo:all_reduce` as `all_reduce`."""
    return str(entry.get("profiling_name") or "?").rpartition(":")[2]


def _sizes(entry: Mapping[str, Any]) -> str:
    return " ".join("x".join(map(str, shape)) or "1" for shape in entry.get("input_sizes") or [])
