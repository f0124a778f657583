"""Our side of a keeper: start one or connect to one, have it start programs, and hold what it lends of them.

A run that a keeper started is like any other to whoever drives it: its leader is a `Child`, and its tree a `Tree`
whose orphans the keeper adopts. Linux only: elsewhere nobody adopts.
"""

import os
import sys
import time

from longwatch.posix.identity import signal_verified
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.nursery import Kept, Nursery, Runs
from longwatch.posix.spawn import Launch, SpawnError
from longwatch.posix.tree import NOBODY, Tree, wait_for_death
from longwatch.runtime import birth, launches, talk, wire
from longwatch.runtime.lent import KeptChild, KeptRun
from longwatch.runtime.talk import KeeperError, NoKeeper, PathTaken, Talk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Self

    from longwatch.posix.child import End
    from longwatch.runtime.talk import Answer
    from longwatch.runtime.wire import Message
else:
    import _signal

KEEP, STOP = "keep", "stop"
#: TERM to KILL when the keeper stops what it holds, in milliseconds.
GRACE = 1_000
#: Beyond the grace: what a keeper may take to kill everything, in milliseconds.
STOP_LIMIT = 15_000
#: How often to look for a keeper that comes and goes.
ATTEMPTS = 5


class Keeper:
    """A keeper that we are the master of. May be used by several threads, not after a fork.

    With `on_orphan` stop it stops everything when we go, however we go; with keep it holds everything for the next
    master. Every call waits for a bounded time; KeeperError says that the keeper is gone or does not answer.
    """

    def __init__(self, conversation: Talk, on_orphan: str, grace: int = GRACE) -> None:
        self.on_orphan = on_orphan
        self._talk = conversation
        self._ours = conversation.pid != 0
        self._grace = grace
        #: What it keeps now: every run's nursery looks in here.
        self._kept = Runs()
        #: Starts that were withdrawn: what the keeper made of them is not known.
        self._doubtful: list[str] = []

    @classmethod
    def start(cls, on_orphan: str = STOP, *, path: str | None = None, grace: int = GRACE) -> "Self":
        """Start a keeper and return at once; the first request waits for it.

        `path` is where the next master will find it, for keep: a socket of our user's only. `grace` is TERM to KILL
        in ms when it stops what it holds. Raises KeeperError when it cannot be started, or somebody listens at `path`.
        """
        if on_orphan not in (KEEP, STOP) or (on_orphan == KEEP) != (path is not None):
            raise ValueError(
                f"on_orphan {on_orphan!r} with path {path!r}: write 'stop', or 'keep' and a path"
            )
        if sys.platform != "linux" or not sys.executable:
            raise KeeperError("a keeper needs Linux, and a Python interpreter to run in")
        given: dict[str, int] = {}
        try:
            if path is not None:
                given["listener"] = wire.listen(path).detach()
            keeper = cls(Talk(*birth.start(on_orphan, grace)), on_orphan, grace)
            keeper._talk.attend(given, path=path)
        except OSError as error:
            raise talk.start_failed(error, path) from error
        finally:
            wire.close(given.values())
        return keeper

    @classmethod
    def connect(cls, path: str, *, replace: bool = False) -> "Self":
        """Become the next master of the keeper at `path`.

        Raises NoKeeper when nobody is there; KeeperError when it has a master already (`replace` takes it away from
        that one), does not answer, or is not of our user or our version.
        """
        try:
            connection = wire.connect(path, talk.ANSWER_LIMIT)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NoKeeper(f"nobody listens at {path}; start a keeper there") from error
        except OSError as error:
            raise KeeperError(f"no keeper answers at {path}: {talk.reason(error)}") from error
        keeper = cls(Talk(connection), KEEP)
        if connection.peer()[1] != os.geteuid():
            raise KeeperError(f"who listens at {path} is of another user, and not to be trusted")
        keeper._talk.attend({}, replace=replace)
        keeper._greet()
        return keeper

    @classmethod
    def at(cls, path: str, *, replace: bool = False, grace: int = GRACE) -> "Self":
        """Become the master of the keeper at `path`, and start one where there is none. Raises KeeperError."""
        for _ in range(ATTEMPTS):
            try:
                return cls.connect(path, replace=replace)
            except NoKeeper:
                # One that has nothing to hold ends when its master does, which may be now.
                pass
            try:
                return cls.start(KEEP, path=path, grace=grace)
            except PathTaken:
                pass  # by somebody who started one at the same moment
        raise KeeperError(f"keepers come and go at {path}; is another program using it?")

    @property
    def pid(self) -> int:
        """The keeper's process."""
        return self._talk.pid

    @property
    def talk(self) -> Talk:
        """The connection to it."""
        return self._talk

    @property
    def alive(self) -> bool:
        """Whether the keeper is there, and ours: not closed, not gone, not taken over by another master."""
        return self._talk.alive

    # -- runs

    def spawn(self, launch: Launch, run_id: str = "") -> KeptChild:
        """Have a program started, and return it; if the keeper has a run of this id already, that one.

        `run_id` is by default what LONGWATCH_RUN_ID is in the program's environment. Everything in `launch` means
        what it means to `posix.spawn`, seen from here: folders, descriptors, the terminal. Raises SpawnError in the
        words of `posix.spawn`; and KeeperError, after which the program does not run, or not for long.
        """
        run_id = run_id or launch.env.get(RUN_VARIABLE, "")
        if not run_id or not launch.new_session:
            raise ValueError("a keeper starts runs that have an id, each in a session of its own")
        self._greet()
        given = launches.descriptors(launch)
        try:
            return self.child(*self._spawn(launch, run_id, given))
        finally:
            os.close(given[launches.FOLDER])

    def _spawn(self, launch: Launch, run_id: str, given: dict[str, int]) -> "Answer":
        token = os.urandom(8).hex()
        try:
            return self._ask(_start(launch, run_id, token), given)
        except NoKeeper:
            self.bury_start(run_id)
            raise
        except BaseException as error:
            if isinstance(error, KeeperError) or not isinstance(error, SpawnError):
                self.doubt(run_id)
                self.withdraw(run_id, token)
            raise

    def post(self, launch: Launch, run_id: str, token: str) -> int:
        """Ask for a start and do not wait; return the number of the answer. See `errands`, which does that.

        Raises SpawnError; BlockingIOError where nothing can be asked now.
        """
        self._greet()
        given = launches.descriptors(launch)
        try:
            return self._talk.post(_start(launch, run_id, token), given)
        finally:
            os.close(given[launches.FOLDER])

    def withdraw(self, run_id: str, token: str, limit_ms: int | None = None) -> bool:
        """Nobody will ever know of this start, so it must not have been. Returns whether it could be said, as `forget`."""
        return self._talk.tell({"op": "withdraw", "run": run_id, "token": token}, limit_ms)

    def doubt(self, run_id: str) -> None:
        """Nobody knows whether this was started: at the end it is looked for."""
        self._doubtful.append(run_id)

    def bury_start(self, run_id: str) -> None:
        """End what a keeper may have started when it died: nobody knows of it, but it carries its mark."""
        wait_for_death(self.pid, time.monotonic() + birth.END_LIMIT / 1000)
        if run_id not in self._kept and not self._lives():
            Tree(NOBODY, run_id, subreaper=False).kill()

    def lend(self, run_id: str) -> KeptChild:
        """Return a run that the keeper holds. Its output goes to whoever reads it first, so read in one place only."""
        return self.child(*self._ask({"op": "lend", "run": run_id}))

    def runs(self) -> list[KeptRun]:
        """Return all that the keeper holds, also what has ended and was not forgotten."""
        return self._note(self._ask({"op": "list"})[0])

    def forget(self, run_id: str, limit_ms: int | None = None) -> bool:
        """Have an ended run collected and its descriptors closed; one that still runs is forgotten at its end.

        Returns whether it could be said: False of a keeper that does not listen. One that is gone is no error: there
        is nothing left to forget.
        """
        self._kept.drop(run_id)
        return self._talk.tell({"op": "forget", "run": run_id}, limit_ms)

    def shut_stdin(self, run_id: str) -> None:
        """Let the keeper's copy of a stdin pipe go. Only one that keeps has any; ours is closed by `child.close`."""
        self._talk.tell({"op": "shut", "run": run_id})

    # -- the end

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Hang up, so that a keeper whose master has forgotten it is an orphan."""
        self._leave()

    def close(self) -> list[str]:
        """Leave. A keeper that stops ends all that is left, and itself, before this returns; one that keeps goes on.

        Returns what could not be ended, as `pid name`. May be called again; in a fork of ours it only hangs up.
        """
        if self.on_orphan == STOP:
            return self.stop()
        self._leave()
        return []

    def stop(self) -> list[str]:
        """End everything that the keeper holds, and the keeper; return what could not be ended, as `pid name`.

        TERM, the grace, KILL. Never raises: where the keeper does not do it, it is done from here. One that another
        master has taken over is that one's to stop.
        """
        if not self._talk.mine:
            self._leave()
            return []
        try:
            left = self._stop()
        except NoKeeper:
            if self._taken_over():
                self._leave()
                return []
            left = self._sweep()
        except KeeperError:
            left = self._sweep()
        self._talk.hang_up()
        if self._ours:
            birth.bury(self.pid)
        return left

    def _leave(self) -> None:
        ours = self._ours and self._talk.mine
        self._talk.hang_up()
        if ours:
            birth.bury_some_day(self.pid)

    def _stop(self) -> list[str]:
        self._greet()
        if self._talk.identity is not None:
            signal_verified(self._talk.identity, _signal.SIGCONT)  # whoever was stopped cannot stop others
        answer, _ = self._ask({"op": "stop"}, limit=self._grace + STOP_LIMIT)
        return list(answer["left"])

    def _taken_over(self) -> bool:
        """Our connection has ended: the keeper has, or is about to; or it serves another master, who has the say."""
        patience = birth.END_LIMIT if self.on_orphan == KEEP else self._grace + STOP_LIMIT
        wait_for_death(self.pid, time.monotonic() + patience / 1000)
        return self.on_orphan == KEEP and self._lives()

    def _sweep(self) -> list[str]:
        """Kill what is below a keeper that does not answer, then it, then by its marks what that has orphaned."""
        keeper = self._talk.identity
        if keeper is not None and keeper.alive():
            Tree(NOBODY, "", subreaper=False, nursery=Nursery(keeper, "", Runs())).kill()
            signal_verified(keeper, _signal.SIGKILL)
        left = []
        for run_id in self._doubtful:
            left += Tree(NOBODY, run_id, subreaper=False).kill()
        for run_id, kept in self._kept.all():
            left += Tree(kept.leader, run_id, subreaper=False).kill()
        return left

    # -- talking

    def _lives(self) -> bool:
        return self._talk.identity is not None and self._talk.identity.alive()

    def _greet(self) -> None:
        told = self._talk.greeting()
        if told is not None:
            self._note(told)

    def _ask(
        self, message: "Message", given: dict[str, int] | None = None, limit: int | None = None
    ) -> "Answer":
        self._greet()
        return self._talk.ask(message, given or {}, limit or talk.ANSWER_LIMIT)

    def _note(self, told: "Message") -> list[KeptRun]:
        found = [KeptRun.of(record) for record in told["runs"]]
        for run in found:
            self._kept.put(run.run_id, Kept(run.identity, run.brand))
        return found

    def child(self, told: "Message", lent: dict[str, int]) -> KeptChild:
        """Return the program that an answer is about."""
        run = KeptRun.of(told)
        self._kept.put(run.run_id, Kept(run.identity, run.brand))
        assert self._talk.identity is not None
        nursery = Nursery(self._talk.identity, run.run_id, self._kept) if self._talk.adopts else None
        forget = None if self.on_orphan == KEEP else lambda: self.forget(run.run_id)
        return KeptChild(run, lent, nursery, forget, lambda limit: self._end_of(run.run_id, limit))

    def _end_of(self, run_id: str, limit_ms: int) -> "End | None":
        """Ask how a run has ended; None where the keeper does not say."""
        try:
            return KeptRun.of(self._ask({"op": "look", "run": run_id}, limit=limit_ms)[0]).end
        except KeeperError:
            return None


def _start(launch: Launch, run_id: str, token: str) -> "Message":
    return {"op": "spawn", "run": run_id, "token": token, **launches.words(launch, run_id)}


__all__ = ["KEEP", "STOP", "Keeper", "KeeperError", "KeptChild", "KeptRun", "NoKeeper", "PathTaken"]
