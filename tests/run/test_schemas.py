"""Every document of `--json` is what its published schema says, and says which schema it has."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, START

from ddpkit.run import bad_nodes

SCHEMAS = Path(__file__).parents[2] / "docs/schema"
DOCUMENTS = sorted(path for path in SCHEMAS.glob("*.json") if not path.match("*.toml.json"))  # files of users
WAITS = "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"
FAILS = "import os, sys\nprint('it broke', file=sys.stderr)\nsys.exit(7 * (os.environ['RANK'] == '1'))\n"


def strict(schema: Any) -> Any:
    """Refuse names that a schema does not list: another version of ddpkit may add some, this one has none."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: strict(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        changed["unevaluatedProperties"] = False
    return changed


def check(text: str, name: str) -> dict[str, Any]:
    """Return a document after a look whether it fits its schema."""
    document: dict[str, Any] = json.loads(text)
    assert next(iter(document.items())) == ("schema", f"ddpkit.{name}/1")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    if "$defs" in schema and name in ("ps", "stop", "stop_plan"):
        # A definition that is used with more properties beside it must not be closed by itself.
        closed = {key: strict(value) for key, value in schema.items() if key != "$defs"}
        closed["$defs"] = {key: value if key == "run" else strict(value) for key, value in schema["$defs"].items()}
    else:
        closed = strict(schema)
    importlib.import_module("jsonschema").Draft202012Validator(closed).validate(document)
    return document


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_schemas_are_schemas(path: Path) -> None:
    schema = json.loads(path.read_text())
    importlib.import_module("jsonschema").Draft202012Validator.check_schema(schema)
    assert schema["$id"] == schema["properties"]["schema"]["const"] == f"ddpkit.{path.stem}/1"
    assert schema["title"]


ALONE = {
    "ps": ["ps", "--json"],
    "rm": ["rm", "--ended", "--json"],
    "backends": ["backends", "--json"],
    "env": ["env", "--json"],
    "init": ["init", "--dry-run", "--json"],
    "settings": ["launch", "--explain", "--json", "--", "true"],
    "plan": ["launch", "-n", "2", "--dry-run", "--json", "--", "true"],
    "catalogue": ["explain", "--list", "--json"],
    "catalogue_entry": ["explain", "port-in-use", "--json"],
    "test": ["test", "1", "--no-ranks", "--json"],
    "drill_plan": ["drill", "--checkpoint-dir-option", "--out", "--dry-run", "--json", "--", "true"],
}


@pytest.mark.parametrize("name", ALONE)
def test_commands_without_a_run(name: str, ddpkit: DDPKIT) -> None:
    check(ddpkit(*ALONE[name]).stdout, name)


