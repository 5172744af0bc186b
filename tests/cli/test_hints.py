"""Hints: those of every error that a test meets are run (`ddpkit` in conftest.py); here are all that the source has."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hints
import pytest
from program import run_to_end

from ddpkit.cli import app
from ddpkit.diagnosis.catalogue import ENTRIES
from ddpkit.launchers import registry

# Other programs of hints, with the options that they have there. They wait, ask or start others: no test runs them.
NOT_RUN = {
    **dict.fromkeys("cd sudo sbatch tail unset exec pip ssh-add rsync bash".split(), ""),
    "conda-pack": "-p -o",
    "enroot": "",
    "export": "-w",
    "kill": "-CONT",
    "nc": "-vz",
    "py-spy": "--pid",
    "python": "-c -m",
    "salloc": "--no-kill --nodes --gpus-per-node -N",
    "srun": "--export -u",
    "ssh": "-v -G -i",
    "tmux": "-V",
}
RUN = (*hints.PROGRAMS, *"dmesg echo find ip less mkdir scontrol ulimit zcat".split())
WORDS = ("find out", "find who", "install", "make", "write", "init", "look", "more")  # not programs
# Of the user's script, of sbatch and srun, of torchrun: flags that no command of ours lists.
FOREIGN = "--out --ntasks --ntasks-per-node --container-env --standalone".split()
PROSE = re.compile(r"(?:then|chooses|sets|waits|for|did|on|\.\.\.)$")  # words of a sentence behind `ddpkit`
_PART = re.compile(r"(?:; |: |, |\. |`|\(|\)|\||\bor |\band |\bthen |\bwith )+")
_FLAG = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*")
_OF_OURS = re.compile(r"(?<![\w./-])ddpkit ([^;,|`()\n]+)")


def parts() -> list[str]:
    """What stands between the separators of each hint, with a value for each `{}`."""
    filled = (text.replace("{}", "1") for text in hints.in_source())
    return sorted({part.strip() for text in filled for part in _PART.split(text) if part.strip()})


def own_mentions() -> Iterator[str]:
    """The words behind each `ddpkit` that begins a command, in the source and in the catalogue."""
    entries = (text for entry in ENTRIES for text in (entry.fix, entry.probe))
    for text in (*hints.in_source(), *entries):
        for words in _OF_OURS.findall(re.sub(r"\. .*", "", text)):
            yield hints._END.split(words)[0].strip()


def test_our_commands_in_hints_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    """The real reader knows the name and the flags of each, and prints its help."""
    wrong = []
    for words in sorted(set(own_mentions())):
        name, _, rest = words.partition(" ")
        if PROSE.match(name):
            continue
        given = shlex.split(rest.replace("{}", "1"))
        lines = [[each, "--help", *given] for each in (("launch", "logs") if name == "{}" else (name,))]
        errors = [capsys.readouterr().err for line in lines if app.run(line if name[0] != "-" else [name])]
        if len(errors) == len(lines) and "needs a value" not in errors[0]:
            wrong.append((words, errors))
    assert wrong == []


def test_options_in_hints_are_those_of_a_command() -> None:
    """Of the program that stands in front of them, else of one of ours."""
    names = {each.name for name in registry.names() for each in registry.options(registry.load(name))}
    ours = {flag for each in app.whole_program().commands.values() for part in each.params for flag in part.opts}
    ours |= {f"--{no}{name.replace('_', '-')}" for name in names for no in ("", "no-")} | {*FOREIGN}
    wrong = []
    for part in parts():
        program = part.split()[0]
        if program in RUN or part.startswith("1 ") or _OF_OURS.search(f"{part} "):
            continue  # the program is a value, or it is ours, which the test above reads
        known = NOT_RUN[program].split() if program in NOT_RUN else ours
        wrong += [(part, flag) for flag in _FLAG.findall(part) if flag not in known]
        wrong += [(part, name) for name in re.findall(r"(?<!\S)-o ([a-z_]+)=", part) if name not in {*names, "1"}]
        if program not in (*NOT_RUN, "ddpkit") and shutil.which(program) and not part.startswith(WORDS):
            wrong.append((part, "a program that is not listed"))
    assert wrong == []


def test_other_programs_in_hints_take_these_options(tmp_path: Path) -> None:
    """Each is run, with `1` for a value: what it says of that is its business."""
    wrong = []
    for part in parts():
        command = hints._END.split(f"{part} ")[0]
        if command.split()[0] not in RUN or command.startswith(WORDS) or not shutil.which(command.split()[0]):
            continue
        done = run_to_end(["bash", "-c", command], cwd=tmp_path, env=dict(os.environ), stdin=subprocess.DEVNULL)
        if re.search(r"(?i)(?:invalid|unrecognized|unknown|illegal) option|^usage:|syntax error", done.stderr):
            wrong.append((command, done.stderr))
    assert wrong == []


def test_no_hint_deletes_overwrites_or_ends_what_is_the_users() -> None:
    assert [(name, text) for text, name in hints.in_source().items() if hints.DESTROYS.search(text)] == []
    assert [(each.id, each.fix) for each in ENTRIES if hints.DESTROYS.search(each.fix)] == []


@pytest.mark.parametrize(
    "hint",
    [
        "rm train.py",
        "run: sudo kill -9 7",
        "sed -i s/a/b/ hosts",
        "printf x > hosts",
        "ls; mv a b",
        "git reset",
        "--overwrite_output_dir true",
    ],
)
def test_what_destroys_is_found(hint: str) -> None:
    assert hints.DESTROYS.search(hint)


@pytest.mark.parametrize(
    ("hint", "args", "command"),
    [
        ("ddpkit launch -n 2 -- train.py", ["launch"], ["ddpkit", "launch", "-n", "2", "--", "train.py"]),
        ("ddpkit ps -a lists the runs", ["stop"], ["ddpkit", "ps", "-a"]),
        ("add -n 2; or another", ["launch", "--", "x"], ["ddpkit", "launch", "-n", "2", "--", "x"]),
        ("remove -n 2", ["launch", "-n", "2", "--", "2"], ["ddpkit", "launch", "--", "2"]),
        ("ddpkit launch -b ssh HOST -- train.py", ["launch"], None),
        ("add a script", ["launch"], None),
        ("ls /tmp", ["launch"], ["ls", "/tmp"]),
    ],
)
def test_the_command_of_a_hint(hint: str, args: list[str], command: list[str] | None) -> None:
    assert hints.candidate(hint, args) == command


def test_a_hint_that_fails_in_the_same_way_is_found() -> None:
    def run(words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 121, "", "ddpkit: error: no\nhint: x\n")

    text = "ddpkit: error: no\nhint: ddpkit launch -- a.py\n"
    assert hints.problems(["launch"], text, run) == ["fails in the same way: ddpkit launch -- a.py: no"]
    assert hints.problems(["ps", "-a"], "error: no\nhint: ddpkit ps -a", run) == ["the same command: ddpkit ps -a"]
    assert hints.problems(["launch"], "error: no\nhint: kill 7", run) == ["destroys: kill 7"]
