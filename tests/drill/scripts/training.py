"""A small training without torch, for the drill: a loop, checkpoints, signals. Scripts beside it change parts of it.

All ranks do the same, and meet after each step; rank 0 saves and prints. Each rank of a run writes a file for each
step, in the working directory, and waits for those of the others.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PIECES = 4  # in which a checkpoint is written
AGAIN = 75


class Training:
    """What scripts change. `state` is all that a checkpoint has."""

    steps = 100
    every = 10  # steps between two saves
    epoch = 100  # steps
    pause = float(os.environ.get("PAUSE", "0.06"))  # seconds of a step
    piece = 0.02  # seconds of a piece of a checkpoint

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: dict[str, Any] = {"step": 0, "weight": 1.0}
        self.asked = self.ends = False

    # ---- the loop

    def run(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.handle_signals()
        self.load()
        while self.state["step"] < self.steps:
            self.train(self.next_step())
            self.meet(self.state["step"])
            if self.is_time_to_save():
                self.save()
            if self.should_end():
                self.save()
                return AGAIN
        self.finish()
        return 0

    def next_step(self) -> int:
        return int(self.state["step"])

    def train(self, step: int) -> None:
        time.sleep(self.pause)
        self.state["weight"] = (self.state["weight"] * 7919 + self.data(step)) % 10007
        self.state["step"] = step + 1
        self.tell(step)

    def data(self, step: int) -> int:
        return step * step + 1

    def tell(self, step: int) -> None:
        if RANK == 0:
            print(f"step {step} loss {self.state['weight'] / 10007:.4f}", flush=True)

    def is_time_to_save(self) -> bool:
        return bool(self.state["step"] % self.every == 0)

    def should_end(self) -> bool:
        return self.ends

    def finish(self) -> None:
        self.save()

    # ---- the ranks together

    def meet(self, step: int) -> None:
        """Wait for all ranks. One that was asked to end tells the others."""
        place = Path(f"meeting-{os.environ['DDPKIT_RUN']}-{os.environ.get('DDPKIT_ATTEMPT', '')}")
        place.mkdir(exist_ok=True)
        draft = place / f"draft-{RANK}"
        draft.write_text(str(int(self.asked)))
        draft.replace(place / f"{step}-{RANK}")
        together = []
        for rank in range(RANKS):
            while not (place / f"{step}-{rank}").exists():
                time.sleep(0.005)
            together.append((place / f"{step}-{rank}").read_text())
        self.ends = "1" in together

    # ---- signals

    def handle_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self.on_signal)

    def on_signal(self, *_: object) -> None:
        self.asked = True

    # ---- checkpoints

    def path(self) -> Path:
        return self.folder / "latest.json"

    def saves(self) -> bool:
        return RANK == 0

    def save(self) -> None:
        if self.saves():
            draft = self.folder / "draft.tmp"
            self.write(draft)
            draft.replace(self.path())

    def write(self, path: Path) -> None:
        text = json.dumps({**self.state, "weights": list(range(2000))})
        size = len(text) // PIECES + 1
        with path.open("w") as file:
            for start in range(0, len(text), size):
                file.write(text[start : start + size])
                file.flush()
                time.sleep(self.piece)

    def load(self) -> None:
        if self.path().exists():
            self.state = {**json.loads(self.path().read_text()), "weights": None}
            self.state.pop("weights")


def main(kind: type[Training] = Training) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    sys.exit(kind(parser.parse_args().out).run())


if __name__ == "__main__":
    main()
