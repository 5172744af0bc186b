"""Records of torch's Flight Recorder, in the form of each torch from 2.2 on: all lead to the rank that is late.

The forms follow `dump()` of torch/csrc/distributed/c10d/TraceUtils.h (2.2: a list; 2.3: version 1.1; 2.4: 2.0),
NCCLUtils.cpp (2.5: 2.3) and FlightRecorder.hpp (2.13: 2.10). Each rank is modelled: `rank_responder` reads a stand-in
of torch's modules, and its answer becomes JSON, as between a rank and the launcher.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ddpkit.monitor import hang, rank_state
from ddpkit.monitor.rank_state import Rank
from ddpkit.monitor.watchdog import Watch
from ddpkit.node.calls.stack_dump import reduce_facts
from ddpkit.node.rank import rank_observe, rank_responder

OLD_NAME = "TORCH_NCCL_TRACE_BUFFER_SIZE"
NOW = 1_800_000_000.0


def _common(seq: int, op: str, done: bool, age: float) -> dict[str, Any]:
    return {
        "pg_id": 0,
        "profiling_name": f"nccl:{op}",
        "input_sizes": [[3]],
        "output_sizes": [[3]],
        "state": "completed" if done else "scheduled",
        "retired": done,
        "frames": [],
    }


def _form_2_2(seq: int, op: str, done: bool, age: float) -> dict[str, Any]:
    return {"seq_id": seq, "time_created_us": int((NOW - age) * 1e6), **_common(seq, op, done, age)}


def _form_2_3(seq: int, op: str, done: bool, age: float) -> dict[str, Any]:
    times = {"time_created_ns": int((NOW - age) * 1e9), "time_discovered_started_ns": None}
    times["time_discovered_completed_ns"] = int((NOW - age + 1) * 1e9) if done else None
    return {"seq_id": seq, **times, **_common(seq, op, done, age)}


def _form_2_4(seq: int, op: str, done: bool, age: float) -> dict[str, Any]:
    entry = _form_2_3(seq, op, done, age)
    del entry["seq_id"]
    numbers = {"record_id": seq - 1, "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq}
    types = {"input_dtypes": ["Float"], "output_dtypes": ["Float"]}
    return {**entry, **numbers, **types, "process_group": ("0", "default_pg"), "is_p2p": op.startswith("send")}


FORMS = {"2.2.0": _form_2_2, "2.3.1": _form_2_3, "2.4.0": _form_2_4, "2.5.1": _form_2_4, "2.13.0": _form_2_4}
STATUS = {"0": {"last_enqueued_collective": 12, "last_started_collective": 11, "last_completed_collective": 11}}


def _pickled(version: str, entries: list[dict[str, Any]]) -> bytes:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    whole: dict[str, Any] = {"entries": entries, "version": "1.1"}
    if version == "2.2.0":
        return pickle.dumps(entries)
    if version >= "2.4":
        whole |= {"version": "2.0", "pg_config": config}
    if version.startswith(("2.5", "2.13")):
        whole |= {"pg_status": STATUS, "version": "2.3"}
    if version == "2.13.0":
        whole |= {"version": "2.10", "comm_lib_version": "2.28.9"}
    return pickle.dumps(whole)


def read_rank(
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    version: str,
    entries: list[dict[str, Any]],
    backend: str = "nccl",
    dumps: tuple[str, ...] = ("_dump_nccl_trace",),
) -> Rank:
    """Let a rank with this torch answer, and read its answer as the launcher does."""

    def dump(*args: bool) -> bytes:
        if args and version < "2.4":
            raise TypeError("_dump_nccl_trace(): incompatible function arguments")
        return _pickled(version, entries)

    group = object()
    world = SimpleNamespace(
        pg_group_ranks={group: {0: 0, 1: 1}}, pg_map={group: (backend, None)}, pg_names={group: "0"}
    )
    modules = {
        "torch": SimpleNamespace(__version__=version),
        "torch._C._distributed_c10d": SimpleNamespace(**dict.fromkeys(dumps, dump)),
        "torch.distributed.distributed_c10d": SimpleNamespace(_world=world),
    }
    with monkeypatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        answer = {"fr": rank_responder._flight_recorder(), "groups": rank_responder._groups()}
    frames = [["/data/train.py", 57, "step"]]
    facts = {"pid": 1, "state": "S", "threads": [{"name": "MainThread", "main": True, "frames": frames}]}
    return rank_state.read(number, "node1", json.loads(json.dumps(reduce_facts({**facts, **answer}))), NOW)


@pytest.fixture(autouse=True)
def _no_recorder_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("version", FORMS)
def test_the_late_rank_is_found_in_each_form(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form = FORMS[version]
    done = [form(seq, "all_reduce", True, 60 - seq) for seq in range(1, 12)]
    waits = read_rank(monkeypatch, 0, version, [*done, form(12, "all_reduce", False, 41)])
    late = read_rank(monkeypatch, 1, version, done)
    (finding,) = hang.judge([waits, late], {})
    assert (finding.kind, finding.ranks) == ("late", (1,))
    assert "rank 1 on node1 has not joined all_reduce #12 of group 0 (rank 0 waits in it for 41 s)" in finding.words
    assert waits.idle == pytest.approx(41, abs=1)


@pytest.mark.parametrize("version", ["2.2.0", "2.3.1"])
def test_numbers_that_count_send_and_recv_are_not_compared(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a pair that exchanges something has higher numbers than the other ranks, and no rank is late."""
    form = FORMS[version]
    pair = [form(1, "send 0->1", True, 50), form(2, "all_reduce", False, 41)]
    ranks = [read_rank(monkeypatch, 0, version, pair)]
    ranks.append(read_rank(monkeypatch, 1, version, [form(1, "all_reduce", False, 41)]))
    assert [finding.kind for finding in hang.judge(ranks, {})] == ["none"]


