"""What the pages show of real SDKs is what happens; blocks fenced as `py` need one, those as `python` do not."""

import ast
import asyncio
import inspect
import re
import sys
from functools import partial
from typing import Any

import pytest

import helpers
from sdks import test_claude, test_langgraph

pytestmark = [pytest.mark.sdk, pytest.mark.filterwarnings("default")]

BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCS = helpers.ROOT / "docs"


def blocks(page: str) -> list[str]:
    found: list[str] = BLOCK.findall((DOCS / page).read_text())
    return found


def test_the_tutorial_guards_a_real_sdk_in_twenty_lines() -> None:
    """The program on the page ends by the limit that it shows, names the hung tool, and is as short as promised."""
    (program,) = blocks("tutorial/guard-a-stream.md")
    assert len([line for line in program.splitlines() if line.strip()]) <= 20
    done = helpers.run_command([sys.executable, "-c", program], deadline=60)
    assert done.code == 0, done.err
    shown = done.out.splitlines()
    assert "FunctionToolCallEvent" in shown
    assert "search" in shown[-1]
    assert shown[-1].startswith("stopped: ")


def snippet(word: str) -> str:
    (found,) = [block for block in blocks("how-to/sdks.md") if word in block]
    return found


async def typed(program: str, **names: Any) -> None:
    """Run a snippet as a notebook would: with `await` at its top, and what it takes for granted."""
    code = compile(program, "<page>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.iscoroutine(made):
        await made


def test_the_snippet_of_claude(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A query is read to its end."""
    import claude_agent_sdk

    transport = test_claude.Scripted(test_claude.INIT, test_claude.RESULT)
    monkeypatch.setattr(claude_agent_sdk, "query", partial(claude_agent_sdk.query, transport=transport))
    asyncio.run(typed(snippet("claude_agent_sdk")))
    assert "ResultMessage" in capsys.readouterr().out


def test_the_snippet_of_openai(capsys: pytest.CaptureFixture[str]) -> None:
    """A streamed run is read to its end."""
    from agents.testing import ScriptedModel, assistant_message

    from agents import Agent

    agent = Agent(name="worker", model=ScriptedModel([[assistant_message("Done.")]]))
    asyncio.run(typed(snippet("run_streamed"), agent=agent))
    assert "run_item_stream_event" in capsys.readouterr().out


def test_the_snippet_of_pydantic(capsys: pytest.CaptureFixture[str]) -> None:
    """A run's events are read to their end."""
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    asyncio.run(typed(snippet("run_stream_events"), agent=Agent(TestModel())))
    assert "agent_run_result" in capsys.readouterr().out


def test_the_snippet_of_langgraph(capsys: pytest.CaptureFixture[str]) -> None:
    """A graph's stream is read to its end."""

    async def agent(state: Any) -> Any:
        return {"messages": []}

    asyncio.run(typed(snippet("astream"), graph=test_langgraph.graph(agent)))
    assert "tasks" in capsys.readouterr().out


def test_the_snippet_of_acp(capsys: pytest.CaptureFixture[str]) -> None:
    """What a client puts into its queue is read until the turn is over."""

    async def main() -> None:
        said: asyncio.Queue[Any] = asyncio.Queue()

        class Agent:
            async def prompt(self, **asked: Any) -> str:
                said.put_nowait("an update")
                return "the response"

        await typed(snippet("ensure_future"), agent=Agent(), session="s-1", prompt=[], said=said)

    asyncio.run(main())
    assert capsys.readouterr().out == "an update\nthe response\n"
