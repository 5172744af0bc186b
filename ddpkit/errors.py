"""Every error that ddpkit raises on purpose, with the exit code that the command line returns for it.

| code    | error          | meaning                                                                    |
|---------|----------------|----------------------------------------------------------------------------|
| 0       |                | success                                                                    |
| 121     | UsageError     | the request is wrong; nothing was started                                  |
| 122     | PreflightError | a check failed, and nothing was started; also `test`, `bench` and `drill`  |
| 123     | LaunchError    | a node cannot be reached, or it or the scheduler refused to start the run  |
| 124     |                | no progress: `hang_action = "end"` ended the run                           |
| 125     | DdpkitError    | any other error of ddpkit; also EnvError, and a node that was lost         |
| 128 + n |                | signal n ended the first failing rank, the run or ddpkit                   |
| other   |                | exit code of the first failing rank, unchanged                             |

`ddpkit attach` exits with the code of its run, as the launch did; 0 where the run continues, 125 where its code is not
known. `status`, `ps`, `logs` and `stop` exit with 0 also if the run failed: they report it. For a script:
`ddpkit status RUN --json` has `exit_code`.

A run that started and failed is a value, not an exception. Scripts seldom use 121 to 125, so a shell can tell the two
apart; ddpkit never changes a script's code.

The message contains the failure and its value. `hint` is the next command, or the next thing to change.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable

NO_PROGRESS = 124  # as timeout(1)
AGAIN = 75  # EX_TEMPFAIL: a rank that saved and asks to be started again; what train.py exits with
# More is a slip of the finger: to write the plan down would take minutes, and the node all that it has.
MOST_RANKS = 4096  # on one node
MOST_NODES = 65536
MOST_PORT = 65535
# Options of `ddpkit launch` that hardly a script has.
OWN_OPTIONS = frozenset(
    "--detach --dry-run --hang-timeout --hostfile --nnodes --no-preflight --nproc-per-node --preload --retries "
    "--spares --stage --starter --sync".split()
)

LIMIT_REACHED = "the limit for your processes and threads is reached"
LIMIT_FIX = "ulimit -u; ps -L -u $USER; end other processes, raise the limit, or launch from another host"
NO_THREAD = "can't start new thread"  # in Python's RuntimeError
# Tokens of Hugging Face, GitHub, GitLab, OpenAI and Anthropic, Slack, AWS, Google, npm, PyPI, a JWT, a private key;
# a user with a password in a URL, also in one that was taken for a path (`https:/`).
SECRET_FORMS = (
    r"(?<![A-Za-z0-9])(?:hf_|gh[pousr]_|github_pat_|glpat-|npm_|pypi-|dckr_pat_|sk-|xox[a-z]-|xapp-|AIza|SG\.)[\w.-]{8,}|"
    r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{8,}|(?<![\w-])eyJ[\w-]{6,}\.[\w-]{4,}|-----BEGIN [A-Z ]*PRIVATE KEY|"
    r"hooks\.slack\.com/|(?:://|https?:/)[^\s/:@]*:[^\s@]{1,1024}@|://[^\s/:@]{16,}@"
)
# A value of an option or a variable: `--max-tokens=4096` and `--token=none` are no secrets.
_SECRET_NAMED = r"(?i)((?:password|passwd|secret|token|api[_-]?key)=)(?!\d+(?!\S))[\w.+~-]{12,}"

_OWN_LINE = re.compile(r"(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=(?:hint|ddpkit): )")  # behind the first one


class DdpkitError(Exception):
    """An error with an explanation, an exit code, and a hint that names the next step."""

    exit_code = 125

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.rephrase(message, hint)

    def rephrase(self, message: str, hint: str | None) -> None:
        """Replace the texts. Secrets in them are masked: errors stand in logs of others.

        A value in them, such as a host of a file, writes no line that looks like one of ddpkit's own.
        """
        self.message = _OWN_LINE.sub("> ", hide_in_text(message))
        self.args = (self.message,)
        self.hint = hint = hint and _OWN_LINE.sub("> ", hide_in_text(hint))
        self.__notes__ = [f"hint: {hint}"] if hint else []  # the end of a traceback, from Python 3.11 on


class UsageError(DdpkitError):
    """The request is wrong. Nothing was started."""

    exit_code = 121


class PreflightError(DdpkitError):
    """A check before the start failed. Nothing was started."""

    exit_code = 122


class LaunchError(DdpkitError):
    """A node cannot be reached, or a node or the scheduler refused to start the run."""

    exit_code = 123


class RankError(DdpkitError):
    """A rank of `ddpkit.call` raised an exception, or ended without a value.

    `kind` is the name of the exception, such as `ValueError`; `traceback` its text. Both are empty where the rank was
    killed. `verdict` is the failure of the run in one sentence.
    """

    def __init__(
        self, *, host: str, rank: int, kind: str, reason: str, traceback: str, verdict: str, run_id: str, exit_code: int
    ) -> None:
        words = f"rank {rank} on {host}: {f'{kind}: ' if kind else ''}{reason}".rstrip()
        super().__init__(f"{words}\n{traceback}".rstrip(), f"ddpkit explain {run_id}")
        self.host, self.rank, self.kind, self.reason = host, rank, kind, reason
        self.traceback, self.verdict, self.run_id, self.exit_code = traceback, verdict, run_id, exit_code


class EnvError(DdpkitError):
    """The environment of a rank is incomplete or contradicts itself."""


def install(program: str) -> str:
    """The command that installs a program on this machine."""
    import shutil

    manager = next(filter(shutil.which, ("apt-get", "dnf", "zypper", "brew")), "apt-get")
    return f"{manager} install {program}"


def install_for(python: str, package: str, *, sealed: bool) -> str:
    """Return the command that installs a package for a Python, both words of a shell.

    `sealed`: pip refuses to install there (PEP 668), or cannot write. Then the package gets an environment of its own.
    """
    if not sealed:
        return f"{python} -m pip install {package}"
    return f"{python} -m venv ~/torch-venv && ~/torch-venv/bin/pip install {package}"


USE_VENV = ", then --python ~/torch-venv/bin/python"  # after that command


def hide_in_text(text: str) -> str:
    """Return a text for people with `***` in place of what has the form of a secret."""
    text = re.sub(SECRET_FORMS, _without_secret, text)
    return re.sub(_SECRET_NAMED, r"\1***", text)


def _without_secret(match: re.Match[str]) -> str:
    before, colon, _ = match[0].partition(":/")
    return f"{before}://***@" if colon else "***"


def no_folder(error: OSError) -> UsageError:
    """No directory for temporary files can be created: all are full, or not writable."""
    where = f"{error.filename}: " if error.filename else ""
    what = f"cannot create a directory for temporary files: {where}{error.strerror or error}"
    return UsageError(what, "df /tmp, or TMPDIR=DIR ddpkit ...")


def no_thread() -> LaunchError:
    """This user, or container, may start nothing more here: one thread or two are needed for each node."""
    return LaunchError(f"no more threads can be started on this machine: {LIMIT_REACHED}", LIMIT_FIX)


def no_process(error: OSError) -> LaunchError:
    """No process can be started on this machine, most often for a limit of this user or this shell."""
    if error.errno == errno.EAGAIN:
        return no_thread()
    what = f"cannot start a process on this machine: {error.strerror}"
    return LaunchError(what, "ulimit -n $(ulimit -Hn)" if error.errno == errno.EMFILE else "dmesg | tail")


def similar(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant, or None. Leading dashes and `.py` do not count."""
    import difflib

    known = {_bare(each): each for each in words}
    matches = difflib.get_close_matches(_bare(word), list(known), n=1, cutoff=0.75)
    return known[matches[0]] if matches else None


def _bare(word: str) -> str:
    return re.sub(r"(?<=\w)\.py\w?$", "", word.lstrip("-"))


def nearest(word: str, words: Iterable[str]) -> str | None:
    """`did you mean ...?`, or None where nothing is similar."""
    meant = similar(word, words)
    return f"did you mean {meant!r}?" if meant else None
