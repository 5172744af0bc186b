"""Secrets are in no plan, record, log, error or argument; a variable leaves this machine only if it was named."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit import config
from ddpkit.execution import job
from ddpkit.launchers.shell import hide_in_script, hide_secrets, is_secret, join, quote

SECRET = [
    ("DATABASE_URL", "postgres"),
    ("GH_PAT", "x"),
    ("PAT", "x"),
    ("SLACK_WEBHOOK_URL", "x"),
    ("SENTRY_DSN", "x"),
    ("MY_SECRET", "x"),
    ("JWT", "x"),
    ("AUTHORIZATION", "x"),
    ("CREDS", "x"),
    ("AWS_CREDS", "x"),
    ("NETRC", "x"),
    ("SESSION_ID", "x"),
    ("MYPWD", "x"),
    ("DB_PWD", "x"),
    ("AZURE_STORAGE_CONNECTION_STRING", "x"),
    ("BASIC_AUTH", "x"),
    ("AWS_SECRET_ACCESS_KEY", "x"),
    ("HTTPS_PROXY", "http://me:pw@proxy:3128"),
    ("PIP_INDEX_URL", "https://__token__:abc@pypi.example.org/simple"),
    ("REMOTE", "https://ghp_0123456789abcdef@github.com/x.git"),
    ("A", "hf_abcdefghijklmnop"),
    ("A", "ghp_0123456789abcdef0123"),
    ("A", "github_pat_11AAAA_bbbb"),
    ("A", "glpat-0123456789abcdefghij"),
    ("A", "sk-proj-0123456789abcdef"),
    ("A", "xoxb-1234-5678-abcdef"),
    ("A", "xoxp-1234-5678-abcdef"),
    ("A", "AKIAIOSFODNN7EXAMPLE"),
    ("A", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"),
    ("A", "https://hooks.slack.com/services/T0/B0/x"),
    ("A", "--token hf_abcdefghijklmnop"),
    ("A", "Server=db;User=me;Password=x"),
    ("A", "-----BEGIN OPENSSH PRIVATE KEY-----"),
]
PUBLIC = [
    ("NCCL_DEBUG", "WARN"),
    ("TOKENIZERS_PARALLELISM", "false"),
    ("GIT_AUTHOR_NAME", "me"),
    ("SSH_AUTH_SOCK", "/tmp/agent"),
    ("HTTPS_PROXY", "http://proxy:3128"),
    ("ENDPOINT", "tcp://node1:2222"),
    ("PATH", "/usr/bin:/bin"),
    ("PWD", "/home/me"),
    ("OLDPWD", "/home/me"),
    ("XDG_SESSION_ID", "4"),
    ("AUTHORS", "me"),
    ("MODEL", "risk-model-0123456789"),
    ("COMMIT", "0123456789abcdef0123456789abcdef01234567"),
]


CASES = [(*each, True) for each in SECRET] + [(*each, False) for each in PUBLIC]


@pytest.mark.parametrize(("name", "value", "secret"), CASES)
def test_secrets_by_name_and_by_form(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize("backend", ["local", "slurm", "ssh"])
def test_no_secret_is_printed_or_kept(backend: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """`--env NAME` is always secret; `--env NAME=VALUE`, and `[env]`, by name or by form."""
    (tmp_path / "ok.py").write_text("import os; assert os.environ['PLAIN'] == 'value-1'; print('ok')\n")
    (tmp_path / "ddpkit.toml").write_text('env = { OF_FILE = "hf_value-2-abcdefgh" }\nhosts = ["node1"]\n')
    if backend != "ssh":
        (tmp_path / "ddpkit.toml").write_text('env = { OF_FILE = "hf_value-2-abcdefgh" }\n')
    words = ["-b", backend, "-n", "1", "--env", "PLAIN", "--env", "DATABASE_URL=value-3"]
    words += ["--env", "PROXY=http://me:value-4@proxy"]
    shown = ""
    ways = [
        ["launch", "--dry-run"],
        ["launch", "--dry-run", "--json"],
        ["launch", "--explain"],
        ["launch", "--dry-run", "--nnodes", "x"],
    ]
    for way in [*ways, *([["launch"], ["launch", "--json"]] if backend == "local" else [])]:
        done = ddpkit(*way, *words, "--", "ok.py", env={"PLAIN": "value-1"})
        assert "Traceback" not in done.stderr
        assert done.returncode == (121 if "x" in way else 0), done.stderr
        shown += done.stdout + done.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "ddpkit.toml":
            shown += path.read_text(errors="replace")
    assert "value-" not in shown.replace("os.environ['PLAIN'] == 'value-1'", "")


@pytest.mark.parametrize("value", ["nvapi-0123456789", 'it\'s "$HOME"\nand two lines', "sig=0%2F=="])
def test_a_report_shows_no_value_that_was_typed(value: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """Others get to see it, and no form of a value says for sure that it is no secret."""
    launch = ["launch", "-n", "1", "--env", f"NGC={value}", "--env", "NCCL_DEBUG=INFO", "--", "true"]
    for words in (launch, ["report"]):
        done = ddpkit(*words)
    page = (tmp_path / done.stdout.strip()).read_text()
    assert "NCCL_DEBUG=INFO" in page
    assert "NGC=" in page
    assert html.escape(value.splitlines()[-1]) not in page


ENVIRON = {
    "HF_TOKEN": "hf_x",
    "HF_HOME": "/data",
    "WANDB_API_KEY": "x",
    "NCCL_DEBUG": "INFO",
    "GITHUB_TOKEN": "x",
    "PROXY": "http://me:pw@proxy",
    "EDITOR": "vi",
    "PATH": "/bin",
    "BASH_FUNC_module%%": "() { token=x; }",
}


def _settings(tmp_path: Path, **env: str | None) -> config.LaunchSettings:
    return config.collect_settings(tmp_path, ENVIRON, None, {"env": env})


def test_the_line_of_what_stays_here_is_bounded(tmp_path: Path) -> None:
    assert job.tuning_not_forwarded(_settings(tmp_path), {"EDITOR": "vi"}) == ""
    line = job.tuning_not_forwarded(_settings(tmp_path, WANDB_API_KEY=None), ENVIRON)
    assert line.startswith("not forwarded to the nodes: HF_HOME, HF_TOKEN, NCCL_DEBUG; to forward them: ")
    assert line.endswith(": --env HF_HOME --env HF_TOKEN --env NCCL_DEBUG")
    many = job.tuning_not_forwarded(_settings(tmp_path), {f"NCCL_{number}": "" for number in range(5000)})
    assert " and 4994 others; " in many
    assert len(many) < 300


def test_sbatch_does_not_get_what_was_not_named(tmp_path: Path) -> None:
    held = job.held_back(_settings(tmp_path, GITHUB_TOKEN="y"), ENVIRON)
    assert held == ("HF_HOME", "HF_TOKEN", "PROXY", "WANDB_API_KEY")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["train.py", "--token", "abcdef0123456789"], ["train.py", "--token", "***"]),
        (["train.py", "--wandb-api-key=abcdef0123456789"], ["train.py", "--wandb-api-key=***"]),
        (["train.py", "--note", "hf_abcdefghijklmnop"], ["train.py", "--note", "***"]),
        (["train.py", "https://me:pw@data/x"], ["train.py", "***"]),
        (["train.py", "--api-key", "v1", "--password=1234"], ["train.py", "--api-key", "***", "--password=***"]),
        (["train.py", "-token", "abc", "logger.api_key=abc"], ["train.py", "-token", "***", "logger.api_key=***"]),
        (["train.py", "--header", "Authorization: Bearer abcd"], ["train.py", "--header", "***"]),
        (["train.py", "--pad-token", "PAD", "--secret-dim", "64", "--token=none", "--auth", "true"], None),
        (["train.py", "--password-file", "/run/p", "--password", "~/p", "--token", "--resume"], None),
        (["train.py", "--max-tokens", "409600000000"], None),
        (["train.py", "--special-token", "<eos>", "--token-file", "/home/me/token.txt"], None),
        (["train.py", "--tokenizer", "bert-base-uncased", "--key", "x"], None),
    ],
)
def test_a_record_shows_no_secret_argument(words: list[str], shown: list[str] | None) -> None:
    assert list(hide_secrets(words)) == (words if shown is None else shown)


def test_a_secret_argument_reaches_the_script_alone(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.exit(sys.argv[2] != 'hf_abcdefghijklmnop')\n")
    done = ddpkit("launch", "--", "train.py", "--token", "hf_abcdefghijklmnop")
    assert done.returncode == 0, done.stderr
    files = [path for path in (tmp_path / "logs").rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert "run.json" in [path.name for path in files]
    assert [path.name for path in files if "hf_abcd" in path.read_text(errors="replace")] == []


@pytest.mark.parametrize("value", ["short", "it's 'a' \"secret\"", "secret-0123456789", "a b"])
def test_the_plan_of_a_report_shows_no_secret_argument(value: str) -> None:
    """In a script, in one inside it, and where a setting assigns it."""
    command = ["train.py", "--api-key", value, f"--password={value}", "--lr", "1"]
    inner = f"exec {join(command)}"
    text = (
        f"sh -c {quote(inner)}\n{inner}\nsh -c {quote(f'sh -c {quote(inner)}')}\nexport WANDB_API_KEY={quote(value)}\n"
    )
    text += "srun --export=ALL,HF_TOKEN=hf_short --max-tokens=4096 MASTER_PORT=29500\n"
    shown = hide_in_script(text, command)
    for part in (value, "hf_short", *value.split("'")[:1]):
        assert part not in shown
    assert shown.count("--lr 1") == 3
    assert "--max-tokens=4096 MASTER_PORT=29500" in shown


def test_no_file_that_others_may_read_has_a_secret_argument(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    args = ["--url", "https://u:SECRETa@h/x", "hf_SECRETb1234567", "--t=ghp_SECRETc1234567", "sk-SECRETd12345678"]
    args += ["--db=postgres://u:SECRETe@h/db", "--api-key", "SECRETf", "--password=SECRETg"]
    assert ddpkit("launch", "-n", "1", "--", "train.py", *args).returncode == 0
    assert ddpkit("report").returncode == 0
    shown = "".join(ddpkit(*words).stdout for words in (["ps", "--json"], ["status", "--json"]))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "launch.json", "report.html"} <= {path.name for path in files}
    assert "SECRET" not in shown + "".join(path.read_text(errors="replace") for path in files)
