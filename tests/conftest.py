"""What every test may use: the command line as users run it, and a look at what is left of a run."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import hints
import keeper
import pytest
from cluster import Lab, missing
from hang_limit import pytest_runtest_protocol  # noqa: F401 - a hook
from hypothesis import HealthCheck, settings
from launching import folder, launch  # noqa: F401 - fixtures
from program import MARK as MARK
from program import PATIENCE as PATIENCE
from program import Program, run_to_end, undo_ignored_signals, wait_until
from program import marked as marked
from warm_python import run_ddpkit

# How long an example takes says more of the machine than of us.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

undo_ignored_signals()


class Command(Program):
    """One running `ddpkit`, with its output as it comes. Every process below it carries a mark of its own."""

    def __init__(self, args: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.mark = secrets.token_hex(8)
        super().__init__([sys.executable, "-m", "ddpkit", *args], cwd=cwd, env={**env, MARK: self.mark})

    def survivors(self) -> dict[int, str]:
        """Every living process that descends from this command, wherever it moved to."""
        return marked(self.mark)

    def supervisors(self) -> tuple[int, int]:
        """The process ids of the guard and of the supervisor proper, on this machine."""
        parents = {}
        for pid, words in self.survivors().items():
            if "import supervisor" in words:
                with suppress(OSError):  # a call that is over
                    parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        # Numbers do not tell: after the largest process id comes a small one. A call about the ranks is a child of the
        # supervisor proper.
        (worker,) = (pid for pid, parent in parents.items() if parent in parents and parents[parent] not in parents)
        guard = parents[worker]
        return guard, worker

    def wait_for_no_survivor(self, seconds: float = PATIENCE) -> None:
        """Wait until nothing of this command lives; the test fails with the names of what does."""
        wait_until(lambda: not self.survivors(), lambda: f"left behind: {self.survivors()}\n{self.text}", seconds)

    def clean_up(self) -> None:
        for pid in self.survivors():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(PATIENCE)


# Types of the fixtures `ddpkit`, `start` and `script`.
DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
START = Callable[..., Command]
SCRIPT = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def _keeper() -> None:
    """However this process ends, Ctrl-C and the impatience of its controller included, nothing of it goes on."""
    keeper.start()


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The runs of tests are not the user's, and no known failures of theirs are in the catalogue."""
    names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME")
    before = {name: os.environ.get(name) for name in names}
    os.environ |= {name: str(tmp_path_factory.mktemp("state")) for name in names}
    yield
    for name, value in before.items():
        del os.environ[name]
        if value is not None:
            os.environ[name] = value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A command that runs in the process of the tests changes its signals: programs of later tests inherit them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        return (yield)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture
def clean_environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """This environment without what a launcher, a scheduler or a user's habit may have put into it."""
    prefixes = ("DDPKIT_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "NCCL_", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_")
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONPATH")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(prefixes) and k not in names}
    state = tmp_path_factory.mktemp("state")  # outside of the test's own folder, in which tests count files
    return {**kept, "NO_COLOR": "1", "DDPKIT_GPUS": "0", "XDG_STATE_HOME": str(state)}


