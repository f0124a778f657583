"""What a foreground run says on stderr: a notice, a status line, the three lines of a stop. stdout is the child's.

While the child has the terminal nothing is drawn but a notice; what else there is to say waits until the screen is
given back. Nothing said here counts as progress of anything; so inside another run there is no status line, and no
line that says "still running": the outer run would take it for its program's.
"""

import os

from longwatch.cli.main import say
from longwatch.core.facts import (
    Fact,
    KillSent,
    Lapse,
    LeftoversStopped,
    LimitFired,
    LimitNoted,
    Nudged,
    StopAverted,
    StopBegan,
    TreeUnkillable,
)
from longwatch.core.report import signal_name
from longwatch.options import DEFAULT, FILE, PRESET, VARIABLE
from longwatch.units import ago, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from longwatch.core.watch import Watch
    from longwatch.runtime.story import Story

#: A status line is for somebody who begins to wonder.
WONDER = 5_000
#: Below this a span is told to the millisecond, so that no half second reads as `0s`.
EXACT = 10_000
_CLEAR = b"\r\x1b[K"
_WORDS = {
    "idle": "no {what} for {window}",
    "first": "no first {what} within {window}",
    "stall": "no successful call for {window}",
    "call": "the call {subject} took {window}",
    "ceiling": "the ceiling of {window} is reached",
    "timeout": "the timeout of {window} is over",
    "soft": "the soft limit of {window} is over; wrap up",
    "ask": "a question has waited {window} for its answer",
    "linger": "finished {window} ago, and still there",
    "effect": "nothing changed for {window}",
    "loop": "the same call of {subject} with the same result {times} times in {window}",
}
#: The one limit that is a number; it has no window of its own.
LOOP = "loop"
_OF_TIME = ("ceiling", "timeout", "soft")
_AVERTED = {
    "progress": "there was progress",
    "held": "its silence is expected",
    "exited": "it ended by itself",
}


def what(seen: "Mapping[str, Any]") -> str:
    """Return what was missed: `output` where only our streams count and were silent, else `progress`."""
    return "output" if set(seen["sources"]) <= {"stdout", "stderr"} and not _lively(seen) else "progress"


def _lively(seen: "Mapping[str, Any]") -> bool:
    """Whether the program showed life after its last progress: lines that are none, a stream that does not count."""
    alive, progress = seen["alive_ms"], seen["progress_ms"]
    return alive is not None and (progress is None or alive < progress)


def span(ms: int) -> str:
    """Return a span of time as exactly as its length deserves."""
    return format_duration(ms) if ms < EXACT else ago(ms)


def evidence(sources: "Mapping[str, Mapping[str, Any]]") -> str:
    """Return each source's last sign: `stdout 3s ago, stderr never`."""
    return ", ".join(
        f"{name} {'never' if seen['last_ms'] is None else span(seen['last_ms']) + ' ago'}"
        for name, seen in sources.items()
    )


def setter(limit: str, value: str, source: str, tool: str = "") -> str:
    """Return who set a limit, as it could be set again: `--idle 5m`, `LONGWATCH_IDLE=5m`; or `built-in`, `preset claude`.

    The source of a preset's limit has its name behind it, that of a file its line; a budget is that of a `tool`.
    """
    if source == DEFAULT:
        return "built-in"
    if source.startswith((PRESET, FILE)):
        return source
    value = f"{tool}={value}" if tool else value
    return f"LONGWATCH_{limit.upper()}={value}" if source == VARIABLE else f"--{limit} {value}"


def reason_line(
    fired: LimitFired, source: str, seen: "Mapping[str, Any]", tool: str = "", times: int = 0
) -> str:
    """Return which limit was reached, who had set it, and on which evidence; both clocks where they differ.

    `tool` is the one whose budget it was, `times` the number that `--loop` was given.
    """
    window = format_duration(fired.window)
    words = _WORDS[fired.limit].format(what=what(seen), window=window, subject=fired.subject, times=times)
    value = str(times) if fired.limit == LOOP else window
    line = f"{words} ({setter(fired.limit, value, source, tool)})"
    if not seen["sources"]:
        return line
    alive = f"; alive {span(seen['alive_ms'])} ago" if _lively(seen) else ""
    return f"{line}: {evidence(seen['sources'])}{alive}"


