"""Planted: workers that ignore TERM, and are waited for."""

import subprocess
import sys

from training import Training, main


class Script(Training):
    def run(self) -> int:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        worker = subprocess.Popen([sys.executable, "-c", code])
        ended = super().run()
        if ended == 0:
            worker.kill()
        worker.terminate()
        worker.wait()
        return ended


main(Script)