@pytest.fixture
def own_place(tmp_path: Path, clean_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is in the test's own folder, with a clean environment: it calls the API itself."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(clean_environ):
        if not name.startswith("PYTEST_"):
            monkeypatch.delenv(name)
    for name in ("XDG_STATE_HOME", "DDPKIT_GPUS"):
        monkeypatch.setenv(name, clean_environ[name])


@pytest.fixture
def start(tmp_path: Path, clean_environ: dict[str, str]) -> Iterator[Callable[..., Command]]:
    """Start `ddpkit ARGS` in a folder of its own; what it leaves behind is ended after the test."""
    commands: list[Command] = []

    def run(*args: str, cwd: Path = tmp_path, env: dict[str, str] | None = None) -> Command:
        commands.append(Command(list(args), cwd, {**clean_environ, **(env or {})}))
        return commands[-1]

    yield run
    for command in commands:
        command.clean_up()


@pytest.fixture
def ddpkit(
    tmp_path: Path, clean_environ: dict[str, str], request: pytest.FixtureRequest
) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run `ddpkit ARGS` to its end, standard output and standard error apart. A hint of an error is run as well.

    The process is forked from one that has imported ddpkit. A test with the mark `new_python` starts Python.
    """

    wrong: list[str] = []

    def run(*args: str, cwd: Path = tmp_path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        environ = {**clean_environ, **(env or {})}

        def try_hint(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            if command[0] == "ddpkit":
                return run_ddpkit(command[1:], env=environ, cwd=cwd, timeout=PATIENCE)
            return run_to_end(command, env=environ, cwd=cwd)

        if request.node.get_closest_marker("new_python") is None:
            done = try_hint(["ddpkit", *args])
            if done.returncode and args:
                wrong.extend(hints.problems(args, done.stderr, try_hint))
            return done
        return run_to_end(
            [sys.executable, "-m", "ddpkit", *args],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            errors="surrogateescape",
        )

    yield run
    assert not wrong, "hints that do not help"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a Python script into the test's folder. Returns its name."""

    def write(text: str, name: str = "job.py") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


# ---- the lab: one for all tests of a session. Where none can stand, its tests are skipped; in CI that is a failure.

REASON = missing()
LIVE = {"start", "ddpkit"}  # fixtures that start ddpkit as a program
COSTS = {"lab": 6.0, "torch": 5.0, "live": 2.0}  # seconds of a test with this mark, roughly
SLOW_FIXTURES = {"test_packaging.py", "test_site.py", "test_typed_walls.py"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Those need other libraries: `make test-interop`. The others' summary counts them as deselected.
    named = any("tests/interop" in str(word) for word in config.invocation_params.args)
    asked = named or "interop" in config.getoption("markexpr")
    others = [item for item in items if not asked and item.get_closest_marker("interop")]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    here = Path(__file__).parent / "lab"
    seconds = {item.path: 60.0 * (item.path.name in SLOW_FIXTURES) for item in items}  # of a file, roughly
    for item in items:
        for mark in item.iter_markers("thorough_for"):
            if isinstance(item, pytest.Function) and item.callspec.id in mark.args:
                item.add_marker(pytest.mark.thorough)
        if LIVE.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.live)
        if here in item.path.parents or item.get_closest_marker("interop"):
            item.add_marker(pytest.mark.lab)
            if REASON is not None and not os.environ.get("CI"):
                item.add_marker(pytest.mark.skip(reason=REASON))
        thorough = item.get_closest_marker("thorough")
        taken = [cost for mark, cost in COSTS.items() if not thorough and item.get_closest_marker(mark)]
        seconds[item.path] += max(taken, default=0.02)
    # Workers take whole files, and a long one that is taken last is waited for alone.
    items.sort(key=lambda item: -seconds[item.path])


@contextmanager
def lab_up(*, cgroups: bool = False) -> Iterator[Lab]:
    """Four nodes and a login host, idle. The folder is shared by all of them."""
    assert REASON is None, REASON
    shared = Path(tempfile.mkdtemp(prefix=keeper.TEMPORARY))
    cluster = Lab(shared, cgroups=cgroups)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(shared, ignore_errors=True)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    with lab_up() as cluster:
        yield cluster


@pytest.fixture
def idle_lab(lab: Lab) -> Iterator[Lab]:
    """The lab with no job in it, before and after the test."""
    lab.wait_idle()  # a job of a test before this one may still be completing, and keep its nodes
    yield lab
    lab.run("login", "scancel", "--quiet", "--user", "root", check=False)
    lab.wait_idle()


@pytest.fixture
def bare(lab: Lab, tmp_path: Path) -> Iterator[Any]:
    """A `Bare`: the lab's nodes as ones that are reached by ssh. What a test does to them is undone."""
    from bare_nodes import Bare  # which imports this module

    made = Bare(lab, tmp_path)
    try:
        yield made
    finally:
        made.undo()
