"""Lines arrive whole, once, with the right rank in front, and the logs hold what the rank wrote, byte for byte."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT
from run_logs import all_lines

from ddpkit.console.relay import Relay
from ddpkit.run.log_files import LogFiles


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    relay = Relay(LogFiles(tmp_path), io.BytesIO(), io.BytesIO())
    yield relay
    relay.close()


def shown(relay: Relay) -> bytes:
    assert isinstance(relay.out, io.BytesIO)
    return relay.out.getvalue()


def test_each_line_has_its_rank_and_host(relay: Relay) -> None:
    relay.write(3, "node2", "torchrun", 1, b"one\n\ntwo\n")
    assert shown(relay) == b"[3 node2] one\n[3 node2] \n[3 node2] two\n"


def test_the_agent_has_its_name(relay: Relay) -> None:
    relay.write(None, "node2", "torchrun", 1, b"one\n")
    assert shown(relay) == b"[torchrun node2] one\n"


def test_a_prompt_is_shown_at_once_and_what_follows_begins_a_line(relay: Relay) -> None:
    relay.write_prompt(0, "a", "", 1, b"(Pdb) ")
    assert shown(relay) == b"[0 a] (Pdb) "
    relay.write(1, "a", "", 1, b"other\n")
    relay.write_prompt(0, "a", "", 1, b"(Pdb) ")
    relay.end_prompt()  # by a key on the terminal
    relay.write(0, "a", "", 1, b"41\n")
    assert shown(relay) == b"[0 a] (Pdb) \n[1 a] other\n[0 a] (Pdb) [0 a] 41\n"


def test_standard_error_stays_apart(relay: Relay) -> None:
    relay.write(0, "a", "", 2, b"oops\n")
    assert shown(relay) == b""
    assert isinstance(relay.err, io.BytesIO)
    assert relay.err.getvalue() == b"[0 a] oops\n"


def test_colour_is_only_for_the_label(tmp_path: Path) -> None:
    relay = Relay(LogFiles(tmp_path), io.BytesIO(), io.BytesIO(), rich={1})
    relay.write(0, "a", "", 1, b"x\n")
    assert shown(relay) == b"\x1b[36m[0 a] \x1b[0mx\n"
    relay.close()
    assert all_lines(tmp_path) == "[0 a] x\n"


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (b"plain \ttext \xc3\xa9 \xff", b"plain \ttext \xc3\xa9 \xff"),
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b"\x1b[8mhidden", b"\x1b[8mhidden\x1b[0m"),
        (b"a\x1b]52;c;aGk=\x07b\x1b]0;title\x1b\\c", b"abc"),
        (b"a\x1b]52;c;", b"a"),
        (b"a\x1b[2J\x1b[?1049h\x1b[6n\x1b[Ab\x1bc\x1b(0\x1b", b"ab"),
        (b"\x1bP+q544e\x1b\\\x1b_apc\x1b\\\x1b^pm\x1b\\x", b"x"),
        (b"\x00\x07\x0b\x7f\xc2\x9b31mx", b"31mx"),
        (b"1%\x08\x0822%", b"22%"),
        (b"x" + b"\x08" * 20 + b"ddpkit: done", b"ddpkit: done"),
    ],
)
def test_a_terminal_shows_text_and_colours_alone(line: bytes, seen: bytes, tmp_path: Path) -> None:
    """The start of a sequence took the verdict in. The logs, and other outputs, have all bytes."""
    relay = Relay(LogFiles(tmp_path), io.BytesIO(), io.BytesIO(), terminals={1})
    relay.write(0, "a", "", 1, line + b"\n")
    relay.write(0, "a", "", 2, line + b"\n")
    assert shown(relay) == b"[0 a] " + seen + b"\n"
    assert isinstance(relay.err, io.BytesIO)
    assert relay.err.getvalue() == b"[0 a] " + line + b"\n"
    relay.close()
    assert (tmp_path / "rank_0.log").read_bytes() == 2 * (line + b"\n")


def test_a_progress_bar_is_shown_rarely_and_kept_whole(relay: Relay) -> None:
    states = b"".join(b"\r%d%%" % number for number in range(100))
    for start in range(0, len(states), 7):
        relay.write(0, "a", "", 1, states[start : start + 7] + b"\r")
    relay.write(0, "a", "", 1, b"\r100%\n")
    relay.close()
    lines = shown(relay).splitlines()
    assert lines[-1] == b"[0 a] 100%"
    assert len(lines) == 2
    assert all_lines(relay.folder) == "[0 a] 100%\n"


def test_windows_line_ends(relay: Relay) -> None:
    relay.write(0, "a", "", 1, b"one\r\ntwo\r\n")
    assert shown(relay) == b"[0 a] one\n[0 a] two\n"


BYTES = r"""
import os, sys
os.write(1, b"caf\xe9 \xff\x00 raw\n")
os.write(2, b"\xf0\x9f\x98\x80 four bytes\n")
os.write(1, b"no end")
"""


@pytest.mark.parametrize("options", [[], ["-o", "preload=json"]], ids=str)
def test_logs_hold_the_bytes(options: list[str], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(BYTES)
    done = ddpkit("launch", "-n", "1", *options, "--", "job.py")
    assert done.returncode == 0
    (log,) = tmp_path.glob("logs/*/rank_0.log")
    assert sorted(log.read_bytes().split(b"\n")) == sorted(
        [b"caf\xe9 \xff\x00 raw", b"\xf0\x9f\x98\x80 four bytes", b"no end"]
    )
    assert "] no end\n" in done.stdout


MANY = """
import os, sys
rank = os.environ["RANK"]
for number in range(20000):
    sys.stdout.write(f"{rank}:{number}:" + "x" * (number % 97) + "\\n")
