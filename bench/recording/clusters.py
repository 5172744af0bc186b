"""Faults of SLURM, SSH, pdsh, Open MPI and containers."""

from __future__ import annotations

import shlex

from cluster import NODES

from recording.machine import trained
from recording.scene import Scene, case, wait_until
from recording.training import FAULTS, Fault

OK = Fault(provoked="", cause="healthy").text()


def shell(name: str, command: str, provoked: str, cause: str, on: str = "login", **label: str) -> None:
    """Add a case that is one command of a shell."""
    case(name, provoked, cause, **label)(lambda scene: scene.run(command, on, 40))


# ---- SLURM refuses a request

for _name, _command, _provoked in (
    ("partition", "srun -p gpuq -N2 python train.py", "the partition does not exist"),
    ("gres", "srun --gres=gpu:h100:8 python train.py", "no node has this kind of GPU"),
    ("gres-name", "srun --gres=fpga:1 python train.py", "no node has this resource"),
    ("too-many-nodes", "srun -N 9 python train.py", "the partition has 4 nodes, and 9 are requested"),
    (
        "too-many-tasks",
        "srun -N 2 --ntasks-per-node 64 python train.py",
        "a node has 8 CPUs, and 64 tasks are requested",
    ),
    ("node-name", "srun -w node9 python train.py", "the requested node does not exist"),
    ("feature", "srun --constraint=a100 python train.py", "no node has the feature"),
    ("time", "srun --time=tomorrow python train.py", "the time limit is no time"),
    ("option", "srun --gpu-per-node=4 python train.py", "an option of srun is misspelled"),
    ("memory", "srun --mem=900T python train.py", "no node has so much memory"),
    ("empty-partition", "srun -p empty python train.py", "the partition has no nodes"),
    ("shell", "printf 'python train.py\\n' > job.sh; sbatch job.sh", "the batch script has no #! line"),
    ("no-file", "sbatch jobs/train.sbatch", "the batch script does not exist"),
    ("salloc", "salloc -N 9 -p main true", "salloc requests 9 of 4 nodes"),
):
    _cause = "slurm-option-unknown" if _name == "option" else "slurm-bad-request"
    shell(f"slurm-request/{_name}", _command, _provoked, _cause, partly="step-refused", action="stop")


# ---- SLURM: steps and tasks


@case(
    "slurm/program-missing", "srun starts a program that does not exist", "command-not-found", partly="script-missing"
)
def _(scene: Scene) -> str:
    return scene.run("srun -N2 -n2 trainer --epochs 3", "login")


@case("slurm/no-workdir", "the working directory exists on no node", "slurm-no-workdir", partly="script-missing")
def _(scene: Scene) -> str:
    return scene.run("srun -N1 --chdir=/home/user/gone python train.py", "login")


@case("slurm/step-too-wide", "a step requests more tasks than its allocation has", "step-refused", action="stop")
def _(scene: Scene) -> str:
    return scene.run("salloc -N1 -n1 srun -n 40 --exact python train.py", "login")


@case(
    "slurm/step-gres",
    "a step requests GPUs that its allocation does not have",
    "step-refused or slurm-bad-request or slurm-nested-job",
)
def _(scene: Scene) -> str:
    return scene.run("salloc -N1 -n1 srun --gres=gpu:2 python train.py", "login")


@case(
    "slurm/step-waits",
    "a step waits for an earlier step of the allocation, and is cancelled",
    "step-refused",
    partly="slurm-cancelled or interrupted",
)
def _(scene: Scene) -> str:
    inner = "srun -n1 --exact -c8 sleep 8 & sleep 1; timeout -s INT 4 srun -n1 -c8 --exact hostname; wait"
    return scene.run(f"salloc -N1 -n1 -c8 bash -c {shlex.quote(inner)}", "login")


@case("slurm/time-limit", "the job reaches its time limit of one minute", "slurm-time-limit", action="stop")
def _(scene: Scene) -> str:
    return scene.run(
        "srun --time=1 -N2 -n2 bash -c 'for i in $(seq 200); do echo step $i; sleep 5; done'", "login", 170
    )


