"""Client for `ddpkit dump` and `ddpkit top`: asks the launcher of a run on this machine, or the nodes of a job.

A launcher is asked by a signal, which ends no older launcher: URG for a dump, WINCH for a sample. For a dump the client
leaves `dump.PID.ask` in the run's folder, {"until": time.time() at which it wants what was answered}; the launcher
answers with a folder `dump-TIME` there, whose `summary.json` comes last, and whole. For a sample the client leaves
`top.PID.ask` in the run's folder, {"span", "pss", "waits"}; the launcher answers with `top.json`: {"number", "t",
"ending", "hosts", "silent", "ahead"}. So nothing listens, nothing is polled while nobody asks, and the kernel ensures
that only the run's owner can ask. Several clients that ask at once get the same answer. The nodes of a job are called
by `srun --overlap`.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ddpkit.errors import DdpkitError, UsageError
from ddpkit.files import read_bounded, remove_if_same, write_atomically
from ddpkit.launchers.job_output import JobOutput
from ddpkit.monitor import dump, slow
from ddpkit.monitor.server import (
    DEBUG_REQUESTS as DEBUG_REQUESTS,
)
from ddpkit.monitor.server import (
    DUMP,
    DUMP_LIMIT,
    DUMP_REQUESTS,
    SAMPLE_FILE,
    SAMPLE_LIMIT,
    SAMPLE_REQUESTS,
    dump_limit,
    ras_askers,
    sample_call,
)
from ddpkit.monitor.top import read_sample
from ddpkit.run import launcher_process, slow_rank
from ddpkit.run.record import Run, job_log, machine_of, reader_of
from ddpkit.run.timeline import process_began, read_object
from ddpkit.transports.protocol import ANSWER_TIME, ASK, LOOK, STEP_START_TIME
from ddpkit.transports.srun import SILENCE_LIMIT, OverlapStep

PATIENCE = 45.0  # seconds for a launcher to answer, also one that watches its ranks for `status --slow`
DUMP_PATIENCE = 60.0  # the same for a dump of thousands of ranks


# ---- dumps


def request_dump(run: Run) -> dict[str, Any]:
    """Ask the launcher of a run on this machine for a dump. Returns the summary. Raises DdpkitError."""
    folder = Path(run.folder)
    old = set(folder.glob(f"dump-*/{dump.SUMMARY}"))

    def read_new() -> dict[str, Any] | None:
        new = sorted(set(folder.glob(f"dump-*/{dump.SUMMARY}")) - old)
        return json.loads(read_bounded(new[-1], dump.LARGEST)) if new else None

    with request_file(run, DUMP_REQUESTS, {"until": process_began() + DUMP_LIMIT}, required=False):
        summary = _ask_launcher(run, ASK, "dump", read_new, DUMP_PATIENCE)
    if summary is None:
        raise DdpkitError(f"run {run.run_id} ended before it answered", f"ddpkit status {run.run_id}")
    return summary


def dump_job(run: Run) -> dict[str, Any]:
    """Dump the ranks of a job. Returns the summary. Raises DdpkitError."""
    assert run.job_id is not None
    reader = read_job_output(run)
    began = time.time()
    step = OverlapStep(reader, run.job_id, machine_of(run))
    try:
        limit = dump_limit(process_began() + DUMP_LIMIT - began, ANSWER_TIME + STEP_START_TIME)
        values, reason = step.call(DUMP, {"limit": limit, "asks": ras_askers(reader.hosts)}, limit)
    finally:
        step.close()
    if not values:
        raise DdpkitError(f"no node of job {run.job_id} answered: {reason}", f"squeue --steps --job {run.job_id}")
    answers, hosts = dump.Answers(), set()
    for value in values:
        answer = dump.read_answer(value)
        answers.add(answer)
        hosts.add(answer.host)
    silent = _silent_hosts(reader, hosts)
    result = dump.compose(run.run_id, run.workdir, answers, silent, "asked", began)
    try:
        dump.write(result, Path(run.folder))
    except OSError:
        pass  # somebody else's folder, or a full disk: the summary is still worth showing
    return result.summary


# ---- samples


class LauncherSamples:
    """Samples of a run whose launcher lives on this machine."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._answer = Path(run.folder) / SAMPLE_FILE
        self._last: str | None = None  # number of the answer before the present request
        self._seen = (0, 0)  # inode and time of the file that was read last
        # Seconds for the end of a launcher that catches no signal any more: longer for one that has answered once.
        self._end_time = 1.0

    def _read(self) -> dict[str, Any]:
        return read_object(self._answer) or {}

    def sample(self, span: float, pss: bool = False, waits: int = 0) -> dict[str, Any] | None:
        """One sample of every node; None where the run ended meanwhile. Raises DdpkitError.

        waits: as in `ddpkit.node.calls.rank_waits`.
        """
        run = self._run
        self._last = self._read().get("number")
        try:
            with request_file(run, SAMPLE_REQUESTS, {"span": span, "pss": pss, "waits": waits}, required=True):
                sample = _ask_launcher(run, LOOK, "top", self._read_new, PATIENCE + span)
                self._end_time = PATIENCE if sample is not None else self._end_time
                return sample
        except UsageError:
            # A launcher at its end catches no signal; a moment later its record says how it ended.
            if launcher_process.process_state(run.launcher_pid) not in ("T", "t") and launcher_process.wait_for_end(
                run, self._end_time
            ):
                return None
            raise

    def _read_new(self) -> dict[str, Any] | None:
        """Return a new answer; None: there is none yet. The file is read where it has changed."""
        try:
            stat = self._answer.stat()
        except OSError:
            return None
        if (stat.st_ino, stat.st_mtime_ns) == self._seen:
            return None
        self._seen, sample = (stat.st_ino, stat.st_mtime_ns), self._read()
        return sample if sample.get("number") not in (None, self._last) else None

    def close(self) -> None:
        """Nothing is left open."""


