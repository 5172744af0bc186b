"""How a run stands: what its record, its launcher's process and its scheduler say now, and what its ranks do.

What the ranks do stands in `status.json`, which the launcher writes every few seconds: two looks, so that one read
shows who uses no processor, who writes nothing, and who differs from the others.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddpkit.errors import UsageError
from ddpkit.launchers import plan
from ddpkit.run import record
from ddpkit.run.record import Entry, Run
from ddpkit.text import format_ranks

COMMAND_LIMIT = 15.0  # seconds for a scheduler's own command
QUIET = 30.0  # seconds without a line, after which a rank that uses no processor waits
BUSY = 0.02  # of a processor: below it a rank does nothing
STALE = 30.0  # seconds after which a look is too old to be believed


@dataclass(frozen=True, kw_only=True)
class Now:
    """`state`: running, queued, done, failed, stopped, over, lost, elsewhere or unknown; `words` say it in words."""

    state: str
    words: str
    hint: str = ""
    run: Run  # the record as it is now

    @property
    def living(self) -> bool:
        return self.state in ("running", "queued")


def command(verb: str, run: Run) -> str:
    """A command on this run that works on every host that sees its folder."""
    return f"ddpkit {verb} {shlex.quote(run.folder)}"


def over_there(verb: str, run: Run, *, terminal: bool = False) -> str:
    """The same command for the launcher's host, typed here."""
    there = command(verb, run)
    if run.launcher_python:
        there = f"{shlex.quote(run.launcher_python)} -m {there}"
    return f"ssh {'-t ' if terminal else ''}{run.launcher_host} {shlex.quote(there)}"


def look(run: Run) -> Now:
    """How a run stands. Asks the scheduler for a job that is not known to have ended."""
    if run.state in record.ENDED:
        return _ended(run)
    if run.job is not None:
        return _job(run)
    if not record.here(run):
        if run.launcher_host == os.uname().nodename:
            return Now(
                state="elsewhere",
                words="cannot look from here: its launcher has a process namespace (a container) of its own",
                hint=f"in that container: {command('status', run)}",
                run=run,
            )
        words = f"on {run.launcher_host}: cannot look from here"
        return Now(state="elsewhere", words=words, hint=over_there("status", run), run=run)
    if record.alive(run):
        words, hint = f"runs for {age(time.time() - run.started)}", ""
        if record.process_state(run.launcher_pid) in ("T", "t"):
            words += "; its launcher is stopped (SIGSTOP), and does not see what its ranks do"
            hint = f"kill -CONT {run.launcher_pid}"
        if not Path(run.folder).exists():
            words += "; somebody removed its folder, and its logs with it"
        return Now(state="running", words=words, hint=hint, run=run)
    fresh = record.load(Path(run.folder))  # it may have ended between the two looks
    if fresh is not None and fresh.state in record.ENDED:
        return _ended(fresh)
    if not Path(run.folder).exists():
        return Now(state="over", words="has ended; how is not known, for somebody removed its folder", run=run)
    return Now(
        state="lost",
        words=f"lost: its launcher (process {run.launcher_pid} on {run.launcher_host}) ended without a last word, "
        "killed perhaps, and its ranks were ended with it",
        hint=command("logs", run),
        run=run,
    )


def _ended(run: Run) -> Now:
    took = f" after {age(run.ended - run.started)}" if run.ended else ""
    if run.state == "failed":
        words = f"failed: {run.verdict or f'exit code {run.exit_code}'}"
    elif run.state == "stopped":
        words = f"stopped{took}" + (f": {run.verdict}" if run.verdict else "")
    elif run.state == "over":
        words = run.verdict or "has ended"
    else:
        words = f"done{took}"
    return Now(state=run.state, words=words, run=run)


# ---- jobs