@case("slurm/time-limit-batch", "the batch job reaches its time limit of one minute", "slurm-time-limit", action="stop")
def _(scene: Scene) -> str:
    script = "#!/bin/bash\n#SBATCH --time=1 -N1 -n2 -o job.out\nsrun bash -c 'for i in $(seq 99); do echo step $i; sleep 6; done'\n"
    scene.write("job.sh", script)
    scene.run("sbatch --wait job.sh", "login", 170)
    return (scene.folder / "job.out").read_text()


def running_job(scene: Scene, name: str) -> str:
    """Wait until the job of a name runs, and return its id."""

    def jobs() -> list[str]:
        return scene.lab.run("login", "squeue", "-h", "-t", "R", "-n", name, "-o", "%A", check=False).stdout.split()

    wait_until(jobs)
    return jobs()[0]


@case("slurm/cancelled", "a user cancels the job with scancel", "slurm-cancelled", action="stop")
def _(scene: Scene) -> str:
    started = scene.start("srun -J training -N2 -n2 bash -c 'echo step 1; sleep 60'", "login")
    started.wait_for("step 1")
    scene.lab.run("login", "scancel", running_job(scene, "training"))
    return started.finish()


@case("slurm/cancelled-batch", "a user cancels the batch job with scancel", "slurm-cancelled", action="stop")
def _(scene: Scene) -> str:
    scene.write("job.sh", "#!/bin/bash\n#SBATCH -J batch -N1 -o job.out\necho start\nsrun sleep 60\n")
    scene.run("sbatch job.sh", "login")
    job = running_job(scene, "batch")
    wait_until((scene.folder / "job.out").exists)
    scene.run(f"sleep 1; scancel {job}; while squeue -h | grep -q {job}; do sleep 0.2; done", "login")
    return (scene.folder / "job.out").read_text()


@case("slurm/requeued", "an administrator requeues the batch job", "slurm-requeued", action="retry")
def _(scene: Scene) -> str:
    scene.write("job.sh", "#!/bin/bash\n#SBATCH -J again -N1 -o job.out --requeue\necho start\nsleep 60\n")
    scene.run("sbatch job.sh", "login")
    job = running_job(scene, "again")
    scene.run(f"sleep 1; scontrol requeue {job}; sleep 3; scancel {job}; sleep 1", "login")
    return (scene.folder / "job.out").read_text()


@case("slurm/preempted", "a job of a higher partition takes the nodes", "slurm-preempted", action="retry")
def _(scene: Scene) -> str:
    started = scene.start("srun -p low -J low -N4 -n4 --exclusive bash -c 'echo step 1; sleep 60'", "login")
    started.wait_for("step 1")
    scene.run("srun -p high -N4 -n4 --exclusive true", "login")
    return started.finish()


@case(
    "slurm/node-failure",
    "node4 dies in the middle of a step",
    "slurm-node-failure",
    host="node4",
    action="exclude node4",
)
def _(scene: Scene) -> str:
    started = scene.start("srun -w node3,node4 -N2 -n2 bash -c 'echo step 1; sleep 100'", "login", 110)
    started.wait_for("step 1")
    scene.undo.append(lambda: scene.lab.wait_idle(NODES))
    scene.undo.append(lambda: scene.lab.boot("node4"))
    scene.lab.kill("node4")
    return started.finish()


@case(
    "slurm/node-down-at-start",
    "slurmd of node4 is dead when the step starts",
    "task-launch-failed or slurm-node-failure",
    partly="slurm-unreachable",
    host="node4",
    action="exclude node4",
)
def _(scene: Scene) -> str:
    scene.kill("node4", "slurmd")
    scene.undo.append(lambda: scene.lab.wait_idle(NODES))
    scene.undo.append(lambda: scene.lab.boot("node4"))
    scene.undo.append(lambda: scene.lab.kill("node4"))
    return scene.run("srun -w node3,node4 -N2 -n2 hostname", "login", 60)


