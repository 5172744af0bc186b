"""Planted: an error is printed, and the exit code is 0."""

from training import Training, main


class Script(Training):
    def run(self) -> int:
        try:
            return super().run()
        except Exception as error:
            print(f"error: {error}", flush=True)
            return 0


main(Script)
