"""Facts of the machine that it runs on, and its connections: which ports others reach here, which it reaches there.

Sent to a node's supervisor, whose launcher calls these functions; torch is not imported. This machine's own survey
(`ddpkit/transports/this_machine.py`) calls the same ones.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter

from ddpkit.node.calls.gpus import (
    VISIBLE,
    VISIBLE_ELSEWHERE,
    has_mig,
    list_gpus,
    read_topology,
    visible_entries,
)
from ddpkit.node.child import HELD, NOT_FROM_HERE, merged, with_safe_path
from ddpkit.node.env_names import env_matcher, nccl_conf
from ddpkit.node.kernel import cpu_quota, read_text
from ddpkit.node.owned import check_above, temporary_directory, try_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_is_stale = env_matcher("stale")
SIOCGIFADDR = 0x8915
TMP_NEEDS = 1 << 19  # bytes: the supervisor's files, and those of a rank's own workers
ONE_INSTANCE = "MIG is on, and a process sees one instance: one rank"
LOOK_LIMIT = 10.0  # seconds for the node's Python to say which torch it would import
# Where the job's Python would import torch from, which version, and whether pip refuses to install there (PEP 668) or
# cannot write to a virtual environment. To import it, or only json or re, takes longer.
# A torch.py of the working directory is none that every script would get: see `node/child.py`.
_TORCH = r"""
import os, sys
place = version = problem = sealed = ""
try:
    if sys.prefix == sys.base_prefix:
        sealed = "1" * os.path.exists(os.path.dirname(os.__file__) + "/EXTERNALLY-MANAGED")
    else:
        own = [each for each in sys.path if each.startswith(sys.prefix) and each.endswith("site-packages")]
        sealed = "1" * (own != [] and not any(os.access(each, os.W_OK) for each in own))
    spec = next(filter(None, (finder.find_spec("torch", None) for finder in sys.meta_path)), None)
    if spec is not None:
        place = list(spec.submodule_search_locations)[0]
        for line in open(place + "/version.py", encoding="utf-8"):
            if line.startswith("__version__ = "):
                version = line.split("=", 1)[1].strip(" \n'\"")
except Exception as error:
    place, version, problem = "", "", str(error) or type(error).__name__
sys.stdout.buffer.write(b"\x1e" + b"\0".join(os.fsencode(word) for word in (place, version, problem, sealed)))
"""


def stale(environ: Mapping[str, str]) -> list[str]:
    """The variables that must not reach a rank: another launcher's, and those of the SLURM task that this one is."""
    return [name for name in environ if _is_stale(name)]


def cpus(root: str = "") -> int:
    """How many processors this process may use: those of its set, but no more than its cgroups give it time for."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(root)
    return number if quota is None else max(1, min(number, int(quota)))


def topology(environ: Mapping[str, str]) -> dict[str, Any]:
    """CPUs of this process by NUMA node, and the GPUs of a process with this environment (see `read_topology`)."""
    return read_topology(environ, os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set())


def gpus(environ: Mapping[str, str], root: str = "/") -> int:
    """How many GPUs a process with this environment sees, without torch: 0 where none is known.

    Sources: DDPKIT_GPUS (for accelerators unknown to this function), then what the kernel drivers of NVIDIA and AMD
    list, cut down by variables such as CUDA_VISIBLE_DEVICES. Raises ValueError where DDPKIT_GPUS is no count.
    """
    declared = environ.get("DDPKIT_GPUS")
    if declared is not None:
        if not declared.isdecimal():
            raise ValueError(f"DDPKIT_GPUS={declared} is not an integer")
        present = int(declared)
    else:
        present = len(list_gpus(root))
        if present and environ.get("CUDA_VISIBLE_DEVICES") is None and has_mig(root):
            present = 1
    return visible_gpus(present, environ)


def gpu_ranks(environ: Mapping[str, str], root: str = "/") -> tuple[int, str]:
    """How many ranks the GPUs of this machine are for, where nobody says it; and why they are fewer, for a person.

    One for each GPU that a process sees; of several models those of the commonest, as a GPU may drive a display.
    """
    visible = gpus(environ, root)
    declared = environ.get("DDPKIT_GPUS")
    if visible == 1 and declared != "1" and _sees_one_instance(environ, root):
        return visible, ONE_INSTANCE
    if declared is not None or not visible:
        return visible, ""
    if any(name in environ for name in VISIBLE):  # the user has chosen the GPUs
        return visible, ""
    models = Counter(model for _, _, _, model in list_gpus(root)).most_common()
    if len(models) < 2 or models[0][1] == models[1][1]:
        return visible, ""
    (usual, most), *rest = models
    others = ", ".join("%d x %s" % (number, model) for model, number in rest)
    note = "one rank for each %s, and none for %s; for all GPUs: -n %d" % (usual, others, visible)
    return min(visible, most), note


def _sees_one_instance(environ: Mapping[str, str], root: str) -> bool:
    """Tell whether a process sees one instance of a GPU that is split by MIG, although there are more."""
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return has_mig(root)
    instances = visible_entries(chosen)
    return len(instances) > 1 and instances[0].startswith("MIG-")


def visible_gpus(present: int, environ: Mapping[str, str | None]) -> int:
    """How many of the GPUs of a machine a process with these variables sees."""
    for name in (*VISIBLE, *VISIBLE_ELSEWHERE):
        visible = environ.get(name)
        if visible is not None:
            entries = visible_entries(visible)
            # CUDA takes the first instance of MIG, and nothing beside it.
            present = min(present, 1 if entries and entries[0].startswith("MIG-") else len(entries))
    return present


def free_port() -> int | None:
    """A port that nobody listens on now, below the range from which the kernel itself hands out ports; None: none is.

    The process that will listen there is not ours, so that the port cannot be held for it. A random choice outside the
    kernel's own range keeps two launches apart that look at the same moment.
    """
    words = read_text("/proc/sys/net/ipv4/ip_local_port_range").split()
    lowest = int(words[0]) if words else 32768
    top = lowest if lowest > 21000 else 65536
    for _ in range(200):
        port = 20000 + int.from_bytes(os.urandom(4), "big") % (top - 20000)
        if not why_no_server(port):
            return port
    return None


def why_no_server(port: int) -> str:
    """Why torch's store could not listen on this port on every address of this machine; empty where it could."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = _server_socket(family)
        except OSError:
            continue  # this kernel has no IPv6
        with probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                return error.strerror or str(error)
    return ""


