"""Every text that people read keeps to the bounds of `tools/readability.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
import readability


def private(text: str) -> list[str]:
    return [word for sentence in readability.sentences(text) for word, _ in readability.private_words(sentence)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Everything behind `--` is your script.", ["behind"]),
        ("Everything after `--` is your script.", []),
        ("The nodes are behind a firewall.", []),
        ("The run leaves no process behind.", []),
        ("Every node is asked before the start.", ["is asked"]),
        ("ssh is asked for a password.", []),
        ("The run goes on while two nodes are left.", ["goes on"]),
        ("there is no folder /data", ["folder", "there is no"]),
        ("directory not found: /data", []),
        ("What all ranks print is shown once.", ["What"]),
        ("What does the node run?", []),
        ("The `unset` line takes variables away.", ["takes variables away"]),
        ("`it says there is no folder`", []),
        ("A stand-in for enroot stands out.", []),
    ],
)
def test_private_words_are_found(text: str, found: list[str]) -> None:
    assert sorted(private(text)) == sorted(found)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("One sentence. Another one.", [2, 2]),
        ("X cannot reach X: no answer within 5.5 s", [9]),
        ("- first\n- second bullet", [1, 2]),
        ("A path /a.b/c is one word, `a b c` too.", [8]),
    ],
)
def test_sentences_and_words_are_counted(text: str, counts: list[int]) -> None:
    assert [readability.words(each) for each in readability.sentences(text.replace("`a b c`", "`X`"))] == counts


def test_documents_are_read_without_code_and_headings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readability, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n\nRun `ddpkit ps -q` [here](x.md).\n\n```console\nddpkit behind\n```\n\n| a | b c |\n|---|---|\n"
    )
    found = [tuple(each) for each in readability.document_texts(page, "page")]
    assert found == [
        ("page", "page.md:3", "Run `X` here."),
        ("page (tables)", "page.md:9", ""),
        ("page (tables)", "page.md:9", "a"),
        ("page (tables)", "page.md:9", "b c"),
        ("page (tables)", "page.md:9", ""),
    ]


def test_every_text_is_readable() -> None:
    groups = readability.measure(readability.texts())
    print(readability.table(groups))
    assert not readability.failures(groups), "python tools/readability.py -v GROUP lists the sentences"


def test_every_source_of_texts_is_measured() -> None:
    groups = readability.measure(readability.texts())
    for name in ("help", "errors: cli", "texts: preflight", "texts: catalogue", "docstrings: api", "CHANGELOG.md"):
        assert groups[name].sentences > 5, name
