"""`--stage`: copies the project, and with it an environment, to the local disk of each node before the ranks start.

One archive for each content: rsync sends it to a node, `sbcast` to the nodes of a job. What is in one is described
first, and must be the same when it is packed. `ddpkit.node.calls.stage` unpacks it there once. Ranks keep their working
directory: only code is read from the copy.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from ddpkit.errors import UsageError
from ddpkit.execution.copies import ANY_PYTHON, PATIENCE, NodeCalls, Way, own_temporary_file, project_files
from ddpkit.execution.sync import NAMED, check_source
from ddpkit.files import make_directories, write_atomically
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.node_facts import words_of_node
from ddpkit.launchers.plan import Archive, Job, LocalCopy, Staging
from ddpkit.launchers.shell import count, quote
from ddpkit.launchers.starters import is_conda_archive
from ddpkit.node.owned import own_file
from ddpkit.run.run_files import read_private
from ddpkit.run.run_index import index_folder
from ddpkit.run.timeline import NodeCopy
from ddpkit.transports.channel import NoAnswerError
from ddpkit.transports.hosts import HostSpec, Problem, refusal
from ddpkit.transports.pool import Connector

LOOK_AGAIN = 0.3  # seconds
BLOCK = 4096  # bytes that a small file takes on a disk
SLACK = 1 << 24  # bytes by which a directory may grow while it is packed
UNPACKED = 20  # times the size of a compressed archive, and not more
CONDA_FILES = 1_000_000
WHOLE = 1 << 20  # bytes: larger files of a project are compared by size and time
SCRIPT_LIMIT = 1 << 16  # bytes of a program in bin/ that can hold the path of its environment
TOKEN = "stage_account"  # the file of `account_token`, beside the index of runs
_COMPILED = "__pycache__"  # Python checks each file there against its source


def describe_files(source: str, names: Iterable[str], *, content: bool) -> tuple[dict[str, str], int]:
    """Describe the files, directories and links of a directory that exist. Returns that by name, and their bytes.

    `content`: small files by what they hold; else all by size and time.
    """
    described, size = {}, 0
    for name in names:
        path = Path(source, name)
        with suppress(OSError):
            status = path.lstat()
            data = path.read_bytes() if content and stat.S_ISREG(status.st_mode) and status.st_size <= WHOLE else None
            text = _description(status, data, os.fspath(path.readlink()) if stat.S_ISLNK(status.st_mode) else "")
            if text:
                described[name] = text
                size += status.st_size
    return described, size


def _description(status: os.stat_result, data: bytes | None, target: str) -> str:
    """Describe an entry: its kind, its mode, and its content or its size and time. Empty: a device, or the like."""
    mode = f"{status.st_mode & 0o777:o}"
    if stat.S_ISLNK(status.st_mode):
        return f"link {target}"
    if stat.S_ISDIR(status.st_mode):
        return f"directory {mode}"
    if not stat.S_ISREG(status.st_mode):
        return ""
    if data is not None:
        return f"file {mode} {hashlib.sha256(data).hexdigest()}"
    return f"file {mode} {status.st_size} {int(status.st_mtime)}"


def digest_of(described: Mapping[str, str]) -> str:
    """SHA-256 of the descriptions, without what Python compiles."""
    whole = hashlib.sha256()
    for name in sorted(described):
        if _COMPILED not in name.split("/"):
            whole.update(f"{name}\0{described[name]}\0\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def outer_links(archive: Archive) -> dict[str, str]:
    """Return the links that lead out of the directory, with absolute targets. They are in no archive."""
    targets = ((name, _link_target(archive.source, name, text)) for name, text in archive.described.items())
    return {name: target for name, target in targets if target.startswith("/")}


def _link_target(source: str, name: str, text: str) -> str:
    """Return where a link of the copy leads: relative inside, else absolute. Empty: it is no link."""
    if not text.startswith("link "):
        return ""
    folder = os.path.normpath(Path(source, name).parent)
    target = os.path.normpath(Path(folder, text.removeprefix("link ")))
    inside = target == source or target.startswith(f"{source}/")
    return os.path.relpath(target, folder) if inside else target


def pack_archive(archive: Archive, file: IO[bytes]) -> None:
    """Write an archive. Raises UsageError if a file is not what it was when it was described, or OSError."""
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(archive.described, key=lambda each: each.split("/")):
            text = archive.described[name]
            info = tarfile.TarInfo(name)
            if text.startswith("link "):
                info.type, info.linkname = tarfile.SYMTYPE, _link_target(archive.source, name, text)
                if not info.linkname.startswith("/"):
                    tar.addfile(info)
            elif text.startswith("directory "):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                _pack_file(archive, tar, info)


def _pack_file(archive: Archive, tar: tarfile.TarFile, info: tarfile.TarInfo) -> None:
    """Add a file to an archive. Its description is compared before and after: it may change while it is read."""
    wanted = archive.described[info.name]
    by_content = len(wanted.split(" ")[2]) == 64  # SHA-256, in place of size and time: see `_description`
    changed = UsageError(
        f"--stage: {info.name} changed while it was copied",
        f"launch again; or leave it out: {quote(info.name)} in .gitignore",
    )
    try:
        fd = os.open(Path(archive.source, info.name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise changed from None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        data = file.read() if by_content or _may_hold_path(archive, info.name, status.st_size) else None
        if _description(status, data if by_content else None, "") != wanted:
            raise changed
        info.mode, info.mtime = status.st_mode & 0o777, int(status.st_mtime)
        moved = _with_new_path(archive, data) if data is not None else None
        info.size = status.st_size if moved is None else len(moved)
        try:
            tar.addfile(info, file if moved is None else io.BytesIO(moved))
        except OSError as error:
            raise changed if str(error) == "unexpected end of data" else error from None
        if _description(os.fstat(fd), data if by_content else None, "") != wanted:
            raise changed


def _may_hold_path(archive: Archive, name: str, size: int) -> bool:
    return bool(archive.moved_to) and name.startswith("bin/") and size <= SCRIPT_LIMIT


def _with_new_path(archive: Archive, data: bytes) -> bytes:
    """Replace the path of an environment in one of its programs."""
    if not archive.moved_to or b"\0" in data:
        return data
    old, new = os.fsencode(archive.source), os.fsencode(archive.moved_to)
    return data.replace(old, new) if b"VIRTUAL_ENV" in data else data.replace(old + b"/", new + b"/")


def write_archive(archive: Archive, path: Path) -> None:
    """Write an archive into the directory of a run, which all nodes see, once. Raises UsageError, OSError.

    What an attempt before has packed gets a second name. So does an environment of an earlier run: it has gigabytes.
    """
    before = [*path.parents[1].glob(f"attempt-*/stage/{path.name}")]
    before += path.parents[2].glob(f"*/stage/{path.name}") if archive.moved_to else ()
    for other in before:
        status = other.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022:
            with suppress(OSError):
                os.link(other, path, follow_symlinks=False)
                return
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    with own_file(str(draft)) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
        pack_archive(archive, file)
        file.flush()
        os.link(draft, path)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is copied: a directory with its files, or an archive of conda-pack."""

    kind: Literal["project", "env"]
    source: str
    digest: str
    size: int  # bytes
    described: Mapping[str, str] = field(default_factory=dict)  # files of a directory; see `describe_files`
    conda: bool = False  # an archive, made by conda-pack
    base: str = ""  # Python of a virtual environment, which it does not contain
    version: tuple[int, ...] = ()  # of that Python
    account: str = ""  # see `account_token`

    @property
    def name(self) -> str:
        """The name of its copy. Programs of a virtual environment hold its path."""
        key = self.account + self.digest + (self.source if self.kind == "env" else "")
        return f"{self.kind}-{hashlib.sha256(key.encode()).hexdigest()[:32]}"

    @property
    def files(self) -> int:
        return 1 if self.conda else len(self.described)

    def archive(self, root: str) -> Archive:
        """Describe the archive of a directory."""
        moved = f"{root}/{self.name}" if self.kind == "env" else ""
        return Archive(source=self.source, described=self.described, moved_to=moved)

    def copy(self, root: str) -> LocalCopy:
        """Describe the copy for the plan."""
        target = f"{root}/{self.name}"
        return LocalCopy(source=self.source, target=target, files=self.files, size=self.size, missing=())

    def for_node(self, root: str) -> dict[str, Any]:
        """The content as `ddpkit.node.calls.stage` reads it."""
        unpacked = self.size * UNPACKED if self.conda else self.size + SLACK
        room = self.size + (4 * self.size if self.conda else self.size + BLOCK * self.files)
        return {
            "root": root,
            "name": self.name,
            "source": self.source,
            "size": self.size,
            "needs": [room, 0 if self.conda else self.files],  # free bytes and inodes of its disk
            "limits": [CONDA_FILES if self.conda else self.files, unpacked],  # files and bytes that it unpacks at most
            "links": {} if self.conda else outer_links(self.archive(root)),
            "conda": self.conda,
            "python": self.version,
            "machine": os.uname().machine if self.kind == "env" and not self.conda else "",
        }


