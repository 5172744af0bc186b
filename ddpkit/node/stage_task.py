"""Loads `stage.py` and the modules beside this file, as a program in a SLURM step.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in ("ddpkit", "ddpkit.node"):
        sys.modules[name] = type(sys)(name)
    sys.modules["ddpkit.node"].__path__ = [folder]
    from ddpkit.node.stage import main

    sys.exit(main(folder, sys.argv[1:]))
