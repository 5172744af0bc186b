"""`ddpkit drill` finds a planted fault, and passes a script without one. The scripts are real runs of two ranks."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
from conftest import DDPKIT, START
from program import wait_until

from ddpkit.monitor.drill.run import reads

SCRIPTS = Path(__file__).with_name("scripts")
OPTIONS = "-n 2 -o starter=ranks --no-preflight --grace 5 --hang-timeout 8 --checkpoint-dir-option --out".split()


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    shutil.copytree(SCRIPTS, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize(
    ("script", "row"),
    [
        ("every_rank.py", "clean"),
        ("last_barrier.py", "clean"),
        ("exit_zero.py", "exit"),
        ("no_handler.py", "term"),
        ("at_end.py", "term"),
    ],
)
def test_a_planted_fault_is_found(script: str, row: str, ddpkit: DDPKIT, scripts: Path) -> None:
    done = ddpkit("drill", *OPTIONS, "--faults", row, "--json", "--", script, cwd=scripts)
    states = {each["row"]: each["state"] for each in json.loads(done.stdout)["rows"]}
    assert (done.returncode, states[row]) == (122, "FAIL"), done.stdout


def test_a_good_script_passes_and_leaves_nothing(ddpkit: DDPKIT, scripts: Path) -> None:
    done = ddpkit("drill", *OPTIONS, "--faults", "exit", "--dir", "own", "--json", "--", "training.py", cwd=scripts)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (scripts / "own").exists()


def test_no_fault_reaches_a_script_that_saves_elsewhere(ddpkit: DDPKIT, scripts: Path) -> None:
    done = ddpkit("drill", *OPTIONS, "--faults", "term,kill,exit", "--json", "--", "elsewhere.py", cwd=scripts)
    clean, *others = json.loads(done.stdout)["rows"]
    assert (done.returncode, clean["state"]) == (122, "FAIL"), done.stdout
    assert clean["evidence"].startswith("no file came into the checkpoint directory: ")
    for row in others:
        assert row["state"] == "not tried"
        assert row["evidence"].startswith("the clean run saved nothing in the drill's directory: where --out has no")
    assert not others[0]["runs"]


def test_a_launch_of_the_drill_is_one_attempt_and_calls_nobody(ddpkit: DDPKIT, scripts: Path) -> None:
    (scripts / "ddpkit.toml").write_text('retries = 2\non_end = "touch called"\n')
    done = ddpkit("drill", *OPTIONS, "--faults", "exit", "--json", "--", "training.py", cwd=scripts)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (scripts / "called").exists()


def test_a_time_limit_makes_no_row_fail(ddpkit: DDPKIT, scripts: Path) -> None:
    limit = ("--time-limit", "3", "--faults", "kill")
    done = ddpkit("drill", *OPTIONS, *limit, "--json", "--", "training.py", cwd=scripts)
    rows = json.loads(done.stdout)["rows"]
    assert {row["evidence"] for row in rows} == {"the time limit of the drill was reached"}
    assert {row["state"] for row in rows} == {"not tried"}
    assert done.returncode == 122


def test_an_interrupted_drill_says_what_it_leaves(start: START, ddpkit: DDPKIT, scripts: Path) -> None:
    drill = start("drill", *OPTIONS, "--faults", "exit,stop", "--dir", "own", "--", "training.py")
    drill.wait_for("stop: ")
    refused = ddpkit("drill", "--remove", "own", cwd=scripts)
    assert (refused.returncode, "still runs" in refused.stderr) == (121, True)
    drill.process.send_signal(signal.SIGTERM)
    code = drill.end()
    assert code == 128 + signal.SIGTERM
    assert "exit" in drill.text
    assert "ddpkit drill --remove own" in drill.text
    assert (scripts / "own").is_dir()
    assert ddpkit("drill", "--remove", "own", cwd=scripts).returncode == 0
    assert not (scripts / "own").exists()


@pytest.mark.parametrize(
    ("row", "script"),
    [("kill", "training.py"), ("save-kill", "good_drafts.py"), pytest.param("slow", "ddp.py", marks=pytest.mark.torch)],
)
def test_a_fault_reaches_its_rank(row: str, script: str, start: START, scripts: Path) -> None:
    drill = start("drill", *OPTIONS, "--faults", row, "--json", "--", script)
    assert drill.end(600) == 0, drill.text
    found = json.loads(drill.text[drill.text.index("{") : drill.text.rindex("}") + 1])
    evidence = {each["row"]: each["evidence"] for each in found["rows"]}
    assert evidence[row].startswith("killed when latest.json had " if row == "save-kill" else "rank 1 on ")


def test_a_launch_that_is_refused_says_why(ddpkit: DDPKIT, scripts: Path) -> None:
    done = ddpkit("drill", *OPTIONS, "--faults", "kill", "--json", "--", "no_such.py", cwd=scripts)
    clean, kill = json.loads(done.stdout)["rows"]
    assert (clean["state"], kill["state"]) == ("FAIL", "not tried")
    assert "no_such.py" in clean["evidence"]


def test_spare_nodes_are_named(ddpkit: DDPKIT, scripts: Path) -> None:
    done = ddpkit("drill", *OPTIONS, "-b", "ssh", "node1", "--spares", "1", "--", "training.py", cwd=scripts)
    assert (done.returncode, "--spares 1: 1 host given" in done.stderr) == (121, True)


def test_it_needs_a_directory_of_its_own(ddpkit: DDPKIT, scripts: Path) -> None:
    done = ddpkit("drill", "-n", "2", "--", "training.py", cwd=scripts)
    assert done.returncode == 121
    assert "--checkpoint-dir-option --out" in done.stderr
    (scripts / "mine").mkdir()
    (scripts / "mine" / "model.pt").write_text("precious")
    done = ddpkit("drill", *OPTIONS, "--dir", "mine", "--", "training.py", cwd=scripts)
    assert (done.returncode, "exists" in done.stderr) == (121, True)
    words = ["drill", "-n", "2", "--checkpoint-dir-variable", "CKPTDIR", "--dry-run", "--", "training.py"]
    done = ddpkit(*words, cwd=scripts)
    assert (done.returncode, "CKPTDIR is in no file beside the script" in done.stderr) == (121, True)
    done = ddpkit(*words[:-2], "--workdir", "~nobody.here/x", "--", "training.py", cwd=scripts)
    assert "Traceback" not in done.stderr, done.stderr
    (scripts / "settings.py").write_text("FOLDER = os.environ['CKPTDIR']\n")
    assert ddpkit(*words, cwd=scripts).returncode == 0
    assert ddpkit("drill", "--remove", "mine", cwd=scripts).returncode == 121
    assert (scripts / "mine" / "model.pt").read_text() == "precious"


@pytest.mark.parametrize("way", ["module", "elsewhere", "host"])
def test_a_script_that_would_save_over_its_own_checkpoints_is_refused(
    way: str, ddpkit: DDPKIT, scripts: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By whatever words it is named, and from wherever."""
    (scripts / "job").mkdir()
    (scripts / "job/train.py").write_text("open('best.pt', 'w').write('of the drill')\n")
    (scripts / "best.pt").write_text("of months")
    words, where = ["-n", "1", "--checkpoint-dir-variable", "CKPT", "--faults", "exit"], scripts
    if way == "module":
        words += ["--", "-m", "job.train"]
    elif way == "elsewhere":
        where = tmp_path_factory.mktemp("elsewhere")
        words += ["--workdir", str(scripts), "--", "job/train.py"]
    else:
        (scripts / "settings.py").write_text("os.environ['CKPT']\n")
        (scripts / "ddpkit.toml").write_text(f'[host.node1]\nenv = {{ CKPT = "{scripts}" }}\n')
        words += ["-b", "ssh", "node1", "--", "training.py"]
    done = ddpkit("drill", *words, cwd=where)
    assert (done.returncode, "save over its own checkpoints" in done.stderr) == (121, True), done.stderr
    assert (scripts / "best.pt").read_text() == "of months"
    assert not (where / "logs").exists()


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("--ckpt-dir", 'parser.add_argument("--ckpt-dir")', True),
        ("--ckpt-dir", "parser.add_argument('--ckpt_dir')", True),
        ("--ckpt-dir", "class Options:\n    ckpt_dir: str = 'x'", True),
        ("--ckpt-dir", "save(model, args.ckpt_dir)", True),
        ("--ckpt-dir", "def main(steps=1, ckpt_dir='x'):", True),
        ("--checkpoint-dir", 'parser.add_argument("--ckpt-dir")', False),
        ("--out", 'out = model(x)\nparser.add_argument("--output")\nprint(out)', False),
        ("--out", 'parser.add_argument("--out")', True),
        ("trainer.out.dir=", "path = config.trainer.out.dir", True),
        ("trainer.out.dir=", "path = config.trainer.directory", False),
        ("CKPT_DIR", 'os.environ["CKPT_DIR"]', True),
        ("CKPT_DIR", 'os.environ["MY_CKPT_DIR2"]', False),
    ],
)
def test_a_script_that_does_not_read_the_name_is_not_started(name: str, text: str, read: bool, tmp_path: Path) -> None:
    """It would save over the user's own checkpoints."""
    (tmp_path / "job.py").write_text(text)
    assert reads(name, ["job.py"], tmp_path) is read


