"""Dump of a run: stacks and Flight Recorders of its ranks, collected from every node, judged, kept beside the logs.

`summary.json`, which `ddpkit dump --json` prints: {"schema", "run_id", "time", "why", "folder", "seconds",
"ranks": [{"rank", "host", "pid", "state", "how", "why", "where", "call", "idle", "threads",
           "groups": {name: {"begun", "done", "pending": {"op", "seq", "sizes", "since"} or null}}}],
"stacks": [{"ranks", "frames": [[file, line, function], ...]}], "silent": {host: [rank, ...]},
"ras": {host: address}, "findings": [{"kind", "ranks", "words"}]}. Times are seconds. `how` a stack was had is one of
thread, faulthandler and py-spy, or empty; the kinds of findings are stopped, late, mismatch, silent, stacks, ras,
stuck, hardware, none and unrecorded, the cause first. Beside it: `stacks.txt`, the stacks of all threads, equal ones
once; `rank_N.txt`, those of a rank that a finding names; `answers.jsonl`, a line of all that each host answered;
`ras_HOST.txt`, NCCL's words; `hardware.txt`, counters of NVLink and adapters and the kernel's messages; `smi_HOST.xml`,
`nvidia-smi -q -x` of hosts that a finding names, or of the first ones.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ddpkit.files import create, make_plain_directory, open_for_append, read_bounded, write_atomically
from ddpkit.monitor import evidence, hang, rank_state
from ddpkit.monitor.hang import FindingKind
from ddpkit.text import format_ranks

LARGEST = 64 << 20  # bytes of a summary that is read
SUMMARY, STACKS, ANSWERS, HARDWARE = "summary.json", "stacks.txt", "answers.jsonl", "hardware.txt"
NAMED = 16  # ranks with a file of their own


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of one host."""

    host: str
    t: float  # the host's time
    ranks: Mapping[int, Mapping[str, Any]]
    ras: Mapping[str, str] | None
    hardware: Mapping[str, Any] | None = None


def read_answer(value: Any, host: str = "") -> Answer:
    """Read the value of one host's `stack_dump.collect`. Raises ValueError."""
    try:
        ranks = {int(rank): facts for rank, facts in value["ranks"].items()}
        hardware = value.get("hardware")
        return Answer(host=host or value["host"], t=float(value["t"]), ranks=ranks, ras=value["ras"], hardware=hardware)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{host} sent an invalid answer: {error}") from None


class Answers:
    """What was answered so far: the states of ranks, and all that hosts answered, packed."""

    def __init__(self) -> None:
        self.ranks: list[rank_state.Rank] = []
        self.stacks: dict[str, list[int]] = {}  # ranks by their stacks
        self.ras: dict[str, Mapping[str, str]] = {}  # by host
        self.hardware: dict[str, evidence.Hardware] = {}  # by host, without `smi`
        self.smi: dict[str, bytes] = {}  # by host: XML of nvidia-smi, packed
        self.findings: list[hang.Finding] = []  # about hardware
        self.lines: list[bytes] = []  # of each host, packed

    def add(self, answer: Answer) -> None:
        """Take the answer of one host. Raises ValueError, OSError."""
        try:
            read = [rank_state.read(rank, answer.host, facts, answer.t) for rank, facts in answer.ranks.items()]
            texts = [stacks(facts) for facts in answer.ranks.values()]
            hardware = evidence.read(answer.hardware) if answer.hardware else None
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{answer.host} sent an invalid answer: {error}") from None
        line = {"host": answer.host, "t": answer.t, "ranks": answer.ranks, "ras": answer.ras, "hardware": None}
        if hardware is not None:
            self.findings += evidence.findings(answer.host, hardware, read)
            if hardware.smi:
                self.smi[answer.host] = zlib.compress(hardware.smi.encode(errors="replace"), 1)
            self.hardware[answer.host] = replace(hardware, smi="")
            line["hardware"] = asdict(self.hardware[answer.host])
        self.lines.append(zlib.compress(json.dumps(line).encode() + b"\n", 1))
        self.ranks += read
        for rank, text in zip(answer.ranks, texts, strict=True):
            self.stacks.setdefault(text, []).append(rank)
        if answer.ras:
            self.ras[answer.host] = answer.ras


@dataclass(frozen=True, kw_only=True)
class Dump:
    """A question with all its answers, judged."""

    summary: dict[str, Any]
    ranks: tuple[rank_state.Rank, ...]
    findings: tuple[hang.Finding, ...]
    answers: Answers
    written: set[int] = field(default_factory=set)  # ranks whose stack has a file of its own


