"""Whom a keeper listens to: its master, and whoever knocks to become the next.

There is one master at a time. It is gone when its connection ends, or when its process does: a fork of it may hold
the connection for longer.
"""

import _socket
import os

from longwatch.posix.spawn import SpawnError
from longwatch.runtime import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.reactor import Reactor
    from longwatch.runtime.wire import Message, Wire

    Answer = tuple[Message, dict[str, int]]

#: How long an answer may wait for a master that does not read, in milliseconds.
READ_LIMIT = 1_000
#: What a request ends with that failed by a fault of ours.
FAILED = 125
ATTEND = "attend"


class Masters:
    """The connections of one keeper. `first` is the one to the process that started it.

    `serve(message, lent)` answers the master's requests: words and descriptors, which stay the keeper's, or None.
    `greeting()` is what a new master is told, `sent(message)` is called for each answer that went out, and `lost()`
    whenever there is nobody left, neither master nor guest. Descriptors that come with a request are closed after it.
    """

    def __init__(
        self,
        reactor: "Reactor",
        first: "Wire",
        *,
        serve: "Callable[[Message, dict[str, int]], Answer | None]",
        greeting: "Callable[[], Message]",
        sent: "Callable[[Answer], object]",
        lost: "Callable[[], object]",
    ) -> None:
        self.master: Wire | None = None
        self._reactor = reactor
        self._serve = serve
        self._greeting = greeting
        self._sent = sent
        self._lost = lost
        self._guests: list[Wire] = []
        self._listener: _socket.socket | None = None
        self._path = ("", 0)
        self._pidfd: int | None = None
        self._welcome(first)

    @property
    def listens(self) -> bool:
        """Whether a next master could find us."""
        return self._listener is not None

    def say(self, speaker: "Wire", message: "Message", fds: dict[str, int] | None = None) -> None:
        """Send a message; one who does not take it is lost."""
        given = fds or {}
        try:
            speaker.send({**message, "lent": list(given)}, given.values(), limit_ms=READ_LIMIT)
        except OSError:
            self._lose(speaker)

    def close(self) -> None:
        """Let nobody in any more; remove our socket, unless somebody has put another in its place."""
        if self._listener is not None:
            self._reactor.remove(self._listener.fileno())
            self._listener.close()
            self._listener = None
        path, inode = self._path
        try:
            if path and os.stat(path).st_ino == inode:
                os.unlink(path)
        except OSError:
            pass  # gone already

    # -- hearing

    def _hear(self, speaker: "Wire") -> None:
        try:
            heard = speaker.receive()
        except EOFError:
            self._lose(speaker)
        except OSError as error:
            self.say(speaker, {"id": None, "error": f"the keeper: {error.strerror}", "status": FAILED})
        else:
            if heard is not None:
                self._answer(speaker, *heard)

    def _answer(self, speaker: "Wire", message: "Message", fds: list[int]) -> None:
        lent = dict(zip(message.get("lent", ()), fds, strict=False))
        try:
            if speaker is not self.master:
                answer: Answer | None = (self._attend(speaker, message, lent), {})
            else:
                answer = self._serve(message, lent)
        except SpawnError as error:
            cause = error.__cause__
            number = cause.errno if isinstance(cause, OSError) else None
            answer = {"error": error.message, "status": error.status, "errno": number}, {}
        except Exception as error:  # noqa: BLE001 - it is the master that has to hear of it
            answer = {"error": f"the keeper cannot {message.get('op')}: {error!r}", "status": FAILED}, {}
        finally:
            wire.close(fds)
        if answer is not None:
            self.say(speaker, {**answer[0], "id": message.get("id", wire.NO_ANSWER)}, answer[1])
            self._sent(answer)

    def _hear_out(self) -> None:
        """Hear all that the master has said up to now, and its end if it has come."""
        while self.master is not None and self.master.wait(0):
            self._hear(self.master)

    # -- coming and going

    def _attend(self, guest: "Wire", message: "Message", lent: dict[str, int]) -> "Message":
        """Take a master on. While there is one we are busy, unless that one is to be replaced."""
        if message.get("op") != ATTEND:
            raise SpawnError("whoever wants something of a keeper has to attend to it first", FAILED)
        self._hear_out()
        if self.master is not None:
            if not message.get("replace"):
                raise SpawnError(
                    f"the keeper serves process {self.master.peer()[0]}; end that, or replace it", FAILED
                )
            self._part(self.master)
        self._guests.remove(guest)
        self.master = guest
        self._watch(guest.peer()[0])
        if "listener" in lent:
            self._listen(lent["listener"], message["path"])
        return self._greeting()

    def _welcome(self, guest: "Wire") -> None:
        self._guests.append(guest)
        self._reactor.add(guest.fileno(), lambda: self._hear(guest))

    def _listen(self, listener: int, path: str) -> None:
        self._listener = _socket.socket(fileno=os.dup(listener))
        self._path = path, os.stat(path).st_ino
        self._reactor.add(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        """Let in whoever is of our own user; what for shows when it speaks."""
        assert self._listener is not None
        guest = wire.accept(self._listener)
        if guest is None:
            return
        if guest.peer()[1] == os.geteuid():
            self._welcome(guest)
        else:
            guest.close()

    def _watch(self, pid: int) -> None:
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            return  # of a space that we do not see: then its connection has to do
        self._reactor.add(self._pidfd, self._ended)

    def _ended(self) -> None:
        """Hear what the master's process said while it lived; then it is lost, whoever holds its connection."""
        self._hear_out()
        if self.master is not None:
            self._lose(self.master)

    def _lose(self, speaker: "Wire") -> None:
        self._part(speaker)
        if self.master is None and self._listener is not None:
            self._accept()  # who knocks at this very moment is as good as in
        if self.master is None and not self._guests:
            self._lost()

    def _part(self, speaker: "Wire") -> None:
        self._reactor.remove(speaker.fileno())
        speaker.close()
        if speaker is not self.master:
            self._guests.remove(speaker)
            return
        self.master = None
        if self._pidfd is not None:
            self._reactor.remove(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