def _server_socket(family: int) -> socket.socket:
    """A socket that listens as torch's store does: connections of an earlier run in TIME_WAIT do not hold its port."""
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return server


# ---- what a launcher on another machine asks


def look(
    workdir: str, script: str | None, python: str, environ: dict[str, str | None], port: int | None, torch: bool
) -> dict[str, Any]:
    """Collect the facts of this machine alone. `port`: the master's, on the host of rank 0."""
    env = merged(os.environ, environ)
    folder = os.path.abspath(os.path.expanduser(workdir))
    held: Any = sys.modules.get(HELD)
    known = held.known_torch(os.path.expanduser(python), env) if torch and held is not None else None
    # It thinks while we look at the rest.
    asked = _ask_torch(python, folder, env) if torch and known is None else None
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "time": time.time(),
        "workdir": folder,
        "no_workdir": "" if os.path.isdir(folder) and os.access(folder, os.X_OK) else _why_no_folder(folder),
        "script": _digest(os.path.join(folder, script)) if script else None,
        "executable": sys.executable,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "torch": known,
        "cpus": cpus(),
        "topology": topology(env),
        "set": sorted({*os.environ, *(name for name, _, _ in nccl_conf())}),
        "stale": stale(os.environ),
        "addresses": addresses(),
        # As gloo does it: the first one that can be bound. A name can mean a router's address.
        "own_name": [address for address in _resolve(socket.gethostname()) if _is_here(address)],
        "machine": machine(),
    }
    try:
        facts["gpus"], facts["no_gpus"] = gpus(env), ""
        facts["gpu_ranks"], facts["gpu_note"] = gpu_ranks(env)
    except ValueError as problem:
        facts["gpus"], facts["no_gpus"] = 0, str(problem)
    facts["tmp"] = temporary_directory(os.environ.get("TMPDIR", ""))
    facts["no_tmp"] = _why_not_written(facts["tmp"])
    facts.update(listen(port))
    facts["spare_port"] = free_port()  # for a program that listens, beside rank 0
    if asked is not None:
        facts["torch"] = _torch(asked, python)
    return facts


def machine() -> str:
    """The same for two names of one machine, and for nothing else: containers side by side have other namespaces."""
    spaces = []
    for kind in ("net", "pid", "uts", "mnt"):
        try:
            spaces.append(str(os.stat("/proc/self/ns/" + kind).st_ino))
        except OSError:
            spaces.append("")
    return ":".join([read_text("/proc/sys/kernel/random/boot_id"), *spaces])


def _why_not_written(folder: str) -> str:
    """Why a small file cannot be written there, or would not be safe there; empty where it can."""
    try:
        check_above(folder)
        try_to_write(folder, TMP_NEEDS)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _why_no_folder(folder: str) -> str:
    try:
        os.listdir(folder)
    except OSError as error:
        return error.strerror or str(error)
    return "permission denied"


