"""Its directory is a variable, and it resumes when it is told to."""

import os
import sys
from pathlib import Path

from training import Training


class Script(Training):
    def load(self) -> None:
        if "--resume" in sys.argv:
            super().load()


sys.exit(Script(Path(os.environ["CKPT_DIR"])).run())
