"""Benchmark of collectives between ranks: five of them over a range of sizes, timed, and checked on every rank.

    ddpkit bench -b ssh node1 node2 -n 4                 over any way of launching
    torchrun --nproc-per-node 2 collectives.py           two processes on this machine
    srun -N2 --ntasks-per-node=4 python collectives.py -b 8 -e 1G -f 4

It needs PyTorch and the folder it lies in; ddpkit need not be installed. Scopes: `world` is all ranks; `intra` the
ranks of each node, all nodes at once; `inter` one rank of each node; `pairs` every two nodes alone, so that one bad
cable shows. A time is the slowest rank's of the slowest group. algbw is size / time; busbw is what the busiest wire
carries, by the formulas of nccl-tests: with n ranks algbw x 2(n-1)/n for all_reduce, x (n-1)/n for all_gather and
reduce_scatter, x 1 for broadcast and sendrecv.

exit codes, the same on every rank that lives: 0 all is well; 3 a result is wrong, a rank is missing or hangs, or less
than --min-busbw was reached; 2 an option is wrong.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

if __name__ == "__main__" and "__file__" in globals():
    # Started as a file: the package is imported from there. The file's own folder has a torch.py that is not PyTorch.
    _folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path = [os.path.dirname(os.path.dirname(_folder)), *(each for each in sys.path if each != _folder)]  # noqa: PTH120

from ddpkit.distributed.bench.cases import DTYPES, OPS, SCOPES, parse_names, parse_size, show_size
from ddpkit.distributed.bench.output import Output
from ddpkit.distributed.bench.rank import BenchRank
from ddpkit.distributed.bench.results import BenchFailure
from ddpkit.distributed.check import BAD, deciding_line, read_rank_env

GRACE = 5.0  # seconds in which a living rank publishes its state


def bench_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("collectives.py", description=__doc__, formatter_class=style)
    add: Any = parser.add_argument

    def convert(function: Callable[..., Any], *args: Any) -> Callable[[str], Any]:
        def convert_text(text: str) -> Any:
            try:
                return function(text, *args)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return convert_text

    def names(known: Sequence[str], kind: str) -> Callable[[str], Any]:
        return convert(parse_names, known, kind)

    size = convert(parse_size)
    add("-b", "--min-bytes", "--minbytes", type=size, default=8, metavar="SIZE", help="smallest size (8)")
    add("-e", "--max-bytes", "--maxbytes", type=size, default=2**27, metavar="SIZE", help="largest size (128M)")
    add("-f", "--factor", "--stepfactor", type=int, default=4, metavar="N", help="between two sizes (4)")
    add("-n", "--iters", type=int, default=0, metavar="N", help="timed rounds [default: as many as fit into --seconds]")
    add("-w", "--warmup", "--warmup_iters", type=int, default=5, metavar="N", help="warm-up rounds (5, or fewer)")
    add("-d", "--dtypes", "--datatype", type=names(DTYPES, "type"), default=["float32"], metavar="TYPE[,TYPE]")
    add("--ops", type=names(OPS, "collective"), default=list(OPS), metavar="OP[,OP]", help=",".join(OPS))
    add("--in-place", action="store_true", help="all_gather and reduce_scatter in one array, as the others")
    add("--scope", type=names(SCOPES, "scope"), default=[], metavar="SCOPE[,SCOPE]", help="world,intra,inter,pairs")
    add("--comm", choices=("auto", "nccl", "gloo"), default="auto", help="auto: nccl if all ranks have a GPU")
    add("--seconds", type=float, default=0.2, metavar="S", help="time for the rounds of one size (0.2)")
    add("--timeout", type=float, default=30, metavar="S", help="seconds without progress, for each step (30)")
    add("--min-busbw", type=float, metavar="GB/s", help="exit with 122 if the best busbw is below GB/s")
    add("--json", action="store_true", help="print one JSON object instead of a table")
    return parser


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Parse the command line. Ends the process with 2 where an option is wrong."""
    parser = bench_parser()
    args = parser.parse_args(argv)
    if args.min_bytes > args.max_bytes:
        parser.error(f"--min-bytes {show_size(args.min_bytes)} is more than --max-bytes {show_size(args.max_bytes)}")
    if args.factor < 2 or args.iters < 0 or args.warmup < 0:
        parser.error("--factor is 2 or more; --iters and --warmup are 0 or more")
    if not (0 < args.seconds < 1e5 and 0 < args.timeout < 1e5):
        parser.error("--seconds and --timeout must be greater than 0")
    return args


def main(argv: list[str]) -> int:
    """Run as one rank. Returns the exit code."""
    args = parse_args(argv)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # the store's failed tries are reported here, once
    os.environ.setdefault("NCCL_DEBUG", "WARN")  # an error of NCCL has its reason in a warning
    host = socket.gethostname()
    try:
        env = read_rank_env(dict(os.environ))
    except (ValueError, KeyError, OSError, subprocess.CalledProcessError) as error:
        fix = "start it with torchrun, srun or ddpkit, or unset these variables"
        sys.stderr.write(f"bench: {BenchFailure(int(os.environ.get('RANK') or 0), host, deciding_line(error), fix)}\n")
        return BAD
    try:
        import torch.distributed as dist

        missing = "" if dist.is_available() else "this torch has no torch.distributed"
    except ImportError as error:
        missing = deciding_line(error)
    output = Output("events" if os.environ.get("DDPKIT_EVENTS") == "1" else "json" if args.json else "table")
    rank = BenchRank(env, args, GRACE, output)
    if missing:
        fix = "start it with a Python whose torch has torch.distributed"
        output.add_failure(BenchFailure(env.rank, host, f"{sys.executable}: {missing}", fix))
        return BAD
    return rank.run()


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): a thread of gloo that still runs while the interpreter is being torn down can abort (torch 2.13).
    os._exit(exit_code)