@case(
    "slurm/drained",
    "the requested node is drained; the user gives up",
    "slurm-node-unavailable",
    action="stop",
)
def _(scene: Scene) -> str:
    with scene.without(
        "scontrol update nodename=node4 state=drain reason=ecc", "scontrol update nodename=node4 state=resume", "login"
    ):
        return scene.run("timeout -s INT 4 srun -w node4 hostname", "login")


@case("slurm/controller-port", "slurmctld does not answer", "slurm-unreachable", action="retry")
def _(scene: Scene) -> str:
    conf = f"{scene.lab.folder}/etc/slurm.conf"
    return scene.run(
        f"sed 's/^SlurmctldHost=.*/SlurmctldHost=login(10.77.0.1)\\nMessageTimeout=5/' {conf} > slurm.conf; "
        "SLURM_CONF=$PWD/slurm.conf timeout 60 srun hostname",
        "login",
        80,
    )


@case("slurm/munge", "munged does not run", "munge", partly="slurm-unreachable")
def _(scene: Scene) -> str:
    conf = f"{scene.lab.folder}/etc/slurm.conf"
    return scene.run(
        f"sed 's/socket=[^,]*/socket=.munge.socket.2/' {conf} > slurm.conf; SLURM_CONF=$PWD/slurm.conf srun hostname",
        "login",
    )


shell("slurm/no-job", "srun --jobid=99999 hostname", "the allocation has ended", "slurm-no-job", action="stop")
shell(
    "slurm/no-srun",
    "PATH=/bin; /bin/bash -c 'unset PATH; PATH=/nonexistent; srun hostname'",
    "srun is not on PATH",
    "slurm-commands-missing or command-not-found",
)
shell(
    "slurm/mpi-type",
    "srun --mpi=pmi9 hostname",
    "the MPI plugin does not exist",
    "slurm-kill-on-mpi or slurm-bad-request",
)


@case("slurm/bad-exit", "task 1 ends with 3, and --kill-on-bad-exit ends the others", "not-in-log", action="retry")
def _(scene: Scene) -> str:
    return scene.run("srun -K1 -N2 -n2 bash -c '[ $SLURM_PROCID = 0 ] && sleep 30; exit 3'", "login")


@case("slurm/script-torchrun-missing", "the batch script calls torchrun without its environment", "command-not-found")
def _(scene: Scene) -> str:
    scene.write("job.sh", "#!/bin/bash\n#SBATCH -N1 -o job.out\nexport PATH=/usr/bin:/bin\ntorchrun train.py\n")
    scene.run("sbatch --wait job.sh", "login")
    return (scene.folder / "job.out").read_text()


@case("slurm/user-signal", "SLURM sends USR1 to a step that has no handler", "user-signal", action="retry")
def _(scene: Scene) -> str:
    started = scene.start("srun -J usr1 -N1 -n1 bash -c 'echo step 1; sleep 30'", "login")
    started.wait_for("step 1")
    scene.lab.run("login", "scancel", "--signal=USR1", f"{running_job(scene, 'usr1')}.0")
    return started.finish()


@case(
    "slurm/emitted-oom", "the kernel's OOM killer ends the task of a step", "killed or host-out-of-memory", host="node1"
)
def _(scene: Scene) -> str:
    group = "/sys/fs/cgroup/memory/ddpkit-step"
    scene.write("eat.py", "kept = [bytearray(10_000_000) for _ in range(400)]\n")
    with scene.without(f"mkdir -p {group}; echo 300M > {group}/memory.limit_in_bytes", f"sleep 1; rmdir {group}"):
        return scene.run(f"srun -w node1 -N1 -n1 bash -c 'echo $$ > {group}/tasks; exec python eat.py'", "login")


@case(
    "slurm/ddpkit-partition", "ddpkit launch with a partition that does not exist", "slurm-bad-request", action="stop"
)
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run("ddpkit launch -b slurm -N 2 -n 1 -o partition=gpuq -- train.py", "login")


@case("slurm/ddpkit-cancelled", "scancel ends a job of ddpkit", "slurm-cancelled", action="stop")
def _(scene: Scene) -> str:
    trained(scene, fault="    time.sleep(1 if step < 2 else 40)")
    started = scene.start("ddpkit launch -b slurm -N 2 -n 1 -- train.py", "login")
    started.wait_for("step 1")
    scene.run("scancel -u root", "login")
    return started.finish()


