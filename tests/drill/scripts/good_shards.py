"""Each rank has a shard; an index names those of the newest whole checkpoint."""

import json
from pathlib import Path

from training import RANK, Training, main


class Script(Training):
    saved = -1  # the step that the index names

    def path(self) -> Path:
        return self.folder / "index.json"

    def save(self) -> None:
        step = self.state["step"]
        if step == self.saved:  # a kill could tear what the index names
            return
        place = self.folder / f"{step:06}"
        place.mkdir(exist_ok=True)
        self.write(place / f"rank{RANK}.bin")
        self.meet(-step)
        if RANK == 0:
            draft = self.folder / "index.tmp"
            draft.write_text(json.dumps({"step": step}))
            draft.replace(self.path())
        self.saved = step

    def load(self) -> None:
        if self.path().exists():
            step = json.loads(self.path().read_text())["step"]
            self.state = json.loads((self.folder / f"{step:06}" / f"rank{RANK}.bin").read_text())
            del self.state["weights"]
            self.saved = step


main(Script)
