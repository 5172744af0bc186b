"""Arguments and values that break a launcher which glues words together with blanks."""

from __future__ import annotations

ARGS = [
    "two words",
    "'single'",
    '"double"',
    "$HOME",
    "$$",
    "${RANK}",
    "$local_rank",
    "$(touch pwned)",
    "`touch pwned`",
    "%n%h%u",
    "*",
    "?",
    "~",
    "",
    "line\nbreak",
    "tab\there",
    "back\\slash",
    "\\$x",
    "naïve ☃ 中文",
    "--",
    "-n",
    "--nproc-per-node=9",
    "a=b",
    "a,b;c&d|e>f<g",
    "!history",
    "#comment",
    "{1..3}",
    "[0-9]",
    "trailing ",
    " leading",
]

# A value cannot hold a NUL; everything else of the list can stand in an environment.
ENV = {f"HOSTILE_{number}": value for number, value in enumerate(ARGS)}

# Writes down what arrived, exactly. The file is there when it is whole: a test may wait for it.
PROBE = """
import json, os, sys
seen = {"argv": sys.argv[1:], "env": {k: v for k, v in os.environ.items() if k.startswith("HOSTILE_")}}
name = "seen." + os.environ.get("RANK", "x")
with open(name + ".part", "w") as file:
    json.dump(seen, file)
os.replace(name + ".part", name)
"""
