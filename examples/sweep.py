"""Three learning rates, each as a run of its own, at the same time: `python examples/sweep.py`.

One of them fails. The table shows the loss of the others, and of that one the rank, the exit code and the last line.
Each run has two ranks on this machine; `backend="ssh", hosts=[...]` in `launch` takes them elsewhere.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ddpkit

RATES = (0.1, 0.3, 1.5)
# Minimises (w - 3)^2 by gradient descent. It needs no torch, and its steps are those of a training script.
SCRIPT = """
import json, os, sys
rate, w = float(sys.argv[1]), 0.0
for step in range(100):
    w -= rate * 2 * (w - 3)
    loss = (w - 3) ** 2
    if loss > 1e6:
        raise FloatingPointError(f"loss is {loss:.3g} at step {step}")
if os.environ["RANK"] == "0":
    print(json.dumps({"loss": loss}))
"""


def train(rate: float) -> tuple[float, ddpkit.Outcome, str]:
    """Run the script with one learning rate to its end. Returns the outcome, and the loss or the reason for none."""
    run = ddpkit.launch("-c", [SCRIPT, str(rate)], nproc_per_node=2, grace=2)
    outcome = run.wait()
    if outcome.failure is not None:
        failure = outcome.failure
        return rate, outcome, f"rank {failure.rank} on {failure.host}: {failure.last_lines[-1]}"
    loss = next(json.loads(line.text)["loss"] for line in run.logs(rank=0) if line.text.startswith("{"))
    return rate, outcome, f"{loss:.2e}"


def main() -> int:
    with ThreadPoolExecutor(len(RATES)) as pool:
        results = list(pool.map(train, RATES))
    print(f"{'rate':>5}  {'state':<7} {'code':>4} {'seconds':>8}  loss")
    for rate, outcome, loss in results:
        print(f"{rate:>5}  {outcome.state:<7} {outcome.exit_code:>4} {outcome.seconds or 0:>8.1f}  {loss}")
    print(f"logs: {Path('logs').absolute()}")
    return 0 if any(outcome.ok for _, outcome, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
