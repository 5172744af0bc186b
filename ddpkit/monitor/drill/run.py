"""The drill: a clean run, then a row for each fault, in directories of its own."""

from __future__ import annotations

import fcntl
import math
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from resource import RLIM_INFINITY

from ddpkit.errors import DdpkitError, UsageError
from ddpkit.files import create, make_directories, read_part, remove_as_seen
from ddpkit.launchers.shell import join, run_module
from ddpkit.monitor.client import watch_ranks
from ddpkit.monitor.drill import rows
from ddpkit.monitor.drill.pace import Count, Pace, learn, moment, steps
from ddpkit.monitor.drill.rows import ASKED, Judged, Result, Row, State, failed, not_tried
from ddpkit.monitor.drill.trial import TOO_SHORT, Injector, Launch, Trial
from ddpkit.monitor.slow import WATCHED
from ddpkit.node import owned
from ddpkit.node.child import with_safe_path

KIND = "drill"  # of a directory that this module made
FIRST = 600.0  # seconds for the clean run
MOST_RANKS = 8  # whose disk is filled
FILES, FILE_SIZE = 500, 1 << 20  # near a script, and bytes of each, in which a name is looked for
_CHECKPOINTS = "checkpoints"  # in the directory of a row
_ROWS = {row.value for row in Row}
OVER = "the time limit of the drill was reached"
NOT_INJECTED = {
    "disk": "no limit could be set",
    "save-kill": "no save came in time",
    "node": "the rank has no supervisor on its node",
}
SLOWED = 0.4  # of the time in which a slow rank stands still


@dataclass(frozen=True, kw_only=True)
class Drill:
    """What the user asked for."""

    flags: tuple[str, ...]  # of the launch
    script: tuple[str, ...]
    folder: Path  # a new one, for its checkpoints
    option: str = ""  # of the script, for the directory of its checkpoints
    variable: str = ""  # the same
    resume: tuple[str, ...] = ()  # arguments of a resume
    faults: tuple[Row, ...] = tuple(Row)
    limit: float = 0.0  # seconds for all; 0: none
    notice: float = 30.0  # seconds between USR1 and the end
    grace: float = 15.0  # of the launch
    hang: float = 0.0  # seconds of the hang watch; 0: by the pace
    nodes: int = 1  # of a run
    spares: int = 0  # beside them: for the row of a lost node

    @property
    def told(self) -> str:
        """What names the directory of checkpoints to the script."""
        return self.option or self.variable

    def command(
        self, row: Row, folder: Path, *, resume: bool = False, hang: float = 0.0, more: Sequence[str] = ()
    ) -> list[str]:
        """Return the command line of a launch."""
        script = [*self.script, *(self.resume if resume else ())]
        if self.option:
            # `--out DIR`, as argparse and click read it; `dir=DIR` for overrides.
            script += [f"{self.option}{folder}"] if self.option.endswith("=") else [self.option, str(folder)]
        flags = [*self.flags, *more, *([f"--hang-timeout={hang:g}"] if hang else ())]
        if self.spares and row is not Row.NODE:
            flags += ["--spares=0", f"--nnodes={self.nodes}"]
        ddpkit = [sys.executable, "-c", run_module("ddpkit")]
        return [*ddpkit, "launch", *flags, "--json", f"--name=drill-{row.value}", "--", *script]

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the environment of a launch. A script gets a variable of it by `--env NAME`."""
        own = {self.variable: str(folder)} if self.variable else {}
        # Of variables, which come before profiles and files: one attempt, and no notice of its end.
        own |= {"DDPKIT_HANG_ACTION": "end", "DDPKIT_RETRIES": "0", "DDPKIT_ON_END": "true"}
        return with_safe_path({**os.environ, **own})


def parse_faults(text: str) -> tuple[Row, ...]:
    """Parse `kill,usr1`. Raises UsageError."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    known = {row.value: row for row in Row}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"fault {unknown[0]!r} not found", f"--faults {','.join(known)}")
    return tuple(row for row in Row if not names or row.value in names or row is Row.CLEAN)