@case(
    "slurm/ddpkit-node-lost",
    "node4 dies in the middle of a job of ddpkit",
    "slurm-node-failure or slurm-cancelled",
    action="exclude node4",
)
def _(scene: Scene) -> str:
    trained(scene, fault="    time.sleep(1 if step < 2 else 90)")
    started = scene.start("ddpkit launch -b slurm -N 2 -n 1 -o nodelist=node3,node4 -- train.py", "login", 110)
    started.wait_for("step 1")
    scene.undo.append(lambda: scene.lab.wait_idle(NODES))
    scene.undo.append(lambda: scene.lab.boot("node4"))
    scene.lab.kill("node4")
    return started.finish()


# ---- SSH

KEY = "ssh-keygen -q -t ed25519 -N '' -f other"
for _name, _command, _provoked, _cause, _host in (
    ("refused", "ssh -p 2222 node2 hostname", "no sshd listens on the port", "ssh-unreachable", "node2"),
    ("name", "ssh gpu-node-07 hostname", "the host name does not resolve", "ssh-unreachable", "gpu-node-07"),
    (
        "unknown-key",
        "ssh -o UserKnownHostsFile=/dev/null node2 hostname",
        "the host key is not known",
        "ssh-host-key",
        "",
    ),
    (
        "changed-key",
        f"{KEY}; (printf 'node2 '; cat other.pub) > known; ssh -o UserKnownHostsFile=$PWD/known node2 hostname",
        "the host key has changed",
        "ssh-host-key",
        "node2",
    ),
    (
        "no-key",
        f"{KEY}; ssh -F none -i other -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no node2 hostname",
        "the host does not know the user's key",
        "ssh-no-key",
        "node2",
    ),
    (
        "open-key",
        f"{KEY}; chmod 644 other; ssh -F none -i other -o BatchMode=yes -o StrictHostKeyChecking=no node2 hostname",
        "the private key can be read by all users",
        "ssh-files or ssh-no-key",
        "",
    ),
    (
        "algorithm",
        "ssh -o KexAlgorithms=diffie-hellman-group1-sha1 node2 hostname",
        "client and server share no key exchange method",
        "ssh-no-common-algorithm",
        "",
    ),
    ("jump", "ssh -J node9 node2 hostname", "the jump host does not resolve", "ssh-jump or ssh-unreachable", ""),
    (
        "command",
        "ssh node2 PATH=/bin torchrun train.py",
        "the remote shell does not find torchrun",
        "command-not-found",
        "",
    ),
    ("option", "ssh -o Foo=bar node2 hostname", "an option of ssh does not exist", "ssh-files or bad-arguments", ""),
    ("scp", "touch a; scp a gpu-node-07:", "the target of scp does not resolve", "ssh-unreachable", "gpu-node-07"),
    ("rsync", "touch a; rsync a node2:/nowhere/x/", "the target directory of rsync does not exist", "file-missing", ""),
    (
        "no-terminal",
        "ssh -t node2 'echo $TERM; exit 3'",
        "the remote command ends with 3 and no text",
        "not-in-log",
        "",
    ),
):
    shell(f"ssh/{_name}", _command, _provoked, _cause, **({"host": _host} if _host else {}))


@case("ssh/timeout", "a firewall drops packets to sshd", "ssh-unreachable", host="node2", action="exclude node2")
def _(scene: Scene) -> str:
    with scene.without(
        "nft add table inet rec; nft add chain inet rec in '{ type filter hook input priority 0; }'; "
        "nft add rule inet rec in tcp dport 22 drop",
        "nft delete table inet rec",
        "node2",
    ):
        return scene.run("ssh -o ConnectTimeout=3 node2 hostname", "login")


@case("ssh/no-route", "the cable of the host is unplugged", "ssh-unreachable", host="node3", action="exclude node3")
def _(scene: Scene) -> str:
    scene.lab.cut("node3")
    scene.undo.append(lambda: scene.lab.mend("node3"))
    return scene.run("ssh node3 hostname", "login")


