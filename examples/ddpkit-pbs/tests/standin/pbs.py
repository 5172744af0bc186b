#!/usr/bin/env python3
"""A stand-in for the commands of PBS on one machine, for tests: qsub, qstat, qdel, qsig and pbsdsh. It is not PBS.

It does what the documents and sources of OpenPBS 20 say of what a job can see: the #PBS lines are read, a job starts in
the home folder with an environment of its own, `PBS_NODEFILE` has a line for each of `mpiprocs`, a task of pbsdsh gets
nothing of the script's environment and writes to the job's output, pbsdsh returns 0 whatever a task did, a job goes
through the states Q, R, E and F, what is left of it at its end is killed, and `qstat` knows ended jobs with -x alone.

STANDIN_PBS_HOME: where the jobs are. STANDIN_PBS_HOSTS: the names of its hosts, all of which are this machine. A file
`hold` in the home keeps jobs in the queue, and its text is why.
"""

from __future__ import annotations

import fcntl
import getopt
import getpass
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HOME = Path(os.environ["STANDIN_PBS_HOME"])
OPTIONS = "A:C:j:k:l:N:o:q:r:S:v:V"
SERVER = "standin"


def job_file(job: str) -> Path:
    return HOME / job / "job.json"


def save(job: dict[str, Any]) -> None:
    path = job_file(job["id"])
    beside = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    beside.write_text(json.dumps(job))
    beside.replace(path)


def load(word: str) -> dict[str, Any] | None:
    name = word if "." in word else f"{word}.{SERVER}"
    try:
        found: dict[str, Any] = json.loads(job_file(name).read_text())
    except OSError:
        return None
    return found


def die(code: int, text: str) -> None:
    print(text, file=sys.stderr)
    sys.exit(code)


# ---- qsub, qstat, qdel, qsig


