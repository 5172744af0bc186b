"""What a run's ranks say of themselves when they are asked: collected from every node, judged, kept beside the logs.

A launcher that lives is asked by a signal (URG: whoever does not know it ignores it) and answers with a folder
`dump-TIME` in the run's own: its `summary.json` comes last, and whole. So nothing listens, nothing is polled while
nobody asks, and the kernel sees to it that only the run's owner can ask. A job's nodes are asked by srun.

`summary.json`, which `ddpkit dump --json` prints: {"run_id", "t", "why", "folder", "seconds",
"ranks": [{"rank", "host", "pid", "state", "how", "why", "where", "call", "idle", "threads",
           "groups": {name: {"begun", "done", "pending": {"op", "seq", "sizes", "since"} or null}}}],
"stacks": [{"ranks", "frames": [[file, line, function], ...]}], "silent": {host: [rank, ...]},
"ras": {host: address}, "findings": [{"kind", "ranks", "words"}]}. Times are seconds. `how` a stack was had is one of
thread, faulthandler and py-spy, or empty; the kinds of findings are stopped, late, mismatch, silent, stacks, ras,
stuck and none, the cause first. Beside it: `rank_N.json`, all that a rank answered; `rank_N.txt`, its stacks;
`ras_HOST.txt`, NCCL's words.
"""

from __future__ import annotations

import json
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddpkit.errors import DdpkitError, UsageError
from ddpkit.files import write_atomically
from ddpkit.launchers.events import DumpCommand, ReplyEvent
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.monitor import hang, rank_state
from ddpkit.run import record
from ddpkit.run.record import Run
from ddpkit.transports.protocol import ASK, NODE

LIMIT = 6.0  # seconds in which a node looks at its ranks
WAY = 2.0  # seconds more for its answer
PATIENCE = 14.0  # seconds for a launcher to answer another shell
SUMMARY = "summary.json"


