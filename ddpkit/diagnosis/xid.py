"""Meanings of the numbers in NVIDIA's table of Xid errors that have no entry of their own. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_MEANINGS = {
    8: "the GPU did not finish its work in time, and the driver stopped it",
    12: "the driver handled an error of a copy engine",
    32: "a corrupt command came to the GPU, over a bad PCIe link or from a faulty driver",
    38: "an error of the driver's firmware",
    43: "a program's work on the GPU failed and was stopped. A bug of the program is likely, and the GPU is usable",
    61: "the GPU's internal controller stopped at a breakpoint. The GPU needs a reset",
    62: "the GPU's internal controller halted: the hardware or its firmware failed. The GPU needs a reset",
    69: "a command of a program was not valid for the GPU",
    79: "the GPU does not answer on the PCIe bus",
    109: "the GPU did not switch between programs in time: a kernel hangs, as after an earlier error",
    110: "a security fault of the hardware. The GPU needs a reset",
    123: "the power controller of the GPU does not answer. The GPU needs a reset",
    143: "the GPU could not initialize. It needs a reset",
    151: "the GPU's key rotation failed",
    154: "the driver requests a reset of the GPU, or of the node, after an earlier error",
    158: "the GPU did not answer in time. It needs a reset",
}


def meaning_of_xid(number: str) -> Mapping[str, str]:
    """Return the meaning of an Xid as a value of an entry; nothing for one that is not in the table."""
    known = _MEANINGS.get(int(number or 0))
    return {"reason": known} if known else {}
