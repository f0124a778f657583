"""The desk that notices go over: it hears every fact, tells what is worth it, and remembers what it has told.

All of it happens in the supervisor's loop, and nothing of it waits there. What was told, and what is still on its
way, stays known over a reload and over the end of the daemon.
"""

import os
import time

from longwatch import paths
from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.core.redact import Redactor
from longwatch.core.spec import SECOND
from longwatch.notify import channels as ways
from longwatch.notify.document import document
from longwatch.notify.incidents import HEALTH, LEDGER, PARK, Incidents, Telling
from longwatch.notify.messages import Known, word
from longwatch.notify.outbox import DROPPED, Outbox
from longwatch.notify.secrets import parts, whole
from longwatch.notify.settings import Settings
from longwatch.notify.word import Word
from longwatch.notify.wording import cleaned
from longwatch.paths import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.facts import Fact
    from longwatch.notify.channels import RunBounded
    from longwatch.notify.outbox import Later

    Tell = Callable[[Fact], object]
    Keep = Callable[[dict[str, Any]], object]
    Redact = Callable[[str], str]

#: How long the last notices may hold up the end of the daemon.
CLOSING = 5 * SECOND
_KEEPING = 1 * SECOND


def _wall() -> int:
    return time.time_ns() // 1_000_000


class Desk:
    """Hears facts, tells people.

    `run_bounded` starts a short command (as `runtime.bounded.Bounded` without its reactor), `later` calls back at an
    instant, `clock` is its clock (ms), `tell` takes our own facts. `state` is what an earlier daemon's `keep` was
    given last; `keep` gets plain JSON values soon after something has changed. `config` is the daemon's
    file, which the commands in a notice have to name and in whose folder the hook runs, `install` is how apprise is installed here. `problems` are lines for the log and for status.
    """

    def __init__(
        self, settings: Settings, run_bounded: "RunBounded", clock: "Callable[[], int]", redactor: Redactor,
        tell: "Tell", later: "Later", *, state: "Mapping[str, Any] | None" = None, keep: "Keep | None" = None,
        wall: "Callable[[], int]" = _wall, config: str = "", install: str = "",
    ) -> None:  # fmt: skip
        self._clock = clock
        self._wall = wall
        self._later = later
        self._keep = keep
        # What the verbs find by themselves wherever they are called need not be named.
        self._config = "" if config == os.path.join(paths.config(), "longwatch.toml") else config
        self._folder = os.path.dirname(config)
        self._install = install
        self._host = os.uname().nodename
        self._known: dict[str, Known] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._armed: int | None = None
        self._unkept = False
        self._closing = False
        self._incidents = Incidents(settings.events, settings.cooldown, self._count)
        self._outbox = Outbox(run_bounded, clock, wall, later, tell, self._count, self._changed)
        self._settle(settings, redactor)
        if state:
            self._restore(state)

    def _settle(self, settings: Settings, redactor: Redactor) -> None:
        own = Redactor([text for url in settings.secrets for text in whole(url)])
        keys = Redactor([text for url in settings.secrets for text in parts(url)])
        self._redact: Redact = lambda text: own.text(redactor.text(text))
        self._incidents.events = frozenset(settings.events)
        self._incidents.cooldown = settings.cooldown
        self._outbox.settle(
            ways.channels(settings, self._folder), settings.timeout, ways.clean_environment(self._redact),
            lambda text: keys.text(self._redact(text)),
        )  # fmt: skip
        self.problems: list[str] = []
        if settings.urls and ways.apprise_is_missing():
            how = self._install or "pip install 'longwatch[all]'"
            self.problems.append(f"[notify] urls: apprise is not installed; install it with: {how}")

    # -- what happens

    def heard(self, fact: "Fact") -> None:
        """Take in a fact. Never blocks."""
        harness: str = getattr(fact, "harness", "")
        known = self._known.setdefault(harness, Known())
        known.heard(fact)
        if self._closing or not self._outbox.channels:
            return
        said = word(fact, known)
        if said is not None:
            self._incidents.heard(said, self._clock())
        if self._ended(fact, known) or said is not None:
            self._changed()
            self._arm()

    def _ended(self, fact: "Fact", known: Known) -> bool:
        """Take in the end of a trouble; whether there was one."""
        harness, now = getattr(fact, "harness", ""), self._clock()
        if isinstance(fact, f.Recovered):
            self._incidents.back(HEALTH, harness, now)
        elif isinstance(fact, f.Unparked):
            self._incidents.back(PARK, harness, now)
        elif isinstance(fact, d.LedgerBack):
            self._incidents.back(LEDGER, "", now)
        elif isinstance(fact, f.AgentAnswered):
            self._incidents.answered("asked", harness)
        elif isinstance(fact, f.StateChanged) and fact.state == "stopped" and not known.held:
            self._incidents.gone(harness, now)
        elif isinstance(fact, f.StateChanged) and fact.state == "starting" and fact.before == "failed":
            self._incidents.tried_again(harness)
        else:
            return False
        return True

    def test(self, channel: str | None, done: "Callable[[dict[str, Any]], object]") -> None:
        """Send a test by one channel, or all, past every rule; `done` gets the result of each."""
        there = self._outbox.channels
        chosen = [one for name, one in there.items() if channel in (None, name)]
        if not chosen:
            names = ", ".join(there)
            error = (
                f"no channel {channel}; there are: {names}"
                if there
                else "no channel; add [notify] hook or urls"
            )
            done({"ok": False, "channels": [], "error": error})
            return
        told = self._document(
            Telling("test", [Word("test", "", "arrived", detail="longwatch can reach you")])
        )
        results: dict[str, dict[str, Any]] = {one.name: {} for one in chosen}
        began = self._clock()

        def over(name: str, result: str, error: str) -> None:
            took = self._clock() - began
            results[name] = {
                "channel": name, "ok": result == ways.OK, "result": result, "error": error or None, "ms": took
            }  # fmt: skip
            if all(results.values()):
                done({"ok": all(one["ok"] for one in results.values()), "channels": list(results.values())})

        for one in chosen:
            self._outbox.start(one, told, lambda result, error, name=one.name: over(name, result, error))  # type: ignore[misc]

    def reload(self, settings: "Settings | Mapping[str, Any]", redactor: Redactor) -> None:
        """Take other settings. Cooldowns and open troubles stay, and what waits for a channel that is still there."""
        self._settle(settings if isinstance(settings, Settings) else Settings.of(settings), redactor)
        self._changed()

    def close(self, done: "Callable[[], object]", bound: int = CLOSING) -> None:
        """Send what waits and nothing else, then call `done`: at once when nothing waits, after `bound` ms at most."""
        if self._closing:
            return
        self._tell_ripe(self._clock(), all_of_it=True)
        self._closing = True

        def closed() -> None:
            self._save()
            done()

        self._outbox.close(closed, bound)

    # -- what is told

    def _arm(self) -> None:
        """Have what is gathered told when it is due."""
        due = self._incidents.due()
        if due is not None and (self._armed is None or due < self._armed):
            self._armed = due
            self._later(due, self._wake)

    def _wake(self, now: int) -> None:
        if self._armed is not None and now >= self._armed:
            self._armed = None
        if not self._closing:
            self._tell_ripe(now)
            self._arm()

    def _tell_ripe(self, now: int, *, all_of_it: bool = False) -> None:
        for telling in self._incidents.ripe(now, all_of_it=all_of_it):
            self._put(telling)

    def _put(self, telling: Telling) -> None:
        self._outbox.put(self._document(telling), lambda delivered: self._settled(telling, delivered))
        self._changed()

    def _document(self, telling: Telling) -> "dict[str, object]":
        return cleaned(document(telling, self._host, self._wall(), self._config), self._redact)

    def _settled(self, telling: Telling, delivered: bool) -> None:
        self._incidents.settled(telling, delivered=delivered)
        self._changed()

    def _count(self, event: str, result: str) -> None:
        self._counts[event, result] = self._counts.get((event, result), 0) + 1

    # -- what is seen of it, and what lasts

    def snapshot(self) -> "dict[str, Any]":
        """Return how notices do, for status and metrics."""
        counts, shift = self._counts.items(), self._wall() - self._clock()
        open_ = [
            {
                "harnesses": list(one.out),
                "event": one.event,
                "since": rfc3339(one.since + shift),
                "told": one.told is True,
            }
            for one in self._incidents.open
        ]
        return {
            **self._outbox.snapshot(),
            "dropped": sum(count for (_, result), count in counts if result == DROPPED),
            "deliveries": [
                {"event": event, "result": result, "count": count} for (event, result), count in counts
            ],
            "open": open_,
            "problems": list(self.problems),
        }

    def state(self) -> "dict[str, Any]":
        """Return what the next daemon has to know: it holds no secret."""
        lasting = self._incidents.as_dict(self._wall() - self._clock())
        return {"version": 1, **lasting, "unsent": self._outbox.unsent()}

    def _changed(self) -> None:
        if not self._unkept and self._keep is not None and not self._closing:
            self._unkept = True
            self._later(self._clock() + _KEEPING, self._save)

    def _save(self, _now: int = 0) -> None:
        self._unkept = False
        if self._keep is not None:
            self._keep(self.state())

    def _restore(self, state: "Mapping[str, Any]") -> None:
        try:
            self._incidents.restore(state, self._wall() - self._clock())
            for channel, told in state["unsent"]:
                self._outbox.resume(channel, told, self._redact)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self.problems.append(f"what was told before cannot be read: {error!r}")
        self._arm()


def desk_for(
    told: "Mapping[str, Any]", host: "Any", publish: "Tell", *, redactor: Redactor,
    state: "Mapping[str, Any] | None" = None, keep: "Keep | None" = None, config: str = "", install: str = "",
) -> Desk:  # fmt: skip
    """Return the desk of a supervisor, for `[notify]` as it was compiled; `host` is its `runtime.host.Host`."""
    return Desk(
        Settings.of(told), host.command, host.now, redactor, publish, host.at, state=state, keep=keep, config=config,
        install=install,
    )  # fmt: skip