def second_sshd(scene: Scene, options: str, command: str) -> str:
    """Run a command while node2 has a second sshd with other options on port 2200."""
    conf = f"{scene.lab.folder}/ssh/sshd_node2.conf"
    scene.run(f"sed 's/^Port 22/Port 2200/' {conf} > sshd.conf; /usr/sbin/sshd -f $PWD/sshd.conf {options}", "node2")
    scene.undo.append(lambda: scene.kill("node2", "/sshd.conf"))
    return scene.run(command, "login", 40)


SSH2200 = "ssh -p 2200 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


@case("ssh/max-startups", "sshd refuses more than one login at a time", "ssh-max-startups", action="retry")
def _(scene: Scene) -> str:
    hold = "for i in 1 2 3 4; do (exec 3<>/dev/tcp/node2/2200; sleep 9) & done; sleep 1;"
    return second_sshd(scene, "-o MaxStartups=1", f"{hold} {SSH2200} node2 hostname")


@case("ssh/max-sessions", "sshd allows one session on a connection", "ssh-max-sessions")
def _(scene: Scene) -> str:
    master = f"{SSH2200} -M -S $PWD/mux -o ControlPersist=20 -N -f node2"
    return second_sshd(
        scene,
        "-o MaxSessions=1",
        f"{master}; ssh -S $PWD/mux node2 sleep 6 & sleep 1; ssh -S $PWD/mux node2 hostname; wait",
    )


@case("ssh/forwarding", "sshd does not allow forwarding to a jump's target", "ssh-jump")
def _(scene: Scene) -> str:
    return second_sshd(
        scene,
        "-o AllowTcpForwarding=no",
        f"{SSH2200} -W node3:22 node2 < /dev/null; ssh -o ProxyCommand='{SSH2200} -W %h:%p node2' node3 hostname",
    )


@case("ssh/login-shell", "the account has no login shell", "any", says="not available")
def _(scene: Scene) -> str:
    return second_sshd(scene, "-o ForceCommand=/usr/sbin/nologin", f"{SSH2200} node2 hostname")


@case(
    "ssh/connection-lost",
    "the server's process of the connection is killed",
    "ssh-lost",
    action="retry or exclude node2",
)
def _(scene: Scene) -> str:
    started = scene.start("ssh node2 'echo step 1; sleep 30'", "login")
    started.wait_for("step 1")
    scene.kill("node2", "sshd: root@notty")
    return started.finish()


@case(
    "ssh/host-lost",
    "the host dies, and ssh notices it by its keepalives",
    "ssh-lost",
    host="node3",
    action="exclude node3",
)
def _(scene: Scene) -> str:
    started = scene.start(
        "ssh -o ServerAliveInterval=1 -o ServerAliveCountMax=2 node3 'echo step 1; sleep 60'", "login"
    )
    started.wait_for("step 1")
    scene.lab.cut("node3")
    scene.undo.append(lambda: scene.lab.mend("node3"))
    return started.finish()


