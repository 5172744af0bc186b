"""Its drafts are in a directory of their own, beside that of its checkpoints."""

from pathlib import Path

from training import Training, main


class Script(Training):
    def save(self) -> None:
        if self.saves():
            place = Path("drafts")
            place.mkdir(exist_ok=True)
            self.write(place / "draft.json")
            (place / "draft.json").replace(self.path())


main(Script)
