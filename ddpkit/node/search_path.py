"""Why a program did not start: it is not there, or it may not run. A part of the supervisor.

The kernel's answer to a name alone is that of the directories in PATH: one that this user may not enter makes it
"Permission denied", also where no other directory has the program. A shell says that the command is not found.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import errno
import os
import shutil


def is_absent(error: OSError, name: str, path: str | None = None) -> bool:
    """Tell whether this error of a start means that there is no such program. `path` replaces PATH."""
    if error.errno != errno.EACCES or "/" in name:
        return error.errno == errno.ENOENT
    return shutil.which(name, os.F_OK, path) is None