class JobSamples:
    """Samples of a job: a step beside its own, until it is closed."""

    def __init__(self, run: Run, interval: float) -> None:
        assert run.job_id is not None
        self._run = run
        silence = SILENCE_LIMIT + 2 * interval
        self._step = OverlapStep(read_job_output(run), run.job_id, machine_of(run), silence_limit=silence)
        self._answered = False

    def sample(self, span: float, pss: bool = False, waits: int = 0) -> dict[str, Any] | None:
        """One sample of every node that answers; None where the job ended meanwhile. Raises DdpkitError."""
        from ddpkit.run import status

        began, limit = time.time(), SAMPLE_LIMIT + span
        function, args = sample_call(span, pss, waits)
        values, reason = self._step.call(function, {**args, "limit": limit}, limit)
        answers = [read_sample(value) for value in values]
        if not answers and not status.get_status(self._run).state.living:
            return None
        if not answers and not self._answered:
            raise DdpkitError(
                f"no node of job {self._run.job_id} answered: {reason}", f"squeue --steps --job {self._run.job_id}"
            )
        self._answered = True
        if not any(answer.sample["ranks"] for answer in answers):
            # They have ended, or SLURM started the job again: then its output says where they are now.
            self._step.reader = read_job_output(self._run)
        silent = _silent_hosts(self._step.reader, {answer.host for answer in answers})
        return {"t": began, "ending": False, "hosts": [each.sample for each in answers], "silent": silent}

    def close(self) -> None:
        self._step.close()


Samples = LauncherSamples | JobSamples


def watch_ranks(run: Run, seconds: float = slow.WATCHED) -> tuple[slow.Slowness, dict[str, Any]]:
    """Watch all ranks of a run for the one for which the others wait. Returns that, and the sample.

    Raises DdpkitError where the run has ended, or no rank can be watched.
    """
    source: Samples = JobSamples(run, seconds) if run.job else LauncherSamples(run)
    most = slow.most_collectives(run.world_size)
    try:
        sample = source.sample(seconds, waits=most)
        if sample is not None and not any(host.get("waits") for host in sample["hosts"]):
            sample = source.sample(seconds, waits=most)  # another shell had asked for less at the same moment
    finally:
        source.close()
    if sample is None:
        raise UsageError(f"run {run.run_id} has ended", f"ddpkit status {run.run_id}")
    try:
        found = slow.find(sample, seconds)
    except ValueError as error:
        raise DdpkitError(str(error), f"ddpkit dump {run.run_id}") from None
    if not found.waits:
        why = next(iter(found.blind.values()), "no rank answered")
        raise UsageError(f"cannot watch the ranks of run {run.run_id}: {why}", "ddpkit launch --observe stacks ...")
    slow_rank.keep(Path(run.folder), slow.to_keep(found, time.time()))
    return found, sample


