"""No block of the documents goes unchecked: settings are read, programs run, output is compared with real output."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import test_hang
import test_report
from conftest import DDPKIT
from test_docs import ROOT, install_backend

from ddpkit.console.dedup import Fold, FoldedLine, Source, label
from ddpkit.console.progress import Progress, Standing, lines
from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.outcome import Failure
from ddpkit.run.report import steps

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
FENCE = re.compile(r"(?:<!-- (golden|output): ([\w -]+) -->\n)?```(\w*)\n(.*?)```\n", re.DOTALL)
# Each output that is shown, and the test that compares it with a real one.
OUTPUTS = {
    "several faults": "tests/lab/test_preflight_nodes.py",
    "who is waited for": "tests/test_docs_blocks.py",
    "who did not come": "tests/test_docs_blocks.py",
    "bench": "tests/test_docs_blocks.py",
    "watching": "tests/test_docs_blocks.py",
    "top": "tests/monitor/test_top.py",
    "who is slow": "tests/monitor/test_slow.py",
    "lost to waiting": "tests/test_docs_blocks.py",
    "not needed": "tests/test_docs_blocks.py",
    "action": "tests/test_docs_blocks.py",
    "call": "tests/test_docs_blocks.py",
    "call failure": "tests/test_docs_blocks.py",
    "hold": "tests/execution/test_hold.py",
    "cold": "tests/execution/test_hold.py",
    "roles": "tests/roles/test_roles_examples.py",
    "roles status": "tests/roles/test_roles_examples.py",
}


def blocks(kind: str, document: Path | None = None) -> Iterator[tuple[Path, str, str]]:
    """(document, its marker's name, text) of each block of a kind; plans that are golden are compared elsewhere."""
    for path in [document] if document else DOCUMENTS:
        for marker, name, language, text in FENCE.findall(path.read_text()):
            if language == kind and marker != "golden":
                yield path, name, text


def shape(text: str) -> str:
    """A text without its numbers, and without what is as wide as they are."""
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?", "0", text)).strip()


def test_every_kind_of_block_is_known() -> None:
    kinds = {language for path in DOCUMENTS for _, _, language, _ in FENCE.findall(path.read_text())}
    assert kinds == {"console", "sh", "toml", "python", "text", "diff"}


def test_every_output_has_its_test() -> None:
    shown = [name for _, name, _ in blocks("text")]
    assert sorted(shown) == sorted(OUTPUTS)
    for name, path in OUTPUTS.items():
        assert f"output: {name} -->" in (ROOT / path).read_text() or f'output("{name}")' in (ROOT / path).read_text()


def output(name: str) -> str:
    (found,) = [text for _, marker, text in blocks("text") if marker == name]
    return found


def test_every_console_line_is_a_command_that_is_checked() -> None:
    """ddpkit's and make's in tests/test_docs.py; the few others here."""
    extras = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    for path, _, text in blocks("console"):
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if not words or words[0] in ("ddpkit", "make") or words == ["cd", "/path/to/this/clone"]:
                continue
            if words[0] == "salloc":
                assert words[words.index("ddpkit") + 1] == "launch", (
                    f"{path.name}: {line}"
                )  # tests/lab/test_heal_slurm.py
                continue
            if words[0] in ("pip", "pipx", "uv"):
                what = words[words.index("install") + 1]
                assert what.startswith(("/path/to/", "./", "ddpkit")), f"{path.name}: {line}"
                assert not what.startswith("./") or (ROOT / what / "pyproject.toml").exists()
                assert set(re.findall(r"\[(\w+)\]", what)) <= extras
            elif words[0] == "conda-pack":  # as ddpkit's hint writes it: tests/execution/test_stage.py
                assert words == ["conda-pack", "-p", "ENV", "-o", "env.tar.gz"], f"{path.name}: {line}"
            elif words[0] == "pytest":
                assert list((ROOT / words[1]).glob("test_*.py")), f"{path.name}: {line}"
            else:
                assert words == [".", ".venv/bin/activate"], f"{path.name}: {line} is checked by nothing"


def test_shell_scripts_that_are_named_are_there() -> None:
    """They are run by tests/lab/test_slurm_scripts.py and test_ssh_scripts.py."""
    for path, _, text in blocks("sh"):
        assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
        for line in text.splitlines():
            if not (words := shlex.split(line, comments=True)):
                continue
            (script,) = [word for word in words[:2] if word.startswith(("scripts/", "bench/"))] or [""]
            # What ddpkit completion prints is run by tests/cli/test_completion.py.
            known = words[0] == "tail" or "ddpkit completion" in line
            if words[:2] == ["python", "-c"]:
                known = bool(compile(words[2], line, "exec"))  # its library is that of tests/interop
            assert (ROOT / script).is_file() if script else known, f"{path.name}: {line}"


def test_a_change_of_a_script_is_python() -> None:
    """Its lines, taken out and put in, are each a program or the beginning of one."""
    for path, _, text in blocks("diff"):
        for sign in "-+":
            lines = [line[1:] for line in text.splitlines() if line[:1] in (sign, " ")]
            assert compile("\n".join(lines) + "\n", path.name, "exec"), text


def settings(text: str, ddpkit: DDPKIT, folder: Path) -> None:
    (folder / "ddpkit.toml").write_text(text)
    names = re.findall(r"^\[profiles\.(\w+)\]", text, re.MULTILINE)
    for given in [[], *(["--profile", name] for name in names)]:
        done = ddpkit("launch", "--explain", "--json", *given, cwd=folder)
        assert done.returncode == 0, done.stderr
        if given:
            assert {row["source"] for row in json.loads(done.stdout)["settings"]} != {"default"}
            assert f"profile {given[1]}" in done.stdout or "ddpkit.toml" in done.stdout


def test_settings_are_read(ddpkit: DDPKIT, tmp_path: Path) -> None:
    found = [text for path, _, text in blocks("toml") if not re.search(r"\[project\]|catalogue\.toml\.json", text)]
    assert len(found) >= 3
    for number, text in enumerate(found):
        (tmp_path / str(number)).mkdir()
        settings(text, ddpkit, tmp_path / str(number))
        # A word that is not known would have been refused.
        (tmp_path / str(number) / "ddpkit.toml").write_text("no_such_setting = 1\n" + text)
        assert ddpkit("launch", "--explain", cwd=tmp_path / str(number)).returncode == 121


@pytest.mark.torch
def test_the_training_program_of_the_site_runs(ddpkit: DDPKIT, tmp_path: Path) -> None:
    text, resume = (text for _, _, text in blocks("python", ROOT / "docs/how-to/script.md"))
    names = (
        "import os, torch\n"
        "model, total, count = torch.nn.Linear(1, 1), torch.tensor(6.0), 2\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "state = {'model': model.state_dict(), 'optimizer': optimizer.state_dict()}\n"
    )
    (tmp_path / "job.py").write_text(f"{names}{resume}{text}print('loss', float(loss), float(model.bias))\n")
    ends = []
    for _ in range(2):  # the second time it resumes
        done = ddpkit("launch", "-n", "2", "--env", f"PYTHONPATH={ROOT}", "--", "job.py", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("loss 3.0") == 2
        assert (tmp_path / "checkpoint.pt").exists()
        ends.append(set(re.findall(r"loss 3.0 (\S+)", done.stdout)))
    assert len(ends[1]) == 1  # all ranks have the model of rank 0
    assert ends[1] <= ends[0]


@pytest.mark.torch
def test_the_calls_of_the_site_run(tmp_path: Path) -> None:
    found = [text for _, _, text in blocks("python", ROOT / "docs/how-to/call.md")]
    (failing,) = [text for text in found if "missing.txt" in text]
    program = f"{found[0]}\ndef read(path):\n    return open(path).read()\n\n{failing}"
    (tmp_path / "program.py").write_text(program)
    env = {name: value for name, value in os.environ.items() if not name.startswith("DDPKIT_")}
    env |= {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path / "state"), "DDPKIT_GPUS": "0"}
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    first, raised, verdict_of_it = done.stdout.splitlines()
    host = os.uname().nodename.partition(".")[0]
    assert f"{first}\n" == output("call")
    assert shape(f"{raised}\n{verdict_of_it}".replace(f" {host} ", " vm ")) == shape(output("call failure"))


def test_the_launch_from_python_of_the_site_runs(tmp_path: Path) -> None:
    (program,) = [text for _, _, text in blocks("python", ROOT / "docs/how-to/python.md")]
    lines = (
        "import os, sys",
        "assert sys.argv[1:] == ['--epochs', '3']",
        "print('seen')",
        "sys.exit(7 * int(os.environ['RANK']))",
    )
    (tmp_path / "train.py").write_text("\n".join(lines))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == f"{os.uname().nodename} 1 ('seen',)\n"
    assert done.stderr == ""


@pytest.mark.new_python
def test_the_backend_in_contributing_works(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """Written from the two blocks alone, and installed."""
    site = install_backend("nice", tmp_path)
    env = {"PYTHONPATH": f"{site}:{ROOT}"}
    assert "how much lower: 1 to 19" in ddpkit("backends", "nice", env=env).stdout
    dry = ddpkit("launch", "-b", "nice", "-n", "2", "-o", "by=15", "--dry-run", "--", "true", env=env)
    assert "nice -n 15 true" in dry.stdout
    (tmp_path / "job.py").write_text("import os\nprint('priority', os.nice(0))\n")
    done = ddpkit("launch", "-b", "nice", "-n", "2", "-o", "by=15", "--", "job.py", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"priority {min(19, os.nice(0) + 15)}") == 2


@pytest.mark.new_python
def test_a_reach_that_nobody_knows_is_one_error(ddpkit: DDPKIT, tmp_path: Path) -> None:
    site = install_backend("nice", tmp_path)
    program = site / "ddpkit_nice.py"
    program.write_text(program.read_text().replace('= "local"', '= "teleport"'))
    env = {"PYTHONPATH": f"{site}:{ROOT}"}
    for command in ("launch", "test", "bench"):
        done = ddpkit(command, "-b", "nice", "-n", "2", *(["--", "true"] if command == "launch" else []), env=env)
        assert done.returncode == 121
        assert "backend 'nice' has the reach 'teleport', not one of local, ssh, pdsh" in done.stderr
        assert "Traceback" not in done.stderr


def test_the_sentences_of_a_dump_are_those_that_are_said() -> None:
    late = test_hang.facts(test_hang.DONE, test_hang.stack(line=57, name="slow_step"), state="R")
    stopped = test_hang.facts(None, None, state="T", how="", why="it is stopped")
    waits = test_hang.WAITING
    other = [test_hang.entry(12, "broadcast", done=False, age=41)]
    tells = test_hang.facts([*test_hang.DONE, *other], test_hang.stack("broadcast", line=31, name="tell"))
    said = []
    for found in (
        {0: waits, 1: waits, 2: waits, 3: late},
        {0: waits, 1: waits, 2: waits, 3: stopped},
        {0: waits, 1: tells, 2: waits, 3: waits},
    ):
        said += [shape(finding.words) for finding in test_hang.world(found)]
    for line in output("who is waited for").splitlines():
        # What stands behind three dots is left out, and what is in parentheses may be.
        start = shape(line).replace("(...)", "").removesuffix("...").strip()
        assert any(words.startswith(start) for words in said), (line, said)


def test_the_verdict_after_a_timeout_is_the_one_that_is_shown(tmp_path: Path) -> None:
    late = test_hang.facts(test_hang.DONE, test_hang.stack(line=57, name="slow_step"), state="R")
    (finding,) = test_hang.world({0: test_hang.WAITING, 1: test_hang.WAITING, 2: test_hang.WAITING, 3: late})
    failure = Failure(
        host="node1",
        rank=0,
        what="rank",
        code=1,
        seconds=1812.4,
        at=1.0,
        raised="RuntimeError",
        last_lines=("RuntimeError: Timed out waiting 1800000ms for recv operation to complete",),
        awaited=finding.words,
        dump="logs/20261126-004218-train-bf43/dump-20261126-004232/rank_3.txt",
    )
    failure = verdict.diagnose(failure, tmp_path / "all.log")
    said = verdict.describe_failure(failure, failure.diagnosis, with_lines=False)
    shown = output("who did not come").splitlines()
    assert [shape(line) for line in shown] == [shape(line) for line in said if not line.startswith("more: ")]


def test_what_stands_on_a_terminal() -> None:
    fold, now = Fold(4, 0.2), 0.0
    hosts = ["node1", "node1", "node2", "node2"]
    said: list[FoldedLine] = []

    def say(ranks: Sequence[int], text: str) -> None:
        nonlocal now
        now += 1.0
        said.extend(fold.due(now))
        for rank in ranks:
            said.extend(fold.add(now, Source(rank, hosts[rank], "rank"), 1, text.encode()))

    say(range(4), "loading")
    say([1], "cannot read shard 17, taking 18")
    say(range(4), "epoch 1/10")
    say([0], "step 40/360  loss 0.4213  5,123 images/s")
    said += fold.all()
    shown = [f"[{label(each.sources, 4)}] {each.text.decode()}" for each in said]
    standing = Standing(state="running", nodes=2, ranks=4, world_size=4, started=0.0)
    far = Progress(step=1200, loss=0.4213, rate="5,123 samples/s")
    below = lines("ssh 20260131-235959-train-3fa9", standing, far, 751.0, 100)
    assert output("watching").splitlines() == [*shown, "", *below]


def test_the_rank_that_the_others_wait_for() -> None:
    words = steps.read_steps(test_report.timeline(0.02, 0.02, 0.02, 0.07, host="node0"), "").words
    assert shape(" ".join(output("lost to waiting").split())) == shape(words)


def test_the_action_after_a_failure(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("[1 node2] RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    shown = json.loads(ddpkit("explain", "a.log", "--json").stdout)["action"]
    assert json.dumps(shown, indent=2) == output("action").strip()


def test_a_flag_that_is_not_needed(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    done = ddpkit("launch", "--standalone", "--nproc_per_node=2", "train.py", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(output("not needed"))


@pytest.mark.torch
def test_the_table_of_the_bench_is_what_it_prints(ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "2", "--min-bytes", "1M", "-e", "8M", "-f", "8", "--ops", "all_reduce,all_gather")
    assert done.returncode == 0, done.stdout + done.stderr

    def shapes(text: str) -> set[str]:
        # Here there is one node, and units are as large as the times.
        text = re.sub(r"\bon \w+$", "on HOST", text, flags=re.MULTILINE)
        text = re.sub(r" (us|ms|s) ", " us ", text).replace("1 node,", "2 nodes,")
        return {shape(line) for line in re.sub(r"torch \S+", "torch", text).splitlines()}

    assert shapes(output("bench")) <= shapes(done.stdout)
