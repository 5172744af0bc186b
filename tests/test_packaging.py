"""What an index would get is whole, small and true: the sdist, the wheel, the wheel made from the sdist, installed."""

from __future__ import annotations

import email
import importlib.metadata
import importlib.util
import os
import re
import stat
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from pathlib import Path

import pytest
import yaml

import ddpkit
from ddpkit.diagnosis.catalogue import built

ROOT = Path(__file__).parents[1]
PATIENCE = 300.0
pytestmark = pytest.mark.live
SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "ddpkit").rglob("*.py"))
PACKAGE = [path for path in (ROOT / "ddpkit").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
# What `ddpkit init` writes lies in the repository where it is used, and in a wheel among the templates.
TEMPLATES = [ROOT / "train.py", ROOT / "config/default.yaml"]
# The catalogue is TOML in the repository, and in a wheel one file with its index.
CATALOGUE = "ddpkit/diagnosis/catalogue/catalogue.json"
FILES = {
    **{
        path.relative_to(ROOT).as_posix(): path
        for path in PACKAGE
        if path.suffix != ".toml" or "templates" in path.parts
    },
    **{f"ddpkit/templates/{path.relative_to(ROOT).as_posix()}": path for path in TEMPLATES},
}

needs_backend = pytest.mark.skipif(
    not os.environ.get("CI")
    and None in (importlib.util.find_spec("hatchling"), importlib.util.find_spec("hatch_fancy_pypi_readme")),
    reason="hatchling and its plugin are not installed: make test-light installs them",
)


def run(*argv: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    """Run a program to its end. Returns what it printed, errors too."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DDPKIT_", "PIP_"))}
    env |= {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}  # where no Python has torch
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout
    return done.stdout


def build(source: Path, kind: str, into: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", into, cwd=source)
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        # Nothing in it that a careful unpacking refuses or changes.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **safe)  # type: ignore[arg-type]
    (top,) = folder.iterdir()
    return top


@pytest.fixture(scope="module", params=["clone", "sdist"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a clone as pip does, and from the sdist as an index's files are made."""
    source: Path = ROOT if request.param == "clone" else request.getfixturevalue("unpacked")
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(f"ddpkit-{ddpkit.__version__}.dist-info/METADATA"))


@needs_backend
def test_the_sdist_is_what_a_packager_needs(sdist: Path, unpacked: Path) -> None:
    assert sdist.name == f"ddpkit-{ddpkit.__version__}.tar.gz"
    names = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert {*SOURCES, "ddpkit/py.typed", "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "Makefile"} <= names
    assert {"tests/test_packaging.py", "train.py", "test_distributed.py"} <= names
    assert not [name for name in names if re.search(r"(^|/)(\.venv|\.git|\.ci|__pycache__|logs)/", name)]
    assert not [path for path in unpacked.rglob("*") if path.is_symlink()]
    assert sdist.stat().st_size < 3 << 20  # more would be something that does not belong there


@needs_backend
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"ddpkit-{ddpkit.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"ddpkit-{ddpkit.__version__}.dist-info"
        assert {name for name in names if not name.startswith(f"{about}/")} == {*FILES, CATALOGUE}
        assert archive.read(CATALOGUE) == built.encode(built.build(built.source_files(), built.other_files()))
        assert f"{about}/licenses/LICENSE" in names
        assert "ddpkit = ddpkit.__main__:main" in archive.read(f"{about}/entry_points.txt").decode()
        assert not [each.filename for each in archive.infolist() if stat.S_ISLNK(each.external_attr >> 16)]
        for name, path in FILES.items():
            assert archive.read(name) == path.read_bytes(), name
    assert wheel.stat().st_size < 3 << 19


@needs_backend
def test_the_metadata_is_true(wheel: Path) -> None:
    about = metadata(wheel)
    assert about["Version"] == ddpkit.__version__
    assert about["Requires-Python"] == ">=3.10"
    assert about["License-Expression"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert about["Description-Content-Type"] == "text/markdown"
    classifiers = set(about.get_all("Classifier", []))
    assert "Typing :: Typed" in classifiers
    urls = dict(url.split(", ") for url in about.get_all("Project-URL", []))
    assert {"Documentation", "Repository", "Issues", "Changelog"} == urls.keys()
    assert {url.split("://")[0] for url in urls.values()} == {"https"}
    assert not [each for each in classifiers if each.startswith("License ::")], "License-Expression replaces them"
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    tested = workflow["jobs"]["light"]["strategy"]["matrix"]["python"]
    named = [each.rpartition(" ")[2] for each in classifiers if re.search(r"Python :: 3\.\d+$", each)]
    assert sorted(named) == sorted(tested), "what is promised is what is tested"


@needs_backend
def test_the_long_description_stands_alone(wheel: Path) -> None:
    """An index shows it without the files beside it: every link and picture is absolute, and its file exists."""
    text = str(metadata(wheel).get_payload())
    assert text.splitlines()[0] == (ROOT / "README.md").read_text().splitlines()[0]
    links = [*re.findall(r"\]\(([^)]+)\)", text), *re.findall(r"(?:src|href)=\"([^\"]+)\"", text)]
    assert len(links) > 3
    for link in links:
        assert link.startswith(("https://", "#")), link
        ours = re.fullmatch(
            r"https://(?:github\.com/ddpkit/ddpkit/blob|raw\.\S+/ddpkit/ddpkit)/main/([^#]+)(#.*)?", link
        )
        assert ours is None or (ROOT / ours[1]).exists(), link


@needs_backend
def test_it_pulls_no_more_than_it_needs(wheel: Path) -> None:
    wanted = [each for each in metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in each]
    names = {re.split(r"[^\w-]", each)[0] for each in wanted}
    assert names == {"typer", "rich", "fabric", "paramiko", "tomli"}
    assert next(each for each in wanted if each.startswith("tomli")).endswith("python_version < '3.11'")
    # torch is asked for where ranks run, and by nothing else that one may install: it would bring another build of it.
    for extra in metadata(wheel).get_all("Requires-Dist", []):
        assert not extra.startswith("torch>") or extra.endswith("extra == 'torch'"), extra


BLOCK = """
import importlib.abc, sys

class NoTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, NoTorch())
"""
SCRIPT = """
import os, sys, ddpkit
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], ddpkit.__file__, *sys.argv[1:])
"""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with this wheel and what it asks for, and no torch in any case."""
    folder = tmp_path_factory.mktemp("installed") / "a venv"
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    pip = (sys.executable, "-m", "pip", "--isolated", "--python", folder / "bin/python")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", wheel)
    # What it asks for is that of these tests: behind its own, and without the .pth files there.
    (site / "libraries.pth").write_text(f"{importlib.metadata.distribution('typer').locate_file('')}\n")
    # Not as sitecustomize: Debian's own Python has one of its own in front of it.
    (site / "no_torch.py").write_text(BLOCK)
    (site / "no_torch.pth").write_text("import no_torch\n")
    return folder / "bin"


@needs_backend
def test_the_installed_program_launches_without_torch(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    assert run(installed / "ddpkit", "--version", cwd=tmp_path) == f"ddpkit {ddpkit.__version__}\n"
    assert "launch" in run(installed / "ddpkit", "--help", cwd=tmp_path)
    assert "port-in-use" in run(installed / "ddpkit", "explain", "--list", cwd=tmp_path)  # what a verdict names
    assert "RANK" in run(installed / "ddpkit", "launch", "-n", "2", "--dry-run", "--", "job.py", cwd=tmp_path)
    text = run(installed / "ddpkit", "launch", "-n", "2", "--", "job.py", "two words", cwd=tmp_path)
    for rank in range(2):
        assert f"rank {rank} of 2 {installed.parent}/lib/" in text
    assert text.count("two words\n") == 2


@needs_backend
def test_a_rank_without_torch_is_told_so(installed: Path, tmp_path: Path) -> None:
    text = run(installed / "ddpkit", "test", "2", cwd=tmp_path, code=122)
    assert re.search(r"bin/python[\d.]* cannot import torch", text)
    assert re.search(r"bin/python[\d.]* -m pip install torch$", text, re.MULTILINE)
    text = run(installed / "ddpkit", "launch", "-n", "2", "--", "-c", "import torch", cwd=tmp_path, code=1)
    assert "python3 cannot import torch" in text or "python cannot import torch" in text


# ---- versions, and what runs the tests elsewhere


def test_the_changelog_knows_this_version() -> None:
    """Released versions stand below `Unreleased`, newest first; this one is the first of them, or newer than all."""
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [heading for heading in headings if heading != "Unreleased"]
    for heading in released:
        assert re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", heading), heading
    versions = [tuple(int(part) for part in heading.split()[0].split(".")) for heading in released]
    assert versions == sorted(versions, reverse=True)
    this = tuple(int(part) for part in ddpkit.__version__.split("."))
    if headings[0] == "Unreleased":
        assert not versions or this > versions[0], "ddpkit/cli/__init__.py: what comes after the last release"
    else:
        assert this == versions[0], "ddpkit/cli/__init__.py and CHANGELOG.md name two versions"


@pytest.mark.skipif(not os.environ.get("DDPKIT_RELEASE"), reason="asked by make release-check")
def test_this_commit_is_one_to_release() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ddpkit.__version__, f"CHANGELOG.md: '## Unreleased' becomes '## {ddpkit.__version__} - DATE'"
    assert run("git", "status", "--porcelain", cwd=ROOT) == ""
    files = {path.name for path in (ROOT / "dist").iterdir()}
    assert files == {f"ddpkit-{ddpkit.__version__}.tar.gz", f"ddpkit-{ddpkit.__version__}-py3-none-any.whl"}


def test_the_workflow_runs_make_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    called = []
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 120, name
        lines = [step["run"] for step in job["steps"] if "run" in step]
        made = [word for line in lines for word in re.findall(r"\bmake ((?!python3)[a-z-]+)(?: [A-Z]+=.*)?$", line)]
        assert len(made) == 1, f"{name}: one target a job"
        called += made
    assert set(called) <= targets
    assert {"check", "test", "test-light", "dist"} <= set(called)