@case("ssh/ddpkit-name", "ddpkit launch on a host that does not resolve", "ssh-unreachable", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run("ddpkit launch -b ssh node1 gpu-node-07 -n 1 -- train.py", "login")


@case("ssh/ddpkit-no-sshd", "ddpkit launch on a host whose cable is unplugged", "ssh-unreachable", host="node3")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    scene.lab.cut("node3")
    scene.undo.append(lambda: scene.lab.mend("node3"))
    return scene.run("ddpkit launch -b ssh node1 node3 -n 1 -- train.py", "login")


@case(
    "ssh/ddpkit-node-lost",
    "node3 loses its network in the middle of a run of ddpkit",
    "ssh-lost or node-lost or peer-died or not-in-log",
    action="exclude node3",
)
def _(scene: Scene) -> str:
    trained(scene, fault="    time.sleep(1 if step < 2 else 90)")
    started = scene.start("ddpkit launch -b ssh node1 node3 -n 1 -o heartbeat_timeout=6 -- train.py", "login")
    started.wait_for("step 1")
    scene.lab.cut("node3")
    scene.undo.append(lambda: scene.lab.mend("node3"))
    return started.finish()


# ---- pdsh

for _name, _command, _provoked, _cause, _host in (
    ("rsh", "pdsh -R rsh -w node1,node2 hostname", "pdsh uses rsh, and no rshd runs", "pdsh-rsh", ""),
    ("name", "pdsh -R ssh -w node1,gpu-node-07 hostname", "a host does not resolve", "ssh-unreachable", "gpu-node-07"),
    ("host-list", "pdsh -R ssh -w node1 node2 hostname", "the host list has a space", "pdsh-host-list or command-not-found", ""),
    ("module", "pdsh -R krb4 -w node1 hostname", "the rcmd module does not exist", "pdsh-rsh", ""),
    (
        "unknown-key",
        "PDSH_SSH_ARGS_APPEND='-o UserKnownHostsFile=/dev/null' pdsh -R ssh -w node1,node2 hostname",
        "the host keys are not known",
        "ssh-host-key",
        "",
    ),
    (
        "no-key",
        f"{KEY}; PDSH_SSH_ARGS_APPEND=\"-F none -i $PWD/other -o IdentitiesOnly=yes -o BatchMode=yes "
        "-o StrictHostKeyChecking=no\" pdsh -R ssh -w node2 hostname",
        "the host does not know the user's key",
        "ssh-no-key",
        "node2",
    ),
    ("command", "pdsh -R ssh -w node1,node2 'PATH=/bin; torchrun train.py'", "the remote shells do not find torchrun", "command-not-found", ""),
    ("directory", "pdsh -R ssh -w node2 'cd /home/user/gone && python train.py'", "the directory does not exist on node2", "file-missing", "node2"),
    ("exit-code", "pdsh -R ssh -w node1,node2 '[ $(hostname) = node1 ] || exit 3'", "the command ends with 3 on node2", "not-in-log", ""),
):  # fmt: skip
    shell(f"pdsh/{_name}", _command, _provoked, _cause, **({"host": _host} if _host else {}))


@case("pdsh/one-host-no-torch", "the Python of node2 has no torch", "module-missing", host="node2", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    python = "$([ $(hostname) = node2 ] && echo /usr/bin/python3 || echo true)"
    return scene.run(f"pdsh -R ssh -w node1,node2 'cd {scene.folder}; {python} train.py'", "login")


@case("pdsh/ddpkit", "ddpkit launch -b pdsh on a host that does not resolve", "ssh-unreachable", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run("ddpkit launch -b pdsh node1 gpu-node-07 -n 1 -- train.py", "login")


# ---- Open MPI

MPI = "mpirun --allow-run-as-root"
for _name, _command, _provoked, _cause in (
    ("slots", f"{MPI} -n 64 python train.py", "more processes than slots", "mpi-slots"),
    ("program", f"{MPI} -n 2 --oversubscribe trainer", "the program does not exist", "command-not-found"),
    ("root", "mpirun -n 2 hostname", "mpirun runs as root, which it refuses", "any"),
    ("daemon", f"{MPI} -H node2,gpu-node-07 -n 2 hostname", "a host does not resolve", "mpi-daemon or ssh-unreachable"),
    (
        "orted",
        f"{MPI} --prefix /opt/openmpi-5 -H node2 -n 1 hostname",
        "orted is not installed on node2 at the given prefix",
        "mpi-daemon-missing",
    ),
    ("abort", f"{MPI} -n 2 --oversubscribe bash -c 'kill -ABRT $$'", "the processes abort", "aborted or mpi-abort"),
):
    _says = {"says": "root"} if _cause == "any" else {}
    shell(f"mpirun/{_name}", _command, _provoked, _cause, on="node1", **_says)


# ---- containers

for _name, _command, _provoked, _cause in (
    ("docker-daemon", "docker run --rm pytorch/pytorch:latest nvidia-smi", "no Docker daemon runs", "docker-daemon"),
    ("docker-compose-daemon", "docker ps", "no Docker daemon runs", "docker-daemon"),
    ("podman-pull", "podman run --rm docker.io/pytorch/pytorch:2.9 python train.py", "the registry cannot be reached", "image-not-found or hub-unreachable"),
    ("podman-short-name", "podman run --rm my-training-image python train.py", "no registry has the image", "image-not-found"),
    ("podman-mount", "podman run --rm -v /data/imagenet:/data --rootfs /none python", "the directory to mount does not exist", "container-start-failed or file-missing or container-mount-missing"),
    ("podman-cdi", "podman run --rm --device nvidia.com/gpu=all --rootfs /usr hostname", "the machine has no GPU devices for containers", "cdi-specification or docker-no-gpu or container-start-failed"),
):  # fmt: skip
    shell(f"containers/{_name}", _command, _provoked, _cause, on="node1")


def image(scene: Scene) -> str:
    """Return a command that makes a root file system for podman, with bash alone."""
    return (
        "mkdir -p root/bin root/lib root/lib64 root/proc root/sys root/dev root/tmp; "
        "cp /bin/bash /bin/ls root/bin/; for l in $(ldd /bin/bash /bin/ls | grep -o '/lib[^ ]*' | sort -u); do "
        "mkdir -p root/$(dirname $l); cp $l root/$l; done; "
    )


def podman(name: str, command: str, provoked: str, cause: str) -> None:
    run = "podman run --rm --network host --cgroups disabled"
    case(f"containers/{name}", provoked, cause)(lambda scene: scene.run(image(scene) + f"{run} {command}", "node1", 40))


podman(
    "podman-workdir",
    "-w /home/user/gone --rootfs root /bin/ls",
    "the working directory is not in the image",
    "container-start-failed",
)
podman(
    "podman-cgroups",
    "--rootfs root /bin/ls",
    "podman's runtime does not support the cgroups of this host",
    "container-start-failed",
)


def enroot(scene: Scene, runtime: str, container: str) -> str:
    """Launch over SSH in a container; tests/standins has the programs of the runtimes."""
    from recording.scene import ROOT

    scene.write("train.py", OK)
    start_up = scene.lab.folder / "bashrc"
    before = start_up.read_text()
    scene.undo.append(lambda: start_up.write_text(before))
    start_up.write_text(
        f'export PATH="{ROOT}/tests/standins:$PATH" STANDIN_IMAGES="{scene.folder}/images" '
        f'ENROOT_DATA_PATH="{scene.folder}/enroot"\n{before}'
    )
    command = (
        f"ddpkit launch -b ssh node1 node2 -n 1 -o container={container} -o container_runtime={runtime} -- train.py"
    )
    return scene.run(command, "login")


@case(
    "containers/enroot-image",
    "the image file of enroot does not exist",
    "image-not-found or container-start-failed or file-missing",
)
def _(scene: Scene) -> str:
    return enroot(scene, "enroot", "/images/pytorch.sqsh")


@case(
    "containers/apptainer-image",
    "the image file of apptainer does not exist",
    "image-not-found or container-start-failed or file-missing",
)
def _(scene: Scene) -> str:
    return enroot(scene, "apptainer", "/images/pytorch.sif")


@case("containers/podman-image", "the image of podman does not exist", "image-not-found or container-start-failed")
def _(scene: Scene) -> str:
    return enroot(scene, "podman", "pytorch")


@case(
    "containers/enroot-missing", "enroot is not installed on the nodes", "command-not-found or container-start-failed"
)
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run(
        "ddpkit launch -b ssh node1 node2 -n 1 -o container=/images/a.sqsh -o container_runtime=enroot -- train.py",
        "login",
    )


@case(
    "slurm/rank-fails-in-job",
    "rank 1 of a batch job of torchrun raises KeyError",
    "own-exception",
    says="KeyError: 'mask'",
    rank="1",
)
def _(scene: Scene) -> str:
    scene.write("train.py", FAULTS["key-error"].text())
    scene.write(
        "job.sh",
        """
        #!/bin/bash
        #SBATCH -N2 --ntasks-per-node=1 -o job.out
        srun torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint node1:29540 train.py
        """,
    )
    scene.run("sbatch --wait -w node1,node2 job.sh", "login")
    return (scene.folder / "job.out").read_text()
