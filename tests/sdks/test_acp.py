"""agent-client-protocol, with an agent in the same process: both sides of the connection are the real ones."""

import asyncio
from typing import Any

import acp
import pytest
from acp import schema

from longwatch.observe import events as e
from longwatch.reached import CallReached, IdleReached
from sdks.stage import SHORT, Played, gone, played

pytestmark = [pytest.mark.sdk, pytest.mark.filterwarnings("default")]


class Worker(acp.Agent):
    """An agent that plays what it is given as its turn."""

    def __init__(self, turn: Any) -> None:
        self.turn = turn
        self.client: Any = None

    def on_connect(self, conn: acp.Client) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **kwargs: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **kwargs: Any) -> schema.NewSessionResponse:
        return schema.NewSessionResponse(session_id="s-1")

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> schema.PromptResponse:
        return await self.turn(self.client)


class Editor(acp.Client):
    """A client that puts what its agent says into one stream, and allows what it is asked for."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[Any] = asyncio.Queue()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.said.put_nowait(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        asked = schema.RequestPermissionRequest(session_id=session_id, tool_call=tool_call, options=options)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        answer = schema.RequestPermissionResponse(outcome=outcome)
        for one in (asked, answer):
            self.said.put_nowait(one)
        return answer

    async def turn(self, agent: Any) -> Any:
        """Send a prompt, and yield all that comes of it; the response to it is the last."""
        asked = asyncio.ensure_future(agent.prompt(session_id="s-1", prompt=[acp.text_block("go")]))
        asked.add_done_callback(lambda task: self.said.put_nowait(None))
        try:
            while (one := await self.said.get()) is not None:
                yield one
            yield asked.result()
        finally:
            asked.cancel()


async def seen_of(turn: Any, **options: Any) -> Played:
    """Connect both sides in this process, play one turn under guard, and close the connection."""
    before = asyncio.all_tasks()
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *ends: made.set_result(ends), "127.0.0.1", 0)
    near_in, near_out = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    far_in, far_out = await made
    worker = acp.core.AgentSideConnection(Worker(turn), far_out, far_in)
    editor = Editor()
    agent = acp.connect_to_agent(editor, near_out, near_in)
    try:
        await agent.initialize(protocol_version=1)
        await agent.new_session(cwd="/", mcp_servers=[])
        seen = await played(editor.turn(agent), **options)
    finally:
        await agent.close()
        await worker.close()
        for writer in (near_out, far_out):
            writer.close()
        server.close()
        await server.wait_closed()
    # Both sides live in this loop, so what the agent still does ends with the connection.
    return seen._replace(left=await gone(before))


ALLOW = schema.PermissionOption(option_id="allow", name="Allow", kind="allow_once")


def test_a_whole_turn_is_read() -> None:
    """Text, parallel calls, a failing one, a question with its answer and the end of the turn are all there."""

    async def turn(client: Any) -> schema.PromptResponse:
        async def say(update: Any) -> None:
            await client.session_update(session_id="s-1", update=update)

        await say(acp.update_agent_message_text("Two steps. "))
        await say(acp.start_tool_call("t1", "make one", kind="execute", status="pending"))
        await say(acp.start_tool_call("t2", "Read a", kind="read", status="in_progress"))
        about = schema.ToolCallUpdate(tool_call_id="t1")
        await client.request_permission(session_id="s-1", tool_call=about, options=[ALLOW])
        await say(acp.update_tool_call("t1", status="in_progress"))
        await say(acp.update_tool_call("t2", status="failed"))
        await say(acp.update_tool_call("t1", status="completed", raw_output={"exitCode": 3}))
        await say(acp.update_agent_message_text("Done."))
        return schema.PromptResponse(stop_reason="end_turn")

    seen = asyncio.run(seen_of(turn))
    assert seen.error is None
    assert seen.text == "Two steps. Done."
    assert seen.calls == {"t1": ("execute", False), "t2": ("read", False)}
    assert [event.state for event in seen.of(e.Permission)] == ["waiting", "allowed"]
    assert seen.heard[-1] == e.TurnEnded()
    assert seen.left == []


def test_a_hung_tool_is_named() -> None:
    """Idle is held while a call is open, and the call's own budget ends it by name; nothing is left of the turn."""

    async def turn(client: Any) -> schema.PromptResponse:
        await client.session_update(
            session_id="s-1", update=acp.start_tool_call("t1", "make one", kind="execute")
        )
        await asyncio.Event().wait()
        raise AssertionError

    seen = asyncio.run(seen_of(turn, idle=SHORT / 3, call=SHORT))
    assert isinstance(seen.error, CallReached)
    assert "execute" in str(seen.error)
    assert seen.left == []


def test_a_silent_agent_is_found_with_what_it_said() -> None:
    """An agent that stops in the middle of a sentence is stopped for its silence; the sentence is kept."""

    async def turn(client: Any) -> schema.PromptResponse:
        await client.session_update(session_id="s-1", update=acp.update_agent_message_text("Half a sen"))
        await asyncio.Event().wait()
        raise AssertionError

    seen = asyncio.run(seen_of(turn, idle=SHORT))
    assert isinstance(seen.error, IdleReached)
    assert seen.error.partial == "Half a sen"
    assert seen.left == []
