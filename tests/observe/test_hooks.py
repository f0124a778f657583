"""What hooks tell: the same calls and turns as the transcript, and what only they know."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import corpus
from longwatch.cli.hook import outline as kept_of
from longwatch.core import observations as o
from longwatch.core.commands import Record
from longwatch.core.spec import HOUR, LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.observe import acp
from longwatch.observe import events as e
from longwatch.observe.hooks import MOST, Hooks

LIVE = Path(__file__).parents[1] / "data" / "live"
RUN = "build-abcdef"
WALL = 1_893_553_445_000


def message(event: str, **fields: Any) -> dict[str, Any]:
    """Return what `longwatch hook` leaves of a message."""
    given = {"session_id": "s-1", "hook_event_name": event, **fields}
    return {"op": "hook", "at_ms": 1, "wall_ms": WALL, **kept_of(json.dumps(given).encode(), RUN)}


def call(event: str, name: str, command: str = "make", **fields: Any) -> dict[str, Any]:
    """Return the same of a message about a call; `tool_use_id` may be left out as None."""
    about = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": name or None}
    return message(event, **{key: value for key, value in {**about, **fields}.items() if value is not None})


def told(hooks: Hooks, *messages: dict[str, Any]) -> list[e.Event]:
    """Return the events of messages, less that of the conversation itself."""
    events = [event for each in messages for record in hooks.records(each) for event in record.events]
    return [event for event in events if not isinstance(event, e.SessionStarted)]


def at_work() -> Hooks:
    """Return hooks whose agent was spoken to."""
    hooks = Hooks()
    told(hooks, message("SessionStart", source="startup"), message("UserPromptSubmit", prompt="do"))
    return hooks


# -- one conversation, three sources


def by_transcript() -> list[e.Event]:
    return corpus.shape("claude-steps.disk.jsonl", Path()).events


def by_hooks() -> list[e.Event]:
    hooks = Hooks()
    lines = (LIVE / "claude-steps.hooks.jsonl").read_bytes().splitlines()
    messages = [{"wall_ms": WALL, **kept_of(line, RUN)} for line in lines]
    return [event for each in messages for record in hooks.records(each) for event in record.events]


def by_acp() -> list[e.Event]:
    session = acp.Session()
    lines = (LIVE / "acp-steps.jsonl").read_text().splitlines()
    return [event for line in lines for event in session.read(json.loads(line))]


def heard(events: Iterable[e.Event]) -> list[o.Observation]:
    return [seen for event in events for seen in e.observations(event, "transcript")]


def essence(seen: Iterable[o.Observation]) -> list[tuple[object, ...]]:
    """Return what moves or holds a limit, without the names that each source has for a tool, and without words."""
    out: list[tuple[object, ...]] = []
    for each in seen:
        if isinstance(each, o.CallBegan):
            out.append(("began", each.call))
        elif isinstance(each, o.CallEnded):
            out.append(("ended", each.call, each.ok))
        elif not isinstance(each, o.ProgressSeen | o.AliveSeen):
            out.append((type(each).__name__,))
    return out


@pytest.mark.capability("OBS-7")
@pytest.mark.parametrize("source", [by_hooks, by_acp])
def test_live_sources_tell_what_the_transcript_tells(source: Any) -> None:
    """Hooks and ACP give the same turns and calls, in the same order and with the same outcome, as the transcript."""
    transcript, live = heard(by_transcript()), heard(source())
    assert essence(live) == essence(transcript)
    assert essence(live)[:3] == [("TurnBegan",), ("began", "c1"), ("ended", "c1", True)]
    codes = {event.call: event.exit_code or 0 for event in source() if isinstance(event, e.ToolResult)}
    assert codes == {"c1": 0, "c2": 0, "c3": 3, "c4": 1}


@pytest.mark.capability("OBS-7")
def test_words_are_told_by_those_who_have_them() -> None:
    """ACP tells the same words as the transcript; hooks have none, and name the same tools."""
    words, said = (
        [event.text for event in source() if isinstance(event, e.Text)] for source in (by_transcript, by_acp)
    )
    assert words == said
    events = by_hooks()
    assert not any(isinstance(event, e.Text | e.Thinking) for event in events)
    began = [event for event in events if isinstance(event, e.ToolCalled)]
    assert [event.tool for event in began] == ["Bash"] * 4
    assert isinstance(events[0], e.SessionStarted)
    assert (events[0].session, events[0].model) == ("s-1", "some-model")


@pytest.mark.capability("OBS-7")
def test_three_sources_move_a_watch_alike() -> None:
    """A watch that hears one conversation by either source has the same holds and deadlines after each step."""

    def steps(events: list[e.Event]) -> list[tuple[object, ...]]:
        watch = Watch(Spec({"call": LimitSpec(HOUR), "stall": LimitSpec(60_000)}, observed=True), 0)
        found: list[tuple[object, ...]] = []
        moves = [seen for seen in heard(events) if not isinstance(seen, o.ProgressSeen)]
        for at, seen in enumerate(moves, 1):
            watch.observe(seen, at * 1_000)
            found.append((watch.next_deadline(), len(watch.snapshot(at * 1_000)["holds"])))
        return found

    expected = steps(by_transcript())
    assert len(expected) == 10
    assert steps(by_hooks()) == expected
    assert steps(by_acp()) == expected


# -- what only hooks know


@pytest.mark.fault("C1")
@pytest.mark.capability("OBS-7")
def test_a_permission_prompt_is_known_from_the_hook_alone() -> None:
    """A prompt in the agent's own interface is a question: hours without an answer are nobody's silence."""
    hooks = at_work()
    limits = {"idle": LimitSpec(60_000), "call": LimitSpec(120_000), "stall": LimitSpec(60_000)}
    watch = Watch(Spec(limits, held=("stdout",), observed=True), 0)

    def tell(at: int, *messages: dict[str, Any]) -> list[str]:
        out = [command for seen in heard(told(hooks, *messages)) for command in watch.observe(seen, at)]
        return [c.fact.name for c in [*out, *watch.advance(at)] if isinstance(c, Record)]

    tell(1_000, call("PreToolUse", "c1"), call("PermissionRequest", ""))
    asked = tell(
        8 * HOUR,
        message("Notification", notification_type="permission_prompt", message="needs your permission"),
    )
    assert "limit_fired" not in asked
    assert not watch.ending.began
    tell(8 * HOUR + 1, call("PostToolUse", "c1", tool_response={"stdout": ""}))
    fired = tell(8 * HOUR + 60_001)
    assert "limit_fired" in fired


def test_the_answer_is_what_becomes_of_the_call() -> None:
    """The question ends with the call it is about, told apart from others of the same tool by what it does."""
    hooks = at_work()
    begun = told(
        hooks,
        call("PreToolUse", "c1", "one"),
        call("PreToolUse", "c2", "two"),
        call("PermissionRequest", "", "two"),
    )
    assert begun[2:] == [e.Permission("waiting", "permission c2", "Bash")]
    assert told(
        hooks,
        call("PermissionRequest", "", "two"),
        message("Notification", notification_type="permission_prompt"),
    ) == [e.Permission("waiting", "permission Bash", "Bash")]
    kinds = [
        (event.kind, getattr(event, "question", ""))
        for event in told(hooks, call("PostToolUse", "c2", "two"))
    ]
    assert kinds == [("permission", "permission c2"), ("permission", "permission Bash"), ("tool_result", "")]
    assert told(hooks, call("PermissionRequest", "", "none"), call("PermissionRequest", "", "none"))[1:] == []
    assert told(hooks, call("PermissionRequest", "", "one"), call("PermissionRequest", "", "one"))[:1] == [
        e.Permission("waiting", "permission c1", "Bash")
    ]


def test_a_prompt_that_is_refused_leaves_no_hook() -> None:
    """The next words of the human, or the end of the turn, say that the call will not come."""
    hooks = at_work()
    told(hooks, call("PreToolUse", "c1"), call("PermissionRequest", ""))
    assert told(hooks, message("UserPromptSubmit", prompt="rather not")) == [
        e.Permission("denied", "permission c1"),
        e.TurnStarted("user"),
    ]
    found = told(hooks, call("PreToolUse", "c2", "two"))
    assert found[0] == e.ToolResult("c1", ok_native=False, why="orphaned")
    told(hooks, call("PermissionRequest", "", "two"))
    assert told(hooks, message("Stop", last_assistant_message="Done.")) == [
        e.Permission("denied", "permission c2"),
        e.ToolResult("c2", ok_native=False, why="denied"),
        e.TurnEnded("end_turn"),
    ]
    assert told(hooks, call("PostToolUse", "c2", "two")) == []


def test_words_while_a_tool_runs_end_nothing() -> None:
    """What a human types meanwhile waits in the agent's queue; the call gets its result, also one of a helper."""
    hooks = at_work()
    told(
        hooks,
        call("PreToolUse", "c1"),
        call("PreToolUse", "c2", agent_id="h"),
        message("UserPromptSubmit", prompt="and"),
    )
    (ended,) = told(hooks, call("PostToolUse", "c1"))
    assert isinstance(ended, e.ToolResult)
    assert ended.ok
    assert [event.kind for event in told(hooks, call("PreToolUse", "c3"))] == ["tool_call"]
    assert [event.kind for event in told(hooks, call("PostToolUse", "c2", agent_id="h"))] == ["tool_result"]


