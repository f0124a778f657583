"""Talking to a keeper: questions and their answers, for several threads, one at a time, each within a limit."""

import _thread
import errno
import os
import sys

from longwatch.posix import now
from longwatch.posix.identity import Identity
from longwatch.posix.spawn import SpawnError
from longwatch.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.runtime.wire import Message, Wire

    Answer = tuple[Message, dict[str, int]]

#: How long the first answer may take, and each after it, in milliseconds.
START_LIMIT, ANSWER_LIMIT = 10_000, 5_000
#: What a start ends with when there is no keeper for it: it is longwatch that failed.
FAILED = 125
#: The number of the first question of all, which is to be let in.
_ATTEND = 1


class KeeperError(SpawnError):
    """There is no keeper: it could not be started, is gone, or does not answer. `str()` is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, FAILED)


class NoKeeper(KeeperError):
    """Nobody is there to be asked: never was, or has ended."""


class PathTaken(KeeperError):
    """Somebody listens where the new keeper should."""


class Talk:
    """Our connection to a keeper, in the process that made it. `pid` is that of a child of ours, or 0.

    `identity` and `adopts` (whether orphans come to it) are known once it has greeted us.
    """

    __slots__ = (
        "_greeting",
        "_lock",
        "_number",
        "_ours",
        "_owner",
        "adopts",
        "closed",
        "identity",
        "pid",
        "wire",
    )

    def __init__(self, connection: "Wire", pid: int = 0) -> None:
        self.wire = connection
        self.pid = pid
        self.identity: Identity | None = None
        self.adopts = False
        self.closed = False
        self._ours = pid != 0
        self._owner = os.getpid()
        self._lock = _thread.allocate_lock()
        self._greeting = _thread.allocate_lock()
        self._number = 0

    @property
    def mine(self) -> bool:
        """Whether this is still a connection, and not a fork's copy of it."""
        return not self.closed and os.getpid() == self._owner

    @property
    def alive(self) -> bool:
        """Whether somebody is at the other end."""
        return self.mine and not self.wire.ended()

    def attend(self, given: dict[str, int], *, path: str | None = None, replace: bool = False) -> None:
        """Ask to be let in, and do not wait. A keeper that has ended by now is found out by the next question."""
        try:
            self._post({"op": "attend", "path": path, "replace": replace}, given, ANSWER_LIMIT)
        except BrokenPipeError:
            pass

    def greeting(self) -> "Message | None":
        """Wait for what the keeper says to being asked in, and return it; None when that has been said before.

        Raises KeeperError.
        """
        with self._greeting:
            if self.identity is not None or not self.mine:
                return None
            limit = START_LIMIT if self._ours else ANSWER_LIMIT
            told, _ = self._read(_ATTEND, now() + limit)
            if told.get("version") != wire.VERSION:
                raise KeeperError(
                    f"keeper {told.get('pid')} is of another longwatch (speaks {told.get('version')}, not "
                    f"{wire.VERSION}); end what it holds with the one that started it"
                )
            self.pid = told["pid"]
            self.adopts = told["adopts"]
            self.identity = Identity(told["pid"], told["start"], told["boot"])
            return told

    def ask(self, message: "Message", given: dict[str, int], limit_ms: int) -> "Answer":
        """Ask and wait; return the answer, and what was lent with it, by name.

        Raises KeeperError, and SpawnError where that is the answer.
        """
        if not self.mine:
            raise KeeperError("this keeper was closed, or belongs to the process that forked this one")
        deadline = now() + limit_ms
        if not self._lock.acquire(timeout=limit_ms / 1000):
            raise self._silent()
        try:
            number = self._post(message, given, limit_ms)
            return self._read(number, deadline)
        except TimeoutError as error:
            raise self._silent() from error
        except SpawnError:
            raise
        except OSError as error:
            raise self._gone() from error
        finally:
            self._lock.release()

    def tell(self, message: "Message") -> None:
        """Say what needs no answer. Whoever is gone, or never reads it, will find the end of the connection."""
        try:
            self.wire.send({**message, "id": wire.NO_ANSWER, "lent": []}, limit_ms=ANSWER_LIMIT)
        except OSError:
            pass

    def hang_up(self) -> None:
        """End the connection. May be called again."""
        self.closed = True
        self.wire.close()

    def _post(self, message: "Message", given: dict[str, int], limit_ms: int) -> int:
        self._number += 1
        numbered = {**message, "id": self._number, "lent": list(given)}
        self.wire.send(numbered, given.values(), limit_ms=limit_ms)
        return self._number

    def _read(self, number: int, deadline: int) -> "Answer":
        """Wait for the answer to a question. One that nobody waits for any more is thrown away."""
        while self.wire.wait(deadline):
            try:
                heard = self.wire.receive()
            except (EOFError, OSError) as error:
                raise self._gone() from error
            if heard is None:
                continue
            message, fds = heard
            if message.get("id") in (number, None):
                return _said(message), dict(zip(message.get("lent", ()), fds, strict=True))
            wire.close(fds)
        raise self._silent()

    def _silent(self) -> KeeperError:
        hint = f"; if somebody stopped it: kill -CONT {self.pid}" if self.pid else ""
        return KeeperError(f"{self._name()} does not answer{hint}")

    def _gone(self) -> NoKeeper:
        if self.identity is None and self._ours:
            return NoKeeper(
                f"keeper {self.pid} ended at its start; is {sys.executable} the Python that runs this?"
            )
        return NoKeeper(f"{self._name()} is gone; what it held is found by its marks only")

    def _name(self) -> str:
        return f"keeper {self.pid}" if self.pid else "the keeper"


def _said(message: "Message") -> "Message":
    """Return an answer; raise what it says went wrong."""
    if "error" not in message:
        return message
    if message.get("status", FAILED) == FAILED:
        raise KeeperError(message["error"])
    number = message.get("errno")
    cause = None if number is None else OSError(number, os.strerror(number))
    raise SpawnError(message["error"], message["status"]) from cause


def reason(error: OSError) -> str:
    """Return the system's words for an error."""
    return (error.strerror or str(error)).lower()


def start_failed(error: OSError, path: str | None) -> KeeperError:
    """Return why no keeper could be started."""
    kind = PathTaken if error.errno == errno.EADDRINUSE else KeeperError
    return kind(f"no keeper could be started{f' at {path}' if path else ''}: {reason(error)}")
