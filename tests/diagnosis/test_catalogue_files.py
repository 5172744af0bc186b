"""Files of entries: what is wrong with one is one error; a site's own come first, and a broken one ends nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import catalogue_schema
import pytest
from jsonschema import Draft202012Validator

from ddpkit.diagnosis import catalogue
from ddpkit.diagnosis.catalogue import built, site
from ddpkit.diagnosis.catalogue.reading import CatalogueError, read_file
from ddpkit.diagnosis.decide import analyze_log
from ddpkit.files import LIMIT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
ENTRY = """\
[scratch-quota]
title = "The quota of the project on /scratch is used up"
patterns = ['LFS: project (?P<project>\\w+) is over its quota']
cause = "project {project} has used its quota on /scratch"
fix = "lfs quota -h /scratch"
examples = [{source = "Lustre 2.15, run", text = 'LFS: project abc is over its quota'}]
"""
LOG = "LFS: project abc is over its quota\n"


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(catalogue_schema.TARGET.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_schema_is_current() -> None:
    assert json.loads(catalogue_schema.TARGET.read_text()) == catalogue_schema.schema(), "make schema"


def test_the_catalogue_is_what_its_schema_says(validator: Any) -> None:
    for name, content in built.source_files().items():
        assert not list(validator.iter_errors(tomllib.loads(content.decode()))), name


# What is written in place of a line of the entry, and the error.
FAULTS = {
    "unknown field": ("cause =", "couse =", "x.toml: [scratch-quota]: unknown field 'couse'"),
    "missing field": ('fix = "lfs quota -h /scratch"\n', "", "x.toml: [scratch-quota]: fix is missing"),
    "not a text": ('fix = "lfs quota -h /scratch"', "fix = 3", "x.toml: [scratch-quota]: fix = 3: not a text"),
    "not a list": ("patterns = ['", "doubtful = 1\npatterns = ['", "doubtful = 1: not true or false"),
    "no such kind": ("patterns", 'kind = "fatal"\npatterns', "kind = 'fatal': none of cause, death, generic"),
    "no list": ("patterns", 'explains = "killed"\npatterns', "explains = 'killed': not a list"),
    "an expression": ("(?P<project>", "((?P<project>", "is no regular expression: missing ), unterminated subpattern"),
    "no word": ("LFS: project (?P<project>\\w+) is over its quota", "\\d+ x", "would be tried on every line"),
    "an example": ("source = ", "from = ", "x.toml: [scratch-quota]: an example is a table of two texts"),
    "an id": ("[scratch-quota]", "[ScratchQuota]", "x.toml: [ScratchQuota]: an id is lower-case words"),
    "outside": ("[scratch-quota]", "owner = 1\n[scratch-quota]", "x.toml: owner = 1 stands outside of an entry"),
    "twice": ("title =", "fix = ''\ntitle =", "x.toml: invalid TOML: "),
    "no TOML": ("[scratch-quota]", "scratch-quota", "x.toml: invalid TOML: "),
    "a condition": (
        "examples",
        "instead = [{of = ['killed'], near = '['}]\nexamples",
        "x.toml: [scratch-quota]: instead.near: '[' is no regular expression",
    ),
    "a condition without its entry": (
        "examples",
        "instead = [{near = 'x'}]\nexamples",
        "x.toml: [scratch-quota]: instead: of is missing",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_file_is_one_clear_error(fault: str) -> None:
    old, new, error = FAULTS[fault]
    assert old in ENTRY
    with pytest.raises(CatalogueError) as raised:
        read_file(ENTRY.replace(old, new), "x.toml")
    assert error in str(raised.value)
    assert str(raised.value).startswith("x.toml: ")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("fault", [each for each in FAULTS if each not in ("an expression", "no word", "a condition")])
def test_an_editor_sees_the_fault_as_well(fault: str, validator: Any) -> None:
    old, new, _ = FAULTS[fault]
    try:
        table = tomllib.loads(ENTRY.replace(old, new))
    except tomllib.TOMLDecodeError:
        return
    assert list(validator.iter_errors(table))


def of_files(**texts: str) -> dict[str, bytes]:
    return {f"{name}.toml": text.encode() for name, text in texts.items()}


HEAD = 'part = "Files"\n'


@pytest.mark.parametrize(
    ("files", "error"),
    [
        (of_files(a=ENTRY), "a.toml: part is missing, the title of these entries"),
        (of_files(a=HEAD + ENTRY, b=HEAD + ENTRY), "b.toml: [scratch-quota]: a.toml has an entry of this id"),
        (
            of_files(a=HEAD + ENTRY.replace("cause =", "explains = ['no-such']\ncause =")),
            "a.toml: [scratch-quota]: explains names 'no-such', which is no id",
        ),
        (
            of_files(a=HEAD + ENTRY.replace("examples", "instead = [{of = ['no-such']}]\nexamples")),
            "a.toml: [scratch-quota]: of names 'no-such', which is no id",
        ),
        (
            of_files(
                a=HEAD + ENTRY.replace("cause =", "explains = ['quota']\ncause ="),
                b=HEAD
                + ENTRY.replace("scratch-quota", "quota").replace("cause =", "explains = ['scratch-quota']\ncause ="),
            ),
            "a.toml: [scratch-quota]: explains forms a circle: scratch-quota -> quota -> scratch-quota",
        ),
    ],
)
def test_a_fault_between_entries_is_one_clear_error(files: dict[str, bytes], error: str) -> None:
    with pytest.raises(CatalogueError) as raised:
        built.build(files)
    assert str(raised.value) == error


FIX = [sys.executable, "-c", "from ddpkit.diagnosis.catalogue import BY_ID; print(BY_ID['port-in-use'].fix)"]


@pytest.mark.live
def test_a_clone_never_reads_the_build_of_another_state(tmp_path: Path) -> None:
    """Not even of a file that has the same size and time as the one before."""
    package = Path(catalogue.__file__).parents[2]
    shutil.copytree(package, tmp_path / "ddpkit", ignore=shutil.ignore_patterns("__pycache__"))

    def fix() -> str:
        done = subprocess.run(FIX, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    first = fix()
    stored = list((tmp_path / "ddpkit/diagnosis/catalogue/__pycache__").glob(built.NAME))
    folder = tmp_path / "ddpkit/diagnosis/catalogue/core"
    path = next(path for path in folder.glob("*.toml") if "\n[port-in-use]\n" in path.read_text())
    times, text = path.stat(), path.read_text()
    path.write_text(text.replace(f'fix = "{first[:9]}', f'fix = "{first[:9].upper()}'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert stored
    assert fix() == first[:9].upper() + first[9:]
    path.write_text(text)
    assert fix() == first


@pytest.mark.live
def test_where_python_keeps_no_compiled_modules_the_build_is_in_the_users_cache(tmp_path: Path) -> None:
    """As in a clone of another user. A file in the place of the directory stands for that here."""
    package = Path(catalogue.__file__).parents[2]
    shutil.copytree(package, tmp_path / "ddpkit", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "ddpkit/diagnosis/catalogue/__pycache__").write_text("")
    cache = tmp_path / "cache"
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    for _ in range(2):
        subprocess.run(FIX, cwd=tmp_path, env=env, capture_output=True, check=True)
    assert [path.relative_to(cache).as_posix() for path in cache.rglob(built.NAME)] == [f"ddpkit/{built.NAME}"]


# ---- a site's own


def test_the_entry_of_the_guide_leads_to_its_cause(rules: Path, validator: Any) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/how-to/catalogue.md").read_text(), re.DOTALL)
    assert not list(validator.iter_errors(tomllib.loads(text)))
    (rules / "guide.toml").write_text(text)
    for (example,) in read_file(text, "guide.toml").examples.values():
        assert cause_of(example.text) == "project vision has used its quota on /scratch"


def forget() -> None:
    """As if the process had read no entry yet."""
    for kept in (catalogue.load, catalogue.known_failures):
        kept.cache_clear()
    catalogue.BY_ID.forget()


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the user's own entries."""
    monkeypatch.setattr(site, "SYSTEM", tmp_path / "etc")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config/ddpkit/catalogue"
    folder.mkdir(parents=True)
    forget()
    yield folder
    forget()