def reads(name: str, script: Sequence[str], workdir: Path) -> bool:
    """Tell whether the script, or Python near it, reads an option or a variable. True for a program that is no file.

    `name`: `CKPT_DIR`, `--ckpt-dir`, or `out.dir=`. An option can stand there as a name of Python: `args.ckpt_dir`.
    """
    path = script_file(script, workdir)
    if path is None or any(name in word for word in script):
        return True
    near = islice(chain([path], path.parent.glob("*.py"), path.parent.glob("*/*.py")), FILES)
    pattern = re.compile(_pattern_of(name).encode())
    return any(pattern.search(_start_of(each)) for each in near)


def _pattern_of(name: str) -> str:
    """Return an expression for the places where a program reads an option or a variable."""
    if name.isidentifier():
        return rf"(?<!\w){name}(?!\w)"
    last = name.lstrip("-").rstrip("=").rpartition(".")[2]  # of `trainer.out.dir=`
    word = "[-_]".join(map(re.escape, re.split("[-_]", last)))
    as_option, as_key, as_keyword = rf"(?<![\w-])--?{word}(?![\w-])", rf"[.\"']{word}(?!\w)", rf"[(,]\s*{word}\s*="
    return rf"{as_option}|{as_key}|{as_keyword}|(?<!\w){word}\s*:"


def script_file(script: Sequence[str], workdir: Path) -> Path | None:
    """Return the file of a script; None: it is none here."""
    return next(filter(None, (_file_of(word, workdir) for word in script)), None)


def _file_of(word: str, workdir: Path) -> Path | None:
    """Return the file that a word of a command means where the ranks run: a path, or the module behind `-m`."""
    module = word.replace(".", "/")
    paths = (Path(workdir, each) for each in (word, f"{module}.py", f"{module}/__main__.py"))
    with suppress(OSError, ValueError):  # a word may be no path at all
        return next((path for path in paths if path.is_file()), None)
    return None


def _start_of(file: Path) -> bytes:
    try:
        return read_part(file, 0, FILE_SIZE, follow=True)
    except OSError:
        return b""


