"""A rank that was forked from an interpreter with imports behind it cannot tell, and nobody who looks at it can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, SCRIPT

from ddpkit.node.rank import fork_server

# What a script can see of how it was started.
LOOK = """
import atexit, json, multiprocessing, os, signal, sys, threading
import helper_module
OWN = ("DDPKIT_RUN", "TORCHELASTIC_RUN_ID", "MASTER_PORT", "TEST_MARK_OF_DDPKIT")  # another one for each run
class Thing: pass
def work(number): return number * number, Thing.__module__
if __name__ == "__main__":
    main = sys.modules["__main__"]
    threads = threading.active_count()  # before a pool has some
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.map(work, [3])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        forked = pool.map(work, [4])
    seen = {
        "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "flags": str(sys.flags),
        "file": main.__file__, "name": main.__name__, "spec": str(getattr(main.__spec__, "name", None)),
        "package": main.__package__, "loader": type(main.__loader__).__name__,
        "cached": getattr(main, "__cached__", None), "cwd": os.getcwd(),
        "helper": helper_module.__file__, "threads": threads,
        "main_thread": threading.current_thread() is threading.main_thread(),
        "signals": {s.name: str(signal.getsignal(s)) for s in signal.Signals if s not in (9, 19)},
        "env": {k: v for k, v in os.environ.items() if k not in OWN},
        "leader": os.getsid(0) == os.getpid(), "group": os.getpgrp() == os.getpid(),
        "cmdline": open("/proc/self/cmdline").read(), "blocked": [str(s) for s in signal.pthread_sigmask(0, [])],
        "spawned": spawned, "forked": forked, "tty": [os.isatty(n) for n in range(3)],
        "sitecustomize": getattr(sys.modules.get("sitecustomize"), "SITE", None),
        "stdin": sys.stdin.read(),
    }
    atexit.register(lambda: print("atexit ran"))
    with open(f"seen.{os.environ['RANK']}", "w") as file:
        json.dump(seen, file)
"""


def look(ddpkit: DDPKIT, tmp_path: Path, options: list[str], command: list[str], env: dict[str, str]) -> list[Any]:
    done = ddpkit("launch", "-n", "2", *options, "--", *command, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("atexit ran") == 2
    return [json.loads((tmp_path / f"seen.{rank}").read_text()) for rank in range(2)]


@pytest.mark.new_python
@pytest.mark.parametrize("command", [["job.py", "a", "b c"], ["-m", "job", "a"], ["sub/../job.py"]], ids=str)
def test_ranks_see_what_they_would_see_alone(
    command: list[str], ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path
) -> None:
    script(LOOK)
    (tmp_path / "helper_module.py").touch()
    (tmp_path / "sub").mkdir()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("SITE = 'the site has its own'\n")
    env = {"PYTHONPATH": str(site)}
    alone = look(ddpkit, tmp_path, [], command, env)
    forked = look(ddpkit, tmp_path, ["-o", "preload=json,multiprocessing.pool"], command, env)
    assert forked == alone
    # Nor can they see that they can be asked where they are (`rank_hook.py`).
    unasked = look(ddpkit, tmp_path, ["--env", "DDPKIT_DUMP=0"], command, env)
    assert [seen["env"].pop("DDPKIT_DUMP") for seen in unasked] == ["0", "0"]
    assert unasked == alone
    assert forked[0]["sitecustomize"] == "the site has its own"


ERRORS = {
    "raise": "raise ValueError('no')",
    "nested": "def f(): g()\ndef g(): 1 / 0\nf()",
    "cause": "try:\n    {}['x']\nexcept KeyError as error:\n    raise RuntimeError('y') from error",
    "hook": "import sys\nsys.excepthook = lambda *error: print('hooked', error[2].tb_lineno, file=sys.stderr)\n1 / 0",
    "exit with text": "import sys; sys.exit('a reason')",
    "exit 5": "raise SystemExit(5)",
    "exit in thread": "import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()",
    "interrupt": "raise KeyboardInterrupt",
    "syntax": "def (:",
    "os exit": "import os; os._exit(9)",
    "import": "import does_not_exist",
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_end_as_they_would_alone(name: str, ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(ERRORS[name])
    results = []
    for options in ([], ["-o", "preload=json"]):
        done = ddpkit("launch", "-n", "1", *options, "--", "job.py")
        lines = [line for line in done.stderr.splitlines() if line.startswith("[0 ")]
        results.append((done.returncode, lines))
    assert results[0] == results[1]


@pytest.mark.new_python
def test_a_file_that_a_preloaded_module_keeps_is_whole(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("class Table: pass\ndef use(): pass\nfiles = []\n")
    script("import lib\nlib.files.append(open('kept', 'w'))\nlib.files[0].write('whole')\n")
    done = ddpkit("launch", "-n", "1", "-o", "preload=lib", "--", "job.py", env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, (tmp_path / "kept").read_text()) == (0, "whole"), done.stderr


def test_random_numbers_differ_between_ranks(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("import os, random, uuid, tempfile\nprint('is', random.random(), uuid.uuid4(), tempfile.mktemp())")
    done = ddpkit("launch", "-n", "3", "-o", "preload=random,tempfile,uuid", "--", "job.py")
    words = [line.split()[3:] for line in done.stdout.splitlines() if " is " in line]
    assert len(words) == 3
    for column in zip(*words, strict=True):
        assert len(set(column)) == 3


@pytest.mark.new_python
def test_a_module_that_starts_a_thread_is_not_forked(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Its thread would be missing in the ranks: they are started alone instead, and a line says so."""
    (tmp_path / "threaded.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    script("import os, sys, threading\nprint('argv', sys.argv[1:], threading.active_count(), os.environ['RANK'])")
    env = {"PYTHONPATH": str(tmp_path)}
    done = ddpkit("launch", "-n", "2", "-o", "preload=threaded", "--", "job.py", "a b", env=env)
    assert done.returncode == 0, done.stderr
    assert "importing threaded starts threads" in done.stderr
    assert done.stdout.count("argv ['a b'] 1") == 2


# What forks of a CUDA build of torch can see of it (2.11, executed with a stand-in driver): `cudaGetDeviceCount` marks
# them, and NVML does not.
MODEL_OF_CUDA = """
import os
from types import SimpleNamespace
__version__, version = "2.11.0+cu130", SimpleNamespace(cuda="13.0", hip=None)
used = bad = False
def in_child():
    global bad
    bad = used
os.register_at_fork(after_in_child=in_child)
def is_available():
    global used
    used = used or os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") != "1"
    return True
def init():
    global used
    if bad:
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    used = True
cuda = SimpleNamespace(is_available=is_available, init=init, is_initialized=lambda: used)
_C = SimpleNamespace(_cuda_isInBadFork=lambda: bad)
default_generator = SimpleNamespace(seed=lambda: 1)
"""


@pytest.mark.parametrize(
    ("module", "refused"),
    [
        ("import torch\nAVAILABLE = torch.cuda.is_available()\n", False),
        ("import torch\ntorch.cuda.init()\n", True),
        ("import os\nFILE = os.open('/dev/null', os.O_RDONLY)\n", True),  # in place of /dev/kfd
        ("import torch\n", False),
    ],
)
def test_a_module_that_uses_a_gpu_is_not_forked(module: str, refused: bool, tmp_path: Path) -> None:
    """It would poison the forks. A question about the number of GPUs does not."""
    (tmp_path / "torch.py").write_text(MODEL_OF_CUDA)
    (tmp_path / "uses_gpu.py").write_text(module)
    program = f"""
import os, sys
sys.path.insert(0, {str(tmp_path)!r})
sys.stdin.close()
from ddpkit.node.rank import fork_server
fork_server.ROCM_FILE = os.devnull
print(fork_server.import_modules(["uses_gpu"]))
print(os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK"), flush=True)
pid = os.fork()
if pid == 0:
    sys.modules["torch"].cuda.init() if "torch" in sys.modules else None
    os._exit(0)
print(os.waitpid(pid, 0)[1])
"""
    env = {key: value for key, value in os.environ.items() if key != "PYTORCH_NVML_BASED_CUDA_CHECK"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, input="", capture_output=True, text=True, timeout=60, check=False
    )
    first, variable, status = done.stdout.splitlines()
    assert first == ("importing uses_gpu initialises CUDA" if refused else "None"), done.stderr
    assert variable == "None"
    assert refused or status == "0", done.stderr


DRIVER = "int started; int cuInit(int flags) { return !(started = 1); } int cuDeviceGetCount(int *count) "
DRIVER += "{ return started ? 0 : 3; }"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc")
@pytest.mark.parametrize("started", [False, True])
def test_a_library_that_starts_cuda_without_torch_is_not_forked(started: bool, tmp_path: Path) -> None:
    """As CuPy and JAX do. That the driver's library is loaded is harmless, as are the files that NVML holds."""
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-x", "c", "-", "-o", library],
        input=DRIVER,
        text=True,
        check=True,
    )
    (tmp_path / "uses_gpu.py").write_text(
        f"import ctypes\ndriver = ctypes.CDLL({str(library)!r})\n" + "driver.cuInit(0)\n" * started
    )
    program = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nfrom ddpkit.node.rank import fork_server\n"
    program += 'print(fork_server.import_modules(["uses_gpu"]))'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ("importing uses_gpu initialises CUDA\n" if started else "None\n"), done.stderr