def test_denied_by_a_rule() -> None:
    """A call that the agent's own rules refuse is over; nobody was asked, unless somebody was."""
    hooks = at_work()
    told(hooks, call("PreToolUse", "c1"))
    assert told(hooks, call("PermissionDenied", "c1", reason="too bold")) == [
        e.Permission("auto_denied", tool="Bash"),
        e.ToolResult("c1", ok_native=False, why="denied"),
    ]
    told(hooks, call("PreToolUse", "c2"), call("PermissionRequest", ""))
    assert told(hooks, call("PermissionDenied", "c2"))[0] == e.Permission("denied", "permission c2")
    told(hooks, call("PreToolUse", "c3"), message("Notification", notification_type="permission_prompt"))
    kinds = [
        (event.kind, getattr(event, "state", "")) for event in told(hooks, call("PermissionDenied", "c3"))
    ]
    assert kinds == [("permission", "denied"), ("tool_result", "")]


@pytest.mark.fault("C3")
def test_idle_at_its_prompt() -> None:
    """An agent that waits for input has finished; where the turn was broken off, only this notice says so."""
    hooks = at_work()
    told(hooks, call("PreToolUse", "c1"))
    idle = message("Notification", message="Claude is waiting for your input")
    assert told(hooks, idle) == [
        e.ToolResult("c1", ok_native=False, why="orphaned"),
        e.TurnEnded("aborted", ok=False),
    ]
    assert told(hooks, idle) == []


