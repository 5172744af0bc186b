"""`python -m ddpkit`, and the console script `ddpkit`."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        # The one question that scripts ask often needs nothing but this.
        from ddpkit import __version__

        print(f"ddpkit {__version__}")
        return
    from ddpkit.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
