"""A directory for each checkpoint, which gets its name when it is whole."""

from pathlib import Path

from training import Training, main


class Script(Training):
    def path(self) -> Path:
        whole = sorted(each for each in self.folder.glob("checkpoint-*") if each.suffix != ".tmp")
        return (whole[-1] if whole else self.folder / "none") / "model.json"

    def save(self) -> None:
        place = self.folder / f"checkpoint-{self.state['step']:06}"
        if self.saves() and not place.exists():
            draft = place.with_suffix(".tmp")
            draft.mkdir(exist_ok=True)
            self.write(draft / "model.json")
            (draft / "optimizer.json").write_text("{}")
            draft.rename(place)


main(Script)
