"""Whose transcript is it: each run gets the files of its own processes, and never those of a neighbour."""

import json
import os
import time
import uuid
from pathlib import Path

import pytest

import transcripts
from helpers import wait_until
from longwatch.observe import places
from longwatch.observe.places import PLACES, Shelf
from transcripts import Agent, Job, call, line, names, result, text, watching

#: Every one of them is found at the first look.
pytestmark = pytest.mark.usefixtures("eager")

EARLIER = 3_600
#: The agents that keep each conversation in a file.
FILES = [name for name in PLACES if name != "opencode"]


@pytest.fixture
def start(home, work):
    """Return a function that starts an agent; all are ended with the test."""
    agents = []

    def started(name, *args, folder=work, wrapped=False):
        agents.append(Agent(name, home, folder, *args, wrapped=wrapped))
        return agents[-1]

    yield started
    for agent in agents:
        agent.end()


@pytest.fixture
def watch():
    """Return a function that watches an agent from now on."""
    jobs = []

    def watched(agent, window=60_000):
        jobs.append(Job(agent, window))
        return jobs[-1]

    yield watched
    for job in jobs:
        job.close()


def later():
    """Let the clocks of processes move on: they are counted in hundredths of a second."""
    end = time.monotonic() + 0.03
    wait_until(lambda: time.monotonic() > end)


def announce(agent):
    """Have an agent say whose its conversation is, in the way that it has."""
    if agent.name in ("claude", "copilot"):
        agent.register()


@pytest.mark.parametrize("name", FILES)
def test_who_has_ended_leaves_its_last_words(start, watch, name):
    """What a short-lived agent wrote is found after its end, too: some write nothing before."""
    agent = start(name)
    job = watch(agent)
    agent.write(text())
    agent.end()
    job.step()
    assert job.transcript.files == {str(agent.file): "folder"}
    assert job.progress == 1


# Two in one directory


@pytest.mark.fault("D2", "M4")
@pytest.mark.parametrize("name", ["claude", "codex", "copilot"])
def test_two_in_one_directory(start, watch, name):
    """Two agents that begin at once in one directory each get their own file, whoever writes first."""
    one, two = start(name), start(name)
    first, second = watch(one), watch(two)
    for agent in (two, one):
        announce(agent)
        agent.write(text())
    first.step()
    second.step()
    assert list(first.transcript.files) == [str(one.file)]
    assert list(second.transcript.files) == [str(two.file)]
    two.write(text(), text())
    assert (first.step(), first.progress) == ([], 1)
    second.step()
    assert second.progress == 3


@pytest.mark.fault("D2", "M4")
@pytest.mark.parametrize("name", ["gemini", "qwen", "pi"])
def test_one_after_the_other(start, watch, name):
    """Agents that tell nothing get their own files where one began when the other had its file."""
    one = start(name)
    first = watch(one)
    one.write(text())
    later()
    two = start(name)
    second = watch(two)
    two.write(text())
    one.write(text())
    first.step()
    second.step()
    assert first.transcript.files == {str(one.file): "folder"}
    assert second.transcript.files == {str(two.file): "folder"}
    assert (first.progress, second.progress) == (2, 1)


@pytest.mark.fault("D2", "M4")
def test_two_at_once_that_tell_nothing(start, watch):
    """Where nothing tells which file is whose, nobody gets one, and the reason is said."""
    one, two = start("gemini"), start("gemini")
    first, second = watch(one), watch(two)
    one.write(text())
    two.write(text())
    for job in (first, second):
        assert job.step() == []
        assert job.transcript.files == {}
        assert "another gemini works in the same folder" in job.transcript.sessions.pending
    one.write(text())
    assert first.step() == second.step() == []


def test_named_among_two(start, watch):
    """An agent that was started with the name of its conversation gets that one, whoever works beside it."""
    session = str(uuid.uuid4())
    one, two = start("qwen", f"--session-id={session}", "-p", "go"), start("qwen")
    one.session = session
    job = watch(one)
    one.write(text())
    two.write(text())
    job.step()
    assert job.transcript.files == {str(one.file): "named"}


def test_named_by_the_agent(start, watch):
    """A conversation that the agent names in its stream or to a hook is followed from its first record on."""
    one, two = start("gemini"), start("gemini")
    job = watch(one)
    one.write(text())
    two.write(text())
    assert job.step() == []
    job.transcript.sessions.name(one.session)
    job.step()
    assert job.transcript.files == {str(one.file): "named"}
    assert job.progress == 1


@pytest.mark.parametrize("session", ["../../../etc/passwd", "*", "", "a b", "ä"])
def test_a_name_that_leads_elsewhere(home, session):
    """A name that would lead out of the folder, or to all files, is nobody's."""
    folder = home / ".claude/projects/x"
    folder.mkdir(parents=True)
    (folder / "one.jsonl").touch()
    assert list(Shelf(PLACES["claude"], os.environ).of_session(session)) == []
    assert not places._is_word(session)


