"""Talking to a keeper: questions and their answers, for several threads, one at a time, each within a limit.

A loop that must not wait posts its questions, and looks for the answers when there is something to read.
"""

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
    from collections.abc import Callable

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
        "_aside",
        "_awaited",
        "_greeting",
        "_lock",
        "_number",
        "_ours",
        "_owner",
        "adopts",
        "closed",
        "identity",
        "overheard",
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
        #: Called when an answer to what was posted came in between.
        self.overheard: Callable[[], object] = _nobody_posts
        #: Questions whose answers nobody waits for now, and those that came in between others.
        self._awaited: list[int] = []
        self._aside: list[tuple[int, Message, dict[str, int]]] = []

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
            raise self.silent()
        try:
            number = self._post(message, given, limit_ms)
            return self._read(number, deadline)
        except TimeoutError as error:
            raise self.silent() from error
        except SpawnError:
            raise
        except OSError as error:
            raise self._gone() from error
        finally:
            self._lock.release()

    def tell(self, message: "Message", limit_ms: int | None = None) -> bool:
        """Say what needs no answer; return whether it could be said.

        Whoever is gone, or does not read it within the limit, will find the end of the connection.
        """
        try:
            limit_ms = ANSWER_LIMIT if limit_ms is None else limit_ms
            self.wire.send({**message, "id": wire.NO_ANSWER, "lent": []}, limit_ms=limit_ms)
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def post(self, message: "Message", given: dict[str, int]) -> int:
        """Ask and do not wait; return the number that `heard` will give the answer under.

        Raises BlockingIOError where nothing can be sent now, NoKeeper.
        """
        try:
            number = self._post(message, given, 0)
        except TimeoutError as error:
            raise BlockingIOError(errno.EAGAIN, "the keeper takes no more now") from error
        except OSError as error:
            raise self._gone() from error
        self._awaited.append(number)
        return number

    def heard(self) -> "list[tuple[int, Message, dict[str, int]]]":
        """Return what has come of answers to what was posted, and do not wait.

        Raises NoKeeper when nothing has, and nothing will.
        """
        found, self._aside = self._aside, []
        while True:
            try:
                heard = self.wire.receive()
            except EOFError as error:
                if found:
                    return found
                raise self._gone() from error
            except OSError as error:
                if error.errno != errno.EMFILE:
                    raise self._gone() from error
                heard = {"id": None, "error": f"its answer is lost: {reason(error)}", "status": FAILED}, []
            if heard is None:
                return found
            found += self._sorted(*heard)

    def give_up(self, number: int) -> None:
        """Nobody wants the answer to this any more; should it come, it is thrown away."""
        if number in self._awaited:
            self._awaited.remove(number)

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
            # What has no number answers the oldest question.
            told = message.get("id")
            if told == number or (told is None and not self._awaited):
                return said(message), dict(zip(message.get("lent", ()), fds, strict=True))
            self._aside += self._sorted(message, fds)
            if self._aside:
                self.overheard()
        raise self.silent()

    def _sorted(self, message: "Message", fds: list[int]) -> "list[tuple[int, Message, dict[str, int]]]":
        """Return an answer with its number where somebody waits for it; else throw it away."""
        number = message.get("id")
        if number is None and self._awaited:
            number = self._awaited[0]
        if number not in self._awaited:
            wire.close(fds)
            return []
        self._awaited.remove(number)
        return [(number, message, dict(zip(message.get("lent", ()), fds, strict=False)))]

    def silent(self) -> KeeperError:
        """Return the error of a keeper that does not answer in time."""
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


def _nobody_posts() -> None:
    """Nothing came in between."""


def said(message: "Message") -> "Message":
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
