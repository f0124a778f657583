"""What agents tell of the tokens they use and of what they cost: each reply once, whatever is told of it how often."""

import json
from pathlib import Path
from typing import Any

import pytest

from corpus import read_lines
from longwatch.cli.agent_words import event_line, story
from longwatch.observe import events as e
from longwatch.observe.agent import Agent
from longwatch.observe.dialects import load
from longwatch.observe.dialects.generic import with_rules
from longwatch.observe.outline import outline
from longwatch.observe.places import PLACES, Shelf
from longwatch.observe.record import DISK, STREAM, Record
from longwatch.observe.sessions import Sessions
from longwatch.observe.tally import Tally
from longwatch.observe.transcript import Lines

Line = dict[str, Any]


def claude(reply: str, uid: str, *, output: int = 5, **more: Any) -> Line:
    """Return one block of a reply, in a file or a stream."""
    usage = {
        "input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 3,
    }  # fmt: skip
    message = {"id": reply, "content": [{"type": "text", "text": "Hm."}], "usage": usage}
    return {"type": "assistant", "uuid": uid, "sessionId": "s-1", "message": message, **more}


def codex(kind: str, total: int) -> Line:
    """Return what a rollout says behind a reply: in a record of its own, of late, and in a count."""
    usage = {"input_tokens": 110, "cached_input_tokens": 100, "output_tokens": 5, "total_tokens": 115}
    if kind == "token_usage_record":
        return {"type": kind, "payload": {"response_id": f"r{total}", "usage": usage}}
    info = {"last_token_usage": usage, "total_token_usage": {"total_tokens": total}}
    return {"type": "event_msg", "payload": {"type": kind, "info": info, "rate_limits": None}}


def copilot(uid: str, reply: str) -> Line:
    """Return a record of usage, whose cost is no money."""
    usage = {
        "inputTokens": 110,
        "outputTokens": 5,
        "cacheReadTokens": 100,
        "cost": 1.0,
        "accounting": {"usageId": reply},
    }
    return {"type": "session.usage_record", "id": uid, "data": {"usage": usage}}  # fmt: skip


def gemini(reply: str, **more: Any) -> Line:
    """Return a message, which is written again when it grows."""
    tokens = {"input": 108, "output": 3, "cached": 100, "thoughts": 2, "tool": 2, "total": 115}
    return {"id": reply, "type": "gemini", "content": "Hm.", "tokens": tokens, **more}


def qwen(uid: str) -> Line:
    """Return a message of a chat file."""
    told = {
        "promptTokenCount": 110, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 100, "totalTokenCount": 115,
    }  # fmt: skip
    return {
        "type": "assistant", "uuid": uid, "sessionId": "s-1", "message": {"parts": [{"text": "Hm."}]}, "usageMetadata": told,
    }  # fmt: skip


def qwen_printed(reply: str) -> Line:
    """Return a message of its stream, where the cache is in the input though it looks like another's."""
    usage = {"input_tokens": 110, "output_tokens": 5, "cache_read_input_tokens": 100, "total_tokens": 115}
    return {"type": "assistant", "uuid": reply, "session_id": "s-1", "message": {"id": reply, "content": [], "usage": usage}}  # fmt: skip


def opencode(part: str, **more: Any) -> Line:
    """Return the end of a step."""
    tokens = {"input": 8, "output": 3, "reasoning": 2, "cache": {"read": 100, "write": 2}, **more}
    return {
        "type": "step_finish", "sessionID": "s-1", "part": {"id": part, "type": "step-finish", "reason": "tool-calls", "cost": 0.25, "tokens": tokens},
    }  # fmt: skip


def pi(kind: str, began: int, **more: Any) -> Line:
    """Return a reply, in a file or a stream."""
    usage = {
        "input": 8,
        "output": 5,
        "cacheRead": 100,
        "cacheWrite": 2,
        "totalTokens": 115,
        "cost": {"total": 0.25},
    }
    message = {
        "role": "assistant",
        "content": [],
        "usage": usage,
        "timestamp": began,
        "stopReason": "toolUse",
    }
    return {"type": kind, "message": message, **more}


def final(uid: str, total: float, since: float | None = None) -> Line:
    """Return the result of a stream: with the cost of the conversation, and of late with that since the one before."""
    more = {} if since is None else {"model_usage_since_last_result": {"some": {"costUSD": since}}}
    return {
        "type": "result", "subtype": "success", "uuid": uid, "session_id": "s-1", "total_cost_usd": total, **more,
    }  # fmt: skip


def cost(total: float) -> Line:
    """Return what Claude Code's file says of the cost of a conversation."""
    return {"type": "cost-state", "sessionId": "s-1", "totalCostUSD": total}


