"""Hardware of a node whose ranks hang: what is looked at, in which time, and what is said of it.

There is no GPU here. The files of adapters and of the kernel are made as it documents them. A program stands for
nvidia-smi: its XML was recorded on an H100, and its counters have the documented form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE

from ddpkit.monitor import dump, evidence, hang
from ddpkit.monitor.hang import Finding, FindingKind
from ddpkit.node.calls import hardware, stack_dump
from ddpkit.node.process_tree import Process

H100 = (Path(__file__).parents[1] / "preflight/nvidia_smi_h100.xml").read_text()
SMI = """#!/bin/sh
cd {folder}
echo >> calls
case "$2" in
--getthroughput) echo "GPU 0: NVIDIA H100 (UUID: GPU-0)"; echo "	 Link 0: Data Tx: $(wc -l < calls) KiB" ;;
--errorcounters) echo "GPU 0: NVIDIA H100 (UUID: GPU-0)"
    printf '\t Link 0: Replay Errors: 0\\n\t Link 1: CRC Errors: 7\\n' ;;
-x) cat smi.xml ;;
esac
{then}
"""
FALLEN = "[9.5] NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', GPU has fallen off the bus."
KERNEL = """6,1,1000000,-;NVRM: Xid (PCI:0000:00:06): 13, pid=1, an older run
6,2,9000000,-;usb 1-1: new device
4,3,9500000,-;NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', GPU has fallen off the bus.
 SUBSYSTEM=pci
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with an adapter, a GPU whose process is this one, and what stands for nvidia-smi."""
    write_smi(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    for name, number in (("counters/port_xmit_data", 100), ("hw_counters/local_ack_timeout_err", 3)):
        path = tmp_path / "sys/class/infiniband/mlx5_0/ports/1" / name
        path.parent.mkdir(parents=True)
        path.write_text(f"{number}\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    (tmp_path / "dev/kmsg").write_text(KERNEL)
    return tmp_path


def write_smi(folder: Path, then: str = "", xml: str = H100) -> None:
    user = f"<processes><process_info><pid>{os.getpid()}</pid></process_info></processes>"
    (folder / "smi.xml").write_text(xml.replace("<processes>\n\t\t</processes>", user))
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/nvidia-smi").write_text(SMI.format(folder=folder, then=then))
    (folder / "bin/nvidia-smi").chmod(0o755)


def looked(root: Path, *, limit: float = 20.0, gpus: bool = True) -> dict[str, Any]:
    look = hardware.Look(f"{root}/")
    assert look._first is not None
    look._first.wait(PATIENCE)
    (root / "sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err").write_text("15\n")
    return look.finish(time.monotonic() + limit, 5.0, gpus)


def test_counters_before_and_after(root: Path) -> None:
    found = looked(root)
    (before, after) = found["counters"].pop("GPU 0 Link 0: Data Tx")
    assert after > before
    assert found["counters"] == {
        "mlx5_0 port 1 port_xmit_data": [100, 100],
        "mlx5_0 port 1 local_ack_timeout_err": [3, 15],
        "GPU 0 Link 1: CRC Errors": [7, 7],
    }
    assert found["kernel"] == [FALLEN]
    assert "<nvidia_smi_log>" in found["smi"]
    assert found["why"] == ""


def test_a_driver_that_hangs_holds_nobody_up(root: Path) -> None:
    write_smi(root, then="exec sleep 60")
    began = time.monotonic()
    found = looked(root, limit=2.0)
    assert time.monotonic() - began < 2.0 + 8.0
    assert (found["smi"], found["why"]) == ("", "nvidia-smi did not answer in time")
    assert found["counters"]["mlx5_0 port 1 local_ack_timeout_err"] == [3, 15]
    assert found["kernel"]


def test_a_run_that_moves_is_not_disturbed(root: Path) -> None:
    assert looked(root, gpus=False)["smi"] == ""
    assert not (root / "calls").exists()
    now = 1000.0
    assert stack_dump.moves({"0": {"fr": {"last": now - 60}}, "1": {"fr": {"last": now - 1}}}, now)
    assert not stack_dump.moves({"0": {"fr": {"last": now - 60}}, "1": {"fr": {"off": "-"}}, "2": {"fr": None}}, now)


def test_a_kernel_that_shows_its_messages_to_others(root: Path) -> None:
    (root / "dev/kmsg").unlink()
    found = looked(root)
    assert found["kernel"] == []
    assert found["why"] == f"{root}/dev/kmsg: No such file or directory"


def test_a_machine_without_such_hardware(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    found = hardware.Look(f"{tmp_path}/").finish(time.monotonic() + 5, 0.0, True)
    assert (found["counters"], found["smi"], found["kernel"], found["imex_channels"]) == ({}, "", [], [])


def hung(root: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[Path, list[Finding]]:
    """The dump of a rank on that node: this process."""
    monkeypatch.setattr(stack_dump, "Look", lambda: hardware.Look(f"{root}/"))
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as rank:
        table = {rank.pid: Process(1, "S", 0.0, 0, 0, "python", 5.0)}  # it began 5 s after the boot
        monkeypatch.setattr(stack_dump, "processes", lambda: table)
        value = stack_dump.collect({"3": {"pid": rank.pid}}, asks=[])
        assert rank.stdin is not None
        rank.stdin.close()
    assert value["ras"] is None
    value["ranks"]["3"]["pid"] = os.getpid()
    answers = dump.Answers()
    answers.add(dump.read_answer(json.loads(json.dumps(value)), "node1"))
    result = dump.compose("run", "", answers, {}, "asked", time.time())
    return dump.write(result, folder), [each for each in result.findings if each.kind == "hardware"]


def test_a_dump_keeps_and_judges_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "clocks_event_reason_hw_thermal_slowdown>"
    write_smi(root, xml=H100.replace(f"<{slow}Not Active", f"<{slow}Active"))
    folder, findings = hung(root, monkeypatch, root)
    assert [each.ranks for each in findings] == [(3,), ()]
    assert [each.words for each in findings] == [
        f"GPU 0000:00:06 of node1 (rank 3): the kernel reports {FALLEN}",
        "GPU 0000:00:06 of node1 (rank 3): is slowed down (hw_thermal_slowdown; its SM clock: 345 MHz)",
    ]
    assert "<sm_clock>345 MHz</sm_clock>" in (folder / "smi_node1.xml").read_text()
    told = (folder / "hardware.txt").read_text()
    assert "GPU 0 Link 0: Data Tx: " in told
    assert "GPU 0 Link 1: CRC Errors: 7 -> 7 (+0)" in told
    kept = json.loads((folder / "answers.jsonl").read_text())["hardware"]
    assert kept["counters"]["mlx5_0 port 1 port_xmit_data"] == [100, 100]


def test_errors_that_increase_are_named(root: Path) -> None:
    (*_, finding) = evidence.findings("node2", evidence.read(looked(root)), ())
    assert (finding.kind, finding.ranks) == ("hardware", ())
    assert finding.words.startswith("node2: errors increase, in ")
    assert finding.words.endswith(" s: mlx5_0 port 1 local_ack_timeout_err +12")


def test_a_gpu_that_failed_explains_why_all_wait() -> None:
    """Xid 79 of a rank's GPU: the others wait in a collective that this rank has joined as well."""
    failed = Finding(kind=FindingKind.HARDWARE, ranks=(3,), words="GPU")
    slow, stuck = replace(failed, ranks=()), Finding(kind=FindingKind.STUCK, ranks=(), words="all wait")
    late = Finding(kind=FindingKind.LATE, ranks=(1,), words="late")
    assert hang.with_hardware([stuck], [failed, slow]) == [failed, stuck, slow]
    assert hang.after_timeout([failed, stuck, slow], [0, 1])[0] is failed
    assert hang.after_timeout([slow], [0]) == []
    assert hang.with_hardware([late], [failed, slow]) == [late, failed, slow]


@pytest.mark.parametrize("value", [{}, {"seconds": 1}, [], {"seconds": 1, "counters": {"a": [1]}, "kernel": []}])
def test_an_answer_of_another_form_is_refused(value: Any) -> None:
    answer = dump.Answer(host="a", t=0.0, ranks={}, ras=None, hardware=value or {"x": 1})
    with pytest.raises(ValueError, match=r"a sent an invalid answer|values to unpack"):
        dump.Answers().add(answer)
