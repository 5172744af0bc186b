"""A run's metrics file: which one it is, and what is new in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddpkit.run import metrics

START = 1_000_000.0


def write(path: Path, *steps: int, when: float = START + 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in steps))
    os.utime(path, (when, when))
    return path


def test_the_newest_file_near_the_working_folder(tmp_path: Path) -> None:
    assert metrics.find(tmp_path, ("train.py",), START) is None
    write(tmp_path / "old/metrics.jsonl", 1, when=START - 100)
    assert metrics.find(tmp_path, ("train.py",), START) is None
    first = write(tmp_path / "metrics.jsonl", 1)
    assert metrics.find(tmp_path, ("train.py",), START) == first
    deep = write(tmp_path / "out/a/metrics.jsonl", 1, when=START + 20)
    write(tmp_path / "out/earlier_1/metrics.jsonl", 1, when=START + 30)
    assert metrics.find(tmp_path, ("train.py",), START) == deep


def test_only_records_are_kept_and_nothing_through_a_link_of_another_user(tmp_path: Path) -> None:
    """The run's directory can be read by others."""
    mine = write(tmp_path / "metrics.jsonl", 1, 2)
    with mine.open("a") as file:
        file.write("a secret\n")
    mine.chmod(0o600)
    (tmp_path / "run").mkdir()
    kept = metrics.keep(mine, tmp_path / "run")
    assert kept is not None
    assert [json.loads(line)["step"] for line in kept.read_text().splitlines()] == [1, 2]
    assert kept.stat().st_mode & 0o777 == 0o600
    if os.geteuid() != 0:
        return  # only root can give a link away
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    link = tmp_path / "shared/metrics.jsonl"
    link.symlink_to(mine)
    os.lchown(link, 65534, 65534)
    (tmp_path / "other").mkdir()
    assert metrics.keep(link, tmp_path / "other") is None
    assert metrics.read(link) == []


def test_the_file_that_the_command_names_wins(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine/metrics.jsonl", 1)
    write(tmp_path / "others/metrics.jsonl", 1, when=START + 50)
    assert metrics.find(tmp_path, ("train.py", "--checkpoint-dir", "mine"), START) == mine
    assert metrics.find(tmp_path, ("train.py", "--save-dir=mine"), START) == mine
    other = write(tmp_path / "mine/m.jsonl", 1, when=START + 60)
    assert metrics.find(tmp_path, ("train.py", "--checkpoint-dir=mine", "--metrics=m.jsonl"), START) == other
    absolute = write(tmp_path / "far/away/from/here.jsonl", 1)
    assert metrics.find(tmp_path, ("train.py", "--metrics", str(absolute)), START) == absolute


def test_what_was_written_after_the_run_is_not_its_own(tmp_path: Path) -> None:
    write(tmp_path / "checkpoints/metrics.jsonl", 1, when=START + 500)
    assert metrics.find(tmp_path, ("train.py",), START, START + 100) is None


def test_words_that_are_no_paths(tmp_path: Path) -> None:
    assert metrics.find(tmp_path, ("-c", "print('\0')", "x" * 5000, "a=\0.jsonl", ""), START) is None
    assert metrics.find(tmp_path / "gone", ("train.py",), START) is None


def test_a_folder_of_data_is_not_searched_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(metrics.ENTRIES + 50):
        (tmp_path / f"data/{number}.png").touch()
    mine = write(tmp_path / "out/metrics.jsonl", 1)
    assert metrics.find(tmp_path, ("train.py",), START) == mine
    assert len(list(metrics._nearby(tmp_path))) == 3


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert metrics.read(path) == []
    path.write_text('{"step": 1, "loss": 2.5}\nno JSON\n[1]\n{"loss": 3}\n{"step": true}\n{"step": 3}\n{"step": 4, "lo')
    assert metrics.read(path) == [{"step": 1, "loss": 2.5}, {"step": 3}]


def test_a_copy_is_kept_with_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "out/metrics.jsonl", 1, 2)
    folder = tmp_path / "run"
    folder.mkdir()
    assert metrics.keep(path, folder) == folder / "metrics_kept.jsonl"
    assert (folder / "metrics_kept.jsonl").read_bytes() == path.read_bytes()
    assert metrics.keep(tmp_path / "gone", folder) is None
    assert sorted(each.name for each in folder.iterdir()) == ["metrics_kept.jsonl"]


# Lines that were there before the run, and the file at its end: its own steps.
APPENDED: dict[str, tuple[str, str, list[int]]] = {
    "appended": ("1 2 3", "1 2 3 1 2", [1, 2]),
    "resumed: the steps continue": ("1 2 3", "1 2 3 4", [1, 2, 3, 4]),
    "resumed, and the lines to come again were dropped": ("1 2 3 4", "1 2 3 4 5 6", [1, 2, 3, 4, 5, 6]),
    "written anew": ("1 2 3", "1 2", [1, 2]),
    "written anew, and longer": ("1 2", "1 2 3", [1, 2, 3]),
    "behind a torn line": ("1 2 3x", "1 2 3x1 1 2", [1, 2]),
    "nothing before": ("", "1 2", [1, 2]),
}


@pytest.mark.parametrize("case", APPENDED)
def test_lines_of_an_earlier_run_are_left_out(case: str, tmp_path: Path) -> None:
    def text(steps: str) -> str:
        lines = "".join(f'{{"step": {step}}}\n' for step in steps.split())
        return lines.replace("3x1}\n", '3, "lo{"step": 1}\n').replace("3x}\n", '3, "lo')

    before, after, steps = APPENDED[case]
    folder, file = tmp_path / "run", tmp_path / metrics.NAME
    folder.mkdir()
    file.write_text(text(before))
    os.utime(file, (START, START))
    metrics.remember(folder, "", tmp_path, ("train.py",))
    file.write_text(text(after))
    assert [record["step"] for record in metrics.read(file, folder)] == steps
    kept = metrics.keep(file, folder)
    assert kept is not None
    assert [record["step"] for record in metrics.read(kept, folder)] == steps
    assert len(metrics.read(file)) >= len(steps)


def test_a_file_that_the_run_did_not_change_has_none_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    file = write(tmp_path / "out/m.jsonl", 1, 2)
    metrics.remember(tmp_path / "run", "out/m.jsonl", tmp_path, ("train.py",))
    assert metrics.read(file, tmp_path / "run") == []


def test_the_newest_checkpoint_of_a_run(tmp_path: Path) -> None:
    for name, when in (("old.pt", START - 50), ("a.pt", START + 5), ("b.ckpt", START + 7), ("later.pt", START + 90)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (when, when))
    assert metrics.newest(tmp_path, metrics.CHECKPOINTS, START, START + 20) == START + 7
    assert metrics.newest(tmp_path, metrics.CHECKPOINTS) == START + 90
    assert metrics.newest(tmp_path / "gone", metrics.CHECKPOINTS) is None