#: By dialect and source: lines of two replies, one of them told more than once, and what both have cost.
TOLD: dict[str, tuple[tuple[Line, ...], float | None]] = {
    "claude disk": ((claude("m1", "a"), claude("m1", "b"), claude("m2", "c"), cost(0.5)), 0.5),
    "claude stream": ((claude("m1", "a", output=1), claude("m1", "b"), claude("m2", "c"), final("d", 9.5, 0.5)), 0.5),
    "codex disk": (tuple(codex(kind, total) for total in (115, 230) for kind in ("token_usage_record", "token_count")), None),
    "codex disk, before": ((codex("token_count", 115), codex("token_count", 115), codex("token_count", 230)), None),
    "copilot disk": ((copilot("1", "m1"), copilot("1", "m1"), copilot("2", "m2")), None),
    "gemini disk": ((gemini("m1"), gemini("m1", toolCalls=[{"id": "c1", "name": "x"}]), gemini("m2")), None),
    "qwen disk": ((qwen("1"), qwen("1"), qwen("2")), None),
    "qwen stream": ((qwen_printed("1"), qwen_printed("1"), qwen_printed("2")), None),
    "opencode stream": ((opencode("1"), opencode("1"), opencode("2", total=115)), 0.5),
    "pi disk": ((pi("message", 1, id="a"), pi("message", 1, id="b"), pi("message", 2, id="c")), 0.5),
    "pi stream": ((pi("message_update", 1), pi("message_end", 1), pi("turn_end", 1), pi("message_end", 2)), 0.5),
}  # fmt: skip


def tally(events: list[e.Event]) -> Tally:
    """Return what events come to."""
    found = Tally()
    for event in events:
        if isinstance(event, e.Usage):
            found.add(event)
    return found


@pytest.mark.capability("CAP-126")
@pytest.mark.parametrize("name", TOLD)
def test_each_reply_counts_once(name: str) -> None:
    """Two replies, whatever is told of them how often: input without what a cache had, thoughts as output, and the cost."""
    dialect, source = name.partition(",")[0].split()
    lines, usd = TOLD[name]
    told = read_lines(dialect, source, *lines)
    found = tally(told.events)
    given = 13 if dialect == "claude" else 10
    assert found.as_dict() == {
        "input_tokens": 2 * given, "output_tokens": 10, "cached_tokens": 200, "total_tokens": 2 * given + 210, "cost_usd": usd,
    }  # fmt: skip
    assert (told.reader.failures, told.reader.bad) == (0, 0)


@pytest.mark.parametrize("name", TOLD)
def test_what_is_no_number_is_nothing(name: str) -> None:
    """Whatever stands where numbers were expected, the record counts for the rest of what it says."""
    dialect, source = name.partition(",")[0].split()
    for junk in ('"x"', "null", "-5", "true", "[]", "0"):
        lines = [json.loads(_spoiled(json.dumps(line), junk)) for line in TOLD[name][0]]
        told = read_lines(dialect, source, *lines)
        assert told.reader.failures == 0
        assert tally(told.events).as_dict()["cost_usd"] is None
        assert tally(told.events).total_tokens == 0


def _spoiled(line: str, junk: str) -> str:
    """Return a line with something else in place of all numbers but those that name a reply."""
    words = line.replace(", ", ",\n").replace("{", "{\n").replace("}", "\n}").split("\n")
    spoiled = []
    for word in words:
        key, colon, value = word.partition(": ")
        number = colon and key != '"timestamp"' and value.strip(",").replace(".", "").isdigit()
        spoiled.append(f"{key}: {junk}{',' * value.endswith(',')}" if number else word)
    return "".join(spoiled)


@pytest.mark.capability("CAP-126")
def test_the_cost_of_claude_is_what_is_new(tmp_path: Path) -> None:
    """It tells what all of the conversation has cost, also in the lives before this one: of that only what is new counts."""
    before, after = json.dumps(cost(2.0)).replace(": ", ":"), json.dumps(cost(2.5)).replace(": ", ":")
    path = tmp_path / "s-1.jsonl"
    path.write_text(f"{json.dumps(claude('m0', 'z'))}\n{before}\n")
    offset = path.stat().st_size
    path.write_text(f"{path.read_text()}{after}\n{after}\n")
    reader = load("claude").reader()
    reader.take_up(str(path), offset)
    events = [
        event
        for line in path.read_bytes()[offset:].splitlines()
        for record in reader.read(line)
        for event in record.events
    ]
    assert tally(events).cost_usd == 0.5
    fresh = load("claude").reader()
    fresh.take_up(str(tmp_path / "missing"), 10)
    assert tally([event for record in fresh.read(before.encode()) for event in record.events]).cost_usd == 2.0


def test_several_results_of_one_process() -> None:
    """Each result of a stream has all so far: the second adds what it has more, and one repeated adds nothing."""
    told = read_lines("claude", "stream", final("a", 1.0), final("b", 1.5), final("b", 1.5), final("c", 0.0))
    assert tally(told.events).cost_usd == 1.5


def test_pieces_of_a_reply_end_with_its_numbers() -> None:
    """Where the stream comes in pieces, the last one has the tokens of the output; the whole message never does."""
    lines = (
        {"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m1"}}},
        claude("m1", "a", output=1),
        {
            "type": "stream_event",
            "event": {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 70}},
        },
    )
    found = tally(read_lines("claude", "stream", *lines).events)
    assert (found.input_tokens, found.output_tokens) == (13, 70)


