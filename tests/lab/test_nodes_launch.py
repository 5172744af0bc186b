"""`ddpkit launch` on nodes that are reached by ssh and pdsh: what every rank is told, and what nobody else can see."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import Lab
from conftest import PATIENCE
from hostile import ARGS, ENV, PROBE
from launching import mostly

ROOT = Path(__file__).parents[2]
DDPKIT = [sys.executable, "-m", "ddpkit"]
torch = pytest.mark.torch
Launch = Callable[..., "subprocess.CompletedProcess[str]"]
# Every way in, with every way to start ranks there.
WAYS = [
    pytest.param(["-b", "ssh", "-o", "starter=ranks"], id="ssh-ranks"),
    pytest.param(["-b", "pdsh", "-o", "starter=ranks"], id="pdsh-ranks"),
    pytest.param(["-b", "ssh"], id="ssh-torchrun", marks=torch),
    pytest.param(["-b", "pdsh"], id="pdsh-torchrun", marks=torch),
    pytest.param(["-b", "legacy"], id="legacy", marks=torch),
]
QUICK = WAYS[:2]

WHO = """
import json, os, sys
names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK MASTER_ADDR MASTER_PORT".split()
seen = {name: os.environ.get(name) for name in names + sys.argv[2:]}
seen.update(host=os.uname().nodename, cwd=os.getcwd(), python=sys.executable)
with open(f"{sys.argv[1]}/who.{seen['RANK']}", "w") as file:
    json.dump(seen, file)
