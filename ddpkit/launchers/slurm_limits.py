"""Comparison of a request with the limits of its partition, in words. Pure."""

from __future__ import annotations

import re

from ddpkit.launchers.shell import count

_FIELD = re.compile(r"([\w/:]+)=([^,\s=]+)")
_UNITS = {"K": 2**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}
# Fields of TRES with their units.
_RESOURCES = {"node": "node", "cpu": "CPU", "gres/gpu": "GPU"}


def compare_request(asked: str, partition: str, limits: str) -> str:
    """Describe what a request has too much of: `requested 9 nodes; partition main has 4`. Empty: nothing is known.

    `asked` and `limits`: fields of `scontrol show job` and of `scontrol show partition`.
    """
    wants, has = _fields(asked), _fields(limits)
    too_much, present, allowed = list[str](), list[str](), list[str]()
    for field, unit in _RESOURCES.items():
        wanted, owned = _number(wants.get(field)), _number(has.get(field))
        most = _number(has.get("MaxNodes")) if field == "node" else None
        if wanted is not None and owned is not None and wanted > owned:
            too_much.append(count(wanted, unit))
            present.append(count(owned, unit))
        elif wanted is not None and most is not None and wanted > most:
            too_much.append(count(wanted, unit))
            allowed.append(count(most, unit))
    memory, owned_memory = _megabytes(wants.get("mem")), _megabytes(has.get("mem"))
    if memory is not None and owned_memory is not None and memory > owned_memory:
        too_much.append(f"{wants['mem']} of memory")
        present.append(has["mem"])
    time, most_time = _seconds(wants.get("TimeLimit")), _seconds(has.get("MaxTime"))
    if time is not None and most_time is not None and time > most_time:
        too_much.append(f"a time of {wants['TimeLimit']}")
        allowed.append(has["MaxTime"])
    if not too_much:
        state = has.get("State", "UP")
        return "" if state == "UP" else f"partition {partition} is {state}"
    if len(too_much) == 1:  # its unit is there already
        present, allowed = ([text.split(" ")[0] for text in texts] for texts in (present, allowed))
    parts = [f"{verb} {', '.join(texts)}" for verb, texts in (("has", present), ("allows", allowed)) if texts]
    return f"requested {', '.join(too_much)}; partition {partition} {' and '.join(parts)}"


def _fields(text: str) -> dict[str, str]:
    return dict(_FIELD.findall(re.sub(r"\b(?:Req)?TRES=", "", text)))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _megabytes(text: str | None) -> float | None:
    match = re.fullmatch(r"([\d.]+)([KMGT]?)", text or "")
    return float(match[1]) * _UNITS[match[2] or "M"] if match else None


def _seconds(text: str | None) -> int | None:
    """Parse `D-HH:MM:SS`."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text or "")
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def double_time(limit: str) -> str:
    """Return twice a time limit `D-HH:MM:SS`, in the same form without days."""
    minutes = -(-2 * (_seconds(limit) or 3600) // 60)
    return f"{minutes // 60}:{minutes % 60:02}:00"
