"""A cluster on one machine: hosts with real sshd, pdsh and SLURM, made of namespaces. For tests, and to try things.

Each host has its own network, name, /etc/hosts, process tree and ~/.ssh; all share the machine's files, as nodes share
a file system. `login` has no ranks: it is where a user sits, and where slurmctld runs. The network is a bridge in a
namespace of its own, which leads nowhere else. Needs root and the Debian packages in `PACKAGES`.

LAB_SLURM in the environment chooses another version of SLURM. It comes with a Debian system of its own in `ROOTS`,
which the hosts have in place of the machine's.

As a program: cluster.py install | up FOLDER | enter FOLDER HOST [COMMAND...] | down FOLDER
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import keeper

PACKAGES = "slurm-wlm munge pdsh openssh-server openssh-client tmux rsync nftables iproute2".split()
PACKAGES += "clustershell iputils-ping procps util-linux".split()
ROOTS = Path("/var/cache/ddpkit-lab")
RUNTIMES = {"sid": ("apptainer",)}  # container runtimes that only this release has
SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "sid"}  # Debian's name of the release with that SLURM
BROWSERS = ("chromium", "chromium-browser", "google-chrome")  # one of them looks at pages, see tests/browser.py
NODES = ("node1", "node2", "node3", "node4")
LOGIN = "login"
HOSTS = (*NODES, LOGIN)
LAPTOP = "laptop"  # only in a lab that asks for it: a host without SLURM
GPUS = 4
CPUS = 8
PATIENCE = 120.0
STUCK = 20.0  # seconds in which a node must have ended a job
# Where a host has the folder slurm/spool: a step's socket is in it, and a socket's path ends at 108 characters.
SPOOL = "/var/spool"

SLURM_CONF = """
ClusterName=lab
SlurmctldHost={login}({login_address})
SlurmUser=root
AuthType=auth/munge
# A requeued job may start again when its old credentials have run out: two minutes by default.
AuthInfo=socket={folder}/munge/socket,cred_expire=10
StateSaveLocation={folder}/slurm/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurm/slurmctld.pid
SlurmdPidFile={folder}/slurm/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
{limits}
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService={return_to_service}
# One dead node holds up the answers of all that are asked with it for MessageTimeout, and they are asked every third of
# SlurmdTimeout: with 15 and 10 seconds healthy nodes were called down as well.
SlurmdTimeout=20
MessageTimeout=8
KillWait=30
{prolog}
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1,requeue_setup_env_fail
# A salloc without a command gives a shell on the first node, as many sites have it.
LaunchParameters=use_interactive_step
GresTypes=gpu
NodeName=node[1-4] NodeAddr=10.77.0.[1-4] CPUs={cpus} RealMemory=1000000 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=empty MaxTime=INFINITE State=UP
"""
# What a machine without cgroups can do; and, with LAB_CGROUPS, what most sites have. Each step has a cgroup, its memory
# is counted and limited, and it sees its own GPUs. Cores are not limited: nodes have more than the machine.
NO_LIMITS = """\
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectTypeParameters=CR_CPU"""
CGROUP_LIMITS = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=2000"""
CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainDevices=yes
"""
CONTROLLERS = ("memory", "devices", "freezer", "cpuset", "cpuacct")

SSHD_CONFIG = """
Port 22
HostKey {folder}/ssh/host_{name}
AuthorizedKeysFile {folder}/ssh/user.pub
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
PrintMotd no
AcceptEnv LANG LC_*
SetEnv TMPDIR={folder}/tmp XDG_STATE_HOME={folder}/state SLURM_CONF={folder}/etc/slurm.conf
"""

SSH_CONFIG = """
Host *
    IdentityFile {folder}/ssh/user
    UserKnownHostsFile {folder}/ssh/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
