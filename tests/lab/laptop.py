"""A host without SLURM in the lab, which reaches the login host over SSH: launches there with `--via`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from cluster import LAPTOP, LOGIN, Lab
from launches import processes
from program import PATIENCE, Program

ROOT = Path(__file__).parents[2]
DDPKIT = [sys.executable, "-m", "ddpkit"]


class Laptop:
    """The laptop's directory `here`, and the project on the cluster, which is `there`."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.here, self.there = folder / "here", folder / "there"
        self.here.mkdir()
        self.there.mkdir()
        self.started: list[Program] = []
        self.before = set(processes(lab, (LAPTOP, LOGIN)))

    @property
    def env(self) -> dict[str, str]:
        return {**self.lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "DDPKIT_GPUS": "0"}

    def start(self, *args: str) -> Program:
        self.started.append(Program(self.lab.argv(LAPTOP, [*DDPKIT, *args], self.here), env=self.env))
        return self.started[-1]

    def launch(self, *args: str, script: str = "job.py", via: str = LOGIN) -> Program:
        return self.launch_on("-b", "slurm", "-N", "2", "--nproc-per-node", "2", *args, script=script, via=via)

    def launch_on(self, *args: str, script: str, via: str = LOGIN) -> Program:
        """Launch on the nodes that `args` say."""
        return self.start("launch", "--via", via, "--workdir", str(self.there), *args, "--", script)

    def ask(self, *args: str) -> subprocess.CompletedProcess[str]:
        env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
        return self.lab.run(LAPTOP, *DDPKIT, *args, cwd=self.here, env=env, check=False)

    def launcher(self) -> int:
        """The process of the launch on the laptop."""
        return min(pid for pid, (_, line) in self.left().items() if line.startswith(" ".join([*DDPKIT, "launch"])))

    def cut_session(self) -> None:
        """End sshd's process for the laptop's connection, not the one that listens."""
        shown = processes(self.lab, [LOGIN])
        sessions = [pid for pid, (_, line) in shown.items() if pid not in self.before and line.startswith("sshd")]
        assert sessions, shown
        os.kill(max(sessions), signal.SIGKILL)

    def left(self) -> dict[int, tuple[str, str]]:
        return {pid: each for pid, each in processes(self.lab, (LAPTOP, LOGIN)).items() if pid not in self.before}

    def job_output(self) -> list[str]:
        """The lines of the ranks in the job's own output."""
        (file,) = self.there.glob("logs/*/slurm-*.out")
        return re.findall(r"rank \d line \d+", file.read_text())

    def close(self) -> None:
        self.lab.mend(LAPTOP)
        for each in self.started:
            if each.process.poll() is None:
                os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait(PATIENCE)


def lines(launch: Program) -> list[str]:
    return [found[0] for line in launch.lines if (found := re.search(r"(?<=^\[\d node\d\] )rank .*", line))]
