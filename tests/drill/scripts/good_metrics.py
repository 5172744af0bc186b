"""Nothing is printed; a file has the metrics."""

import json
import time

from training import RANK, Training, main


class Script(Training):
    def tell(self, step: int) -> None:
        if RANK == 0:
            with (self.folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"step": step, "loss": self.state["weight"], "time": time.time()}) + "\n")


main(Script)