def test_rules_name_it() -> None:
    """Programs of one's own tell it by a rule."""
    rule = "usage: kind=bill -> message=n input=tokens.in output=tokens.out cached=tokens.old cost=usd"
    reader = with_rules([rule]).reader()
    line = {"kind": "bill", "n": 7, "tokens": {"in": 1, "out": 2, "old": 3}, "usd": 0.5}
    (record,) = reader.read(json.dumps(line).encode())
    assert record.events == (e.Usage("7", 1, 2, 3, 0.5),)
    (record,) = reader.read(json.dumps({**line, "usd": 0}).encode())
    assert record.events == (e.Usage("7", 1, 2, 3, None),)


# -- in a run


class Nobody:
    """A run without processes: no file is ever ours."""

    def members(self) -> list[Any]:
        return []

    def written(self, wanted: object) -> list[str]:
        return []

    def beside(self, names: object, folders: object) -> list[Any]:
        return []


def agent(home: Path, dialect: str = "claude") -> Agent:
    """Return an agent of which nothing is on disk yet."""
    found = load(dialect)
    sessions = Sessions(Shelf(PLACES[dialect], {"HOME": str(home)}), Nobody(), 0, clock=lambda: 0)
    return Agent(dialect, found, sessions, lambda file: Lines(file, found.reader()), 0, headless=True)


def used(*events: e.Event, source: str = DISK, sub: str = "") -> Record:
    """Return a record of these events."""
    return Record(events, at=1, session="s1", sub=sub, source=source)


@pytest.mark.capability("CAP-126")
def test_stream_and_file_tell_of_one_reply(home: Path) -> None:
    """A reply in both counts once, with the full numbers of the file; a cost that the file repeats is an echo, a helper's is not."""
    one = agent(home)
    one.printed(used(e.Usage("m1", 10, 1), e.Usage(cost_usd=0.5), source=STREAM), 1)
    one.hear(2, used(e.Usage("m1", 10, 5, 7), e.Usage(cost_usd=0.5)))
    one.hear(3, used(e.Usage("m2", 10, 5), sub="helper"))
    assert one.as_dict(4)["usage"] == {
        "input_tokens": 20, "output_tokens": 10, "cached_tokens": 7, "total_tokens": 37, "cost_usd": 0.5,
    }  # fmt: skip


def test_who_renames_its_replies_is_read_in_one_place(home: Path) -> None:
    """Where a stream and a file name one reply differently, the stream alone counts."""
    one = agent(home, "qwen")
    one.printed(used(e.Usage("m1", 10, 5), source=STREAM), 1)
    one.hear(2, used(e.Usage("other", 10, 5)))
    assert one.standing.usage.total_tokens == 15


def test_usage_is_no_progress(home: Path) -> None:
    """What was used ends no silence, is a sign of life and no more, and what says nothing new is not kept."""
    one = agent(home)
    kept: list[Any] = []
    one.log = lambda at, fields: kept.append(fields)
    heard = [one.hear(at, used(e.Usage("m1", 10, 5))) for at in (1_000, 9_000)]
    assert [[type(seen).__name__ for seen in each] for each in heard] == [["AliveSeen"], ["AliveSeen"]]
    assert [silence.ms for silence in one.standing.longest(10_000)] == [10_000]
    assert [fields["kind"] for fields in kept] == ["usage"]


def test_the_largest_numbers_hold() -> None:
    """A reply that is told of with less, and then again with all, has used no more for that."""
    assert tally([e.Usage("m", 5), e.Usage("m", 1), e.Usage("m", 5)]).total_tokens == 5


def test_the_oldest_replies_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it goes on, what is kept of its replies is bounded, and its sum is not changed by that."""
    monkeypatch.setattr("longwatch.observe.tally.MOST", 2)
    found = tally([e.Usage(name, 1) for name in ("a", "b", "a", "c", "a", "d")])
    assert (found.total_tokens, len(found._replies)) == (4, 2)


@pytest.mark.parametrize(
    ("usage", "line"),
    [
        ((12_345, 999, 1_234_567, 0.421), "1.25M tokens (12.3k in, 999 out, 1.23M cached), $0.42"),
        ((10, 5, 0, None), "15 tokens (10 in, 5 out)"),
        ((0, 0, 0, 0.001), "under $0.01"),
        ((0, 0, 0, None), ""),
    ],
)
def test_why_tells_it_in_one_line(usage: tuple[int, int, int, float | None], line: str) -> None:
    """Tokens by kind, and the cost where it was told; nothing of who told nothing."""
    event = e.Usage("m", *usage)
    found = tally([event])
    assert dict(story({"usage": found.as_dict()}))["used"] == ([line] if line else [])
    assert event_line(outline(event)).endswith(line)
    assert dict(story({"preset": "claude"}))["used"] == []
