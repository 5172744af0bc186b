"""The configuration of one host, as OpenSSH reads it: the ssh program of this machine says it (`ssh -G`).

`ssh -G` may run the user's `Match exec` and resolve names, as `ssh` itself would. Only a launch that connects to the
host asks it. Without an ssh program, `read_files` reads the common keywords and refuses a file with any other.
"""

from __future__ import annotations

import base64
import getpass
import glob
import hashlib
import os
import pwd
import re
import shlex
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from ddpkit.errors import UsageError, install
from ddpkit.transports import hosts
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.hosts import HostSpec

LIMIT = 10.0  # seconds for `ssh -G`: a Match exec may hang
AGENT_LIMIT = 5.0  # seconds for an answer of the user's ssh-agent
Values = Mapping[str, Sequence[str]]  # by lower-case keyword
_NO_SUCH_OPTION = re.compile(r"(unknown|illegal|invalid|unrecognized) (option|argument).*G", re.IGNORECASE)
# `ssh -G` prints defaults as well. Read with this, it prints `yes` only where the user wrote it.
_ASKS_ONLY_WHERE_SET = (
    "Include ~/.ssh/config\nMatch all\nInclude /etc/ssh/ssh_config\nMatch all\nKbdInteractiveAuthentication no\n"
)


class ConfigError(RefusedError):
    """The user's configuration cannot be read."""


# ---- one host


@dataclass(frozen=True, kw_only=True)
class SshHost:
    """One host: where and as whom to log in, and how. Paths and commands have no token left."""

    name: str  # as the user wrote it
    hostname: str
    user: str
    port: int
    address_family: str = "any"
    bind_address: str = ""
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str = ""  # path of its socket
    user_known_hosts: tuple[str, ...] = ()
    machine_known_hosts: tuple[str, ...] = ()
    host_key_alias: str = ""
    strict_host_keys: str = "ask"
    known_hosts_command: str = ""
    revoked_host_keys: str = ""
    proxy_command: str = ""
    proxy_jump: str = ""
    batch: bool = False
    preferred: tuple[str, ...] = ()  # methods of authentication
    interactive: bool | None = None  # KbdInteractiveAuthentication; None: not set

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """The files with keys of hosts."""
        return self.user_known_hosts + self.machine_known_hosts


def host_of(spec: HostSpec, values: Values) -> SshHost:
    """Make a host of what `ssh -G` prints. Raises ConfigError for a token or variable that nobody knows."""
    # The value of each keyword that has one alone; of others the first.
    one = {name: texts[0] for name, texts in values.items() if texts and texts[0].lower() != "none"}
    hostname, user = one.get("hostname", spec.name), one.get("user", _local_user())
    port = int(one.get("port", "22"))
    tokens = _tokens(spec.name, hostname, user, port, one)

    def paths(keyword: str) -> tuple[str, ...]:
        texts = (text for text in values.get(keyword, ()) if text.lower() != "none")
        return tuple(_home_path(_expand(text, tokens)) for text in texts)

    def is_set(keyword: str) -> bool:
        return one.get(keyword, "no").lower() in ("yes", "true")

    agent = one.get("identityagent", "SSH_AUTH_SOCK") if values.get("identityagent", [""])[0] != "none" else ""
    variable = re.fullmatch(r"\$?(\w+)", agent)
    asks = one.get("kbdinteractiveauthentication", one.get("challengeresponseauthentication"))
    return SshHost(
        name=spec.name,
        hostname=hostname,
        user=user,
        port=port,
        address_family=one.get("addressfamily", "any").lower(),
        bind_address=one.get("bindaddress", ""),
        identity_files=paths("identityfile"),
        certificate_files=paths("certificatefile"),
        identities_only=is_set("identitiesonly"),
        agent=os.environ.get(variable[1], "") if variable else _home_path(_expand(agent, tokens)),
        user_known_hosts=paths("userknownhostsfile"),
        machine_known_hosts=paths("globalknownhostsfile"),
        host_key_alias=one.get("hostkeyalias", ""),
        strict_host_keys={"no": "off", "false": "off"}.get(
            text := one.get("stricthostkeychecking", "ask").lower(), text
        ),
        known_hosts_command=one.get("knownhostscommand", ""),
        revoked_host_keys=one.get("revokedhostkeys", ""),
        proxy_command=_expand(one.get("proxycommand", ""), tokens, variables=False),
        proxy_jump=_expand(one.get("proxyjump", ""), tokens, variables=False),
        batch=is_set("batchmode"),
        preferred=tuple(one.get("preferredauthentications", "").lower().split(",")),
        interactive=None if asks is None else asks.lower() in ("yes", "true"),
    )


