"""`ddpkit report` in a real browser: what a reader sees, on any screen, and that nothing in it is alive."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import browser
import pytest
from conftest import DDPKIT, SCRIPT

from ddpkit.run.report.startup import PHASES

# Where no browser is, these tests are skipped, and say so; in CI that is a failure.
needs_browser = pytest.mark.skipif(
    browser.program() is None and not os.environ.get("CI"), reason="needs Chromium: python tests/lab/cluster.py install"
)

# One rank of four has more to do before each step; the loss goes down.
SLOW = """
import json, os, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
file = open("metrics.jsonl", "w") if rank == 0 else None
for step in range(1, 41):
    time.sleep(0.05 if rank == 3 else 0)  # its data
    model(torch.ones(4, 16)).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if file:
        file.write(json.dumps({"step": step, "loss": 1 / step, "test_accuracy": step / 50}) + "\\n")
        file.flush()
print("trained", rank, flush=True)
os._exit(0)
"""

HOSTILE = (
    "</title></style></script><script>window.owned=1</script><img src=x onerror=window.owned=2>\"'><b onclick=x>&lt;"
)


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[browser.Browser]:
    folder = tmp_path / "browser"
    folder.mkdir()
    with browser.Browser(folder) as opened:
        yield opened


def alone(chromium: browser.Browser, page: Path) -> None:
    """The page asked for nothing but itself, and nothing went wrong in it."""
    asked = [url for url in chromium.requests if not url.startswith("data:")]
    assert asked == [page.as_uri()]
    assert chromium.errors == []


@needs_browser
@pytest.mark.torch
def test_a_rank_that_the_others_wait_for(
    ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path, chromium: browser.Browser
) -> None:
    done = ddpkit("launch", "-n", "4", "--observe", "start,steps", "--", script(SLOW))
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "logs").iterdir()
    found: dict[str, Any] = json.loads(ddpkit("report", "--json").stdout)
    assert found["state"] == "done"
    slowest = found["steps"]["slowest"]
    assert (slowest["rank"], slowest["stands_out"]) == (3, True)
    assert slowest["seconds"] >= 0.05
    assert found["steps"]["words"].startswith("The others wait for rank 3 on ")
    for row in found["start"]["rows"]:
        named = [segment["phase"] for segment in row["segments"]]
        assert named == [name for name in PHASES if name not in ("listed", "staged", "queued", "cuda")], row
    assert not list(folder.glob("report*"))

    done = ddpkit("report", str(folder))
    assert done.stdout == f"{folder}/report.html\n"
    page = folder / "report.html"
    chromium.open(page)
    alone(chromium, page)
    assert chromium.ask("document.querySelector('#verdict .badge').innerText") == "done"
    assert chromium.ask("document.querySelector('#verdict .verdict').innerText").startswith("done after")
    points = "document.querySelector('[data-curve=%s]').getAttribute('points').split(' ').length"
    assert chromium.ask(points % "loss") == 40
    assert chromium.ask(points % "test_accuracy") == 40
    # The straggler's row is marked and the darkest. The machine may stop any rank for a moment, so a cell of another
    # rank may be as dark: but the longer the steps of a cell, the darker it is.
    assert chromium.ask("[...document.querySelectorAll('tr.slowest')].map(row => row.dataset.rank)") == ["3"]
    dark = """[...document.querySelectorAll('table.own tr[data-rank]')].map(
        row => [...row.querySelectorAll('.cell')].map(cell => +getComputedStyle(cell).fillOpacity))"""
    cells = chromium.ask(dark)
    assert [len(row) for row in cells] == [len(cells[3])] * 4
    assert median(cells[3]) > max(map(median, cells[:3]))
    lasted = [seconds for row in found["steps"]["rows"] for seconds in row["own"]]
    shades = [shade for _, shade in sorted(zip(lasted, itertools.chain(*cells), strict=True))]
    assert shades == sorted(shades)
    assert shades[0] < shades[-1]
    assert chromium.ask("document.querySelectorAll('table.start tr[data-rank] .phase').length") >= 4 * 7


@needs_browser
def test_nothing_in_a_page_is_alive(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path, chromium: browser.Browser) -> None:
    text = "import sys\nprint(sys.argv[1], '\\x1b[31mred\\x1b[0m \\u202eback', flush=True)\nsys.exit(3)\n"
    done = ddpkit("launch", "-n", "2", "--env", f"X={HOSTILE}", "--", script(text), HOSTILE)
    assert done.returncode == 3
    (folder,) = (tmp_path / "logs").iterdir()
    record = json.loads((folder / "run.json").read_text())
    names = dict.fromkeys(record["hosts"], HOSTILE)  # in a record, they have the form of a host's name
    record |= {"verdict": f"{record['verdict']} {HOSTILE}"}
    (folder / "run.json").write_text(json.dumps(record))
    timeline = json.loads((folder / "timeline.json").read_text())
    for rank in timeline["ranks"].values():
        rank |= {"host": names[rank["host"]], "bins": [[10, 1, 0.1, 10, 0.5, 0.1], [10, 1, 0.1, 10, 0.5, 0.1]]}
    (folder / "timeline.json").write_text(json.dumps(timeline))
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": n, HOSTILE: n}) + "\n" for n in (1, 2)))
    check = {"id": "gpus", "title": HOSTILE, "host": HOSTILE, "status": "fail", "fix": HOSTILE, "cause": HOSTILE}
    (folder / "test.json").write_text(json.dumps({"ok": False, "checks": [check]}))

    page = tmp_path / "page.html"
    assert ddpkit("report", str(folder), "--output", str(page)).returncode == 0
    chromium.open(page)
    alone(chromium, page)
    assert chromium.ask("window.owned") is None
    assert chromium.ask("document.querySelectorAll('script, img, iframe, object, [onclick], [onerror]').length") == 0
    # It is all there, as text.
    for place in (
        "#verdict code",
        "#verdict .verdict",
        "#curves h3",
        "#preflight td:last-child",
        "#tail",
    ):
        shown = chromium.ask(f"document.querySelector('{place}').textContent")
        assert HOSTILE in shown.replace("'\"'\"'", "'"), place
    assert "export X=" in chromium.ask("document.querySelector('#plan pre').textContent")
    assert "red \\u202eback" in chromium.ask("document.querySelector('#tail').textContent")
    assert "exit code 3" in chromium.ask("document.querySelector('#verdict').innerText")


@needs_browser
def test_a_failed_run_says_at_the_top_what_to_do(
    ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path, chromium: browser.Browser
) -> None:
    text = "import sys\nfor n in range(60):\n    print('line', n)\nraise ValueError('no such batch')\n"
    assert ddpkit("launch", "-n", "1", "--", script(text)).returncode == 1
    (folder,) = (tmp_path / "logs").iterdir()
    assert ddpkit("report", str(folder)).returncode == 0
    chromium.open(folder / "report.html")
    assert chromium.ask("document.querySelector('#verdict .hint').innerText").startswith("hint: look at ")
    assert "ValueError: no such batch" in chromium.ask("document.querySelector('#verdict pre').innerText")
    # The box of the last lines is at its end without a hand that scrolls it.
    box, lines = (f"document.querySelector('#tail {name}').getBoundingClientRect()" for name in (".end", "pre"))
    assert chromium.ask(f"{lines}.height") > chromium.ask(f"{box}.height") > 0
    assert abs(chromium.ask(f"{lines}.bottom - {box}.bottom")) <= 1


@needs_browser
def test_a_page_fits_every_screen_and_paper(
    ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path, chromium: browser.Browser
) -> None:
    assert ddpkit("launch", "-n", "2", "--", script("print('x' * 3000)"), "y" * 300).returncode == 0
    (folder,) = (tmp_path / "logs").iterdir()
    assert ddpkit("report", str(folder)).returncode == 0
    chromium.open(folder / "report.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    colours = set()
    for dark in (False, True):
        for width in (360, 800, 1600):
            chromium.look(width=width, dark=dark)
            assert chromium.ask("document.documentElement.scrollWidth") <= width
        colours.add(chromium.ask(colour))
    assert len(colours) == 2
    assert chromium.paper().startswith(b"%PDF-")
