"""The first failure among ends that came within milliseconds: causes before consequences, then the earlier time."""

from __future__ import annotations

import random
import signal

import pytest

from ddpkit.node.supervision.first_failure import HEAD, KEPT, WINDOW, End, Kind, LastWords, first_failure

PEER = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.2]:48330\n"
WAITED = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete\n"


def traceback(last: str, front: str = "") -> str:
    lines = [f"{HEAD}:", '  File "job.py", line 7, in <module>', "    step()", *last.splitlines()]
    return "".join(f"{front}{line}\n" for line in lines)


# name: (rank, seconds, kind) of each end, and the rank that is first
CASES = {
    "one alone": ([(3, 0.0, Kind.PEER)], 3),
    "the earlier of two causes": ([(0, 1.0, Kind.OWN), (1, 0.9, Kind.OWN)], 1),
    "lost its peer 2 ms later": ([(0, 1.002, Kind.PEER), (1, 1.0, Kind.OWN)], 1),
    "lost its peer 2 ms earlier": ([(0, 0.998, Kind.PEER), (1, 1.0, Kind.OWN)], 1),
    "its process took 2 s to end": ([(0, 1.0, Kind.PEER), (1, 3.0, Kind.OWN)], 1),
    "a later failure is another one": ([(0, 1.0, Kind.PEER), (1, 1.1 + WINDOW, Kind.OWN)], 0),
    "waited in vain for a dead rank": ([(0, 1.0, Kind.WAITED), (1, 1.5, Kind.OWN)], 1),
    "two waited in vain": ([(2, 30.0, Kind.WAITED), (0, 30.01, Kind.WAITED)], 2),
    "one waited, the others lost it": ([(0, 30.0, Kind.PEER), (2, 30.01, Kind.WAITED)], 2),
    "all lost a peer that lives": ([(2, 1.01, Kind.PEER), (0, 1.0, Kind.PEER)], 0),
    "torchrun ended the rest": ([(1, 1.0, Kind.PEER), (0, 1.1, Kind.TERMINATED)], 1),
    "torchrun ended one that was raising": ([(0, 1.0, Kind.PEER), (2, 1.1, Kind.TERMINATED), (1, 0.9, Kind.OWN)], 1),
    "a user ended one under srun": ([(1, 1.0, Kind.TERMINATED), (0, 1.1, Kind.PEER)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_first_failure(name: str) -> None:
    ends, rank = CASES[name]
    for _ in range(10):
        random.shuffle(ends)
        assert first_failure([End(*end) for end in ends]).rank == rank


# name: output, exit code, signal, under an agent; kind and exception
ENDS = {
    "exit code alone": ("step 1\n", 7, None, False, Kind.OWN, ""),
    "exception": (traceback("ValueError: no such thing"), 1, None, False, Kind.OWN, "ValueError"),
    "exception of a module": (traceback("torch.OutOfMemoryError: no"), 1, None, False, Kind.OWN, "OutOfMemoryError"),
    "no message": (traceback("KeyboardInterrupt"), 1, None, False, Kind.OWN, "KeyboardInterrupt"),
    "peer": (traceback(PEER), 1, None, False, Kind.PEER, "RuntimeError"),
    "peer, by torch's excepthook": (traceback(PEER, "[rank0]: "), 1, None, False, Kind.PEER, "RuntimeError"),
    "peer, C++ frames below": (
        traceback(PEER + "frame #0: c10::Error\n" * 60), 1, None, False, Kind.PEER, "RuntimeError",
    ),
    "peer, then another exception": (
        traceback(PEER) + "\nThe above exception was the direct cause of the following exception:\n\n"
        + traceback("TrainError: step failed"), 1, None, False, Kind.PEER, "TrainError",
    ),
    "a peer's end, dealt with long before": (
        traceback(PEER) + "retry 1\n" + traceback("ValueError: so"), 1, None, False, Kind.OWN, "ValueError",
    ),
    "caught and printed": (f"lost: {PEER}", 3, None, False, Kind.PEER, ""),
    "printed, and steps since": (f"lost: {PEER}" + "step\n" * 30, 3, None, False, Kind.OWN, ""),
    "the text in the code of a frame": (
        f'{HEAD}:\n  File "job.py", line 7\n    raise X("closed by peer")\nValueError: so\n', 1, None, False, Kind.OWN,
        "ValueError",
    ),
    "waited": (traceback(WAITED), 1, None, False, Kind.WAITED, "RuntimeError"),
    "NCCL's watchdog": ("[Rank 0] Watchdog caught collective operation timeout: x\n", None, 6, False, Kind.WAITED, ""),
    "killed": (traceback(PEER), None, 9, False, Kind.OWN, ""),
    "segmentation fault": ("", None, 11, True, Kind.OWN, ""),
    "broken pipe": ("", None, signal.SIGPIPE, False, Kind.PEER, ""),
    "TERM of a user": ("", None, 15, False, Kind.OWN, ""),
    "TERM of torchrun": ("step 1\n", None, 15, True, Kind.TERMINATED, ""),
    "TERM of torchrun, while it raised": (traceback("ValueError: so"), None, 15, True, Kind.OWN, "ValueError"),
    "TERM of torchrun, peer lost": (traceback(PEER), None, 15, True, Kind.TERMINATED, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_last_words(name: str) -> None:
    text, code, number, agent, kind, exception = ENDS[name]
    words = LastWords()
    for line in text.splitlines(keepends=True):
        words.take(line, 100.0)
    seen, since, raised = words.of_end(code, number, 102.0, agent=agent)
    assert (seen, raised) == (kind, exception)
    assert since == (100.0 if raised else 102.0)


def test_an_old_traceback_is_not_the_end() -> None:
    words = LastWords()
    words.take(traceback("ValueError: logged"), 100.0)
    assert words.of_end(7, None, 500.0, agent=False) == (Kind.OWN, 500.0, "")
    assert words.of_end(None, 15, 110.0, agent=True) == (Kind.TERMINATED, 110.0, "")


def test_output_without_an_end_costs_little() -> None:
    words = LastWords()
    for _ in range(1000):
        words.take("x" * 20_000, 1.0)
    assert len(words._text) == KEPT
    assert words.of_end(1, None, 2.0, agent=False)[0] is Kind.OWN
