"""The folder of a run that an engine has placed: all that is known of it beside its processes, for whoever asks there.

    events.ndjson  what happened, numbered, appended to
    output.log     what it printed, the newest of it; older pieces beside it as output.N.log (N: bytes before it)
    state.json     how it stands: who runs it, until when its lease is, when that was looked at; replaced whole
    exit.json      how it ended; the last thing that is written, when nothing of it is left
    control        a FIFO for lines: `renew UNTIL`, `stop` (then stop.json says how)
    result, branch.bundle   what it answered and committed

The spec of a run, with its secrets, is never in it.
"""

import json
import os

from longwatch.core.harness import Harness
from longwatch.jsonlean import dumps
from longwatch.paths import ensure, rfc3339
from longwatch.posix import wall_of
from longwatch.posix.atomic import replace
from longwatch.posix.identity import Identity
from longwatch.posix.rotated import Place, Rotated
from longwatch.runtime.logfile import LogSink
from longwatch.runtime.logs import MAX, Logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.facts import Fact
    from longwatch.runtime.logfile import Redactor

SCHEMA = 1
EVENTS, OUTPUT, STATE, EXIT = "events.ndjson", "output.log", "state.json", "exit.json"
CONTROL, STOP, RESULT, BUNDLE, LOG = "control", "stop.json", "result", "branch.bundle", "runner.log"
#: Of the output so many pieces are kept, together as much as the log of the item may be.
PIECES = 4
#: So much is read of a file at once, at most.
CHUNK = 1 << 20
_PIECE, _SUFFIX = "output.", ".log"