def test_an_option_that_no_file_has_is_refused(ddpkit: DDPKIT, scripts: Path) -> None:
    words = ["drill", "-n", "2", "--checkpoint-dir-option", "--nowhere", "--dry-run"]
    done = ddpkit(*words, "--", "training.py", cwd=scripts)
    assert (done.returncode, "--nowhere is in no file beside the script" in done.stderr) == (121, True)
    assert ddpkit(*words, "--yes", "--", "training.py", cwd=scripts).returncode == 0


def test_a_directory_that_others_can_replace_is_refused(ddpkit: DDPKIT, scripts: Path, tmp_path: Path) -> None:
    """Another user could lead the script to its own checkpoints, or give it one to load."""
    (team := tmp_path / "team").mkdir()
    team.chmod(0o777)
    words = ["drill", *OPTIONS, "--dry-run", "--log-dir"]
    done = ddpkit(*words, str(team / "logs"), "--", "training.py", cwd=scripts)
    assert (done.returncode, "can put another directory in the place of" in done.stderr) == (121, True)
    team.chmod(0o1777)
    assert ddpkit(*words, str(team / "logs"), "--", "training.py", cwd=scripts).returncode == 0


def test_what_is_not_the_drills_is_named_and_stays(ddpkit: DDPKIT, scripts: Path) -> None:
    keep = ("--faults", "exit", "--dir", "own", "--keep")
    done = ddpkit("drill", *OPTIONS, *keep, "--", "training.py", cwd=scripts)
    assert done.returncode == 0, done.stdout + done.stderr
    own = scripts / "own"
    (own / "mine.txt").write_text("precious")
    (own / "clean" / "notes").mkdir()
    (own / "kill").mkdir()  # a name of a row, and not made by the drill
    named = "not made by ddpkit, in own: clean/notes, kill, mine.txt\n"
    for more in ((), ("--dry-run",)):
        done = ddpkit("drill", "--remove", "own", *more, cwd=scripts)
        assert named in done.stderr
        assert done.returncode == (0 if more else 121)
        assert (own / "mine.txt").read_text() == "precious"
    done = ddpkit("drill", "--remove", "own", "--yes", cwd=scripts)
    assert (done.returncode, named in done.stderr, own.exists()) == (0, True, False)


@pytest.mark.parametrize("name", ["mine.txt", "clean/mine.txt", "exit/mine.txt"])
def test_a_drill_that_passed_keeps_what_is_not_its_own(name: str, start: START, ddpkit: DDPKIT, scripts: Path) -> None:
    row = "clean" if name.startswith("clean") else "exit"
    drill = start("drill", *OPTIONS, "--faults", "exit", "--dir", "own", "--", "training.py")
    drill.wait_for(f"{row}: ")
    wait_until((scripts / "own" / row / "checkpoints").is_dir, lambda: drill.text)
    (scripts / "own" / name).write_text("precious")
    assert drill.end() == 0
    assert (scripts / "own" / name).read_text() == "precious"
    assert f"own: {name}\n" in drill.text
    assert "ddpkit drill --remove own" in drill.text
    assert not (scripts / "own" / ("exit" if row == "clean" else "clean")).exists()
