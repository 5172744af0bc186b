"""Every command in the documents parses, every plan in them is the golden one, and every link leads somewhere."""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import drills
import generated_pages
import pytest
import table
from conftest import DDPKIT

from ddpkit.cli import app
from ddpkit.run import bad_nodes

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
FENCE = re.compile(r"(?:<!-- golden: ([\w-]+) -->\n)?```(\w+)\n(.*?)```\n", re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """(document, line) of every ddpkit command in a console block, in a table, or in the script's own help, once."""
    found: dict[str, str] = {}
    for path in [*DOCUMENTS, ROOT / "train.py"]:
        text = path.read_text()
        lines = [line for _, kind, block in FENCE.findall(text) if kind == "console" for line in block.splitlines()]
        lines += re.findall(r"`(ddpkit launch [^`]*--[^`]*)`", text)
        if path.suffix == ".py":
            lines += re.findall(r"^    (ddpkit .*?)(?:   .*)?$", text, re.MULTILINE)
        found |= {line: str(path.relative_to(ROOT)) for line in lines if line.startswith("ddpkit ")}
    # Backends that are written there are tried by tests/test_docs_blocks.py and tests/lab/test_docs_lab.py.
    return [(path, line) for line, path in found.items() if not re.search("-b (nice|pinned)", line)]


def install_backend(name: str, folder: Path) -> Path:
    """Install the package of a backend from the blocks of its page. Returns the folder to import it from."""
    texts = [(kind, text) for _, kind, text in FENCE.findall((ROOT / "docs/how-to/plugin.md").read_text())]
    (program,) = [text for kind, text in texts if kind == "python" and f'ClassVar[str] = "{name}"' in text]
    (project,) = [text for kind, text in texts if kind == "toml" and "[project]" in text]
    source, site = folder / f"ddpkit_{name}", folder / "site"
    source.mkdir()
    (source / f"ddpkit_{name}.py").write_text(program)
    project = project.replace("nice", name).replace("Nice", name.capitalize())
    (source / "pyproject.toml").write_text(project)
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*argv, str(site), str(source)], check=True, timeout=120)
    return site


def test_there_are_commands() -> None:
    assert len(commands()) > 10
    assert "ddpkit launch -n 2 -- train.py --epochs 5" in [line for _, line in commands()]


def names_nodes(line: str) -> bool:
    return re.search(r"(-b|--backend) (ssh|pdsh|legacy)|--via ", line) is not None


# Commands that start ranks; a dry run of them needs nothing but the nodes, where there are any.
STARTS = ("launch", "hold", "test", "bench", "drill")