def test_a_file_that_only_a_neighbour_can_have_begun(start, watch):
    """A file that was begun while a younger neighbour was there may be the neighbour's."""
    one = start("gemini")
    job = watch(one)
    later()
    two = start("gemini")
    two.write(text())
    assert job.step() == []
    one.write(text())
    assert job.step() == []
    assert job.transcript.files == {}


def test_a_neighbour_that_begins_later(start, watch):
    """A file that was begun before the neighbour was there is ours, also when both are found by one look."""
    one = start("gemini")
    job = watch(one)
    one.write(text())
    later()
    two = start("gemini")
    job.step()
    two.write(text())
    job.step()
    assert job.transcript.files == {str(one.file): "folder"}


def test_a_neighbour_without_a_file(start, watch):
    """A neighbour that was there before us and has no file yet may write the one that appears."""
    start("gemini")
    later()
    two = start("gemini")
    job = watch(two)
    two.write(text())
    assert job.step() == []
    assert job.transcript.files == {}


def test_a_copied_conversation_beside_a_neighbour(start, watch):
    """A new file that begins with old records tells nothing of who began it."""
    one = start("gemini")
    one.write(text())
    later()
    two = start("gemini")
    job = watch(two)
    two.write(text(at=time.time() - EARLIER), text())
    assert job.step() == []


def test_a_file_without_times_beside_a_neighbour(start, watch):
    """A new file that does not say when it was begun tells nothing of who began it."""
    one = start("gemini")
    one.write(text())
    later()
    two = start("gemini")
    job = watch(two)
    two.write(text=json.dumps({"cwd": str(two.work)}, separators=(",", ":")) + "\n")
    assert job.step() == []
    assert job.transcript.files == {}


def test_after_the_neighbour_has_gone(start, watch):
    """What was written while a neighbour was there stays unclaimed; what is written alone is ours."""
    one, two = start("gemini"), start("gemini")
    job = watch(one)
    one.write(text())
    two.write(text())
    assert job.step() == []
    two.end()
    one.write(text())
    # The neighbour may have written until right before this look.
    assert job.step() == []
    one.write(text(), text())
    job.step()
    assert job.transcript.files == {str(one.file): "folder"}
    assert job.progress == 2


# Chatty neighbours


