"""openai-agents, with its own scripted model: the runner, the tools and the stream are the real ones."""

import asyncio
from typing import Any

import pytest
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from agents import Agent, Runner, RunResultStreaming, function_tool, set_tracing_disabled
from longwatch.observe import events as e
from longwatch.reached import CallReached, IdleReached
from sdks.stage import SHORT, Played, played

pytestmark = [pytest.mark.sdk, pytest.mark.filterwarnings("default")]
set_tracing_disabled(True)


@function_tool
async def look(number: int) -> str:
    """Look something up."""
    return f"got {number}"


@function_tool(failure_error_function=None)
async def fail() -> str:
    """Fail."""
    raise ValueError("no")


@function_tool
async def hang() -> str:
    """Never return."""
    await asyncio.Event().wait()
    return ""


def run(model: ScriptedModel, *tools: Any) -> RunResultStreaming:
    return Runner.run_streamed(Agent(name="worker", model=model, tools=list(tools)), "go")


async def seen_of(model: ScriptedModel, *tools: Any, **options: Any) -> Played:
    result = run(model, *tools)
    return await played(result.stream_events(), on_close=result.cancel, **options)


def test_a_whole_run_is_read() -> None:
    """Text comes once, and parallel calls open and close."""
    calls = [function_call("look", {"number": n}, call_id=f"c{n}") for n in (1, 2)]
    model = ScriptedModel([[assistant_message("Two steps. "), *calls], [assistant_message("Done.")]])
    seen = asyncio.run(seen_of(model, look))
    assert seen.error is None
    assert seen.text == "Two steps. Done."
    assert seen.calls == {"c1": ("look", True), "c2": ("look", True)}
    assert [event.arguments for event in seen.of(e.ToolCalled)] == [{"number": 1}, {"number": 2}]
    assert seen.left == []


def test_a_failing_tool_ends_the_run_by_its_own_error() -> None:
    """An error of a tool that the run does not catch is the stream's own, and passes the guard unchanged."""

    async def main() -> None:
        with pytest.raises(Exception, match="no"):
            await seen_of(ScriptedModel([[function_call("fail", {}, call_id="c1")]]), fail)

    asyncio.run(main())


def test_a_hung_tool_is_named() -> None:
    """Idle is held while a call is open, and the call's own budget ends it by name; the tool's task is gone."""
    model = ScriptedModel([[function_call("hang", {}, call_id="c1")]])
    seen = asyncio.run(seen_of(model, hang, idle=SHORT / 3, call=SHORT))
    assert isinstance(seen.error, CallReached)
    assert "hang" in str(seen.error)
    assert seen.left == []


def test_a_silent_model_is_found_with_what_it_said() -> None:
    """A model that stops after its first words is stopped for its silence, and the words are kept."""

    async def silent(call: Any) -> ModelStep:
        await asyncio.Event().wait()
        return ModelStep()

    first = [assistant_message("Half a sentence. "), function_call("look", {"number": 1}, call_id="c1")]
    model = ScriptedModel([first, ModelStep(responder=silent)])
    seen = asyncio.run(seen_of(model, look, idle=SHORT))
    assert isinstance(seen.error, IdleReached)
    assert seen.error.partial == "Half a sentence. "
    assert seen.left == []


def test_leaving_early_ends_the_run() -> None:
    """A guard that is left in the middle closes the stream and, by on_close, the run behind it."""
    model = ScriptedModel([[assistant_message("Hello.")], [assistant_message("Never.")]])
    seen = asyncio.run(seen_of(model, until=e.Text))
    assert seen.text == "Hello."
    assert seen.left == []
