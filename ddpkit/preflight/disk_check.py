"""Check of this machine's disk: the logs and the record of a run must fit."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from ddpkit.diagnosis.symptoms import LOG_FOLDER, find_symptom
from ddpkit.node import inventory
from ddpkit.node.owned import own_file
from ddpkit.preflight.check import Check, Status
from ddpkit.preflight.resource_checks import DISK_FAIL, DISK_WARN, INODES_FAIL, INODES_WARN
from ddpkit.text import format_size_in_digits as size

NEEDS = 1 << 16  # bytes: the head of a log


def check_logs(log_dir: str) -> Check:
    """Check the folder of logs, which a launch makes where it is not there yet."""
    folder = Path(log_dir).absolute()
    place = next(each for each in (folder, *folder.parents) if each.exists())
    room = inventory.space(str(place))
    try:
        with own_file(f"{place}/ddpkit-{os.urandom(8).hex()}", b"\0" * NEEDS):
            pass
    except OSError as error:
        reason = str(error.strerror).lower()
        if error.errno == errno.ENOSPC and room and room["inodes"] and not room["inodes_free"]:
            reason = "no inodes left"
        return _bad("fail", f"cannot write logs to {folder}: {reason}", find_symptom(LOG_FOLDER, reason).cause)
    if room and room["total"]:
        few = bool(room["inodes"]) and room["inodes_free"] < INODES_WARN
        if room["free"] < DISK_WARN:
            text = f"the file system of the log directory {folder} has {size(room['free'])} free"
            return _bad("fail" if room["free"] < DISK_FAIL else "warn", text, "logs need more space")
        if few:
            text = f"the file system of the log directory {folder} has {room['inodes_free']} inodes left"
            return _bad("fail" if room["inodes_free"] < INODES_FAIL else "warn", text, "logs need more space")
    return Check(id="disk", status="pass", host=socket.gethostname(), evidence=f"{folder} is writable")


def _bad(status: Status, evidence: str, cause: str) -> Check:
    return Check(
        id="disk",
        status=status,
        host=socket.gethostname(),
        evidence=evidence,
        cause=cause,
        fix="--log-dir DIR on another file system, or log_dir in ddpkit.toml",
        doc="disk-full",
    )
