"""A trace: which events there are, their numbers, and that it never breaks the work."""

import asyncio
import inspect
import json
import re
import threading
import typing
import warnings

import jsonschema
import pytest
import trio

from helpers import ROOT
from longwatch.core import facts as f
from longwatch.core.limits import REASON_OF, RULES
from longwatch.streams import vocabulary
from longwatch.streams.telling import NAMELESS, Teller
from longwatch.streams.trace import EVENTS, NAMES, Trace, TraceEvent

CLOSED = pytest.mark.capability("CAP-101")
HARMLESS = pytest.mark.capability("CAP-102")
FACTS = [
    kind
    for kind in vars(f).values()
    if inspect.isclass(kind) and issubclass(kind, f.Fact) and kind is not f.Fact
]
SAMPLES = {str: "x", int: 3, bool: True}


def sample(name):
    """Return fields that are right for an event."""
    return {field.rstrip("?"): SAMPLES[kind] for field, kind in EVENTS[name][1].items()}


def traced():
    """Return a trace with a clock that stands, and what it wrote."""
    written = []
    return Trace(written.append, clock=lambda: 7), written


# The set


@CLOSED
def test_the_static_type_and_the_table_name_the_same_events() -> None:
    """A name that stands in only one of the two lists is a mistake."""
    assert typing.get_args(vocabulary.Name) == NAMES


@CLOSED
def test_the_published_schema_is_that_of_the_table() -> None:
    """The schema that is published says what is checked at run time."""
    published = json.loads((ROOT / "docs/reference/trace.schema.json").read_text())
    assert published == vocabulary.schema()
    assert [each["properties"]["event"]["const"] for each in published["oneOf"]] == list(NAMES)


