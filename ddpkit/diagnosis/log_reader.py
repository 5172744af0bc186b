"""LogReader: one log as a list of its LogMatches. Pure: text in, matches out.

Lines are chosen by words (see `ddpkit.diagnosis.catalogue.matcher`): a long log costs little.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from math import inf
from typing import TypeVar

from ddpkit.diagnosis import torchrun_table, tracebacks
from ddpkit.diagnosis.catalogue import BY_ID, known_failures
from ddpkit.diagnosis.catalogue.endings import SIGNALS, meaning_of
from ddpkit.diagnosis.catalogue.entry import BRANCHES, as_word, needed
from ddpkit.diagnosis.catalogue.matcher import WORDS, Match
from ddpkit.diagnosis.collectives import joined_by_all, last_error, missing_ranks, reasons_of_mismatch
from ddpkit.diagnosis.driver_version import cuda_of_driver
from ddpkit.diagnosis.gpu_memory import contexts_of_ranks, memory_of_others
from ddpkit.diagnosis.limit import Limit
from ddpkit.diagnosis.line_prefixes import (
    Speaker,
    speaker_in_name,
    speaker_of,
    speaker_of_line,
    split_prefix,
    visible_line,
)
from ddpkit.diagnosis.log_match import MAX_TEXT, LogMatch
from ddpkit.diagnosis.progress import is_mild, is_quoted, says_it_continues
from ddpkit.diagnosis.pyxis_log import message_of_enroot
from ddpkit.diagnosis.tensor_shapes import is_part_of_flat, part_of_tensor
from ddpkit.diagnosis.torchrun_table import TorchrunFailure
from ddpkit.diagnosis.tracebacks import RaisedException, Traceback
from ddpkit.diagnosis.xid import meaning_of_xid
from ddpkit.text import one_line

MAX_MATCHES = 2000  # of one kind in one log
END_LINES = 2000  # that are looked at, also where there is no time for those above
END_SECONDS = 2.0
CHECKED = 64  # lines between two looks at the clock
MAX_CUT = 200  # tracebacks without an end in one log
MAX_NEEDS = 40  # texts that entries need, each searched in the whole log
FRAME_LINES = 5  # of a frame: its place, its code, and marks below that
AGENT_LINES = 60  # above a timeout that are searched for frames of torchrun
CODE_LINES = 2  # lines above an error that are the code of its frame
CONTEXT_LINES = 400  # lines above a match that are searched for its context
CONTEXT_BELOW = 3  # and lines below it, where none above has it
LEAST_QUOTED = 200  # characters of a match that are shown
BEGIN_QUOTED = 100  # and at most so many at the beginning of a long line
BEFORE_QUOTED = 20  # and characters before it, of a long line
MAX_CODE = 200  # characters of a line of code that is quoted
TASK_LINES = 60  # frames of a Ray task, below the line that names its host
HOST_LINES = 5000  # lines that are searched for hosts
STRENGTH = {"cause": 0, "death": 1, "generic": 2, "consequence": 3, "hint": 4}
_SYNTAX_ERRORS = frozenset(("syntaxerror", "indentationerror", "taberror"))
_TRACEBACK_WORDS = frozenset(("traceback", "cause", "exitcode", *_SYNTAX_ERRORS))
_JOB = re.compile(r"\b(?:JOB|STEP|StepId=|JobId=|[Jj]ob(?: allocation)?) ?(\d{2,})\b")
_SPEAKING = ("cause", "hint", "noise")
# Code that writes to one place only: its locks and queues are in /dev/shm, its cache is in the home directory.
_FULL_PLACES = {
    "shm-full": re.compile(
        r"/multiprocessing/(?:synchronize|queues|heap|shared_memory)\.py|/pandarallel/core\.py|\bSemLock\(|\bshm_open\("
    ),
    "triton-cache-full": re.compile(r"/triton/runtime/cache\.py"),
}
# Code of torch that got its GPU's number from a library or as an argument.
_NUMBERED_PLACES = {
    "global-rank-as-gpu": re.compile(r"/torch/distributed/(?:_shard/|checkpoint/|distributed_c10d\.py)")
}
# Code that takes a rank for the number of a GPU; and a rank with another number on its host, in torchrun's table.
_RANK_AS_GPU = re.compile(
    r"(?:\.cuda|\.to|set_device|\bdevice|LongTensor)\((?:f?['\"]cuda:?(?:['\"], ?|\{|%d['\"] ?% ?))?"
    r"(?:device=)?(?:\w+\.)*(?:global_?|get_)?rank\b"
)
_OTHER_LOCAL_RANK = r"\brank\s*: (\d+) \(local_rank: (?!\1\))\d+\)"
# Code of ZeRO's step; code that gets tensors of the optimizer's state, and objects that other ranks sent.
_OFFLOADED_PLACES = {"zero-offload-device": re.compile(r"/deepspeed/runtime/zero/stage\w*\.py")}
# An engine of DeepSpeed has a place holder of its own where it got no optimizer.
_ENGINE_PLACES = {"zero-no-optimizer": re.compile(r"/deepspeed/runtime/\w+\.py")}
_SIZED_PLACES = {"optimizer-step-sizes": re.compile(r"/torch/optim/\w+\.py")}
_LOADED_PLACES = {
    "object-collective-broken": re.compile(
        r"/torch/distributed/distributed_c10d\.py|/fairseq/(?:distributed_utils|distributed/utils)\.py"
    )
}
# Code of a tracker that writes to its own process on the host.
_TRACKER_PLACES = {"wandb-process-ended": re.compile(r"/wandb/sdk/")}
# Code that removes or moves a file: another process was faster.
_REMOVING = re.compile(r"\b(?:os\.(?:remove|unlink|rmdir|rename|replace)|shutil\.(?:rmtree|move)|\.unlink)\(")
# Code that locks a file: another process holds the lock.
_LOCKING = re.compile(r"\b(?:flock|lockf)\(")
# Code that gives a tensor of a GPU to another process.
_SHARED_PLACES = {"cuda-ipc": re.compile(r"[/\\]torch[/\\](?:multiprocessing[/\\]reductions|storage)\.py")}
# Code that reads a file of HDF5, whose errno it reports.
_FILE_PLACES = {"hdf5-lock": re.compile(r"\bnetCDF4/|\bh5py/|/xarray/")}
_PLACES = {
    "disk-full": _FULL_PLACES,
    "quota": _FULL_PLACES,
    "permission-denied": {"shm-not-writable": re.compile(r"\bSemLock\(|\bshm_open\(|/multiprocessing/synchronize\.py")},
    "invalid-device-ordinal": _NUMBERED_PLACES,
    "devices-differ": _OFFLOADED_PLACES,
    "shapes-differ": _SIZED_PLACES,
    "checkpoint-broken": _LOADED_PLACES,
    "broken-pipe": _TRACKER_PLACES,
    "cuda-unknown-error": _SHARED_PLACES,
    "cannot-fork": _FILE_PLACES,
    "deepspeed-not-active": _ENGINE_PLACES,
}


_ERROR_NAME = re.compile(r"(?<![\w.])[\w.]*Error: ")
# torchrun's agent shares its ranks with the other nodes, before it starts any; and the last line that it prints before.
_AGENT = re.compile(
    r"elastic/agent/server/api\.py\", line \d+, in (?:_assign_worker_ranks|_share_and_gather|_rendezvous)\b"
)
_BANNER = re.compile(r"\btorch[./]distributed[./]run\b|^\W*\*{20,}\W*$|Setting OMP_NUM_THREADS environment variable")
_LOST_BY = re.compile(
    r"(?P<host>(?<![\w.-])[\w.-]+):(?P<pid>\d+):\d+ \[\d+\] .*Connection closed by remote peer (?P<peer>[^\s<]+)<"
)
# Of some entries, what the match and the lines around it show beside the groups of the pattern: values of the entry.
_READ_MORE: dict[str, Callable[[Mapping[str, str], Sequence[str], int], Mapping[str, str]]] = {
    "collectives-mismatch": lambda values, lines, index: reasons_of_mismatch(lines, index),
    "store-barrier-timeout": lambda values, lines, index: missing_ranks(values),
    "container-start-failed": lambda values, lines, index: message_of_enroot(lines, index),
    "image-import-failed": lambda values, lines, index: message_of_enroot(lines, index),
    "desync": lambda values, lines, index: joined_by_all(lines, index),
    "dcp-size-differs": lambda values, lines, index: {"reason": part_of_tensor(values["saved"], values["now"])},
    "driver-too-old": lambda values, lines, index: cuda_of_driver(values.get("version", "")),
    "launcher-summary": lambda values, lines, index: meaning_of(int(values.get("code", "0"))),
    "nccl-error": lambda values, lines, index: last_error(lines, index),
    "gpu-xid": lambda values, lines, index: meaning_of_xid(values.get("xid", "154")),
    "packages-differ": lambda values, lines, index: tracebacks.packages_above(lines, index),
}


# `ray::WorkerDict.update_actor() (pid=4711, ip=10.0.0.4, actor_id=...)`
_RAY_TASK = re.compile(r"\bray::\S+ ?\(pid=\d+, ip=(?P<host>[\w.:-]+)")
_RAY_ERROR = re.compile(r"\bRayTaskError\(\w+\): ray::\S+ ?\(pid=\d+")
# After its first line that a step ends, srun itself kills the other tasks.
_STEP_ENDS = re.compile(r"srun: .*Terminating (?:job step|StepId)|srun: Job step aborted|STEP \S+ ON \S+ CANCELLED")
_KILLED_BY_SRUN = re.compile(r"srun: error: \S+: tasks? [\d,-]+: (?:Killed|Exited with exit code 137)$")
_PORT_TAKEN = re.compile(r"Error: The server socket has failed to ")
_TASK_ENDS = re.compile(r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,-]+): Exited with exit code")
# torchrun reports its own end at the level WARNING.
_END_BY_SIGNAL = re.compile(r"\b(?:death|closing) signal\b")
# Frames of FSDP, torch.distributed.checkpoint and ZeRO-3 that gather a model, and those that load one.
_GATHERING = re.compile(
    r"_state_dict_utils\.py\""
    r"|in (?:_\w*post_state_dict_hook|get_(?:model_|optimizer_)?state_dict|_zero3_consolidated\w+)\b"
)
# Parts of torch and triton that run while a graph is compiled, and not when it is used.
_COMPILER = re.compile(
    r"\btorch/_inductor/(?:lowering|graph|scheduler|ir|select_algorithm|codegen/\w+|fx_passes/\w+)\.py\b"
    r"|\btorch/_dynamo/(?:symbolic_convert|output_graph|variables/\w+)\.py\b|\btriton/(?:compiler|backends)/"
)
_PINNING = re.compile(r"in _?pin_memory\w*$")  # copies to memory of the host alone
_LOADING = re.compile(r"in \w*load_state_dict|in set_(?:model_|optimizer_)?state_dict")

# A call with an argument that the other side does not have, by code of a library that does not only pass arguments on.
_UNEXPECTED = re.compile(r"(?P<call>[\w.]*\(\)) got an unexpected keyword argument '(?P<argument>\w+)'")
_CALLER = re.compile(
    r"-packages/(?:transformers|trl|peft|accelerate(?!/utils/operations)|deepspeed|datasets|diffusers|lightning\w*"
    r"|pytorch_lightning|sentence_transformers|mmengine|mmcv|detectron2)/"
)
# A function that compares settings, in its frame, and an exception that says so.
_COMPARES = re.compile(
    r"__(?:attrs_)?post_init__|get_(?:train|infer|eval)_args"
    r"|_{0,2}(?:do_)?(?:validate|verify|check|sanity_check)_(?:\w+_)?(?:args|arguments|cfg|config|configs|configuration|settings|options"
    r"|hparams)(?:_\w+)?|_(?:do_)?(?:\w+_)?(?:error|sanity)_check|_verify_\w+"
)
_REFUSAL = re.compile(
    r"(?:AssertionError|ValueError|RuntimeError|NotImplementedError)|(?:[\w.]*\.)?MisconfigurationException"
)
_CONFIGURED = re.compile(r"\bcls\w*\(\*\*|_cls\(\*\*|_class\(\*\*")  # builds what a configuration names
# A sentence of a message that says what to do.
_ADVICE = re.compile(
    r"(?:^|[.!?;:,] | - )((?:[Pp]lease(?! (?:understand|see|inspect|make sure this))"
    r"|To [a-z][^.,]+, (?:set|use|run|pass|call|add)|[Yy]our? (?:\w+ )?(?:need|should|must|have to|can|may)|Try"
    r"|Make sure|Ensure|Consider|Either|Did you|HINT:|Perhaps|Use|Set|Install|Pass|Specify|Check|Run|Remove) .*)"
)
# An argument of the command or the configuration, in the code of an assertion.
_ARGUMENT = re.compile(r"\b(?:args|cfg|config|hparams|opts?)\.((?:[a-z]\w*\.)*[a-z]\w*)\b(?!\()")
_TABLE = re.compile(r"\b([A-Z][A-Z\d_]{3,})\[")  # a constant that is looked up, in a line of code
# pkg_resources reads an attribute that it has not set yet, and continues.
_LAZY = re.compile(r"AttributeError: _(?:pkg_info|_?dep_map|\w+__dep_map)")
_ABOUT_BUGS = re.compile(r"(?i)(?:file|open|raise|report|submit) (?:an?|this) (?:bug|issue)|feature request|fburl\.com")


class LogReader:
    """The matches of one log, in the order of its lines."""

    def __init__(self, name: str, lines: Sequence[str], limit: Limit | None = None) -> None:
        self.name = name
        self.lines = lines
        self.unread = range(0)  # lines that were not looked at, for want of time
        self._limit = limit or Limit(inf)
        self.matches: list[LogMatch] = []
        self._tracebacks: list[Traceback] = []
        self._bare: list[Traceback] = []  # exceptions whose tracebacks are not in the log
        self._headers: set[int] = set()  # lines that begin a chained traceback
        self._claimed: set[int] = set()  # lines of exceptions that belong to a traceback
        self._ignored: set[int] = set()  # lines of exceptions that Python ignored
        self.harmless: set[int] = set()  # numbers of lines that report an error, and are known to be none
        self._failures: list[TorchrunFailure] = []
        self._entries: list[tuple[int, Match]] = []
        self._cut = 0  # tracebacks without an end
        self._counts: Counter[str] = Counter()
        self._fulfilled: dict[str, bool] = {}  # by the text that an entry needs: whether this log holds it

    def read(self) -> list[LogMatch]:
        self._find()
        self._join()
        for failure in self._failures:
            self._add_torchrun_failure(failure)
        self.harmless = {index + 1 for index, match in self._entries if match.entry.kind == "noise"}
        self.harmless |= {index + 1 for index in self._ignored}
        known = {index for index, _ in self._entries} | {index for trace in self._tracebacks for index in trace.own}
        known |= self._ignored | {raised.number for trace in self._tracebacks for raised in trace.raised}
        for bare in self._bare:
            if bare.start not in known and self._condition(bare) not in known and not self._is_of_inner_task(bare):
                self._add_bare(bare)
        return sorted(map(self._as_ended_by_srun, self.matches), key=lambda each: each.number)

    def _find(self) -> None:
        """Look for tracebacks and entries in every line; where there is no time for all, in the first and last ones."""
        stopped = self._find_in(range(len(self.lines)))
        if stopped is not None:
            end = max(stopped, len(self.lines) - END_LINES)
            self._limit.extend(END_SECONDS)
            self.unread = range(stopped, end)
            last = self._find_in(range(end, len(self.lines)))
            if last is not None:
                self.unread = range(stopped, len(self.lines))

    def _find_in(self, indices: range) -> int | None:
        """Returns the index at which the time was over."""
        patterns = known_failures()
        watched = patterns.words | _TRACEBACK_WORDS
        for index in indices:
            line = self.lines[index]
            if index % CHECKED == 0 and self._limit.is_over():
                return index
            named = (
                "Error: " in line
                or "Exception: " in line
                or "Error): ray::" in line
                or line.endswith(("Error", "Exception"))
                or any(name in line for name in tracebacks.OTHER_CLASSES)
            )
            if named and len(self._bare) < MAX_MATCHES:
                _append(self._bare, tracebacks.read_bare_exception(self.lines, index))
            words = WORDS.findall(line.lower())
            if watched.isdisjoint(words):
                continue
            if self._limit.is_over():
                return index
            self._read_tracebacks(index, line, words)
            known_here = patterns.matches(visible_line(line))
            match = next((each for each in known_here if self._is_fulfilled(each)), None)
            if match:
                self._counts[match.entry.id] += 1
                if self._counts[match.entry.id] <= MAX_MATCHES:
                    self._entries.append((index, _by_sizes(match, line)))
        return None

    def _is_of_inner_task(self, bare: Traceback) -> bool:
        """Whether an exception of a Ray task has its reason in another one, which stands below its frames."""
        if not _RAY_ERROR.search(self.lines[bare.start]):
            return False
        other = next((each.start for each in self._bare if each.start > bare.start), bare.start + TASK_LINES)
        frames = (split_prefix(visible_line(line)).text for line in self.lines[bare.start + 1 : other])
        return other < bare.start + TASK_LINES and all(text[:1] in ("", " ", "\t") for text in frames)

    def _add_bare(self, bare: Traceback) -> None:
        """Add an exception whose traceback is not in the log. Ray names its class where the message is cut off."""
        origin = bare.origin()
        known = _packages_differ(origin, self._code_above(origin.number)) or _known_exception(origin)
        if known:
            self._add_entry(bare.start, known, bare)
        else:
            # The head of a Ray task has no reason of its own.
            self._add_exception(
                bare, bare.origin(), kind="generic" if _RAY_TASK.search(bare.origin().text) else "death"
            )

    def _as_ended_by_srun(self, match: LogMatch) -> LogMatch:
        """Return the death of a task that srun killed as a consequence."""
        if match.kind != "death" or not _KILLED_BY_SRUN.search(self.lines[match.number - 1]):
            return match
        return replace(match, kind="consequence") if match.number > self._step_end else match

    @cached_property
    def _first_words(self) -> int:
        """The index of the first line with a text."""
        return next((index for index, line in enumerate(self.lines) if line.strip()), 0)

    @cached_property
    def _step_end(self) -> int:
        """The number of the first line in which srun ends a step."""
        return next((index + 1 for index, line in enumerate(self.lines) if _STEP_ENDS.search(line)), len(self.lines))

    def _read_tracebacks(self, index: int, line: str, words: Sequence[str]) -> None:
        """Read every form of a traceback that begins at this line."""
        if "traceback" in words and tracebacks.HEADER in line and index not in self._headers:
            few = len(self._tracebacks) < MAX_MATCHES and self._cut < MAX_CUT
            trace = tracebacks.read_traceback(self.lines, index, self._claimed) if few else None
            self._cut += trace is None
            if trace and not tracebacks.begins_failure(self.lines, index):
                self._ignored |= {*trace.own, *range(trace.start, trace.end + 1)}
            elif trace:
                self._tracebacks.append(trace)
            if trace:
                self._headers |= trace.headers
                self._claimed.update(raised.number for raised in trace.raised)
        if torchrun_table.ROOT in line:
            _append(self._failures, torchrun_table.read_torchrun_table(self.lines, index))
        elif "exitcode" in words and not self._failures and not self._holds(torchrun_table.ROOT):
            _append(self._failures, torchrun_table.read_torchrun_row(self.lines, index))
        if not _SYNTAX_ERRORS.isdisjoint(words) and not any(old.end >= index for old in self._tracebacks[-4:]):
            _append(self._tracebacks, tracebacks.read_syntax_error(self.lines, index))
        if tracebacks.BOX in line:
            _append(self._tracebacks, tracebacks.read_boxed_traceback(self.lines, index))

    def _is_fulfilled(self, match: Match) -> bool:
        """Whether the log holds the text and the hosts without which the entry is not meant."""
        if match.entry.hosts > 1 and len(self._hosts) < match.entry.hosts:
            return False
        if not match.entry.needs:
            return True
        return self._holds(needed(match.entry, match.values))

    def _holds(self, text: str) -> bool:
        """Whether a line of this log holds the text, a regular expression."""
        if text not in self._fulfilled:  # a long log can hold the same line thousands of times
            searched = len(self._fulfilled) < MAX_NEEDS
            self._fulfilled[text] = searched and any(re.search(text, line) for line in self.lines)
        return self._fulfilled[text]

    @cached_property
    def _hosts(self) -> set[str]:
        """The hosts that print in this log."""
        return {host for line in self.lines[:HOST_LINES] if line and (host := speaker_of_line(line).host)}

    def _context(self, index: int, match: Match) -> dict[str, str]:
        """Return values from the nearest line above a match, or else below it, that has its context."""
        if not match.entry.context or self._counts[match.entry.id] > CONTEXT_LINES:
            return {}
        above = reversed(self.lines[max(0, index - CONTEXT_LINES) : index + 1])
        around = (*above, *self.lines[index + 1 : index + 1 + CONTEXT_BELOW])
        context = next((each for line in around if (each := re.search(match.entry.context, line))), None)
        return {name: value for name, value in context.groupdict().items() if value} if context else {}

    def _join(self) -> None:
        """Make one match of a traceback and the entry that explains it; of each other entry one of its own."""
        code = {index for trace in self._tracebacks for index in trace.own}
        used: set[int] = set()
        code |= {index for index, _ in self._entries if index and tracebacks.is_code(self.lines, index)}
        code -= {self._condition(trace) for trace in (*self._tracebacks, *self._bare)}
        by_line = {index: match for index, match in self._entries if index not in code | self._ignored}
        order = list(by_line)
        for trace in self._tracebacks:
            between = order[bisect_left(order, trace.start) : bisect_right(order, trace.end)]
            inside = [index for index in between if index not in used and self._is_same_rank(trace, index)]
            # An entry that only says that something failed is about this exception where it stands in its own line.
            lines = {trace.origin().number}
            inside = [index for index in inside if index in lines or by_line[index].entry.kind in _SPEAKING]
            explained = {name for index in inside for name in by_line[index].entry.explains}
            best = min(
                inside,
                key=lambda index: (
                    _strength(by_line[index]),
                    by_line[index].entry.id in explained,
                    by_line[index].entry.doubtful,
                    index,
                ),
                default=None,
            )
            if best is not None and by_line[best].entry.kind == "noise":
                best = None
            used.update(inside)
            origin = trace.origin()
            known = None
            if best is None:
                known = (
                    _packages_differ(origin, self._code_above(origin.number))
                    or _known_exception(origin)
                    or self._compiling(trace, origin)
                )
            if known:
                self._add_entry(origin.number, known, trace)
            elif best is None:
                self._add_exception(trace, origin, kind="generic" if _LAZY.fullmatch(origin.words) else "cause")
            else:
                self._add_entry(best, self._by_frames(self._by_place(by_line[best], best), trace), trace)
        for index, match in by_line.items():
            if index not in used and match.entry.kind != "noise":
                self._add_entry(index, self._by_place(match, index))

    def _by_place(self, match: Match, index: int) -> Match:
        """Return the entry of the place that the frame above an error shows, for example a file system that is full."""
        if match.entry.id == "firewall-reject" and self._is_own_address(index, match.values.get("peer", "")):
            return Match(entry=BY_ID["peer-died"], values=match.values)
        if match.entry.id == "peer-died" and self._is_own_proxy(index):
            return Match(entry=BY_ID["nccl-proxy-lost"], values={})
        if match.entry.id == "store-wait" and self._is_of_agent(index):
            return Match(entry=BY_ID["agent-wait"], values=match.values)
        # Code and its error stand in one line where a log was pasted without its line ends.
        code = [
            *self.lines[max(0, index - CODE_LINES) : index],
            self.lines[index][: _start_of_error(self.lines[index])],
        ]
        if match.entry.id == "file-missing" and any(map(_REMOVING.search, code)):
            return Match(entry=BY_ID["removed-twice"], values=match.values)
        if match.entry.id == "invalid-device-ordinal" and any(map(_RANK_AS_GPU.search, code)):
            known = "global-rank-as-gpu" if self._holds(_OTHER_LOCAL_RANK) else match.entry.id
            return Match(entry=BY_ID[known], values=match.values)
        if match.entry.id in ("cannot-fork", "file-operation-unsupported") and any(map(_LOCKING.search, code)):
            return Match(entry=BY_ID["file-lock"], values=match.values)
        if match.entry.id == "shapes-differ" and is_part_of_flat(self.lines[index]):
            return Match(entry=BY_ID["optimizer-step-sizes"], values=match.values)
        places = _PLACES.get(match.entry.id)
        if places is None:
            return match
        above = reversed(self.lines[max(0, index - FRAME_LINES) : index])
        frame = next((line for line in above if tracebacks.is_frame(line)), "")
        known = next((name for name, place in places.items() if any(map(place.search, (frame, *code)))), "")
        return Match(entry=BY_ID[known], values=match.values) if known else match

    def _is_own_address(self, index: int, address: str) -> bool:
        """Whether NCCL on the host of this line reported the address as that host's: no firewall is in between."""
        host = speaker_of_line(self.lines[index]).host
        own = rf"(?:^|[^\w.-]){re.escape(host)}:\d+:\d+ \[\d+\] NCCL INFO Bootstrap ?: Using \S+:{re.escape(address)}<"
        return bool(host and address) and self._holds(own)

    def _is_of_agent(self, index: int) -> bool:
        """Whether torchrun itself waited at the store: its frames are above, or its banner is the line above."""
        if self._speaker(index)[0].known:
            return False
        above = [line for line in reversed(self.lines[max(0, index - AGENT_LINES) : index]) if line.strip()]
        if above and _BANNER.search(above[0]):
            return True
        return any(map(_AGENT.search, takewhile(lambda line: tracebacks.HEADER not in line, above)))

    def _is_own_proxy(self, index: int) -> bool:
        """Whether a thread of NCCL lost its connection to another thread of the process, which had failed above."""
        lost = _LOST_BY.search(self.lines[index])
        if lost is None or lost["host"].partition(".")[0] != lost["peer"].partition(".")[0]:
            return False
        above = self.lines[max(0, index - CONTEXT_LINES) : index]
        process = f"{lost['host']}:{lost['pid']}:"
        return any(process in line and "[Proxy Service" in line and "Failed to execute" in line for line in above)

    def _by_frames(self, match: Match, trace: Traceback) -> Match:
        """Return the entry that the frames show: a state dict was gathered, or torchrun ran twice."""
        if match.entry.id not in ("cuda-out-of-memory", "port-in-use"):
            return match
        frames = [self.lines[index] for index in trace.own if tracebacks.is_frame(self.lines[index])]
        if match.entry.id == "port-in-use":
            twice = any("/elastic/rendezvous/" in frame for frame in frames) and self._has_two_agents
            return Match(entry=BY_ID["two-agents"], values=match.values) if twice else match
        if any(map(_PINNING.search, frames)):
            return Match(entry=BY_ID["pinned-memory"], values=match.values)
        gathered = any(map(_GATHERING.search, frames)) and not any(map(_LOADING.search, frames))
        return Match(entry=BY_ID["state-dict-memory"], values=match.values) if gathered else match

    def _compiling(self, trace: Traceback, raised: RaisedException) -> Match | None:
        """Return the entry of a failed torch.compile, where frames show that a compiler raised an unknown exception."""
        frames = (self.lines[index] for index in trace.own if tracebacks.is_frame(self.lines[index]))
        in_compiler = raised.place != raised.last and any(map(_COMPILER.search, frames))
        return Match(entry=BY_ID["compile-failed"], values={"reason": raised.words}) if in_compiler else None

    @cached_property
    def _has_two_agents(self) -> bool:
        """Whether srun reports more tasks than hosts, and each of these hosts had a port in use."""
        ends = [end for line in self.lines if (end := _TASK_ENDS.search(line))]
        hosts = len({end["host"] for end in ends})
        tasks = 1 + max((int(task) for end in ends for task in re.findall(r"\d+", end["tasks"])), default=0)
        return 0 < hosts < tasks and (hosts == 1 or sum(map(bool, map(_PORT_TAKEN.search, self.lines))) >= hosts)

    def _is_same_rank(self, trace: Traceback, index: int) -> bool:
        """Whether a line between those of a traceback is of the same rank."""
        other = split_prefix(visible_line(self.lines[index])).speaker
        return not other.known or not trace.speaker.known or other == trace.speaker

    def _speaker(self, index: int, traced: Speaker | None = None) -> tuple[Speaker, float | None]:
        """Return the speaker of a line and its time. `traced`: the speaker of the traceback around it."""
        line = visible_line(self.lines[index])
        prefixed = split_prefix(line)
        speaker = speaker_of(prefixed, line)
        by_name = speaker_in_name(self.name)
        traced = traced or by_name
        return (
            Speaker(
                rank=_first(speaker.rank, traced.rank, by_name.rank),
                host=speaker.host or traced.host or self._task_host(index),
                local=_first(speaker.local, traced.local, by_name.local),
                agent=speaker.agent,
            ),
            prefixed.when,
        )

    def _task_host(self, index: int) -> str:
        """Return the host of the Ray task that failed with this line: Ray names it above the frames."""
        if not self._holds(_RAY_TASK.pattern):
            return ""
        for line in reversed(self.lines[max(0, index - TASK_LINES) : index + 1]):
            text = split_prefix(visible_line(line)).text
            task = _RAY_TASK.search(text)
            if task:
                return task["host"]
            if line is not self.lines[index] and text[:1].strip() and not tracebacks.is_frame(text):
                return ""
        return ""

    def _add_entry(self, index: int, match: Match, trace: Traceback | None = None) -> None:
        speaker, when = self._speaker(index, trace.speaker if trace else None)
        context = self._context(index, match)
        if speaker.rank is not None:
            context.pop("rank", None)  # another rank can have printed the context
        place = trace.origin().place if trace else None
        values = {"place": f"{place[0]}:{place[1]}"} if place else {}
        values |= {**context, **(_failed_rank(trace, speaker) if trace else {}), **match.values}
        own = values.pop("speaker", "")
        if own and speaker.rank is None:
            speaker = replace(speaker, rank=int(own))
        if match.entry.kind == "death" and not speaker.host:
            speaker = replace(speaker, host=values.get("host", ""))
        read_more = _READ_MORE.get(match.entry.id)
        if read_more is not None:
            values |= read_more(values, self.lines, index)
        # The host of a text is the one it speaks of; the rank that it names is the guilty one.
        ranks = values.get("rank", "")
        if ranks[:1].isdecimal():
            several = "" if ranks.isdecimal() else ranks
            first = int(re.findall(r"\d+", ranks)[0])
            speaker = replace(speaker, rank=first, host=values.get("host", speaker.host), ranks=several)
        if values.get("local", "").isdecimal() and speaker.rank is None:
            speaker = replace(speaker, local=int(values["local"]))
        if speaker.host:
            values.setdefault("host", speaker.host)
        shown = [name for name, text in match.entry.branches if self._holds(text)]
        if shown:
            values[BRANCHES] = " ".join(shown)
        job = _JOB.search(self.lines[index])
        if job:
            values.setdefault("job", job[1])
        if speaker.rank is not None:
            values.setdefault("rank", str(speaker.rank))
        line = visible_line(self.lines[index])
        mild = trace is None and is_mild(line)
        warned = mild and match.entry.kind == "cause" and not _END_BY_SIGNAL.search(line)
        doubtful = match.entry.doubtful or (mild and match.entry.kind == "generic") or says_it_continues(line)
        self.matches.append(
            LogMatch(
                entry=match.entry,
                kind="hint" if warned else match.entry.kind,
                file=self.name,
                number=index + 1,
                end=(trace.end if trace else index) + 1,
                text=_quoted(line, match.start),
                speaker=speaker,
                when=when if when is not None else trace.when if trace else None,
                values=values,
                doubtful=trace is None and doubtful,
                handled=trace is None and is_quoted(line),
                warned=warned,
                top=trace is not None and trace.raised[0].top,
                overcome=bool(match.entry.overcome_by) and self._holds(match.entry.overcome_by),
                decisive=match.entry.kind == "death",
            )
        )

    def _add_exception(self, trace: Traceback, origin: RaisedException, kind: str = "cause") -> None:
        speaker, when = self._speaker(origin.number, trace.speaker)
        failed = _failed_rank(trace, speaker)
        if failed:
            speaker = Speaker(rank=int(failed["rank"]))
        place = origin.place or origin.last
        where = f" at {place[0]}:{place[1]}" + (f" in {place[2]}" if place[2] else "") if place else ""
        where += f", raised inside {origin.called}" if origin.called else ""
        last = trace.raised[-1]
        also = "" if last is origin else f" (it ended as {last.words[:120]})"
        if trace.links and trace.links[-1] == "during" and last is origin:
            also = f" (while handling {trace.raised[0].words[:120]})"
        elif "nested" in trace.links or "group" in trace.links:
            also = f" (inside {trace.raised[0].words[:120]})"
        who = speaker.describe()
        package = origin.package
        whose = f"{who}'s own exception" if who else "the script's own exception"
        if package:
            whose = f"an exception inside {package}" + (f", {who}" if who else "")
        asserted = self._condition(trace)
        code = self._code(asserted)[:MAX_CODE] if asserted is not None else ""
        condition = f" ({code})" if code else ""
        self.matches.append(
            LogMatch(
                entry=None,
                kind=kind,
                file=self.name,
                number=origin.number + 1,
                end=trace.end + 1,
                text=origin.words[:MAX_TEXT],
                speaker=speaker,
                when=trace.when if trace.when is not None else when,
                values={},
                summary=one_line(f"{whose}: {_message(origin)}{condition}{where}{also}"),
                location=_name_arguments("correct", code)
                + self._argument_missing(origin)
                + self._table_of(origin)
                + _where_to_look(origin, above=origin.number > self._first_words),
                top=trace.raised[0].top,
            )
        )

    def _condition(self, trace: Traceback) -> int | None:
        """Return the line with the condition of an assertion that has no text of its own."""
        origin = trace.origin()
        if origin.text or not origin.kind.endswith("AssertionError"):
            return None
        start = trace.start if trace.own else 0  # without a header, the frames stand above it
        for index in range(origin.number - 1, max(start, origin.number - FRAME_LINES), -1):
            if self._code(index).startswith("assert "):
                return index
            if tracebacks.is_frame(self.lines[index]):
                break
        return None

    def _argument_missing(self, origin: RaisedException) -> str:
        """Name the arguments in the code of an error about None: one of them has no value."""
        if "NoneType" not in origin.text or origin.place != origin.last:
            return ""
        return _name_arguments("set", self._code_above(origin.number))

    def _table_of(self, origin: RaisedException) -> str:
        """Name the table in the code of a KeyError: a constant of the program that has no such name."""
        if origin.kind != "KeyError":
            return ""
        table = _TABLE.search(self._code_above(origin.number))
        name = as_word(table[1]) if table else ""
        return f"use one of the names in {name}, or add this one to it. Otherwise " if name else ""

    def _code_above(self, number: int) -> str:
        """Return the line of code above an exception, without the marks below it."""
        above = range(number - 1, max(-1, number - FRAME_LINES), -1)
        return next((text for index in above if (text := self._code(index)).strip("~^ ")), "")

    def _code(self, index: int) -> str:
        return split_prefix(visible_line(self.lines[index])).text.strip().rstrip("\\").rstrip()

    def _add_torchrun_failure(self, failure: TorchrunFailure) -> None:
        """Add a death by a signal, which stands in torchrun's table alone."""
        entry = BY_ID.get(SIGNALS.get(-failure.code, "")) or BY_ID["child-failed"]
        values = {"host": failure.speaker.host, "code": str(failure.code), **meaning_of(failure.code)}
        if failure.speaker.rank is not None:
            values["rank"] = str(failure.speaker.rank)
        self.matches.append(
            LogMatch(
                entry=entry,
                kind=entry.kind,
                file=self.name,
                number=failure.number + 1,
                end=failure.number + 1,
                text=visible_line(self.lines[failure.number]).strip(),
                speaker=failure.speaker,
                when=None,
                values=values,
                decisive=True,
            )
        )