"""


@pytest.fixture
def launch(lab: Lab, tmp_path: Path) -> Launch:
    """Run `ddpkit launch ARGS` on the login host to its end."""

    def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return lab.run(
            "login",
            *DDPKIT,
            "launch",
            *args,
            cwd=tmp_path,
            env={"NO_COLOR": "1", "PYTHONPATH": str(ROOT), **(env or {})},
            check=False,
            timeout=PATIENCE,
        )

    return run


def who(folder: Path) -> dict[int, dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in folder.glob("who.*")]
    return {int(seen["RANK"]): seen for seen in found}


@pytest.mark.parametrize("way", WAYS)
def test_ranks_on_two_nodes_with_every_word_and_every_value(way: list[str], launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WHO.replace("sys.argv[1]", "'.'").replace("sys.argv[2:]", "[]") + PROBE)
    env = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    done = launch(*way, "node1", "node2", "-n", "2", *env, "--", "job.py", *ARGS)
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        assert json.loads((tmp_path / f"seen.{rank}").read_text()) == {"argv": ARGS, "env": ENV}
    seen = who(tmp_path)
    assert [seen[rank]["host"] for rank in range(4)] == ["node1", "node1", "node2", "node2"]
    for rank in range(4):
        got = seen[rank]
        assert (got["WORLD_SIZE"], got["LOCAL_RANK"], got["LOCAL_WORLD_SIZE"]) == ("4", str(rank % 2), "2")
        assert (got["NODE_RANK"], got["GROUP_RANK"], got["MASTER_ADDR"]) == (
            str(rank // 2),
            str(rank // 2),
            "10.77.0.1",
        )
        assert got["MASTER_PORT"] == seen[0]["MASTER_PORT"]
    assert "4 ranks on node1, node2" in done.stderr


@pytest.mark.parametrize("way", QUICK)
def test_uneven_slots_and_what_holds_on_one_host(way: list[str], launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WHO)
    other = tmp_path / "other place"
    other.mkdir()
    (other / "job.py").write_text(WHO)
    (tmp_path / "hosts.txt").write_text("node3 slots=1\nnode1 slots=3  # rank 0 is on node3\nnode2 slots=2\n")
    (tmp_path / "ddpkit.toml").write_text(
        f'[host.node2]\nworkdir = "{other}"\nenv = {{ NCCL_SOCKET_IFNAME = "ib0", WORD = "a b" }}\n'
    )
    done = launch(
        *way, "--hostfile", "hosts.txt", "--env", "NCCL_SOCKET_IFNAME=eth0", "--",
        "job.py", str(tmp_path), "NCCL_SOCKET_IFNAME", "WORD",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = who(tmp_path)
    assert [seen[rank]["host"] for rank in range(6)] == ["node3", "node1", "node1", "node1", "node2", "node2"]
    assert [seen[rank]["LOCAL_RANK"] for rank in range(6)] == ["0", "0", "1", "2", "0", "1"]
    assert [seen[rank]["LOCAL_WORLD_SIZE"] for rank in range(6)] == ["1", "3", "3", "3", "2", "2"]
    assert {seen[rank]["MASTER_ADDR"] for rank in range(6)} == {"10.77.0.3"}
    assert [seen[rank]["NCCL_SOCKET_IFNAME"] for rank in (0, 1, 4, 5)] == ["eth0", "eth0", "ib0", "ib0"]
    assert [seen[rank]["WORD"] for rank in (0, 4)] == [None, "a b"]
    assert [seen[rank]["cwd"] for rank in (0, 4)] == [str(tmp_path), str(other)]


@pytest.mark.parametrize("way", QUICK)
def test_nodes_by_pattern_group_and_count(way: list[str], launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WHO)
    (tmp_path / "ddpkit.toml").write_text('[groups]\nall = ["node[4,2]", "root@node1:22", "10.77.0.3"]\n')
    done = launch(*way, "@all", "-o", "exclude=node2", "-n", "1", "--", "job.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert [seen["host"] for _, seen in sorted(who(tmp_path).items())] == ["node4", "node1", "node3"]
    for path in tmp_path.glob("who.*"):
        path.unlink()
    assert launch(*way, "@all", "-N", "2", "-n", "1", "--", "job.py", str(tmp_path)).returncode == 0
    assert [seen["host"] for _, seen in sorted(who(tmp_path).items())] == ["node4", "node2"]


@pytest.mark.parametrize("way", [*QUICK, pytest.param(["-b", "ssh", "--sync", "-o", "starter=ranks"], id="sync")])
def test_secrets_are_nowhere_to_be_read(way: list[str], lab: Lab, tmp_path: Path) -> None:
    """Not in any command line, on either side, while the run lives; not in logs, records or dry runs."""
    (tmp_path / "job.py").write_text(
        "import os, time\nassert os.environ['WANDB_API_KEY'] == 'v-secret-1'\n"
        "assert os.environ['MY_TOKEN'] == 'v-secret-2'\n"
        "assert os.environ['RANK'] == '0' or os.environ['DB_PASSWORD'] == 'v-secret-3'\n"
        "open('up.' + os.environ['RANK'], 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
    )
    # What holds on one host alone is no less secret.
    (tmp_path / "ddpkit.toml").write_text('[host.node2.env]\nDB_PASSWORD = "v-secret-3"\n')
    env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT), "WANDB_API_KEY": "v-secret-1", "MY_TOKEN": "v-secret-2"}
    argv = [*DDPKIT, "launch", *way, "node1", "node2", "-n", "1", "--env", "MY_TOKEN"]
    argv += ["--env", "WANDB_API_KEY", "--", "job.py"]
    shown = lab.run("login", *argv[:4], "--dry-run", *argv[4:], cwd=tmp_path, env=env).stdout
    assert "v-secret" not in shown
    process = subprocess.Popen(
        lab.argv("login", argv, tmp_path),
        env={**lab.environ(), **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until = time.monotonic() + PATIENCE
    while not ((tmp_path / "up.0").exists() and (tmp_path / "up.1").exists()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.02)
    lines = [line for host in ("node1", "node2", "login") for line in lab.processes(host).values()]
    assert any("job.py" in line for line in lines)
    assert not [line for line in lines if "v-secret" in line]
    (tmp_path / "go").touch()
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out
    kept = "".join(path.read_text(errors="replace") for path in (tmp_path / "logs").rglob("*") if path.is_file())
    assert "v-secret" not in out + kept


def test_nothing_is_passed_on_that_was_not_named(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WHO)
    names = ["NCCL_DEBUG", "HF_TOKEN", "WANDB_API_KEY", "EDITOR", "CUDA_VISIBLE_DEVICES", "PYTHONPATH"]
    env = {name: f"of-{name}" for name in names[:-1]}
    way = ["-b", "ssh", "node1", "-n", "1", "-o", "starter=ranks", "--env", "NCCL_DEBUG"]
    done = launch(*way, "--", "job.py", str(tmp_path), *names, env=env)
    assert done.returncode == 0, done.stderr
    seen = who(tmp_path)[0]
    assert [seen[name] for name in names] == ["of-NCCL_DEBUG", *[None] * 5]
    line = "not forwarded to the nodes: HF_TOKEN, WANDB_API_KEY, PYTHONPATH"
    assert done.stderr.count(line) == 1, done.stderr
    assert "--env HF_TOKEN --env WANDB_API_KEY" in done.stderr


@pytest.mark.parametrize("way", QUICK)
def test_a_dry_run_starts_nothing_and_is_a_script(way: list[str], lab: Lab, launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WHO)
    args = [*way, "node[1-2]", "-n", "2"]
    done = launch(*args, "--dry-run", "--", "job.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("who.*"))
    assert not (tmp_path / "logs").exists()
    (tmp_path / "by_hand.sh").write_text(done.stdout)
    lab.run("login", "sh", "by_hand.sh", cwd=tmp_path)
    assert [seen["host"] for _, seen in sorted(who(tmp_path).items())] == ["node1", "node1", "node2", "node2"]
    plan = json.loads(launch(*args, "--dry-run", "--json", "--", "job.py", str(tmp_path)).stdout)
    assert [step["host"] for step in plan["steps"]] == ["node1", "node2"]


ELASTIC = """
import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print("up", rank, "of", world, flush=True)
open(f"up.{world}.{rank}", "w").close()
dies = sys.argv[1:] == [str(rank)]
while True:
    # [ranks, ranks that say enough]: all see the same, and end together
    total = torch.tensor([1.0, float(world < 3 if len(sys.argv) == 1 else dies and attempt != "0")])
    dist.all_reduce(total)
    if dies and attempt == "0":
        os._exit(9)
    if total[1] > 0:
        break
    time.sleep(0.1)
