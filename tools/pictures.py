"""Draw what ddpkit's commands print, as SVG, from real runs of them.

Each scene is typed at a terminal of its own, on a host that is called node1 for that time, in a project's directory.
Two names are changed in the output, and nothing else: that directory, a temporary one, is shown as ~/project, and the
directory of the Python that runs this as ~/project/.venv.

Usage: python tools/pictures.py [--out docs/img] [SCENE...]
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 80  # columns
# The colours of xterm's own kind, where red is red and magenta is none.
THEME = TerminalTheme(
    (18, 20, 24),
    (217, 217, 217),
    [
        *[(46, 52, 64), (235, 87, 87), (100, 200, 120), (229, 192, 90)],
        *[(97, 160, 255), (200, 130, 230), (86, 190, 200), (200, 204, 212)],
    ],
    [
        *[(130, 138, 150), (255, 110, 110), (130, 225, 150), (245, 215, 120)],
        *[(130, 185, 255), (220, 160, 245), (120, 220, 230), (255, 255, 255)],
    ],
)
PATIENCE = 300.0
# A picture brings no font along, and fetches none from anywhere.
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
    <style>
    .{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
        font-size: {char_height}px; line-height: {line_height}px; }}
    .{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
    {styles}
    </style>
    <defs>
    <clipPath id="{unique_id}-clip-terminal">
      <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
    </clipPath>
    {lines}
    </defs>
    {chrome}
    <g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
    {backgrounds}
    <g class="{unique_id}-matrix">
    {matrix}
    </g>
    </g>
</svg>
"""

LEARNS = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
weight = torch.zeros(1)
for epoch in range(1, 4):
    gradient = weight - (rank + 1)
    dist.all_reduce(gradient)
    weight -= 0.5 * gradient / size
    if rank == 0:
        print(f"epoch {epoch}: weight {weight.item():.3f}, averaged over {size} ranks")
dist.barrier()
print(f"rank {rank} of {size} is done")
dist.destroy_process_group()
"""
FAILS = """\
import os, time

def load(path):
    return open(path, "rb").read()

if os.environ["RANK"] == "2":
    while len(os.listdir("ready")) < 3:
        time.sleep(0.02)
    load("/data/shard-2.pt")
print("waits for the others", flush=True)
open("ready/" + os.environ["RANK"], "w").close()
time.sleep(3600)
"""
HANGS = """\
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(3)

def slow_step():
    for block in range(10000):
        print("reads block", block, "of a slow disk", flush=True)
        time.sleep(3)

def train():
    dist.all_reduce(total)
    if dist.get_rank() == 3:
        slow_step()
    dist.all_reduce(total)