"""


def run(*argv: str, check: bool = True) -> str:
    """Run one command of the set-up; its words are the error."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def missing() -> str | None:
    """Why no lab can stand here, or None."""
    if os.geteuid() != 0:
        return "the lab needs root (network namespaces, slurmd)"
    for program in ("slurmctld", "slurmd", "munged", "pdsh", "sshd", "tmux", "rsync", "nft", "ip", "unshare"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            return f"the lab needs {program}: {sys.executable} {__file__} install"
    controller = missing_controller() if os.environ.get("LAB_CGROUPS") else None
    if controller:
        return f"the lab needs {controller}"
    root = system_root()
    if root and not root.exists():
        return f"the lab needs {root}: LAB_SLURM={os.environ['LAB_SLURM']} {sys.executable} {__file__} install"
    if root and sys.base_prefix == "/usr":
        return "the lab needs a Python that is not the machine's own: another Debian has another in /usr"
    return None


def missing_controller() -> str | None:
    """A cgroup controller that SLURM needs and this machine lacks, or None."""
    for name in CONTROLLERS:
        if not Path("/sys/fs/cgroup", name, "tasks").exists():
            return f"the cgroup controller {name}, of version 1"
    return None


def system_root() -> Path | None:
    """The Debian system that has the SLURM of LAB_SLURM, or None for the machine's own."""
    version = os.environ.get("LAB_SLURM", "")
    own = shutil.which("slurmd", path="/usr/sbin")
    if not version or (own and f" {version}." in run(own, "-V")):
        return None
    return ROOTS / SUITES[version]


def install() -> None:
    """Install the Debian packages, where that may be done."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("not root, or not Debian: the lab's packages are not installed")
        return
    install_packages()
    root = system_root()
    if root and not root.exists():
        install_packages("debootstrap")
        make_system(root)


def make_system(root: Path) -> None:
    """Make the Debian system of LAB_SLURM, or raise RuntimeError. It has its name only when it is whole."""
    ROOTS.mkdir(parents=True, exist_ok=True)
    new = root.with_suffix(".new")
    with (ROOTS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.exists():
            return
        if new.exists():  # what an earlier try left
            shutil.rmtree(new)
        # Its "/" is open to all: packages run programs as a user of their own when they are configured.
        new.mkdir()
        new.chmod(0o755)
        print(f"a Debian system, {root.name}, is installed into {root}: some minutes", flush=True)
        packages = ",".join((*PACKAGES, "python3", *RUNTIMES.get(root.name, ())))
        # What it mounts goes with it, also when it is killed; until then, the lock is held.
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={packages}"]
        command += [root.name, str(new)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, pass_fds=[lock.fileno()], check=False)
        if done.returncode != 0:
            log = new / "debootstrap/debootstrap.log"
            words = log.read_text(errors="replace").splitlines()[-20:] if log.exists() else []
            raise RuntimeError("\n".join([f"debootstrap ended with exit code {done.returncode}: {log}", *words]))
        new.rename(root)


def install_packages(*names: str) -> None:
    """Install what is lacking of these packages, or of all that the machine itself needs."""
    lacking = [name for name in names or PACKAGES if "install ok installed" not in run("dpkg", "-s", name, check=False)]
    lacking += [] if names or any(map(shutil.which, BROWSERS)) else ["chromium"]
    if lacking:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        # No daemon of these packages is to start on the machine itself.
        policy = Path("/usr/sbin/policy-rc.d")
        own = not policy.exists()
        if own:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        try:
            subprocess.run(["apt-get", "update", "-qq"], env=env, check=True)
            command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *lacking]
            subprocess.run(command, env=env, check=True)
        finally:
            if own:
                policy.unlink()


def started_with(arguments: Sequence[str]) -> list[int]:
    """Processes of this machine that have one of these arguments."""
    sought, found = {os.fsencode(each) for each in arguments}, []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if not sought.isdisjoint(path.read_bytes().split(b"\0")):
                found.append(int(path.parent.name))
        except OSError:
            continue  # it is gone
    return found


class Lab:
    """One cluster. `folder` holds everything of it; `up()` starts it, `down()` leaves nothing."""

    def __init__(self, folder: Path, plain: int = 0, *, cgroups: bool = False, tag: str = "") -> None:
        """`plain`: so many nodes with sshd alone, in place of the four with SLURM. `cgroups`: see CGROUP_LIMITS.

        `tag`: the name of a lab whose folder may be gone.
        """
        self.folder = folder
        self.slurm = not plain
        self.root = system_root()
        self.cgroups = self.slurm and (cgroups or bool(os.environ.get("LAB_CGROUPS")))
        self.hosts = (*(f"node{number}" for number in range(1, plain + 1)), LOGIN) if plain else HOSTS
        # Namespace names are global: two labs may stand side by side.
        kept = folder / "tag"
        self.tag = tag or (kept.read_text() if kept.exists() else f"lab{os.urandom(3).hex()}")
        self.tmp = f"{folder}/tmp"  # TMPDIR of those who come by ssh: what is left there is this lab's
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = {name: f"10.77.0.{number}" for number, name in enumerate(self.hosts, 1)}

    # ---- set-up

    def up(self, *, stays: bool = False) -> None:
        """`stays`: also when this process ends, in whatever way. Without, the lab ends with it."""
        reason = missing()
        if reason:
            raise RuntimeError(reason)
        if not stays:
            keeper.hold(self.tag, self.folder)
        for name in ("munge", "ssh", "slurm/state", "slurm/spool", "log", "etc", "dev", "dot_ssh", "hosts", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "tag").write_text(self.tag)
        self._write_files()
        if self.slurm:
            self._start_munge()
        run("ip", "netns", "add", f"{self.tag}-switch")
        run("ip", "-n", f"{self.tag}-switch", "link", "add", "br0", "type", "bridge")
        run("ip", "-n", f"{self.tag}-switch", "link", "set", "br0", "up")
        for name in self.hosts:
            self._wire(name)
            self.boot(name)
        if self.slurm:
            self.wait_idle()

    def add_laptop(self) -> None:
        """Start a host without the commands of SLURM."""
        if LAPTOP not in self.hosts:
            self.hosts = (*self.hosts, LAPTOP)
            self.address[LAPTOP] = "10.77.0.99"
            self._write_files()
            self._wire(LAPTOP)
            self.boot(LAPTOP, without=("slurmd",))

    def _write_files(self) -> None:
        folder = self.folder
        hosts = "127.0.0.1 localhost\n::1 localhost\n"
        hosts += "".join(f"{address} {name}\n" for name, address in self.address.items())
        (folder / "etc/hosts").write_text(hosts)
        (folder / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
        if not (folder / "ssh/user").exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "ssh/user"))
        known = ""
        for name in self.hosts:
            key = folder / f"ssh/host_{name}"
            if not key.exists():
                run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
            kind, text = (folder / f"ssh/host_{name}.pub").read_text().split()[:2]
            known += f"{name},{self.address[name]} {kind} {text}\n"
            (folder / f"ssh/sshd_{name}.conf").write_text(SSHD_CONFIG.format(folder=folder, name=name))
            (folder / f"etc/hostname_{name}").write_text(f"{name}\n")
            (folder / f"slurm/spool/{name}").mkdir(exist_ok=True)
        (folder / "ssh/known_hosts").write_text(known)
        # Not the machine's own: pyenv in it makes all logins wait for one lock, for ever where its holder was killed.
        (folder / "bashrc").write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
        (folder / "dot_ssh/config").write_text(SSH_CONFIG.format(folder=folder))
        for number in range(GPUS):
            device = folder / f"dev/gpu{number}"
            if not device.exists():
                # A clone of /dev/null. A step that may not use it must still have /dev/null: other numbers then.
                numbers = (4, 50 + number) if self.cgroups else (1, 3)
                os.mknod(device, 0o666 | 0o020000, os.makedev(*numbers))
        (folder / "etc/gres.conf").write_text(f"Name=gpu File={folder}/dev/gpu[0-{GPUS - 1}]\n")
        conf = SLURM_CONF.format(
            folder=folder,
            spool=SPOOL,
            login=LOGIN,
            login_address=self.address[LOGIN],
            cpus=CPUS,
            gpus=GPUS,
            # Settings of many sites, which take a job longer to begin and to end.
            return_to_service=1 if self.root else 2,
            prolog="PrologFlags=Contain" if self.root else "",
            limits=CGROUP_LIMITS if self.cgroups else NO_LIMITS,
        )
        (folder / "etc/slurm.conf").write_text(conf)
        if self.cgroups:
            (folder / "etc/cgroup.conf").write_text(CGROUP_CONF)
        elif self.root:  # SLURM 22.05 has no such word, and looks for no cgroups
            (folder / "etc/cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def _start_munge(self) -> None:
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        (self.folder / "munge").chmod(0o755)
        argv = ["munged", "--force", f"--key-file={key}", f"--socket={self.folder}/munge/socket"]
        argv += [f"--pid-file={self.folder}/munge/pid", f"--log-file={self.folder}/log/munged.log"]
        run(*argv, f"--seed-file={self.folder}/munge/seed")

    def _wire(self, name: str) -> None:
        space, switch = f"{self.tag}-{name}", f"{self.tag}-switch"
        run("ip", "netns", "add", space)
        run("ip", "-n", switch, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "-n", switch, "link", "set", name, "master", "br0", "up")
        run("ip", "-n", space, "address", "add", f"{self.address[name]}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", space, "link", "set", device, "up")

    def boot(self, name: str, without: Sequence[str] = ()) -> None:
        """Start a host, also one that was killed; `without` names daemons that do not come up."""
        self.mend(name)
        folder = self.folder
        daemons = [["/usr/sbin/sshd", "-D", "-e", "-f", f"{folder}/ssh/sshd_{name}.conf"]]
        if name == LOGIN and self.slurm:
            daemons.append(["slurmctld", "-D", "-f", f"{folder}/etc/slurm.conf"])
        elif self.slurm:
            daemons.append(["slurmd", "-D", "-N", name, "-f", f"{folder}/etc/slurm.conf"])
        daemons = [argv for argv in daemons if argv[0] not in without]
        ready = folder / f"hosts/{name}.ready"
        ready.unlink(missing_ok=True)
        dot_ssh = Path.home() / ".ssh"
        dot_ssh.mkdir(mode=0o700, exist_ok=True)
        start_up = Path.home() / ".bashrc"
        start_up.touch()
        Path("/run/sshd").mkdir(exist_ok=True)
        kept = ["/proc", "/sys", "/dev", "/tmp", str(folder), str(Path.home()), str(Path(__file__).parents[2])]
        (folder / "etc/nothing").touch(mode=0o644)
        commands = [shutil.which(each) for each in ("sbatch", "srun", "scontrol", "scancel", "squeue", "sinfo")]
        hidden = {path: f"{folder}/etc/nothing" for path in commands if path and name == LAPTOP}
        cgroups = self._own_cgroups(name) if self.cgroups else {}
        layer = folder / f"hosts/{name}.etc"
        layer.mkdir(exist_ok=True)
        spec = {
            "name": name,
            "layer": str(layer),
            "cgroups": list(cgroups.values()),
            "root": self.root and str(self.root),
            "kept": [*kept, sys.prefix, sys.base_prefix, tempfile.gettempdir()],
            "binds": {
                **hidden,
                **({SPOOL: f"{folder}/slurm/spool"} if self.slurm else {}),
                **cgroups,
                "/etc/hosts": f"{folder}/etc/hosts",
                "/etc/hostname": f"{folder}/etc/hostname_{name}",
                "/etc/nsswitch.conf": f"{folder}/etc/nsswitch.conf",
                str(dot_ssh): f"{folder}/dot_ssh",
                str(start_up): f"{folder}/bashrc",
            },
            "daemons": daemons,
            "log": f"{folder}/log/{name}.log",
            "ready": str(ready),
        }
        spec_path = self._spec(name)
        spec_path.write_text(json.dumps(spec))
        inner = ["unshare", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]
        program = [sys.executable, str(Path(__file__).with_name("host.py")), str(spec_path)]
        with (folder / f"log/{name}.log").open("ab") as log:
            process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.tag}-{name}", *inner, *program],
                env=self.environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[name] = process
        (folder / f"hosts/{name}.pid").write_text(str(process.pid))
        self._wait(ready.exists, f"host {name} did not start: {folder}/log/{name}.log")

    def _own_cgroups(self, name: str) -> dict[str, str]:
        """Cgroups of one host, by the path where it sees them: two hosts have a job of the same number."""
        binds = {}
        for controller in CONTROLLERS:
            there = Path("/sys/fs/cgroup", controller)
            own = there / f"{self.tag}-{name}"
            own.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems") if controller == "cpuset" else ():
                (own / file).write_text((there / file).read_text())
            binds[str(there)] = str(own)
        return binds

    def environ(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TERM") if key in os.environ}
        kept["PATH"] = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}:/usr/sbin:/sbin"
        # The runs of this lab are not the user's.
        own = {"SLURM_CONF": f"{self.folder}/etc/slurm.conf", "XDG_STATE_HOME": f"{self.folder}/state"}
        own["DDPKIT_BAD_NODES"] = "/dev/null"  # one test takes nodes down, and the next one uses them
        return {**kept, "SHELL": "/bin/bash", **own}

    def _wait(self, event: object, otherwise: str, seconds: float = PATIENCE) -> None:
        assert callable(event)
        until = time.monotonic() + seconds
        while not event():
            if time.monotonic() > until:
                raise RuntimeError(otherwise)
            time.sleep(0.02)

    def wait_idle(self, nodes: Sequence[str] = NODES) -> None:
        """Wait until SLURM would give these nodes to a job. One that it drained or called down is resumed.

        It drains a node where it starts a job again before slurmd has ended the script of the first start. slurmd 22.05
        can die ("free(): invalid pointer") where two steps start at the same time: such a host is booted again. Where a
        host died with a job on it, its slurmd may never say that the job is over: that node is called down first.
        """
        completing: dict[str, float] = {}  # since when

        def idle() -> bool:
            shown = self.run(LOGIN, "sinfo", "-h", "-N", "-o", "%N %T", "-p", "main", check=False).stdout.splitlines()
            states = dict(line.split() for line in shown)
            for name in (name for name in nodes if states.get(name, "").endswith("*")):  # it does not respond
                if self.run(name, "pgrep", "-x", "slurmd", check=False).returncode:
                    self.kill(name)
                    self.boot(name)
            for name in (name for name, state in states.items() if state.startswith("completing")):
                if time.monotonic() - completing.setdefault(name, time.monotonic()) > STUCK:
                    self.run(LOGIN, "scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=stuck", check=False)
                    del completing[name]
            for name in (name for name, state in states.items() if state.startswith(("drain", "down"))):
                self.run(LOGIN, "scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
            return all(states.get(name) == "idle" for name in nodes)

        try:
            self._wait(idle, "SLURM's nodes did not become idle")
        except RuntimeError as error:  # the folder is gone when somebody reads this
            seen = [self.run(LOGIN, *each, check=False).stdout for each in (["sinfo", "-N", "-l"], ["squeue"])]
            logs = (self.folder / f"log/{name}.log" for name in ("slurmctld", *(f"slurmd-{node}" for node in nodes)))
            seen += ["\n".join([f"{log.name}:", *log.read_text().splitlines()[-40:]]) for log in logs if log.exists()]
            raise RuntimeError("\n".join([str(error), *seen])) from None

    # ---- use

    def _spec(self, name: str) -> Path:
        return self.folder / f"hosts/{name}.json"

    def init_pid(self, name: str) -> int:
        """The host's process 1, as the machine outside counts. nsenter became unshare, whose only child it is."""
        outer = int((self.folder / f"hosts/{name}.pid").read_text())
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])

    def argv(self, name: str, argv: Sequence[str], cwd: str | Path = "/") -> list[str]:
        """The command line that runs `argv` on a host."""
        enter = ["nsenter", "--target", str(self.init_pid(name)), "--net", "--uts", "--mount", "--pid"]
        return [*enter, f"--wdns={cwd}", "--", *argv]

    def run(
        self,
        name: str,
        *argv: str,
        cwd: str | Path = "/",
        env: dict[str, str] | None = None,
        check: bool = True,
        timeout: float = 120.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host to its end."""
        done = subprocess.run(
            self.argv(name, argv, cwd),
            env={**self.environ(), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{name}: {' '.join(argv)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def cut(self, name: str) -> None:
        """Pull the host's network cable."""
        run("ip", "-n", f"{self.tag}-switch", "link", "set", name, "down")

    def mend(self, name: str) -> None:
        """Put the cable back. Who asked for a host in vain meanwhile would remember that for a while."""
        switch = f"{self.tag}-switch"
        if re.search(r"<[^>]*\bUP\b", run("ip", "-n", switch, "-o", "link", "show", name)):
            return
        run("ip", "-n", switch, "link", "set", name, "up")
        for other in self.hosts:
            if Path(f"/run/netns/{self.tag}-{other}").exists():
                run("ip", "-n", f"{self.tag}-{other}", "neighbour", "flush", "dev", "eth0")

    def kill(self, name: str) -> None:
        """The host dies: its cable is dead, and no process of it gets to do anything any more."""
        self.cut(name)
        self.halt(name)

    def halt(self, name: str) -> None:
        """Every process of the host is killed. Its kernel lives until then, and closes their connections."""
        self._end([str(self._spec(name))], f"host {name} does not die")

    def _end(self, arguments: Sequence[str], otherwise: str) -> None:
        """Kill what was started with one of these arguments, paths of this lab. A number may be another's by now."""

        def ended() -> bool:
            left = started_with(arguments)
            keeper.kill(left)
            return not left

        self._wait(ended, otherwise)
        for name in [name for name in self._processes if str(self._spec(name)) in arguments]:
            self._processes.pop(name).wait(PATIENCE)

    def processes(self, name: str) -> dict[int, str]:
        """What runs on a host: process id there, command line.

        A process has the line of the one that started it until it runs its own program: of two, the lower id is meant.
        """
        shown = self.run(name, "ps", "-e", "-o", "pid=,args=").stdout.splitlines()
        return {int(line.split(None, 1)[0]): line.split(None, 1)[1] for line in shown}

    def down(self) -> None:
        """End every process and take away every namespace of this lab. Works on a lab that is half up."""
        hosts = [str(self._spec(name)) for name in (*self.hosts, LAPTOP)]
        self._end([*hosts, f"--socket={self.folder}/munge/socket"], f"the lab in {self.folder} does not end")
        for space in Path("/run/netns").glob(f"{self.tag}-*"):
            run("ip", "netns", "delete", space.name)
        for left in Path("/sys/fs/cgroup").glob(f"*/{self.tag}-*"):
            for folder, _, _ in os.walk(left, topdown=False):
                Path(folder).rmdir()
        keeper.release(self.tag)


def main() -> None:
    action, *rest = sys.argv[1:] or ["help"]
    if action == "install":
        install()
    elif action == "up" and rest:
        lab = Lab(Path(rest[0]).absolute())
        try:
            lab.up(stays=True)
        except BaseException:
            lab.down()
            raise
        me = f"{sys.executable} {__file__}"
        print(f"hosts: {', '.join(HOSTS)}\nenter: {me} enter {rest[0]} login\nend:   {me} down {rest[0]}")
    elif action == "enter" and len(rest) >= 2:
        lab = Lab(Path(rest[0]).absolute())
        command = rest[2:] or ["bash"]
        os.execvpe("nsenter", lab.argv(rest[1], command, Path.cwd()), lab.environ())
    elif action == "down" and rest:
        Lab(Path(rest[0]).absolute()).down()
    else:
        sys.exit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
