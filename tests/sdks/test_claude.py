"""claude-agent-sdk, played by a transport of our own: what its program would say goes through all of the SDK."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport, query

from longwatch.observe import events as e
from longwatch.reached import CallReached, IdleReached, TimeoutReached
from sdks.stage import SHORT, played

pytestmark = [pytest.mark.sdk, pytest.mark.filterwarnings("default")]

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "cwd": "/srv", "model": "m"}
RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "duration_ms": 1, "duration_api_ms": 1, "num_turns": 1,
    "session_id": "s-1", "result": "Done.", "terminal_reason": "completed",
}  # fmt: skip


class Scripted(Transport):
    """Answers the handshake, and plays its lines when it is spoken to; after the last one it is silent."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = lines
        self.out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.closed = False

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        record = json.loads(data)
        if record["type"] == "control_request":
            answer = {"subtype": "success", "request_id": record["request_id"], "response": {}}
            self.out.put_nowait({"type": "control_response", "response": answer})
        if record["type"] == "user":
            for line in self.lines:
                self.out.put_nowait(line)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (line := await self.out.get()) is not None:
            yield line

    async def close(self) -> None:
        self.closed = True
        self.out.put_nowait(None)

    def is_ready(self) -> bool:
        return not self.closed

    async def end_input(self) -> None:
        if RESULT in self.lines:
            self.out.put_nowait(None)


def assistant(name: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    message = {"id": name, "model": "m", "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": "s-1"}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}


def result(name: str, *, error: bool = False) -> dict[str, Any]:
    block = {
        "type": "tool_result",
        "tool_use_id": name,
        "content": "Exit code 3" if error else "x",
        "is_error": error,
    }
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": None}


def delta(text: str) -> dict[str, Any]:
    event = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return {"type": "stream_event", "uuid": "u", "session_id": "s-1", "event": event}


def start(name: str) -> dict[str, Any]:
    return {
        "type": "stream_event",
        "uuid": "u",
        "session_id": "s-1",
        "event": {"type": "message_start", "message": {"id": name}},
    }


def test_a_whole_run_is_read() -> None:
    """Text comes once, parallel calls and their failure are seen, and the run's end is one."""
    lines = [
        INIT, start("m1"), delta("Two "), delta("steps. "),
        assistant("m1", {"type": "text", "text": "Two steps. "}),
        assistant("m1", call("t1")), assistant("m1", call("t2")),
        result("t2"), result("t1", error=True),
        assistant("m2", {"type": "text", "text": "Done."}), RESULT,
    ]  # fmt: skip
    transport = Scripted(*lines)
    seen = asyncio.run(played(query(prompt="go", transport=transport)))
    assert seen.error is None
    assert seen.text == "Two steps. Done."
    assert seen.calls == {"t1": ("Bash", False), "t2": ("Bash", True)}
    assert [event.exit_code for event in seen.of(e.ToolResult)] == [None, 3]
    assert seen.of(e.SessionEnded) == [e.SessionEnded(ok=True, reason="completed")]
    assert len(seen.yielded) == len(lines)
    assert transport.closed
    assert seen.left == []


def test_a_limit_of_the_provider_is_a_pause() -> None:
    """A refusal until a stated time holds the silence that follows it: no limit of silence fires in it."""
    info = {"status": "rejected", "resetsAt": time.time() + 60, "rateLimitType": "five_hour"}
    refused = {"type": "rate_limit_event", "rate_limit_info": info, "uuid": "u", "session_id": "s-1"}
    seen = asyncio.run(
        played(query(prompt="go", transport=Scripted(INIT, refused)), idle=SHORT, timeout=3 * SHORT)
    )
    assert isinstance(seen.error, TimeoutReached)
    assert "paused" in [hold["kind"] for hold in seen.holds]
    (limited,) = seen.of(e.Limited)
    assert 55_000 < limited.span <= 60_000


def test_a_silent_model_is_found_with_what_it_said() -> None:
    """A model that stops in the middle of a sentence is stopped for its silence; the sentence is kept."""
    transport = Scripted(INIT, start("m1"), delta("Half a sen"))
    seen = asyncio.run(played(query(prompt="go", transport=transport), idle=SHORT))
    assert isinstance(seen.error, IdleReached)
    assert seen.error.partial == seen.text == "Half a sen"
    assert transport.closed
    assert seen.left == []


def test_a_hung_tool_is_named() -> None:
    """Silence while a call is open is the call's: idle is held, and the call's own budget ends it by name."""
    transport = Scripted(INIT, assistant("m1", call("t1")))
    seen = asyncio.run(played(query(prompt="go", transport=transport), idle=SHORT / 3, call=SHORT))
    assert isinstance(seen.error, CallReached)
    assert "Bash" in str(seen.error)
    assert seen.left == []


def test_a_client_can_be_left_in_the_middle() -> None:
    """A guarded answer of a client that is left early ends; the client goes on and can be closed."""

    async def main() -> None:
        transport = Scripted(INIT, assistant("m1", {"type": "text", "text": "Hello."}), RESULT)
        async with ClaudeSDKClient(options=ClaudeAgentOptions(), transport=transport) as client:
            await client.query("go")
            seen = await played(client.receive_response(), until=e.Text)
            assert seen.text == "Hello."
            assert seen.error is None
            assert seen.left == []
        assert transport.closed

    asyncio.run(main())
