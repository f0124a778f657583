"""What a foreground run says on stderr: a notice, a status line, the three lines of a stop. stdout is the child's.

While the child has the terminal nothing is drawn but a notice; what else there is to say waits until the screen is
given back. Nothing said here counts as progress of anything.
"""

import os

from longwatch.cli.main import say
from longwatch.core.facts import Fact, LeftoversStopped, LimitFired, StopBegan, TreeUnkillable
from longwatch.core.watch import Watch
from longwatch.units import ago, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from longwatch.runtime.story import Story

#: A status line is for somebody who begins to wonder.
WONDER = 5_000
_CLEAR = b"\r\x1b[K"
_WORDS = {
    "idle": "no {what} for {window}",
    "first": "no first {what} within {window}",
    "stall": "no successful call for {window}",
    "call": "the call {subject} took {window}",
    "ceiling": "the ceiling of {window} is reached",
    "timeout": "the timeout of {window} is over",
    "soft": "the soft limit of {window} is over; wrap up",
    "ask": "a question waits for an answer since {window}",
    "linger": "finished {window} ago, and still there",
    "effect": "nothing changed for {window}",
}


def what(sources: "Mapping[str, object]") -> str:
    """Return what was missed: `output` where only our streams count, else `progress`."""
    return "output" if set(sources) <= {"stdout", "stderr"} else "progress"


def evidence(sources: "Mapping[str, Mapping[str, Any]]") -> str:
    """Return each source's last sign: `stdout 3s ago, stderr never`."""
    return ", ".join(
        f"{name} {'never' if seen['last_ms'] is None else ago(seen['last_ms']) + ' ago'}"
        for name, seen in sources.items()
    )


def reason_line(
    limit: str, window: int, subject: str | None, sources: "Mapping[str, Mapping[str, Any]]"
) -> str:
    """Return which limit was reached and on which evidence."""
    words = _WORDS[limit].format(what=what(sources), window=format_duration(window), subject=subject)
    named = f"--{limit} {format_duration(window)}"
    return f"{words} ({named}): {evidence(sources)}" if sources else f"{words} ({named})"


class Voice:
    """Speaks for one run. `hidden` is True while the child has the terminal."""

    def __init__(self, name: str, run_id: str, story: "Story", *, named: set[str], hidden: bool) -> None:
        self.name = name
        self.run_id = run_id
        self.story = story
        self.watch: Watch | None = None
        self.hidden = hidden
        self._named = named
        self._tty = os.isatty(2)
        self._drawn = False
        self._told_why = False
        self._fired: LimitFired | None = None

    # -- facts

    def heard(self, fact: Fact) -> None:
        """Say what cannot wait until the end."""
        if isinstance(fact, LimitFired):
            self._fired = fact
        elif isinstance(fact, StopBegan) and not self.hidden:
            self._say_why()
        elif isinstance(fact, LeftoversStopped) and not self.hidden and not fact.kept:
            self._say(f"it left {_count(fact.processes)} behind, now stopped: {', '.join(fact.processes)}")

    def notify(self, fact: Fact) -> None:
        """A rung below the stop was reached, or a stop did not help: tell whoever is there."""
        if isinstance(fact, TreeUnkillable):
            self._say("some of its processes do not end even by KILL; longwatch why names them")
        elif isinstance(fact, LimitFired) and fact.action != "stop":
            self._say(self._notice(fact))
            self._ring(self._notice(fact))

    def _notice(self, fact: LimitFired) -> str:
        sources = {} if self.watch is None else self.watch.snapshot(fact.at)["sources"]
        line = reason_line(fact.limit, fact.window, fact.subject, sources)
        if fact.limit in self._named or fact.limit == "soft":
            return line
        return f"{line}; still running, a limit that you name stops it"

    def _ring(self, text: str) -> None:
        """OSC 9 is a desktop notice in most terminals, and nothing in the others."""
        if self._tty:
            clean = "".join(c for c in text if c.isprintable())
            _write(f"\x1b]9;longwatch: {clean}\x1b\\\a".encode())

    # -- the three lines of a stop

    def _say_why(self) -> None:
        if self._fired is None or self._told_why:
            return
        self._told_why = True
        fired = self._fired
        sources = {} if self.watch is None else self.watch.snapshot(fired.at)["sources"]
        self._say(reason_line(fired.limit, fired.window, fired.subject, sources))
        if self.story.post_mortem is not None:
            notes = "; ".join([self.story.post_mortem.diagnosis, *self.story.notes])
            self._say(f"cause: {notes}")

    def ended(self, report: "Mapping[str, Any]", *, recorded: bool) -> None:
        """Say how a stop went; a run that ended by itself needs no words."""
        self.clear()
        stopped = report["stopped"]
        if stopped is None:
            return
        if report["limit"] is not None:
            self._say_why()
        took = format_duration(stopped["ms"])
        left = ", ".join(report["survivors"]) or "nothing"
        line = f"stopped the whole tree by {stopped['how']} in {took}, {left} left"
        if recorded:
            line += f"; longwatch why {self.run_id} tells more"
        if report["limit"] is not None or report["survivors"] or report["termination_reason"] == "cancelled":
            self._say(line)

    # -- while it runs

    def still_running(self, now: int) -> None:
        """A line for outer watchers such as CI services."""
        if self.watch is not None:
            seen = self.watch.snapshot(now)
            self._say(f"still running after {ago(seen['age_ms'])}: {evidence(seen['sources'])}")

    def status(self, now: int) -> None:
        """Draw one line about a silence that lasts, where somebody can see it."""
        if self.watch is None or self.hidden or not self._tty:
            return
        seen = self.watch.snapshot(now)
        quiet = seen["progress_ms"] if seen["progress_ms"] is not None else seen["age_ms"]
        if quiet < WONDER:
            return
        left = [f"{name} in {ago(ms)}" for name, ms in seen["limits"].items() if ms is not None]
        text = f"longwatch: {self.name}: quiet for {ago(quiet)}" + (f" ({', '.join(left)})" if left else "")
        self._drawn = True
        _write(_CLEAR + text.encode())

    def clear(self) -> None:
        """Take the status line away before anything else is written."""
        if self._drawn:
            self._drawn = False
            _write(_CLEAR)

    def _say(self, text: str) -> None:
        self.clear()
        say(f"{self.name}: {text}")


def _count(processes: tuple[str, ...]) -> str:
    return "1 process" if len(processes) == 1 else f"{len(processes)} processes"


def _write(data: bytes) -> None:
    try:
        os.write(2, data)
    except OSError:
        pass