train()
"""


class Desk:
    """A terminal in a project's directory, on a host of the name node1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.env = {
            **kept,
            "HOME": str(folder.parent),
            "XDG_STATE_HOME": str(folder.parent / "state"),
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "DDPKIT_GPUS": "0",
            "DDPKIT_HEADER": "false",  # the status lines are gone when a run has ended
            "GLOO_SOCKET_IFNAME": "lo",  # that name of the host has no address
        }

    def argv(self, line: str) -> list[str]:
        names = ["unshare", "--uts"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--uts"]
        words = shlex.split(line)
        assert words[0] == "ddpkit"
        return [*names, "sh", "-c", 'hostname node1; exec "$@"', "sh", sys.executable, "-m", *words]

    def type(self, line: str) -> str:
        """Run a command at a terminal to its end. Returns what stands on it."""
        inside, outside = pty.openpty()
        fcntl.ioctl(outside, termios.TIOCSWINSZ, struct.pack("HHHH", 60, WIDTH, 0, 0))
        process = subprocess.Popen(
            self.argv(line), cwd=self.folder, env=self.env, stdin=outside, stdout=outside, stderr=outside
        )
        os.close(outside)
        data = b""
        while True:
            try:
                read = os.read(inside, 1 << 16)
            except OSError:  # the last one that had it open has gone
                break
            if not read:
                break
            data += read
        os.close(inside)
        process.wait(PATIENCE)
        return self.mask(data.decode("utf-8", "replace").replace("\r\n", "\n"))

    def mask(self, text: str) -> str:
        return text.replace(str(self.folder), "~/project").replace(sys.prefix, "~/project/.venv")

    def start(self, line: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.argv(line),
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


Typed = list[tuple[str, str]]  # command lines, and what they printed


def launch(desk: Desk) -> Iterator[tuple[str, Typed]]:
    (desk.folder / "train.py").write_text(LEARNS)
    yield "launch", [(line, desk.type(line)) for line in ("ddpkit launch -n 4 -- train.py", "ddpkit ps")]


def failure(desk: Desk) -> Iterator[tuple[str, Typed]]:
    (desk.folder / "train.py").write_text(FAILS)
    (desk.folder / "ready").mkdir()
    line = "ddpkit launch -n 4 -- train.py"
    yield "failure", [(line, desk.type(line))]


def preflight(desk: Desk) -> Iterator[tuple[str, Typed]]:
    line = "ddpkit test 2 --quick --env RANK=0 -- torchrun --nproc-per-node 2 train.py"
    yield "test", [(line, desk.type(line))]


def runs(desk: Desk) -> Iterator[tuple[str, Typed]]:
    (desk.folder / "train.py").write_text("import sys\nprint('step 1', flush=True)\nsys.exit(int(sys.argv[1]))\n")
    (desk.folder / "evaluate.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(3600)\n")
    desk.type("ddpkit launch -n 2 -- train.py 0 --lr 0.1 --epochs 90")
    desk.type("ddpkit launch -n 4 -- train.py 7 --lr 10 --epochs 90")
    process = desk.start("ddpkit launch -n 2 -- evaluate.py --data /data/imagenet --batch-size 256 --workers 8")
    try:
        wait(process, lambda: any("ready" in path.read_text() for path in desk.folder.glob("logs/*/rank_1.log")))
        yield "ps", [("ddpkit ps", desk.type("ddpkit ps"))]
    finally:
        desk.type("ddpkit stop")
        process.wait(PATIENCE)


def wait(process: subprocess.Popen[bytes], there: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > until or process.poll() is not None:
            sys.exit("the scene does not come about")
        time.sleep(0.5)  # a log tells nobody that it grew


def hang(desk: Desk) -> Iterator[tuple[str, Typed]]:
    (desk.folder / "train.py").write_text(HANGS)
    process = desk.start("ddpkit launch -n 4 --observe stacks -- train.py")
    try:
        wait(process, lambda: any("slow disk" in path.read_text() for path in desk.folder.glob("logs/*/rank_3.log")))
        wait(process, lambda: "not waiting:" in desk.type("ddpkit status"))
        for name, line in (("hang", "ddpkit dump"), ("status", "ddpkit status"), ("top", "ddpkit top --once")):
            yield name, [(line, desk.type(line))]
    finally:
        desk.type("ddpkit stop")
        process.wait(PATIENCE)


SCENES: dict[str, Callable[[Desk], Iterator[tuple[str, Typed]]]] = {
    "launch": launch,
    "failure": failure,
    "test": preflight,
    "ps": runs,
    "hang": hang,
    "status": hang,
    "top": hang,
}


def draw(name: str, typed: Typed) -> str:
    """Return the SVG of some commands with their output."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)
    for number, (line, printed) in enumerate(typed):
        console.print(Text("\n" * bool(number)) + Text.assemble(("$ ", "green"), (line, "bold")))
        # What a terminal was told to erase is not shown.
        plain = re.sub(r"\x1b\[\?[0-9;]*[hl]|\x1b\[[0-9;]*[JKA-H]|[^\n]*\r(?!\n)", "", printed)
        console.print(Text.from_ansi(plain.rstrip()), soft_wrap=False)
    console.print()  # room below the last line, which is cut without it
    title = "~/project"
    text = console.export_svg(title=title, theme=THEME, code_format=FORMAT, unique_id=f"ddpkit-{name}")
    console.file.close()
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenes", nargs="*", metavar="SCENE", help=f"of {', '.join(SCENES)}; all of them without one")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/img", help="the directory to write to")
    options = parser.parse_args()
    wanted = options.scenes or list(SCENES)
    options.out.mkdir(parents=True, exist_ok=True)
    for scene in dict.fromkeys(SCENES[name] for name in wanted):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "project")
            folder.mkdir()
            for name, typed in scene(Desk(folder)):
                if name in wanted:
                    path = options.out / f"{name}.svg"
                    path.write_text(draw(name, typed))
                    print(path, flush=True)


if __name__ == "__main__":
    main()
