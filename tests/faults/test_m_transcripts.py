"""Following transcripts, at the seam between real agents that write and the watch that is told."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import wait_until
from transcripts import Agent, call, line, names, result, text, watching

#: Every one of them is found at the first look.
pytestmark = pytest.mark.usefixtures("eager")

WINDOW = 400


@pytest.fixture
def agent(home: Path, work: Path) -> Iterator[Agent]:
    """Return an agent that has told its registry whose its conversation is."""
    with Agent("claude", home, work) as started:
        started.register()
        yield started


@pytest.mark.fault("M1")
def test_half_a_record_moves_nothing(agent: Agent) -> None:
    """Half a record is neither progress nor lost: with its rest it is told once."""
    record = line(cwd=str(agent.work), **call("1"))
    with watching(agent) as job:
        agent.write(text=record[:40])
        assert job.step() == []
        agent.write(text=record[40:])
        job.step()
        assert names(job) == ["SourceFound", "CallBegan"]
        assert job.step() == []


@pytest.mark.fault("M3")
def test_a_transcript_that_is_cut_renamed_and_recreated(agent: Agent) -> None:
    """Through truncation, rotation and re-creation each record is told once, on both sides."""
    with watching(agent) as job:
        agent.write(call("1"))
        job.step()
        os.truncate(agent.file, 0)
        agent.write(result("1"))
        job.step()
        agent.write(call("2"))
        agent.file.rename(agent.file.with_suffix(".old"))
        agent.write(result("2"))
        job.step()
        agent.file.unlink()
        agent.write(text())
        job.step()
        assert names(job) == [
            "SourceFound",
            "CallBegan",
            "CallEnded",
            "CallBegan",
            "CallEnded",
            "ProgressSeen",
        ]


@pytest.mark.fault("M4")
def test_pending_while_a_neighbour_is_busy(agent: Agent, home: Path, work: Path) -> None:
    """A run whose own transcript is not there yet borrows no progress, and is condemned by none: it waits for its own."""
    with Agent("claude", home, work) as neighbour, watching(agent, WINDOW) as job:
        neighbour.register()

        def waited() -> bool:
            neighbour.write(text())
            assert job.step() == []
            return job.age > 2 * WINDOW

        wait_until(waited, 10)
        assert (job.transcript.files, job.fired) == ({}, [])
        assert job.status == {"last_ms": None, "count": 0}
        agent.session = str(uuid.uuid4())
        agent.register()
        agent.write(text())
        job.step()
        assert list(job.transcript.files) == [str(agent.file)]
        assert job.status["count"] == 1


@pytest.mark.fault("M5")
def test_a_bad_row_and_zero_bytes(agent: Agent) -> None:
    """Zero bytes at the start and a bad row in the middle hide nothing behind them; one warning is said."""
    with watching(agent) as job:
        agent.write(text="\0" * 512)
        assert job.step() == []
        agent.write(call("1"))
        agent.write(text="not a record at all\n")
        agent.write(result("1"))
        job.step()
        assert names(job) == ["SourceFound", "CallBegan", "CallEnded"]
        assert len(job.notes) == 1
        assert job.transcript.bad == 1


@pytest.mark.slow
@pytest.mark.fault("D2")
def test_only_the_silent_one_of_two(agent: Agent, home: Path, work: Path) -> None:
    """Of two agents in one directory, one chatty and one silent, only the silent one is acted on."""
    with (
        Agent("claude", home, work) as chatty,
        watching(agent, WINDOW) as silent,
        watching(chatty, WINDOW) as busy,
    ):
        chatty.register()
        agent.write(text())

        def acted() -> bool:
            chatty.write(text())
            busy.step()
            return silent.stopped

        assert acted() is False
        wait_until(acted, 10)
        assert set(silent.fired) == {"idle", "stop"}
        assert busy.fired == []


@pytest.mark.slow
@pytest.mark.fault("A4")
def test_the_transcript_alone_is_progress(agent: Agent) -> None:
    """An agent that moves only by its transcript lives for several windows, and the status names the source."""
    with watching(agent, WINDOW) as job:

        def over() -> bool:
            agent.write(text())
            job.step()
            return job.age > 4 * WINDOW

        wait_until(over, 20)
        assert job.fired == []
        assert job.status["count"] > 4
        assert job.status["last_ms"] < WINDOW
        wait_until(lambda: job.stopped, 10)


@pytest.mark.fault("A4")
def test_one_long_generation(agent: Agent) -> None:
    """A transcript that stands still while a call is open condemns nobody: the call has a budget of its own."""
    with watching(agent, WINDOW) as job:
        agent.write(text(), call("1"))

        def waited() -> bool:
            job.step()
            return job.age > 3 * WINDOW

        wait_until(waited, 10)
        assert job.fired == []
        agent.write(result("1"))
        wait_until(lambda: job.stopped, 10)
        assert set(job.fired) == {"idle", "stop"}
