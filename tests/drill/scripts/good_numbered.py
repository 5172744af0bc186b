"""A file for each checkpoint, of which two are kept."""

from pathlib import Path

from training import Training, main


class Script(Training):
    def path(self) -> Path:
        return max(self.folder.glob("step_*.json"), default=self.folder / "none")

    def save(self) -> None:
        if self.saves():
            draft = self.folder / "draft.tmp"
            self.write(draft)
            draft.replace(self.folder / f"step_{self.state['step']:06}.json")
            for old in sorted(self.folder.glob("step_*.json"))[:-2]:
                old.unlink()


main(Script)
