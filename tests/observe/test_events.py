"""What a watch hears of each kind of event."""

import pytest

from longwatch.core import observations as o
from longwatch.core.repeats import fingerprint
from longwatch.observe import events as e

SOURCE = "transcript"
PROGRESS, ALIVE = o.ProgressSeen(SOURCE), o.AliveSeen(SOURCE)
MARK = fingerprint("Bash", {"command": "make"})
ANSWER = fingerprint("", "ok")
FAILED = fingerprint("", "no", 2)
NOTHING = fingerprint("", None)

HEARD: dict[str, tuple[e.Event, tuple[o.Observation, ...]]] = {
    "session start": (e.SessionStarted("s"), (PROGRESS,)),
    "session end": (e.SessionEnded(), (o.ResultSeen(ok=True),)),
    "bad session end": (e.SessionEnded(ok=False), (o.ResultSeen(ok=False),)),
    "turn start": (e.TurnStarted(), (o.TurnBegan(), PROGRESS)),
    "turn end": (e.TurnEnded("max"), (o.TurnEnded(),)),
    "text": (e.Text("words"), (PROGRESS,)),
    "thinking": (e.Thinking(7), (PROGRESS,)),
    "call": (e.ToolCalled("c", "Bash", {"command": "make"}), (o.CallBegan("c", "Bash", MARK),)),
    "result": (e.ToolResult("c", result="ok"), (o.CallEnded("c", ok=True, mark=ANSWER),)),
    "exit code": (e.ToolResult("c", exit_code=2, result="no"), (o.CallEnded("c", ok=False, mark=FAILED),)),
    "flagged": (e.ToolResult("c", ok_native=False), (o.CallEnded("c", ok=False, mark=NOTHING),)),
    "partial result": (e.ToolResult("c", partial=True), (o.CallProgressed("c"),)),
    "keep-alive": (e.Heartbeat("keep_alive", "c"), (ALIVE,)),
    "progress of a tool": (e.Heartbeat("tool_progress", "c"), (o.CallProgressed("c"),)),
    "progress over MCP": (e.Heartbeat("mcp_progress", "c"), (o.CallProgressed("c"),)),
    "progress of no call": (e.Heartbeat("tool_progress"), (ALIVE,)),
    "retry": (e.Retry(1), (ALIVE,)),
    "announced retry": (e.Retry(1, delay=500), (o.Paused(500),)),
    "limit": (e.Limited("usage", 9_000), (o.Paused(9_000),)),
    "limit without end": (e.Limited("money"), (o.Paused(None),)),
    "limit lifted": (e.Limited("usage", lifted=True), (o.Resumed(),)),
    "question": (e.Permission("waiting", "q"), (o.Asked("q"),)),
    "allowed": (e.Permission("allowed", "q"), (o.Answered("q"),)),
    "denied": (e.Permission("auto_denied", "q"), (o.Answered("q"),)),
    "helper": (e.Subagent("start", "a"), (o.CallBegan("subagent a", "subagent"),)),
    "helper without a name": (e.Subagent("start"), (o.CallBegan("subagent", "subagent"),)),
    "helper done": (e.Subagent("end", "a"), (o.CallEnded("subagent a", ok=True),)),
    "helper failed": (e.Subagent("failed", "a"), (o.CallEnded("subagent a", ok=False),)),
    "compaction": (e.Compacted("start"), (PROGRESS,)),
    "error": (e.Failed("auth", 401), (ALIVE,)),
    "usage": (e.Usage("m", 1, 2, 3, 0.5), ()),
    "stream restart": (e.Restarted(), (o.StreamRestarted(),)),
}


@pytest.mark.parametrize("name", HEARD)
def test_observations(name: str) -> None:
    """Each event is told as what it means to a watch, and as nothing else."""
    event, heard = HEARD[name]
    assert e.observations(event, SOURCE) == heard


def test_every_kind_is_heard() -> None:
    """The model is closed: each kind has its word on the wire, and stands in the table above."""
    assert {type(event) for event, _ in HEARD.values()} == set(e.KINDS.values())
    assert {kind: cls.kind for kind, cls in e.KINDS.items()} == {kind: kind for kind in e.KINDS}


@pytest.mark.parametrize(
    ("native", "code", "ok"),
    [(True, None, True), (True, 0, True), (True, 2, False), (False, None, False), (False, 0, False)],
)
def test_ok_is_flag_and_exit_code(native: bool, code: int | None, ok: bool) -> None:
    """A call truly succeeded where the agent says so and its command ended with 0, as far as that is known."""
    assert e.ToolResult("c", native, code).ok is ok


def test_equal_calls_have_equal_marks() -> None:
    """The same call again is known by its mark, whatever its id and the order of its arguments."""
    one = e.observations(e.ToolCalled("a", "t", {"x": 1, "y": 2}), SOURCE)[0]
    two = e.observations(e.ToolCalled("b", "t", {"y": 2, "x": 1}), SOURCE)[0]
    other = e.observations(e.ToolCalled("c", "t", {"x": 2, "y": 2}), SOURCE)[0]
    assert isinstance(one, o.CallBegan)
    assert isinstance(two, o.CallBegan)
    assert isinstance(other, o.CallBegan)
    assert one.mark == two.mark != other.mark