def ask(argv: Sequence[str]) -> tuple[int, str, str]:
    """Run a scheduler's command: its exit code, output, and what it says; -1 where it could not answer."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_LIMIT, check=False
        )
    except FileNotFoundError:
        return -1, "", f"there is no {argv[0]} on {os.uname().nodename}"
    except OSError as error:
        return -1, "", f"{argv[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return -1, "", f"{argv[0]} did not answer in {COMMAND_LIMIT:g} s"
    return done.returncode, done.stdout, " ".join(done.stderr.split())


def _job(run: Run) -> Now:
    job = run.job
    assert job is not None
    _, text, said = ask(job.state)
    found = [plan.told(match, job.signals_from) for match in re.finditer(job.pattern, text)]
    name = f"job {run.job_id}"
    if not found and re.search(job.gone, said):
        return _ended(_over(run, "over", None, f"{name} has ended, and its scheduler has forgotten how"))
    if not found:
        words = f"{name}: its scheduler gives no answer: {said or 'nothing that is understood'}"
        return Now(state="unknown", words=words, hint=shlex.join(job.state), run=run)
    waiting = [facts for facts in found if facts["state"] in job.waiting]
    running = [facts for facts in found if facts["state"] in job.running]
    if len(found) > 1 and (waiting or running):
        ended = len(found) - len(waiting) - len(running)
        words = f"{name}, an array: {len(running)} run, {len(waiting)} wait, {ended} have ended"
        return Now(state="running" if running else "queued", words=words, run=run)
    if running:
        return Now(state="running", words=f"{name} runs on {running[0]['nodes']}", run=run)
    if waiting:
        words = f"{name} waits in the queue: {waiting[0]['reason']}"
        return Now(state="queued", words=words, run=run)
    bad = [each for each in found if each["state"] not in job.well or (each["code"] + each["signal"]).strip("0")]
    if not bad:
        return _ended(_over(run, "done", 0, None))
    killer, code = int(bad[0]["signal"] or 0), int(bad[0]["code"] or 0)
    # A job's script that the scheduler itself has killed was cancelled, where its state does not say.
    cancelled = all(facts["state"] in job.stopped or (job.signals_from and facts["signal"].strip("0")) for facts in bad)
    if not cancelled and not job.many and bad[0]["state"] in ("FAILED", "OUT_OF_MEMORY", *job.well):
        from ddpkit.run.postmortem import first_failure

        first = first_failure(run)
        if first is not None:  # which rank it was says more
            return _ended(_over(run, "failed", first[0].exit_code, f"{name}: {first[1]}"))
    words = f"{name} ended as {bad[0]['state']}"
    if code and not cancelled:
        words += f", exit code {code}"
    return _ended(_over(run, "stopped" if cancelled else "failed", 128 + killer if killer else code or 1, words))


def _over(run: Run, state: str, code: int | None, verdict: str | None) -> Run:
    """Keep how a job ended: the scheduler soon forgets. A launcher that follows it writes the record itself."""
    following = run.state == "running" and (not record.here(run) or record.alive(run))
    fresh = record.load(Path(run.folder)) or run
    if fresh.state in record.ENDED:
        return fresh
    over = replace(fresh, state=state, exit_code=code, verdict=verdict, ended=None)
    if not following:
        try:
            over.save()
        except OSError:
            pass  # somebody else's run, or a full disk: then it is asked for again
    return over


# ---- which run


def looks(found: Sequence[Run]) -> list[Now]:
    """Look at many runs; schedulers are asked side by side."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(look, found))


def choose(word: str | None) -> Run:
    """The run that a word names; without one the newest that lives, else the newest. Raises UsageError."""
    known = record.entries()
    if word is not None:
        return record.named(word, known)
    found = [entry.run for entry in known if entry.run is not None]
    if not found:
        raise UsageError("there is no run yet", "ddpkit launch -- train.py ARGS")
    return next((run for run in found if run.state not in record.ENDED and look(run).living), found[0])


def unseen(known: Sequence[Entry]) -> list[str]:
    """A line for each run of this user whose folder another host has."""
    return [f"run {each.run_id} is in {each.folder} on {each.host}" for each in known if each.run is None]


# ---- ranks

_STATES = {
    "R": "runs",
    "S": "sleeps",
    "I": "sleeps",
    "D": "waits for a disk",
    "T": "stopped",
    "t": "held by a debugger",
    "Z": "ended",
    "X": "ended",
}


@dataclass(frozen=True, kw_only=True)
class Rank:
    """What one rank does."""

    rank: int
    host: str
    pid: int | None
    state: str  # as in /proc/PID/stat; empty where it is not known
    words: str
    cpu: float | None  # processors used between the two looks
    rss: int | None  # bytes
    quiet: float | None  # seconds since its last line
    idle: float  # seconds for which it surely did nothing; 0 for one that works
    odd: bool  # its state keeps it from any progress
    over: bool  # it has ended


@dataclass(frozen=True, kw_only=True)
class Look:
    """What `status.json` says."""

    age: float  # seconds
    ranks: tuple[Rank, ...]
    silent: dict[str, float]  # hosts that were not heard for too long, and for how many seconds


def ranks(run: Run) -> Look | None:
    """What the ranks do, as the launcher last wrote it; None where it wrote nothing that can be read."""
    try:
        found = json.loads((Path(run.folder) / "status.json").read_text())
        then = float(found["t"])
        rows = list(_rows(found, run, then))
        silent = {host: then - float(node["t"]) for host, node in found["hosts"].items() if then - node["t"] > STALE}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    # Clocks of hosts differ a little: an age is never below zero.
    return Look(age=max(0.0, time.time() - then), ranks=tuple(sorted(rows, key=lambda row: row.rank)), silent=silent)


