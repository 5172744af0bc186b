"""Workers that end with their rank."""

import subprocess
import sys

from training import Training, main


class Script(Training):
    def run(self) -> int:
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            return super().run()
        finally:
            worker.terminate()
            worker.wait()


main(Script)
