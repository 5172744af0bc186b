"""The catalogue is whole: every pattern is findable, every example leads to its entry, every entry has its page."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from itertools import combinations
from pathlib import Path
from signal import Signals

import pytest
from catalogue_examples import EXAMPLES
from troubleshooting import code_lines, pages

from ddpkit.diagnosis.catalogue import BY_ID, ENTRIES, Entry, entry_of_signal, known_failures
from ddpkit.diagnosis.catalogue.entry import NOTHING, OWN, filled
from ddpkit.diagnosis.catalogue.matcher import WORDS, words_of
from ddpkit.diagnosis.decide import analyze_log

ROOT = Path(__file__).parents[2]
MATCHER = known_failures()
TEXTS = [(BY_ID[name], text) for name, examples in EXAMPLES.items() for text, _ in examples]


def test_ids_are_unique_and_stable_in_form() -> None:
    assert len(BY_ID) == len(ENTRIES) > 150
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) for name in BY_ID)


# What a text may hold beside its pattern's own groups: what is known of the speaker, and what the reader computes.
KNOWN = frozenset(
    """
    host rank job path reason busy work late absent calls frame group number peers same versions
    above cuda option wheel usage meaning name sharing place passed next guilty
    count visible
    """.split()
)


def faults_of_form(entry: Entry) -> list[str]:
    """Rules of an entry's form that it breaks."""
    texts = (entry.title, entry.cause, entry.probe, entry.fix)
    # Only what a pattern can capture, or what is known of the speaker, is filled in.
    groups = {name for each in (*entry.patterns, entry.context) for name in re.compile(each).groupindex}
    used = set(re.findall(r"\{([a-z]+)\}", entry.cause + entry.probe + entry.fix))
    rules = {
        "a text has spaces around it, or is not one line": not all(
            text.strip() == text and "\n" not in text for text in texts
        ),
        "a text is empty": not (entry.title and entry.cause and entry.fix),
        "the link is not https": not entry.link.startswith("https://"),
        "the cause ends with a full stop": entry.cause.endswith("."),
        f"{sorted(used - groups - KNOWN)} cannot be filled in": not used <= groups | KNOWN,
        "words of a branch have a name in braces, which is printed as it stands": any(
            re.search(r"\{[a-z]+\? [^{}]*\{", text) for text in texts
        ),
        "its branches are not those of its texts": {name for name, _ in entry.branches}
        != set(re.findall(r"\{([a-z]+)\? ", entry.cause + entry.probe + entry.fix)),
        "patterns and examples are not both there": bool(entry.patterns) != (entry.id in EXAMPLES)
        and entry.kind not in ("hint", "death"),
    }
    return [rule for rule, broken in rules.items() if broken]


def faults_of_pattern(pattern: str) -> list[str]:
    """Whether a pattern cannot be found by a word of a line, or is two patterns."""
    depth, faults = 0, [] if words_of(pattern) else ["no whole word outside of groups"]
    for index, char in enumerate(pattern):
        escaped = index > 0 and pattern[index - 1] == "\\"
        depth += (char == "(" and not escaped) - (char == ")" and not escaped)
        if char == "|" and not depth and not escaped:
            faults.append("two patterns in one")
    return faults


def test_edges_lead_to_entries_and_form_no_circle() -> None:
    edges = {entry.id: [each for each in entry.explains if each != OWN] for entry in ENTRIES}
    assert not {each for names in edges.values() for each in names} - set(BY_ID)
    assert not {name for entry in ENTRIES for each in entry.instead for name in each.of} - {*BY_ID, OWN, NOTHING}
    list(TopologicalSorter(edges).static_order())  # raises CycleError


def test_no_code_names_an_entry() -> None:
    """What code needs of an entry is a field of it: code that names one would be a rule for one failure.

    A check of the preflight has the id of what it found. An id of one word is a word elsewhere, such as quota.
    """
    named = {}
    for path in sorted((ROOT / "ddpkit").rglob("*.py")):
        room = path.relative_to(ROOT / "ddpkit").parts[0]
        strings = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        ids = {each for each in strings if isinstance(each, str) and each in BY_ID}
        words = {each for each in ids if "-" not in each and room in ("node", "launchers")}
        named[str(path)] = set() if room == "preflight" else ids - words
    assert not {name: ids for name, ids in named.items() if ids}