def project(workdir: str, log_dir: str) -> Content:
    """Return the files that --sync copies, without this program's own output. Raises UsageError."""
    check_source(workdir, "--stage")
    names = project_files(workdir, log_dir)
    # The output of this launch may go into a file of the project, which changes while it is copied.
    own = {(status.st_dev, status.st_ino) for status in map(os.fstat, (1, 2))}
    names = [name for name in names if (status := _lstat(workdir, name)) and (status.st_dev, status.st_ino) not in own]
    described, size = describe_files(workdir, names, content=True)
    return Content(kind="project", source=workdir, digest=digest_of(described), size=size, described=described)


def _lstat(source: str, name: str) -> os.stat_result | None:
    try:
        return Path(source, name).lstat()
    except OSError:
        return None


def environment(python: str) -> Content:
    """Return the files of the virtual environment of a Python. Raises UsageError."""
    path = shutil.which(os.path.expanduser(python))  # noqa: PTH111
    prefix = Path(path).absolute().parent.parent if path else Path("/nowhere")
    config = prefix / "pyvenv.cfg"
    if sys.platform != "linux":
        raise UsageError("--stage=env: this machine does not run Linux, and the nodes do", "add --stage")
    if (prefix / "conda-meta").is_dir() and not config.is_file():
        what = (
            f"--stage=env: {prefix} is a conda environment, which cannot be moved as it is; conda-pack makes an archive"
        )
        raise UsageError(what, f"conda-pack -p {quote(str(prefix))} -o env.tar.gz; then add --stage=env.tar.gz")
    if not config.is_file():
        what = f"--stage=env: {python} is in no virtual environment on this machine"
        raise UsageError(what, "add --stage, or --python ENV/bin/python")
    base, version = _base_python(str(path), config)
    top = str(prefix)
    check_source(top, "--stage=env")
    names = []
    for folder, folders, files in os.walk(top):
        inside = folder[len(top) + 1 :] + "/" if folder != top else ""
        names += [inside + each for each in folders + files]
    # The first can hold a password. The other is the marker of ddpkit's own directories.
    names = [name for name in names if name not in ("pip.conf", ".ddpkit")]
    described, size = describe_files(top, names, content=False)
    stamp = digest_of(described)
    return Content(kind="env", source=top, digest=stamp, size=size, described=described, base=base, version=version)


