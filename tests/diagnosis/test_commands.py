"""Probes and fixes of the catalogue: what a log puts into them is one word for a shell, and none of them destroys."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from pathlib import Path

import hints
import pytest
import rooms
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.diagnosis.catalogue import ENTRIES
from ddpkit.diagnosis.catalogue.entry import as_word, filled_command
from ddpkit.diagnosis.decide import analyze_log

HOSTILE = (
    "/data/$(touch pwned)/x; touch pwned; pwd",
    "x' ; touch pwned #",
    'x" ; touch pwned #',
    "`touch pwned`",
    "x && touch pwned",
    "x | tee pwned",
    "x > pwned",
    "two words",
    "*",
    "~root",
    "-oProxyCommand=touch pwned",
    "$HOME",
    "a\nb",
    "a\x1b[31mb",
    "a\u202eb",
    "a\x9bb",
    "y" * 5000,
)
NAME = re.compile(r"\{([a-z]+)(?:\|[^{}]*)?\}")


def texts() -> list[tuple[str, str]]:
    return [(entry.id, text) for entry in ENTRIES for text in (entry.probe, entry.fix) if NAME.search(text)]


@given(st.one_of(st.sampled_from(HOSTILE), st.text()))
def test_a_value_is_one_word_of_a_shell_or_is_left_out(value: str) -> None:
    word = as_word(value)
    assert word.isprintable()
    if word:
        assert shlex.split(word) == [value]
        assert not value.startswith("-") or re.fullmatch(r"--?[A-Za-z][\w-]*", value)
    quoted = as_word(value, in_quotes=True)
    assert not set(quoted) & set("'\"`$\\;&<>()\n")


@pytest.mark.parametrize("value", [*HOSTILE, "/data/x", "node1"])
def test_every_probe_and_fix_keeps_a_value_whole(value: str, tmp_path: Path) -> None:
    """What remains of a hostile value is its quoted form; and a shell that is given it runs nothing."""
    for name, text in texts():
        values = dict.fromkeys(NAME.findall(text), value)
        shown = filled_command(text, values)
        rest = shown.replace(shlex.quote(value), "").replace("~root", "~") if len(value) < 200 else shown
        for piece in ("touch pwned", "tee pwned", "> pwned", "\n", "\x1b", "\x9b", "\u202e", "yyyyy", "ProxyCommand"):
            assert piece not in rest, (name, shown)
    word = as_word(value)
    done = subprocess.run(
        ["sh", "-c", f"printf '%s.' {word}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == (f"{value}." if word else ".")
    assert not list(tmp_path.iterdir())


# Programs that run, load, build or install what stands behind them, and variables that name what is loaded.
RUNNERS = re.compile(
    r"\b(?:python[\d.]*|bash|sh|source|exec|eval|sudo|nohup|xargs|torchrun|mpirun|pip|conda|apt|apt-get|dnf|yum|docker"
    r"|podman|apptainer|enroot|module|make|git|curl|wget|LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH|PATH|image)\b"
)
# Places behind one of these where a value is no program: an argument, a file that is read, a name of a setting.
HARMLESS = {
    ("command-not-found", "program"),  # command -v, which runs nothing
    ("compiler-too-new", "version"),  # a number, behind gcc- and g++-
    ("driver-too-old", "wheel"),  # computed: cu126
    ("container-file-unreadable", "path"),  # of ls
    ("container-workdir", "path"),  # of ls
    ("pyxis-container-name", "name"),  # of a container of the user's
    ("docker-name-used", "name"),  # a filter of docker ps
    ("assignment-as-command", "variable"),  # the user's own, and the value is not there
    ("disk-errors", "device"),  # below /dev, of smartctl
    ("pip-no-version", "package"),  # which versions there are: nothing is installed
    ("wrapped-attribute", "name"),  # behind model.module.
    ("linker-library-missing", "library"),  # the name of a link
    ("image-registry-unreachable", "host"),  # curl -I asks for headers
    ("download-unreachable", "host"),
    ("hub-unreachable", "host"),
    ("cloud-unreachable", "url"),
    ("master-unreachable", "itself"),  # the beginning of a sentence
    ("collective-timeout", "guilty"),
}


def test_no_command_runs_a_program_that_a_log_names() -> None:
    marker = "Chosen"
    shown = set()
    for entry in ENTRIES:
        for text in (entry.probe, entry.fix):
            names = set(NAME.findall(text))
            for name in names:
                values = {each: marker if each == name else "x" for each in names}
                for command in re.split(r"[;|`]|\. |: |\bor ", filled_command(text, values)):
                    before, found, _ = command.partition(marker)
                    if found and (not before.strip() or RUNNERS.search(before)):
                        shown.add((entry.id, name))
    assert shown <= HARMLESS, sorted(shown - HARMLESS)


@pytest.mark.parametrize(
    ("line", "name", "instead"),
    [
        ("ModuleNotFoundError: No module named 'evil'", "module-missing", "python -m pip install MODULE"),
        ("ImportError: cannot import name 'x' from 'evil.sub' (/tmp/evil/sub.py)", "import-name", "import MODULE as m"),
        ("sbatch: unrecognized option '--gpus-per-node=8'", "slurm-option-unknown", "sbatch --version"),
        ("bash: ./evil: Permission denied", "not-executable", "python FILE"),
    ],
)
def test_what_a_log_names_is_not_in_the_command_that_would_run_it(line: str, name: str, instead: str) -> None:
    first = analyze_log([("x", line + "\n")]).first
    assert first is not None
    assert first.entry is not None
    assert instead in f"{first.fix}\n{first.probe}"
    assert not re.search(
        r"(?:pip install|import|python|bash) (?:-\S+ )*\S*evil|^evil|; evil", f"{first.fix}\n{first.probe}"
    )
    assert first.entry.id == name, first.entry.id


def test_the_words_of_a_log_do_not_become_a_command() -> None:
    path = "/data/$(touch /tmp/pwn)/x; rm -rf ~; pwd"
    first = analyze_log([("x", f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'\n")]).first
    assert first is not None
    assert shlex.quote(path) in first.probe
    assert path not in first.probe.replace(shlex.quote(path), "")


ALLOWED = {"windows-paging-file", "cloud-quota", "container-fuse"}  # menus of Windows and of a web page; /dev/null


def test_no_entry_destroys() -> None:
    shown = [(each.id, text) for each in ENTRIES if each.id not in ALLOWED for text in (each.probe, each.fix)]
    assert [(name, text) for name, text in shown if hints.DESTROYS.search(text)] == []


def test_no_hint_of_an_error_or_a_check_destroys() -> None:
    assert [hint for hint in hints.in_source() if hints.DESTROYS.search(hint)] == []


# Values that a user or a node chose; numbers, names with a checked form and ids need no quotes.
CHOSEN = re.compile(r"(?:^|\.)(?:\w*path|folder|workdir|log|output|target_file|master_addr|name_of_file)$|^space\[")


def test_a_path_in_a_hint_is_quoted() -> None:
    bare = []
    for path in rooms.sources().values():
        for _, text in hints.texts(ast.parse(path.read_text(encoding="utf-8"))):
            parts = [ast.unparse(part.value) for part in ast.walk(text) if isinstance(part, ast.FormattedValue)]
            bare += [f"{path.name}: {part}" for part in parts if CHOSEN.search(part)]
    assert bare == []