def test_what_is_seen_is_one_entry() -> None:
    seen = [name for entry in ENTRIES for name in entry.seen]
    assert len(seen) == len(set(seen)) > 15
    for name in (each for each in seen if not each.startswith("SIG")):
        assert any(f'"{name}"' in path.read_text() for path in (ROOT / "ddpkit").rglob("*.py")), name


def test_an_action_has_its_reason() -> None:
    assert not [entry.id for entry in ENTRIES if bool(entry.action) != bool(entry.reason)]
    assert not [entry.id for entry in ENTRIES if entry.request and entry.action != "exclude"]


def test_entries_are_whole() -> None:
    assert not {entry.id: faults for entry in ENTRIES if (faults := faults_of_form(entry))}


def test_patterns_can_be_found_by_a_word() -> None:
    patterns = {(entry.id, each): faults_of_pattern(each) for entry in ENTRIES for each in entry.patterns}
    assert not {name: faults for name, faults in patterns.items() if faults}


def test_every_pattern_matches_a_text_that_was_printed() -> None:
    assert not [
        (entry.id, each)
        for entry in ENTRIES
        for each in entry.patterns
        if not any(re.search(each, text) for text, _ in EXAMPLES.get(entry.id, ()))
    ]


def test_examples_say_how_they_are_known() -> None:
    known = re.compile(r".+, (?:run|source|documented|unverified|https://\S+)|https://.*")
    sources = [(name, where) for name, examples in EXAMPLES.items() for _, where in examples]
    assert not [(name, where) for name, where in sources if not known.fullmatch(where)]


def wrong_answers(entry: Entry, text: str) -> list[str]:
    """Differences between what is said of a printed text and its entry."""
    best = MATCHER.best(text)
    # And a whole log that holds only this line is explained by it.
    first = analyze_log([("log", f"starting\n[rank3]: {text}\nbye\n")]).first
    said = "" if first is None else f"{first.cause} {first.fix} {first.probe}"
    rules = {
        f"found as {best and best.entry.id}": best is None or best.entry.id != entry.id,
        f"explained as {first and first.id}": (first and first.id) != (None if entry.kind == "noise" else entry.id),
        f"not filled in: {said}": re.search(r"\{[a-z]+[}|]", said) is not None,
        f"a value is unknown: {said}": "unknown" in said.replace("CUDA unknown", "")
        and "unknown" not in entry.cause + entry.fix + entry.probe,
    }
    return [f"{text!r}: {rule}" for rule, broken in rules.items() if broken]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_leads_to_its_entry(name: str) -> None:
    assert not [wrong for text, _ in EXAMPLES[name] for wrong in wrong_answers(BY_ID[name], text)]


def reasons_of(entry: Entry) -> set[str]:
    """Ids of all that an entry explains, and what that explains."""
    found: set[str] = set()
    todo = [entry.id]
    while todo:
        new = {name for name in BY_ID[todo.pop()].explains if name in BY_ID} - found
        found |= new
        todo += new
    return found


def test_an_edge_decides_between_entries_that_know_one_line() -> None:
    """Those of different kinds have an order, and two with a text that each of them needs decide by it."""
    undecided = {
        (match.entry.id, other.entry.id)
        for _, text in TEXTS
        for line in text.splitlines()
        for match, other in combinations(MATCHER.matches(line), 2)
        if match.entry.kind == other.entry.kind
        and not (match.entry.needs and other.entry.needs)
        and other.entry.id not in reasons_of(match.entry)
        and match.entry.id not in reasons_of(other.entry)
    }
    assert not undecided