@pytest.mark.parametrize(
    ("document", "line"),
    # On nodes only a launch can be read without them; the others are in tests/lab/test_docs_lab.py alone.
    [each for each in commands() if each[1].split()[1] == "launch" or not names_nodes(each[1])],
)
def test_commands_parse(
    document: str,
    line: str,
    ddpkit: DDPKIT,
    tmp_path: Path,
    clean_environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = shlex.split(line, comments=True)[1:]
    for name in ("train.py", "train_distributed.py", "train_parallel.py"):
        (tmp_path / name).write_text("# reads CKPT_DIR, --out and --checkpoint-dir\n")
    (tmp_path / "train.sh").touch(0o755)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if words[0] == "init":  # into a folder where nothing is in the way
        (tmp_path / "new").mkdir()
        assert ddpkit(*words, cwd=tmp_path / "new").returncode == 0
        return
    (tmp_path / "ddpkit.toml").write_text("[profiles.fast]\n")
    (tmp_path / "hosts.txt").write_text("node1\n")
    (tmp_path / "job.log").write_text("it broke\n")
    if names_nodes(line):
        # A dry run on nodes asks them; without any, the words are still read (tests/lab/test_docs_lab.py does more).
        words = [words[0], "--explain", *(word for word in words[1:] if word not in ("--explain", "--dry-run"))]
    elif words[0] in STARTS and not {"--explain", "--dry-run"} & set(words):
        words.insert(1, "--dry-run")
    of_ranks = ("dump", "shell", "debug", "forward")
    if words[0] in ("status", "logs", "stop", "attach", "report", "top", *of_ranks) or words == ["explain"]:
        assert ddpkit("launch", "-n", "4", "--", "true").returncode == 0
    if words[0] == "nodes" and len(words) > 1:
        file = str(tmp_path / "bad_nodes.json")
        node = bad_nodes.bad_node("node2", "gpu-lost", "Xid 79", "run-1", time.time())
        assert bad_nodes.remember(file, node, time.time()) == ""
        words += ["--bad-nodes", file, "--dry-run"]
    if words[0] in STARTS:  # nothing is started: this process can read them as well
        monkeypatch.setattr(os, "environ", {**clean_environ, "WANDB_API_KEY": "x"})
        monkeypatch.chdir(tmp_path)
        assert app.run(words) == 0, capsys.readouterr()
        return
    done = ddpkit(*words)
    if words[0] in of_ranks or "--slow" in words:
        assert "has no running ranks" in done.stderr  # that run has ended
        return
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_plans_are_the_golden_ones(path: Path) -> None:
    text = path.read_text()

    def golden(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return f"<!-- golden: {match[1]} -->\n```sh\n{(ROOT / f'tests/golden/{match[1]}.sh').read_text()}```\n"

    wanted = FENCE.sub(golden, text)
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        path.write_text(wanted)
        return
    assert text == wanted, "make golden brings it up to date"


@pytest.fixture(scope="session")
def generated() -> set[str]:
    """Pages of the site that are in no clone, by their paths below docs."""
    return set(generated_pages.pages())


@functools.cache
def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    text = FENCE.sub("", path.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "]", each)).strip().lower() for each in headings}
    return {name.replace(" ", "-") for name in named} | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path, generated: set[str]) -> None:
    """To a file, and to a heading in it. Links between pages of the site are in tests/test_site.py as well."""
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text())):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        page = os.path.relpath(there, ROOT / "docs")
        if page in generated:  # their anchors are in tests/test_site.py
            assert path.parent != ROOT, f"{target} is in no clone"
            continue
        assert there.exists(), target
        assert not anchor or there.suffix != ".md" or anchor in anchors(there), target


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCUMENTS:
        blocks = [block for _, kind, block in FENCE.findall(path.read_text()) if kind == "console"]
        for target in re.findall(r"^make ([a-z-]+)", "\n".join(blocks), re.MULTILINE):
            assert target in targets, f"{path.name}: make {target}"


def test_the_first_thirty_lines_do_the_main_job() -> None:
    head = "\n".join((ROOT / "README.md").read_text().splitlines()[:30])
    assert "pip install" in head
    assert "ddpkit launch -n 2 -- train.py" in head


def test_the_readme_is_short_and_has_the_two_commands_of_a_clone() -> None:
    """CI runs one of them, the test command, on a clean clone."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 90
    clone = text.partition("## In a clone\n")[2]
    assert re.findall(r"^make (\w+)", clone, re.MULTILINE) == ["demo", "test"]
    assert re.search(r"^(if )?make test\b", (ROOT / ".ci/run").read_text(), re.MULTILINE)


def test_every_room_is_in_the_table() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for path in (ROOT / "ddpkit").iterdir():
        if path.name not in ("__init__.py", "__main__.py", "__pycache__", "py.typed"):
            assert f"`ddpkit/{path.name}{'/' if path.is_dir() else ''}`" in text, path.name


def test_files_named_for_contributors_exist() -> None:
    """`launchers/plan.py` is a file of the package, `tests/lab/` one of the repository; a bare name is in some room."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## A new backend")[0]
    names = {*re.findall(r"`((?:[a-z_]+/)*(?:[a-z_]+\.py|[a-z_]+/))`", text)}
    assert len(names) > 60
    for name in names:
        places = [ROOT / name, ROOT / "ddpkit" / name, *(ROOT / "ddpkit").rglob(name)]
        assert any(place.exists() for place in places), name


def in_step(path: Path, name: str, rows: str) -> None:
    """The table below a marker of a document is this one; `make golden` writes it."""
    text = path.read_text()
    wanted = re.sub(rf"<!-- {name} -->\n(\|.*\n)*", lambda _: f"<!-- {name} -->\n{rows}", text)
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        path.write_text(wanted)
        return
    assert text == wanted, "make golden brings it up to date"
    assert rows in text


def test_the_table_of_libraries_is_in_step_with_the_runs() -> None:
    in_step(ROOT / "docs/frameworks/index.md", "interop", table.render(table.read()))
    assert set(table.read()) == set(table.LIBRARIES)


def test_the_table_of_drills_is_in_step_with_the_drills() -> None:
    in_step(ROOT / "docs/how-to/drill.md", "drills", drills.render(drills.read()))
    assert set(drills.read()) == set(drills.EXAMPLES)
