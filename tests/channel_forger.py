"""A script that writes events and commands into every pipe of the processes above it, and then ends with 7."""

from __future__ import annotations

# argv: how many processes above it, and how it ends: `exits` or `runs`. Sockets cannot be opened once more.
FORGER = r"""
import os, sys, time
rank = int(os.environ["RANK"])
lines = [
    '{"e":"exit","rank":%d,"code":0,"signal":null,"t":%f}' % (rank, time.time()),
    '{"e":"end","t":%f}' % time.time(),
    '{"c":"stop","grace":0}',
    "ddpkit: ssh ended",
    "node1: ended 0",
    'x\rnode1: {"e":"failed","rank":0,"code":9,"what":"rank","t":1.0}',
    'x\u2028node1: {"e":"failed","rank":0,"code":9,"what":"rank","t":1.0}',
    "\0" * 100,
    "node1: \0",
]
pid, wrote = os.getppid(), 0
for _ in range(int(sys.argv[1])):
    if pid <= 1:
        break
    try:
        with open("/proc/%d/cmdline" % pid) as file:
            torchrun = "torch.distributed" in file.read()  # its own pipes are none of ours, and it would crash
        names = [] if torchrun else os.listdir("/proc/%d/fd" % pid)
    except OSError:
        names = []
    for name in names:
        path = "/proc/%d/fd/%s" % (pid, name)
        try:
            if not os.readlink(path).startswith("pipe:"):
                continue
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            os.write(fd, ("\n" + "\n".join(lines) + "\n").encode())
            wrote += 1
        except OSError:
            pass
    with open("/proc/%d/stat" % pid) as file:
        pid = int(file.read().rpartition(")")[2].split()[1])
print("wrote into", wrote, "pipes", flush=True)
time.sleep(1)
sys.exit(7)
"""