def conda_archive(path: str) -> Content:
    """Return an archive of conda-pack. Raises UsageError."""
    source = Path(path).expanduser().absolute()
    try:
        status = source.stat()
    except OSError as error:
        what = f"--stage={path}: {(error.strerror or '').lower()}"
        raise UsageError(what, "conda-pack -p PREFIX -o FILE.tar.gz") from None
    stamp = f"{status.st_size} {status.st_mtime_ns}"
    return Content(kind="env", source=str(source), digest=stamp, size=status.st_size, conda=True, base=ANY_PYTHON)


def _base_python(path: str, config: Path) -> tuple[str, tuple[int, ...]]:
    """Find the Python that a virtual environment does not contain, and its version."""
    lines = (line.partition("=") for line in config.read_text().splitlines())
    values = {key.strip(): value.strip() for key, _, value in lines}
    version = tuple(int(part) for part in (values.get("version") or values["version_info"]).split(".")[:2])
    base = os.path.realpath(path)
    if Path(base).is_relative_to(config.parent):  # a copy, which needs the library of its base
        base = f"{values['home']}/python{version[0]}.{version[1]}"
    return base, version


def relocate(job: Job, contents: Sequence[Content], root: str) -> Job:
    """Return the job with its script, module or Python in the copies. Pure. Raises UsageError."""
    for content in contents:
        target = f"{root}/{content.name}"
        if content.kind == "env":
            python = "python" if content.conda else Path(job.python).name
            job = replace(job, python=f"{target}/bin/{python}")
        if job.kind == "module" and content.kind == "project":
            flag, *rest = job.command
            job = replace(job, command=_module_in_copy(flag, rest, target))
    return job if job.kind == "module" else replace(job, command=_command_in_copies(job, contents, root))


