"""The libraries, the ways to launch them, and the table of both, which is filled by real runs alone.

`make test-interop` leaves one file for each cell in a folder. As a program this puts them into `table.json`, and prints
the table: table.py CELLS. A cell that was not run again stays as it was while its library has the same version.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).parent
TABLE = HERE / "table.json"
SALLOC = ("salloc", "-Q", "-N2", "--ntasks-per-node=2")


@dataclass(frozen=True, kw_only=True)
class Library:
    """`script` is in `scripts/`; in `args` {nproc} and {nnodes} are the ranks of a node, and the nodes."""

    script: str
    args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Way:
    """What is typed behind `ddpkit launch`, on how many nodes, and after which words; who starts the ranks there."""

    words: tuple[str, ...]
    by: Literal["ddpkit", "torchrun", "srun"]
    nnodes: int = 2
    before: tuple[str, ...] = ()


LIBRARIES = {
    "torch DDP": Library(script="torch_ddp.py"),
    "torch FSDP2": Library(script="torch_fsdp2.py"),
    "torch.distributed.checkpoint": Library(script="torch_checkpoint.py", args=("checkpoint",)),
    "Accelerate": Library(script="hf_accelerate.py"),
    "Lightning Fabric": Library(script="lightning_fabric.py", args=("{nproc}", "{nnodes}")),
    "Lightning Trainer": Library(script="lightning_trainer.py", args=("{nproc}", "{nnodes}")),
    "transformers Trainer": Library(script="hf_trainer.py", args=("out",)),
    "DeepSpeed": Library(script="deepspeed_zero.py"),
}
NODES = ("node1", "node2")
WAYS = {
    "local": Way(words=(), by="ddpkit", nnodes=1),
    "local preload": Way(words=("-o", "preload=true"), by="ddpkit", nnodes=1),
    "local torchrun": Way(words=("-o", "starter=torchrun"), by="torchrun", nnodes=1),
    "ssh": Way(words=("-b", "ssh", *NODES), by="torchrun"),
    "ssh ranks": Way(words=("-b", "ssh", *NODES, "-o", "starter=ranks"), by="ddpkit"),
    "pdsh": Way(words=("-b", "pdsh", *NODES), by="torchrun"),
    "legacy": Way(words=("-b", "legacy", *NODES), by="torchrun"),
    "slurm job": Way(words=("-b", "slurm", "-N", "2"), by="srun"),
    "slurm step": Way(words=("-b", "slurm", "-N", "2"), by="srun", before=SALLOC),
    "slurm preload": Way(words=("-b", "slurm", "-N", "2", "-o", "preload=true"), by="srun"),
    "slurm-torchrun job": Way(words=("-b", "slurm-torchrun", "-N", "2"), by="torchrun"),
    "slurm-torchrun step": Way(words=("-b", "slurm-torchrun", "-N", "2"), by="torchrun", before=SALLOC),
}


def read() -> dict[str, Any]:
    """library -> version and, for each way that was tried with it, the seconds, or what went wrong."""
    return dict(json.loads(TABLE.read_text())) if TABLE.exists() else {}


def merge(table: dict[str, Any], cells: list[dict[str, Any]]) -> dict[str, Any]:
    """The table with these cells in place of older ones; another version's are not kept."""
    found = {name: {"version": row["version"], "ways": dict(row["ways"])} for name, row in table.items()}
    for cell in cells:
        row = found.setdefault(cell["library"], {"version": cell["version"], "ways": {}})
        if cell["version"] not in (row["version"], "?"):  # it said nothing at all
            row = found[cell["library"]] = {"version": cell["version"], "ways": {}}
        row["ways"][cell["way"]] = cell["seconds"] if cell["ok"] else cell["problem"]
    return {
        name: {
            "version": found[name]["version"],
            "ways": {way: found[name]["ways"][way] for way in WAYS if way in found[name]["ways"]},
        }
        for name in LIBRARIES
        if name in found
    }


def render(table: dict[str, Any]) -> str:
    """The table as it stands in the guide."""
    lines = [f"| library | {' | '.join(WAYS)} | seconds |", "|" + "---|" * (len(WAYS) + 2)]
    for name, row in table.items():
        ways = row["ways"]
        shown = ["not run" if way not in ways else _cell(ways[way]) for way in WAYS]
        times = [value for value in ways.values() if not isinstance(value, str)]
        seconds = f"{statistics.median(times):.0f}" if times else "-"
        lines.append(f"| {name} {row['version']} | {' | '.join(shown)} | {seconds} |")
    return "\n".join(lines) + "\n"


def reason(text: str, assertion: str) -> str:
    """Why a launch that printed `text` did not pass, in one line: the verdict of a failed one, or what was not so."""
    lines = text.splitlines()
    if lines and lines[0].startswith("no end in "):
        return lines[0]
    verdicts = [line for line in lines if " failed first, after " in line]
    compared = [line for line in assertion.splitlines() if line.startswith("assert ")]
    return (verdicts or compared or lines[-1:] or ["it said nothing"])[-1].removeprefix("ddpkit: ")[:200]


def _cell(value: float | str) -> str:
    return "no: " + value.replace("|", "\\|") if isinstance(value, str) else "yes"


def main(folder: Path) -> None:
    table = merge(read(), [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))])
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    print(render(table))
    for name, row in table.items():
        for way, seconds in row["ways"].items():
            print(f"{name}, {way}: {seconds if isinstance(seconds, str) else f'{seconds:.1f} s'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
