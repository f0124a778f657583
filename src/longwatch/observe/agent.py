"""Everything that is observed of one agent in one run: its transcript, what it prints, what its hooks tell.

One agent says the same thing in several places, and sooner in one than in the other. Here each call begins and ends
once, whoever tells it first; where the agent prints its records, these lead, and its files only add what the stream
leaves out. The watch hears all of it in the order in which it happened.
"""

from longwatch.core import observations as o
from longwatch.core.sight import TRANSCRIPT
from longwatch.observe import events as e
from longwatch.observe.dialects.calls import Recent
from longwatch.observe.outline import outline
from longwatch.observe.record import DATABASE, DISK, WORDS, Record
from longwatch.observe.standing import AgentLimit, Standing
from longwatch.observe.transcript import Transcript, coalesced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from longwatch.observe.dialects import Dialect
    from longwatch.observe.sessions import Found, Sessions
    from longwatch.observe.transcript import Source, Told

#: Files are not looked at again within this: a screen that is redrawn asks for a look each time.
REST = 50
#: Tools that ask the human: how long the answer takes is no matter of the tool's.
ASKING = frozenset(("AskUserQuestion", "ExitPlanMode", "request_user_input", "ask_user", "question"))
#: These number the calls in their stream anew, so no call in a file can be told to be the same.
RENUMBERED = ("codex",)
#: These tell only their file what goes wrong, until they give up.
QUIET = ("qwen",)
#: What a file repeats of the stream, and late: it would open again what is over by now, or begin what has ended.
_ECHOES = (
    e.Text, e.Thinking,
    e.SessionStarted, e.SessionEnded, e.TurnStarted, e.TurnEnded, e.Retry, e.Failed, e.Compacted, e.Permission,
    e.Subagent,
)  # fmt: skip
_TROUBLE = (e.Retry, e.Limited, e.Failed)
_FILES = (DISK, DATABASE)
#: What these print and what they write names the same reply by another name.
RENAMED = ("qwen",)
#: Two readings of one end of a wait.
_CLOSE = 1_000
_PROGRESS = (o.ProgressSeen, o.CallBegan, o.CallProgressed, o.CallEnded)
_SIGNS = (o.ProgressSeen, o.AliveSeen)


