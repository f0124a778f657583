"""Agents of our own that write transcripts where the known ones do, and a dialect of our own to read them in.

An agent here is a real process that carries the name of a known program, and writes what it is told to.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from longwatch.core import facts
from longwatch.core.commands import Notify, Record, SignalTree
from longwatch.core.observations import Exited, Prepared
from longwatch.core.spec import LimitSpec, Spec
from longwatch.core.watch import Watch
from longwatch.observe import events as e
from longwatch.observe.places import PLACES, Shelf
from longwatch.observe.record import Record as Seen
from longwatch.observe.record import instant
from longwatch.observe.rows import Table
from longwatch.observe.sessions import Sessions
from longwatch.observe.transcript import Lines, Transcript
from longwatch.posix import now
from longwatch.posix.belongings import Belongings
from longwatch.posix.identity import identity
from longwatch.posix.tree import Tree

PROGRAM = """
import json, os, sys
held = {}
print("ready", flush=True)
for line in sys.stdin:
    path, text, keep = json.loads(line)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = held.get(path) or open(path, "a")
    file.write(text)
    file.flush()
    if keep:
        held[path] = file
    elif path not in held:
        file.close()
    print("done", flush=True)
"""

#: A shell that stays, so that the agent is its child.
WRAPPER = ("sh", "-c", '"$0" "$@"; true')


class Agent:
    """One process with the name of a known agent, in a directory, with a conversation of its own."""

    def __init__(self, name: str, home: Path, work: Path, *args: str, wrapped: bool = False) -> None:
        program = home / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM)
        self.name = name
        self.home = home
        self.work = work
        self.session = str(uuid.uuid4())
        self.process = subprocess.Popen(
            [*(WRAPPER if wrapped else ()), sys.executable, program, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=work,
            text=True,
            start_new_session=True,
        )
        self._answer("ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(ValueError, BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def file(self) -> Path:
        """Where this agent keeps its conversation."""
        return self.file_of(self.session)

    def file_of(self, session: str) -> Path:
        """Return where an agent of this name keeps a conversation."""
        slug = "".join(c if c.isalnum() else "-" for c in str(self.work))
        places = {
            "claude": f".claude/projects/{slug}/{session}.jsonl",
            "codex": f".codex/sessions/2030/01/02/rollout-2030-01-02T03-04-05-{session}.jsonl",
            "copilot": f".copilot/session-state/{session}/events.jsonl",
            "gemini": f".gemini/tmp/{self.work.name}/chats/session-2030-01-02T03-04-{session[:8]}.jsonl",
            "qwen": f".qwen/projects/{slug}/chats/{session}.jsonl",
            "pi": f".pi/agent/sessions/--{slug}--/2030_{session}.jsonl",
        }
        return self.home / places[self.name]

    def write(self, *records: dict[str, Any], path: Path | None = None, text: str = "") -> None:
        """Write records as this agent does: codex keeps its file open, the others open it each time."""
        path = path or self.file
        text = text or "".join(line(cwd=str(self.work), **record) for record in records)
        self.put(path, text, keep=self.name == "codex")

    def put(self, path: Path, text: str, *, keep: bool = False) -> None:
        """Write a text to a file, and wait until it is written."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(path), text, keep]) + "\n")
        self.process.stdin.flush()
        self._answer("done")

    def register(self, session: str = "", **fields: object) -> None:
        """Note in the agent's registry which conversation this process has."""
        session = session or self.session
        pid = self.process.pid
        if self.name == "copilot":
            self.put(self.file_of(session).parent / f"inuse.{pid}.lock", "")
            return
        who = identity(pid)
        assert who is not None
        entry = {"pid": pid, "sessionId": session, "procStart": str(who.start)} | fields
        path = self.home / f".claude/sessions/{pid}.json"
        path.unlink(missing_ok=True)
        self.put(path, json.dumps(entry, separators=(",", ":")))

    def _answer(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{word}\n"


def line(at: float | None = None, **fields: object) -> str:
    """Return a record, stamped now or at another time (seconds since 1970), as JSON writes it without spaces."""
    stamp = datetime.fromtimestamp(time.time() if at is None else at, UTC).isoformat(timespec="milliseconds")
    return json.dumps({"timestamp": stamp, **fields}, separators=(",", ":")) + "\n"


def text(word: str = "word", **fields: object) -> dict[str, object]:
    """Return the record of the model's words."""
    return {"event": "text", "text": word, **fields}


def call(name: str) -> dict[str, object]:
    """Return the record of a call."""
    return {"event": "call", "call": name}


def result(name: str) -> dict[str, object]:
    """Return the record of a call's result."""
    return {"event": "result", "call": name}


class PlainReader:
    """Reads the records that the agents here write."""

    def __init__(self) -> None:
        self.sub = ""
        self.bad = 0
        self._last: int | None = None

    def read(self, line: bytes, pos: int = 0, wall: int | None = None) -> list[Seen]:
        """Return the record of a line."""
        try:
            value = json.loads(line)
        except ValueError:
            self.bad += 1
            return []
        at = instant(value.get("timestamp"))
        event = {
            "text": lambda: e.Text(value["text"]),
            "call": lambda: e.ToolCalled(value["call"], "Bash"),
            "result": lambda: e.ToolResult(value["call"]),
            "turn_end": e.TurnEnded,
            "retry": e.Retry,
            "wait": lambda: e.Limited(span=value["span"]),
        }.get(value.get("event", ""))
        events = () if event is None else (event(),)
        return [
            Seen(events, at=wall if at is None else at, sub=self.sub, pos=pos, note=value.get("note", ""))
        ]


def company(agent: Agent) -> Belongings:
    """Return what belongs to an agent's process and its descendants."""
    who = identity(agent.process.pid)
    assert who is not None
    return Belongings(Tree(who, "none-000000", subreaper=False))


def sessions_of(agent: Agent, started: int = 0) -> Sessions:
    """Return the search for the files of a run that began now, of an agent that runs already."""
    environ = {"HOME": str(agent.home)}
    shelf = Table(environ) if agent.name == "opencode" else Shelf(PLACES[agent.name], environ)
    return Sessions(shelf, company(agent), started or now(), clock=now)


class Job:
    """An agent under watch by its transcript alone, in real time; what a driver does is done by `step`."""

    def __init__(self, agent: Agent, window: int = 60_000) -> None:
        self.agent = agent
        started = now()
        self.notes: list[str] = []
        self.transcript = Transcript(
            sessions_of(agent, started),
            lambda found: Lines(found, PlainReader()),
            started,
            self.notes.append,
        )
        spec = Spec({"idle": LimitSpec(window)}, held=(), sampled=("transcript",), observed=True)
        self.watch = Watch(spec, started)
        self.told: list[Any] = []
        self.fired: list[str] = []

    def step(self) -> list[Any]:
        """Look, tell, advance; return what was told."""
        at_once = self.transcript.look(now())
        for at, seen in at_once:
            self._note(self.watch.observe(seen, at))
        self._note(self.watch.advance(now()))
        self.told += [seen for _, seen in at_once]
        return [seen for _, seen in at_once]

    def _note(self, commands: list[Any]) -> None:
        for command in commands:
            if isinstance(command, SignalTree):
                self.fired.append("stop")
            elif isinstance(command, Notify | Record) and isinstance(command.fact, facts.LimitFired):
                self.fired.append(command.fact.limit)
                self._note(self.watch.observe(Prepared(), now()))

    @property
    def stopped(self) -> bool:
        """Whether the watch has acted: in real time, so ask again and again."""
        self.step()
        return "stop" in self.fired

    @property
    def age(self) -> int:
        """For how long it is watched, in ms."""
        return now() - self.watch.started

    @property
    def progress(self) -> int:
        """How often the transcript moved."""
        seen = self.watch.sight.seen.get("transcript", (0, 0))
        return seen[1]

    @property
    def status(self) -> dict[str, Any]:
        """What a status shows of the transcript."""
        sources = self.watch.snapshot(now())["sources"]
        return dict(sources["transcript"])

    def close(self) -> None:
        """Give descriptors back."""
        self.watch.observe(Exited(0), now())
        self.transcript.close()


@contextlib.contextmanager
def watching(agent: Agent, window: int = 60_000) -> Iterator[Job]:
    """Watch an agent meanwhile."""
    job = Job(agent, window)
    try:
        yield job
    finally:
        job.close()


def names(job: Job) -> list[str]:
    """Return the names of what was told, in order."""
    return [type(seen).__name__ for seen in job.told]


def touch(path: Path, at: float) -> None:
    """Set a file's time."""
    os.utime(path, (at, at))
