"""Readers: values of an entry that lines of a log show beside its pattern, by the name that the entry gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ddpkit.diagnosis import tracebacks
from ddpkit.diagnosis.catalogue.endings import meaning_of
from ddpkit.diagnosis.collectives import joined_by_all, last_error, missing_ranks, reasons_of_mismatch
from ddpkit.diagnosis.driver_version import cuda_of_driver
from ddpkit.diagnosis.gpu_memory import contexts_of_ranks, memory_of_others
from ddpkit.diagnosis.pyxis_log import message_of_enroot
from ddpkit.diagnosis.tensor_shapes import is_part_of_flat, part_of_tensor

Values = Mapping[str, str]
_PORT_TAKEN = re.compile(r"Error: The server socket has failed to ")
_TASK_ENDS = re.compile(r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,-]+): Exited with exit code")


def _words(name: str, words: str) -> Values:
    return {name: words} if words else {}


def tasks_of_hosts(lines: Sequence[str]) -> Values:
    """Say whether srun reports more tasks than hosts, and each of these hosts had a port in use."""
    ends = [end for line in lines if (end := _TASK_ENDS.search(line))]
    hosts = len({end["host"] for end in ends})
    tasks = 1 + max((int(task) for end in ends for task in re.findall(r"\d+", end["tasks"])), default=0)
    twice = 0 < hosts < tasks and (hosts == 1 or sum(map(bool, map(_PORT_TAKEN.search, lines))) >= hosts)
    return {"number": str(tasks)} if twice else {}


# Each gets the values of a match, the lines of its log, and the index of its line.
READERS: Mapping[str, Callable[[Values, Sequence[str], int], Values]] = {
    "barrier": lambda values, lines, index: missing_ranks(values),
    "contexts-of-ranks": lambda values, lines, index: _words("reason", contexts_of_ranks(lines[index])),
    "desync": lambda values, lines, index: joined_by_all(lines, index),
    "driver": lambda values, lines, index: cuda_of_driver(values.get("version", "")),
    "enroot": lambda values, lines, index: message_of_enroot(lines, index),
    "exit-code": lambda values, lines, index: meaning_of(int(values.get("code", "0"))),
    "flat-part": lambda values, lines, index: _words("flat", "1" if is_part_of_flat(lines[index]) else ""),
    "last-error": lambda values, lines, index: last_error(lines, index),
    "memory-of-others": lambda values, lines, index: _words("reason", memory_of_others(lines[index])),
    "mismatch": lambda values, lines, index: reasons_of_mismatch(lines, index),
    "packages": lambda values, lines, index: tracebacks.packages_above(lines, index),
    "shard": lambda values, lines, index: {"reason": part_of_tensor(values["saved"], values["now"])},
    "tasks-of-hosts": lambda values, lines, index: tasks_of_hosts(lines),
}
# These read the whole run, after its first failure is found.
STORIES = frozenset(
    (
        "agents-wait",
        "different-calls",
        "missing-ranks",
        "other-work",
        "ranks-alone",
        "ranks-twice",
        "shared-gpu",
        "slow-names",
        "versions",
    )
)