@pytest.mark.fault("M4", "D2")
@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini", "qwen", "pi"])
def test_a_chatty_neighbour(start, watch, name, tmp_path):
    """A neighbour in another directory lends us nothing: ours is pending until it appears."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    one, two = start(name), start(name, folder=elsewhere)
    job = watch(one)
    announce(two)
    two.write(text(), text())
    assert job.step() == []
    assert name in job.transcript.sessions.pending
    assert job.status == {"last_ms": None, "count": 0}
    announce(one)
    one.write(text())
    two.write(text())
    job.step()
    assert list(job.transcript.files) == [str(one.file)]
    assert job.transcript.sessions.pending == ""
    assert job.progress == 1


def test_a_file_that_is_only_read(start, watch):
    """A transcript that a process of ours reads is not for that ours."""
    one, two = start("codex"), start("codex")
    two.write(text())
    job = watch(one)
    with open(two.file, encoding="utf-8"), watching(two) as other:
        other.step()
        assert list(other.transcript.files) == [str(two.file)]
        assert job.step() == []


@pytest.mark.parametrize("stale", ["older", "other"])
def test_a_stale_registry(start, watch, stale, home):
    """What a killed process left in the registry under a pid that is ours now is not believed."""
    one = start("claude")
    job = watch(one)
    neighbour = str(uuid.uuid4())
    one.write(text(), path=one.file_of(neighbour))
    one.register(neighbour, **({"procStart": "1"} if stale == "other" else {"procStart": ""}))
    if stale == "older":
        transcripts.touch(home / f".claude/sessions/{one.process.pid}.json", time.time() - 60)
    assert job.step() == []
    assert job.transcript.files == {}


# Older conversations


@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini", "qwen", "pi"])
def test_an_old_conversation_taken_up_again(start, watch, name):
    """Of a file that was there before the run only what comes after its start is told."""
    agent = start(name)
    agent.put(agent.file, line(cwd=str(agent.work), event="call", call="old", at=time.time() - EARLIER))
    transcripts.touch(agent.file, time.time() - EARLIER)
    job = watch(agent)
    assert job.step() == []
    announce(agent)
    agent.write(text(), call("new"))
    job.step()
    assert list(job.transcript.files) == [str(agent.file)]
    assert names(job) == ["SourceFound", "ProgressSeen", "CallBegan"]
    assert job.told[-1].call == "new"


def test_a_file_that_may_not_be_read(start, watch):
    """A file in our folder that may not be read is not known to be ours."""
    agent = start("gemini")
    job = watch(agent)
    agent.write(text())
    agent.file.chmod(0)
    if os.access(agent.file, os.R_OK):
        agent.file.unlink()
        agent.file.mkdir()
    assert job.step() == []
    assert job.transcript.files == {}


def test_a_file_that_nobody_writes(start, watch):
    """A file that was there before and stays as it is belongs to nobody."""
    agent = start("gemini")
    agent.write(text())
    job = watch(agent)
    assert job.step() == []
    assert job.transcript.files == {}


def test_copied_history(start, watch):
    """A new conversation that begins with the records of an older one tells only its own."""
    agent = start("claude")
    job = watch(agent)
    agent.register()
    agent.write(text(at=time.time() - EARLIER), call("copied") | {"at": time.time() - 60}, text())
    job.step()
    assert names(job) == ["SourceFound", "ProgressSeen"]
    assert job.progress == 1


def test_touched_before_we_looked(start, watch):
    """A file that was written between the start of the run and our first look is read by the times in it."""
    agent = start("claude")
    started = transcripts.now()
    agent.put(agent.file, line(event="text", text="old", at=time.time() - EARLIER) + '{"event":"retry"}\n')
    agent.write(text())
    agent.register()
    sessions = transcripts.sessions_of(agent, started=started)
    (found,) = sessions.find()
    assert (found.mark, found.existed) == (None, True)


# Moves and helpers


@pytest.mark.fault("M4")
@pytest.mark.parametrize("name", ["claude", "codex", "copilot", "gemini"])
def test_a_conversation_that_moves(start, watch, name):
    """Where the agent goes on in another file it is followed there, and the old one is followed on."""
    agent = start(name)
    job = watch(agent)
    announce(agent)
    agent.write(text())
    job.step()
    old, agent.session = agent.file, str(uuid.uuid4())
    announce(agent)
    job.step()
    assert list(job.transcript.files) == [str(old)]
    agent.write(text(), call("1"))
    job.step()
    assert list(job.transcript.files) == [str(old), str(agent.file)]
    agent.write(result("1"), path=old)
    job.step()
    assert names(job) == ["SourceFound", "ProgressSeen", "ProgressSeen", "CallBegan", "CallEnded"]


@pytest.mark.fault("D1")
def test_files_of_sub_agents(start, watch):
    """What a sub-agent writes in its own file is the run's progress; the end of its turn is not the run's."""
    agent = start("claude")
    job = watch(agent)
    agent.register()
    agent.write(call("1"))
    job.step()
    below = agent.file.with_suffix("") / "subagents"
    agent.write(text(), {"event": "turn_end"}, path=below / "agent-a1.jsonl")
    agent.write(text(), path=below / "deeper/agent-a2.jsonl")
    job.step()
    assert job.transcript.files == {
        str(agent.file): "registry",
        str(below / "agent-a1.jsonl"): "helper",
        str(below / "deeper/agent-a2.jsonl"): "helper",
    }
    assert names(job)[:2] == ["SourceFound", "CallBegan"]
    assert "TurnEnded" not in names(job)
    assert job.progress == 2


@pytest.mark.fault("D1")
def test_files_of_sub_agents_beside_a_short_name(start, watch):
    """Where the file's name has only the first part of the conversation's, its sub-agents are found as well."""
    agent = start("gemini")
    job = watch(agent)
    agent.write(text())
    helper = agent.file.parent / agent.session / f"{uuid.uuid4()}.jsonl"
    agent.write(text(), path=helper)
    agent.write(text(), path=helper.parent.parent / str(uuid.uuid4()) / "other.jsonl")
    job.step()
    assert job.transcript.files == {str(agent.file): "folder", str(helper): "helper"}


def test_a_wrapped_agent(start, watch):
    """An agent below a wrapper, and whatever it starts itself, is the run's as much as the leader."""
    agent = start("codex", wrapped=True)
    job = watch(agent)
    agent.write(text())
    job.step()
    assert job.transcript.files == {str(agent.file): "open"}


# Places


def test_where_an_agent_was_told_to_write(start, home, tmp_path):
    """The variables that move an agent's folder move our search; links in between do not matter."""
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    place = PLACES["claude"]
    assert place.folder({"HOME": str(home)}) == str(home / ".claude")
    assert place.folder({"HOME": str(home), "CLAUDE_CONFIG_DIR": str(tmp_path / "link")}) == str(
        tmp_path / "real"
    )
    assert PLACES["gemini"].folder({}) == os.path.expanduser("~/.gemini")


def test_every_place_is_found_by_its_own_pattern(home, work, start):
    """A file at the place of each agent is one of its conversations, and is found by its name."""
    for name in FILES:
        agent = start(name)
        agent.put(agent.file, "{}\n")
        shelf = Shelf(PLACES[name], {"HOME": str(home)})
        assert list(shelf.all()) == [str(agent.file)]
        assert list(shelf.of_session(agent.session)) == [str(agent.file)]
        assert shelf.holds(str(agent.file))
        assert not shelf.holds(str(agent.file) + ".zst")
        assert list(shelf.helpers(str(agent.file))) == []
        assert Path(agent.file).exists()
