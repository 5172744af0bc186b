"""The one place where words become shell text: every word is quoted, and only a `Raw` word is left to the shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from ddpkit.plan import Plan, Proc, Raw, Secret, Step, Value, Word

_INSIDE = "end of what runs in the container"


def quote(word: Word) -> str:
    """Quote one word for a POSIX shell; a `Raw` word stands as it is, in double quotes so that it stays one word."""
    return f'"{word.text}"' if isinstance(word, Raw) else shlex.quote(word)


def join(words: Iterable[Word]) -> str:
    return " ".join(quote(word) for word in words)


def assign(name: str, value: Value) -> str:
    """One `NAME=value` for the head of a command, or for `export`."""
    if isinstance(value, Secret):
        # The text can still be pasted into a shell in which the name is set.
        return f'{name}="${{{name}:?its value is not shown}}"'
    return f"{name}={quote(value or '')}"


def exports(env: Mapping[str, Value]) -> list[str]:
    """One `unset` line, then an `export` line for each variable."""
    unset = [name for name, value in env.items() if value is None]
    lines = [f"export {assign(name, value)}" for name, value in env.items() if value is not None]
    return [f"unset {' '.join(unset)}", *lines] if unset else lines


def command_line(proc: Proc) -> str:
    """One process as a shell command, with its own environment in front."""
    unset = [name for name, value in proc.env.items() if value is None]
    env = [assign(name, value) for name, value in proc.env.items() if value is not None]
    head = ["env", *(f"-u {name}" for name in unset)] if unset else []
    return " ".join([*head, *env, join(proc.argv)])


def exec_argv(proc: Proc) -> list[str]:
    """The argv that starts a process without a shell, or with one where a `Raw` word needs it."""
    if any(isinstance(word, Raw) for word in proc.argv):
        return ["sh", "-c", "exec " + join(proc.argv)]
    return [word for word in proc.argv if isinstance(word, str)]


def render_step(step: Step) -> str:
    """One step as a script that a person can read, and run by hand on that machine."""
    if step.container:
        return f"{join(step.container.enter)} sh -s <<'{_INSIDE}'\n{_lines(step)}\n{_INSIDE}"
    return _lines(step)


def _lines(step: Step) -> str:
    if step.srun:
        # The process is a shell already: its text stands here as it is.
        text = step.procs[0].argv[-1]
        assert isinstance(text, str)
        return "\n".join([f"cd {quote(step.workdir)} || exit 1", *exports(step.env), text])
    lines = [f"cd {quote(step.workdir)} || exit 1", *exports(step.env)]
    if step.preload:
        modules = ", ".join(step.preload)
        lines.append(f"# ddpkit forks these from one interpreter that has imported {modules}; this script does not")
    if len(step.procs) == 1:
        lines.append(command_line(step.procs[0]))
    else:
        lines += [f'{command_line(proc)} & pids="$pids $!"' for proc in step.procs]
        # ddpkit would end the others as well; a shell can at least say that one failed.
        lines += ['for pid in $pids; do wait "$pid" || code=$?; done', 'exit "${code:-0}"']
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def span(ranks: range) -> str:
    """`rank 0`, `ranks 0-3`."""
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}-{ranks[-1]}"


def render_plan(plan: Plan) -> str:
    """The dry run: what a cluster's administrator would want to read before it runs."""
    if plan.batch is not None:
        head, _, rest = plan.files[-1].text.partition("\n")
        return f"{head}\n# ddpkit run {plan.run_id}: backend {plan.backend}, {join(plan.batch.submit)}\n{rest}"
    width = count(plan.world_size, "rank")
    width += "" if plan.steps[0].srun else f" on {count(len(plan.steps), 'node')}"
    out = ["#!/bin/sh", f"# ddpkit run {plan.run_id}: backend {plan.backend}, {width}"]
    out += [f"{join(argv)} || exit 1" for argv in plan.sync]
    end = f"END-{plan.run_id}"  # no word of the job is a line like this
    for number, step in enumerate(plan.steps, 1):
        out.append(f"# step {number} of {len(plan.steps)}, on {step.host}: {span(step.ranks)}")
        text = render_step(step)
        if step.by_hand:
            out += [f"{join(step.by_hand)} sh <<'{end}' &", text, end, 'steps="$steps $!"']
        else:
            out.append(text)
    if plan.steps[0].by_hand:
        # ddpkit would end the others, and leave nothing behind; a script can at least say that one failed.
        out += ['for step in $steps; do wait "$step" || failed=$?; done', 'exit "${failed:-0}"']
    return "\n".join(out) + "\n"


def _plain(value: Value) -> Any:
    return {"raw": value.text} if isinstance(value, Raw) else str(value) if isinstance(value, Secret) else value


def plan_as_dict(plan: Plan) -> dict[str, Any]:
    """The plan as JSON types, secrets masked. `null` in an environment means that the name is unset."""
    return {
        "run_id": plan.run_id,
        "backend": plan.backend,
        "world_size": plan.world_size,
        "grace": plan.grace,
        "heartbeat_timeout": plan.heartbeat_timeout,
        "min_nodes": plan.min_nodes,
        "files": [{"path": file.path, "text": file.text, "copy_of": file.copy_of} for file in plan.files],
        "sync": [list(argv) for argv in plan.sync],
        "submit": list(plan.batch.submit) if plan.batch else None,
        "steps": [
            {
                "host": step.host,
                "node_rank": step.node_rank,
                "ranks": list(step.ranks),
                "workdir": step.workdir,
                "preload": list(step.preload),
                "container": list(step.container.enter) if step.container else None,
                "env": {name: _plain(value) for name, value in step.env.items()},
                "procs": [
                    {
                        "name": proc.name,
                        "argv": [_plain(word) for word in proc.argv],
                        "env": {name: _plain(value) for name, value in proc.env.items()},
                        "rank": proc.rank,
                        "restarts": proc.restarts,
                    }
                    for proc in step.procs
                ],
            }
            for step in plan.steps
        ],
    }
