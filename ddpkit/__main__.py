"""`python -m ddpkit`, and the console script `ddpkit`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    for fd in range(3):
        # Closed by whoever started us, it would be given to the next file or pipe that is opened.
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, ("stdin", "stdout", "stderr")[fd], open(fd, "w" if fd else "r", closefd=False))
    try:
        sys.exit(_run())
    except KeyboardInterrupt:
        sys.exit(130)


def _run() -> int:
    if sys.argv[1:] == ["--version"]:
        # The one question that scripts ask often needs nothing but this.
        from ddpkit import __version__

        print(f"ddpkit {__version__}")
        return 0
    from ddpkit.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    main()
