"""The time and the memory of `explain`, whatever a log holds: bounds for each pattern, for a log, and for long logs."""

from __future__ import annotations

import io
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from near_misses import lines_like

from ddpkit.diagnosis import read
from ddpkit.diagnosis.catalogue import PARTS, Entry
from ddpkit.diagnosis.catalogue.matcher import LONG_LINE, compile_linear
from ddpkit.diagnosis.catalogue.reading import EXPRESSIONS, EXPRESSIONS_OF_INSTEAD
from ddpkit.diagnosis.decide import analyze_log
from ddpkit.diagnosis.events import END_LINES, LogReader
from ddpkit.diagnosis.line_prefixes import MAX_LINE
from ddpkit.diagnosis.read import Limit

LENGTH = 1 << 20
MOST = 1000  # times a linear search of the same length, for one pattern and one line: a ratio, on any machine
FEW = 250  # such times, from which on a line of double the length shows that the time grows with its square at most


def cost(work: Callable[[], object], tries: int = 5) -> float:
    """The least time of the processor in a few tries: a busy machine adds to some, and takes from none."""
    least = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        work()
        least = min(least, time.thread_time() - began)
    return least


def linear_search(tries: int = 5) -> float:
    """The time of a linear search in a line of LONG_LINE characters on this machine, now."""
    pattern, line = re.compile(r"(?:a|b|[c-f])+?:x"), "ab" * (LONG_LINE // 2)
    anchored = re.compile("^" + pattern.pattern)
    return cost(lambda: [anchored.search(line) for _ in range(10)], tries) / 10


@pytest.fixture(scope="module")
def linear() -> float:
    return linear_search()


def expressions(entry: Entry) -> list[re.Pattern[str]]:
    """All regular expressions of an entry as they are searched, with a letter in the place of a group of its match."""
    names = [name for name in EXPRESSIONS if name not in ("patterns", "branches")]
    texts = [getattr(entry, name) for name in names] + [text for _, text in entry.branches]
    texts += [getattr(rule, name) for rule in entry.instead for name in EXPRESSIONS_OF_INSTEAD]
    others = [re.compile(re.sub(r"\(\?P=\w+\)", "x", text)) for text in texts if text]
    return [*map(compile_linear, entry.patterns), *others]


@pytest.mark.parametrize("part", PARTS)
def test_no_expression_explodes(part: str, linear: float) -> None:
    for compiled in (compiled for entry in PARTS[part] for compiled in expressions(entry)):
        for line in lines_like(compiled.pattern, LONG_LINE):
            search = partial(compiled.search, line)
            if cost(search, tries=1) < FEW * linear:
                continue
            for tries in (5, 50):  # a busy machine needs more of them for the least time of each
                once, twice = cost(search, tries), cost(partial(compiled.search, line * 2), tries)
                grows = once >= FEW * linear and twice >= 6 * once
                takes_long = once >= MOST * max(linear, linear_search(tries))  # side by side: it was quieter before
                if not grows and not takes_long:
                    break
            assert not takes_long, (compiled.pattern, line[:80])
            assert not grows, (compiled.pattern, line[:80], once, twice)


SLOW = {
    "a row of _": "_" * 16000,
    "a signed URL": "https://b.s3.amazonaws.com/a?X-Amz-Signature=" + "abc%2Fdef&token=" * 1000,
    "base64": "QUFBQUFBQUFB/+" * 1200,
    "blanks": "error" + " " * 16000 + "x",
    "dots": "a." * 8000,
    "levels": "[E " * 5000,
    "nested JSON": '{"a":' * 3000,
    "errors": "Error: " * 2000,
    "a bar": "10%|x\r" * 2000,
    "frames": 'File "x", line 1, in a ' * 800,
    "headers": "Traceback (most recent call last):",
    "not found": "srun: command not found " * 8,
    "digits": "exitcode" + "1" * 16000,
    "numbers": "1 1.5 " * 2000 + "x",
}


@pytest.mark.parametrize("line", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("end", ["\n", ""], ids=["lines", "one line"])
def test_a_mebibyte_is_read_in_a_moment(line: str, end: str) -> None:
    """2 s of this machine; the bound here is for slow ones. What took minutes would take them on every machine."""
    text = (line + end) * (LENGTH // (len(line) + 1)) + "\n"
    analyze_log([("x", "warm\n")])
    began = time.thread_time()
    analyze_log([("x.log", text)])
    assert time.thread_time() - began < 8


def test_a_failure_behind_a_slow_line_is_found() -> None:
    text = ("_" * 16000 + "\n") * 60 + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    first = analyze_log([("x", text)]).first
    assert first is not None
    assert first.id == "cuda-out-of-memory"


def test_a_failure_in_a_long_line_is_found() -> None:
    for before, after in ((0, 9000), (1200, 300), (900, 9000)):
        text = "x" * before + " torch.cuda.OutOfMemoryError: CUDA out of memory. " + "y" * after
        first = analyze_log([("x", text + "\n")]).first
        assert first is not None
        assert first.id == "cuda-out-of-memory", (before, after)


def test_without_time_the_begin_and_the_end_are_read() -> None:
    lines = [f"line {number} waits for the socket" for number in range(3 * END_LINES)]
    lines[10] = "unrelated"
    lines[-10] = "torch.cuda.OutOfMemoryError: CUDA out of memory."
    reader = LogReader("x", lines, Limit(0.0))
    assert [match.id for match in reader.read()] == ["cuda-out-of-memory"]
    assert len(reader.unread) == 2 * END_LINES


def test_a_signal_ends_the_search() -> None:
    asked: list[int] = []

    def ended() -> bool:
        asked.append(1)
        return True

    reader = LogReader("x", ["connection refused by the socket"] * 100_000, Limit(60, ended))
    reader.read()
    assert len(reader.unread) == 100_000
    assert len(asked) < 5


# ---- long logs


def lines_of(count: int, kind: str) -> list[bytes]:
    made = random.Random(1)
    words = ("train", "loss", "socket", "memory", "connection", "cache")
    if kind == "steps":
        return [b"[%d n1] step %d loss 0.%d" % (number % 8, number, made.randrange(10**6)) for number in range(count)]
    return [f"{made.choice(words)} {made.choice(words)} {made.getrandbits(64):x}".encode() for _ in range(count)]


def test_a_short_log_stays_whole() -> None:
    data = b"\n".join(lines_of(5000, "steps")) + b"\n"
    text = read.condense([data])
    assert text.text.encode() == data
    assert text.numbers is None


def test_of_a_long_log_rare_lines_and_the_ends_of_each_form_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SHORT", 1000)
    lines = lines_of(20_000, "steps")
    lines[9_000] = b"RuntimeError: the one"
    text = read.condense(
        [b"\n".join(lines[:7000]) + b"\n" + lines[7000][:9], lines[7000][9:] + b"\n" + b"\n".join(lines[7001:])]
    )
    assert text.numbers is not None
    kept = text.text.split("\n")[:-1]
    assert [lines[number - 1].decode() for number in text.numbers] == kept
    assert 9_001 in text.numbers
    assert text.numbers[:500] == list(range(1, 501)) or list(text.numbers[:500]) == list(range(1, 501))
    assert list(text.numbers[-500:]) == list(range(19_501, 20_001))
    assert text.left_out == 20_000 - len(kept)


def test_of_very_many_lines_in_a_block_the_rare_ones_and_the_last_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "SHORT", 1000)
    lines = [b""] * 400_000
    lines[300_000] = b"RuntimeError: the one"
    text = read.condense(b"\n".join(lines[at : at + 100_000]) + b"\n" for at in range(0, 400_000, 100_000))
    assert text.numbers is not None
    assert 300_001 in text.numbers
    assert list(text.numbers[-500:]) == list(range(399_501, 400_001))
    assert len(text.numbers) + text.left_out == 400_000
    assert len(text.numbers) < 5000


def test_lines_without_a_common_form_stay_at_the_begin_and_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SHORT", 1000), ("WHOLE", 20_000), ("END", 30_000), ("BLOCK", 1000)):
        monkeypatch.setattr(read, name, value)
    lines = lines_of(10_000, "words")
    text = read.condense(read.blocks_of(io.BytesIO(b"\n".join(lines))))
    assert text.numbers is not None
    assert text.numbers[0] == 1
    assert text.numbers[-1] == 10_000
    assert 40_000 < len(text.text) < 60_000
    assert [lines[number - 1].decode() for number in text.numbers] == text.text.split("\n")[:-1]


def test_of_a_file_the_begin_and_the_end_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SHORT", 1000), ("FIRST", 3000), ("LAST", 5000), ("BLOCK", 1000)):
        monkeypatch.setattr(read, name, value)
    lines = [b"%s %d" % (b"abcdefghij"[number % 10 :], number) for number in range(1000)]
    data = b"\n".join(lines) + b"\n"
    text = read.read_long(io.BytesIO(data), len(data))
    numbers = list(text.numbers or ())
    assert numbers[0] == 1
    assert numbers[-1] == 1000
    whole = [(number, line) for number, line in zip(numbers, text.text.split("\n"), strict=False)]
    wrong = [pair for pair in whole if lines[pair[0] - 1].decode() != pair[1]]
    assert len(wrong) <= 1  # the line across which the begin ends


def test_a_line_that_is_longer_than_a_block_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its begin lies in the part that is not read."""
    for name, value in (("SHORT", 100), ("FIRST", 300), ("LAST", 500), ("BLOCK", 100)):
        monkeypatch.setattr(read, name, value)
    data = b"step\n" * 100 + b"x" * 700 + b"\n" + b"step\n" * 40 + b"RuntimeError: last\n"
    text = read.read_long(io.BytesIO(data), len(data))
    assert text.numbers is not None
    assert dict(zip(text.numbers, text.text.split("\n"), strict=False))[142] == "RuntimeError: last"


def test_the_holes_of_a_file_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a few lines can have a size of terabytes: reading its zeros would take hours."""
    for name, value in (("SHORT", 1000), ("FIRST", 3000), ("LAST", 5000)):
        monkeypatch.setattr(read, name, value)
    path, part = tmp_path / "huge.log", 1 << 41
    with path.open("wb") as file:
        file.write(b"first\n")
        file.seek(part)
        file.write(b"middle\n" * 3)
        file.seek(2 * part)
        file.write(b"\n" + b"step\n" * 2000 + b"RuntimeError: last\n")
    began = time.process_time()
    with path.open("rb") as file:
        file.read(100)  # as the caller does
        file.seek(0)
        text = read.read_long(file, path.stat().st_size)
    assert time.process_time() - began < 10
    assert text.numbers is not None
    lines = dict(zip(text.numbers, text.text.split("\n"), strict=False))
    assert (lines[1], lines[2006]) == ("first", "RuntimeError: last")


def test_a_line_without_an_end_costs_little() -> None:
    text = read.condense(b"x" * read.BLOCK for _ in range(64))
    assert len(text.text) < 2 * read.BLOCK


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 MiB, with a failure in its first mebibyte."""
    path = tmp_path_factory.mktemp("large") / "train.log"
    steps = b"".join(line + b"\n" for line in lines_of(200_000, "steps"))
    failure = b'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nRuntimeError: the one\n'
    with path.open("wb") as file:
        file.write(steps[: 1 << 19].rpartition(b"\n")[0] + b"\n" + failure)
        for _ in range(200 * LENGTH // len(steps) + 1):
            file.write(steps.replace(b"step", b"waits").replace(b"loss", b"at"))
    return path


def used_by(command: list[str], stdin: Path | None = None) -> tuple[str, float, int]:
    """The output of a command, its time of the processor, and its memory in MB."""
    program = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss // 1000)\n"
        "print(done.stdout)"
    )
    with (stdin or Path("/dev/null")).open("rb") as source:
        done = subprocess.run(
            [sys.executable, "-c", program, *command], stdin=source, capture_output=True, text=True, check=True
        )
    head, _, output = done.stdout.partition("\n")
    seconds, memory = head.split()
    return output, float(seconds), int(memory)


@pytest.mark.parametrize("given", ["file", "standard input"])
def test_a_large_log(large_log: Path, given: str) -> None:
    name = str(large_log) if given == "file" else "-"
    stdin = None if given == "file" else large_log
    output, seconds, memory = used_by([sys.executable, "-m", "ddpkit", "explain", name], stdin)
    assert "RuntimeError: the one" in output.splitlines()[0]
    assert seconds < 30  # 1 s here
    assert memory < 150


def test_a_pipe_that_does_not_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    """As `yes | ddpkit explain -`."""
    command = [sys.executable, "-m", "ddpkit", "explain", "-"]
    with subprocess.Popen(["yes", "no end"], stdout=subprocess.PIPE) as endless:
        with subprocess.Popen(command, stdin=endless.stdout, stdout=subprocess.DEVNULL) as reader:
            time.sleep(3)
            status = Path(f"/proc/{reader.pid}/status").read_text()
            reader.send_signal(signal.SIGTERM)
        endless.send_signal(signal.SIGTERM)
    assert int(status.partition("VmHWM:")[2].split()[0]) < 150_000


def test_a_launcher_is_done_soon_after_a_failure(tmp_path: Path) -> None:
    """60 such lines kept it busy for seven minutes, deaf to signals. It takes half a second here."""
    script = tmp_path / "job.py"
    slow = [line for name, line in SLOW.items() if name != "a bar"]
    script.write_text(f"import sys\nfor _ in range(6):\n    print(*{slow!r}, sep='\\n')\nsys.exit(7)\n")
    began = time.monotonic()
    command = [sys.executable, "-m", "ddpkit", "launch", "-n", "1", "--", "job.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 7
    assert time.monotonic() - began < 60


def test_limits_count_the_work_alone() -> None:
    limit = Limit(0.5)
    time.sleep(0.6)
    assert not limit.is_over()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime > 0
    assert MAX_LINE > LONG_LINE
