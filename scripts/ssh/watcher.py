# Python 3.6 or later. It runs on a node, above all processes of a launch, and ends them when its standard input closes.
import base64, ctypes, os, select, signal, subprocess, sys, time

limit, grace, *words = base64.b64decode(sys.argv[2]).decode("utf-8", "surrogateescape").split("\0")[:-1]
until, ending = time.monotonic() + float(limit), []
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: ending.append(number))
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what loses its parent below becomes a child of this
told, tell = os.pipe()
env = dict(os.environ, TELL="/proc/%d/fd/%d" % (os.getpid(), tell), NODE_RANK=sys.argv[3], NODE=sys.argv[4])
main = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)


def listen(seconds):
    ready = select.select([0, told], [], [], seconds)[0]
    if 0 in ready and not os.read(0, 4096):
        ending.append("the lifeline")
    if told in ready:
        try:
            os.write(2, os.read(told, 4096))
        except OSError:  # nobody listens
            ending.append("the connection")


def descendants():
    parents, found, more = {}, set(), {os.getpid()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, "rb") as file:
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
            parents[int(pid)] = 0 if state in (b"Z", b"X") else int(parent)
        except OSError:
            pass
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
    return found - {os.getpid()}


while main.poll() is None and not ending and time.monotonic() < until:
    listen(0.1)
code, until, asked = main.poll(), time.monotonic() + float(grace), set()
while True:
    left = descendants()
    rest = left - {main.pid}  # torchrun comes last, and is not told: its page of farewell would hide what ranks said
    late = not rest or time.monotonic() > until
    for pid in left if late else rest - asked:
        try:
            os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
        except OSError:
            pass
    if not left:
        break
    asked |= rest
    main.poll()
    time.sleep(0.05)
listen(0)
os._exit(143 if code is None else 128 - code if code < 0 else code)
