"""The side that places, with an engine that answers as the test wants: what it does when runs, nodes and the engine are lost."""

from collections.abc import Callable
from typing import Any

import pytest

from longwatch.core.plan import Item, Plan
from longwatch.posix import now
from longwatch.runtime.batch import Batch
from longwatch.runtime.engines.protocol import FAILED, GONE, EngineError
from longwatch.runtime.host import Host
from longwatch.runtime.placing import LOST, Placing
from placed import work

LEASE, MARGIN = 300, 200


class Engine:
    """Answers calls by what the test has put down for them: a value, an error, or a function of the arguments."""

    looks = 0
    ready = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[int, str, list[Any]]] = []

    def call(self, op: str, args: list[Any], done: Callable[..., object], limit: int) -> None:
        """Answer soon."""
        self.calls.append((now(), op, args))
        answer = self.answers[op]
        answer = answer(*args) if callable(answer) else answer
        wait = 20 if op == "renew" else 0
        if isinstance(answer, EngineError):
            self.host.at(now() + wait, lambda at: done(None, answer))
        else:
            self.host.at(now() + wait, lambda at: done(answer, None))

    def times(self, op: str) -> list[int]:
        """Return when a call was made."""
        return [at for at, name, _ in self.calls if name == op]


class Hands:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    def prepare(self, works: Any, state: dict[str, Any], done: Callable[..., object]) -> None:
        done({"run": state["run"]}, "", False)

    def settle(self, *words: Any) -> None: ...

    def keep(self, state: dict[str, Any], done: Callable[[], object] | None = None) -> None:
        if done is not None:
            done()

    def told(self, kind: str, item: str, **more: Any) -> None:
        self.notes.append((kind, str(more.get("text", ""))))

    def position(self, item: str, run: str) -> tuple[int, int]:
        return 0, 0

    def keep_position(self, *words: Any) -> None: ...

    def news(self, *words: Any) -> None: ...

    def bring(self, item: str, told: dict[str, Any], done: Callable[[], object]) -> None:
        done()


class Sink:
    """A log that takes everything."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: memoryview) -> int:
        self.data += bytes(data)
        return len(data)

    def note(self, text: str) -> None:
        self.data += f"({text})".encode()

    def close(self) -> None: ...


class Stage:
    """One item on such an engine."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.host = Host()
        self.engine = Engine(self.host)
        self.hands = Hands()
        self.sink = Sink()
        plan = Plan([Item("it")], 1, kept={} if state is None else {"it": state["lifecycle"]})
        works = {"it": work(["true"])}
        states = {} if state is None else {"it": state}
        place = Placing(self.host, self.engine, self.hands, lambda attempt: self.sink, lease=LEASE)
        self.batch = Batch(self.host, place, plan, works, states, self.hands, lambda: 0.5)
        self.engine.answers |= {"place": self.handle, "stop": {"heard": True}, "read": (0, b"")}

    def handle(self, spec: dict[str, Any], attempt: int, lease: int) -> dict[str, Any]:
        """Place it."""
        return {
            "run": spec["run"],
            "attempt": attempt,
            "lease": lease,
            "stamp": 1,
            "folder": "/f",
            "node": "n",
        }

    def news(self, **more: Any) -> dict[str, Any]:
        """Return an answer to a renewal."""
        return {
            "acked": True, "held": True, "exit": None, "events": [], "since": 0, "stamp": 2, "state": {}, "output": [0, 0],
            **more,
        }  # fmt: skip

    @property
    def state(self) -> dict[str, Any]:
        """What is kept of the item."""
        return self.batch.states["it"]