@CLOSED
def test_the_reference_names_each_event_with_its_fields() -> None:
    """Who reads the reference finds every event, and what it holds."""
    lines = (ROOT / "docs/reference/turns.md").read_text().splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| `")]
    told = {name: row[2] for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    for name, (_, fields) in EVENTS.items():
        assert re.findall(r"`([\w?]+)`", told.get(name, "")) == list(fields), name


@CLOSED
def test_each_event_is_valid_and_nothing_can_be_added() -> None:
    """What the table allows, the schema allows; a further field is refused by both."""
    validator = jsonschema.Draft202012Validator(vocabulary.schema())
    for name in NAMES:
        line = TraceEvent(name, 1, 7, sample(name)).as_dict()
        assert validator.is_valid(line), name
        assert not validator.is_valid({**line, "more": 1}), name
        with pytest.raises(ValueError, match="has no field 'more'"):
            TraceEvent(name, 1, 7, {**sample(name), "more": 1})


@CLOSED
@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("nothing", {}, "is no event"),
        ("lapse", {"span_ms": None}, "has to be of type int"),
        ("lapse", {"span_ms": -1}, "never negative"),
        ("lapse", {"span_ms": True}, "has to be of type int"),
        ("lapse", {"span_ms": [1]}, "has to be of type int"),
        ("lapse", {}, "needs its field 'span_ms'"),
        ("pause_ended", {"stream": {"name": "x"}}, "has to be of type str"),
    ],
)
def test_wrong_events_cannot_be_made(name: str, fields: dict, words: str) -> None:
    """Fields are scalars of their type, None is none, spans are not negative, names are those of the table."""
    with pytest.raises(ValueError, match=words):
        TraceEvent(name, 1, 7, fields)


@CLOSED
def test_each_fact_has_an_event_or_is_known_to_have_none() -> None:
    """A fact that the core learns has to get a name here, or be listed as one that no stream can cause."""
    named = set(Teller._TABLE)
    assert named | set(NAMELESS) == set(FACTS)
    assert not named & set(NAMELESS)
    assert {f"{rule.name}_fired" for rule in RULES} | {f"{name}_fired" for name in REASON_OF} == {
        name for name in NAMES if name.endswith("_fired")
    }


TOLD = [
    (f.RunStarted(0), "stream_started", {}),
    (f.LimitNoted(5, "idle", 9), "limit_noted", {"limit": "idle", "window_ms": 9}),
    (
        f.LimitFired(480_000, "idle", 480_000, 0, "stop", "events"),
        "idle_fired",
        {
            "action": "stop",
            "window_ms": 480_000,
            "elapsed_ms": 480_000,
            "last_event": "text",
            "source": "events",
        },
    ),
    (
        f.LimitFired(90, "call", 50, 40, "stop", None, "Bash"),
        "call_fired",
        {"action": "stop", "window_ms": 50, "elapsed_ms": 50, "last_event": "text", "subject": "Bash"},
    ),
    (f.StopAverted(5, "idle", "progress"), "stop_averted", {"limit": "idle", "why": "progress"}),
    (f.StopBegan(5, "idle", 15), "stop_began", {"reason": "idle"}),
    (f.StopBegan(5, "cancelled", 15, "cascade"), "stop_began", {"reason": "cancelled", "origin": "cascade"}),
    (f.TreeUnkillable(5), "stream_stuck", {}),
    (
        f.HoldBegan(5, "call", "c1", tool="Bash"),
        "hold_began",
        {"hold": "call", "subject": "c1", "tool": "Bash"},
    ),
    (f.HoldBegan(5, "quiet", until=9), "hold_began", {"hold": "quiet", "span_ms": 4}),
    (f.HoldEnded(5, "call", "c1"), "hold_ended", {"hold": "call", "subject": "c1"}),
    (f.HoldBegan(5, "paused", until=35_005), "pause_began", {"span_ms": 35_000}),
    (f.HoldEnded(5, "paused"), "pause_ended", {}),
    (f.Lapse(5, 3_000), "lapse", {"span_ms": 3_000}),
    (f.SourceChanged(5, "events", "lost"), "source_changed", {"source": "events", "state": "lost"}),
    (f.LoopSuspected(5, "Bash", 5, 20), "loop_suspected", {"tool": "Bash", "count": 5, "window": 20}),
    (f.RunEnded(5, "idle", limit="idle"), "stream_ended", {"reason": "idle", "limit": "idle"}),
]


@CLOSED
@pytest.mark.parametrize(("fact", "name", "fields"), TOLD, ids=lambda value: getattr(value, "name", ""))
def test_facts_become_events(fact: f.Fact, name: str, fields: dict) -> None:
    """Each fact is told under its name, in scalars, without what is empty."""
    trace, written = traced()
    teller = Teller(trace)
    teller.last_event = "text"
    teller.tell(fact)
    assert [(event.name, event.fields) for event in written] == [(name, fields)]


@CLOSED
def test_what_no_stream_causes_is_not_told() -> None:
    """A fact of processes alone leaves no event."""
    trace, written = traced()
    Teller(trace).tell(f.KillSent(5))
    assert written == []


@pytest.mark.capability("CAP-87")
def test_a_grant_counts_and_names_the_pause() -> None:
    """A grant says how many there were for that limit, what is left, and whether the pause behind it is over."""
    trace, written = traced()
    teller = Teller(trace)
    teller.tell(f.HoldBegan(0, "paused", until=90_000))
    teller.tell(f.ExtensionGranted(60_000, "ceiling", 5_000, 5_000, 95_000))
    teller.tell(f.ExtensionGranted(60_000, "soft", 5_000, 5_000, 95_000))
    teller.tell(f.HoldEnded(70_000, "paused"))
    teller.tell(f.ExtensionGranted(71_000, "ceiling", 1_000, 6_000, 94_000))
    grants = [event.fields for event in written if event.name == "extension_granted"]
    assert [(grant["limit"], grant["count"], grant["pause"]) for grant in grants] == [
        ("ceiling", 1, "open, 30s left"),
        ("soft", 1, "open, 30s left"),
        ("ceiling", 2, "over"),
    ]
    assert grants[2] == {
        "limit": "ceiling", "grant_ms": 1_000, "total_ms": 6_000, "remaining_ms": 94_000, "count": 2, "pause": "over",
    }  # fmt: skip


# Emission


@HARMLESS
def test_without_a_writer_it_is_nothing() -> None:
    """Nobody looks on: emitting and sealing cost nothing and do nothing, even with children that never end."""
    trace = Trace()
    trace.child(turn="a").emit("lapse", span_ms=1)
    trace.seal(drain=60)
    assert trace.sealed


@HARMLESS
def test_a_writer_that_fails_is_swallowed_and_told_once() -> None:
    """The work goes on, later events are still offered, one warning says why some are missing."""
    offered = []

    def fail(event):
        offered.append(event.seq)
        raise OSError("disk full")

    trace = Trace(fail, clock=lambda: 7)
    with pytest.warns(RuntimeWarning, match="lapse was not written.*disk full"):
        trace.emit("lapse", span_ms=1)
    with warnings.catch_warnings(record=True) as more:
        warnings.simplefilter("always")
        trace.emit("lapse", span_ms=2)
        trace.emit("lapse", span_ms=3)
    assert offered == [1, 2, 3]
    assert more == []


@HARMLESS
def test_a_wrong_event_costs_itself_only() -> None:
    """A call that is wrong raises nothing, uses up no number, and is warned of; the next event is written."""
    trace, written = traced()
    with pytest.warns(RuntimeWarning, match="span_ms is None"):
        trace.emit("lapse", span_ms=None)
    trace.emit("lapse", span_ms=1)
    assert [(event.seq, event.fields) for event in written] == [(1, {"span_ms": 1})]


@HARMLESS
def test_emission_survives_warnings_that_are_errors() -> None:
    """Where warnings are errors, an event that cannot be written still raises nothing."""
    trace = Trace(lambda event: 1 / 0, clock=lambda: 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace.emit("lapse", span_ms=1)


@HARMLESS
def test_numbers_grow_strictly_also_from_several_threads() -> None:
    """However many threads emit at once, the writer sees 1, 2, 3 and so on, in that order."""
    trace, written = traced()
    ready = threading.Barrier(4)

    def emit():
        child = trace.child(turn=threading.current_thread().name)
        ready.wait()
        for _ in range(200):
            child.emit("lapse", span_ms=1)
        child.close()

    threads = [threading.Thread(target=emit, name=name) for name in "abcd"]
    for thread in threads:
        thread.start()
    trace.seal()
    for thread in threads:
        thread.join()
    assert [event.seq for event in written] == list(range(1, 802))
    assert {event.fields["turn"] for event in written[:-1]} == set("abcd")


@HARMLESS
def test_a_writer_may_emit_itself() -> None:
    """An event about an event has a number of its own, and no lock stands in its way."""
    written = []

    def write(event):
        written.append(event.seq)
        if event.name == "lapse":
            trace.emit("pause_ended")

    trace = Trace(write, clock=lambda: 7)
    trace.emit("lapse", span_ms=1)
    assert written == [1, 2]


def seal_blocking(trace, drain):
    """Seal in this thread."""
    trace.seal(drain)


def seal_asyncio(trace, drain):
    """Seal in an asyncio loop."""
    asyncio.run(trace.seal_async(drain))


def seal_trio(trace, drain):
    """Seal in a trio loop."""
    trio.run(trace.seal_async, drain)


SEALS = pytest.mark.parametrize("seal", [seal_blocking, seal_asyncio, seal_trio])


@HARMLESS
@SEALS
def test_the_seal_is_last_and_waits_for_children(seal) -> None:
    """A child that still works is waited for, what it says is written before the seal, and nothing after it."""
    trace, written = traced()
    child = trace.child(turn="a")
    begun = threading.Event()
    trace._clock = lambda: begun.set() or 7

    def work():
        begun.wait(10)
        child.emit("lapse", span_ms=1)
        child.close()
        child.close()

    thread = threading.Thread(target=work)
    thread.start()
    seal(trace, 10)
    thread.join()
    child.emit("lapse", span_ms=2)
    seal(trace, 10)
    assert [(event.seq, event.name) for event in written] == [(1, "lapse"), (2, "sealed")]
    assert written[-1].fields == {"children": 1, "unfinished": 0, "refused": 0, "duration_ms": 0}


@HARMLESS
@SEALS
def test_the_seal_does_not_wait_forever(seal) -> None:
    """A child that never ends delays the seal by its bound, and is counted in it."""
    trace, written = traced()
    stuck = trace.child(turn="a").child(stream="s")
    stuck.emit("lapse", span_ms=1)
    seal(trace, 0.01)
    assert written[0].fields == {"span_ms": 1, "turn": "a", "stream": "s"}
    assert written[-1].name == "sealed"
    assert written[-1].fields["unfinished"] == 2


@HARMLESS
def test_the_bound_of_the_seal_is_five_seconds() -> None:
    """Nobody waits longer than 5 s for children, unless asked to."""
    assert inspect.signature(Trace.seal).parameters["drain"].default == 5.0
    assert inspect.signature(Trace.seal_async).parameters["drain"].default == 5.0


@HARMLESS
def test_two_seals_at_once_write_one() -> None:
    """Whoever seals while another does finds it done."""
    trace, written = traced()
    child = trace.child(turn="a")

    async def main():
        first = asyncio.create_task(trace.seal_async(10))
        second = asyncio.create_task(trace.seal_async(10))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        child.close()
        await asyncio.gather(first, second)

    asyncio.run(main())
    assert [event.name for event in written] == ["sealed"]


@HARMLESS
def test_a_child_is_over_after_its_block() -> None:
    """Used as a context manager a child needs no word of its own to be over."""
    trace, written = traced()
    with trace.child(turn="a") as child:
        child.emit("pause_ended")
    trace.seal(0)
    assert written[-1].fields["unfinished"] == 0


@HARMLESS
def test_a_child_may_outlive_the_loop_of_the_seal() -> None:
    """A child that ends after the loop is gone in which the seal waited for it disturbs nobody."""
    trace, _ = traced()
    child = trace.child(turn="a")
    trio.run(trace.seal_async, 0.01)
    child.close()


def test_an_event_shows_its_line() -> None:
    """An event can be written as it is, as one line of JSON."""
    assert TraceEvent("lapse", 3, 7, {"span_ms": 1}).as_dict() == {
        "schema": 1, "seq": 3, "mono_ms": 7, "event": "lapse", "span_ms": 1,
    }  # fmt: skip
