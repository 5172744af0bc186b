"""No text that people read has a sentence of more than 30 words, as `tools/readability.py` counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import readability


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
    found = [tuple(each) for each in readability.document_texts(page)]
    cells = [("page.md:9", text) for text in ("", "a", "b c", "")]
    assert found == [("page.md:3", "Run `X` here."), *cells]


def test_no_sentence_has_more_than_thirty_words() -> None:
    found = list(readability.texts())
    assert list(readability.long_sentences(found)) == []
    places = " ".join(text.where for text in found)
    for part in (
        "launch --",
        "ddpkit/cli/",
        "ddpkit/preflight/",
        "/catalogue/",
        "ddpkit/api/",
        "CHANGELOG.md",
        ".sh:",
    ):
        assert places.count(part) > 5, part


def test_a_long_sentence_is_listed_with_its_place() -> None:
    text = readability.Text("page.md:3", "Short. " + "Word " * 31 + "end.")
    (found,) = readability.long_sentences([text])
    assert found.startswith("page.md:3: 32 words: Word Word")
