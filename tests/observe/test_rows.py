"""Conversations in a database: whose they are, and what is told of them."""

import json
import os
import sqlite3
import time
from contextlib import closing

import pytest

from longwatch.observe.dialects.opencode import Database
from longwatch.observe.rows import Rows, Table
from longwatch.observe.sessions import Sessions
from longwatch.observe.transcript import Transcript
from longwatch.posix import now
from transcripts import Agent, company

#: Every one of them is found at the first look.
pytestmark = pytest.mark.usefixtures("eager")

SCHEMA = """
    CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, time_created INT, time_updated INT);
    CREATE TABLE event (id INTEGER PRIMARY KEY, aggregate_id TEXT, seq INT, type TEXT, data TEXT);
"""
PART = "message.part.updated.1"


class Store:
    """An agent's database, written as the agent writes it."""

    def __init__(self, home, work):
        self.path = home / ".local/share/opencode/opencode.db"
        self.work = work
        self.numbers = {}

    def ask(self, *words):
        """Run one statement in a transaction of its own."""
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path)) as connection, connection:
            if new:
                connection.executescript(SCHEMA)
            connection.execute(*words)

    def begin(self, session, parent=None, ago=0, work=None):
        """Begin a conversation."""
        at = round(time.time() * 1000) - ago
        self.ask(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?)", (session, parent, str(work or self.work), at, at)
        )

    def say(self, session, words, ago=0):
        """Have the model say something."""
        at = round(time.time() * 1000) - ago
        number = self.numbers[session] = self.numbers.get(session, -1) + 1
        part = {"id": f"{session}{number}", "type": "text", "text": words}
        data = json.dumps({"part": part, "time": at})
        self.ask(
            "INSERT INTO event (aggregate_id, seq, type, data) VALUES (?, ?, ?, ?)",
            (session, number, PART, data),
        )
        self.ask("UPDATE session SET time_updated = ? WHERE id = ?", (at, session))


@pytest.fixture
def store(home, work):
    """Return the database of this test's agents; there is none yet."""
    return Store(home, work)


@pytest.fixture
def start(home, work):
    """Return a function that starts an agent; all are ended with the test."""
    agents = []

    def started(*args):
        agents.append(Agent("opencode", home, work, *args))
        return agents[-1]

    yield started
    for agent in agents:
        agent.end()


def watch(agent):
    """Return the transcript of an agent, watched from now on."""
    table = Table({"HOME": str(agent.home)})
    started = now()
    sessions = Sessions(table, company(agent), started, clock=now)
    return Transcript(sessions, lambda found: Rows(found, Database(table.path)), started)


def progress(transcript):
    """Return how often a look shows progress."""
    return sum(seen.count for _, seen in transcript.look(now()) if type(seen).__name__ == "ProgressSeen")


@pytest.mark.capability("OBS-5")
def test_a_conversation_of_ours(start, store, tmp_path):
    """Among all conversations of the database only the one in our folder is told, with its sub-agents'."""
    agent = start()
    transcript = watch(agent)
    assert transcript.look(now()) == []
    store.begin("ses_there", work=tmp_path)
    store.say("ses_there", "not ours")
    assert transcript.look(now()) == []
    store.begin("ses_here")
    store.say("ses_here", "one")
    store.begin("ses_sub", parent="ses_here")
    store.say("ses_sub", "two")
    assert progress(transcript) == 2
    assert transcript.files == {"ses_here": "folder"}
    store.say("ses_there", "not ours")
    store.say("ses_sub", "three")
    assert progress(transcript) == 1
    transcript.close()
    assert transcript.bad == 0


def test_an_old_one_taken_up_again(start, store):
    """Of a conversation that was there before only what comes after the start of the run is told."""
    store.begin("ses_old", ago=60_000)
    store.say("ses_old", "before", ago=60_000)
    store.begin("ses_sub", parent="ses_old", ago=60_000)
    store.say("ses_sub", "before", ago=60_000)
    transcript = watch(start())
    assert progress(transcript) == 0
    store.say("ses_old", "after")
    assert progress(transcript) == 1
    assert transcript.files == {"ses_old": "folder"}


def test_named_among_two(start, store):
    """An agent that was started with the name of its conversation has that one; its neighbour's is not told."""
    store.begin("ses_two", ago=60_000)
    store.begin("ses_one", ago=60_000)
    start()
    transcript = watch(start("run", "-s", "ses_one"))
    store.say("ses_two", "neighbour")
    store.say("ses_one", "ours")
    assert progress(transcript) == 1
    assert transcript.files == {"ses_one": "named"}


@pytest.mark.fault("D2")
def test_two_that_nobody_can_tell_apart(start, store):
    """Beside another agent in the same folder that began at once nothing is told."""
    first, second = start(), start()
    transcripts = [watch(first), watch(second)]
    for name in ("ses_one", "ses_two"):
        store.begin(name)
        store.say(name, "words")
    for transcript in transcripts:
        assert transcript.look(now()) == []
        assert "another opencode" in transcript.sessions.pending


def test_a_database_that_cannot_be_read(start, store):
    """A database that becomes unreadable is a source that was lost."""
    transcript = watch(start())
    store.begin("ses_here")
    store.say("ses_here", "one")
    assert progress(transcript) == 1
    os.rename(store.path, f"{store.path}.away")
    assert [type(seen).__name__ for _, seen in transcript.look(now())] == ["SourceLost"]
    os.rename(f"{store.path}.away", store.path)
    assert [type(seen).__name__ for _, seen in transcript.look(now())] == ["SourceFound"]


def test_what_a_database_does_not_tell(home):
    """A database has no files of conversations, no registry, and no conversation that is not in it."""
    table = Table({"HOME": str(home)})
    assert list(table.all()) == []
    assert not table.holds(table.path)
    assert list(table.registries(1)) == list(table.helpers("ses_x")) == []
    assert table.state("ses_x") is table.begun("ses_x") is None
    assert not table.belongs("ses_x", ["/"])
    assert table.is_id("ses_x")
    assert not table.is_id("-s")
