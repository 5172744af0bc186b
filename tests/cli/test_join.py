"""distributed_env.py, ddpkit.distributed as one file, decides as the package does and imports nothing of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import test_resolver
from test_resolver import Row

from ddpkit.cli import join, scaffold
from ddpkit.distributed import torch as ddp

ROWS = [row for name, rows in vars(test_resolver).items() if name.endswith("_ROWS") for row in rows]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (text,) = [
        file.text for file in scaffold.files(folder, toml=False, train=True) if file.path == "distributed_env.py"
    ]
    (folder / "distributed_env.py").write_bytes(text)
    return folder / "distributed_env.py"


@pytest.fixture(scope="module")
def joined(path: Path) -> ModuleType:
    spec = spec_from_file_location("distributed_env", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["distributed_env"] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def test_it_needs_the_standard_library_alone(path: Path) -> None:
    """torch is imported inside functions; without site-packages there is none."""
    code = "import distributed_env as ddp, sys; print(ddp.resolve({}).world_size, 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=path.parent, env={}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("1 False\n", "")
    imported = [
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert not [node for node in imported if "ddpkit" in ast.unparse(node)]


def test_it_offers_the_same_names(joined: ModuleType) -> None:
    assert joined.__all__ == ddp.__all__
    assert all(hasattr(joined, name) for name in ddp.__all__)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_decides_as_the_package_does(joined: ModuleType, row: Row) -> None:
    facts = joined.Facts(**vars(row.facts))
    one, other = joined.explain(row.environ, row.argv, facts), ddp.explain(row.environ, row.argv, row.facts)
    assert repr(one) == repr(other)
    if other.error is not None:
        assert (one.error.message, one.error.hint) == (other.error.message, other.error.hint)
        assert isinstance(one.error, joined.EnvError)


def test_modules_that_define_the_same_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "low.py").write_text('"""Low."""\n\nLIMIT = 1\n')
    (tmp_path / "high.py").write_text('"""High."""\n\nfrom ddpkit.low import LIMIT as _\n\nLIMIT = 2\n')
    (tmp_path / "whole.py").write_text('"""Whole."""\n\nfrom ddpkit import low\n')
    monkeypatch.setattr(join, "_PACKAGE", tmp_path)
    with pytest.raises(ValueError, match=r"ddpkit\.low and ddpkit\.high both define LIMIT"):
        join.join_modules("high", "")
    with pytest.raises(ValueError, match=r"ddpkit\.whole imports a module, not names: from ddpkit import low"):
        join.join_modules("whole", "")