def cause_of(log: str) -> str:
    first = analyze_log([("log", log)]).first
    return first.cause if first else ""


def test_a_site_adds_entries(rules: Path) -> None:
    (rules / "lustre.toml").write_text(ENTRY)
    first = analyze_log([("log", LOG)]).first
    assert first is not None
    assert first.entry is not None
    assert (first.id, first.cause) == ("scratch-quota", "project abc has used its quota on /scratch")
    assert first.entry.origin == str(rules / "lustre.toml")
    assert catalogue.category(first.entry) == site.PART
    assert "scratch-quota" in [entry.id for entry in catalogue.ENTRIES]


def test_the_entries_of_a_site_come_before_others(rules: Path) -> None:
    line = "OSError: [Errno 28] No space left on device: '/scratch/abc/x'\n"
    assert "abc" not in cause_of(line)
    forget()
    (rules / "lustre.toml").write_text(
        ENTRY.replace("LFS: project (?P<project>\\w+) is over its quota", "No space left .*/scratch/(?P<project>\\w+)")
    )
    assert cause_of(line) == "project abc has used its quota on /scratch"


def test_both_directories_are_read(rules: Path) -> None:
    site.SYSTEM.mkdir()
    (site.SYSTEM / "a.toml").write_text(ENTRY)
    (rules / "b.toml").write_text(ENTRY.replace("scratch-quota", "other-quota").replace("LFS:", "GPFS:"))
    assert cause_of(LOG)
    assert cause_of(LOG.replace("LFS", "GPFS"))


