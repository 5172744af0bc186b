"""`python -m ddpkit`, and the console script `ddpkit`."""

from __future__ import annotations

import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

COLLECT_AFTER = 20_000  # new objects. With Python's own 700, the imports alone have 50 collections


def _end_quietly(number: int, frame: FrameType | None) -> NoReturn:
    while frame is not None:
        if frame.f_code.co_name == "__set_name__":  # Python before 3.12 makes a RuntimeError of what is raised there
            os._exit(128 + number)
        frame = frame.f_back
    sys.exit(128 + number)


def main() -> None:
    # Until a run has handlers of its own: Ctrl-C while Python still imports is no error to show a traceback for.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_quietly)
    for fd in range(3):
        # Closed by whoever started us, it would be given to the next file or pipe that is opened.
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, ("stdin", "stdout", "stderr")[fd], open(fd, "w" if fd else "r", closefd=False))
    if sys.argv[1:] in (["--version"], ["-V"]):
        # The one question that scripts ask often needs nothing but this.
        from ddpkit.cli import __version__

        print(f"ddpkit {__version__}")
        return
    if "_DDPKIT_COMPLETE" in os.environ:
        from ddpkit.cli import completion

        sys.exit(completion.print_candidates())
    gc.set_threshold(COLLECT_AFTER)
    from ddpkit.cli.app import run

    code = run(sys.argv[1:])
    gc.freeze()  # Python's last collections take a tenth of a short command, and find nothing that is still needed
    # The result is known. Python takes its handlers away before it ends, and one more Ctrl-C would then be the result.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
