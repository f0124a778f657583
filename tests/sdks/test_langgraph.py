"""langgraph, with plain graphs and a fake chat model: the graph, its nodes and its stream are the real ones."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode

from longwatch.observe import events as e
from longwatch.reached import CallReached, IdleReached
from longwatch.streams.adapters import langgraph
from sdks.stage import SHORT, Played, played

pytestmark = [pytest.mark.sdk, pytest.mark.filterwarnings("default")]


class State(TypedDict, total=False):
    messages: list[Any]


@tool
async def look(number: int) -> str:
    """Look something up."""
    return f"got {number}"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no")


class Scripted(GenericFakeChatModel):
    """The library's fake model, which streams words only, with the calls of its messages as well."""

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        message = next(self.messages)
        asked = [
            {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
            for index, call in enumerate(message.tool_calls)
        ]
        words = [AIMessageChunk(f"{word} ") for word in message.content.split()]
        for chunk in [*words, AIMessageChunk("", tool_call_chunks=asked, chunk_position="last")]:
            part = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(str(chunk.content), chunk=part)
            yield part


def model() -> Scripted:
    """Return a model that calls two tools, and then is done."""
    calls = [{"name": "look", "args": {"number": 1}, "id": "c1"}, {"name": "fail", "args": {}, "id": "c2"}]
    return Scripted(messages=iter([AIMessage("Two steps. ", tool_calls=calls), AIMessage("Done. ")]))


def graph(agent: Callable[[Any], Any], tools: Any = None) -> Any:
    """Build the usual circle of a model and its tools."""
    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    if tools is None:
        builder.add_edge("agent", END)
    else:
        builder.add_node("tools", tools)
        builder.add_edge("tools", "agent")
        builder.add_conditional_edges(
            "agent", lambda state: "tools" if state["messages"][-1].tool_calls else END
        )
    return builder.compile()


def asking(chat: Scripted) -> Callable[[State], Any]:
    """Return a node that asks the model."""

    async def agent(state: State) -> State:
        return {"messages": [await chat.ainvoke(state["messages"])]}

    return agent


async def seen_of(made: Any, modes: Any = ("tasks", "messages"), **options: Any) -> Played:
    stream = made.astream({"messages": [("user", "go")]}, stream_mode=list(modes))
    return await played(stream, reader=langgraph.reader(), **options)


@pytest.mark.parametrize(
    "modes", [("tasks", "updates"), ("tasks", "messages"), ("tasks", "messages", "updates")]
)
def test_a_whole_run_is_read(modes: tuple[str, ...]) -> None:
    """Text comes once whatever modes are streamed, and the node of the tools is a call that failed with one of them."""
    made = graph(asking(model()), ToolNode([look, fail], handle_tool_errors=True))
    seen = asyncio.run(seen_of(made, modes))
    assert seen.error is None
    assert seen.text == "Two steps. Done. "
    assert list(seen.calls.values()) == [("tools", False)]
    assert seen.left == []


def test_a_hung_node_is_named() -> None:
    """Idle is held while a node works, and the call's own budget ends it by name; the node's task is gone."""

    async def hang(state: State) -> State:
        await asyncio.Event().wait()
        return {}

    seen = asyncio.run(
        seen_of(graph(asking(model()), hang), ("tasks", "updates"), idle=SHORT / 3, call=SHORT)
    )
    assert isinstance(seen.error, CallReached)
    assert "tools" in str(seen.error)
    assert seen.left == []


def test_a_silent_model_is_found_with_what_it_said() -> None:
    """A node that asks the model holds nothing: its silence is found, and what was said before is kept."""
    first = asking(model())
    asked = []

    async def agent(state: State) -> State:
        asked.append(True)
        if len(asked) > 1:
            await asyncio.Event().wait()
        return await first(state)

    made = graph(agent, ToolNode([look, fail], handle_tool_errors=True))
    seen = asyncio.run(seen_of(made, ("tasks", "updates"), idle=SHORT))
    assert isinstance(seen.error, IdleReached)
    assert seen.error.partial == "Two steps. "
    assert seen.left == []


def test_leaving_early_ends_the_run() -> None:
    """A guard that is left in the middle leaves no task of the graph behind."""
    seen = asyncio.run(seen_of(graph(asking(model())), until=e.Text))
    assert seen.error is None
    assert seen.left == []