class Voice:
    """Speaks for one run. `hidden` is True while the child has the terminal; `setters` says who set each limit."""

    def __init__(
        self, name: str, run_id: str, story: "Story", watch: "Watch", *, setters: "Mapping[str, str]",
        hidden: bool, verbose: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.run_id = run_id
        self.story = story
        self.watch = watch
        self.hidden = hidden
        self.verbose = verbose
        self._setters = setters
        self._tty = os.isatty(2)
        self._later: list[str] = []
        self._drawn = False
        self._told_why = False
        self._fired: LimitFired | None = None
        self._reached = ""
        #: Says why none of the program's records is read; set where there should be some.
        self.blind: Callable[[], str] = str

    # -- facts

    def heard(self, fact: Fact) -> None:
        """Say what cannot wait until the end."""
        if isinstance(fact, LimitFired):
            # In words at once: what is seen until they are said came too late for it.
            self._fired, self._reached = fact, self._reason(fact)
        elif isinstance(fact, StopBegan):
            if not self.hidden:
                self._say_why()
        elif isinstance(fact, StopAverted) and fact.why == "veto":
            self._say_or_wait("; ".join([self._why(), *self.story.notes[-1:]]))
        elif isinstance(fact, LeftoversStopped) and not fact.kept:
            self._say_or_wait(
                f"it left {_count(fact.processes)} behind, now stopped: {', '.join(fact.processes)}"
            )
        if self.verbose and (told := _told(fact)):
            self._say_or_wait(told)

    def notify(self, fact: Fact) -> None:
        """A rung below the stop was reached, or a stop did not help: tell whoever is there."""
        if isinstance(fact, TreeUnkillable):
            self._say("some of its processes do not end even by KILL; longwatch why names them")
        elif isinstance(fact, LimitFired) and fact.action != "stop":
            self._say(self._notice(fact))
            self._ring(self._notice(fact))

    def _notice(self, fact: LimitFired) -> str:
        line, source = self._reason(fact), self._setters.get(fact.limit, DEFAULT)
        lent = source.startswith(PRESET)
        if fact.limit == "soft" or not (lent or source == DEFAULT):
            return f"{line}; it goes on"
        blind = self.blind() if lent else ""
        return f"{line}{f'; {blind}' * bool(blind)}; it goes on, name --{fact.limit} to have it stopped"

    def _reason(self, fired: LimitFired) -> str:
        limit, subject = self.watch.spec.limits.get(fired.limit), fired.subject or ""
        tool = subject if limit is not None and subject in limit.budgets else ""
        source = self._setters.get(fired.limit, DEFAULT)
        return reason_line(fired, source, self.watch.snapshot(fired.at), tool, self.watch.spec.loop)

    def _why(self) -> str:
        return self._reached

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
        self._say(self._why())
        if self.story.post_mortem is not None:
            # A limit of time is reached by busy programs too: what they were at is no cause.
            head = "it was at" if self._fired is not None and self._fired.limit in _OF_TIME else "cause"
            self._say(f"{head}: " + "; ".join([self.story.post_mortem.diagnosis, *self.story.notes]))

    def ended(self, report: "Mapping[str, Any]", *, recorded: bool) -> None:
        """Say how a stop went; a run that ended by itself needs no words."""
        self.clear()
        for text in self._later:
            self._say(text)
        stopped = report["stopped"]
        if stopped is None:
            return
        if report["limit"] is not None:
            self._say_why()
        took = format_duration(stopped["ms"])
        left = ", ".join(report["survivors"]) or "nothing"
        line = f"stopped the whole tree by {stopped['how']} in {took}, {left} left"
        if report.get("resume") is not None:
            line += f"; go on: {report['resume']}"
        if recorded:
            line += f"; longwatch why {self.run_id} tells more"
        if report["limit"] is not None or report["survivors"] or report["termination_reason"] == "cancelled":
            self._say(line)

    # -- while it runs

    def still_running(self, now: int) -> None:
        """A line for outer watchers such as CI services."""
        seen = self.watch.snapshot(now)
        self._say(f"still running after {span(seen['age_ms'])}: {evidence(seen['sources'])}")

    def still_parked(self, left: int) -> None:
        """The same while nothing runs and a provider's limit is waited for."""
        self._say(f"still parked, for another {ago(left)}")

    def unseen(self, now: int) -> None:
        """Say that a limit cannot act: none of its sources has ever been seen, so their silence means nothing."""
        if not self.watch.sight.known:
            self._say(f"no limit of silence acts yet: {evidence(self.watch.snapshot(now)['sources'])} seen")

    def status(self, now: int) -> None:
        """Draw one line about a silence that lasts, where somebody can see it."""
        if self.hidden or not self._tty or _in_background():
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

    def _say_or_wait(self, text: str) -> None:
        if self.hidden:
            self._later.append(text)
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        # Names of processes and words of hooks are somebody else's: no control character of theirs gets through.
        clean = "".join(c if c.isprintable() else "?" for c in text)
        self.clear()
        if self.hidden and self._tty:
            # The program has the terminal, and there a new line does not begin at the left edge by itself.
            _write(f"\r\nlongwatch: {self.name}: {clean}\r\n".encode("utf-8", "replace"))
        else:
            say(f"{self.name}: {clean}")


def _told(fact: Fact) -> str | None:
    """Return what only `--verbose` says."""
    words = _VERBOSE.get(type(fact))
    return None if words is None else words(fact)


def _averted(fact: StopAverted) -> str | None:
    # A veto is always told.
    return None if fact.why == "veto" else f"the stop is called off: {_AVERTED[fact.why]}"


_VERBOSE: "dict[type[Fact], Callable[[Any], str | None]]" = {
    LimitNoted: lambda fact: f"half of the {fact.limit} window of {format_duration(fact.window)} has passed",
    Nudged: lambda fact: f"typed the nudge; one more {fact.limit} window",
    StopAverted: _averted,
    StopBegan: lambda fact: f"sends {signal_name(fact.signal)} to the whole tree",
    KillSent: lambda fact: "sends KILL to what is left",
    Lapse: lambda fact: f"nobody watched for {span(fact.span)}; silence in it does not count",
}


def _count(processes: tuple[str, ...]) -> str:
    return "1 process" if len(processes) == 1 else f"{len(processes)} processes"


def _in_background() -> bool:
    """Whether the terminal is another job's now, such as the shell's prompt."""
    try:
        return os.tcgetpgrp(2) != os.getpgrp()
    except OSError:
        return False


def _write(data: bytes) -> None:
    try:
        os.write(2, data)
    except OSError:
        pass