def _tokens(name: str, hostname: str, user: str, port: int, one: Mapping[str, str]) -> dict[str, str]:
    here, jump = socket.gethostname(), one.get("proxyjump", "")
    together = f"{here}{hostname}{port}{user}" + (jump if "%j" in "".join(one.values()) else "")
    return {
        "%": "%", "h": hostname, "n": name, "p": str(port), "r": user, "u": _local_user(), "d": str(home()),
        "i": str(os.getuid()), "k": one.get("hostkeyalias", name), "l": here, "L": here.partition(".")[0], "j": jump,
        "C": hashlib.sha1(together.encode(), usedforsecurity=False).hexdigest(),
    }  # fmt: skip


def _expand(text: str, tokens: Mapping[str, str], *, variables: bool = True) -> str:
    """Replace %h and its like, and ${NAME}. A command's variables are its shell's to read."""

    def replace(found: re.Match[str]) -> str:
        value = tokens.get(found[2]) if found[2] else os.environ.get(found[1]) if variables else found[0]
        if value is None:
            raise ConfigError(f"{found[0]} in ~/.ssh/config has no value", _USE_OPENSSH)
        return value

    return re.sub(r"\$\{(\w+)\}|%(.)", replace, text)


def home() -> Path:
    """Return the home directory of OpenSSH: that of the password database, and not HOME."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path.home()


def _home_path(path: str) -> str:
    return str(home() / path[2:]) if path.startswith("~/") else str(Path(path).expanduser())


def _local_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return getpass.getuser()


def last_jump(jumps: str) -> tuple[str, HostSpec | None]:
    """Split a value of ProxyJump: the hosts before the last one, and that one. None: it cannot be read."""
    before, _, last = jumps.rpartition(",")
    try:
        [hop] = hosts.parse([last.strip().removeprefix("ssh://").rstrip("/")], {}, {})
    except (UsageError, ValueError):
        return before, None
    return before, hop


# ---- all hosts of a launch


class SshConfig:
    """Answers for each host once. Used by many threads at once."""

    def __init__(self, read: Callable[[HostSpec], Values] | None = None) -> None:
        """Take the function that reads; None: the ssh program, or without it the user's and the machine's files."""
        ssh = None if read else shutil.which("ssh")
        self._ssh = ssh
        self._read = read or ((lambda spec: ask_ssh(ssh, spec)) if ssh else read_files)
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str, int | None], _Answer] = {}

    def host(self, spec: HostSpec) -> SshHost:
        """Return the configuration of a host. Raises ConfigError."""
        with self._lock:
            answer = self._answers.setdefault((spec.name, spec.user, spec.port), _Answer())
        with answer.lock:
            if answer.host is None:
                answer.host = host_of(spec, self._read(spec))
            return answer.host

    def expects_questions(self, spec: HostSpec) -> bool:
        """Return whether the configuration says that the host asks questions after a key.

        `KbdInteractiveAuthentication yes` says it, and keyboard-interactive in `PreferredAuthentications`.
        """
        host = self.host(spec)
        if host.batch or host.interactive is False:
            return False
        if host.interactive or "keyboard-interactive" in host.preferred:
            return True
        if self._ssh is None:
            return False
        printed = _printed(_run_ssh([self._ssh, "-F", "/dev/stdin", *_question(spec)], _ASKS_ONLY_WHERE_SET)[1])
        return printed.get("kbdinteractiveauthentication") == ["yes"]


@dataclass
class _Answer:
    lock: threading.Lock = field(default_factory=threading.Lock)
    host: SshHost | None = None


def ask_ssh(ssh: str, spec: HostSpec) -> Values:
    """Return what ssh itself reads of its configuration for a host. Raises ConfigError."""
    code, output, errors = _run_ssh([ssh, *_question(spec)])
    values = _printed(output)
    if (code != 0 and _NO_SUCH_OPTION.search(errors)) or (code == 0 and "hostname" not in values):
        return read_files(spec)  # an ssh before 6.8, or another program of that name
    if code != 0:
        line = next(iter(errors.strip().splitlines()), f"exit code {code}")
        raise ConfigError(f"ssh cannot read its configuration: {line}", f"ssh {shlex.join(_question(spec))}")
    for keyword in ("userknownhostsfile", "globalknownhostsfile"):  # in one line, without quotes, each path whole
        values[keyword] = [path for text in values.get(keyword, ()) for path in re.split(r"\s+(?=[/~])", text)]
    if values.get("kbdinteractiveauthentication") == ["yes"]:  # the default: perhaps nobody said so
        del values["kbdinteractiveauthentication"]
    return values


def _question(spec: HostSpec) -> list[str]:
    user = ["-l", spec.user] if spec.user else []
    return ["-G", *user, *(["-p", str(spec.port)] if spec.port else []), "--", spec.name]


def _run_ssh(argv: Sequence[str], text: str = "") -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"`ssh -G` did not answer in {LIMIT:g} s: a Match exec in ~/.ssh/config hangs, or the name service",
            shlex.join(["ssh", *argv[1:]]),
        ) from None
    return done.returncode, done.stdout, done.stderr


def _printed(text: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        values.setdefault(keyword.lower(), []).append(value)
    return values


# ---- without an ssh program

_USE_OPENSSH = "use -o transport=openssh"
_WITHOUT = f"{install('openssh-client')}: then ssh itself reads it; or {_USE_OPENSSH}"
_RAW = ("proxycommand", "knownhostscommand", "localcommand", "remotecommand")  # the rest of the line, comments and all
_MANY = ("identityfile", "certificatefile")  # each line adds one
_LISTS = ("userknownhostsfile", "globalknownhostsfile", "sendenv", "setenv", "canonicaldomains", "localforward")
_READ = (
    "hostname user port identitiesonly identityagent addressfamily bindaddress hostkeyalias stricthostkeychecking "
    "revokedhostkeys proxyjump batchmode preferredauthentications kbdinteractiveauthentication"
).split()
_NO_MATTER = (  # they change nothing about a login by paramiko
    "addkeystoagent checkhostip clearallforwardings compression connectionattempts connecttimeout controlmaster "
    "controlpath controlpersist escapechar exitonforwardfailure fingerprinthash forwardagent forwardx11 "
    "forwardx11timeout forwardx11trusted gatewayports gssapiauthentication gssapidelegatecredentials hashknownhosts "
    "ipqos loglevel numberofpasswordprompts passwordauthentication permitlocalcommand "
    "pubkeyauthentication rekeylimit requesttty serveralivecountmax serveraliveinterval tcpkeepalive updatehostkeys "
    "verifyhostkeydns visualhostkey xauthlocation stdinnull forkafterauthentication sessiontype"
).split()
_SWITCH = ("yes", "no", "true", "false")
_CHOICES = {
    "identitiesonly": _SWITCH,
    "batchmode": _SWITCH,
    "kbdinteractiveauthentication": _SWITCH,
    "stricthostkeychecking": (*_SWITCH, "ask", "off", "accept-new"),
    "addressfamily": ("any", "inet", "inet6"),
}
_KNOWN = {*_RAW, *_MANY, *_LISTS, *_READ, *_NO_MATTER}
_DEFAULTS: Values = {
    "identityfile": [f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ed25519")],
    "userknownhostsfile": ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"],
    "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"],
}


def read_files(spec: HostSpec, paths: Sequence[Path] = ()) -> Values:
    """Read the common keywords of the user's and the machine's file. Raises ConfigError for any other keyword."""
    reader = _Reader(spec)
    for path in paths or (home() / ".ssh/config", Path("/etc/ssh/ssh_config")):
        reader.read(path, path.parent, True, 0)
    values = reader.values
    values["hostname"] = [reader.hostname().lower()]
    return {**_DEFAULTS, **values}


class _Reader:
    """The lines that hold for one host. Of each keyword the first value counts."""

    def __init__(self, spec: HostSpec) -> None:
        self.name = spec.name
        self.values: dict[str, list[str]] = {}
        if spec.user:
            self.values["user"] = [spec.user]
        if spec.port:
            self.values["port"] = [str(spec.port)]

    def hostname(self) -> str:
        [text] = self.values.get("hostname", [self.name])
        return text.replace("%%", "%").replace("%h", self.name) if "%" in text else text

    def read(self, path: Path, base: Path, active: bool, depth: int) -> None:
        """Read a file. `base`: the folder of the outermost file, to which names in Include are relative."""
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            return
        if depth > 16:
            raise ConfigError(f"{path}: Include goes deeper than 16 files", _WITHOUT)
        holds = active
        for number, line in enumerate(lines, 1):
            found = re.match(r'[ \t\r\f]*([^ \t\r"=#]+)(?:[ \t\r]*=[ \t\r]*|[ \t\r]+|$)(.*)', line.rstrip())
            if found is None and line.strip() and not line.strip().startswith("#"):
                raise ConfigError(f"{path}, line {number}: cannot be read", _WITHOUT)
            if found is None:
                continue
            keyword, text = found[1].lower(), found[2]
            try:
                words = [text] if keyword in _RAW else split_line(text)
                if keyword == "host":
                    holds = active and self._is_host(words)
                elif keyword == "match":
                    holds = self._matches(words) and active
                elif keyword == "include":
                    for name in self._included(words, base):
                        self.read(name, base, holds, depth + 1)
                else:
                    self._set(keyword, words, holds)
            except ValueError as error:
                raise ConfigError(f"{path}, line {number}: {error}", _WITHOUT) from None

    def _included(self, words: Sequence[str], base: Path) -> Iterator[Path]:
        for word in words:
            for name in sorted(glob.glob(str(base / _home_path(word)))):  # noqa: PTH207
                yield Path(name)

    def _set(self, keyword: str, words: Sequence[str], holds: bool) -> None:
        """Check the values of a keyword, and keep them where its section `holds` for this host. Raises ValueError."""
        if keyword not in _KNOWN:
            raise ValueError(f"{keyword} is unknown to ddpkit, which reads this file because there is no ssh program")
        if not words or not words[0] or (len(words) > 1 and keyword not in _LISTS):
            raise ValueError(f"{keyword} has {'no value' if not words or not words[0] else 'more than one value'}")
        if keyword == "knownhostscommand":
            split_line(words[0])
        allowed = _CHOICES.get(keyword)
        bad_variable = keyword == "identityagent" and re.match(r"\$(?!\{|\w+$)", words[0])
        if (allowed and words[0].lower() not in allowed) or (keyword in _NO_MATTER and "#" in words[0]) or bad_variable:
            raise ValueError(f"{keyword} {words[0]} is not valid")
        if keyword == "port" and not words[0].isdecimal():
            words = [str(_service(words[0]))]
        if keyword == "port" and not 0 < int(words[0]) < 65536:
            raise ValueError(f"{words[0]} is not a port")
        if keyword == "hostname" and re.search(r"%[^%h]", words[0].replace("%%", "")):
            raise ValueError(f"HostName {words[0]} has a token that is not %h")
        if keyword == "proxyjump" and "#" in "".join(words):
            raise ValueError("ProxyJump with a comment")
        if not holds:
            return
        ways = ("proxycommand", "proxyjump")
        if keyword in _MANY:
            values = self.values.setdefault(keyword, [])
            values += [word for word in words if word not in values]
        elif keyword not in ways or not any(each in self.values for each in ways):  # the first of the two counts
            self.values.setdefault(keyword, list(words))

    def _is_host(self, patterns: Sequence[str]) -> bool:
        if not patterns or "" in patterns:
            raise ValueError("Host has no pattern, or an empty one")
        return fits(patterns, self.name)

    def _matches(self, words: Sequence[str]) -> bool:
        """Return whether a Match line holds. Raises ValueError for what only ssh can say."""
        words = [part for word in words for part in (word.split("=", 1) if "=" in word else [word])]
        if [word.lower() for word in words] == ["all"]:
            return True
        if not words or len(words) % 2:
            raise ValueError(f"Match {' '.join(words)}: only ssh can say whether it holds")
        texts = {"originalhost": self.name.lower(), "localuser": _local_user()}
        texts["host"], texts["user"] = self.hostname().lower(), self.values.get("user", [_local_user()])[0]
        result = True
        for word, patterns in zip(words[::2], words[1::2], strict=True):
            negated = word.startswith("!")
            kind = word.removeprefix("!").lower()
            if kind not in texts:
                raise ValueError(f"Match {kind}: only ssh can say whether it holds")
            listed = patterns.lower() if kind.endswith("host") else patterns
            result = result and fits(listed.split(","), texts[kind]) is not negated
        return result


def _service(name: str) -> int:
    try:
        return socket.getservbyname(name, "tcp")
    except OSError:
        raise ValueError(f"Port {name} is not a port") from None


def fits(patterns: Sequence[str], name: str) -> bool:
    """Return whether a name fits patterns with * and ?; one with ! that fits leaves it out."""

    def fit(pattern: str) -> bool:
        if "*" not in pattern and "?" not in pattern:
            return pattern == name  # nearly always; each host is compared with every line of known_hosts
        return fnmatchcase(name, pattern.replace("[", "[[]"))  # a bracket is one: [host]:port

    return not any(fit(each[1:]) for each in patterns if each.startswith("!")) and any(
        fit(each) for each in patterns if not each.startswith("!")
    )


def split_line(text: str) -> list[str]:
    """Split the values of a line as OpenSSH does: quotes, backslashes, and comments. Raises ValueError."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        if text[at] == "#":
            break
        word, quote = "", ""
        while at < len(text) and (quote or text[at] not in " \t"):
            char, following = text[at], text[at + 1 : at + 2]
            if char == "\\" and following and (following in "'\"\\" or (following == " " and not quote)):
                word += following
                at += 1
            elif not quote and char in "'\"":
                quote = char
            elif quote == char:
                quote = ""
            else:
                word += char
            at += 1
        if quote:
            raise ValueError("a quote does not end")
        words.append(word)
    return words


_MAGIC = b"openssh-key-v1\0"


def is_encrypted(text: str) -> bool:
    """Return whether the text of a private key needs a passphrase."""
    if "BEGIN OPENSSH PRIVATE KEY" not in text:
        return "ENCRYPTED" in text
    try:
        return parts_of_key(text)[0] != b"none"
    except (ValueError, struct.error):
        return False


def parts_of_key(text: str) -> tuple[bytes, bytes]:
    """Return the name of the cipher, and the public key, of a private key in OpenSSH's format. Raises ValueError."""
    data = base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("-")))
    if not data.startswith(_MAGIC):
        raise ValueError("not in OpenSSH's format")
    fields: list[bytes] = []
    at = len(_MAGIC)
    for number in range(4):  # cipher, derivation of the key, its options; a count; public key
        at += 4 if number == 3 else 0
        [size] = struct.unpack_from(">I", data, at)
        fields.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return fields[0], fields[3]
