"""A zip, as torch.save writes."""

import json
import time
import zipfile
from pathlib import Path

from training import Training, main


class Script(Training):
    def write(self, path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            for name in ("state", "one", "two", "three"):
                file.writestr(name, json.dumps(self.state) if name == "state" else name * 2000)
                time.sleep(self.piece)

    def path(self) -> Path:
        return self.folder / "model.pt"

    def load(self) -> None:
        if self.path().exists():
            with zipfile.ZipFile(self.path()) as file:
                assert file.testzip() is None
                self.state = json.loads(file.read("state"))


main(Script)
