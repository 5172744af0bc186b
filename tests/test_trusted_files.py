"""Settings and host files of others are refused, through links too, and no content of a file ends in a traceback."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import DDPKIT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program import run_to_end

from ddpkit import config
from ddpkit.errors import UsageError
from ddpkit.files import LIMIT, read_trusted
from ddpkit.node import owned
from ddpkit.transports import hosts

OTHER = 12345  # a user that nobody is
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
EVIL = 'on_end = "touch ran"\nbackend = "local"\n'


def _file(path: Path, text: str = EVIL, mode: int = 0o644, owner: int | None = None) -> Path:
    path.write_text(text)
    path.chmod(mode)
    if owner is not None:
        os.lchown(path, owner, OTHER)
    return path


@pytest.mark.parametrize(
    ("mode", "owner", "group", "problem"),
    [
        (0o644, None, None, ""),
        (0o600, None, None, ""),
        (0o646, None, None, "every user can change it"),
        (0o666, None, None, "every user can change it"),
        pytest.param(0o664, None, OTHER, "group 12345 can change it", marks=needs_root),
        pytest.param(0o664, None, 0, "", marks=needs_root),  # root's private group
        pytest.param(0o644, OTHER, None, "it belongs to user 12345", marks=needs_root),
        pytest.param(0o600, OTHER, None, "it belongs to user 12345", marks=needs_root),
    ],
)
@pytest.mark.parametrize("name", ["ddpkit.toml", "pyproject.toml"])
def test_a_settings_file_that_others_can_write_is_refused(
    tmp_path: Path, mode: int, owner: int | None, group: int | None, problem: str, name: str
) -> None:
    path = _file(tmp_path / name, EVIL if name == config.FILE else f"[tool.ddpkit]\n{EVIL}", mode)
    if owner is not None or group is not None:
        os.chown(path, -1 if owner is None else owner, -1 if group is None else group)
    below = tmp_path / "below"
    below.mkdir()
    for folder in (tmp_path, below):
        if not problem:
            assert config.read_file(folder).values["on_end"] == "touch ran"
            continue
        with pytest.raises(UsageError) as caught:
            config.read_file(folder)
        assert str(path) in caught.value.message
        assert problem in caught.value.message
        advice = "" if owner is not None else ", and take the right to write to it from others"
        assert caught.value.hint == f"ls -l {path}{advice}"


@needs_root
@pytest.mark.parametrize("owner_of", ["link", "second link", "directory link", "target"])
def test_the_owner_of_each_link_on_the_way_counts(tmp_path: Path, owner_of: str) -> None:
    real, folder = tmp_path / "real", tmp_path / "here"
    real.mkdir()
    folder.mkdir()
    _file(real / "settings", owner=OTHER if owner_of == "target" else None)
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "second").symlink_to("way/settings")
    (folder / config.FILE).symlink_to("../second")
    assert owner_of == "target" or config.read_file(folder).values
    links = {"link": folder / config.FILE, "second link": tmp_path / "second", "directory link": tmp_path / "way"}
    if owner_of in links:
        os.lchown(links[owner_of], OTHER, OTHER)
    with pytest.raises(UsageError, match="belongs to user 12345"):
        config.read_file(folder)


@needs_root
def test_another_users_pyproject_without_settings_is_ignored(tmp_path: Path) -> None:
    _file(tmp_path / "pyproject.toml", "[project]\nname = 'x'\n", owner=OTHER)
    assert config.read_file(tmp_path).path is None
    _file(tmp_path / "pyproject.toml", "no TOML")
    os.chown(tmp_path / "pyproject.toml", OTHER, OTHER)
    assert config.read_file(tmp_path).path is None


@needs_root
def test_nothing_of_another_users_file_runs(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """Every command that reads settings is refused, and `ps` does not read them."""
    _file(tmp_path / config.FILE, 'python = "./evil"\non_end = "touch ran"\n', owner=OTHER)
    evil = _file(tmp_path / "evil", "#!/bin/sh\ntouch ran\n", 0o755)
    (tmp_path / "ok.py").write_text("print('ok')\n")
    for words in (["launch", "-n", "1", "--", "ok.py"], ["launch", "--dry-run", "--", "ok.py"], ["test", "--dry-run"]):
        done = ddpkit(*words)
        assert done.returncode == UsageError.exit_code, done.stderr
        assert f"{tmp_path}/{config.FILE} is not obeyed: it belongs to user 12345" in done.stderr
        assert "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / config.FILE, evil, tmp_path / "ok.py"])


@needs_root
def test_root_under_sudo_obeys_the_file_of_the_user_who_typed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _file(tmp_path / config.FILE, owner=OTHER)
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert config.read_file(tmp_path).values


@needs_root
def test_a_host_file_of_another_user_is_refused(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "ok.py").write_text("")
    path = _file(tmp_path / "hosts", "node1\n", owner=OTHER)
    words = ["launch", "-b", "ssh", "--hostfile", str(path), "--dry-run", "--", "ok.py"]
    done = ddpkit(*words)
    assert done.returncode == UsageError.exit_code
    assert f"{path} is not obeyed: it belongs to user 12345, neither to you nor to root\nhint: ls -l" in done.stderr


@pytest.mark.skipif(shutil.which("setfacl") is None, reason="needs setfacl")
@needs_root
def test_an_acl_of_a_private_group_counts(tmp_path: Path) -> None:
    path = _file(tmp_path / config.FILE, mode=0o664)
    if subprocess.run(["setfacl", "-m", f"u:{OTHER}:rw", path], capture_output=True, check=False).returncode:
        pytest.skip("no ACL here")
    assert read_trusted(path)[1] is not None


def test_a_group_that_is_the_primary_one_of_another_user_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file(tmp_path / config.FILE, mode=0o664)
    me = pwd.struct_passwd(("me", "x", os.geteuid(), 4321, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: me)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group((me.pw_name, "x", me.pw_gid, [])))
    other = pwd.struct_passwd(("daemon", "x", OTHER, me.pw_gid, "", "/", "/bin/false"))
    for listed, private in (([me], True), ([me, other], False)):
        monkeypatch.setattr(pwd, "getpwall", lambda listed=listed: listed)
        owned._is_primary_of_others.cache_clear()
        assert owned.is_private_group(path.stat(), path) is private
    owned._is_primary_of_others.cache_clear()


@pytest.mark.parametrize(
    ("shell", "private"), [("/bin/sync", True), ("/usr/sbin/nologin", True), ("/bin/bash", False), ("", False)]
)
def test_a_person_can_have_roots_group_as_primary_one(
    shell: str, private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distributions give it to accounts as which nobody works."""
    path = _file(tmp_path / config.FILE, mode=0o664)
    root = pwd.struct_passwd(("root", "x", 0, 0, "", "/", "/bin/sh"))
    other = pwd.struct_passwd(("other", "x", 11, 0, "", "/", shell))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: root)
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group(("root", "x", 0, [])))
    monkeypatch.setattr(pwd, "getpwall", lambda: [root, other])
    owned._is_primary_of_others.cache_clear()
    assert owned.is_private_group(path.stat(), path) is private
    owned._is_primary_of_others.cache_clear()


