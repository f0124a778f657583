"""pydantic-ai, with its own test models: the agent, the tools and the stream are the real ones."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from longwatch.observe import events as e
from longwatch.reached import CallReached, IdleReached
from sdks.stage import SHORT, Played, played

pytestmark = [pytest.mark.sdk, pytest.mark.filterwarnings("default")]


async def seen_of(agent: Agent[Any, Any], **options: Any) -> Played:
    async with agent.run_stream_events("go") as events:
        return await played(events, **options)


def test_a_whole_run_is_read() -> None:
    """Text comes once; parallel calls open and close, one that asks to be tried again as a failure; the end is one."""
    agent = Agent(TestModel(custom_output_text="All is done."))
    asked = []

    @agent.tool_plain
    async def good(number: int) -> str:
        return f"got {number}"

    @agent.tool_plain
    async def shy() -> str:
        asked.append(True)
        if len(asked) == 1:
            raise ModelRetry("again, please")
        return "fine"

    seen = asyncio.run(seen_of(agent))
    assert seen.error is None
    assert seen.text == "All is done."
    assert sorted(seen.calls.values()) == [("good", True), ("shy", False), ("shy", True)]
    assert seen.heard[-2:] == [e.TurnEnded(), e.SessionEnded()]
    assert seen.left == []


def test_a_hung_tool_is_named() -> None:
    """Idle is held while a call is open, and the call's own budget ends it by name; the tool's task is gone."""
    agent = Agent(TestModel())

    @agent.tool_plain
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    seen = asyncio.run(seen_of(agent, idle=SHORT / 3, call=SHORT))
    assert isinstance(seen.error, CallReached)
    assert "hang" in str(seen.error)
    assert seen.left == []


def test_a_silent_model_is_found_with_what_it_said() -> None:
    """A model that stops in the middle of a sentence is stopped for its silence; the sentence is kept."""

    async def stream(messages: Any, info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        yield "Half "
        yield "a sen"
        await asyncio.Event().wait()

    seen = asyncio.run(seen_of(Agent(FunctionModel(stream_function=stream)), idle=SHORT))
    assert isinstance(seen.error, IdleReached)
    assert seen.error.partial == seen.text == "Half a sen"
    assert seen.left == []


def test_leaving_early_ends_the_run() -> None:
    """A guard that is left in the middle leaves no task of the run behind."""
    seen = asyncio.run(seen_of(Agent(TestModel(custom_output_text="Hello you.")), until=e.Text))
    assert seen.error is None
    assert seen.left == []
