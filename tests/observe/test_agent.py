"""One agent in several places: what each of them tells is told once, in order, and kept for people."""

from pathlib import Path
from typing import Any

import pytest

from longwatch.core import observations as o
from longwatch.observe import events as e
from longwatch.observe.agent import Agent
from longwatch.observe.dialects import load
from longwatch.observe.places import PLACES, Shelf
from longwatch.observe.printed import ENOUGH, RECORDS, UNKNOWN, WORDS, Printed
from longwatch.observe.record import DISK, HOOK, STREAM, Record
from longwatch.observe.sessions import Sessions
from longwatch.observe.silences import Silence, Silences
from longwatch.observe.transcript import Lines

WALL = 1_893_553_445_000


class Nobody:
    """A run without processes: no file is ever ours."""

    def members(self) -> list[Any]:
        return []

    def written(self, wanted: object) -> list[str]:
        return []

    def beside(self, names: object, folders: object) -> list[Any]:
        return []


def agent(home: Path, dialect: str = "claude", *, headless: bool = True) -> Agent:
    """Return an agent of which nothing is on disk yet."""
    found = load(dialect)
    sessions = Sessions(Shelf(PLACES[dialect], {"HOME": str(home)}), Nobody(), 0, clock=lambda: 0)
    return Agent(dialect, found, sessions, lambda file: Lines(file, found.reader()), 0, headless=headless)


def record(*events: e.Event, source: str = DISK, sub: str = "", at: int = WALL, note: str = "") -> Record:
    """Return a record of these events."""
    return Record(events, at=at, session="s1", sub=sub, source=source, note=note)


def names(told: Any) -> list[str]:
    """Return the names of what was told, with or without instants."""
    return [type(each[1] if isinstance(each, tuple) else each).__name__ for each in told]


CALL, RESULT = e.ToolCalled("c1", "Bash"), e.ToolResult("c1")


@pytest.mark.parametrize("first", [DISK, STREAM, HOOK])
def test_a_call_begins_and_ends_once(home: Path, first: str) -> None:
    """Whoever tells of a call first is heard; for the others it is a sign of life."""
    one = agent(home)
    others = [source for source in (DISK, STREAM, HOOK) if source != first]
    assert names(one.hear(1, record(CALL, source=first))) == ["CallBegan"]
    assert [names(one.hear(2, record(CALL, source=source))) for source in others] == [["AliveSeen"]] * 2
    assert names(one.hear(3, record(e.ToolResult("c1", partial=True), source=first))) == ["CallProgressed"]
    assert names(one.hear(3, record(RESULT, source=first))) == ["CallEnded"]
    assert [names(one.hear(4, record(RESULT, source=source))) for source in others] == [["AliveSeen"]] * 2
    assert names(one.hear(4, record(e.ToolResult("c1", partial=True)))) == ["AliveSeen"]
    assert (one.counts["started"], one.counts["ok"], one.counts["open"]) == (1, 1, 0)


def test_the_stream_leads(home: Path) -> None:
    """What a file repeats late would begin a turn that is over: beside a stream it only adds calls, and longer waits."""
    one = agent(home)
    one.printed(record(e.TurnEnded(), source=STREAM), 10)
    echoes = [
        e.Text("word"),
        e.TurnStarted(),
        e.TurnEnded(),
        e.Retry(1, 100),
        e.Failed("x"),
        e.Subagent("start", "h"),
    ]
    assert {name for event in echoes for name in names(one.hear(11, record(event)))} == {"AliveSeen"}
    assert names(one.hear(12, record(CALL))) == ["CallBegan"]
    assert names(one.hear(13, record(e.Text("word"), sub="h"))) == ["ProgressSeen"]
    assert names(one.hear(14, record(e.Permission("waiting", "q"), source=HOOK))) == ["Asked"]
    wait = e.Limited("usage", 60_000)
    assert names(one.hear(15, record(wait, source=STREAM))) == ["Paused"]
    assert names(one.hear(16, record(wait))) == ["AliveSeen"]
    assert names(one.hear(17, record(e.Limited("usage", 3_600_000)))) == ["Paused"]
    assert names(one.hear(18, record(e.Limited("usage", lifted=True)))) == ["AliveSeen"]


def test_a_renumbered_stream_has_the_calls(home: Path) -> None:
    """Codex numbers the calls of its stream anew: those of its own file are the same again, those of helpers are not."""
    one = agent(home, "codex")
    assert names(one.hear(1, record(CALL))) == ["CallBegan"]
    one.printed(record(e.SessionStarted("s1"), source=STREAM), 2)
    assert names(one.hear(3, record(e.ToolCalled("c2", "exec_command")))) == ["AliveSeen"]
    assert names(one.hear(4, record(e.ToolCalled("c3", "exec_command"), sub="h"))) == ["CallBegan"]


