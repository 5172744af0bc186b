"""Roles from tables: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from ddpkit.config import SETTINGS
from ddpkit.errors import UsageError
from ddpkit.launchers.plan import Probe
from ddpkit.roles.spec import Role, fields_of, fill, parse_roles

INFER = {"nnodes": 2, "command": "serve MODEL --port {port}", "ready": "http:/health"}
TRAIN = {
    "nnodes": 2,
    "nproc_per_node": 8,
    "command": "train.py --servers {infer.urls}",
    "after": ["infer"],
    "ends_run": True,
}


def roles(**tables: object) -> tuple[Role, ...]:
    return parse_roles(tables, "ddpkit.toml", SETTINGS)


def test_a_service_and_the_role_that_ends_the_run() -> None:
    infer, train = roles(infer={**INFER, "ready_timeout": "20m", "restart": 2}, train=TRAIN)
    assert (infer.replicas, infer.nodes_each, infer.needs_port, infer.restart) == (2, 1, True, 2)
    assert infer.ready is not None
    assert (infer.ready.probe, infer.ready.value, infer.ready.timeout) == (Probe.HTTP, "/health", 1200.0)
    assert infer.settings == {"nproc_per_node": 1}
    assert (train.replicas, train.nodes_each, train.needs_port, train.after) == (1, 2, False, ("infer",))
    assert train.settings == {"nproc_per_node": 8}
    assert str(infer.ready) == "http:/health"


@pytest.mark.parametrize(
    ("ready", "probe", "value"),
    [
        ("tcp", Probe.TCP, ""),
        ("line: Uvicorn running on", Probe.LINE, "Uvicorn running on"),
        ("http:/v1/models?x=1", Probe.HTTP, "/v1/models?x=1"),
    ],
)
def test_ready(ready: str, probe: Probe, value: str) -> None:
    (first, _) = roles(infer={**INFER, "ready": ready}, train=TRAIN)
    assert first.ready is not None
    assert (first.ready.probe, first.ready.value) == (probe, value)


REFUSED = [
    ({}, "there are no roles", "ends_run = true"),
    ({"infer": INFER}, "no role ends the run", "ends_run = true in [roles.infer]"),
    ({"train": {**TRAIN, "after": ["infre"]}, "infer": INFER}, "there is no role infre", "did you mean 'infer'?"),
    ({"train": {**TRAIN, "after": ["train"]}, "infer": INFER}, "names the role itself", "remove it from after"),
    (
        {"train": TRAIN, "infer": {**INFER, "after": ["train"]}},
        "train after infer after train: each waits for the next",
        "remove after of roles.train",
    ),
    ({"train": {**TRAIN, "after": []}, "infer": INFER}, "its port is chosen when infer starts", 'after = ["infer"]'),
    (
        {"train": TRAIN, "infer": {**INFER, "command": "serve", "ready": "line: x"}},
        "infer has no port",
        "put {port} into the command of roles.infer",
    ),
    (
        {"train": {**TRAIN, "command": "a {infer.uris}"}, "infer": INFER},
        "{infer.uris}: no such address",
        "did you mean 'urls'?",
    ),
    ({"train": {**TRAIN, "comand": "x"}, "infer": INFER}, "roles.train.comand: no such setting", "'command'"),
    ({"train": {**TRAIN, "backend": "ssh"}, "infer": INFER}, "holds for the whole run", "set backend above"),
    ({"train": {**TRAIN, "nnodes": 0}, "infer": INFER}, "roles.train.nnodes = 0 is not valid", "from 1 to"),
    ({"train": {**TRAIN, "nnodes": True}, "infer": INFER}, "roles.train.nnodes = True is not valid", "from 1 to"),
    ({"train": TRAIN, "infer": {**INFER, "replicas": 3}}, "2 nodes for 3 replicas", "nnodes = 3"),
    ({"train": TRAIN, "infer": {**INFER, "ready": "htp:/x"}}, "'htp:/x' is not valid", '"http:/health"'),
    ({"train": TRAIN, "infer": {**INFER, "ready": "http:health"}}, "is not valid", "a path"),
    ({"train": TRAIN, "infer": {**INFER, "ready": "line: ("}}, "roles.infer.ready: ", "a regular expression"),
    ({"train": TRAIN, "infer": {**INFER, "ready_timeout": "2 days"}}, "is not valid", "at most a day"),
    ({"train": {**TRAIN, "ready_timeout": 3}, "infer": INFER}, "no effect without ready", 'ready = "tcp"'),
    ({"train": {**TRAIN, "command": "a 'b"}, "infer": INFER}, "No closing quotation", "quote it"),
    ({"train": {**TRAIN, "command": []}, "infer": INFER}, "command = [] is not valid", "a list of words"),
    ({"train": {key: TRAIN[key] for key in ("ends_run",)}}, "it has no command", "command = "),
    ({"train": "train.py"}, "a role is a table", "[roles.train]"),
    ({"Train/x": TRAIN}, "'Train/x' is not the name of a role", "lower-case"),
    (
        {"train": {**TRAIN, "nnodes": 1, "beside": "infer"}, "infer": INFER},
        "beside infer, which has 2 nodes",
        "nnodes = 2",
    ),
    (
        {"train": TRAIN, "infer": {**INFER, "replicas": 1}},
        "a replica on 2 nodes has no single port",
        "replicas = nnodes",
    ),
]


@pytest.mark.parametrize(("tables", "what", "fix"), REFUSED, ids=[what[:40] for _, what, _ in REFUSED])
def test_refused(tables: dict[str, object], what: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        roles(**tables)
    assert what in caught.value.message
    assert fix in (caught.value.hint or "")


def test_braces_of_a_command_that_are_its_own() -> None:
    words = ("x", '{"a": {"b": 1}}', "${HOME}", "{port}", "--to={infer.urls}", "{}", "{0}", "{infer.urls}/{replica}")
    assert list(fields_of(words)) == [("", "port"), ("infer", "urls"), ("infer", "urls"), ("", "replica")]
    assert fill(words, {"port": "1", "replica": "0"}, {"infer": {"urls": "http://a:1"}}) == (
        "x",
        '{"a": {"b": 1}}',
        "${HOME}",
        "1",
        "--to=http://a:1",
        "{}",
        "{0}",
        "http://a:1/0",
    )