@pytest.mark.parametrize(
    "text",
    [
        *(ENTRY.replace(old, new) for old, new, _ in FAULTS.values()),
        ENTRY.replace("scratch-quota", "port-in-use"),
        ENTRY.replace("cause =", "explains = ['no-such']\ncause ="),
        ENTRY.replace("cause =", "reads = 'driver'\ncause ="),
        "\0",
        "[" * 5000,
    ],
)
def test_a_broken_file_is_one_warning_and_ends_no_verdict(
    rules: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (rules / "broken.toml").write_text(text)
    (rules / "good.toml").write_text(ENTRY.replace("scratch-quota", "good-quota"))
    with caplog.at_level(logging.WARNING):
        assert cause_of(LOG)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert str(rules / "broken.toml") in warning
    assert "\n" not in warning


@pytest.mark.parametrize("kind", ["directory", "pipe", "dangling link", "no UTF-8", "large"])
def test_what_is_no_file_of_entries_is_one_warning(rules: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    path = rules / "broken.toml"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "dangling link":
        path.symlink_to(rules / "missing")
    else:
        path.write_bytes(b"\xff" if kind == "no UTF-8" else b"#" * (LIMIT + 1))
    (rules / "good.toml").write_text(ENTRY)
    assert cause_of(LOG)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert str(path) in warning


def test_a_file_that_others_can_write_is_not_obeyed(rules: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = rules / "lustre.toml"
    path.write_text(ENTRY)
    path.chmod(0o666)
    assert not cause_of(LOG)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "every user can change it" in warning


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
def test_a_file_of_another_user_is_not_obeyed(rules: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = rules / "lustre.toml"
    path.write_text(ENTRY)
    os.chown(path, 65534, 65534)
    assert not cause_of(LOG)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "it belongs to" in warning


def test_values_of_a_sites_pattern_cannot_end_the_search(rules: Path) -> None:
    """A group named `rank` that is no number."""
    (rules / "lustre.toml").write_text(ENTRY.replace("?P<project>", "?P<rank>").replace("{project}", "{rank}"))
    for name in ("abc", "1e3", "²"):
        assert cause_of(LOG.replace("abc", name)) == f"project {name} has used its quota on /scratch"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(?P<project>\\w+) is", "(?P<project>(a+)+) is"),
        ("cause =", "needs = '(a+)+$'\ncause ="),
    ],
)
def test_an_expression_of_a_site_that_takes_years_is_left_out(
    rules: Path, old: str, new: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Typed once, it kept the launcher busy, and deaf to TERM."""
    assert old in ENTRY
    (rules / "slow.toml").write_text(ENTRY.replace(old, new))
    (rules / "good.toml").write_text(ENTRY.replace("scratch-quota", "good-quota"))
    assert cause_of(LOG.replace("abc", f"{'a' * 60}!") + LOG) == "project abc has used its quota on /scratch"
    (warning,) = [record.getMessage() for record in caplog.records]
    assert f"{rules / 'slow.toml'}: a search for " in warning


@pytest.mark.live
def test_a_site_entry_is_shown_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "ddpkit/catalogue"
    folder.mkdir(parents=True)
    (folder / "lustre.toml").write_text(ENTRY)
    (folder / "broken.toml").write_text("x = 1\n")
    command = [sys.executable, "-m", "ddpkit", "explain", "-"]
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, input=LOG, env=env, capture_output=True, text=True, check=True)
    assert f"from: {folder / 'lustre.toml'} (scratch-quota)" in done.stdout.splitlines()
    assert done.stderr.count("\n") == 1
    assert f"{folder / 'broken.toml'}: x = 1 stands outside of an entry" in done.stderr


def test_a_broken_file_of_a_clone_ends_a_command_with_one_clear_error(tmp_path: Path) -> None:
    """Of a copy of the package, as nothing of the real one may be broken."""
    copy = tmp_path / "ddpkit"
    shutil.copytree(ROOT / "ddpkit", copy, ignore=shutil.ignore_patterns("__pycache__"))
    part = copy / "diagnosis/catalogue/core/ssh.toml"
    part.write_text(part.read_text() + "x = [")
    log = tmp_path / "a.log"
    log.write_text("nothing\n")
    command = [sys.executable, "-m", "ddpkit", "explain", str(log)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert ended.returncode == 125
    assert ended.stderr.startswith(
        "ddpkit: error: the catalogue of this clone cannot be used: core/ssh.toml: invalid TOML"
    )
    assert "hint: correct it" in ended.stderr
    assert "Traceback" not in ended.stderr