def test_notices_that_ask_and_answer() -> None:
    """A dialog of an MCP server, or a prompt without a hook of its own, is a question until it is answered."""
    hooks = at_work()
    ask, done = (
        message("Notification", notification_type=f"elicitation_{word}") for word in ("dialog", "response")
    )
    assert told(hooks, ask, ask, done, message("Notification", notification_type="auth_success")) == [
        e.Permission("waiting", "prompt"),
        e.Permission("allowed", "prompt"),
    ]
    assert told(hooks, message("Notification", message="Claude needs your permission")) == [
        e.Permission("waiting", "prompt")
    ]
    assert e.Permission("allowed", "prompt") in told(hooks, call("PostToolUse", "c9"))


# -- ends


@pytest.mark.fault("K4")
@pytest.mark.parametrize(
    ("error", "said", "cls", "span"),
    [
        ("rate_limit", "You've hit your limit · resets 6pm (UTC)", "usage", 14 * HOUR + 56 * 60_000 + 55_000),
        ("rate_limit", "API Error: Request rejected (429)", "rate", None),
        ("rate_limit", "", "rate", None),
        ("billing_error", "Credit balance is too low", "money", None),
        ("authentication_failed", "", "auth", None),
    ],
)
def test_a_turn_that_fails_names_its_limit(error: str, said: str, cls: str, span: int | None) -> None:
    """A turn that ends with a limit says which and, in the provider's words, until when."""
    hooks = at_work()
    failed, limit, ended = told(hooks, message("StopFailure", error=error, last_assistant_message=said))
    assert failed == e.Failed(cls, fatal=True, message=said)
    assert limit == e.Limited(cls, span)
    assert ended == e.TurnEnded("error", ok=False)
    assert told(hooks, message("SessionEnd", reason="other")) == [e.SessionEnded(ok=False, reason="other")]


def test_errors_that_are_no_limit() -> None:
    """Overload parks nobody; what fails for a helper does not end our turn; an unreadable reset is noted."""
    hooks = at_work()
    told(hooks, call("PreToolUse", "c1"))
    assert told(hooks, message("StopFailure", error="overloaded", agent_id="h")) == [e.Failed("overload")]
    assert told(hooks, message("StopFailure", error="server_error"))[-1] == e.TurnEnded("error", ok=False)
    (record,) = hooks.records(
        message("StopFailure", error="rate_limit", error_details="your limit resets tomorrow")
    )
    assert "cannot be read" in record.note


def test_failures_of_calls() -> None:
    """A failed call has the command's exit status where there is one; one that was interrupted says so."""
    hooks = at_work()
    bad = call("PostToolUseFailure", "c1", error="Exit code 137\nkilled", is_interrupt=True)
    _, result = told(hooks, bad)
    assert (result.exit_code, result.why) == (137, "interrupted")  # type: ignore[attr-defined]
    _, result = told(hooks, call("PostToolUseFailure", "c2", error="Exit code unknown"))
    assert (result.exit_code, result.why) == (None, "error")  # type: ignore[attr-defined]