# ---- both


def read_job_output(run: Run) -> JobOutput:
    """Read which rank of a job is on which host. Raises UsageError."""
    assert run.job is not None
    assert run.job_id is not None
    reader = reader_of(run)
    path, machine, offset = job_log(run), machine_of(run), 0
    try:
        while data := machine.read(path, offset, 1 << 20):
            list(reader.feed(data))
            offset += len(data)
    except OSError as error:
        what = f"cannot read the output of job {run.job_id}, {path}: {error.strerror or error}"
        raise UsageError(what, f"ls -l {shlex.quote(str(path))}") from None
    return reader


@contextmanager
def request_file(run: Run, pattern: str, request: Mapping[str, object], *, required: bool) -> Iterator[None]:
    """Leave a request in the run's folder for the time of the block: later no launcher must take it.

    Raises UsageError for a folder that was replaced, and for one that cannot be written where the file is `required`.
    """
    launcher_process.check_place(run)
    path = Path(run.folder) / pattern.replace("*", str(os.getpid()))
    made = None
    try:
        write_atomically(path, json.dumps(request), 0o600)
        made = path.lstat()
    except OSError as error:
        if required:
            raise UsageError(
                f"cannot write the request for run {run.run_id} to {run.folder}: {error.strerror}",
                f"df -h {shlex.quote(run.folder)}; ls -ld {shlex.quote(run.folder)}",
            ) from None
    try:
        yield
    finally:
        if made is not None:
            with suppress(OSError):
                remove_if_same(str(path), made)


def _ask_launcher(
    run: Run, number: int, command: str, read_answer: Callable[[], dict[str, Any] | None], patience: float
) -> dict[str, Any] | None:
    """Send the signal that asks, and wait for the answer; None: the run ended before. Raises DdpkitError."""
    signal_launcher(run, number, command)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        alive = launcher_process.is_alive(run)  # asked first: a launcher may answer, and end
        answer = read_answer()
        if answer is not None or not alive:
            return answer
        time.sleep(0.02)
    raise DdpkitError(
        f"the launcher of run {run.run_id} did not answer in {patience:g} s, or cannot write to {run.folder}",
        f"ddpkit status {run.run_id}; df -h {shlex.quote(run.folder)}",
    )


def _silent_hosts(reader: JobOutput, answered: Collection[str]) -> dict[str, list[int]]:
    """Return the ranks of each host of a job that has not answered."""
    silent: dict[str, list[int]] = {}
    for rank, host in reader.hosts.items():
        if host not in answered:
            silent.setdefault(host, []).append(rank)
    return silent


def signal_launcher(run: Run, number: int, command: str) -> None:
    """Send a launcher on this machine a signal that asks for something. Raises UsageError where it cannot answer."""
    launcher_process.check_launcher(run)
    if launcher_process.process_state(run.launcher_pid) in ("T", "t"):
        raise UsageError(
            f"the launcher of run {run.run_id} is stopped (SIGSTOP), and cannot answer",
            f"kill -CONT {run.launcher_pid}",
        )
    if not run.in_program and not launcher_process.catches(run.launcher_pid, number):
        raise UsageError(
            f"the launcher of run {run.run_id} (process {run.launcher_pid}) does not accept requests: "
            "it has just started, is about to end, or is an older ddpkit",
            f"ddpkit status {run.run_id}",
        )
    try:
        if not launcher_process.send_signal(run, number):
            raise UsageError(f"run {run.run_id} has ended", f"ddpkit status {run.run_id}")
    except PermissionError:
        owner = Path(run.folder).owner()
        raise UsageError(
            f"run {run.run_id} belongs to {owner}, and only {owner} can query it", f"sudo -u {owner} ddpkit {command}"
        ) from None