def qsub(argv: list[str]) -> None:
    given, words = getopt.gnu_getopt(argv, OPTIONS)
    text = Path(words[0]).read_text()
    directives: list[tuple[str, str]] = []
    for line in text.splitlines()[1:]:
        if not line.startswith("#PBS"):
            break  # PBS stops at the first line that is a command, or empty
        directives += getopt.getopt(shlex.split(line.removeprefix("#PBS")), OPTIONS)[0]
    chosen: dict[str, str] = {}
    resources: dict[str, str] = {}
    for flag, value in [*directives, *given]:
        if flag == "-l":
            name, _, amount = value.partition("=")
            resources[name] = amount
        else:
            chosen[flag] = value
    if chosen.get("-q", "workq") != "workq":
        die(170, f"qsub: Unknown queue: {chosen['-q']}")
    chunk = re.fullmatch(r"(\d+)(?::.*?\bmpiprocs=(\d+))?.*", resources.get("select", "1"))
    assert chunk is not None
    hosts = os.environ.get("STANDIN_PBS_HOSTS", "localhost").split()
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "sequence").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0) + 1
        file.truncate(0)
        file.write(str(number))
    job = {
        "id": f"{number}.{SERVER}",
        "options": chosen,
        "resources": resources,
        "hosts": hosts[: int(chunk[1])],
        "wanted": int(chunk[1]),
        "mpiprocs": int(chunk[2] or 1),
        "state": "Q",
        "comment": "",
        "environment": {name: os.environ[name] for name in chosen.get("-v", "").split(",") if name in os.environ},
    }
    (HOME / str(job["id"])).mkdir()
    (HOME / str(job["id"]) / "script").write_text(text)
    save(job)
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(HOME / str(job["id"]) / "mom.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for fd, end in ((null, 0), (log, 1), (log, 2)):
            os.dup2(fd, end)
        Mom(job).run()
        os._exit(0)
    print(job["id"])


def qstat(argv: list[str]) -> None:
    given, words = getopt.gnu_getopt(argv, "xfF:B")
    job = load(words[0])
    if job is None:
        die(153, f"qstat: Unknown Job Id {words[0]}")
    assert job is not None
    if job["state"] == "F" and ("-x", "") not in given:
        die(35, f"qstat: {job['id']} Job has finished, use -x or -H to obtain historical job information")
    shown: dict[str, Any] = {
        "Job_Name": job["options"].get("-N", "STDIN"),
        "Job_Owner": f"{getpass.getuser()}@pbs",
        "job_state": job["state"],
        "queue": "workq",
        "ctime": time.ctime(job_file(job["id"]).with_name("script").stat().st_mtime),
        "server": SERVER,
        "Join_Path": job["options"].get("-j", "n"),
    }
    if "exec_host" in job:
        shown["exec_host"] = job["exec_host"]
    shown["Resource_List"] = job["resources"]
    shown["comment"] = job["comment"]
    if "exit" in job:
        shown["Exit_status"] = job["exit"]
    whole = {"timestamp": int(time.time()), "pbs_version": "standin", "pbs_server": SERVER, "Jobs": {job["id"]: shown}}
    print(json.dumps(whole, indent=4))


def tell_mom(word: str, message: dict[str, Any]) -> None:
    job = load(word)
    if job is None:
        die(153, f"{Path(sys.argv[0]).name}: Unknown Job Id {word}")
    assert job is not None
    if job["state"] == "F":
        die(35, f"{Path(sys.argv[0]).name}: Job has finished {job['id']}")
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(job["socket"])
        link.sendall(json.dumps(message).encode() + b"\n")
        link.makefile().readline()


# ---- the daemon of a job


class Mom:
    """One job from the queue to its end: its script, its tasks, and what pbsdsh, qdel and qsig ask for."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.folder = HOME / job["id"]
        self.places = [host for host in job["hosts"] for _ in range(job["mpiprocs"])]
        self.processes: list[tuple[str, subprocess.Popen[bytes]]] = []  # and the host of each
        self.deleted = threading.Event()
        self.lock = threading.Lock()
        # The path of a socket is at most 107 bytes long.
        self.job["socket"] = f"/tmp/standin-pbs-{os.getpid()}"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.job["socket"])
        self.listener.listen(64)
        threading.Thread(target=self.listen, daemon=True).start()
        save(self.job)

    def state(self, state: str, **more: Any) -> None:
        self.job |= {"state": state, **more}
        save(self.job)

    def run(self) -> None:
        try:
            self._run()
        finally:
            os.unlink(self.job["socket"])  # noqa: PTH108

    def _run(self) -> None:
        if len(self.job["hosts"]) < self.job["wanted"]:
            self.state("Q", comment="Can Never Run: Insufficient amount of resource: ncpus")
            self.deleted.wait()
        hold = HOME / "hold"
        while hold.exists() and not self.deleted.is_set():
            self.state("Q", comment=f"Not Running: {hold.read_text().strip()}")
            time.sleep(0.05)  # nobody announces the end of a file
        if self.deleted.is_set():
            self.state("F", exit=271)
            return
        nodefile = self.folder / "nodes"
        nodefile.write_text("".join(f"{place}\n" for place in self.places))
        self.output = os.open(self.spool(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        where = "+".join(f"{host}/0*{self.job['mpiprocs']}" for host in self.job["hosts"])
        self.state("R", exec_host=where, comment="Job run")
        shell = self.job["options"].get("-S", "/bin/sh")
        argv = [shell, str(self.folder / "script")]
        script = self.start(self.places[0], argv, {"PBS_NODEFILE": str(nodefile), "PBS_O_HOST": os.uname().nodename})
        code = script.wait()
        self.state("E")
        self.signal(signal.SIGKILL)
        for _, process in self.processes:
            process.wait()
        os.close(self.output)
        if str(self.spool()) != self.job["options"].get("-o"):
            Path(self.job["options"]["-o"]).write_bytes(self.spool().read_bytes())
        self.state("F", exit=256 - code if code < 0 else code, comment="Job finished")

    def spool(self) -> Path:
        """Where the output goes while the job runs: with -k d to its place, else copied there at the end."""
        direct = "d" in self.job["options"].get("-k", "n")
        return Path(self.job["options"]["-o"]) if direct else self.folder / "spool"

    def start(self, host: str, argv: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        own = {name: value for name, value in os.environ.items() if name.startswith("STANDIN_PBS_")}
        usual = {"HOME": os.environ["HOME"], "USER": "user", "SHELL": "/bin/bash"}
        # A login shell's start-up files put the folder of the commands of PBS into PATH.
        usual["PATH"] = f"{os.environ['STANDIN_PBS_BIN']}:/usr/local/bin:/usr/bin:/bin:/usr/sbin"
        more = {"PBS_JOBID": self.job["id"], "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBNAME": self.job["options"]["-N"]}
        with self.lock:
            process = subprocess.Popen(
                argv,
                cwd=os.environ["HOME"],
                env={**usual, **own, **self.job["environment"], **more, **env},
                stdin=subprocess.DEVNULL,
                stdout=self.output,
                stderr=self.output,
                start_new_session=True,
            )
            self.processes.append((host, process))
        return process

    def listen(self) -> None:
        while True:
            link = self.listener.accept()[0]
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link: socket.socket) -> None:
        stream = link.makefile("rw")
        task: subprocess.Popen[bytes] | None = None
        for line in stream:
            asked = json.loads(line)
            if asked["what"] == "delete":
                self.deleted.set()
                self.signal(signal.SIGTERM)
                timer = threading.Timer(10.0, self.signal, [9])  # kill_delay
                timer.daemon = True
                timer.start()
            elif asked["what"] == "signal":
                self.signal(asked["number"], self.places[0])
            elif asked["what"] == "kill" and task is not None:
                self.signal_one(task, asked["number"])
            elif asked["what"] == "spawn":
                numbers = {"PBS_NODENUM": str(self.job["hosts"].index(self.places[asked["node"]]))}
                task = self.start(self.places[asked["node"]], asked["argv"], {**numbers, "PBS_TASKNUM": "1"})
                threading.Thread(target=self.obituary, args=(task, stream), daemon=True).start()
                continue
            stream.write("{}\n")
            stream.flush()

    def obituary(self, task: subprocess.Popen[bytes], stream: Any) -> None:
        code = task.wait()
        try:
            stream.write(json.dumps({"exit": 256 - code if code < 0 else code}) + "\n")
            stream.flush()
        except OSError:
            pass  # that pbsdsh has left

    def signal(self, number: int, host: str = "") -> None:
        """To all tasks of the job; to those of the first host alone where `host` is given, as qsig does."""
        for where, process in list(self.processes):
            if host in ("", where):
                self.signal_one(process, number)

    def signal_one(self, process: subprocess.Popen[bytes], number: int) -> None:
        """To every process of a task's session."""
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdigit() and (path / "stat").read_text().rpartition(")")[2].split()[3] == str(
                    process.pid
                ):
                    os.kill(int(path.name), number)
            except (OSError, IndexError):
                continue


def pbsdsh(argv: list[str]) -> None:
    if "PBS_ENVIRONMENT" not in os.environ:
        die(1, "pbsdsh: not executing under PBS")
    given, words = getopt.getopt(argv, "n:")
    job = load(os.environ["PBS_JOBID"])
    assert job is not None
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(job["socket"])
        stream = link.makefile("rw")

        def pass_on(number: int, _: object) -> None:
            # It tells the daemon, and is gone before its task is.
            print(f"pbsdsh: killing task 0x00000000 signal {number}", flush=True)
            link.sendall(json.dumps({"what": "kill", "number": number}).encode() + b"\n")
            os._exit(1)

        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, pass_on)
        link.sendall(json.dumps({"what": "spawn", "node": int(dict(given)["-n"]), "argv": words}).encode() + b"\n")
        code = json.loads(stream.readline())["exit"]
    if code:
        print(f"pbsdsh: task 0x00000000 exit status {code}")


if __name__ == "__main__":
    program, args = Path(sys.argv[0]).name, sys.argv[1:]
    if program == "qsub":
        qsub(args)
    elif program == "qstat":
        qstat(args)
    elif program == "qdel":
        tell_mom(args[0], {"what": "delete"})
    elif program == "qsig":
        tell_mom(args[2], {"what": "signal", "number": int(getattr(signal, f"SIG{args[1]}"))})
    else:
        pbsdsh(args)
