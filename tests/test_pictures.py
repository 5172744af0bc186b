"""The pictures in the documents show what the commands print: drawn again, they say the same, but for numbers."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import DOCUMENTS, ROOT

PICTURES = sorted((ROOT / "docs/img").glob("*.svg"))
WIDE = sorted((ROOT / "docs/img/wide").glob("*.svg"))  # the same scenes at 200 columns
SCENES = ("failure", "hang", "launch", "ps", "status", "test", "top")


def lines(path: Path) -> list[str]:
    """The text of a picture, line by line."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', path.read_text()):
        rows.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(rows[y])) for y in sorted(rows)]


def shape(path: Path) -> set[str]:
    """Its words without numbers, units of time, ranks and run ids: ranks print side by side, and equal lines fold."""
    found: set[str] = set()
    for line in lines(path):
        plain = re.sub(r"\d{8}-\d{6}-(\w+)-[0-9a-f]{4}", r"RUN-\1", line)
        plain = re.sub(r"^[0-9a-f]{4}(?=  )", "ID", plain)
        plain = re.sub(r"[\d.]+|─+", "0", re.sub(r"\[[\d,-]+", "[0", plain))
        # What a machine has, its findings say; which it has is not the picture's.
        if path.stem != "test" or re.match(r"(\$| cause | hint |✗)", plain):
            found.update(re.sub(r"\b0 (s|min|h)\b", "0 s", plain).split())
    return found


def test_every_scene_is_drawn_and_shown() -> None:
    assert tuple(path.stem for path in PICTURES) == SCENES
    assert tuple(path.stem for path in WIDE) == SCENES
    shown = "".join(path.read_text() for path in DOCUMENTS)
    for path in PICTURES:
        assert f"img/{path.name})" in shown, path.name


@pytest.mark.parametrize(("paths", "columns"), [(PICTURES, 80), (WIDE, 200)])
def test_no_line_is_cut(paths: list[Path], columns: int) -> None:
    """Every line ends within the window, and the last one stands above its lower edge."""
    for path in paths:
        assert max(map(len, lines(path))) <= columns, path
        text = path.read_text()
        found = re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', text)
        last = max(float(y) for y, words in found if html.unescape(words).replace("\xa0", "").strip())
        (height,) = re.findall(r'clip-terminal">\s*<rect x="0" y="0" width="[\d.]+" height="([\d.]+)"', text)
        assert last + 10 < float(height), path


@pytest.mark.parametrize("path", [*PICTURES, *WIDE], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_picture_tells_nothing_of_the_machine_it_was_drawn_on(path: Path) -> None:
    text = path.read_text()
    assert "~/project" in text
    assert not re.search(r"/(tmp|root|home|work|Users)/", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), "nothing is fetched from anywhere"


@pytest.mark.torch
@pytest.mark.parametrize(
    "scene", [pytest.param(name, marks=[] if name == "failure" else [pytest.mark.thorough]) for name in SCENES]
)
def test_a_picture_is_what_is_printed(scene: str, tmp_path: Path) -> None:
    argv = ["unshare", "--uts", "true"]
    if (
        subprocess.run(argv, check=False, capture_output=True).returncode
        and subprocess.run(["unshare", "--user", *argv[1:]], check=False, capture_output=True).returncode
    ):
        pytest.skip("no namespace for a host's name")
    program = ROOT / "tools/pictures.py"
    subprocess.run([sys.executable, str(program), "--out", str(tmp_path), scene], check=True, timeout=540)
    assert shape(tmp_path / f"{scene}.svg") == shape(ROOT / f"docs/img/{scene}.svg")
