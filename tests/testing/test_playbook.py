"""Playbooks: they fail when they should, and say where."""

import gc
import sys

import pytest

from longwatch.core import observations as o
from longwatch.core.commands import CapturePostMortem, Notify, Record
from longwatch.core.facts import LimitFired, LimitNoted
from longwatch.core.spec import LimitSpec, Spec
from longwatch.testing import Like, Playbook, like

SPEC = Spec({"idle": LimitSpec(1000)}, held=("output",))


def written() -> Playbook:
    """Return a script that is right."""
    book = Playbook(SPEC, ignore=(LimitNoted,))
    book.tell(400, o.ProgressSeen("output"))
    return book.expect(1400, like(LimitFired, limit="idle"), like(Notify), CapturePostMortem("idle"))


def test_a_right_script_passes_and_gives_the_watch() -> None:
    """A script that went as written gives back the watch as it is then."""
    assert written().play().snapshot(1500)["age_ms"] == 1500


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda book: book.expect(1400, like(Notify)), "- 1400 < Notify(...)"),  # something is missing
        (
            lambda book: book.tell(1500, o.Exited(0)),
            "+ 1500 < Record(fact=LeaderExited(",
        ),  # something came besides
    ],
)
def test_a_wrong_script_fails_with_a_diff(change, line: str) -> None:
    """What is missing is a minus line, what came besides a plus line; the rest is there for orientation."""
    book = written()
    change(book)
    with pytest.raises(AssertionError) as failure:
        book.play()
    shown = [" ".join(row.split()) for row in str(failure.value).splitlines()]
    assert any(row.startswith(line) for row in shown), shown
    assert any(row.startswith("400 > ProgressSeen(") for row in shown)


@pytest.mark.parametrize(
    "book",
    [
        Playbook(SPEC, ignore=(LimitNoted,)).expect(
            999, like(LimitFired), like(Notify), like(CapturePostMortem)
        ),
        Playbook(SPEC).expect(1000, like(LimitFired), like(Notify), like(CapturePostMortem)),
        Playbook(SPEC, ignore=(LimitNoted,)).expect(1000, like(LimitFired, limit="first"), like(Notify)),
        Playbook(SPEC, ignore=(LimitNoted,)).expect(
            1000, like(Notify), like(LimitFired), like(CapturePostMortem)
        ),
        Playbook(SPEC, ignore=(LimitNoted,)).until(1000),
    ],
    ids=["another instant", "not ignored", "another field", "another order", "nothing expected"],
)
def test_scripts_are_compared_whole(book: Playbook) -> None:
    """Instant, kind, fields and order all count, and so does what was not expected at all."""
    with pytest.raises(AssertionError, match="another way"):
        book.play()


def test_a_fact_is_short_for_its_record() -> None:
    """Facts may be expected as they are; so may records, or something like either."""
    fact = LimitNoted(500, "idle", 1000)
    for expected in (
        fact,
        Record(fact),
        like(LimitNoted, window=1000),
        like(Record, fact=fact),
        like(Record),
    ):
        Playbook(SPEC).expect(500, expected).play()


def test_ticks_are_told_to_nobody() -> None:
    """Extra looks leave no line."""
    book = Playbook(SPEC, ticks=(1, 499, 700))
    book.expect(500, LimitNoted(500, "idle", 1000)).until(900).play()


def test_a_script_is_written_in_the_order_of_time() -> None:
    """An observation before the last line is refused when it is written."""
    book = Playbook(SPEC).expect(500, like(Record))
    with pytest.raises(ValueError, match="400 ms is before 500 ms"):
        book.tell(400, o.Drained())
    book.play()


def test_like_knows_the_fields() -> None:
    """A field that the class does not have is a mistake of the script."""
    with pytest.raises(TypeError, match="LimitFired has no field 'name'; it has action, at, limit"):
        like(LimitFired, name="idle")
    assert repr(like(LimitFired, limit="idle")) == "LimitFired(limit='idle', ...)"
    assert not Like(LimitNoted).matches(Notify(LimitNoted(1, "idle", 2)))


def test_a_script_that_was_never_played_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forgotten `play` is an error that comes out of the finalizer, where pytest makes it a failure."""
    raised: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(str(args.exc_value)))
    book = Playbook(SPEC).expect(1, like(Notify))
    del book
    gc.collect()
    assert raised == ["a playbook was written and never played: call play()"]
    played = Playbook(SPEC)
    played.play()
    del played
    gc.collect()
    assert len(raised) == 1


def test_a_script_that_could_not_be_made_complains_of_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A playbook whose construction failed raises that error alone."""
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    with pytest.raises(AttributeError):
        Playbook(None)  # type: ignore[arg-type]
    gc.collect()
    assert raised == []
