"""Sizes in `CUDA out of memory`: whether other processes use the memory."""

from __future__ import annotations

import pytest

from ddpkit.diagnosis.action import decide
from ddpkit.diagnosis.decide import analyze_log
from ddpkit.diagnosis.readers import memory_of_others

HEAD = "CUDA out of memory. Tried to allocate 290.00 MiB. "
TOTAL = "GPU 0 has a total capacity of 79.15 GiB of which 134.94 MiB is free. "
TORCH = (
    "Of the allocated memory {0} GiB is allocated by PyTorch, and 731.17 MiB is reserved by PyTorch but unallocated."
)
OWN = "Including non-PyTorch memory, this process has {0} GiB memory in use. "


@pytest.mark.parametrize(
    ("text", "others"),
    [
        (
            TOTAL + "Process 4711 has 61.02 GiB memory in use. " + OWN.format("18.00") + TORCH.format("16.9"),
            "process 4711 has 61.02 GiB",
        ),
        # Only this process; the contexts of seven other ranks; in a container, the process does not know its own id.
        (TOTAL + OWN.format("79.00") + TORCH.format("77.1"), ""),
        (
            TOTAL + "Process 11 has 506.00 MiB memory in use. " * 7 + OWN.format("75.30") + TORCH.format("73.0"),
            "",
        ),
        (TOTAL + "Process 2134 has 79.00 GiB memory in use. " + TORCH.format("77.1"), ""),
        (
            TOTAL
            + "Process 2134 has 40.00 GiB memory in use. Process 9 has 39.00 GiB memory in use. "
            + TORCH.format("38.0"),
            "process 2134 has 40.00 GiB",
        ),
        (TOTAL + TORCH.format("77.1"), ""),
        (TOTAL + TORCH.format("20.1"), "about 58.2 GiB of 79.2"),
        # torch 2.0 and older
        (
            (
                "(GPU 0; 10.76 GiB total capacity; 2.42 GiB already allocated; 26.12 MiB free; 2.75 GiB "
                "reserved in total by PyTorch)"
            ),
            "about 8.0 GiB of 10.8",
        ),
        (
            (
                "(GPU 0; 10.76 GiB total capacity; 8.9 GiB already allocated; 6.1 MiB free; 9.7 GiB "
                "reserved in total by PyTorch)"
            ),
            "",
        ),
        # torch 1.3 and older: what is cached stands beside what is allocated
        ("(GPU 0; 3.95 GiB total capacity; 1.62 GiB already allocated; 23.00 MiB free; 9.10 MiB cached)", "about 2.3"),
        ("(GPU 0; 10.91 GiB total capacity; 6.10 GiB already allocated; 2.56 GiB free; 1.35 GiB cached)", ""),
        ("", ""),
        ("Tried to allocate more than 1EB memory.", ""),
    ],
)
def test_memory_of_others(text: str, others: str) -> None:
    found = memory_of_others(HEAD + text)
    assert found.startswith(others) if others else not found


def test_a_request_that_is_larger_than_the_gpu_is_no_sign_of_others() -> None:
    """Seen on an H100 that eleven other processes used."""
    text = "CUDA out of memory. Tried to allocate 128.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which "
    text += "69.74 GiB is free. Process 784 has 8.16 GiB memory in use. " + OWN.format("1.16")
    assert memory_of_others(text) == ""
    assert memory_of_others(text.replace("128.00", "70.00")) == "process 784 has 8.16 GiB"


def test_a_run_is_not_moved_to_another_host_for_it() -> None:
    """Ranks of one job that share a GPU would do so on each host."""
    line = f"[rank1]: torch.OutOfMemoryError: {HEAD}{TOTAL}Process 9 has 60.00 GiB memory in use. {OWN.format('18.9')}"
    result = analyze_log([("log", f"[rank1 node1] start\n{line}\n")])
    assert result.first is not None
    assert result.first.id == "gpu-memory-taken"
    assert decide(result).action == "stop"