OFF = {
    ("2.2.0", "", "nccl"): "torch's Flight Recorder is off (TORCH_NCCL_TRACE_BUFFER_SIZE is not set)",
    ("2.7.1", f"{OLD_NAME}=0", "nccl"): f"torch's Flight Recorder is off ({OLD_NAME}=0)",
    ("2.7.1", "TORCH_NCCL_TRACE_BUFFER_SIZE=2000", "nccl"): "",
    ("2.8.0", "", "nccl"): "torch's Flight Recorder is off (TORCH_FR_BUFFER_SIZE is not set)",
    ("2.10.0", "TORCH_FR_BUFFER_SIZE=2000", "nccl"): "",
    ("2.10.0", "TORCH_NCCL_TRACE_BUFFER_SIZE=2000", "nccl"): "",
    ("2.11.0", "", "nccl"): "",
    ("2.13.0", "TORCH_FR_BUFFER_SIZE=0", "nccl"): "torch's Flight Recorder is off (TORCH_FR_BUFFER_SIZE=0)",
    ("2.7.1", "TORCH_NCCL_TRACE_BUFFER_SIZE=2000", "gloo"): "torch 2.7.1 has no Flight Recorder for gloo",
}  # fmt: skip


@pytest.mark.parametrize(("case", "words"), OFF.items())
def test_a_recorder_that_is_off_is_reported_in_words(
    case: tuple[str, str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, variable, backend = case
    if variable:
        monkeypatch.setenv(*variable.split("="))
    rank = read_rank(monkeypatch, 0, version, [], backend)
    assert rank.recorded is not bool(words)
    findings = hang.judge([rank], {})
    found = [finding for finding in findings if finding.kind == "unrecorded"]
    assert [finding.words for finding in found] == [
        f"only stacks of rank 0 are compared, not their collectives: {words}"
    ] * bool(words)
    watch = Watch(60.0, "warn", NOW)
    assert watch.unrecorded(findings) == found
    assert watch.unrecorded(findings) == []  # once is enough


def test_no_recorder_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = read_rank(monkeypatch, 0, "2.6.0+cpu", [], "gloo", dumps=())
    assert rank.unrecorded == "torch 2.6.0+cpu has no Flight Recorder for gloo"


@pytest.mark.parametrize(
    ("version", "environ", "old"),
    [
        ("2.2.2+cu121", {"TORCH_FR_BUFFER_SIZE": "2000"}, "2000"),
        ("2.7.1", {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "5"}, "5"),
        ("2.7.1", {}, None),
        ("2.8.0", {"TORCH_FR_BUFFER_SIZE": "2000"}, None),
        ("2.10.0", {"TORCH_FR_BUFFER_SIZE": "2000"}, None),
    ],
)
def test_the_size_gets_the_name_that_an_old_torch_reads(
    version: str, environ: dict[str, str], old: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    rank_observe._record(SimpleNamespace(__version__=version))
    assert os.environ.get("TORCH_NCCL_TRACE_BUFFER_SIZE") == old
