"""Numbers, addresses and layouts read from an environment, each with the variable or rule that it came from.

Every error of a rank's environment names the variable and its value, so a number carries its origin. All sources
(`torch_env`, `slurm_env`, `mpi_env`, `resolver`) use these functions.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ddpkit.errors import EnvError

if TYPE_CHECKING:
    from typing import TypeAlias

Environ: TypeAlias = "Mapping[str, str]"  # a text, for Python 3.8


class Num(NamedTuple):
    """A number and the variable (or rule) it came from."""

    value: int
    origin: str

    def __str__(self) -> str:
        # A variable is shown as typed; a rule such as "RANK (one node)" stands after its number.
        return f"{self.origin}={self.value}" if " " not in self.origin else f"{self.value} ({self.origin})"

    @property
    def variable(self) -> str:
        """The variable to correct, also where a rule was derived from it."""
        return self.origin.partition(" ")[0]


class Task(NamedTuple):
    """Ranks and sizes of this process, as one source gives them."""

    source: str
    because: str
    rank: Num
    world_size: Num
    local_rank: Num
    local_world_size: Num
    node_rank: Num
    num_nodes: Num
    master: Callable[[], tuple[tuple[str, str], Num]]
    """Address and port of rank 0. Called for the used source alone: in others a missing master is no error."""


def complete_local_ranks(
    rank: Num, world: Num, local_rank: Num | None, local_world: Num | None, prefix: str
) -> tuple[Num, Num]:
    """Fill in the local rank and local world size on a single node. Raises EnvError on several nodes."""
    one_node = f"{world.origin} (one node)"
    if local_world is None and (local_rank is None or local_rank.value == rank.value):
        local_world = Num(world.value, one_node)
    if local_world is None:
        raise EnvError(
            f"{rank} with {local_rank} means several nodes, but {prefix}LOCAL_WORLD_SIZE is not set",
            f"export {prefix}LOCAL_WORLD_SIZE=<ranks on this node> in every process",
        )
    if local_rank is None and local_world.value == world.value:
        local_rank = Num(rank.value, f"{rank.origin} (one node)")
    if local_rank is None:
        # rank % local_world_size would be wrong for cyclic and uneven layouts.
        raise EnvError(
            f"{rank} is on one of several nodes, but {prefix}LOCAL_RANK is not set",
            f"export {prefix}LOCAL_RANK=<index of the process on its node> in every process",
        )
    return local_rank, local_world


def count_nodes(world: Num, local_world: Num, known: Num | None) -> Num:
    """Return the number of nodes: `known`, or from the world size and the local world size."""
    if known is not None:
        return known
    if local_world.value < 1:
        return Num(1, local_world.origin)  # the resolver refuses it and names the variable
    count = max(1, -(-world.value // local_world.value))
    return Num(count, f"{world.origin} / {local_world.origin}")


def infer_node_rank(rank: Num, local_rank: Num, local_world: Num, num_nodes: Num, known: Num | None) -> Num:
    """Return the node rank: `known`, or from the layout that fits the rank and the local rank."""
    if known is not None:
        return known
    if num_nodes.value <= 1 or local_world.value < 1:
        return Num(0, "one node")
    if rank.value % local_world.value != local_rank.value and rank.value // num_nodes.value == local_rank.value:
        return Num(rank.value % num_nodes.value, f"{rank.origin} % number of nodes (round-robin over the nodes)")
    block = min(rank.value // local_world.value, num_nodes.value - 1)
    return Num(block, f"{rank.origin} / {local_world.origin} (node after node)")


def master_address(environ: Environ) -> tuple[str, str] | None:
    """Return the master address and its variable, or None."""
    for name in ("DDPKIT_MASTER_ADDR", "MASTER_ADDR"):
        if read_text(environ, name):
            return require_address(environ, name)
    return None


def require_address(environ: Environ, name: str) -> tuple[str, str]:
    """Return an address, without the brackets of an IPv6 literal, and its variable. Raises EnvError."""
    text = read_text(environ, name)
    addr = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    host, colon, port = addr.rpartition(":")
    if colon and ":" not in host and is_number(port):
        raise EnvError(f"{name}={text} contains a port", f"export {name}={shlex.quote(host)} MASTER_PORT={port}")
    if not addr or any(letter.isspace() or letter in "/@[]?#" for letter in addr):
        raise EnvError(f"{name}={text} is not a host name or an address", f"export {name}=<the host of rank 0>")
    return addr, name


def master_port(environ: Environ) -> Num | None:
    """Return the master port, or None."""
    return read_number(environ, "DDPKIT_MASTER_PORT") or read_number(environ, "MASTER_PORT")


def is_loopback(addr: str) -> bool:
    """Return whether an address is of the loopback interface."""
    return addr.lower() in ("localhost", "localhost.localdomain", "::1") or addr.startswith("127.")


def read_text(environ: Environ, name: str) -> str:
    """Return a variable without blanks; '' where it is not set. torch also ignores an empty value."""
    return environ.get(name, "").strip()


def read_number(environ: Environ, name: str) -> Num | None:
    """Return a variable's number, or None where it is not set. Raises EnvError."""
    text = read_text(environ, name)
    return Num(parse_number(name, text), name) if text else None


def require_number(environ: Environ, name: str) -> Num:
    """Return the number of a variable that is set. Raises EnvError."""
    return Num(parse_number(name, read_text(environ, name)), name)


def parse_number(name: str, text: str) -> int:
    """Return a whole number from 0. Raises EnvError."""
    text = text.strip()
    if is_number(text):
        return int(text)
    what = "is negative" if text.startswith("-") and is_number(text[1:]) else "is not an integer"
    raise EnvError(f"{name}={text} {what}", f"correct {name}, or: unset {name}")


def is_number(text: str) -> bool:
    """Return whether a text has digits alone."""
    # int() alone would accept "1_0", "+1" and digits of other scripts.
    return text.isascii() and text.isdigit() and len(text) <= 18


def show_variables(environ: Environ, names: Sequence[str]) -> str:
    """Return `NAME=value` of these variables."""
    return " ".join(f"{name}={read_text(environ, name)}" for name in names)


# Linux uses 32768..60999 for outgoing connections, which could take a listening port there.
FIRST_PORT, LAST_PORT = 20000, 32767


def port_for(*identifiers: str, step: int = 0) -> int:
    """Return a port in 20000..32767, the same for the same arguments in every process.

    Another `step` gives another port; other identifiers nearly always do. Python salts `hash()`: every rank would get
    another port.
    """
    return FIRST_PORT + (crc32("/".join(identifiers).encode()) + step) % (LAST_PORT - FIRST_PORT + 1)
