"""What an agent's words and its file tell beside its stream, and what each of them may correct."""

from typing import Any

import pytest

from longwatch.observe import events as e
from longwatch.observe.agent import Agent
from longwatch.observe.dialects import load
from longwatch.observe.record import STREAM, WORDS, Record

WALL = 1_893_553_445_000
SESSION = "01234567-89ab-4cde-8f01-23456789abcd"


class NoFiles:
    """An agent's conversations, of which none is found."""

    pending = ""

    def find(self) -> list[Any]:
        return []

    def name(self, session: str) -> None:
        pass


def agent_of(dialect: str) -> Agent:
    """Return an agent that works without a human."""
    nobody: Any = NoFiles()
    return Agent(dialect, load(dialect), nobody, lambda found: found, 0, headless=True)  # type: ignore[arg-type,return-value]


@pytest.fixture
def agent() -> Agent:
    """Return an agent whose stream has no exit statuses."""
    return agent_of("gemini")


def printed(*events: e.Event, raw_type: str = "", at: int | None = None) -> Record:
    """Return a record of the agent's stream, or of its words."""
    return Record(events, source=STREAM, raw_type=raw_type, at=at)


def test_words_are_no_stream_of_records(agent: Agent) -> None:
    """An agent that only prints that it tries again is still known by its file."""
    agent.printed(printed(e.Retry(1, status=503), raw_type=WORDS), 10)
    assert not agent.live
    agent.hear(20, Record((e.Text("Done."), e.TurnEnded())))
    assert agent.as_dict(20)["state"] == "ready"
    assert agent.standing.result_ok is True


def test_an_error_in_words_counts_where_nothing_else_tells_it(agent: Agent) -> None:
    """An error on stderr is the same as that of the stream, where there is one."""
    words = printed(e.Failed("usage", message="No more."), e.Limited("usage"), raw_type=WORDS)
    agent.printed(words, 10)
    assert (agent.counts["errors"], agent.counts["limits"]) == (1, 1)
    agent.printed(printed(e.Text("Hello.")), 20)
    agent.printed(words, 30)
    assert (agent.counts["errors"], agent.counts["limits"]) == (1, 1)


def test_a_file_names_the_conversation_that_the_stream_does_not(agent: Agent) -> None:
    """A stream may name its conversation at its end or never; then the file's word counts, and only then."""
    agent.printed(printed(e.Text("Hello.")), 10)
    agent.hear(20, Record((e.SessionStarted(SESSION),)))
    assert agent.session == SESSION
    agent.hear(30, Record((e.SessionStarted("another"),)))
    assert agent.session == SESSION


@pytest.mark.parametrize(("status", "counted"), [(3, (0, 1)), (0, (1, 0)), (None, (1, 0))])
def test_the_file_knows_a_failure_that_the_stream_calls_a_success(
    agent: Agent, status: int | None, counted: tuple[int, int]
) -> None:
    """A stream without exit statuses is corrected by the file, once for each call."""
    agent.printed(printed(e.ToolCalled("c1", "shell"), e.ToolResult("c1")), 10)
    for at in (20, 30):
        agent.hear(at, Record((e.ToolResult("c1", exit_code=status),)))
    assert (agent.counts["ok"], agent.counts["failed"], agent.counts["open"]) == (*counted, 0)


def test_a_limit_outlives_what_was_said_before_it(agent: Agent) -> None:
    """The file is read after the words on stderr, but tells of what was before them."""
    wrong = (e.Failed("usage", message="No more."), e.Limited("usage"))
    agent.printed(printed(*wrong, raw_type=WORDS, at=WALL), 20)
    agent.hear(30, Record((e.Text("Hello."),), at=WALL - 5))
    assert agent.limit is not None
    assert agent.trouble == "No more."
    agent.hear(40, Record((e.Text("Again."),), at=WALL + 5))
    assert (agent.limit, agent.trouble) == (None, "")


@pytest.mark.parametrize(("dialect", "counted"), [("qwen", 1), ("gemini", 0)])
def test_a_stream_may_leave_errors_to_the_file(dialect: str, counted: int) -> None:
    """Errors and limits of the file are an echo, except beside a stream that tells of none."""
    agent = agent_of(dialect)
    agent.printed(printed(e.Text("Hello.")), 10)
    agent.hear(20, Record((e.Failed("rate", 429), e.Limited("rate"))))
    assert (agent.counts["errors"], agent.counts["limits"]) == (counted, counted)
