"""The place below a keeper, with keepers that fail as the test wants: whose fault it is that an item does not start."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from longwatch.core.batch import ITEM, Workstream
from longwatch.core.harness import Harness
from longwatch.core.plan import Item
from longwatch.posix.spawn import SpawnError
from longwatch.runtime.attempt import Attempt
from longwatch.runtime.below import Below
from longwatch.runtime.host import Host
from longwatch.runtime.kept import KeeperError, NoKeeper
from longwatch.runtime.running import Parts


class Keeper:
    """Starts nothing, for a reason."""

    def __init__(self, error: SpawnError) -> None:
        self.error = error

    def spawn(self, *words: Any) -> Any:
        raise self.error

    def runs(self) -> list[Any]:
        return []


class Hands:
    """Remembers the notes, and which runs were lost."""

    def __init__(self) -> None:
        self.notes: list[object] = []
        self.lost_runs: list[str] = []

    def prepare(self, *words: Any) -> None: ...

    def settle(self, *words: Any) -> None: ...

    def lost(self, work: Workstream, state: dict[str, Any]) -> None:
        self.lost_runs.append(state["run"])

    def keep(self, state: dict[str, Any], done: Callable[[], object] | None = None) -> None: ...

    def told(self, kind: str, item: str, **more: object) -> None:
        if kind == "note":
            self.notes.append(more["text"])


class Ready:
    """An item that is ready to be started."""

    harness = Harness("it", ("true",), kind=ITEM, cwd="/")
    env: dict[str, str] = {}
    stdin = b"words"


@pytest.fixture
def host() -> Iterator[Host]:
    """Return a loop."""
    made = Host()
    yield made
    made.close()


def made(host: Host, *errors: SpawnError) -> tuple[Below, Attempt, Hands]:
    """Return a place below keepers that fail, one after the other, an attempt there, and what it tells."""
    keepers: Iterator[Any] = iter([Keeper(error) for error in errors])
    place = Below(host, lambda: next(keepers), Parts("/nowhere", described={"plan": "p"}), {})
    hands = Hands()
    state = {"id": "it", "run": "it-abcdef", "attempt": 1, "over_budget": False}
    work = Workstream(Item("it"), Ready.harness)
    return place, Attempt(work, state, hands, place, lambda *words: False), hands


def begun(host: Host, *errors: SpawnError) -> tuple[Attempt, Hands]:
    """Begin an item there."""
    place, attempt, hands = made(host, *errors)
    place.begin(attempt, Ready())
    return attempt, hands


def test_a_keeper_that_cannot_be_had_says_nothing_about_the_item(host: Host) -> None:
    """One that has died is replaced once; where there is none then either, the item can be gone on with."""
    attempt, hands = begun(host, NoKeeper("it is gone"), KeeperError("no answer"))
    assert (attempt.state["reason"], attempt.state["lifecycle"]) == ("interrupted", "interrupted_resumable")
    assert attempt.state["error"] == "no answer"
    assert hands.notes == ["the keeper is gone; a new one is started"]


def test_a_program_that_cannot_be_started_is_the_item_s_fault(host: Host) -> None:
    """It has failed, and trying it again would not help."""
    attempt, hands = begun(host, SpawnError("true: command not found", 127))
    assert (attempt.state["reason"], attempt.state["lifecycle"]) == ("spawn_failed", "failed_terminal")
    assert (attempt.run, hands.notes) == (None, [])


def test_of_a_run_that_nobody_holds_is_kept_what_it_has_left(host: Host) -> None:
    """Nobody saw its end: it is not followed, and what it has named, such as a checkpoint, is taken over."""
    place, attempt, hands = made(host, NoKeeper("not asked"))
    assert place.take_up([attempt]) == []
    assert hands.lost_runs == ["it-abcdef"]
    assert not attempt.over
