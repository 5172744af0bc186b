"""Removal of a run's directory: only what ddpkit made, only after its end, and what else lies in it is named first."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import NamedTuple

from ddpkit.errors import DdpkitError, UsageError
from ddpkit.files import adopt_directory, is_owned, remove_directory
from ddpkit.run import launcher_process, run_files, run_index
from ddpkit.run.record import Run
from ddpkit.run.run_files import KIND
from ddpkit.run.trust import Origin, is_replaceable

PATIENCE = 5.0  # seconds for a launcher whose run has ended: it still copies metrics


class Removable(NamedTuple):
    """The directory of an ended run that may be removed. Another one that takes its name later may not."""

    run: Run
    seen: os.stat_result | None  # None: somebody removed it already
    others: list[str]  # names in it that are not ddpkit's


def check_removable(run: Run) -> Removable:
    """Check the directory of an ended run. Raises DdpkitError: it has to stay."""
    folder = Path(run.folder)
    shown = shlex.quote(run.folder)
    try:
        status = folder.lstat()
        names = run_files.others(folder)
    except FileNotFoundError:
        return Removable(run, None, [])
    except OSError as error:
        raise _refused(run, error.strerror or str(error)) from None
    if run.origin is Origin.OTHERS or status.st_uid != os.geteuid():
        raise UsageError(f"run {run.run_id} {run_index.whose(run)}; {folder} was not removed", f"ls -la {shown}")
    known = is_owned(run.folder, KIND) or (
        run.origin is Origin.INDEX and folder.name == run.run_id and not is_replaceable(folder)
    )
    if not known:
        raise UsageError(f"ddpkit did not make {folder}: it was not removed", f"ls -la {shown}")
    if run.in_program or not launcher_process.is_local(run):
        return Removable(run, status, names)
    if not launcher_process.wait_for_end(run, PATIENCE):
        what = f"the launcher of run {run.run_id} (process {run.launcher_pid}) has not ended; nothing was removed"
        raise UsageError(what, f"ddpkit status {shlex.quote(run.run_id)}")
    return Removable(run, status, names)


def remove_run(checked: Removable) -> None:
    """Remove the directory of a run that was checked, and its file in the index. Raises DdpkitError."""
    run, seen = checked.run, checked.seen
    try:
        if seen is not None:
            if not is_owned(run.folder, KIND):
                adopt_directory(run.folder, KIND, seen)  # version 0.2 made it
            remove_directory(run.folder, KIND, seen)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _refused(run, f"{error.filename or run.folder}: {error.strerror}") from None
    run_index.forget(run.run_id)


def _refused(run: Run, why: str) -> DdpkitError:
    return DdpkitError(f"cannot remove run {run.run_id}: {why}", f"ls -ld {shlex.quote(run.folder)}")
