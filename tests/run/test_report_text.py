"""A report escapes by default, and holds nothing of files that a run's directory only points to."""

from __future__ import annotations

import ast
import json
import math
import os
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.run import report
from ddpkit.run.report import words

HOSTILE = '"><meta http-equiv="refresh" content="0;url=//x"><script>alert(1)</script>'


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)


@pytest.mark.parametrize("module", ["page", "svg"])
def test_no_value_is_put_between_tags_as_it_is(module: str) -> None:
    """In a text with a tag stand names of parts that are built here, and calls that escape; no field of a record."""
    source = (Path(report.__file__).parent / f"{module}.py").read_text(encoding="utf-8")
    bare = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        constant = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        if "<" in constant or '="' in constant:
            bare += [
                ast.unparse(part.value)
                for part in node.values
                if isinstance(part, ast.FormattedValue) and isinstance(part.value, (ast.Attribute, ast.Subscript))
            ]
    assert bare == []


@given(st.one_of(st.text(), st.floats(), st.integers(), st.none(), st.lists(st.text()), st.just(HOSTILE)))
def test_words_for_numbers_take_anything(value: object) -> None:
    for shown in (words.seconds(value), words.number(value), words.moment(value), words.text(value)):  # type: ignore[arg-type]
        assert not set('<>"') & set(shown)


def test_a_number_without_an_end() -> None:
    assert [words.seconds(math.inf), words.number(math.nan)] == ["inf", "nan"]


def made_run(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> Path:
    done = ddpkit("launch", "-n", "1", "--", script("print('a line')\nraise SystemExit(3)\n"))
    assert done.returncode == 3, done.stderr
    (folder,) = (tmp_path / "logs").iterdir()
    return folder


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("run.json", {"exit_code": HOSTILE}),
        ("run.json", {"world_size": HOSTILE}),
        ("run.json", {"started": HOSTILE}),
        ("run.json", {"attempts": [{"number": HOSTILE}]}),
        ("timeline.json", {"ranks": {"0": {"host": 5, "bins": HOSTILE}}}),
        ("timeline.json", {"hosts": {"a": {"gpus": HOSTILE}}}),
        ("timeline.json", {"ranks": [1, 2]}),
        ("launch.json", {"nodes": [{"gpus": HOSTILE}]}),
        ("launch.json", {"plan": {"steps": HOSTILE}}),
        ("test.json", {"checks": [{"id": 5, "status": HOSTILE}]}),
        ("test.json", {"checks": HOSTILE}),
    ],
)
def test_a_wrong_type_is_no_markup_and_no_traceback(
    file: str, change: dict[str, object], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    folder = made_run(ddpkit, script, tmp_path)
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **change}))
    page = tmp_path / "page.html"
    done = ddpkit("report", str(folder), "-o", str(page))
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 121, 125)
    if page.exists():
        tags = Tags()
        tags.feed(page.read_text())
        assert not {"script", "iframe", "img", "object", "base", "form"} & tags.seen
        assert page.read_text().count("http-equiv") == page.read_text().count("Content-Security-Policy") == 1


@pytest.mark.parametrize(
    "command", [["report", "-o", "page.html"], ["logs"], ["logs", "--rank", "0"], ["explain"], ["status"]]
)
@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
def test_a_log_that_is_no_regular_file_is_not_read(
    kind: str, command: list[str], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    """A link to a private file would stand in a page for others; a pipe and /dev/zero never end."""
    folder = made_run(ddpkit, script, tmp_path)
    private = tmp_path / "private"
    private.write_text("[0 host] the secret\n" * 3)
    for name in ("all.log", "all.index", "rank_0.log"):
        (folder / name).unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(folder / name)
        else:
            (folder / name).symlink_to(private if kind == "link" else "/dev/zero")
    done = ddpkit(command[0], str(folder), *command[1:])
    page = tmp_path / "page.html"
    assert "the secret" not in done.stdout + done.stderr + (page.read_text() if page.exists() else "")
    assert "Traceback" not in done.stderr


def test_a_link_that_the_user_names_is_read(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("RuntimeError: the one\n")
    (tmp_path / "b.log").symlink_to("a.log")
    assert "the one" in ddpkit("explain", "b.log").stdout
    assert "the one" in ddpkit("explain", "./b.log").stdout
