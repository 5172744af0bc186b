"""Symptoms: each names an entry of the catalogue, and none stands where another is always found before it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ddpkit
from ddpkit.diagnosis import symptoms
from ddpkit.diagnosis.answer import BY_CLASS
from ddpkit.diagnosis.catalogue import BY_ID, load
from ddpkit.diagnosis.catalogue.entry import OWN
from ddpkit.diagnosis.catalogue.reading import CatalogueError, read_checks
from ddpkit.diagnosis.symptoms import Symptom, find_symptom, login_fix
from ddpkit.transports.ssh import program as ssh_program

PACKAGE = Path(ddpkit.__file__).parent
# The reasons of exceptions that no entry knows have their own test.
TABLES = {name: [Symptom(*row) for row in rows] for name, rows in load().checks.items() if name not in (OWN, BY_CLASS)}


def nodes_of(folder: str) -> list[ast.AST]:
    """All syntax of a folder's modules."""
    return [node for path in (PACKAGE / folder).rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]


@pytest.mark.parametrize("row", ['entry = "no-such-entry"', 'entry = "killed", words = "x"', 'text = "x"'])
def test_a_symptom_names_an_entry_of_the_catalogue(row: str) -> None:
    with pytest.raises(CatalogueError, match=r"checks.toml: ranks: .* names no entry"):
        read_checks(f"ranks = [{{{row}}}]", "checks.toml", BY_ID)


def test_each_table_of_symptoms_is_asked_for() -> None:
    stages = {f"stage-{name}" for name in ("ranks", "gloo", "gpu-map", "nccl")}
    asked = {
        node.value for room in ("preflight", "transports") for node in nodes_of(room) if isinstance(node, ast.Constant)
    }
    assert not set(TABLES) - stages - asked


def test_what_a_check_names_is_an_entry_of_the_catalogue() -> None:
    given = [
        value
        for node in nodes_of("preflight")
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Fault", "Check")
        for value in (*node.args[4:5], *(each.value for each in node.keywords if each.arg == "doc"))
    ]
    named = {value.value for value in given if isinstance(value, ast.Constant)}
    assert len(named) > 20
    assert named <= set(BY_ID)


@pytest.mark.parametrize("name", TABLES)
def test_every_symptom_can_be_found(name: str) -> None:
    """An empty pattern fits everything: nothing behind it is ever found. The same pattern twice is found once."""
    patterns = [each.text for each in TABLES[name]]
    assert "" not in patterns[:-1]
    assert len(set(patterns)) == len(patterns)
    for pattern in patterns:
        re.compile(pattern)


# Texts of other programs that a symptom is about: the C library, SLURM, torch.
FOREIGN = (
    "Error 802: system not yet initialized",  # torch.cuda
    "CUDA out of memory. Tried to allocate 128.00 MiB.",  # torch
    "no such file or directory, name or service not known, no address associated with hostname",
    "operation not permitted",
    "Unable to find address for: ib7",
    "Node failure on node3, TIME LIMIT, Task launch failed",
    "Unable to create step for job 7, More processors requested than permitted, Requested nodes are busy",
    "Memory required by task is not available",
    "resolve_ctls_from_dns_srv, fetch_config: DNS SRV lookup failed, Could not establish a configuration source",
    "it cannot reach a port of any other node: no answer in 2 s",  # put together from two texts
    "its Python did not start ddpkit's process in time",
)


def texts_of_ddpkit() -> list[str]:
    """All texts of the package, without those of the symptoms and the catalogue. A value is an `x`."""
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        if "diagnosis" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(one.value) if isinstance(one, ast.Constant) else "x" for one in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_the_evidence_of_every_symptom_is_a_text_of_ddpkit_or_of_another_program() -> None:
    """Otherwise a check whose text was changed silently loses its cause."""
    texts = [*texts_of_ddpkit(), *FOREIGN]
    patterns = {one.text for table in TABLES.values() for one in table}
    words = [word for one in patterns for word in ([one] if "(" in one else one.split("|"))]
    assert len(words) > 60
    assert [word for word in words if not any(re.search(word, text) for text in texts)] == []


def test_the_first_that_fits() -> None:
    assert find_symptom("tmp", "no space left on device").cause == "the file system is full"
    assert find_symptom("tmp", "permission denied").cause.startswith("ddpkit and the ranks")
    assert find_symptom("ranks", "No module named x").entry == "module-missing"
    assert find_symptom("ranks", "No module named x", with_cause=True) == Symptom()
    assert find_symptom("no check", "x") == Symptom()


def test_every_fix_of_a_login_is_used_and_known() -> None:
    nodes = nodes_of("transports")
    assert set(symptoms.LOGIN_FIXES) <= {node.value for node in nodes if isinstance(node, ast.Constant)}
    named = [
        call.args[0] for call in nodes if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "login_fix"
    ]
    assert len(named) > 8
    assert {node.value for node in named if isinstance(node, ast.Constant)} <= set(symptoms.LOGIN_FIXES)
    assert {cause for _, _, cause in ssh_program._LOGIN_ERRORS} <= set(symptoms.LOGIN_FIXES)


def test_a_fix_of_a_login() -> None:
    assert login_fix("no-key", "node1", "me@node1") == "ssh-copy-id me@node1"
    assert login_fix("unknown-key", "node1") == "connect once, and compare the fingerprint: ssh node1"
    assert "{" not in "".join(login_fix(cause, "node1") for cause in symptoms.LOGIN_FIXES)


def test_symptoms_do_not_load_the_catalogue() -> None:
    """A connection imports them before every launch."""
    code = "import sys, ddpkit.diagnosis.symptoms; sys.exit(any('catalogue' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