def test_a_tool_that_asks_is_a_question(home: Path) -> None:
    """How long a human takes is no matter of a tool's budget."""
    one = agent(home)
    assert one.hear(1, record(e.ToolCalled("q1", "AskUserQuestion"))) == (o.Asked("q1"),)
    assert one.standing.state == "asked"
    assert names(one.hear(2, record(e.ToolResult("q1", partial=True)))) == ["CallProgressed"]
    assert one.hear(3, record(e.ToolResult("q1"))) == (o.Answered("q1"),)
    assert one.counts["started"] == 0


@pytest.mark.parametrize(
    ("headless", "event", "told"),
    [
        (True, e.TurnEnded(), ["TurnEnded", "ResultSeen"]),
        (True, e.TurnEnded("error", ok=False), ["TurnEnded"]),
        (False, e.TurnEnded(), ["TurnEnded"]),
    ],
)
def test_the_end_of_the_turn_of_who_works_alone(
    home: Path, headless: bool, event: e.Event, told: list[str]
) -> None:
    """Without a human nothing comes behind a turn that ended well; one that failed may be tried again."""
    assert names(agent(home, headless=headless).hear(1, record(event))) == told


def test_the_result_of_its_own_wins(home: Path) -> None:
    """Where the same record has the result, that is the result."""
    one = agent(home)
    assert names(one.hear(1, record(e.TurnEnded(), e.SessionEnded(ok=False)))) == ["TurnEnded", "ResultSeen"]
    assert one.standing.result_ok is False
    one.hear(2, record(e.TurnStarted()))
    assert one.standing.result_ok is None


def test_what_is_printed_waits_for_a_look(home: Path) -> None:
    """Words in a row are one sign; whatever else comes makes somebody look, and all comes in the order of its time."""
    one = agent(home)
    woken: list[int] = []
    one.wake = lambda: woken.append(1)
    assert one.printed(record(e.Text("a"), source=STREAM), 100)
    assert one.printed(record(e.Text("b"), source=STREAM), 110)
    assert not woken
    assert not one.printed(record(e.Retry(1), source=STREAM), 115)
    assert one.printed(record(CALL, source=STREAM), 120)
    assert len(woken) == 1
    one.hooks = lambda message: [record(e.Permission("waiting", "q"), source=HOOK)]
    one.message({"op": "hook"}, 105)
    told = one.look(200)
    assert [at for at, _ in told] == [105, 110, 115, 120]
    assert told[1][1] == o.ProgressSeen("transcript", 2)
    assert one.look(201) == []


def test_how_it_stands(home: Path) -> None:
    """Errors are kept until something follows them, limits until they are lifted, and who made them is named."""
    one = agent(home, headless=False)
    standing = one.standing
    assert (standing.state, one.pending) == ("ready", "claude has written no transcript yet")
    one.hear(5_000, record(e.SessionStarted("s1", model="m1"), e.TurnStarted()))
    assert (standing.state, one.session, standing.model, one.pending) == ("working", "s1", "m1", "")
    one.hear(5_100, record(e.SessionStarted("s2"), sub="h"))
    assert one.session == "s1"
    one.hear(6_000, record(e.Retry(2, status=529, cls="overload")))
    assert one.trouble == "overload 529 attempt 2"
    one.hear(6_100, record(e.Failed(message="went\naway"), sub="h"))
    assert (one.trouble, standing.last_error) == ("its helper: went away",) * 2
    one.hear(6_200, record(e.Text("word"), sub="h"))
    assert one.trouble == "overload 529 attempt 2"
    one.hear(6_300, record(e.Text("word")))
    assert (one.trouble, standing.last_error) == ("", "its helper: went away")
    one.hear(7_000, record(e.Subagent("start", "h"), CALL))
    assert standing.state == "call"
    shown = one.as_dict(9_000)
    assert [(call["call"], call["since_ms"]) for call in shown["calls"]] == [
        ("subagent h", 2_000),
        ("c1", 2_000),
    ]
    assert shown["longest"][0] == {"ms": 5_000, "state": "ready", "tool": ""}
    one.hear(9_500, record(e.Subagent("end", "h"), e.Restarted()))
    one.hear(9_600, record(e.Permission("waiting", "q")))
    assert [each["question"] for each in one.as_dict(9_700)["questions"]] == ["q"]
    one.hear(9_700, record(e.Permission("denied", "q")))
    assert (standing.state, one.counts["helpers"], one.counts["open"]) == ("working", 1, 0)


@pytest.mark.parametrize(
    ("second", "cls", "until"),
    [
        (e.Limited("rate"), "usage", WALL + 60_000),
        (e.Limited("usage", 90_000), "usage", WALL + 90_000),
        (e.Limited("money"), "money", WALL + 60_000),
    ],
)
def test_the_last_word_on_a_limit_may_say_less(home: Path, second: e.Limited, cls: str, until: int) -> None:
    """What was stated first still holds where the last record of an agent only says that there is a limit."""
    one = agent(home)
    one.hear(1, record(e.Failed(message="limit reached"), e.Limited("usage", 60_000)))
    assert one.standing.state == "paused"
    one.hear(2, record(second))
    limit = one.limit
    assert limit is not None
    assert (limit.cls, limit.until, limit.text) == (cls, until, "limit reached")
    one.hear(3, record(e.Limited(lifted=True)))
    assert one.limit is None