DONE = {
    "report": {"termination_reason": "exited", "exit_code": 0, "duration_ms": 5},
    "why": None,
    "state": {},
}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a stage with short spans."""
    monkeypatch.setattr("longwatch.core.fencing.MARGIN_LEAST", MARGIN)
    monkeypatch.setattr("longwatch.runtime.remote.AGAIN", 20)
    return Stage()


def test_all_of_its_output_is_fetched_before_it_is_over(stage: Stage) -> None:
    """The end is told before the last bytes are here: they are fetched all the same, then it is let go of."""
    pieces = {0: (0, b"one "), 4: (10, b"two")}
    stage.engine.answers["renew"] = lambda handle, since, stamp, wait: stage.news(exit=DONE, output=[0, 13])
    stage.engine.answers["read"] = lambda handle, stream, offset, count: pieces.get(offset, (offset, b""))
    stage.batch.run()
    assert stage.sink.data == b"one (6 bytes are missing here: it printed faster than they were fetched)two"
    assert (stage.state["lifecycle"], stage.batch.plan.over) == ("completed", True)
    assert [args[1] for _, op, args in stage.engine.calls if op == "stop"] == ["let go"]


def test_the_end_of_its_output_is_found_where_nobody_says_how_much_there_is(stage: Stage) -> None:
    """It is over, and the last news of it are lost: what can be read is fetched, up to where nothing more comes."""
    renewals = iter([stage.news(output=[0, 2]), stage.news(exit=DONE, output=[0, 2])])
    stage.engine.answers |= {
        "renew": lambda *words: next(renewals, None) or EngineError("lost", FAILED),
        "read": lambda handle, stream, offset, count: (offset, b"all of it"[offset : offset + 4]),
    }
    stage.batch.run()
    assert stage.sink.data == b"all of it"
    assert stage.state["lifecycle"] == "completed"


def test_what_cannot_be_fetched_at_the_end_is_told(stage: Stage) -> None:
    """Its output is gone with its node, its end is known: it is over all the same."""
    stage.engine.answers |= {
        "renew": stage.news(exit=DONE, output=[0, 9]), "read": EngineError("its node is gone", FAILED),
    }  # fmt: skip
    stage.batch.run()
    assert stage.state["lifecycle"] == "completed"
    assert any("could not be fetched" in text for _, text in stage.hands.notes)


def test_what_happens_there_is_told_here(stage: Stage) -> None:
    """Over its budget it is marked, as it would be here; a stop that began there, and what its runner notes, are told."""
    events = [
        {"event": "limit_fired", "limit": "idle"}, {"event": "limit_fired", "limit": "soft"},
        {"event": "stop_began", "reason": "idle"}, {"event": "note", "text": "words"},
    ]  # fmt: skip
    renewals = iter([stage.news(events=events)])
    seen: list[str] = []

    def renew(*words: Any) -> Any:
        seen.append(stage.state["lifecycle"])
        return next(renewals, None) or stage.news(exit=DONE)

    stage.engine.answers["renew"] = renew
    stage.batch.run()
    assert seen[:2] == ["running", "timed_out_resumable"]
    assert stage.state["over_budget"]
    kinds = [note for note in stage.hands.notes if note[0] in ("marked", "stopping", "note")]
    assert kinds == [("marked", ""), ("stopping", ""), ("note", "words")]


def test_the_next_attempt_waits_for_the_fence(stage: Stage) -> None:
    """A node that is gone says nothing of its runs: the next attempt begins when the lease and the margin are over."""
    renewals = iter([stage.news(), stage.news()])
    answered: list[int] = []

    def renew(handle: dict[str, Any], since: int, stamp: int, wait: int) -> Any:
        if handle["attempt"] == 2:
            return stage.news(exit=DONE)
        found = next(renewals, None)
        if found is not None:
            answered.append(now() + 20)
        return found or EngineError("its node is gone", GONE)

    stage.engine.answers |= {
        "renew": renew,
        "locate": {"here": False, "clean": False, "left": [], "exit": None},
    }
    stage.batch.run()
    _, second = stage.engine.times("place")
    assert second >= answered[-1] + LEASE + MARGIN
    assert (stage.state["lifecycle"], stage.state["attempt"]) == ("completed", 2)


def test_a_swept_node_is_not_waited_for(stage: Stage) -> None:
    """Where its node has proven that nothing is left the next attempt begins at once."""
    stage.engine.answers |= {
        "renew": lambda handle, *words: (
            stage.news(exit=DONE) if handle["attempt"] == 2 else stage.news(held=False)
        ),
        "locate": {"here": False, "clean": True, "left": [], "exit": None},
    }
    stage.batch.run()
    first, second = stage.engine.times("place")
    assert second < first + LEASE
    assert stage.state["lifecycle"] == "completed"


def test_it_is_not_begun_for_ever(stage: Stage) -> None:
    """An item that is lost again and again is left for --resume."""
    stage.engine.answers |= {
        "renew": stage.news(held=False), "locate": {"here": False, "clean": True, "left": [], "exit": None},
    }  # fmt: skip
    stage.batch.run()
    assert len(stage.engine.times("place")) == LOST + 1
    assert stage.state["lifecycle"] == "interrupted_resumable"


def test_an_engine_that_is_down_gets_nothing_more(stage: Stage) -> None:
    """Its runs are waited for as long as they may live; then the plan ends, so that it can be gone on with."""
    stage.engine.answers |= {
        "renew": EngineError("no bridge", FAILED),
        "locate": EngineError("no bridge", FAILED),
    }
    stage.engine.ready = False
    stage.batch.run()
    assert len(stage.engine.times("place")) == 1
    assert stage.engine.times("locate")[-1] >= stage.engine.times("place")[0] + LEASE + MARGIN
    assert stage.state["lifecycle"] == "interrupted_resumable"
    assert any("--resume" in text for _, text in stage.hands.notes)


def test_what_was_about_to_be_placed_is_looked_for(stage: Stage) -> None:
    """Killed between the wish and the answer: nobody knows whether it was begun, so it is looked for, and waited for."""
    state = {
        "id": "it", "run": "it-abcdef", "attempt": 1, "lifecycle": "running", "reason": None, "over_budget": False,
        "placing": LEASE, "placed": None, "granted": None, "parked_until": None, "pid": None,
    }  # fmt: skip
    later = Stage(state)
    later.engine.answers |= {
        "renew": later.news(exit=DONE), "locate": {"here": False, "clean": False, "left": [], "exit": None},
    }  # fmt: skip
    began = now()
    later.batch.run()
    assert later.engine.calls[0][1] == "locate"
    assert later.engine.times("place")[0] >= began + LEASE + MARGIN
    assert later.state["attempt"] == 2


def test_an_unacknowledged_renewal_extends_nothing(stage: Stage) -> None:
    """A runner that does not answer keeps the old stamp: what stands beside it cannot speak for it."""
    stamps: list[int] = []

    def renew(handle: dict[str, Any], since: int, stamp: int, wait: int) -> Any:
        stamps.append(stamp)
        return stage.news(acked=False, stamp=99) if len(stamps) < 3 else stage.news(exit=DONE)

    stage.engine.answers["renew"] = renew
    stage.batch.run()
    assert stamps[:3] == [1, 1, 1]


def test_refused_at_its_node_it_has_failed(stage: Stage) -> None:
    """What the node says of its start is how it ended: nothing of it runs, and nothing is waited for."""
    stage.engine.answers["place"] = EngineError("no such folder", "refused")
    stage.batch.run()
    assert (stage.state["lifecycle"], stage.state["error"]) == ("failed_terminal", "no such folder")
    assert not stage.engine.times("locate")


def test_nobody_waits_for_an_engine_that_is_silent(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked twice to end, with an engine that does not answer, it leaves what runs to its lease, and says so in its state."""
    monkeypatch.setattr("longwatch.runtime.placing.LEAVE", 50)
    stage.engine.answers |= {"renew": stage.news(), "stop": EngineError("silent", FAILED)}
    stage.host.at(now() + 50, lambda at: stage.batch.interrupt())
    stage.host.at(now() + 80, lambda at: stage.batch.interrupt(at_once=True))
    stage.batch.run()
    assert (stage.state["lifecycle"], stage.state["reason"]) == ("running", None)
    assert stage.state["placed"]["folder"] == "/f"
