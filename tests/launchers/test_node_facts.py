"""The types of a node's answers agree with the programs that give them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ddpkit.launchers import node_facts
from ddpkit.node.calls import gpu_inventory, inventory, login_host, probe


def keys(kind: Any) -> set[str]:
    return set(kind.__required_keys__ | kind.__optional_keys__)


def test_facts_have_the_keys_of_their_type() -> None:
    facts = probe.look(str(Path.cwd()), None, sys.executable, {}, 0, True)
    probe.close()
    assert set(facts) == keys(node_facts.NodeFacts)
    assert set(facts["torch"]) <= keys(node_facts.TorchFacts)


@pytest.fixture(scope="module")
def gathered() -> dict[str, Any]:
    return inventory.gather({"tmp": "/tmp"}, [], None, smi=False)


def test_an_inventory_has_the_keys_of_its_type(gathered: dict[str, Any]) -> None:
    assert set(gathered) == keys(node_facts.NodeInventory)


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("limits", node_facts.Limits),
        ("memory", node_facts.Memory),
        ("cpus", node_facts.Processors),
    ],
)
def test_parts_of_an_inventory_have_the_keys_of_their_types(gathered: dict[str, Any], part: str, kind: Any) -> None:
    assert set(gathered[part]) == keys(kind)


def test_a_file_system_and_a_gpu_have_the_keys_of_their_types(gathered: dict[str, Any]) -> None:
    assert set(gathered["space"]["tmp"]) == keys(node_facts.Space)
    computed = {"index", "ecc_errors", "slow_because", "links", "pci", "numa", "users", "vendor", "is_node"}
    assert {*gpu_inventory.FIELDS, *computed} == keys(node_facts.Gpu)
    assert set(gathered["gpu_host"]) == keys(node_facts.GpuHost)


@pytest.mark.parametrize(
    "lie",
    [
        {"workdir": "/w\nhint: evil"},
        {"no_workdir": ["no"]},
        {"host": "n1; touch x"},
        {"python": 7},
        {"stale": ["X\nY"]},
        {"has_script": "yes"},
    ],
)
def test_a_login_host_answers_texts_of_one_line(lie: dict[str, object], tmp_path: Path) -> None:
    words = {
        "workdir": str(tmp_path),
        "log_dir": "logs",
        "script": "",
        "code": [],
        "pythons": ["python3"],
        "login": False,
    }
    value, number, path = login_host.look(**words)
    assert node_facts.is_answer("login_host.look", [value, number, path])
    assert not node_facts.is_answer("login_host.look", [{**value, **lie}, number, path])


@pytest.mark.parametrize("value", [None, [], [1, 2], [None, "2", ""], [[0, "x"], 0, ""], {"a": 1}])
def test_a_login_host_answers_a_value_an_error_and_a_path(value: object) -> None:
    assert not node_facts.is_answer("login_host.run", value)
