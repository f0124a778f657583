"""opencode: its database, and `run --format json`.

The database has a log of events, numbered in each session; helpers are sessions of their own below ours. It is read
beside its writer, so each look is one short transaction that waits for nobody. What the program prints has a call only
when it is over, and nothing of helpers and retries.
"""

import sqlite3
from contextlib import closing

from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.calls import Recent
from longwatch.observe.dialects.loose import amount, count, decode, kind_of, number, table, text
from longwatch.observe.record import DATABASE, STREAM, Record
from longwatch.observe.wording import limit_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Events = tuple[e.Event, ...]

_DENIED = "rejected permission"
_OVER = ("completed", "error")
#: The longest row that is read whole; of a longer one SQLite takes the fields out.
_LONGEST = 1 << 20
_BATCH = 500
_FAMILY = """
    WITH RECURSIVE family(id) AS (
        SELECT ? UNION SELECT session.id FROM session JOIN family ON session.parent_id = family.id
    ) SELECT id FROM family
"""
_EVENTS = f"""
    SELECT aggregate_id, seq, type, CASE
        WHEN length(data) <= {_LONGEST} THEN data
        WHEN json_valid(data)
        THEN json_remove(data, '$.part.state.output', '$.part.state.metadata.output', '$.part.text')
    END FROM event
"""