def _command_in_copies(job: Job, contents: Sequence[Content], root: str) -> tuple[str, ...]:
    """Return the command, with its script or program in the copy that has it. Raises UsageError.

    An environment can lie in the project, which leaves it out.
    """
    first, *rest = job.command
    path = Path(os.path.normpath(Path(job.workdir, first)))
    is_path = job.kind == "script" or "/" in first
    around = [each for each in contents if is_path and not each.conda and path.is_relative_to(each.source)]
    for content in around:
        name = str(path.relative_to(content.source))
        if name in content.described:
            return (f"{root}/{content.name}/{name}", *rest)
    if around:
        what = f"--stage: {first} is in .gitignore, and is not copied"
        raise UsageError(what, f"git check-ignore -v {quote(first)}")
    return job.command


def _module_in_copy(flag: str, rest: Sequence[str], target: str) -> tuple[str, ...]:
    """Run a module of the copy, or code that imports from it: Python itself searches the working directory first."""
    if flag == "-c":
        return ("-c", f"import sys; sys.path[0] = {target!r}; exec({rest[0]!r})", *rest[1:])
    text = f"import sys; sys.path[0] = {target!r}; import runpy; runpy._run_module_as_main({rest[0]!r})"
    return ("-c", text, *rest[1:])


def check_node(content: Content, answer: Mapping[str, Any]) -> tuple[str, str] | None:
    """Find the reason why a node cannot use a copy, and the fix. Pure."""
    if answer["problem"]:
        return answer["problem"], "add --stage-dir DIR"  # a hint is never a node's text
    if content.version and tuple(answer["python"]) != content.version:
        have, needs = (".".join(map(str, each)) for each in (answer["python"], content.version))
        return f"{content.base} is Python {have}, and {content.source} requires {needs}", "add --stage"
    if content.kind == "env" and not content.conda and answer["machine"] != os.uname().machine:
        return f"its architecture is {answer['machine']}, and this machine's is {os.uname().machine}", "add --stage"
    return None


@dataclass(frozen=True, kw_only=True)
class Staged:
    """The job in the copies, the nodes that have them, and what was copied."""

    job: Job
    specs: tuple[HostSpec, ...]
    copies: tuple[LocalCopy, ...]
    times: Mapping[str, Sequence[NodeCopy]]  # by host


