"""Exit codes: ddpkit's own are 121 to 125, in every command and in the API; a script's own is never changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit import errors

ROOT = Path(__file__).parents[2]

OWN = {
    "unknown command": (["trian"], 121),
    "unknown option": (["ps", "--nope"], 121),
    "missing value": (["logs", "--lines"], 121),
    "value for a flag": (["ps", "--all=yes"], 121),
    "too many arguments": (["stop", "a", "b"], 121),
    "unknown backend": (["launch", "-b", "slrum", "--", "true"], 121),
    "no run": (["stop"], 121),
    "a run with a long name": (["status", "x" * 5000], 121),
    "a host with a long name": (["launch", "-b", "ssh", "x" * 300, "--", "true"], 121),
    "a host with escapes": (["launch", "-b", "ssh", "a\x1b]0;title\x07\x9b1m", "--", "true"], 121),
    "a check": (["launch", "-b", "ssh", "--check", "--", "true"], 121),
    "Python without torch": (["test", "1", "--python", "/bin/false"], 122),
    "incomplete environment": (["env"], 125),
}


@pytest.mark.parametrize("name", OWN)
def test_own_errors(name: str, ddpkit: DDPKIT) -> None:
    words, code = OWN[name]
    done = ddpkit(*words, env={"RANK": "0"} if words == ["env"] else {})
    assert done.returncode == code, done.stdout + done.stderr
    if code != 122:
        first, second = done.stderr.splitlines()
        assert first.startswith("ddpkit: error: ")
        assert second.startswith("hint: ")
        assert done.stderr.replace("\n", "").isprintable()


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 75, 120, 126, 127, 255])
def test_a_scripts_code_is_not_changed(code: int, ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "-n", "1", "--", "sh", "-c", f"exit {code}").returncode == code


def test_a_signal(ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "-n", "1", "--", "sh", "-c", "kill -9 $$").returncode == 137


@pytest.mark.new_python
def test_a_defect_of_ddpkit_is_no_code_of_a_script(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import ddpkit.run.run_index\nddpkit.run.run_index.list_runs = lambda: 1 / 0\n"
    )
    done = ddpkit("ps", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 125
    assert "ZeroDivisionError" in done.stderr


def test_errors_have_their_codes() -> None:
    kinds = (errors.UsageError, errors.PreflightError, errors.LaunchError, errors.DdpkitError, errors.EnvError)
    assert [kind.exit_code for kind in kinds] == [121, 122, 123, 125, 125]
    assert errors.NO_PROGRESS == 124


@pytest.mark.parametrize("code", ["0", "121", "122", "123", "124", "125", "128+n"])
def test_the_guide_lists_them(code: str) -> None:
    assert f"\n| {code} | " in (ROOT / "LAUNCH_GUIDE.md").read_text()
