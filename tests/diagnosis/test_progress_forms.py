"""A run that goes on after a caught error is healthy, in whatever form it prints its progress."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ddpkit.diagnosis.action import decide
from ddpkit.diagnosis.decide import analyze_log

# Each program prints a line a step. A real one runs: its traceback is Python's own.
FORMS = {
    "csv": 'print(f"{step},{loss:.4f},{acc:.3f},{lr:.2e}")',
    "gan": 'print(f"[{step}] D: {loss:.2f} G: {loss * 2:.2f}")',
    "german": 'print(f"Schritt {step} von {total}: Verlust {loss:.3f}, Genauigkeit {acc:.2f}")',
    "french": 'print(f"étape {step} perte {loss:.3f}")',
    "chinese": 'print(f"第{step}步 损失={loss:.4f}")',
    "keras": 'print(f"{step}/{total} [==============>...............] - ETA: {total - step}s - mse: {loss:.4f}")',
    "count": 'print(f"{step}/{total}")',
    "frames": 'print(f"frames {step * 4096} fps {900 + step % 17} ep_rew_mean {-200 + step / 10:.1f}")',
    "boosting": 'print(f"[{step}]\\ttrain-rmse:{loss:.5f}\\teval-rmse:{loss * 1.1:.5f}")',
    "detector": 'print(f"{step:>9}/{total}     4.41G     {loss:.3f}     {acc:.3f}     0.9121         28        640")',
    "json": 'print(f\'{{"s": {step}, "l": {loss:.3f}}}\')',
    "python dict": 'print({"it": step, "nll": round(loss, 4)})',
    "numbers": 'print(step, f"{loss:.4f}", f"{acc:.3f}")',
    "table": 'print(f"| {step:5d} | {loss:8.4f} | {acc:6.3f} | {lr:.1e} |")',
    "logger": 'print(f"2026-01-01 10:{step // 60 % 60:02d}:{step % 60:02d},123 - solver - t={step} |grad|={loss:.3e}")',
    "bar": 'print(f"\\r{step}/{total} {\'#\' * (step % 40)} {loss:.3f}", end="")',
}
PROGRAM = """
import sys, traceback
total = 3000
def sample(step):
    if step == 7:
        raise ERROR
for step in range(total):
    loss, acc, lr = 5 / (step + 1), 1 - 1 / (step + 2), 1e-3 / (step + 1)
    try:
        sample(step)
    except Exception:
        sys.stdout.flush()
        traceback.print_exc()
        sys.stderr.flush()
    LINE
    sys.stdout.flush()
"""
ERRORS = ('ValueError("a sample has no label")', 'RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")')


def printed(line: str, error: str, cut: str = "") -> str:
    program = PROGRAM.replace("LINE", line).replace("ERROR", error).replace("total = 3000", cut or "total = 3000")
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("error", ERRORS, ids=["own", "known"])
@pytest.mark.parametrize("form", FORMS)
def test_progress_in_any_form_shows_that_the_run_went_on(form: str, error: str) -> None:
    result = analyze_log([("log", printed(FORMS[form], error))])
    assert result.first is None or result.first.kind == "hint"
    assert decide(result).action == "retry"
    assert result.survived


@pytest.mark.parametrize("form", FORMS)
def test_progress_above_a_failure_hides_nothing(form: str) -> None:
    lines = printed(FORMS[form], "ValueError('x')").splitlines(keepends=True)
    at = next(index for index, line in enumerate(lines) if "ValueError" in line)
    result = analyze_log([("log", "".join(lines[: at + 1]))])
    assert result.first is not None
    assert result.first.id == "own-exception"


def test_progress_of_a_buffer_below_a_traceback_is_no_progress_after_it() -> None:
    """Standard output that is not a terminal is written in blocks, the last one when the process ends."""
    trace = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    go()\nKeyError: 1\n'
    steps = "".join(f"step {each} loss {1 / (each + 1):.4f}\n" for each in range(20_000))
    buffered, long = (analyze_log([("log", trace + text)]).first for text in (steps[:8000], steps))
    assert buffered is not None
    assert buffered.id == "own-exception"
    assert long is None
