"""`ddpkit explain ID`: entries of the catalogue, offline, and the order in which a name is looked up."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.diagnosis.catalogue import BY_ID, ENTRIES
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.verdict import describe_exit

DDPKIT = Callable[..., subprocess.CompletedProcess[str]]


def test_an_id_prints_its_entry(ddpkit: DDPKIT) -> None:
    done = ddpkit("explain", "port-in-use")
    assert done.returncode == 0, done.stderr
    labels = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    assert labels == ["port-in-use", "category", "cause", "check", "fix", "more"]
    assert "Address already in use" in done.stdout
    assert "{" not in done.stdout  # names of values are in capitals


def test_the_document_of_an_entry_names_its_schema(ddpkit: DDPKIT) -> None:
    document = json.loads(ddpkit("explain", "port-in-use", "--json").stdout)
    assert next(iter(document.items())) == ("schema", "ddpkit.catalogue_entry/1")
    assert set(document) == {"schema", "id", "category", "kind", "title", "cause", "probe", "fix", "link"}
    assert document["category"] == "Rendezvous and start-up"


def test_the_list_has_every_id(ddpkit: DDPKIT) -> None:
    listed = [line.split()[0] for line in ddpkit("explain", "--list").stdout.splitlines() if line[0] == " "]
    assert listed == [entry.id for entry in ENTRIES]
    document = json.loads(ddpkit("explain", "--list", "--json").stdout)
    assert document["schema"] == "ddpkit.catalogue/1"
    assert [entry["id"] for entry in document["entries"]] == listed


@pytest.mark.parametrize(
    ("typed", "near"), [("prot-in-use", "port-in-use"), ("oom", None), ("gpu-problem", "duplicate-gpu"), ("zzzz", None)]
)
def test_a_wrong_id_lists_near_ones(typed: str, near: str | None, ddpkit: DDPKIT) -> None:
    done = ddpkit("explain", typed)
    assert done.returncode != 0
    assert not done.stdout
    message, hint = done.stderr.splitlines()
    assert f"{typed} not found" in message
    if near is None:
        assert "ddpkit explain --list" in hint
    else:
        assert re.fullmatch(rf"hint: ddpkit explain {near}", hint)
        assert f"similar: {near}" in message


def test_a_file_of_that_name_is_the_file(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "port-in-use").write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
    done = ddpkit("explain", "port-in-use")
    assert "(cuda-out-of-memory)" in done.stdout, done.stdout + done.stderr


def test_completion_offers_ids_after_their_first_letter(ddpkit: DDPKIT) -> None:
    from ddpkit.cli import candidates, completion

    assert candidates.list_candidates(["explain", "port-i"], completion.commands) == ["port-in-use"]
    assert candidates.list_candidates(["explain", ""], completion.commands) == []  # the shell offers files


def test_an_abort_in_torchs_teardown_points_to_its_entry() -> None:
    failure = Failure(
        host="node1",
        what="rank 0",
        rank=0,
        code=None,
        signal=6,
        last_lines=("terminate called without an active exception",),
    )
    (named,) = re.findall(r"ddpkit explain ([a-z-]+)", describe_exit(failure))
    assert named in BY_ID