class _Packed:
    """The archives of a launch, each made when the first node needs it. They are on the disk of TMPDIR meanwhile."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._files = ExitStack()
        self._paths: dict[str, str] = {}

    def path(self, content: Content) -> str:
        """Return the path of an archive. Raises UsageError, OSError."""
        if content.conda:
            return content.source
        with self._lock:
            if content.name not in self._paths:
                path, file = self._files.enter_context(own_temporary_file())
                pack_archive(content.archive(self._root), file)
                file.flush()
                self._paths[content.name] = path
        return self._paths[content.name]

    def close(self) -> None:
        self._files.close()


class _Kept(NamedTuple):
    """Files of scripts in old copies of a node, which stay."""

    files: int
    size: int  # bytes
    paths: list[str]  # some of them


@dataclass(kw_only=True)
class Stager:
    """Brings copies to all nodes, each over its own connection."""

    contents: Sequence[Content]
    root: str
    calls: NodeCalls
    progress: Callable[[str, int], None]
    note: Callable[[str], None]
    missing: dict[str, list[str]] = field(default_factory=dict)  # labels, by name of a copy
    times: dict[str, list[NodeCopy]] = field(default_factory=dict)  # by label
    kept: list[_Kept] = field(default_factory=list)  # of each node

    def run(self, least: int | None) -> tuple[HostSpec, ...]:
        """Copy. Returns the nodes that have the copies: all, or at least `least`. Raises the refusal, UsageError."""
        pool = self.calls.pool
        problems = self.calls.connect()
        if least is None and problems:
            raise refusal(problems, len(pool.specs))
        bad = {problem.host for problem in problems}
        specs = [spec for spec in pool.specs if spec.label not in bad]
        packed = _Packed(self.root)
        try:
            for content in self.contents:
                new = self.calls.each(specs, partial(self._bring, content=content, packed=packed), copies=True)
                problems += new
                specs = [spec for spec in specs if spec.label not in {problem.host for problem in new}]
        finally:
            packed.close()
            self._note_kept()
        if least is None and problems:
            raise refusal(problems, len(pool.specs))
        pool.drop_failed(problems, least, self.note)
        return pool.specs

    def _note_kept(self) -> None:
        """Name what scripts wrote into copies that would be removed otherwise: it fills the disks of nodes."""
        if self.kept:
            files, size = sum(each.files for each in self.kept), sum(each.size for each in self.kept)
            paths = [path for each in self.kept for path in each.paths][:NAMED]
            more = f" and {count(files - len(paths), 'more file')}" if files > len(paths) else ""
            what = f"old copies in which a script wrote {count(files, 'file')} ({size / 1e6:.1f} MB)"
            self.note(f"--stage: not removed: {what}: {', '.join(paths)}{more}")

    def _bring(self, spec: HostSpec, *, content: Content, packed: _Packed) -> Problem | None:
        """Bring a copy to one node that does not have it."""
        began = time.time()
        answer = self._look(spec, content)
        refused = check_node(content, answer)
        if refused is not None:
            what, fix = refused
            return Problem(host=spec.label, what=what, fix=fix, check="stage")
        kept = answer["kept"]
        if kept["files"]:
            paths = [f"{spec.label}:{words_of_node(path)}" for path in kept["paths"]]
            self.kept.append(_Kept(int(kept["files"]), int(kept["bytes"]), paths))
        copied, size = answer["state"] != "present", 0
        if copied:
            self.missing.setdefault(content.name, []).append(spec.label)
            problem, size = self._send(spec, content, packed, str(answer["archive"]))
            if problem is not None:
                return problem
        copy = NodeCopy(kind=content.kind, copied=copied, size=size, source="", began=began, ended=time.time())
        self.times.setdefault(spec.label, []).append(copy)
        return None

    def _send(self, spec: HostSpec, content: Content, packed: _Packed, target: str) -> tuple[Problem | None, int]:
        """Send an archive to a node, and let the node unpack it. Returns the problem, and the bytes that were sent."""
        try:
            path = packed.path(content)
        except OSError as error:
            raise UsageError(f"--stage: cannot pack {content.source}: {error.strerror}", "df -h $TMPDIR") from None
        words = ["--copy-links", "--inplace", "--whole-file"]
        problem, size = self.calls.send(spec, path, target, words, self.progress, alive="stage.alive")
        if problem is not None:
            self.calls.call(spec, "stage.release", {"name": content.name})
            return problem, size
        done = self.calls.call(spec, "stage.unpack", {"content": content.for_node(self.root), "archive": target})
        if done["problem"]:
            return Problem(
                host=spec.label, what=done["problem"], fix="launch again; or add --stage-dir DIR", check="stage"
            ), size
        return None, size

    def _look(self, spec: HostSpec, content: Content) -> Mapping[str, Any]:
        """Ask a node whether it has a copy. Wait for another launch that is making it."""
        args = {"content": content.for_node(self.root)}
        until, noted = time.monotonic() + PATIENCE, False
        while True:
            answer: Mapping[str, Any] = self.calls.call(spec, "stage.look", args)
            if answer["state"] != "busy":
                return answer
            if time.monotonic() > until:
                raise NoAnswerError(f"another launch has copied {content.name} for {PATIENCE:g} s")
            if not noted:
                self.note(f"{spec.label}: the same files are being copied there already; waiting for them")
            noted = True
            time.sleep(LOOK_AGAIN)


def account_token(*, make: bool) -> str:
    """Return a secret of this account: a deleted one with the same user id may have left copies, also changed ones.

    `make`: keep a new one where there is none. Where none is kept, each launch has another one.
    """
    token = secrets.token_hex(16)
    with suppress(OSError, RuntimeError):  # RuntimeError: nobody knows where this user's home is
        folder = index_folder().parent
        if make and not (folder / TOKEN).exists():
            make_directories(folder, 0o700)
            write_atomically(folder / TOKEN, token, 0o600)
        content, private = read_private(folder, TOKEN, 32)
        if private and re.fullmatch(rb"[0-9a-f]{32}", content):
            return content.decode()
    return token


def _contents(job: Job, options: NodeOptions, log_dir: str, *, dry: bool) -> tuple[str, list[Content]]:
    """Return the directory of the copies, and what is copied. Raises UsageError."""
    if options.container:
        raise UsageError("--stage does not work with --container: the image holds the code", "remove --stage")
    above = options.stage_dir or "/tmp"
    if not above.startswith("/"):
        raise UsageError(f"--stage-dir {above}: must be an absolute path", "--stage-dir /local/DIR")
    root = f"{os.path.normpath(above)}/ddpkit-stage-{os.getuid()}"
    contents = [project(job.workdir, log_dir)]
    if options.stage == "env":
        contents.append(environment(job.python))
    elif is_conda_archive(options.stage):
        contents.append(conda_archive(options.stage))
    for content in contents:
        if Path(root).is_relative_to(content.source):
            what = f"--stage-dir {above}: is inside {content.source}, whose files are copied"
            raise UsageError(what, "--stage-dir /local/DIR")
    account = account_token(make=not dry)
    return root, [replace(content, account=account) for content in contents]


def by_nodes(job: Job, options: NodeOptions, log_dir: str, *, dry: bool) -> Job:
    """Return the job in copies that the nodes of a scheduler's job get. `dry`: changes nothing. Raises UsageError.

    The archives lie in the run's directory, which all nodes see. An archive of conda-pack stays where it is.
    """
    root, contents = _contents(job, options, log_dir, dry=dry)
    archives = {
        content.name: content.source if content.conda else f"{job.folder}/stage/{content.name}.tar"
        for content in contents
    }
    entries = [{**content.for_node(root), "archive": archives[content.name]} for content in contents]
    copies = tuple(replace(content.copy(root), by_nodes=True) for content in contents)
    staging = Staging(
        python=contents[-1].base or job.python,
        contents=json.dumps(entries) + "\n",
        copies=copies,
        archives={
            path: None if content.conda else content.archive(root)
            for content, path in zip(contents, archives.values(), strict=True)
        },
    )
    return replace(relocate(job, contents, root), stage=staging)


def bring(
    specs: Sequence[HostSpec],
    job: Job,
    options: NodeOptions,
    log_dir: str,
    connector: Connector,
    progress: Callable[[str, int], None],
    note: Callable[[str], None],
    least: int | None,
) -> Staged:
    """Copy what the option `stage` names to all nodes. Raises UsageError, and the refusal for nodes without copies."""
    with_env = options.stage not in ("off", "project")
    own = next((spec.label for spec in specs if spec.python), "")
    if own and with_env:
        raise UsageError(f"--stage={options.stage}: {own} has a Python of its own in ddpkit.toml", "add --stage")
    root, contents = _contents(job, options, log_dir, dry=False)
    moved = relocate(job, contents, root)
    python = contents[-1].base or (ANY_PYTHON if with_env else job.python)
    way = Way(connector=connector, python=python, silence=options.heartbeat_timeout, accepts_new=options.accepts_new)
    calls = NodeCalls(specs, way)
    stager = Stager(contents=contents, root=root, calls=calls, progress=progress, note=note)
    began = time.monotonic()
    try:
        kept = stager.run(least)
    except BaseException:
        connector.close()
        raise
    finally:
        calls.hang_up()
    copies = []
    for content in contents:
        missing = stager.missing.get(content.name, ())
        copies.append(replace(content.copy(root), missing=tuple(spec.label for spec in kept if spec.label in missing)))
    for copy in copies:
        note(f"staged {copy} ({time.monotonic() - began:.1f} s)")
    return Staged(job=moved, specs=kept, copies=tuple(copies), times=stager.times)
