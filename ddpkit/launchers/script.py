"""Turns a plan into one script that does the same without ddpkit: bash for named nodes and this one, a job for SLURM.

The watcher of `scripts/ssh/watcher.py` replaces ddpkit's supervisor: it ends everything on its node when its standard
input closes. Only the script holds those inputs open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ddpkit.errors import UsageError
from ddpkit.launchers.plan import Plan, Proc, Step
from ddpkit.launchers.shell import Raw, Secret, Value, Word, assign, count, exports, join, quote
from ddpkit.text import format_ranks

_FOLDER = Path(__file__).parent
_SSH = ("ssh", "-T", "-a", "-x", "-S", "none", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5")
_QUOTED = "SC2016,SC2088"  # "this does not expand": that is what the quotes are for
# bash is started by torchrun, which turns `$$` into `$`.
_RANK_SHELL = ("bash", "--norc", "-c", 'rank "$$@"', "rank")


def script(
    plan: Plan,
    *,
    watcher: str,
    fixed_port: int = 0,
    timeout: float = 10.0,
    accept_new: bool = False,
    pdsh: str | None = None,
) -> str:
    """The script as text, for nodes that are named and for this machine.

    watcher: the text of `scripts/ssh/watcher.py`.
    fixed_port: the port at which the ranks meet; 0: one that is free when the script runs.
    pdsh: more options for the pdsh that starts all nodes; None: no pdsh. Raises UsageError.
    """
    if plan.min_nodes is not None:
        raise UsageError("-N MIN:MAX needs ddpkit while it runs: a script ends at the first failure", "-N MAX")
    plan = replace(plan, steps=tuple(_portable(step, plan) for step in plan.steps))
    secrets = _secrets(plan)
    out = [
        *_head(plan, pdsh),
        "",
        "set -euo pipefail",
        *(f': "${{{name}:?it is not written in this script: export it}}"' for name in secrets),
        "",
        "grace=" + f"{plan.grace:g} # seconds between TERM and KILL for what has to end",
        f"port={fixed_port or 'free # chosen on the first node when the ranks start'}",
        f"running={len(plan.steps)}",
        "",
        *_choice("label() { # NODE: its name", (f"echo {quote(step.host)}" for step in plan.steps)),
        "",
        *_choice(
            "into() { # NODE ARGUMENTS: its Python, with these",
            (_into(step, timeout, accept_new) for step in plan.steps),
        ),
        "",
        "secrets() {",
        "    printf '%s\\0' ''" + "".join(f' "{name}=${name}"' for name in secrets),
        "}",
        *(line for number, step in enumerate(plan.steps) for line in ("", *_step(number, step))),
        "",
        *_launch(plan, pdsh),
        "",
        "# ---- On a node: a watcher is the parent of all processes. Its standard input is a pipe. When the pipe",
        "# closes, it ends all its descendants, and those of torchrun, which have their own sessions.",
        "",
        "watcher=$(",
        "    cat <<'PYTHON'",
        _skip_first_line(watcher),
        "PYTHON",
        ")",
        "",
        _skip_first_line((_FOLDER / "script_nodes.sh").read_text(encoding="utf-8")),
    ]
    return "\n".join(out) + "\n"


def _head(plan: Plan, pdsh: str | None) -> list[str]:
    remote = bool(plan.steps[0].by_hand)
    needs = ", pdsh, ssh" if pdsh is not None else ", ssh" if remote else ""
    size = f"{count(plan.world_size, 'rank')} on {count(len(plan.steps), 'node')}"
    return [
        "#!/bin/bash",
        f"# shellcheck disable={_QUOTED},SC2329 # arguments are unchanged; some functions are called elsewhere",
        f"# Made by `ddpkit emit`: {size}, backend {plan.backend}.",
        f"# It runs without ddpkit. It requires bash{needs}; Linux, bash, python3 and PyTorch on "
        + ("the nodes." if remote else "this machine."),
        "# When it ends, also by Ctrl-C or kill -9, all its processes end. Exit code: that of the",
        "# first rank that failed; 130, 143, 129 after Ctrl-C, TERM, HUP. 3: nothing was started, because",
        "# the first node cannot be reached or has no free port.",
    ]


def _choice(head: str, commands: Iterable[str]) -> list[str]:
    """A shell function that runs the command of the node whose number it gets."""
    return [
        head,
        "    case $1 in",
        *(f"    {number}) {each} ;;" for number, each in enumerate(commands)),
        "    esac",
        "}",
    ]


def job_script(plan: Plan) -> str:
    """The job script of a plan for a scheduler, as text to be submitted by hand."""
    head, _, rest = plan.files[-1].text.partition("\n")
    lines = [
        head,
        "# Made by `ddpkit emit`. It requires SLURM, Python and PyTorch, and runs without ddpkit: sbatch FILE.",
        f"# shellcheck disable={_QUOTED},SC1091 # arguments are unchanged; files of -o setup are not here",
    ]
    # What is exported when it is submitted reaches the job.
    rest = rest.replace("its value is not shown", "export it before sbatch")
    return "\n".join(lines) + "\n" + rest.replace(plan.run_id, f'{_name(plan)}-"$SLURM_JOB_ID"')


def _name(plan: Plan) -> str:
    """The name in the id of a run: the script that was emitted twice is the same."""
    return plan.run_id.split("-", 2)[-1].rpartition("-")[0] or "ddpkit"


def _skip_first_line(text: str) -> str:
    """The text of a file without its first line, which is for readers of that file."""
    return text.partition("\n")[2].rstrip("\n")


def _secrets(plan: Plan) -> list[str]:
    envs = [env for step in plan.steps for env in (step.env, *(proc.env for proc in step.procs))]
    return sorted({name for env in envs for name, value in env.items() if isinstance(value, Secret)})


def _portable(step: Step, plan: Plan) -> Step:
    """The step with the port as a variable of the script, and without the id of a run."""
    env: dict[str, Value] = {
        name: _name(plan) if value == plan.run_id else value for name, value in step.env.items() if name != "DDPKIT_RUN"
    }
    if "MASTER_PORT" in env:
        env["MASTER_PORT"] = Raw("$port")
    return replace(step, env=env, procs=tuple(replace(proc, argv=_words(proc, plan)) for proc in step.procs))


def _words(proc: Proc, plan: Plan) -> tuple[Word, ...]:
    """The words of torchrun, with the script's port, and with a shell around each rank that reports its exit code."""
    words: list[Word] = [
        f"--rdzv_id={_name(plan)}" if word == f"--rdzv_id={plan.run_id}" else word for word in proc.argv
    ]
    if proc.rank is not None or "--no_python" not in words:
        return tuple(words)
    index = words.index("--no_python")
    for number, word in enumerate(words[:index]):
        name, _, value = word.partition("=") if isinstance(word, str) else ("", "", "")
        if name in ("--master_port", "--rdzv_endpoint"):
            words[number] = Raw(f"{name}={value.rpartition(':')[0]}:$port" if ":" in value else f"{name}=$port")
    if not proc.restarts:  # a rank that is started again has not failed
        words[index + 1 : index + 1] = _RANK_SHELL
    return tuple(words)