def test_a_plan_of_roles(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('[roles.train]\ncommand = "true"\nends_run = true\n')
    document = check(ddpkit("launch", "--dry-run", "--json").stdout, "roles_plan")
    plan = json.loads((SCHEMAS / "plan.json").read_text())
    whole = {"schema": "ddpkit.plan/1", **document["replicas"]["train.0"]}
    importlib.import_module("jsonschema").Draft202012Validator(plan).validate(whole)


def test_bad_nodes(ddpkit: DDPKIT, tmp_path: Path) -> None:
    file, now = str(tmp_path / "bad.json"), time.time()
    for host in ("node1", "node2"):
        bad_nodes.remember(file, bad_nodes.bad_node(host, "gpu-ecc", "", "run", now), now)
    shown = check(ddpkit("nodes", "forgive", "node1", "--bad-nodes", file, "--json").stdout, "nodes")
    assert [node["host"] for node in shown["nodes"]] == ["node2"]
    assert [node["host"] for node in shown["removed"]] == ["node1"]


def test_an_environment_that_is_incomplete(ddpkit: DDPKIT) -> None:
    done = ddpkit("env", "--json", env={"RANK": "0"})
    assert done.returncode == 125
    assert check(done.stdout, "env")["env"] is None


def test_a_run_that_failed(ddpkit: DDPKIT, script: Callable[..., str], tmp_path: Path) -> None:
    done = ddpkit("launch", "-n", "2", "--json", "--", script(FAILS))
    assert done.returncode == 7
    ended = check(done.stdout, "run")
    facts = ("run_id", "state", "summary", "exit_code", "backend", "command", "failure", "folder", "world_size")
    status = check(ddpkit("status", "--json").stdout, "status")
    (listed,) = check(ddpkit("ps", "--json").stdout, "ps")["runs"]
    (stopped,) = check(ddpkit("stop", "--json").stdout, "stop")["runs"]
    (planned,) = check(ddpkit("stop", "--dry-run", "--json").stdout, "stop_plan")["ended"]
    report = check(ddpkit("report", "--json").stdout, "report")
    top = check(ddpkit("top", "--json").stdout, "run")
    for name in facts:
        same = [each[name] for each in (ended, status, listed, stopped, planned, report, top)]
        assert all(value == same[0] for value in same), (name, same)
    failure = ended["failure"]
    assert (failure["rank"], failure["exit_code"], failure["signal"], failure["last_lines"]) == (
        1,
        7,
        None,
        ["it broke"],
    )
    for line in ddpkit("logs", "--json").stdout.splitlines():
        check(line, "logs")
    check(ddpkit("explain", str(tmp_path / "logs" / ended["run_id"]), "--json").stdout, "explain")
    (removed,) = check(ddpkit("rm", ended["run_id"], "--json").stdout, "rm")["removed"]
    assert removed == {"run_id": ended["run_id"], "folder": ended["folder"]}


def test_lines_of_other_bytes_are_json_for_every_reader(ddpkit: DDPKIT, script: Callable[..., str]) -> None:
    """A lone surrogate, as Python has it for such a byte, is refused by the readers of other languages."""
    name = script("import os\nos.write(1, b'caf\\xe9\\n')\n")
    assert ddpkit("launch", "-q", "-n", "1", "--", name).returncode == 0
    lines = ddpkit("logs", "--json").stdout
    assert "caf\\ufffd" in lines
    assert "\\udc" not in lines


def test_a_run_that_runs(start: START, ddpkit: DDPKIT, script: Callable[..., str], tmp_path: Path) -> None:
    command = start("launch", "-n", "2", "--", script(WAITS))
    command.wait_for("] ready", times=2)
    check(ddpkit("top", "--once", "--json").stdout, "top")
    check(ddpkit("dump", "--json").stdout, "dump")
    assert check(ddpkit("status", "--json").stdout, "status")["state"] == "running"
    assert len(check(ddpkit("stop", "--all", "--dry-run", "--json").stdout, "stop_plan")["commands"]) == 1
    (tmp_path / "go").touch()
    assert command.end() == 0


@pytest.mark.torch
def test_bench(ddpkit: DDPKIT) -> None:
    size = ["--ops", "all_reduce", "--min-bytes", "8", "--max-bytes", "8"]
    done = ddpkit("bench", "-n", "2", *size, "--json", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stderr
    check(done.stdout, "bench")


def test_a_run_of_roles(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    (tmp_path / "ends.py").write_text("print('done')\n")
    (tmp_path / "ddpkit.toml").write_text(
        '[roles.data]\nnnodes = 2\ncommand = "waits.py"\nready = "line: up"\n'
        '[roles.train]\ncommand = "ends.py"\nnproc_per_node = 2\nafter = ["data"]\nends_run = true\n'
    )
    check(ddpkit("launch", "-b", "local", "--json").stdout, "run")
    assert [each["phase"] for each in check(ddpkit("status", "--json").stdout, "status")["roles"]] == [
        "stopped",
        "stopped",
        "done",
    ]
    assert len(check(ddpkit("ps", "--roles", "--json").stdout, "ps")["runs"][0]["roles"]) == 3
    assert "roles" not in check(ddpkit("ps", "--json").stdout, "ps")["runs"][0]
    lines = [check(line, "logs") for line in ddpkit("logs", "--json").stdout.splitlines()]
    assert {line["role"] for line in lines} == {"data.0", "data.1", "train.0", None}
    assert [len(each["parts"]) for each in check(ddpkit("report", "--json").stdout, "report")["lanes"]] == [1, 1, 1]
    check(ddpkit("status", "--role", "data.1", "--json").stdout, "status")
    check(ddpkit("stop", "--role", "data.1", "--json").stdout, "stop")