print("sum", total[0].item(), flush=True)
dist.barrier()
os._exit(0)
"""


@torch
def test_failed_ranks_are_started_again_on_all_nodes(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(ELASTIC)
    done = launch("-b", "ssh", "node1", "node2", "-n", "1", "-o", "max_restarts=3", "--", "job.py", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("] sum 2.0") == 2
    assert done.stdout.count("] up ") >= 4
    (again,) = [line for line in done.stderr.splitlines() if line.startswith("ddpkit: restart ")]
    assert re.match(r"ddpkit: restart 1 of 3: rank \d on node\d failed: ", again)


ONE_AFTER_THE_OTHER = """
import os, sys, time
from pathlib import Path
Path("up." + os.environ["RANK"]).touch()
while len(list(Path().glob("up.*"))) < 2:
    time.sleep(0.02)
if os.uname().nodename == "node2":
    time.sleep(1)  # node1 has ended: there is nobody who could say so
    sys.exit(9)
"""


@torch
@pytest.mark.parametrize("words", [["-o", "max_restarts=3"], ["-N", "1:2"]])
def test_a_failure_after_another_node_has_finished_is_told_in_seconds(
    words: list[str], launch: Launch, tmp_path: Path
) -> None:
    """torchrun waits for that node to join again, in silence, for 300 s: longer than a test waits."""
    (tmp_path / "job.py").write_text(ONE_AFTER_THE_OTHER)
    done = launch("-b", "ssh", "node1", "node2", "-n", "1", "-o", "starter=torchrun", *words, "--", "job.py")
    assert done.returncode == 9, done.stdout + done.stderr
    assert "cannot be restarted: all ranks of node1 have succeeded" in done.stderr


@torch
@pytest.mark.parametrize("backend", mostly(["ssh", "pdsh"], "ssh"))
def test_an_elastic_run_goes_on_when_a_node_is_lost(backend: str, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(ELASTIC)
    args = ["-b", backend, "node[1-3]", "-N", "2:3", "-n", "1", "-o", "heartbeat_timeout=10"]
    process = subprocess.Popen(
        lab.argv("login", [*DDPKIT, "launch", *args, "--", "job.py"], tmp_path),
        env={**lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        until = time.monotonic() + PATIENCE
        while len(list(tmp_path.glob("up.3.*"))) < 3:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.05)
        lab.cut("node3")
        out, _ = process.communicate(timeout=PATIENCE)
    finally:
        lab.mend("node3")
        process.kill()
    assert process.returncode == 0, out
    assert re.search("lost node3: .*; the run continues with 2 nodes", out), out
    assert out.count("] sum 2.0") == 2


def test_the_folder_is_copied_to_nodes_that_do_not_have_it(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WHO)
    (tmp_path / ".gitignore").write_text("*.bin\n")
    (tmp_path / "weights.bin").touch()
    (tmp_path / ".git").mkdir()
    places = {host: tmp_path.parent / f"{tmp_path.name} on {host}" for host in ("node1", "node2")}
    for place in places.values():
        place.mkdir()
        (place / "own").touch()
    (tmp_path / "ddpkit.toml").write_text(
        "".join(f'[host.{host}]\nworkdir = "{place}/deep/er"\n' for host, place in places.items())
    )
    args = ["-b", "ssh", "-o", "starter=ranks", "node[1-2]", "-n", "1", "--sync"]
    shown = launch(*args, "--dry-run", "--", "job.py", str(tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("\n# synced: ") == 2
    assert not (places["node1"] / "deep").exists()
    done = launch(*args, "--", "job.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for rank, host in enumerate(places):
        there = places[host] / "deep/er"
        assert who(tmp_path)[rank]["cwd"] == str(there)
        assert {path.name for path in there.iterdir()} == {"job.py", ".gitignore", "ddpkit.toml"}
        assert (places[host] / "own").exists()
        assert f"copied to {host}" in done.stderr
    # Once more, with a change and a host that cannot be reached: nothing is started.
    (tmp_path / "job.py").write_text("raise SystemExit(9)")
    done = launch(*args, "node9", "--", "job.py", str(tmp_path))
    assert done.returncode == 123, done.stderr
    assert "  node9: its name does not resolve on this machine\n" in done.stderr
    assert not list((tmp_path / "logs").glob("*/rank_0.log"))[1:]
    assert launch(*args, "--", "job.py", str(tmp_path)).returncode == 9


@pytest.mark.parametrize("transport", mostly(["paramiko", "openssh"], "openssh"))
def test_a_node_that_dies_during_the_copy_is_named_in_seconds(transport: str, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    (tmp_path / "big.bin").write_bytes(b"0" * (30 << 20))
    there = {host: tmp_path.parent / f"{tmp_path.name} on {host}" for host in ("node1", "node2")}
    (tmp_path / "ddpkit.toml").write_text(
        "".join(f'[host.{host}]\nworkdir = "{place}"\n' for host, place in there.items())
    )
    args = ["-b", "ssh", "-o", f"transport={transport}", "-o", "heartbeat_timeout=3", "node[1-2]", "-n", "1", "--sync"]
    argv = lab.argv("login", [*DDPKIT, "launch", *args, "--", "job.py"], tmp_path)
    env = {**lab.environ(), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    lab.run("login", "tc", "qdisc", "replace", "dev", "eth0", "root", *"tbf rate 80mbit burst 256kb limit 1mb".split())
    try:
        with subprocess.Popen(argv, env=env, stdout=-1, stderr=-1, stdin=subprocess.DEVNULL, text=True) as launcher:
            until = time.monotonic() + PATIENCE
            while not list(
                there["node2"].glob(".ddpkit-sync-*/files/.big.bin.*")
            ):  # as rsync names what is not complete
                assert launcher.poll() is None, launcher.communicate()
                assert time.monotonic() < until
                time.sleep(0.02)
            lab.cut("node2")
            _, err = launcher.communicate(timeout=PATIENCE)
    finally:
        lab.mend("node2")
        lab.run("login", "tc", "qdisc", "del", "dev", "eth0", "root")
    assert launcher.returncode == 123, err
    assert re.search(r"node2: .*(no heartbeat for 3 s|rsync waited for 6 s).*\n    hint: ssh node2 uptime\n", err), err
    assert not list(there["node1"].iterdir())  # all nodes or none