def _digest(path: str) -> str:
    """The content of a file as a SHA-256; empty where there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def _ask_torch(python: str, workdir: str, env: dict[str, str]) -> subprocess.Popen[bytes] | OSError:
    """Start the job's Python as a rank is started, with a question."""
    try:
        return subprocess.Popen(
            [os.path.expanduser(python), "-c", NOT_FROM_HERE + _TORCH],
            cwd=workdir if os.path.isdir(workdir) else "/",
            env=with_safe_path(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError as problem:
        return problem


def _torch(asked: subprocess.Popen[bytes] | OSError, python: str) -> dict[str, Any]:
    """Which torch the job's Python would import."""
    try:
        if isinstance(asked, OSError):
            raise asked
        try:
            output = asked.communicate(timeout=LOOK_LIMIT)[0]
        finally:
            asked.kill()  # it has ended, or it never will
            asked.wait()
        words = [os.fsdecode(word) for word in output.rpartition(b"\x1e")[2].split(b"\0")]
        if len(words) != 4:
            raise ValueError(f"exit code {asked.returncode}")
        place, version, problem, sealed = words
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"place": None, "version": None, "problem": f"{python} failed: {error}"}
    facts = {"place": place or None, "version": version or None, **({"problem": problem} if problem else {})}
    return {**facts, "sealed": True} if sealed else facts


def is_sealed(python: str) -> bool:
    """Return whether nothing can be installed for a Python of this machine, as far as it says so."""
    return bool(_torch(_ask_torch(python, "/", dict(os.environ)), python).get("sealed"))


def addresses() -> list[list[str]]:
    """[interface, address] of this machine, those that only it can reach left out."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode()[:15])
                address = socket.inet_ntoa(fcntl.ioctl(any_socket, SIOCGIFADDR, request)[20:24])
            except OSError:
                continue  # no IPv4 address
            if not address.startswith("127."):
                addresses.append([name, address])
    for line in read_text("/proc/net/if_inet6").splitlines():
        digits, _, _, scope, _, name = line.split()
        if scope == "00":  # global
            addresses.append([name, socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))])
    return addresses


def _resolve(name: str) -> list[str]:
    """What a name means on this machine, in the resolver's order; empty where it means nothing."""
    try:
        return list(dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(name, None)))
    except OSError:
        return []


def _is_here(address: str) -> bool:
    """Whether a server of this machine can have this address."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


# ---- who can reach whom: every node listens, and tries what others listen on

_listening: list[socket.socket] = []
_SECRET = os.urandom(8).hex()


def listen(port: int | None) -> dict[str, Any]:
    """Listen on the master's port (rank 0's host only) and on one that the kernel chooses, as gloo and NCCL do."""
    ports: dict[str, Any] = {"secret": _SECRET, "port": None, "no_port": "", "high_port": None}
    if port is not None:
        chosen = port or free_port()
        ports["no_port"] = "no port from 20000 on is free" if chosen is None else why_no_server(chosen)
        if chosen is not None and not ports["no_port"]:
            ports["port"] = _serve(chosen)
    ports["high_port"] = _serve(0)
    return ports


def _serve(port: int) -> int | None:
    """Answer every connection to this port with our secret, until `close`. Returns the port."""
    families = [socket.AF_INET6, socket.AF_INET] if socket.has_dualstack_ipv6() else [socket.AF_INET]
    for family in families:
        server = _server_socket(family)
        try:
            if family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            server.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))
            server.listen(1024)
        except OSError:
            server.close()
            continue
        _listening.append(server)
        threading.Thread(target=_accept, args=(server,), daemon=True).start()
        return int(server.getsockname()[1])
    return None


def _accept(server: socket.socket) -> None:
    while True:
        try:
            client = server.accept()[0]
        except OSError:
            return  # closed
        threading.Thread(target=_greet, args=(client,), daemon=True).start()


def _greet(client: socket.socket) -> None:
    """The other side closes first, so that no half-closed connection keeps the port from rank 0."""
    with client:
        try:
            client.settimeout(5.0)
            client.sendall(_SECRET.encode())
            client.recv(1)
        except OSError:
            pass


def reach(targets: list[list[Any]], timeout: float) -> list[list[str]]:
    """Try [name or address, port, secret], all at once. Each becomes [address that answered, what went wrong]."""
    results = [["", f"no answer in {timeout:g} s"] for _ in targets]
    threads = [
        threading.Thread(target=_try, args=(*target, timeout, results, index), daemon=True)
        for index, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + timeout + 0.5
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return results


def _try(name: str, port: int, secret: str, timeout: float, results: list[list[str]], index: int) -> None:
    try:
        with socket.create_connection((name, port), timeout) as connection:
            answer = b""
            while len(answer) < len(secret):
                data = connection.recv(64)
                if not data:
                    break
                answer += data
            address = str(connection.getpeername()[0])
    except socket.timeout:
        return
    except OSError as error:
        results[index] = ["", str(error.strerror or error).lower()]
        return
    address = address[7:] if address.startswith("::ffff:") else address
    # A port on another machine can be another program's, and an address can be another machine's.
    results[index] = [address, "" if answer.decode("ascii", "replace") == secret else "another program answers there"]


def close() -> None:
    """Stop listening: the ports are needed now."""
    for server in _listening:
        try:
            server.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        except OSError:
            pass
        server.close()
    _listening.clear()
