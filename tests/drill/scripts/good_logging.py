"""Lines of logging, with the time, every second step."""

import logging

from training import RANK, Training, main

logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)


class Script(Training):
    def tell(self, step: int) -> None:
        if RANK == 0 and step % 2:
            logging.info("iter: %d | loss: %.5f | lr: %.1e", step, self.state["weight"] / 7, 1 / (step + 1))


main(Script)