def test_a_module_that_is_missing_is_the_scripts_own_error(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("print('never mind')")
    done = ddpkit("launch", "-n", "2", "-o", "preload=does_not_exist", "--", "job.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("never mind") == 2
    assert "-o preload cannot import does_not_exist" in done.stderr


def test_the_hook_does_nothing_by_itself() -> None:
    """Imported without the supervisor's variable, it neither forks nor touches anything."""
    folder = Path(fork_server.__file__).parent
    look = "import os, sys; sys.path.insert(0, sys.argv[1]); before = list(sys.path), dict(os.environ); "
    look += "import fork_server; assert (sys.path, dict(os.environ)) == before; print('alone')"
    done = subprocess.run([sys.executable, "-c", look, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout == "alone\n"


TORCH = """
import os, random
import numpy, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.tensor([index, os.getpid()])
if __name__ == "__main__":
    torch.distributed.init_process_group("gloo")
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    assert total.item() == 2
    rows = [row for batch in DataLoader(Data(), batch_size=2, num_workers=2) for row in batch.tolist()]
    assert [row[0] for row in rows] == list(range(8))
    assert len({row[1] for row in rows}) == 2 and os.getpid() not in {row[1] for row in rows}
    spawned = DataLoader(Data(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    assert len(list(spawned)) == 2
    print("is", numpy.random.rand(), torch.initial_seed(), (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item())
    torch.distributed.destroy_process_group()
"""


@pytest.mark.torch
def test_torch_workers_and_seeds(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(TORCH)
    forked = ddpkit("launch", "-n", "2", "-o", "preload=true", "--", "job.py")
    assert forked.returncode == 0, forked.stderr
    words = [line.split()[3:] for line in forked.stdout.splitlines() if " is " in line]
    assert len({word[0] for word in words}) == 2  # NumPy's generator is seeded anew in each rank
    assert len({word[1] for word in words}) == 2  # and so is torch's
    assert [word[2] for word in words] == ["262144.0"] * 2