# What healthy runs print, and warnings behind which nothing is wrong: none of it is a cause.
HARMLESS = """\
[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 2, reducing to 1
Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 16384.0
epoch 3 step 1200 loss 0.1234 lr 0.001 121.3 samples/s
Epoch 12/100:  37%|███▋      | 37/100 [00:12<00:20,  3.01it/s, loss=0.412]
100%|██████████| 10/10 [00:00<00:00, 512.31it/s]
{'loss': 3.5534, 'grad_norm': 1.4142135381698608, 'learning_rate': 2.0454545454545457e-06, 'epoch': 0.01}
Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.305400
[2022-10-12 12:41:33] [INFO]: Iteration 32700, Cost 17.76s, triplet_loss=0.1912
INFO:root:Epoch 1/100 | Validation ap 0.9322 | Validation auc 0.9334 | Train time 25.95 s
INFO:torch.nn.parallel.distributed:Reducer buckets have been rebuilt in this iteration.
validation: error rate 0.031, top-1 error 4.2%, failed samples 0
MeanSquaredError: 0.25
errors: 0, warnings: 0
no errors found
node1:10:99 [3] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
node1:10:99 [3] NCCL INFO Bootstrap : Using eth0:10.36.29.253<0>
node1:10:99 [3] NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol.
node1:10:99 [3] NCCL INFO TUNER/Plugin: Failed to find ncclTunerPlugin_v3 symbol.
node1:10:99 [3] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
node1:10:99 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ibs3:10.252.0.211<0>
node1:10:99 [3] NCCL INFO NCCL_IB_DISABLE set by environment to 0.
node1:10:99 [3] NCCL INFO Using network IB
node1:10:99 [3] NCCL INFO cudaDriverVersion 12040
node1:10:99 [3] NCCL INFO Connected all rings
node1:10:99 [3] NCCL INFO Trees [0] -1/-1/-1->1->0 [1] -1/-1/-1->1->0
node1:10:99 [3] NCCL INFO P2P Chunksize set to 131072
node1:10:99 [3] NCCL INFO comm 0x5555b6a32e10 rank 1 nranks 2 cudaDev 1 busId 9e000 - Init COMPLETE
node1:10:99 [3] NCCL INFO comm 0x12fd4c240 rank 3 nranks 4 cudaDev 3 busId 70 - Destroy COMPLETE
NCCL version 2.21.5+cuda12.4
WARNING:torch.distributed.run:
*****************************************
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being
W1120 17:02:51.123000 4711 torch/distributed/run.py:793] *****************************************
[I socket.cpp:839] [c10d] The client socket has connected to [node1]:12345 on [node2]:46370.
[I debug.cpp:49] [c10d] The debug level is set to INFO.
[W socket.cpp:401] [c10d] The hostname of the client socket cannot be retrieved. err=-3
FutureWarning: The module torch.distributed.launch is deprecated and will be removed in future. Use torchrun.
FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use `torch.amp.autocast('cuda', args...)`
UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.
UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current
UserWarning: 'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be
UserWarning: Grad strides do not match bucket view strides. This may indicate grad was not created according to the
UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly.
UserWarning: Plan failed with a cudnnException: CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
DeprecationWarning: numpy.core is deprecated and has been renamed to numpy._core.
huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling
Some weights of BertForSequenceClassification were not initialized from the model checkpoint
Downloading shards: 100%|██████████| 2/2 [00:30<00:00, 15.2s/it]
Loading checkpoint shards: 100%|██████████| 2/2 [00:03<00:00,  1.6s/it]
wandb: Tracking run with wandb version 0.31.0
wandb: Run data is saved locally in wandb/run-20250101_000000-abcdefgh
wandb: Syncing run ethereal-plasma-37
[2023-07-17 15:39:48,259] [INFO] [comm.py:625:init_distributed] Initializing TorchBackend in DeepSpeed with backend
[2023-07-17 15:39:48,259] [INFO] [real_accelerator.py:110:get_accelerator] Setting ds_accelerator to cuda (auto
[2023-07-17 15:40:02,101] [INFO] [launch.py:347:main] Process 4711 exits successfully.
[2023-07-17 15:41:00,000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step.
The following values were not passed to `accelerate launch` and had defaults used instead:
GPU available: True (cuda), used: True
TPU available: False, using: 0 TPU cores
Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2
distributed_backend=nccl
`Trainer.fit` stopped: `max_epochs=3` reached.
saving checkpoint at iteration       5 to /data/checkpoints in torch_dist format
successfully saved checkpoint from iteration       5 to /data/checkpoints [ t 1/1, p 1/1 ]
resuming from checkpoint /data/checkpoints/last.pt
srun: job 17 queued and waiting for resources
srun: job 17 has been allocated resources
salloc: Granted job allocation 26
salloc: Relinquishing job allocation 26
salloc: Job allocation 26 has been revoked.
Submitted batch job 27
Warning: Permanently added 'node1' (ED25519) to the list of known hosts.
bash: no job control in this shell
Connection to node1 closed.
debug1: Server host key: ssh-ed25519 SHA256:S0kuD6aNCjKV7TrZrCMiMHaJ3SjGEbSQ4zqqvkrnN3g
tar: Removing leading `/' from member names
retrying failed request 0 times, timeout=30 s
[rank0]:[W1120 17:02:51.123456789 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed
"""


