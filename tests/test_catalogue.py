"""The catalogue is whole: every pattern is findable, every example leads to its entry, the document is in step."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ddpkit.catalogue import BY_ID, ENTRIES, Entry
from ddpkit.catalogue.deaths import LOOK, SIGNALS
from ddpkit.catalogue.document import MARK, document
from ddpkit.catalogue.entry import filled
from ddpkit.catalogue.matcher import WORDS, Matcher, words_of
from ddpkit.explain import explain

ROOT = Path(__file__).parents[1]
MATCHER = Matcher(ENTRIES)
EXAMPLES = [(entry, text) for entry in ENTRIES for text, _ in entry.examples]


def test_ids_are_unique_and_stable_in_form() -> None:
    assert len(BY_ID) == len(ENTRIES) > 150
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) for name in BY_ID)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_an_entry_is_whole(entry: Entry) -> None:
    for text in (entry.title, entry.cause, entry.probe, entry.fix):
        assert text.strip() == text != ""
        assert "\n" not in text
    assert entry.link.startswith("https://")
    assert not entry.cause.endswith(".")
    # Only what a pattern can capture, or what is known of the speaker, is filled in.
    groups = {name for pattern in entry.patterns for name in re.compile(pattern).groupindex}
    used = set(re.findall(r"\{([a-z]+)\}", entry.cause + entry.probe + entry.fix))
    assert used <= groups | {"host", "rank", "job", "path", "reason"}
    assert bool(entry.patterns) == bool(entry.examples) or entry.kind in ("hint", "death")


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.patterns], ids=lambda entry: entry.id)
def test_patterns_can_be_found_by_a_word(entry: Entry) -> None:
    for pattern in entry.patterns:
        assert words_of(pattern), f"no whole word outside of groups: {pattern}"
        depth = 0
        for index, char in enumerate(pattern):
            escaped = index > 0 and pattern[index - 1] == "\\"
            depth += (char == "(" and not escaped) - (char == ")" and not escaped)
            assert char != "|" or depth or escaped, f"two patterns in one: {pattern}"


@pytest.mark.parametrize(("entry", "text"), EXAMPLES, ids=lambda value: value.id if isinstance(value, Entry) else "")
def test_an_example_leads_to_its_entry(entry: Entry, text: str) -> None:
    best = MATCHER.best(text)
    assert best is not None
    assert best.entry.id == entry.id
    # And a whole log that holds only this line is explained by it.
    first = explain([("log", f"starting\n[rank3]: {text}\nbye\n")]).first
    assert (None if first is None else first.id) == (None if entry.kind == "noise" else entry.id)
    if first is not None:
        for said in (first.cause, first.fix, first.probe):
            assert not re.search(r"\{[a-z]+\}", said)


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
    assert not any(MATCHER.may_match(line) for line in healthy)
    assert all(MATCHER.may_match(text) for _, text in EXAMPLES)
    assert all(word == word.lower() and WORDS.fullmatch(word) for word in MATCHER.words)


def test_filled() -> None:
    assert filled("nc -vz {host} {port}", {"host": "node1"}) == "nc -vz node1 PORT"


def test_signals_have_entries() -> None:
    assert all(name in BY_ID for name in SIGNALS.values())
    assert set(LOOK) <= set(SIGNALS)


def test_the_document_is_in_step() -> None:
    path = ROOT / "TROUBLESHOOTING.md"
    text = path.read_text()
    head, mark, _ = text.partition(MARK)
    assert mark, "the mark is gone"
    wanted = head + document()
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        path.write_text(wanted)
        return
    assert text == wanted, "make golden brings it up to date"
    assert all(f"(`{name}`)" in text for name in BY_ID)