class RunFiles:
    """The folder as its runner writes it. A file that cannot be written costs its content and never the run."""

    def __init__(self, folder: str) -> None:
        """Make it. Raises StoreError, OSError."""
        self.folder = ensure(folder)
        self._seq = 0
        self._events = os.open(
            self.path(EVENTS), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._control = self.path(CONTROL)
        try:
            os.mkfifo(self._control, 0o600)
        except FileExistsError:
            pass

    def path(self, name: str) -> str:
        """Return the path of a file in it."""
        return os.path.join(self.folder, name)

    def open_control(self) -> int:
        """Return a descriptor that reads what others write into the FIFO; it never ends."""
        return os.open(self._control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def event(self, name: str, at: int, fields: "Mapping[str, object]") -> None:
        """Append an event."""
        self._seq += 1
        told = {"seq": self._seq, "event": name, "at": rfc3339(wall_of(at)), "mono_ms": at, **fields}
        try:
            os.write(self._events, dumps(told).encode() + b"\n")
        except OSError:
            return

    def fact(self, fact: "Fact") -> None:
        """Append a fact of a watch."""
        self.event(fact.name, fact.at, {key: value for key, value in fact.as_dict().items() if key != "at"})

    @property
    def events(self) -> int:
        """How many events there are."""
        return self._seq

    def state(self, told: "Mapping[str, object]") -> None:
        """Say how it stands."""
        self._replace(STATE, {"schema": SCHEMA, "seq": self._seq, **told}, durable=False)

    def exit(self, told: "Mapping[str, object]") -> None:
        """Say how it ended."""
        self._replace(EXIT, {"schema": SCHEMA, **told}, durable=True)

    def put(self, name: str, data: bytes) -> None:
        """Write another file."""
        replace(self.path(name), data)

    def _replace(self, name: str, told: "Mapping[str, object]", *, durable: bool) -> None:
        try:
            replace(self.path(name), json.dumps(told).encode(), durable=durable)
        except OSError:
            return

    def close(self) -> None:
        """Let go of it; the folder stays."""
        os.close(self._events)
        try:
            os.unlink(self._control)
        except OSError:
            return


# -- as others read it


def read(folder: str, name: str) -> "dict[str, Any] | None":
    """Return what one of the JSON files holds; None where there is none that can be read."""
    try:
        with open(os.path.join(folder, name), "rb") as file:
            told = json.load(file)
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None


def identity_in(told: "Mapping[str, Any] | None", who: str) -> Identity | None:
    """Return the identity that a state names (`runner`, `keeper`); None where it names none."""
    found = (told or {}).get(who)
    return Identity(found["pid"], found["start"], found["boot"]) if found else None


def events_since(folder: str, offset: int, most: int = CHUNK) -> "tuple[list[dict[str, Any]], int]":
    """Return the events from a byte of the file on, and the byte to go on from: a line under way is left for later."""
    data, _ = read_piece(os.path.join(folder, EVENTS), offset, most)
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found, offset + len(whole)


def read_piece(path: str, offset: int, count: int) -> tuple[bytes, int]:
    """Return bytes of a file, and its size; nothing of a file that is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b"", 0
    try:
        return os.pread(descriptor, min(count, CHUNK), offset), os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def extent(folder: str) -> tuple[int, int]:
    """Return which bytes of the output are there: from, to."""
    found = _pieces(folder)
    return found[0][0], found[-1][0] + found[-1][1]


def read_output(folder: str, offset: int, count: int) -> tuple[int, bytes]:
    """Return bytes of the output and where they begin: later than asked for where the older ones are gone."""
    while True:
        found = _pieces(folder)
        offset = max(offset, found[0][0])
        start, _, path = next(piece for piece in reversed(found) if piece[0] <= offset)
        data, _ = read_piece(path, offset - start, count)
        # A piece that was put aside meanwhile has another name, and this name another content.
        if [piece[2] for piece in _pieces(folder)] == [piece[2] for piece in found]:
            return offset, data


def _pieces(folder: str) -> list[tuple[int, int, str]]:
    """Return the pieces of the output, oldest first: the byte each begins with, its size, its path."""
    while True:
        names = _older(folder)
        found, start = [], 0
        try:
            for name in names:
                path = os.path.join(folder, name)
                start, size = _start_of(name), os.stat(path).st_size
                found.append((start, size, path))
                start += size
        except FileNotFoundError:
            continue
        path = os.path.join(folder, OUTPUT)
        try:
            found.append((start, os.stat(path).st_size, path))
        except FileNotFoundError:
            found.append((start, 0, path))
        if _older(folder) == names:
            return found


def _older(folder: str) -> list[str]:
    return sorted(
        name for name in os.listdir(folder)
        if name.startswith(_PIECE) and name.endswith(_SUFFIX) and name != OUTPUT
    )  # fmt: skip


def _start_of(name: str) -> int:
    return int(name[len(_PIECE) : -len(_SUFFIX)])


# -- the output as it is written


class Pieces(Rotated):
    """A log whose older pieces are named by the bytes before them: a reader elsewhere goes on where it was."""

    __slots__ = ()

    def rotate(self) -> None:
        """Put the piece aside, and begin a new one; the oldest one goes."""
        folder = os.path.dirname(self.path)
        start = _pieces(folder)[-1][0]
        os.replace(self.path, os.path.join(folder, f"{_PIECE}{start:015d}{_SUFFIX}"))
        for name in _older(folder)[: -(self.keep - 1)]:
            os.unlink(os.path.join(folder, name))
        self._open()


class RunnerLogs(Logs):
    """The output of one placed run."""

    def sink(
        self, harness: Harness, run: str, resumed: bool, warn: "Callable[[str], object]",
        redactor: "Redactor | None" = None,
    ) -> LogSink:  # fmt: skip
        """Return where it goes."""
        limit = max(int(harness.log.get("max", MAX)) // PIECES, 1)
        file = Pieces(os.path.join(self.folder, OUTPUT), Place(self.folder), limit, PIECES)
        sink = LogSink(self, file, min(64 << 10, limit // 8), warn, redactor, terminal=harness.pty)
        self._sinks.add(sink)
        return sink
