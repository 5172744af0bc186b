"""The pace of a script is read from its lines, and a resume is compared with it."""

from __future__ import annotations

import pytest

from ddpkit.monitor.drill.pace import Count, Line, differs, find_key, learn, moment, steps, written_by_all


def lines(form: str, start: int = 0, count: int = 8) -> list[Line]:
    return [
        Line(float(n), 0, form.format(n=n, epoch=n // 4, batch=n % 4, share=n / 4, loss=1 / (n + 1)))
        for n in range(start, start + count)
    ]


@pytest.mark.parametrize(
    ("form", "last"),
    [
        ("step {n} loss {loss:.4f}", (7,)),
        ("step={n}/100 loss={loss:.4f}", (7,)),
        ("Epoch {epoch}: batch {batch}/4, loss={loss:.5f}", (1, 3)),
        ('{{"step": {n}, "loss": {loss:.5f}}}', (7,)),
        ("12:00:0{n} iter {n} seen 5", (7,)),
        ("{{'loss': '{loss:.4f}', 'epoch': '{share:g}'}}", (1.75,)),
    ],
)
def test_progress_is_found(form: str, last: tuple[float, ...]) -> None:
    assert learn(lines(form), 0.0).order[-1] == last


def test_the_trainer_of_transformers_tells_the_part_of_its_epochs() -> None:
    pace = learn(lines("{{'loss': '{loss:.4f}', 'epoch': '{share:g}'}}"), 0.0)
    assert [pace.words(each) for each in pace.order[4:6]] == ["epoch 1", "epoch 1.25"]
    assert learn(lines("step {n} took {share:g} s"), 0.0).words((1234567,)) == "step 1234567"
    assert find_key(lines("took {share:g} s")) is None


def test_a_named_step_comes_before_another_number_that_grows() -> None:
    key = find_key(lines("12:00:0{n} seen {n} step {n}"))
    assert key is not None
    assert key.places == (1,)


def test_nothing_grows() -> None:
    assert find_key(lines("loading 5 files")) is None


def test_a_resume_with_other_results_is_found() -> None:
    pace = learn(lines("step {n} loss {loss:.4f}"), 0.0)
    first = lines("step {n} loss {loss:.4f}", count=4)
    assert differs(pace, first, lines("step {n} loss {loss:.4f}", start=4, count=4)) is None
    assert "at step 4 loss is 0.9" in (differs(pace, first, lines("step {n} loss 0.9", start=4, count=4)) or "")


@pytest.mark.parametrize(
    ("form", "now"),
    [
        ("2026-11-30 16:{minute}:{n:02},123 INFO step {n} loss 0.5", ""),
        ("[16:{minute}:{n:02}] step {n} loss 0.5", ""),
        ("30 Nov 16 {minute} step {n} loss 0.5", ""),
        ("step {n} loss 0.5 rate {minute}", "rate is 44"),
    ],
)
def test_a_clock_is_no_result(form: str, now: str) -> None:
    """The clean run and the one before the resume were in one minute."""

    def shown(minute: int) -> list[Line]:
        return [Line(float(n), 0, form.format(n=n, minute=minute)) for n in range(4)]

    found = differs(learn(shown(43), 0.0), shown(43), shown(44))
    assert now in (found or "")
    assert bool(found) is bool(now)


def test_steps_are_counted_as_they_come() -> None:
    pace, rows = learn(lines("step {n}"), 0.0), [*lines("step {n}"), Line(9.0, 1, "step 9"), Line(9.0, 0, "done")]
    count = Count(pace.key)
    for end in range(len(rows) + 1):
        assert count.of(rows[:end]) == len(steps(rows[:end], pace.key))


@pytest.mark.parametrize(
    ("saves", "after"),
    [([], 40), ([9.5, 19.5, 29.5], 15), ([9.5], 11), ([99.5], 40)],
    ids=["no save", "between two", "one save", "at the end"],
)
def test_the_moment_of_a_fault(saves: list[float], after: int) -> None:
    assert moment([float(n) for n in range(100)], saves) == after


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([1.0, 1.01, 2.0, 2.01, 3.0, 3.01], True),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], False),
        ([1.0, 1.01], False),
    ],
)
def test_writes_of_each_rank_are_found(times: list[float], found: bool) -> None:
    assert written_by_all(times, 2) is found
    assert not written_by_all(times, 1)