def _into(step: Step, timeout: float, accept_new: bool) -> str:
    python = "exec python3"
    if step.container:
        python = f"exec {join(step.container.enter)} {quote(step.container.python)}"
    if not step.by_hand:
        return f'bash -c {quote(python)}" $2"'
    more = ["-o", f"ConnectTimeout={max(1, round(timeout))}"]
    more += ["-o", "StrictHostKeyChecking=accept-new"] if accept_new else []
    ssh = join([*_SSH, *more, *step.by_hand[1:]])
    return f'{ssh} {quote(python)}" $2"'


def _step(number: int, step: Step) -> list[str]:
    lines = [f"cd {quote(step.workdir)} || exit 1", *exports(step.env)]
    if len(step.procs) == 1 and step.procs[0].rank is None:
        lines.append(f"exec {join(step.procs[0].argv)}")
    else:
        lines += ["local pids='' pid code=0"]
        for proc in step.procs:
            own = [assign(name, value) for name, value in proc.env.items() if value is not None]
            lines.append(f'{" ".join([*own, "rank", join(proc.argv)])} & pids="$pids $!"')
        lines += ['for pid in $pids; do wait "$pid" || code=$?; done', 'exit "$code"']
    # A word may have lines of its own, and they stay as they are.
    return [f"step_{number}() {{ # on {step.host}: {format_ranks(step.ranks)}", *(f"    {line}" for line in lines), "}"]


def _launch(plan: Plan, pdsh: str | None) -> list[str]:
    if pdsh is None:
        body = ['for ((number = 0; number < running; number++)); do one "$number" 9>&- & done']
    else:
        functions = ["label", "into", "secrets", "rank", "pack", "parcel", "visit", "one"]
        functions += [f"step_{number}" for number in range(len(plan.steps))]
        names = ",".join(f"node{number}" for number in range(len(plan.steps)))
        command = f"pdsh -R exec -N -f {len(plan.steps)}{pdsh and f' {pdsh}'} -w {names}"
        body = [
            f"export -f {' '.join(functions)}",
            "export watcher enter grace port lifeline said",
            f"{command} bash --norc -c 'set -o pipefail; one \"$1\"' one %n 9>&- &",
        ]
    return ["launch() {", *(f"    {line}" for line in body), "}"]