def test_a_limit_that_is_over_is_no_more(home: Path) -> None:
    """An end that lay before its own writing is that instant, and a limit whose end is past says nothing of a new one."""
    one = agent(home)
    one.hear(1, record(e.Limited("usage"), note='reset "3pm" is over, so the usual backoff holds'))
    limit = one.limit
    assert limit is not None
    assert limit.until == WALL
    one.hear(2, record(e.Limited("rate"), at=WALL + 10))
    assert one.as_dict(3)["limit"] == {"cls": "rate", "until": None, "text": ""}
    one.hear(3, record(e.Text("word"), at=WALL + 20))
    assert one.limit is None


def test_silences() -> None:
    """The three longest are kept, and the one that lasts is one of them."""
    silences = Silences(0)
    for at, state in ((100, "working"), (400, "call"), (600, "ready"), (600, "ready"), (650, "working")):
        silences.ended(at, state, "Bash" if state == "call" else "")
    assert silences.longest(650, "working") == [
        Silence(300, "call", "Bash"), Silence(200, "ready"), Silence(100, "working"),
    ]  # fmt: skip
    assert silences.longest(900, "asked")[:2] == [Silence(300, "call", "Bash"), Silence(250, "asked")]


# What is printed

INIT = b'{"type":"system","subtype":"init","session_id":"s1","cwd":"/"}\n'
RETRY = b'{"type":"system","subtype":"api_retry","session_id":"s1","attempt":1,"retry_delay_ms":5}\n'
TEXT = b'{"type":"assistant","uuid":"u1","session_id":"s1","message":{"id":"m","content":[{"type":"text","text":"hi"}]}}\n'


class Heard:
    """Takes the records of a stream."""

    def __init__(self, dialect: str = "claude", **options: Any) -> None:
        self.records: list[Record] = []
        self.printed = Printed(load(dialect), self.take, **{"records": True, **options})

    def take(self, record: Record, at: int) -> bool:
        self.records.append(record)
        return any(isinstance(event, e.Text | e.SessionStarted) for event in record.events)

    def feed(self, data: bytes, at: int = 1) -> bool:
        return self.printed.feed(memoryview(data), at)


def test_a_stream_of_records_is_known_by_its_first() -> None:
    """Behind a greeting, too; from then on each record is judged by what it means."""
    heard = Heard()
    assert heard.feed(b"a greeting\n")
    assert heard.feed(b'{"unknown":1}\n')
    assert heard.printed.kind == UNKNOWN
    assert heard.feed(INIT)
    assert heard.printed.kind == RECORDS
    assert len(heard.records) == 2
    assert not heard.feed(RETRY, 5)
    assert not heard.feed(TEXT[:40], 6)
    assert not heard.printed.settle()
    assert heard.feed(TEXT[40:], 7)
    assert (heard.printed.last, heard.printed.count) == (7, 4)
    assert heard.feed(b"words between\n", 8)


def test_a_stream_of_words_is_left_alone() -> None:
    """After so many lines without a record nothing is to be judged; bytes are progress, as everywhere."""
    heard = Heard(last=3, count=9)
    for _ in range(ENOUGH):
        assert heard.feed(b"word\n")
    assert heard.printed.kind == WORDS
    assert heard.printed.idle
    assert heard.feed(b"word")
    assert not heard.printed.settle()
    assert heard.printed.count == 9 + ENOUGH + 1
    assert heard.records == []


def test_words_of_a_retry_are_none() -> None:
    """Where a dialect knows words its stream stays under judgement, also for a line that has no end yet."""
    heard = Heard("gemini", records=False)
    assert not heard.printed.idle
    assert not heard.feed(b"Attempt 1 failed with status 429. Retrying with backoff\n")
    assert heard.feed(b"a warning\n")
    assert not heard.feed(b"\n")
    assert not heard.feed(b"Attempt 2 failed with status 429. Retrying with backoff")
    assert not heard.printed.settle()
    assert not heard.feed(b"\nthinking")
    assert heard.printed.settle()
    assert not heard.printed.settle()
    assert [record.events for record in heard.records] == [
        (e.Retry(1, status=429, cls="rate"),),
        (e.Retry(2, status=429, cls="rate"),),
    ]


def test_the_users_rule_is_asked_about_words() -> None:
    """A line that is no record is progress only if the user's rule lets it be."""

    class Rule:
        def feed(self, chunk: memoryview, now: int) -> bool:
            return b"tick" not in bytes(chunk)

    heard = Heard(rule=Rule())
    heard.feed(INIT)
    assert not heard.feed(b"tick\n")
    assert heard.feed(b"tock\n")
