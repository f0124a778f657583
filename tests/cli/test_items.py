"""PLAN/ITEM, asked of the batch that runs its plan: also where that ends at the very moment it is asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.exceptions import Exit

from longwatch.cli import items
from longwatch.store import batches
from longwatch.store.batches import Known
from longwatch.store.workstreams import Workstreams

RUNS = {"lifecycle": "running", "run": "a-1", "reason": None}
ENDED = {"lifecycle": "interrupted_resumable", "run": "a-1", "reason": "cancelled"}
LATER = {"lifecycle": "completed", "run": "a-2", "reason": "exited"}


class Place:
    """An item whose batch does what the test wants each time somebody looks whether it is there."""

    def __init__(self, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = state / "base"
        self.shelf = Workstreams(str(self.base))
        known = Known("plan", "plan.toml", str(self.base))
        batches.remember(str(state), known)
        self.item = items.Item(known, "a")
        self.looks: list[Callable[[], int | None]] = []
        monkeypatch.setattr(batches, "holder", lambda _: self.looks.pop(0)())
        monkeypatch.setattr(items, "_POLL", 0.001)

    def keeps(self, **state: Any) -> None:
        """Have this kept of the item."""
        self.shelf.save({"id": "a", **state})

    def here(self, **state: Any) -> Callable[[], int | None]:
        """Return a look that finds the batch, after this was kept."""
        return lambda: (self.keeps(**state), 7)[1]

    def gone(self, **state: Any) -> Callable[[], int | None]:
        """Return a look that finds no batch, after this was kept."""
        return lambda: (self.keeps(**state), None)[1]

    def asked(self) -> str:
        """Return what the batch was asked."""
        path = self.base / batches.ASKS
        return path.read_text() if path.exists() else ""


@pytest.fixture
def place(state: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(state, monkeypatch)
    found.keeps(**RUNS)
    return found


def test_an_item_that_was_the_last_of_its_batch_is_stopped(place: Place) -> None:
    """Between two looks it ended and its batch with it: it is over, and that is the answer."""
    place.looks = [place.here(**RUNS), place.here(**RUNS), place.gone(**ENDED)]
    assert items.ask_to_stop(place.item, 500)["reason"] == "cancelled"
    assert '"grace_ms":500' in place.asked().replace(" ", "")
    assert '"op":"stop"' in place.asked().replace(" ", "")


def test_an_item_that_is_run_again_while_somebody_waits_is_over(place: Place) -> None:
    """What was to be stopped is its run, and that is no more."""
    place.looks = [place.here(**RUNS), place.here(**{**RUNS, "run": "a-2"})]
    assert items.ask_to_stop(place.item, None)["run"] == "a-2"


def test_an_item_whose_batch_dies_meanwhile_is_not_over(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has stopped it, and the line says where to look."""
    place.looks = [place.here(**RUNS), place.gone(**RUNS)]
    with pytest.raises(Exit) as over:
        items.ask_to_stop(place.item, 0)
    assert over.value.exit_code == 1
    assert capsys.readouterr().err == (
        "longwatch: plan/a is not over yet; longwatch why plan/a shows what it waits for\n"
    )


def test_an_item_that_takes_too_long_is_not_over(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside its grace it has some seconds, and no more."""
    monkeypatch.setattr(items, "PATIENCE", -1.0)
    place.looks = [place.here(**RUNS), place.here(**RUNS)]
    with pytest.raises(Exit):
        items.ask_to_stop(place.item, 500)
    assert "is not over yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kept", "said"),
    [(ENDED, "does not run: it is interrupted_resumable"), (RUNS, "was left by a batch that is gone")],
)
def test_without_a_batch_nothing_is_stopped(
    place: Place, capsys: pytest.CaptureFixture[str], kept: dict[str, Any], said: str
) -> None:
    """One that ended at this moment is told apart from one that was left."""
    place.looks = [place.gone(**kept)]
    with pytest.raises(Exit):
        items.ask_to_stop(place.item, None)
    assert f"longwatch: plan/a {said}" in capsys.readouterr().err
    assert place.asked() == ""


def test_an_item_that_ends_with_its_batch_before_somebody_looks_was_started(place: Place) -> None:
    """It is not run a second time."""
    place.looks = [place.here(**ENDED), place.gone(**LATER)]
    assert items.ask_to_start(place.item) == "a-2"
    assert '"op":"start"' in place.asked().replace(" ", "")


def test_what_no_batch_starts_is_for_the_caller_to_run(place: Place) -> None:
    """There is none, or it ended before it heard."""
    place.looks = [place.gone(**ENDED)]
    assert items.ask_to_start(place.item) is None
    assert place.asked() == ""
    place.looks = [place.here(**ENDED), place.gone(**ENDED)]
    assert items.ask_to_start(place.item) is None


def test_an_item_that_has_to_wait_is_wanted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch has heard; its run is yet to come."""
    monkeypatch.setattr(items, "PATIENCE", -1.0)
    place.looks = [place.here(**ENDED), place.here(**ENDED)]
    assert items.ask_to_start(place.item) == ""


def test_an_item_that_runs_is_not_started(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """It says so, and the batch is asked nothing."""
    place.looks = [place.here(**RUNS)]
    with pytest.raises(Exit):
        items.ask_to_start(place.item)
    assert capsys.readouterr().err == "longwatch: plan/a runs already\n"
    assert place.asked() == ""


def test_a_supervised_caller_has_a_say_in_its_own_run_only(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From inside another run it is refused; the item itself may."""
    monkeypatch.setenv("LONGWATCH_RUN_ID", "outer-1/a-1")
    items.require_right(place.item)
    monkeypatch.setenv("LONGWATCH_RUN_ID", "a-1/b-1")
    with pytest.raises(Exit):
        items.require_right(place.item)
    assert "from inside b-1 nothing else may be started or stopped" in capsys.readouterr().err


def test_a_word_that_means_no_item(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Names without a plan are for others; an item that its plan has not begun ends the verb (4)."""
    assert items.of(None) is None
    assert items.of("a") is None
    assert items.of("other/a") is None
    found = items.of("plan/a")
    assert found is not None
    assert found.title == "plan/a"
    with pytest.raises(Exit) as over:
        items.of("plan/aa")
    assert over.value.exit_code == 4
    assert capsys.readouterr().err == "longwatch: no item aa of plan.toml was begun; did you mean a?\n"