@pytest.mark.parametrize("kind", ["pipe", "zero", "directory", "long", "loop", "bytes", "deep", "digits"])
def test_what_is_no_settings_file_is_one_error_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / config.FILE
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
        case "long":
            path.write_bytes(b"#" * (LIMIT + 1))
        case "loop":
            path.symlink_to(path.name)
        case "bytes":
            path.write_bytes(b"\xff\xfe")
        case "deep":
            path.write_text("a = " + "[" * 100_000)
        case "digits":
            path.write_text("grace = " + "9" * 10_000)
    with pytest.raises(UsageError, match=config.FILE):
        config.read_file(tmp_path)


@pytest.mark.parametrize("given", ["<(printf 'node1\\n')", "/dev/stdin"])
def test_a_host_file_can_be_a_pipe(tmp_path: Path, given: str) -> None:
    code = "import sys; from pathlib import Path; from ddpkit.files import read_trusted; "
    code += "print(read_trusted(Path(sys.argv[1]), pipes=True))"
    done = run_to_end(["bash", "-c", f'printf "node1\\n" | "$0" -c "$1" {given}', sys.executable, code], check=True)
    assert done.stdout == "('node1\\n', None)\n"


@needs_root
def test_a_pipe_of_another_user_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    os.mkfifo(path)
    os.chown(path, OTHER, OTHER)
    problem = read_trusted(path, pipes=True)[1]
    assert problem is not None
    assert "it belongs to user 12345" in problem.why


# ---- fuzzed

_KEYS = st.sampled_from([*config.SETTINGS, "profiles", "groups", "host", "profile", "x", "env", "options"])
_TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(["auto", "1:4", "-1", "~", "$(touch ran)", "node[1-", "@a"]))
_VALUES = st.recursive(
    st.one_of(
        _TEXTS.map(lambda text: '"' + "".join(f"\\U{ord(c):08x}" for c in text if not 0xD800 <= ord(c) < 0xE000) + '"'),
        st.integers().map(str),
        st.floats().map(lambda value: repr(value).replace("inf", "inf")),
        st.sampled_from(["true", "false", "1979-05-27", "07:32:00", "0x1f", "[]", "{}", "''"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        st.dictionaries(_KEYS, inner, max_size=3).map(
            lambda each: "{" + ", ".join(f"{key} = {value}" for key, value in each.items()) + "}"
        ),
    ),
    max_leaves=6,
)
_LINES = st.one_of(
    st.tuples(_KEYS, _VALUES).map(" = ".join),
    _KEYS.map("[{}]".format),
    st.tuples(_KEYS, _KEYS).map("[{0[0]}.{0[1]}]".format),
    st.text(max_size=20),
)
EXAMPLES = int(os.environ.get("DDPKIT_FUZZ", "200"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@FUZZ
@given(lines=st.lists(_LINES, max_size=6))
def test_any_settings_file_is_read_or_refused(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    folder.mkdir(exist_ok=True)
    (folder / config.FILE).write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    with suppress(UsageError):
        chosen = config.collect_settings(folder, {}, None, {})
        hosts.parse(chosen.hosts, chosen.groups, chosen.host)
    assert [path.name for path in folder.iterdir()] == [config.FILE]


@FUZZ
@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(alphabet="node[1-9],:=@ slots#\n\r\x0c", max_size=60),
    )
)
def test_any_host_file_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        specs = hosts.parse_file("hosts", text, {})
        assert all(spec.name and not spec.name.startswith("-") for spec in specs)