def make_folder(folder: Path) -> None:
    """Make the directory of a drill. Raises UsageError where it exists."""
    try:
        make_directories(folder.parent)
        owned.make_directory(str(folder), KIND)
    except FileExistsError:
        raise UsageError(f"{folder} exists: a drill writes only into a directory that it made", "--dir NEW") from None
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror}", "--dir DIR") from None


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Lock the directory of a drill of this user. Raises UsageError for any other, and for one that a drill holds."""
    try:
        above = owned.open_directory(str(folder), KIND)
        try:
            lock = os.open(owned.MARKER, os.O_RDWR | os.O_NOFOLLOW, dir_fd=above)  # NFS locks what is open for writing
        finally:
            os.close(above)
    except OSError:
        raise UsageError(f"{folder} is not the directory of a drill of yours", "ls -d logs/drill-*") from None
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"a drill that still runs has {folder}", "ddpkit ps") from None
        yield
    finally:
        os.close(lock)


def check_removable(folder: Path) -> tuple[os.stat_result, list[str]]:
    """Check the directory of an earlier drill. Returns its identity (`lstat`), and the foreign files in it.

    Raises UsageError for any other directory.
    """
    with hold_folder(folder):
        pass  # the marker is closed before it goes: NFS keeps open files
    try:
        return folder.lstat(), foreign_files(folder)
    except OSError as error:
        raise _refused(folder, error) from None


def remove_folder(folder: Path, seen: os.stat_result, known: Collection[str]) -> None:
    """Remove the directory of a drill that was checked. Raises UsageError for any other.

    `seen`: its identity at the check. `known`: the foreign files in it of which the user was told.
    """
    try:
        remove_as_seen(folder, KIND, seen, foreign_files, known)
    except OSError as error:
        raise _refused(folder, error) from None


def _refused(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"cannot remove {error.filename or folder}: {error.strerror}", f"ls -la {shlex.quote(str(folder))}"
    )


def foreign_files(folder: Path) -> list[str]:
    """Return what neither a drill nor its script made in the drill's directory: paths below it. Raises OSError.

    A foreign directory stands for all in it. What lies in the checkpoints of a row is the script's, and not foreign.
    """
    found = []
    for path in folder.iterdir():
        if path.name in _ROWS and owned.is_owned(str(path), KIND):
            found += [f"{path.name}/{name}" for name in _foreign_files_in_row(path)]
        elif path.name != owned.MARKER:
            found.append(path.name)
    return sorted(found)


def _foreign_files_in_row(folder: Path) -> list[str]:
    """Return the names in the directory of a row that are neither its marker nor its checkpoints. Raises OSError."""
    checkpoints = folder / _CHECKPOINTS
    made = {owned.MARKER} | ({_CHECKPOINTS} if checkpoints.is_dir() and not checkpoints.is_symlink() else set())
    return [path.name for path in folder.iterdir() if path.name not in made]


class Running:
    """A drill that runs."""

    def __init__(self, drill: Drill, say: Callable[[str], None]) -> None:
        self._drill, self._say = drill, say
        self._began = time.monotonic()
        self._pace = Pace(None)
        self._moment = 1  # steps before a fault
        self._saved_before = True  # the clean run saved before that moment
        self._clean = Trial(drill.folder)
        self._run_ids: list[str] = []  # of the launches of the present row
        self.results: list[Result] = []  # of the rows that are done

    def run(self, *, keep: bool) -> None:
        """Carry out all rows in the drill's directory. Checkpoints of rows that passed are removed, unless `keep`."""
        with hold_folder(self._drill.folder):
            for row in self._drill.faults:
                self._say(f"{row.value}: {ASKED[row]}")
                self.results.append(self._carry_out(row, keep=keep))
        folder = self._drill.folder
        if not any(result.folder for result in self.results):
            with suppress(OSError):
                if not foreign_files(folder):
                    owned.remove_directory(str(folder), KIND)

    def _carry_out(self, row: Row, *, keep: bool) -> Result:
        """Carry out a row, or say why not. Where it passed its directory goes, unless `keep`, or with foreign files."""
        began, self._run_ids = time.monotonic(), []  # `_finish` adds the run of each launch
        folder = self._drill.folder / row.value
        why_not = "" if row is Row.CLEAN else self._why_not_tried(row)
        judged = not_tried(why_not) if why_not else self._judge(row, folder)
        if judged.state is State.PASS and folder.exists() and not keep:
            with suppress(OSError):
                if not _foreign_files_in_row(folder):
                    owned.remove_directory(str(folder), KIND)
        return Result(
            **vars(judged),
            row=row,
            seconds=time.monotonic() - began,
            runs=tuple(self._run_ids),
            folder=str(folder) if folder.exists() else "",
        )

    def _left(self) -> float:
        """Return the seconds until the time limit of the drill."""
        return self._drill.limit - (time.monotonic() - self._began) if self._drill.limit else float("inf")

    def _judge(self, row: Row, folder: Path) -> Judged:
        """Make the directory of a row, carry out its launches, and judge them. An error of ddpkit: not tried."""
        checkpoints = folder / _CHECKPOINTS
        try:
            owned.make_directory(str(folder), KIND)
            owned.make_plain_directory(str(checkpoints))
        except OSError as error:
            raise DdpkitError(
                f"cannot make {checkpoints}: {error.strerror}", f"ls -ld {shlex.quote(str(folder.parent))}"
            ) from None
        judges: Mapping[Row, Callable[[Path], Judged]] = {
            Row.CLEAN: self._clean_row,
            Row.EXIT: self._exit_row,
            Row.USR1: partial(self._signal_row, Row.USR1),
            Row.TERM: partial(self._signal_row, Row.TERM),
            Row.KILL: self._kill_row,
            Row.STOP: self._stop_row,
            Row.SAVE_KILL: self._save_kill_row,
            Row.DISK: self._disk_row,
            Row.RESUME: self._resume_row,
            Row.NODE: self._node_row,
            Row.SLOW: self._slow_row,
        }
        try:
            judged = judges[row](checkpoints)
        except DdpkitError as error:
            return not_tried(error.message)
        return not_tried(OVER) if judged.state is State.FAIL and self._left() <= 0 else judged

    def _why_not_tried(self, row: Row) -> str:
        """Return what speaks against a row by the clean run and the time limit; empty: it is tried."""
        if self._left() <= 0:
            return OVER
        if self._clean.code != 0 and not self._pace.order:  # one that failed after some steps has shown its pace
            return "the clean run failed"
        if not self._clean.saves:  # it may have saved over the user's own checkpoints
            return (
                "the clean run saved nothing in the drill's directory: "
                f"where {self._drill.told} has no effect, no fault is injected"
            )
        if row is Row.SLOW and self._ranks < 2:
            return "there is one rank: nobody waits for it"
        if row is Row.NODE and not self._drill.spares:
            return "there is no spare node: add a host, and --spares 1"
        return ""

    # ---- launches

    def _launch(
        self, row: Row, folder: Path, *, resume: bool = False, hang: float = 0.0, more: Sequence[str] = ()
    ) -> Launch:
        drill = self._drill
        if self._left() <= 0:
            raise UsageError(OVER, "--time-limit SECONDS")
        return Launch(
            drill.command(row, folder, resume=resume, hang=hang, more=more), drill.environment(folder), folder
        )

    def _finish(self, launch: Launch, seconds: float | None = None, quiet: float = math.inf) -> Trial:
        """Wait for the end of a launch as `Launch.finish` does, and note its run. `seconds`: None: its patience."""
        trial = launch.finish(max(0.0, min(self._patience() if seconds is None else seconds, self._left())), quiet)
        self._run_ids += [trial.run_id] if trial.run_id else []
        return trial

    def _patience(self) -> float:
        """Seconds in which a launch has ended for sure: machines are busy, and a resume loads a checkpoint."""
        length = self._clean.ended - self._clean.began
        return max(0.0, min(max(60.0, 3 * length) + 2 * self._drill.grace, self._left()))

    def _resume(self, row: Row, folder: Path) -> Trial:
        with self._launch(row, folder, resume=True, hang=self._hang_timeout()) as launch:
            return self._finish(launch)

    def _hang_timeout(self) -> float:
        return self._drill.hang or max(60.0, 20 * self._pace.step)

    def _reach_moment(self, launch: Launch) -> bool:
        """Wait for a moment between two saves, or in the middle of a run that has none there. False: it ended before.

        On a busy machine the first save may come after more steps than in the clean run: it is waited for.
        """
        count = Count(self._pace.key)
        whole = 0.9 * max((save.size for save in self._clean.saves), default=0)  # bytes: a smaller one is half written

        def saved(trial: Trial) -> bool:
            return not self._saved_before or any(save.size >= whole for save in trial.saves)

        if not self._pace.order:
            return launch.wait(self._patience(), lambda trial: len(trial.saves) > 0)
        return launch.wait(self._patience(), lambda trial: saved(trial) and count.of(trial.lines) >= self._moment)

    def _inject(self, launch: Launch, ranks: Sequence[int], fault: str, value: str = "") -> bool:
        """Inject a fault into ranks at the moment of the drill. False: it was not, and `trial.problem` says why."""
        with self._injected(launch, ranks, fault, value) as injected:
            return injected

    @contextmanager
    def _injected(self, launch: Launch, ranks: Sequence[int], fault: str, value: str = "") -> Iterator[bool]:
        """Inject a fault as `_inject` does, and yield whether it was. A fault that lasts ends with the block."""
        trial, armed = launch.trial, list[Injector]()
        try:
            if launch.wait(self._patience(), lambda trial: bool(trial.lines) and bool(trial.log_folder)):
                armed += filter(None, (launch.beside(rank, fault, value) for rank in ranks))
            ready = [launch.is_armed(injector) for injector in armed]
            if ready.count(True) < len(ranks) or not self._reach_moment(launch):
                trial.problem = trial.problem or TOO_SHORT
                yield False
                return
            trial.fault_at = time.time()
            for injector in armed:
                injector.go()
            launch.wait(self._patience(), lambda _: all(injector.is_over() for injector in armed))
            seen = [injector.done(1.0) for injector in armed]
            if None in seen:
                trial.problem = launch.why_no_fault(NOT_INJECTED.get(fault, "the rank had ended"))
            trial.seen = seen[0] or ""
            yield None not in seen
        finally:
            for injector in armed:
                injector.close()

    # ---- rows

    def _clean_row(self, folder: Path) -> Judged:
        drill = self._drill
        with self._launch(Row.CLEAN, folder, hang=drill.hang or 60.0) as launch:
            self._clean = self._finish(launch, FIRST, 2 * (drill.hang or 60.0))
        self._pace = learn(self._clean.lines, self._clean.began)
        times = [step.at for step in steps(self._clean.lines, self._pace.key)]
        saves = [save.at for save in self._clean.saves]
        self._moment = moment(times, saves)
        self._saved_before = bool(saves) and (not times or min(saves) <= times[self._moment - 1])
        return rows.judge_clean(self._clean, self._pace, self._ranks, drill.told, one_node=drill.nodes == 1)

    def _exit_row(self, folder: Path) -> Judged:
        file = folder / "a_file"
        create(file, "a file, where the script wants a directory\n")
        with self._launch(Row.EXIT, file / "checkpoints", hang=self._hang_timeout()) as launch:
            return rows.judge_exit(self._finish(launch))

    def _signal_row(self, row: Row, folder: Path) -> Judged:
        usr1 = row is Row.USR1
        limit = self._drill.notice if usr1 else self._drill.grace
        with self._launch(row, folder) as launch:
            if not self._reach_moment(launch):
                return not_tried(TOO_SHORT)
            launch.signal(signal.SIGUSR1 if usr1 else signal.SIGTERM)
            trial = self._finish(launch, limit if usr1 else limit + self._patience())
        return rows.judge_signal(self._pace, trial, self._resume(row, folder), row.name, limit)

    def _run_with_fault(
        self, row: Row, folder: Path, ranks: Sequence[int], fault: str, value: str = "", hang: float = 0.0
    ) -> Trial:
        """Launch, inject a fault, and wait for the end. Raises UsageError where the fault was not injected."""
        with self._launch(row, folder, hang=hang) as launch:
            if not self._inject(launch, ranks, fault, value):
                raise UsageError(launch.trial.problem)
            return self._finish(launch, self._patience() + 4 * hang if hang else None)

    def _kill_row(self, folder: Path) -> Judged:
        trial = self._run_with_fault(Row.KILL, folder, [self._ranks - 1], "kill")
        return rows.judge_kill(self._pace, trial, self._ranks - 1, self._resume(Row.KILL, folder))

    @property
    def _ranks(self) -> int:
        """Ranks of the clean run."""
        return int(self._clean.record.get("world_size", 1))

    def _stop_row(self, folder: Path) -> Judged:
        hang = self._drill.hang or max(10.0, 20 * self._pace.step)
        trial = self._run_with_fault(Row.STOP, folder, [self._ranks - 1], "stop", hang=hang)
        return rows.judge_stop(trial, self._ranks - 1)

    def _save_kill_row(self, folder: Path) -> Judged:
        try:
            trial = self._run_with_fault(Row.SAVE_KILL, folder, [0], "save-kill", f"{self._half}:{folder}")
        except UsageError as error:
            if error.message != NOT_INJECTED["save-kill"]:
                raise
            # A draft elsewhere met the limit: into this directory come whole files alone.
            folder = folder / "unlimited"
            owned.make_plain_directory(str(folder))
            trial = self._run_with_fault(Row.SAVE_KILL, folder, [0], "save-kill", f"{RLIM_INFINITY}:{folder}")
        name = trial.seen.rpartition(" ")[0]
        size = max((save.size for save in self._clean.saves if save.name == name), default=0)
        return rows.judge_save_kill(self._pace, trial, self._resume(Row.SAVE_KILL, folder), size)

    @property
    def _half(self) -> int:
        """Bytes of the largest file of a checkpoint, halved: a save that stops there is not whole."""
        return max(1, max(save.size for save in self._clean.saves) // 2)

    def _disk_row(self, folder: Path) -> Judged:
        trial = self._run_with_fault(Row.DISK, folder, range(min(self._ranks, MOST_RANKS)), "disk", str(self._half))
        return rows.judge_disk(self._pace, trial, self._resume(Row.DISK, folder))

    def _slow_row(self, folder: Path) -> Judged:
        """Slow the last rank down, and watch all ranks for a slow one meanwhile."""
        rank = self._ranks - 1
        with self._launch(Row.SLOW, folder, more=("--observe=stacks",)) as launch:
            with self._injected(launch, [rank], "slow", str(SLOWED)) as injected:
                if not injected:
                    return not_tried(launch.trial.problem)
                if self._left() <= WATCHED:
                    return not_tried(OVER)
                try:
                    found, _ = watch_ranks(launch.run())
                except DdpkitError as error:
                    return not_tried(launch.why_no_fault(error.message))
            self._finish(launch, 0.0)
        return rows.judge_slow(found, rank)

    def _node_row(self, folder: Path) -> Judged:
        # A new attempt is the same command: it has to start where nothing is saved, and to resume where something is.
        with self._launch(Row.NODE, folder, resume=True, more=("--retries=1",)) as launch:
            injected = self._inject(launch, [self._ranks - 1], "node")
            trial = self._finish(launch)
        if not injected and trial.code and trial.failed_rank is not None:
            return failed(f"it does not start with its resume arguments where nothing is saved: {trial.verdict}")
        return rows.judge_node(self._pace, trial) if injected else not_tried(trial.problem)

    def _resume_row(self, folder: Path) -> Judged:
        """End a launch at the moment of the drill, its resume after some steps; a second resume goes to the end."""
        with self._launch(Row.RESUME, folder) as launch:
            if not self._reach_moment(launch):
                return not_tried(TOO_SHORT)
            launch.signal(signal.SIGQUIT)
            first = self._finish(launch)
        with self._launch(Row.RESUME, folder, resume=True) as launch:
            least = max(2, len(self._pace.order) // 5)
            count = Count(self._pace.key)
            launch.wait(self._patience(), lambda trial: count.of(trial.lines) >= least)
            launch.signal(signal.SIGQUIT)
            second = self._finish(launch)
        return rows.judge_resume(self._pace, first, second, self._resume(Row.RESUME, folder))


def plan_lines(drill: Drill) -> list[str]:
    """Return what a drill would do, a row a line, and the first command."""
    checkpoints = drill.folder / Row.CLEAN.value / _CHECKPOINTS
    variable = f"{drill.variable}={checkpoints} " if drill.variable else ""
    return [
        *(f"{row.value:10}{ASKED[row]}" for row in drill.faults),
        "",
        variable + join(drill.command(Row.CLEAN, checkpoints)),
    ]


def default_folder(log_dir: str) -> Path:
    """Return a new name for the directory of a drill."""
    return Path(log_dir).absolute() / f"drill-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