def compose(
    run_id: str,
    workdir: str,
    answers: Answers,
    silent: Mapping[str, Sequence[int]],
    why: str,
    began: float,
    timed_out: Collection[int] = (),
) -> Dump:
    """Judge what was answered. Pure but for the time. `timed_out`: ranks whose wait for others took too long."""
    ranks = sorted(answers.ranks, key=lambda rank: rank.rank)
    findings = _with_ras(hang.judge(ranks, silent, workdir, timed_out), answers, ranks, workdir)
    findings = hang.with_hardware(findings, answers.findings[: hang.SHOWN])
    names = rank_state.labels(key for rank in ranks for key in rank.groups)
    rows = [
        {
            **{name: getattr(rank, name) for name in ("rank", "host", "pid", "state", "how", "why")},
            "where": rank_state.where(rank, workdir) if rank.stack else None,
            **{name: getattr(rank, name) for name in ("call", "idle", "threads")},
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
        "schema": "ddpkit.dump/1",
        "run_id": run_id,
        "time": began,
        "why": why,
        "folder": None,
        "seconds": round(time.time() - began, 2),
        "ranks": rows,
        "stacks": [{"ranks": list(theirs), "frames": list(frames)} for theirs, frames in rank_state.alike(ranks)],
        "silent": {host: list(theirs) for host, theirs in silent.items()},
        "ras": {host: answer["address"] for host, answer in answers.ras.items()},
        "findings": [asdict(finding) for finding in findings],
    }
    return Dump(summary=summary, ranks=tuple(ranks), findings=tuple(findings), answers=answers)


def _with_ras(
    findings: Sequence[hang.Finding], answers: Answers, ranks: Sequence[rank_state.Rank], workdir: str
) -> list[hang.Finding]:
    """Add what NCCL RAS says: late ranks where records and stacks show none, and its problems, each once."""
    texts = [answer["text"] for answer in answers.ras.values()]
    late: dict[str, hang.Finding] = {}
    if findings[0].kind in (FindingKind.STUCK, FindingKind.NONE):
        late = {each.words: each for text in texts for each in evidence.late_by_ras(text, ranks, workdir)}
    problems = {each.words: each for text in texts for each in evidence.ras_problems(text, ranks)}
    if late:
        findings = [each for each in findings if each.kind is FindingKind.UNRECORDED]
    if problems:
        findings = [each for each in findings if each.kind is not FindingKind.NONE]
    return [*late.values(), *findings, *problems.values()]


def write(dump: Dump, folder: Path) -> Path:
    """Keep a dump in a new directory of the run's folder. Returns it; the summary names it. Raises OSError."""
    stem = folder / f"dump-{time.strftime('%Y%m%d-%H%M%S', time.localtime(dump.summary['time']))}"
    path = stem
    for number in range(2, 100):
        try:
            make_plain_directory(str(path))
            break
        except FileExistsError:
            path = stem.with_name(f"{stem.name}-{number}")
    _write_answers(dump, path)
    dump.summary["folder"] = str(path.absolute())
    write_atomically(path / SUMMARY, json.dumps(dump.summary, indent=2) + "\n")
    return path


def _write_answers(dump: Dump, path: Path) -> None:
    """Write the files of a dump beside its summary: see the docstring of this module. Raises OSError."""
    answers = dump.answers
    groups = sorted(answers.stacks.items(), key=lambda row: (len(row[1]), row[1]))
    text = "".join(f"{format_ranks(sorted(ranks))}:\n{stack}\n" for stack, ranks in groups)
    create(path / STACKS, text)
    named = [rank for finding in dump.findings for rank in finding.ranks[: hang.SHOWN]][:NAMED]
    for stack, ranks in groups:
        for rank in set(ranks) & set(named):
            create(path / f"rank_{rank}.txt", stack)
            dump.written.add(rank)
    for host, answer in answers.ras.items():
        create(path / f"ras_{host}.txt", answer["text"])
    words = " ".join(finding.words for finding in dump.findings)
    hosts = sorted(answers.smi, key=lambda host: host not in words)  # first those that a finding names
    for host in hosts[:NAMED]:
        create(path / f"smi_{host}.xml", zlib.decompress(answers.smi[host]).decode())
    if answers.hardware:
        create(path / HARDWARE, "\n".join(evidence.describe(*each) for each in sorted(answers.hardware.items())))
    with open(open_for_append(str(path / ANSWERS), 0o644), "wb") as file:
        file.writelines(map(zlib.decompress, answers.lines))


@dataclass(frozen=True, kw_only=True)
class HangDump:
    """A dump in the directory of its run that shows a hang."""

    folder: str
    time: float
    findings: tuple[hang.Finding, ...]  # the cause first


def newest_hang(run_folder: Path) -> HangDump | None:
    """Return the newest dump of a run if it shows a hang. None: no such dump."""
    dumps = []
    for path in run_folder.glob(f"dump-*/{SUMMARY}"):
        try:
            summary = json.loads(read_bounded(path, LARGEST))
            findings = tuple(
                hang.Finding(FindingKind(each["kind"]), tuple(each["ranks"]), each["words"])
                for each in summary["findings"]
            )
            dumps.append(HangDump(folder=str(path.parent), time=float(summary["time"]), findings=findings))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue  # another version wrote it, or it is being removed
    last = max(dumps, key=lambda each: each.time, default=None)
    shown = tuple(each for each in last.findings if each.kind.is_hang) if last else ()
    return replace(last, findings=shown) if last and shown else None


def stacks(facts: Mapping[str, Any]) -> str:
    """The stacks of one rank as text, the main thread first, the innermost frame first."""
    lines = []
    for thread in sorted(facts.get("threads") or [], key=lambda each: not each["main"]):
        name = "" if thread["name"].startswith("0x") else f" {thread['name']}"  # an address is another one on each rank
        lines.append(f"thread{name}{' (main)' if thread['main'] else ''}:")
        lines += [f"    {rank_state.spot(frame)}" for frame in thread["frames"]]
    return "\n".join(lines or [f"no stack: {facts.get('why') or 'it did not answer'}"]) + "\n"
