#!/usr/bin/env python3
"""Recorder of failures on one real GPU: record_gpus.py --to DIR [--jobs 8] [--seconds 170] [--missing] [PART]...

Runs the cases of recording/gpus.py, several at a time, and writes DIR/gpu/NAME.txt. The Python that runs
it needs torch with CUDA, typer and rich; for some cases triton, accelerate, lightning, transformers, jax or cupy. A log
that does not show what its label says is kept as DIR/rejected/NAME.txt. All ends within --seconds and a few more.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/lab"), str(ROOT)]

from cluster import Lab  # noqa: E402
from record_cases import write  # noqa: E402
from recording.gpus import FAULTS, GpuFault  # noqa: E402
from recording.scene import CASES, Recorded, Scene, cut  # noqa: E402

MARK = "GPU_RECORDING"  # environment variable of all processes of this program
FOREIGN = (
    "SLURM_",
    "OMPI_",
    "PMI_",
    "TORCHELASTIC_",
    "TORCH_NCCL_",
    "TORCH_DISTRIBUTED_",
    "DDPKIT_",
    "MASTER_",
    "NCCL_",
)
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_LAUNCH_BLOCKING", "CC", "CUDA_HOME")
LARGEST = 4_000_000  # bytes of an output that are read
UNWANTED = "ModuleNotFoundError: .*|Torch not compiled with CUDA enabled|Found no NVIDIA driver"
ALONE_RESERVE = 45.0  # seconds that are left for the cases that run alone
LEAST = 12.0  # seconds that must be left for a case
PROGRAMS = {"torchrun": "torch.distributed.run", "accelerate": "accelerate.commands.accelerate_cli"}
WARM = (
    "import torch; x = torch.ones(64, 64, device='cuda'); print('sum', (x @ x).sum().item(), torch.cuda.nccl.version())"
)


class RejectedError(Exception):
    """A log that is not what its label says."""

    def __init__(self, reason: str, log: str) -> None:
        super().__init__(reason)
        self.log = log


class Machine(Scene):
    """This machine, as the scene of one case: commands run here, in a session of their own."""

    def __init__(self, folder: Path, until: float) -> None:
        super().__init__(Lab(folder), folder / "project")
        self.until = until
        self.mark = folder.as_posix()
        self.folder.mkdir(parents=True)

    def environ(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(FOREIGN) and name not in NAMES}
        return {
            **kept,
            MARK: self.mark,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", os.defpath))),
            "XDG_STATE_HOME": str(self.folder.parent / "state"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "HF_HUB_OFFLINE": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }

    def run(self, command: str, host: str = "node1", seconds: float = 120) -> str:
        """Run a shell command to its end. Raises RejectedError where a time limit ends it."""
        kept = self.folder.parent / "output"
        with kept.open("ab") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"{functions()}\n{command}"],
                cwd=self.folder,
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        late = False
        try:
            process.wait(max(0.1, min(seconds, self.until - time.monotonic())))
        except subprocess.TimeoutExpired:
            late = True
            send(process.pid, signal.SIGTERM)
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                pass
        sweep(self.mark)
        try:
            self.codes.append(process.wait(5))
        except subprocess.TimeoutExpired:
            late = True
        with kept.open("rb") as text:
            log = text.read(LARGEST).decode(errors="replace")
        if late:
            raise RejectedError("a time limit ended it", self.neutral(log))
        return log

    def neutral(self, text: str) -> str:
        """Return a log without the paths and the name of this machine."""
        places = {str(self.folder): "/home/user/project", str(self.folder.parent): "/tmp/run", str(ROOT): "/opt/ddpkit"}
        places |= {sys.prefix: "/opt/venv", sys.base_prefix: "/usr"}
        found = importlib.util.find_spec("torch")
        if found is not None and found.origin:
            places[str(Path(found.origin).parents[1])] = (
                f"/opt/venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
            )
        # torch also prints the end of a long path.
        text = re.sub(
            rf"[\w/]*{self.folder.parent.parent.name}/{self.folder.parent.name}/project", str(self.folder), text
        )
        for path, shown in sorted(places.items(), key=lambda each: -len(each[0])):
            if len(path) > 4:
                text = text.replace(path, shown)
        text = re.sub(r"(?<= )[\w./-]*/?site-packages/torch/(?=\S+\.py:\d+\])", "torch/", text)
        for name in {socket.gethostname(), *re.findall(r"(?m)^ *host +: (\S+) *$", text)} - {"localhost", ""}:
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "node1", text)
        text = re.sub(r"[^\n]*\r(?!\n)", "", text.replace("\r\n", "\n"))  # a bar shows its last state
        return cut(text.rstrip() + "\n")


def functions() -> str:
    """Return shell functions, so that the programs that users type are those of this Python."""
    python = shlex.quote(sys.executable)
    lines = [f'python3() {{ {python} "$@"; }}']
    for name, module in PROGRAMS.items():
        path = Path(sysconfig.get_path("scripts")) / name
        lines.append(f'{name}() {{ {shlex.quote(str(path)) if starts(path) else f"{python} -m {module}"} "$@"; }}')
    return "\n".join(lines)


def starts(path: Path) -> bool:
    """Check that a script is there, and its interpreter also."""
    try:
        with path.open("rb") as script:
            first = script.readline(300).decode(errors="replace")
    except OSError:
        return False
    words = first[2:].split()
    return first.startswith("#!") and bool(words) and Path(words[0]).exists() and Path(words[0]).name != "env"


def send(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        pass


def marked(mark: str) -> list[int]:
    """Return the processes that have a mark in their environment. torchrun gives ranks sessions of their own."""
    text, found = f"{MARK}={mark}\0".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text in path.read_bytes() + b"\0" and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def sweep(mark: str) -> None:
    """End the processes of a case that are left."""
    for _ in range(3):
        left = marked(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not left:
            return
        time.sleep(0.2)


def judge(fault: GpuFault, codes: list[int], log: str) -> str:
    """Return why a log is not what its label says, or ''."""
    if fault.cause == "healthy" and any(codes):
        return f"a healthy run ended with {codes}"
    if fault.cause != "healthy" and not any(codes):
        return "nothing failed"
    if wrong := re.search(UNWANTED, log):
        return f"in the log: {wrong[0]}"
    if fault.shows and not re.search(fault.shows, log):
        return f"not in the log: {fault.shows}"
    return ""


class Recorder:
    """The cases of one run, and what became of them."""

    def __init__(self, to: Path, shared: Path, until: float) -> None:
        self.to, self.shared, self.until = to, shared, until
        self.counts = {"recorded": 0, "rejected": 0, "not started": 0}
        self._lock = threading.Lock()

    def record(self, each: Recorded, until: float) -> None:
        """Record a case, and print a line about it. Raises nothing."""
        began = time.monotonic()
        if until - began < LEAST:
            self._report(each.name, "not started", "no time is left", [], began)
            return
        fault, codes, log = FAULTS[each.name], list[int](), ""
        folder = self.shared / each.name.replace("/", "-")
        try:
            here = Machine(folder, until)
            codes = here.codes
            text = each.record(here)
            log = here.neutral(text)
            reason = judge(fault, codes, text)
        except RejectedError as error:
            reason, log = str(error), error.log
        except Exception:
            reason = traceback.format_exc()
        finally:
            sweep(folder.as_posix())
            shutil.rmtree(folder, ignore_errors=True)
        try:
            place = "rejected" if reason else "gpu"
            write(self.to / place / f"{each.name.partition('/')[2]}.txt", each, log)
        except OSError as error:
            reason = f"not written: {error}"
        self._report(each.name, "rejected" if reason else "recorded", reason, codes, began)

    def _report(self, name: str, state: str, reason: str, codes: list[int], began: float) -> None:
        with self._lock:
            self.counts[state] += 1
            code = codes[-1] if codes else "none"
            took = f"{time.monotonic() - began:.1f} s"
            print(f"{name}: {state}, exit code {code}, {took}{f': {reason}' if reason else ''}", flush=True)

    def together(self, cases: Iterable[Recorded], jobs: int, until: float) -> None:
        chosen = sorted(cases, key=lambda each: (FAULTS[each.name].extra, -FAULTS[each.name].typical))
        with ThreadPoolExecutor(jobs) as pool:
            for each in chosen:
                pool.submit(self.record, each, until)

    def one_by_one(self, cases: Iterable[Recorded]) -> None:
        for each in cases:
            self.record(each, self.until)


def guard(shared: Path, until: float) -> None:
    """End this program a few seconds after its time, whatever it waits for."""

    def end() -> None:
        print("record_gpus: no time is left; the rest ends now", flush=True)
        for folder in [*shared.glob("gpu-*"), shared]:
            sweep(folder.as_posix())
        os._exit(1)

    timer = threading.Timer(max(1.0, until + 15 - time.monotonic()), end)
    timer.daemon = True
    timer.start()


def warm_up(shared: Path, until: float) -> None:
    """Read torch's libraries into memory once, before several cases do it together."""
    began = time.monotonic()
    here = Machine(shared / "gpu-warm-up", min(until, began + 45))
    try:
        said = here.run(f"python3 -c {shlex.quote(WARM)}", seconds=45)
    except RejectedError as error:
        said = f"{error}: {error.log}"
    print(f"warm-up: {time.monotonic() - began:.1f} s: {said.strip()[-300:]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="parts of names; `=NAME` is one case")
    parser.add_argument("--to", type=Path, default=Path("recorded"), help="directory of the recordings")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=170, help="limit of all cases")
    parser.add_argument("--missing", action="store_true", help="cases without a recording in the directory only")
    parser.add_argument("--list", action="store_true", help="print the cases, and run none")
    parser.add_argument("--cold", action="store_true", help="no warm-up")
    args = parser.parse_args()
    until = time.monotonic() + args.seconds
    chosen = [
        CASES[name]
        for name in FAULTS
        if not args.parts or any(part in name or part == f"={name.partition('/')[2]}" for part in args.parts)
    ]
    if args.missing:
        chosen = [each for each in chosen if not (args.to / f"{each.name}.txt").exists()]
    if args.list:
        for each in chosen:
            fault = FAULTS[each.name]
            print(f"{each.name}{' (alone)' if fault.alone else ''}: {each.label['provoked']}: {each.label['cause']}")
        print(f"{len(chosen)} cases")
        return 0
    return run(chosen, args.to.resolve(), until, args.jobs, warm=not args.cold)


def run(chosen: list[Recorded], to: Path, until: float, jobs: int, *, warm: bool) -> int:
    """Record cases. Return 1 if one was not recorded."""
    began = time.monotonic()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    shared = Path(tempfile.mkdtemp(prefix="gpus-")).resolve()
    guard(shared, until)
    recorder = Recorder(to, shared, until)
    alone = [each for each in chosen if FAULTS[each.name].alone]
    if warm:
        warm_up(shared, until)
    left = until - time.monotonic()
    reserve = min(ALONE_RESERVE, left / 2) if alone else 0.0
    try:
        recorder.together((each for each in chosen if not FAULTS[each.name].alone), jobs, until - reserve)
        recorder.one_by_one(alone)
    finally:
        shutil.rmtree(shared, ignore_errors=True)
    counts = ", ".join(f"{count} {state}" for state, count in recorder.counts.items())
    print(f"{counts}; {time.monotonic() - began:.0f} s", flush=True)
    return int(recorder.counts["recorded"] < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
