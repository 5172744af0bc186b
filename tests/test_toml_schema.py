"""The JSON Schema of ddpkit.toml: current, and it accepts and refuses as ddpkit does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import toml_schema
from jsonschema import Draft202012Validator

from ddpkit import config
from ddpkit.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TEMPLATE = (ROOT / "ddpkit/templates/ddpkit.toml").read_text()
PAGES = [ROOT / "README.md", ROOT / "LAUNCH_GUIDE.md", *(ROOT / "docs").rglob("*.md")]
BLOCKS = [
    (f"{page.relative_to(ROOT)}: {text.splitlines()[0]}", text)
    for page in PAGES
    for text in re.findall(r"^```toml[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]
FILES = [
    ("template", re.sub(r"(?m)^#(?=[^ :])", "", TEMPLATE)),
    ("docstring", str(config.__doc__).split("\n\n", 2)[2].rpartition("\n\n")[0].replace("\n    ", "\n")),
    *((str(path.relative_to(ROOT)), path.read_text()) for path in sorted((ROOT / "examples").rglob("*ddpkit*.toml"))),
    *(
        (name, text)
        for name, text in BLOCKS
        if not re.search(r"\[project|\[build-system\]|catalogue\.toml\.json", text)
    ),
]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(toml_schema.TARGET.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_schema_is_current() -> None:
    assert json.loads(toml_schema.TARGET.read_text()) == toml_schema.schema(), "make schema"


def test_the_template_names_it() -> None:
    assert TEMPLATE.splitlines()[0] == f"#:schema {toml_schema.URL}"
    assert toml_schema.URL.endswith(f"main/{toml_schema.TARGET.relative_to(ROOT)}")


@pytest.mark.parametrize(("name", "text"), FILES, ids=[name for name, _ in FILES])
def test_what_is_documented_is_valid(name: str, text: str, validator: Any, tmp_path: Path) -> None:
    table = tomllib.loads(text)
    table = table.get("tool", {}).get("ddpkit", table)
    assert list(validator.iter_errors(table)) == []
    (tmp_path / "ddpkit.toml").write_text(text)
    config.read_file(tmp_path)


WRONG = [
    "bakend = 'local'",
    "hosts = 'node1'",
    "nproc_per_node = 0",
    "nproc_per_node = 'many'",
    "nnodes = '2-4'",
    "hang_action = 'shout'",
    "grace = -1",
    "preflight = 'maybe'",
    "profile = ['a']",
    "[profile.fast]\ngrace = 1",
    "[profiles.a]\nopts = 1",
    "[groups]\ngpus = 'node1'",
    "[host.a]\nslot = 1",
    "[host.a]\nport = 70000",
    "[env]\nA = []",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_ddpkit_refuses_is_not_valid(text: str, validator: Any, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text(text)
    with pytest.raises(UsageError):
        config.read_file(tmp_path)
    assert list(validator.iter_errors(tomllib.loads(text)))