def command(number: int) -> DumpCommand:
    """What a supervisor is told. It learns by it how to look."""
    return {"c": "dump", "id": number, "limit": LIMIT, "source": (NODE / "stack_dump.py").read_text()}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one host said."""

    host: str
    t: float  # its time
    ranks: Mapping[int, Mapping[str, Any]]
    ras: Mapping[str, str] | None


def unpack(data: str, host: str = "") -> Answer:
    """One host's answer as it came over the wire. Raises ValueError."""
    try:
        found = json.loads(zlib.decompress(b64decode(data)))
        ranks = {int(rank): facts for rank, facts in found["ranks"].items()}
        return Answer(host=host or found["host"], t=float(found["t"]), ranks=ranks, ras=found["ras"])
    except (zlib.error, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{host} answered with what is not understood: {error}") from None


class Question:
    """One question to all nodes, while they answer."""

    def __init__(
        self,
        number: int,
        why: str,
        silent: Mapping[str, Sequence[int]],
        nodes: int,
        limit: float = LIMIT,
        read: Callable[[str, str], Any] = unpack,
    ) -> None:
        self.number = number
        self.why = why  # asked, or watch
        self.silent = {host: tuple(ranks) for host, ranks in silent.items()}
        self.answers: list[Any] = []  # what `read` makes of them
        self.began = time.time()
        self.until = time.monotonic() + limit + WAY
        self._read = read
        self._nodes = nodes
        self._held: dict[int, str] = {}
        self._done: set[int] = set()

    def heard(self, node: int, event: ReplyEvent, host: str) -> None:
        """A piece of a node's answer. One that speaks for several hosts says `answers`."""
        if event["id"] != self.number:
            return
        packed = [(each, "") for each in event.get("answers", ())]
        if "data" in event:
            self._held[node] = self._held.get(node, "") + event["data"]
            if event.get("more"):
                return
            packed.append((self._held.pop(node), host))
        self._done.add(node)
        for data, name in packed:
            try:
                answer = self._read(data, name)
            except ValueError:
                continue
            self.answers.append(answer)
            self.silent.pop(answer.host, None)

    @property
    def over(self) -> bool:
        return len(self._done) >= self._nodes or time.monotonic() > self.until


@dataclass(frozen=True, kw_only=True)
class Dump:
    """A question with all its answers, judged."""

    summary: dict[str, Any]
    ranks: tuple[rank_state.Rank, ...]
    findings: tuple[hang.Finding, ...]
    answers: tuple[Answer, ...]


def compose(
    run_id: str, workdir: str, answers: Sequence[Answer], silent: Mapping[str, Sequence[int]], why: str, began: float
) -> Dump:
    """Judge what was answered. Pure but for the time."""
    ranks = [rank_state.read(rank, each.host, facts, each.t) for each in answers for rank, facts in each.ranks.items()]
    ranks.sort(key=lambda rank: rank.rank)
    findings = hang.judge(ranks, silent, workdir)
    spoken = [finding for each in answers if each.ras for finding in hang.ras(each.ras["text"])]
    seen = {finding.words: finding for finding in spoken}
    findings = [*(finding for finding in findings if not (seen and finding.kind == "none")), *seen.values()]
    names = rank_state.labels(key for rank in ranks for key in rank.groups)
    rows = [
        {
            "rank": rank.rank,
            "host": rank.host,
            "pid": rank.pid,
            "state": rank.state,
            "how": rank.how,
            "why": rank.why,
            "where": rank_state.where(rank, workdir) if rank.stack else None,
            "call": rank.call,
            "idle": rank.idle,
            "threads": rank.threads,
            "groups": {
                names[key]: {
                    "begun": group.begun,
                    "done": group.done,
                    "pending": asdict(group.pending) if group.pending else None,
                }
                for key, group in rank.groups.items()
            },
        }
        for rank in ranks
    ]
    summary = {
        "run_id": run_id,
        "t": began,
        "why": why,
        "folder": None,
        "seconds": round(time.time() - began, 2),
        "ranks": rows,
        "stacks": [{"ranks": list(theirs), "frames": list(frames)} for theirs, frames in rank_state.alike(ranks)],
        "silent": {host: list(theirs) for host, theirs in silent.items()},
        "ras": {each.host: each.ras["address"] for each in answers if each.ras},
        "findings": [asdict(finding) for finding in findings],
    }
    return Dump(summary=summary, ranks=tuple(ranks), findings=tuple(findings), answers=tuple(answers))


def write(dump: Dump, folder: Path) -> Path:
    """Keep a dump in the run's folder. Raises OSError."""
    stem = folder / f"dump-{time.strftime('%Y%m%d-%H%M%S', time.localtime(dump.summary['t']))}"
    path = stem
    for number in range(2, 100):
        try:
            path.mkdir()
            break
        except FileExistsError:
            path = stem.with_name(f"{stem.name}-{number}")
    for answer in dump.answers:
        for rank, facts in answer.ranks.items():
            (path / f"rank_{rank}.json").write_text(json.dumps({"host": answer.host, "t": answer.t, **facts}) + "\n")
            (path / f"rank_{rank}.txt").write_text(stacks(facts))
        if answer.ras:
            (path / f"ras_{answer.host}.txt").write_text(answer.ras["text"])
    dump.summary["folder"] = str(path.absolute())
    write_atomically(path / SUMMARY, json.dumps(dump.summary, indent=2) + "\n")
    return path


def stacks(facts: Mapping[str, Any]) -> str:
    """The stacks of one rank as text, the main thread first, the innermost frame first."""
    lines = []
    for thread in sorted(facts.get("threads") or [], key=lambda each: not each["main"]):
        lines.append(f"thread {thread['name']}{' (main)' if thread['main'] else ''}:")
        lines += [f"    {rank_state.spot(frame)}" for frame in thread["frames"]]
    return "\n".join(lines or [f"no stack: {facts.get('why') or 'it did not answer'}"]) + "\n"


# ---- from another shell


def ask(run: Run) -> dict[str, Any]:
    """Ask the launcher of a run on this machine. Returns the summary. Raises DdpkitError."""
    folder = Path(run.folder)
    before = set(folder.glob(f"dump-*/{SUMMARY}"))
    rouse(run, ASK, "dump")
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        fresh = sorted(set(folder.glob(f"dump-*/{SUMMARY}")) - before)
        if fresh:
            found: dict[str, Any] = json.loads(fresh[-1].read_text())
            return found
        if not record.alive(run):
            raise DdpkitError(f"run {run.run_id} ended before it answered", f"ddpkit status {run.run_id}")
        time.sleep(0.05)
    raise DdpkitError(
        f"the launcher of run {run.run_id} did not answer in {PATIENCE:g} s, or cannot write to {folder}",
        f"ddpkit status {run.run_id}; df -h {folder}",
    )


def started(run: Run) -> SrunReader:
    """Which rank of a job is where, as its output says. Raises UsageError."""
    assert run.job is not None
    assert run.job_id is not None
    reader = SrunReader(run.world_size, torchrun=run.job.torchrun)
    path = run.job.log.replace("{job}", run.job_id)
    try:
        list(reader.feed(1, Path(path).read_bytes()))
    except OSError as error:
        raise UsageError(
            f"cannot read the output of job {run.job_id}, {path}: {error.strerror}", f"ls -l {path}"
        ) from None
    return reader


def rouse(run: Run, number: int, verb: str) -> None:
    """Send a launcher on this machine a signal that asks for something. Raises UsageError where it cannot answer."""
    if record.process_state(run.launcher_pid) in ("T", "t"):
        raise UsageError(
            f"the launcher of run {run.run_id} is stopped (SIGSTOP), and cannot ask its ranks",
            f"kill -CONT {run.launcher_pid}",
        )
    if not _listens(run.launcher_pid, number):
        raise UsageError(
            f"the launcher of run {run.run_id} (process {run.launcher_pid}) does not take questions: "
            "it has just begun or is about to end, or is of an older ddpkit",
            f"ddpkit status {run.run_id}",
        )
    try:
        if not record.send(run, number):
            raise UsageError(f"run {run.run_id} has ended", f"ddpkit status {run.run_id}")
    except PermissionError:
        owner = Path(run.folder).owner()
        raise UsageError(
            f"run {run.run_id} is {owner}'s, who alone can ask it", f"sudo -u {owner} ddpkit {verb}"
        ) from None


def _listens(pid: int, number: int) -> bool:
    """Whether a process catches our signal; where /proc does not say, it is believed to."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    words = [line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:")]
    return not words or bool(int(words[0], 16) >> (number - 1) & 1)