@pytest.mark.parametrize("line", HARMLESS.splitlines())
def test_what_healthy_runs_print_is_no_cause(line: str) -> None:
    for text in (line, f"[rank3]: {line}", f"3: {line}"):
        first = analyze_log([("log", f"starting\n{text}\nbye\n")]).first
        assert first is None or first.kind == "hint", first.id


def test_all_that_healthy_runs_print_is_no_cause() -> None:
    assert len(HARMLESS.splitlines()) > 60
    first = analyze_log([("log", HARMLESS)]).first
    assert first is None or first.kind == "hint", first.id


def test_words_of_a_pattern() -> None:
    assert words_of(r"(?P<program>[\w.-]+): command not found") == ["command", "not", "found"]
    assert words_of(r"Call to (?:wrap_)?ibv_(?:reg|create)\w* failed") == ["call", "failed"]
    assert words_of(r"workers? died") == ["died"]
    assert words_of(r"\bEADDRINUSE\b") == ["eaddrinuse"]
    assert words_of(r"(?:one|two)") == []


def test_what_a_line_holds_decides_which_patterns_are_tried() -> None:
    """The algorithm, not the time: lines of a healthy run are let go after a look at their words."""
    healthy = [
        "epoch 3 step 1200 loss 0.1234 lr 0.001 121.3 samples/s",
        "node1:10:99 [3] NCCL INFO Channel 00/0 : 0 -> 1",
    ]
    assert all(MATCHER.words.isdisjoint(WORDS.findall(line.lower())) for line in healthy)
    assert not any(MATCHER.words.isdisjoint(WORDS.findall(text.lower())) for _, text in TEXTS)
    assert all(word == word.lower() and WORDS.fullmatch(word) for word in MATCHER.words)


def test_filled() -> None:
    assert filled("nc -vz {host} {port}", None) == "nc -vz HOST PORT"
    assert filled("nc -vz {host|localhost}[ {port}]", {"port": "22"}) == "nc -vz localhost 22"
    assert filled("job[ {job}] ended[ on {host}]", {"host": "node1"}) == "job ended on node1"
    assert filled("{linux? Linux: a. }{windows? Windows: b. }c", {"branches": "windows"}) == "Windows: b. c"
    assert filled("{linux? Linux: a. }{windows? Windows: b. }c", {}) == "Linux: a. Windows: b. c"


def test_signals_have_entries() -> None:
    for number in ("KILL", "BUS", "SEGV", "ABRT", "ILL", "FPE", "TERM", "INT", "USR1", "USR2"):
        assert entry_of_signal(Signals[f"SIG{number}"]), number
    assert entry_of_signal(None) is entry_of_signal(99) is None


def test_every_entry_has_its_place() -> None:
    """The index leads to the anchor of an entry, which is its id."""
    texts = pages()
    anchors = {name: set(re.findall(r'<a id="([^"]+)">', text)) for name, text in texts.items()}
    assert sorted(each for found in anchors.values() for each in found) == sorted(BY_ID)
    links = re.findall(r"\(([\w-]+\.md)#([\w-]+)\)", texts["index.md"])
    assert len(links) == len(BY_ID)
    for file, anchor in links:
        assert anchor in anchors[file]


def test_the_commonest_failures_are_entries() -> None:
    ids = re.findall(r"^\* Id: `(.*)`$", (ROOT / "TROUBLESHOOTING.md").read_text(), re.MULTILINE)
    assert len(ids) == 20
    assert set(ids) <= set(BY_ID)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("ss -ltnp 'sport = :PORT'", ["ss -ltnp 'sport = :PORT'"]),
        ("on each node: nc -vz HOST PORT", ["# on each node", "nc -vz HOST PORT"]),
        ("python -c 'import torch; print(1)'; ulimit -n", ["python -c 'import torch; print(1)'", "ulimit -n"]),
        ("the last lines of rank 0", None),
        ("srun -l hostname, and the node's slurmd log", None),
        ("date on both hosts; munge -n", None),
        ("LOG_LEVEL=1 ddpkit launch", ["LOG_LEVEL=1 ddpkit launch"]),
    ],
)
def test_a_code_block_has_commands_alone(text: str, lines: list[str] | None) -> None:
    assert code_lines(text) == lines
