"""Settings as keywords: what a caller gives becomes settings, and errors name keywords in place of flags."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ddpkit import config
from ddpkit.errors import DdpkitError, UsageError, nearest

if TYPE_CHECKING:
    from typing_extensions import Unpack

_P = ParamSpec("_P")
_T = TypeVar("_T")
_FLAG = re.compile(r"(?<![\w-])(-[nNbo]|--[a-z][a-z-]*)(?:[ =]([^\s,;-][^\s,;]*))?")
_LOADING = "ddpkit_function_loading"  # `LOADING` of `node/rank/function_call.py`
_CALLS = ("detach", "full", "on", "profile", "quick", "ranks", "survey", "timeout")  # their own parameters
_NAMES = {flag: name for name, each in config.SETTINGS.items() for flag in each.spellings}


class Role:
    """One program of a run, for `launch(roles={"infer": Role(...)})`.

    `command`: a script or a program with its arguments; `{port}` is a port that is free on its node, and `{infer.urls}`
    stands for the addresses of another role. `replicas`: parts that run by themselves, each on its own nodes; a role
    that does not end the run has one on each node. `after`: roles that must be ready first. `ends_run`: the run ends
    when all such roles have ended. `ready`: "tcp", "http:/health" or "line: a regular expression", and `ready_timeout`
    the time for it: "20m". `restart`: how often one replica starts again by itself. `beside`: the role whose nodes it
    shares; `gpus`, `cpus`: how many of each node's. Any setting of a launch can be given, and holds for the role.

        ddpkit.Role("serve.py --port {port}", nnodes=2, ready="http:/health", restart=2)
        ddpkit.Role(["train.py", "--servers", "{infer.urls}"], after=["infer"], ends_run=True, nproc_per_node=8)
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        replicas: int | None = None,
        after: Sequence[str] | None = None,
        ends_run: bool | None = None,
        ready: str | None = None,
        ready_timeout: float | str | None = None,
        restart: int | None = None,
        beside: str | None = None,
        gpus: int | None = None,
        cpus: int | None = None,
        **settings: Unpack[config.LaunchKeywords],
    ) -> None:
        own = {
            "replicas": replicas,
            "after": after,
            "ends_run": ends_run,
            "ready": ready,
            "ready_timeout": ready_timeout,
            "restart": restart,
            "beside": beside,
            "gpus": gpus,
            "cpus": cpus,
        }
        given: dict[str, object] = {"command": command, **own, **settings}
        self.table = {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"ddpkit.Role({', '.join(f'{name}={value!r}' for name, value in self.table.items())})"


def names_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let errors name keywords instead of flags."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except DdpkitError as error:
            error.rephrase(message_in_keywords(error.message), error.hint and hint_in_keywords(error.hint))
            raise

    return call


def lists_settings(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let the signature, which a notebook shows, list the settings. Keywords of another function stay behind them."""
    signature = inspect.signature(function)
    *own, others = signature.parameters.values()
    settings = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in config.LaunchKeywords.__annotations__.items()
    ]

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return function(*args, **kwargs)

    parameters = [*own, *settings, *([others] if others.name == "keywords" else [])]
    vars(call)["__signature__"] = signature.replace(parameters=parameters)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__annotations__["return"] = signature.return_annotation
    return call


def takes_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let errors name keywords instead of flags, and the signature list the settings."""
    return lists_settings(names_keywords(function))


def message_in_keywords(text: str) -> str:
    """Name keywords in a message: `--retries has no effect` is `retries has no effect`."""
    text = re.sub(r"(?<![\w-])-o (?=\w+=)", "options: ", text)
    parts = re.split(r"""('[^']*'|"[^"]*")""", text)  # what is in quotes was typed by the user
    parts[::2] = [re.sub(r"(?<![\w-])(-[nNb]|--[a-z][a-z-]*)(?![\w-])", _as_keyword, part) for part in parts[::2]]
    return "".join(parts)


def _as_keyword(flag: re.Match[str]) -> str:
    name = _name(flag[1])
    return name if _is_known(name) else flag[0]


def hint_in_keywords(hint: str) -> str:
    """Write a hint in Python: `add --spares 1` is `add spares=1`. A command of the shell stays as it is."""
    words = hint.removeprefix("add ")
    if not words.startswith(("-", "HOST")):
        return hint
    hosts = re.search(r"(?:(?:^| )HOST)+$", words)
    shown = [_FLAG.sub(_argument, words[: hosts.start()] if hosts else words)]
    if hosts:
        shown.append(f"hosts={json.dumps(hosts[0].split())}")
    return ("add " if words != hint else "") + ", ".join(filter(None, shown))


def _argument(match: re.Match[str]) -> str:
    """Write a flag and its value as a keyword: `--no-hold` is `hold=False`, `-o time=9` is `options={"time": "9"}`."""
    flag, text = match.groups()
    name, negated = _name(flag.replace("--no-", "--")), flag.startswith("--no-")
    key, equals, inner = (text or "").partition("=")
    if flag in ("-o", "--env") and equals:
        return f"{name}={json.dumps({key: inner})}"
    is_number = text is not None and re.fullmatch(r"[\d.]+", text)
    value = str(not negated) if text is None else text if is_number else json.dumps(text)
    return f"{name}={value}" if _is_known(name) else f'options={{"{name}": {value}}}'


def _is_known(name: str) -> bool:
    return name in config.LaunchKeywords.__annotations__ or name in _CALLS


def _name(flag: str) -> str:
    return _NAMES.get(flag) or flag.lstrip("-").replace("-", "_")


def settings_from(
    script: str | os.PathLike[str] | None, args: Sequence[str], profile: str | None, given: config.LaunchKeywords
) -> config.LaunchSettings:
    """Combine keywords with the environment and the file of the project. Raises UsageError."""
    if _LOADING in sys.modules:
        what = "a module that a rank loads for its function would start a run, in each rank, and so on"
        raise UsageError(what, 'put it below: if __name__ == "__main__":')
    for name in given:
        if name not in config.LaunchKeywords.__annotations__:
            known = f"settings: {', '.join(config.LaunchKeywords.__annotations__)}"
            raise UsageError(f"unknown setting {name!r}", nearest(name, config.LaunchKeywords.__annotations__) or known)
    keywords: config.Keywords = {**given, "script": _script_words(script, args)}
    keywords["hosts"] = given.get("hosts") or None
    chosen = config.collect_settings(config.current_folder(), os.environ, profile, keywords, source="keyword")
    return config.choose_python(chosen, os.environ)


def with_roles(chosen: config.LaunchSettings, roles: Mapping[str, Role] | None) -> config.LaunchSettings:
    """Return settings with the roles of the caller, if any. Raises UsageError."""
    if roles is None:
        return chosen
    example = 'ddpkit.launch(roles={"train": ddpkit.Role("train.py", ends_run=True)})'
    if not isinstance(roles, Mapping) or not all(isinstance(name, str) for name in roles):
        raise UsageError(f"roles={roles!r} is not a dict of roles by their names", example)
    for name, role in roles.items():
        if not isinstance(role, Role):
            raise UsageError(f"roles: {name} is {role!r}, and not a ddpkit.Role", example)
    return replace(chosen, roles={name: role.table for name, role in roles.items()}, roles_from="launch()")


def _script_words(script: object, args: object) -> list[str] | None:
    """Check a script and its arguments, which may be anything in a program. None: neither is given."""
    example = 'ddpkit.launch("train.py", ["--epochs", "3"])'
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise UsageError(f"args={args!r} is no list of words", example)
    if script is None:
        if args:
            raise UsageError("arguments were given, and no script", 'ddpkit.launch("train.py", [...])')
        return None
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in (script, *args)]
    if not isinstance(words[0], str):
        raise UsageError(f"script={script!r} is not the name of a program", example)
    for word in words[1:]:
        if not isinstance(word, str):
            raise UsageError(f"args: {word!r} is not text", f"{str(word)!r}")
    return words