def _start_of_error(line: str) -> int:
    name = _ERROR_NAME.search(line)
    return name.start() if name else 0


def _quoted(line: str, start: int) -> str:
    """Return the text of a line, of a long one its beginning and the part around its match."""
    text = split_prefix(line).text.strip()
    if len(text) <= MAX_TEXT or start + LEAST_QUOTED <= MAX_TEXT:
        return text[:MAX_TEXT]
    begin = max(text[:BEGIN_QUOTED].rfind(" "), BEGIN_QUOTED // 2)
    return f"{text[:begin]} ... {line[max(0, start - BEFORE_QUOTED) :].strip()}"[:MAX_TEXT]


def _by_sizes(match: Match, line: str) -> Match:
    """Return the entry of the processes that hold a GPU's memory, where the sizes in the line show them."""
    if match.entry.id not in ("cuda-out-of-memory", "accelerator-out-of-memory"):
        return match
    others, contexts = memory_of_others(line), contexts_of_ranks(line)
    known = "ranks-on-one-gpu" if contexts else "gpu-memory-taken" if others else ""
    return Match(entry=BY_ID[known], values={**match.values, "reason": contexts or others}) if known else match


def _failed_rank(trace: Traceback, speaker: Speaker) -> dict[str, str]:
    """Return the one rank that a traceback names as the failed one, where another rank prints it."""
    if len(trace.failed) != 1 or speaker.rank in trace.failed:
        return {}
    return {"rank": str(next(iter(trace.failed))), "host": ""}


def _name_arguments(verb: str, code: str) -> str:
    """Name the arguments in a line of code: of an assertion without a text, or of an error about None."""
    names = list(filter(None, map(as_word, dict.fromkeys(_ARGUMENT.findall(code)))))
    return f"{verb} {' or '.join(names)} in the command or the configuration. Otherwise " if names else ""


def _advice(origin: RaisedException) -> re.Match[str] | None:
    """Return the advice in a message. It is quoted with the message, and no hint: anybody can print it."""
    advice = _ADVICE.search(origin.text)
    return None if advice is None or _ABOUT_BUGS.search(advice[1]) else advice


def _message(origin: RaisedException) -> str:
    """Return the words of an exception, of long ones the beginning and the advice."""
    advice = _advice(origin)
    if advice is None or len(origin.words) <= MAX_TEXT:
        return origin.words[:MAX_TEXT]
    room = MAX_TEXT - MAX_CODE
    at = max(room, len(origin.words) - len(origin.text) + advice.start(1))
    return f"{origin.words[:room]}{' ... ' if at > room else ''}{origin.words[at : at + MAX_CODE]}"


def _where_to_look(origin: RaisedException, above: bool) -> str:
    """Say where to look. `above`: whether the log has lines above."""
    place = _place_to_look(origin, above)
    return f"read the whole message, which has advice. Otherwise {place}" if _advice(origin) else place


def _place_to_look(origin: RaisedException, above: bool) -> str:
    """Say where to look: at the user's own line, or at a package's versions and arguments."""
    package = as_word(origin.package)
    if package and origin.last:
        return f"check the arguments of that call, and the version: pip show {package}"
    file = as_word(origin.place[0]) if origin.place else ""
    if origin.place and file:
        return f"look at {file}, line {origin.place[1]}"
    task = _RAY_TASK.search(origin.text)
    host = as_word(task["host"]) if task else ""
    if host:
        return f"read the whole message in the log of that worker on {host}: /tmp/ray/session_latest/logs"
    return (
        "look at the lines above it"
        if above
        else "find the traceback of this line, in the whole log or that of its rank"
    )


T = TypeVar("T")


def _packages_differ(raised: RaisedException, code: str) -> Match | None:
    """Return the entry of packages that do not fit, where a library or a configuration passes an unknown argument."""
    call = _UNEXPECTED.match(raised.text) if raised.kind == "TypeError" else None
    library = _CONFIGURED.search(code) or (raised.last and _CALLER.search(raised.last[0]))
    return Match(entry=BY_ID["packages-differ"], values=call.groupdict()) if call and library else None


def _known_exception(raised: RaisedException) -> Match | None:
    """Return the entry of an exception that its frame, or its class alone, shows."""
    # torch looks for a stream of its own in a list with one for each GPU.
    if raised.kind == "IndexError" and raised.last and raised.last[2] == "_get_stream":
        return Match(entry=BY_ID["global-rank-as-gpu"], values={})
    if raised.kind.endswith("RayTaskError(OutOfMemoryError)"):  # Ray's own message may be cut off
        return Match(entry=BY_ID["cuda-out-of-memory"], values={})
    return _settings_refused(raised)


def _settings_refused(raised: RaisedException) -> Match | None:
    """Return the entry of settings that a program refuses, where its own check of them fails with a text."""
    file, _, function = raised.last or ("", 0, "")
    # torch's own checks in such functions are about tensors and ranks.
    compares = _COMPARES.fullmatch(function) is not None and "/torch/" not in file
    checked = compares or raised.kind.endswith("MisconfigurationException")
    if not raised.text or not checked or not _REFUSAL.fullmatch(raised.kind):
        return None
    return Match(entry=BY_ID["settings-refused"], values={"reason": raised.text[:MAX_TEXT].rstrip(". ")})


def _append(items: list[T], item: T | None) -> None:
    if item is not None:
        items.append(item)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _strength(match: Match) -> int:
    return STRENGTH.get(match.entry.kind, 9)