def _rows(found: dict[str, Any], run: Run, then: float) -> Iterator[Rank]:
    for host, node in found["hosts"].items():
        before = (found.get("prev") or {}).get(host) or {}
        span = float(node["t"]) - float(before.get("t", node["t"]))
        for number, entry in node["ranks"].items():
            old = before.get("ranks", {}).get(number, {})
            cpu = None
            if span > 0 and old.get("pid") == entry.get("pid") and entry.get("cpu") is not None:
                cpu = max(0.0, (float(entry["cpu"]) - float(old.get("cpu") or 0.0)) / span)
            code, killer = entry.get("code"), entry.get("signal")
            state = entry.get("state") or ""
            over = code is not None or killer is not None or state in ("Z", "X")
            last = entry.get("out")
            quiet = max(0.0, then - float(last if last is not None else run.started))
            idle = quiet if cpu is not None and cpu < BUSY and quiet >= QUIET and not over else 0.0
            if killer is not None:
                words = f"ended: signal {_signal(killer)}"
            elif code is not None:
                words = f"ended: exit code {code}"
            else:
                words = "waits" if idle and state in ("S", "I") else _STATES.get(state, state or "not known")
            yield Rank(
                rank=int(number),
                host=host,
                pid=entry.get("pid"),
                state=state,
                words=words,
                cpu=cpu,
                rss=entry.get("rss"),
                quiet=None if last is None else quiet,
                idle=idle,
                odd=state in ("T", "t") or (state == "D" == old.get("state") and cpu is not None and cpu < BUSY),
                over=over,
            )


def _signal(number: int) -> str:
    return f"{number} ({signal.Signals(number).name})" if number in set(signal.Signals) else str(number)


def findings(now: Now, seen: Look) -> list[str]:
    """One sentence for each thing that is odd, the cause before its consequences."""
    found = []
    if seen.age > STALE and now.state == "running":
        found.append(f"the last look at the ranks is {age(seen.age)} old")
    for host, silent in seen.silent.items():
        found.append(f"{host} was last heard of {age(silent)} before: ping {host}")
    living = [rank for rank in seen.ranks if not rank.over]
    odd = [rank for rank in living if rank.odd]
    found += [_CAUSES[rank.state](rank) for rank in odd]
    found += [
        f"rank {rank.rank} on {rank.host} {rank.words.replace(':', ' with', 1)}, and {len(living)} others go on"
        for rank in seen.ranks
        if rank.over and living
    ]
    waiting = [rank for rank in living if rank.idle and not rank.odd]
    working = [rank for rank in living if not rank.idle and not rank.odd]
    if not waiting:
        return found
    least = min(rank.idle for rank in waiting)
    calm = f"no processor time, and no line for {age(least)} or more"
    look_at = command("dump", now.run)
    if not working and not odd:
        found.append(f"all {_count(len(waiting))} wait: {calm}; to see for what: {look_at}")
    elif len(waiting) > len(working):
        who = ", ".join(f"rank {rank.rank} on {rank.host}" for rank in [*odd, *working][:4])
        these = f"{len(waiting)} of {_count(len(living))} wait ({format_ranks(rank.rank for rank in waiting)})"
        found.append(f"{these}: {calm}; who differs: {who}; to see where: {look_at}")
    else:
        for rank in waiting[:4]:
            found.append(
                f"rank {rank.rank} on {rank.host} waits while {len(working)} others work: "
                f"{calm}; to see for what: {look_at}"
            )
    return found


_CAUSES: dict[str, Callable[[Rank], str]] = {
    "T": lambda rank: (
        f"rank {rank.rank} on {rank.host} makes no progress: it is stopped (SIGSTOP); "
        f"kill -CONT {rank.pid} on {rank.host} lets it go on"
    ),
    "t": lambda rank: (
        f"rank {rank.rank} on {rank.host} makes no progress: a debugger or tracer holds it; "
        f"grep TracerPid /proc/{rank.pid}/status on {rank.host} names it"
    ),
    "D": lambda rank: (
        f"rank {rank.rank} on {rank.host} waits for a disk, a network file system or a driver (state D); "
        f"on {rank.host}: cat /proc/{rank.pid}/stack, dmesg -T | tail"
    ),
}


def _count(number: int) -> str:
    return f"{number} rank{'s' if number != 1 else ''}"


def age(seconds: float) -> str:
    """A length of time in one or two words: `12 s`, `3 min`, `2.5 h`, `4 d`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"