class Agent:
    """One agent. `headless` works without a human, so the end of its turn is its result.

    `wake` is called when something came that a watch should hear of soon; `hooks` reads a message from inside the run;
    `log` is told what may be kept of each event.
    """

    def __init__(
        self, preset: str, dialect: "Dialect", sessions: "Sessions", follow: "Callable[[Found], Source]", started: int,
        *, headless: bool, note: "Callable[[str], object]" = lambda text: None,
    ) -> None:  # fmt: skip
        self.preset = preset
        self.dialect = dialect
        self.headless = headless
        self.standing = Standing(started, ready=not headless)
        self.transcript = Transcript(sessions, follow, started, note, self._from_files)
        #: Whether the agent prints its records.
        self.live = False
        #: Changes with everything that `as_dict` shows.
        self.version = 0
        self.wake: Callable[[], object] = lambda: None
        self.hooks: Callable[[dict[str, Any]], Iterable[Record]] = lambda message: ()
        self.log: Callable[[int, dict[str, object]], object] = lambda at, fields: None
        self._queue: list[Told] = []
        self._looked = started - REST
        self._began, self._ended = Recent(), Recent()
        self._asked: set[str] = set()
        self._parked_until = 0

    # -- what is asked

    def look(self, now: int, *, afresh: bool = False) -> "list[Told]":
        """Return what is new, each with its instant in ms on the watch's clock, oldest first.

        Files that were looked at a moment ago are only read again where somebody has to know (`afresh`).
        """
        if afresh or now - self._looked >= REST:
            self._looked = now
            self._queue += self.transcript.look(now, afresh=afresh)
        told, self._queue = sorted(self._queue, key=lambda each: each[0]), []
        return coalesced(told)

    @property
    def session(self) -> str:
        """The id of its conversation; empty while it is unknown."""
        return self.standing.session

    @property
    def limit(self) -> AgentLimit | None:
        """The provider's limit that holds now."""
        return self.standing.limit

    @property
    def counts(self) -> dict[str, int]:
        """How often it did what."""
        return self.standing.counts

    @property
    def trouble(self) -> str:
        """The newest error that nothing has followed; empty where there is none."""
        return self.standing.trouble

    @property
    def pending(self) -> str:
        """Why none of its records was read; empty when some were."""
        return "" if self.standing.counts["records"] else self.transcript.sessions.pending

    def as_dict(self, now: int) -> "dict[str, Any]":
        """Return the form for JSON: who it is, how it stands, which files are its transcript."""
        return {
            "preset": self.preset,
            "dialect": self.dialect.name,
            "headless": self.headless,
            "live": self.live,
            **self.standing.as_dict(now),
            "pending": self.pending,
            "files": [{"path": path, "why": why} for path, why in self.transcript.files.items()],
        }

    def close(self) -> None:
        """Give all descriptors back."""
        self.transcript.close()

    # -- what is told

    def printed(self, record: Record, now: int) -> bool:
        """Take a record from its output, which is no second old; return whether it is progress."""
        self.live = self.live or record.raw_type != WORDS
        return self._queued(now, self.hear(now, record))

    def message(self, message: "dict[str, Any]", at: int) -> None:
        """Take what a hook of the agent left for us at an instant."""
        for record in self.hooks(message):
            self._queued(at, self.hear(at, record))

    def hear(self, at: int, record: Record, late: int = 0) -> tuple[o.Observation, ...]:
        """Take note of a record, and return what a watch hears of it: mere life where it was told before.

        `at` is its instant on the watch's clock, `late` for how many ms before that it was written.
        """
        news = [event for event in record.events if self._is_news(event, record)]
        meant = tuple(seen for event in news for seen in self._meant(event, record))
        told = Record(
            meant,
            at=record.at,
            session=record.session,
            sub=record.sub,
            source=record.source,
            note=record.note,
        )
        self.standing.heard(at, told)
        self.version += 1
        for event in meant:
            self.log(at, outline(event, sub=record.sub, source=record.source))
        if record.source not in _FILES and not record.sub and record.session:
            self.transcript.sessions.name(record.session)
        return told.observations(TRANSCRIPT, late=late)

    # -- which of it is news

    def _from_files(self, at: int, record: Record, late: int) -> "Iterable[o.Observation]":
        return self.hear(at, record, late)

    def _queued(self, at: int, heard: "Iterable[o.Observation]") -> bool:
        new = [(at, seen) for seen in heard]
        last = self._queue[-1:]
        del self._queue[-1:]
        self._queue += coalesced([*last, *new])
        if any(not isinstance(seen, _SIGNS) for _, seen in new):
            self.wake()
        return any(isinstance(seen, _PROGRESS) for _, seen in new)

    def _is_news(self, event: e.Event, record: Record) -> bool:
        echo = self.live and not record.sub and record.source in _FILES
        echo = echo and not (isinstance(event, _TROUBLE) and self.dialect.name in QUIET)
        if isinstance(event, e.ToolCalled | e.ToolResult):
            # A call that only the file told of (we came later) has its end there, too.
            renumbered = self.dialect.name in RENUMBERED and event.call not in self.standing.calls
            return not (echo and renumbered) and self._is_new_of_call(event)
        if isinstance(event, e.Usage):
            # A cost without a name the stream has told; a reply's full numbers may stand in its file alone.
            again = echo and (not event.message or self.dialect.name in RENAMED)
            return not again and self.standing.usage.add(event)
        if record.raw_type == WORDS and isinstance(event, e.Limited | e.Failed):
            return not self.live  # the stream of records says it as well
        if isinstance(event, e.Limited | e.Retry) and not (echo and isinstance(event, e.Retry)):
            return self._parks(event, record, echo=echo)
        if isinstance(event, e.SessionStarted) and not self.session:
            return True  # some name their conversation only at its end
        return not (echo and isinstance(event, _ECHOES))

    def _is_new_of_call(self, event: e.ToolCalled | e.ToolResult) -> bool:
        if isinstance(event, e.ToolCalled):
            return self._began.add(event.call)
        if event.partial:
            return event.call not in self._ended
        if self._ended.add(event.call):
            return True
        if event.exit_code:
            self.standing.amend(event.call)
        return False

    def _parks(self, event: e.Limited | e.Retry, record: Record, *, echo: bool) -> bool:
        """Note until when the provider says to wait; of the file only a later end is news beside the stream."""
        span = event.span if isinstance(event, e.Limited) else event.delay
        until = 0 if span is None or record.at is None else record.at + span
        later = until > self._parked_until + _CLOSE
        self._parked_until = max(self._parked_until, until)
        return later or not echo

    def _meant(self, event: e.Event, record: Record) -> tuple[e.Event, ...]:
        """Return what an event comes to in this run."""
        if isinstance(event, e.ToolCalled) and event.tool in ASKING:
            self._asked.add(event.call)
            return (e.Permission("waiting", event.call, event.tool),)
        if isinstance(event, e.ToolResult) and event.call in self._asked and not event.partial:
            self._asked.discard(event.call)
            return (e.Permission("allowed" if event.ok else "denied", event.call),)
        over = isinstance(event, e.TurnEnded) and event.ok and self.headless and not record.sub
        if over and not any(isinstance(other, e.SessionEnded) for other in record.events):
            return (event, e.SessionEnded(reason="end_turn"))
        return (event,)