sys.stdout.write("y" * 3_000_000 + "\\n")
"""


@pytest.mark.parametrize("options", [[], ["-o", "preload=json"]], ids=str)
def test_no_line_is_lost_or_torn(options: list[str], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script(MANY)
    done = ddpkit("launch", "-n", "3", *options, "--env", "PYTHONUNBUFFERED=", "--", "job.py")
    assert done.returncode == 0, done.stderr
    got: dict[str, list[str]] = {"0": [], "1": [], "2": []}
    long = 0
    for line in done.stdout.splitlines():
        label, _, text = line.partition("] ")
        rank = label[1:].split()[0]
        if text.startswith("y"):
            long += text.count("y")
        else:
            got[rank].append(text)
    for rank, lines in got.items():
        assert lines == [f"{rank}:{number}:" + "x" * (number % 97) for number in range(20000)]
    assert long == 9_000_000
    for rank in got:
        (log,) = tmp_path.glob(f"logs/*/rank_{rank}.log")
        assert log.read_text().count("\n") >= 20001


CLOSED = """
import os, sys
os.close(1)
os.close(2)
"""


def test_a_rank_may_close_its_output(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(CLOSED)
    assert ddpkit("launch", "-n", "2", "--", "job.py").returncode == 0


FEW_FILES = """
import io, resource, sys
from pathlib import Path
from ddpkit.console.relay import Relay
from ddpkit.run.log_files import LogFiles

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
relay = Relay(LogFiles(Path(sys.argv[1])), io.BytesIO(), io.BytesIO())
for number in range(3):
    for rank in range(200):
        relay.write(rank, "node1", "torchrun", 1, b"line %d of rank %d\\n" % (number, rank))
    relay.flush()
relay.close()
assert not relay.logs.problem
"""


def test_more_logs_than_files_may_be_open(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FEW_FILES, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    for rank in range(200):
        text = "".join(f"line {number} of rank {rank}\n" for number in range(3))
        assert (tmp_path / f"rank_{rank}.log").read_text() == text
    assert all_lines(tmp_path).count("\n") == 600


def test_a_log_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank_0.log").symlink_to(tmp_path / "theirs")
    relay = Relay(LogFiles(tmp_path / "logs"), io.BytesIO(), io.BytesIO())
    relay.write(0, "node1", "torchrun", 1, b"a line\n")
    relay.close()
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert relay.logs.problem