class OpencodeReader(Reader):
    """Reads the stream, or one session's rows."""

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a line of the stream means: a call that is over has two instants."""
        kind, at = kind_of(value), value.get("timestamp")
        session = text(value.get("sessionID"))
        if session and session != self.session:
            self.session = session
            yield self.made(e.SessionStarted(session), at=at, raw_type=kind, uid=session)
        if kind == "error":
            yield self._error(table(value.get("error")), at)
        else:
            yield from self.part(table(value.get("part")), at)

    def part(self, part: "dict[str, Any]", at: object, *, by_user: bool = False) -> "Iterator[Record]":
        """Return what one part of a message means, as it is at that time."""
        kind, uid = kind_of(part), text(part.get("id"))
        if kind == "tool":
            yield from self._tool(part, at)
            return
        yield self.made(*(() if by_user else self._said(kind, uid, part)), at=at, raw_type=kind, uid=uid)

    def message(self, info: "dict[str, Any]", at: object) -> Record:
        """Return what a message's own row means: a user's begins a turn, an error ends one."""
        uid, role = text(info.get("id")), info.get("role")
        stated = table(info.get("time")).get("completed", at)
        if role == "user" and self.said.add(uid):
            return self.made(e.TurnStarted("user"), at=at, raw_type="message", uid=uid)
        error = table(info.get("error"))
        if error and self.said.add(f"{uid} error"):
            return self._error(error, stated)
        return self.made(at=at, raw_type="message", uid=uid)

    def _said(self, kind: str, uid: str, part: "dict[str, Any]") -> "Events":
        said = text(part.get("text"))
        if kind in ("text", "reasoning"):
            new = bool(said) and self.said.add(f"{uid} {len(said)}")
            return () if not new else (e.Text(said),) if kind == "text" else (e.Thinking(len(said)),)
        if kind == "step-finish" and self.said.add(uid):
            over = self.ended("end_turn", sub=bool(self.sub)) if part.get("reason") == "stop" else ()
            return over + self._step(uid, part)
        if kind == "compaction" and self.said.add(uid):
            return (e.Compacted("end"),)
        return ()

    def _step(self, uid: str, part: "dict[str, Any]") -> "Events":
        told = table(part.get("tokens"))
        cache = table(told.get("cache"))
        given = count(told.get("input")) + count(cache.get("write"))
        output = count(told.get("output")) + (0 if "total" in told else count(told.get("reasoning")))
        read, total = count(cache.get("read")), count(told.get("total"))
        return self.used(uid, given, output, read, total=total, cost=amount(part.get("cost")))

    def _tool(self, part: "dict[str, Any]", at: object) -> "Iterator[Record]":
        state, call = table(part.get("state")), text(part.get("callID"))
        status, times = text(state.get("status")), table(state.get("time"))
        uid, tool = text(part.get("id")), text(part.get("tool"))
        begin: Events = ()
        if status != "pending":  # until then its arguments are still being written
            begin = self.calls.began(call, tool, state.get("input"))
        yield self.made(*begin, at=times.get("start", at), raw_type=f"tool/{status}", uid=uid)
        if status not in _OVER:
            return
        said = text(state.get("output")) or text(state.get("error"))
        code = number(table(state.get("metadata")).get("exit"))
        why = "" if status == "completed" else "denied" if _DENIED in said else "error"
        end = self.calls.ended(e.ToolResult(call, not why, code, why, result=said))
        yield self.made(*end, at=times.get("end", at), raw_type=f"tool/{status}", uid=uid)

    def _error(self, error: "dict[str, Any]", at: object) -> Record:
        data = table(error.get("data"))
        said, status = text(data.get("message")) or text(error.get("name")), number(data.get("statusCode"))
        if error.get("name") == "MessageAbortedError":
            return self.made(*self.ended("aborted"), at=at, raw_type="error")
        limit, note = self.limited(said, status, at)
        cls = limit_class(said, status) or text(error.get("name"))
        failed = e.Failed(cls, status, fatal=data.get("isRetryable") is not True, message=said)
        return self.made(failed, *limit, *self.ended("error"), at=at, raw_type="error", note=note)


class Database:
    """The database, read beside its writer. Raises OSError where it cannot be opened or is no database of opencode.

    `marks` are the numbers up to which each session has been read; reading goes on behind them.
    """

    def __init__(self, path: str, marks: "Mapping[str, int] | None" = None) -> None:
        self.path = path
        self.marks = dict(marks or {})
        self.readers: dict[str, OpencodeReader] = {}
        self._users = Recent()

    def newest(self) -> str:
        """Return the id of the session that was begun last and is nobody's helper; "" where there is none."""
        sql = "SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_created DESC, id DESC LIMIT 1"
        rows = self._ask(sql, ())
        return str(rows[0][0]) if rows else ""

    def read(self, session: str) -> "Iterator[Record]":
        """Yield the new records of a session and its helpers, in the order in which they were written."""
        while rows := self._rows(session):
            for owner, seq, kind, data in rows:
                self.marks[owner] = seq
                reader = self._reader(owner, session)
                value = decode(data.encode("utf-8", "replace") if isinstance(data, str) else b"")
                for record in self._records(reader, str(kind), table(value)):
                    record.pos, record.source = seq, DATABASE
                    yield record

    def _reader(self, owner: str, session: str) -> OpencodeReader:
        reader = self.readers.get(owner)
        if reader is None:
            reader = self.readers[owner] = OpencodeReader(DATABASE)
            reader.session = session
            reader.sub = "" if owner == session else owner
        return reader

    def _records(self, reader: OpencodeReader, kind: str, data: "dict[str, Any]") -> "list[Record]":
        word = kind.rsplit(".", 1)[0]  # the rest is a version
        info, part = table(data.get("info")), table(data.get("part"))
        if word == "session.created":
            owner = reader.sub or reader.session
            began = e.SessionStarted(owner, cwd=text(info.get("directory")))
            record = reader.made(began, at=table(info.get("time")).get("created"), raw_type=word, uid=owner)
            return [record]
        if word == "message.updated":
            times = table(info.get("time"))
            if info.get("role") == "user":
                self._users.add(text(info.get("id")))
            return [reader.message(info, times.get("completed", times.get("created")))]
        if word == "message.part.updated":
            by_user = text(part.get("messageID")) in self._users
            return list(reader.part(part, data.get("time"), by_user=by_user))
        return [reader.made(raw_type=word)]

    def _rows(self, session: str) -> "list[tuple[Any, ...]]":
        family = [row[0] for row in self._ask(_FAMILY, (session,))]
        places = " OR ".join("(aggregate_id = ? AND seq > ?)" for _ in family)
        marks = [value for owner in family for value in (owner, self.marks.get(owner, -1))]
        return self._ask(f"{_EVENTS} WHERE {places} ORDER BY rowid LIMIT {_BATCH}", marks)

    def _ask(self, sql: str, values: "Sequence[object]") -> "list[tuple[Any, ...]]":
        try:
            uri = f"file:{_quoted(self.path)}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=0.2, isolation_level=None)) as connection:
                return connection.execute(sql, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise OSError(f"{self.path}: {error}") from error


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def recognise(records: "Sequence[dict[str, Any]]") -> str:
    """Each line of the stream has a session and a part of a message."""
    return (
        STREAM
        if any("sessionID" in record and ("part" in record or "error" in record) for record in records)
        else ""
    )


DIALECT = Dialect("opencode", OpencodeReader, recognise)