def test_helpers() -> None:
    """A helper is an open call until it stops; what it left open ends with it, ours goes on."""
    hooks = at_work()
    told(hooks, call("PreToolUse", "c1", tool_name="Agent"))
    (record,) = hooks.records(call("PreToolUse", "c2", agent_id="h"))
    assert record.sub == "h"
    assert told(hooks, message("SubagentStart", agent_id="h"), message("SubagentStop", agent_id="h")) == [
        e.Subagent("start", "h"),
        e.ToolResult("c2", ok_native=False, why="orphaned"),
        e.Subagent("end", "h"),
    ]
    assert told(hooks, message("SubagentStart"), message("SubagentStop")) == []
    assert [event.kind for event in told(hooks, call("PostToolUse", "c1", tool_name="Agent"))] == [
        "tool_result"
    ]


def test_compaction_and_the_end() -> None:
    """Making room is told; a conversation that is cleared is none that ended."""
    hooks = at_work()
    assert told(hooks, message("PreCompact", trigger="auto"), message("PostCompact")) == [
        e.Compacted("start"),
        e.Compacted("end"),
    ]
    told(hooks, call("PreToolUse", "c1"), call("PermissionRequest", ""))
    assert [event.kind for event in told(hooks, message("SessionEnd", reason="clear"))] == [
        "permission",
        "tool_result",
    ]
    (record,) = hooks.records(message("SessionStart", session_id="s-2", source="clear"))
    assert record.events == (e.SessionStarted("s-2"),)
    assert told(hooks, message("SessionEnd", session_id="s-2", reason="other")) == [
        e.SessionEnded(reason="other")
    ]


def test_another_conversation_in_the_same_run() -> None:
    """An agent that a tool starts ends no turn of ours; when ours has nothing to do, the next one is ours."""
    hooks = at_work()
    told(hooks, call("PreToolUse", "c1"))
    other = [
        message(word, session_id="s-9") for word in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    ]
    records = [record for each in other for record in hooks.records(each)]
    assert [record.events for record in records] == [()] * 4
    assert [record.session for record in records] == ["s-9"] * 4
    assert records[0].observations() == (o.AliveSeen("transcript"),)
    told(hooks, call("PostToolUse", "c1"), message("Stop"))
    (record,) = hooks.records(
        message("SessionStart", session_id="s-3", source="resume", transcript_path="/x/s-3.jsonl")
    )
    assert record.events == (e.SessionStarted("s-3", resumed=True),)
    assert (hooks.session, hooks.transcript) == ("s-3", "/x/s-3.jsonl")


# -- whatever comes


def test_calls_without_an_id_are_known_by_what_they_do() -> None:
    """Older agents name no call; its result ends the same one, and a repetition is the same call again."""
    hooks = at_work()
    begun, ended = told(hooks, call("PreToolUse", ""), call("PostToolUse", ""))
    assert isinstance(begun, e.ToolCalled)
    assert isinstance(ended, e.ToolResult)
    assert begun.call == ended.call


def test_equal_calls_have_equal_marks() -> None:
    """A loop shows in hooks, too: same arguments and same answer, same marks."""
    hooks = at_work()
    pairs = [
        heard(
            told(
                hooks,
                call("PreToolUse", f"c{n}"),
                call("PostToolUse", f"c{n}", tool_response={"stdout": "x"}),
            )
        )
        for n in (1, 2)
    ]
    assert [seen.mark for seen in pairs[0]] == [seen.mark for seen in pairs[1]]  # type: ignore[attr-defined]
    (other,) = heard(told(hooks, call("PreToolUse", "c3", "something else")))
    assert other.mark != pairs[0][0].mark  # type: ignore[attr-defined]


def test_memory_is_bounded() -> None:
    """Calls whose end never comes, and the memory of those that ended, do not grow without end."""
    hooks = at_work()
    for number in range(MOST + 5):
        told(hooks, call("PreToolUse", f"a{number}", agent_id="h"))
    assert len(hooks._calls) == MOST
    for number in range(MOST + 5):
        told(hooks, call("PostToolUse", f"b{number}", agent_id="h"))
    assert len(hooks._done) == MOST


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"event": 3},
        {"event": "PreToolUse"},
        {"event": "Stop", "session": None},
        {"event": "New", "session": "s"},
    ],
)
def test_odd_messages_are_signs_of_life(odd: dict[str, Any]) -> None:
    """Whoever may write into the channel may write nonsense; nothing of it raises."""
    (record,) = Hooks().records(odd)
    assert not any(isinstance(event, e.ToolCalled) for event in record.events)
    assert record.source == "hook"
