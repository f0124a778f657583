"""What follows an end by a provider's limit: wait for its stated end and go on once, or leave it to a human.

A window is the time up to one reset. Each is waited for once, and one resume follows it: every resume is a turn in
the conversation, so nobody is asked again and again. Where the limit still holds after its own reset, the waits grow,
and after a handful of resumes to no effect a human has to look. What was never stated is never guessed.

Whose run it is decides how patient that is: a `run` that somebody waits for has its `RUN` terms, a harness that has all
the time in the world `HARNESS`.

The reset is wall-clock time, and so are all instants here, in ms since 1970. Chance is an argument, so a decision
can be replayed.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, MINUTE, SECOND, Spec

#: Whoever waits for one reset is not to come back in the same second as all others; nobody comes before it.
JITTER = 60 * SECOND
#: No provider has a longer window than a week: a reset further away is misread, and then this is waited.
LONGEST = 7 * 24 * HOUR
#: A reset that lies further back than this is misread; one that has just passed means now.
STALE = 24 * HOUR
#: Resets that are told to the minute, or anew with each answer, are the same one up to this.
SAME = 1 * MINUTE
#: The least wait after a resume to no effect, doubled up to a bound; and how many of them there are.
WAIT_FIRST, WAIT_LAST = 5 * MINUTE, 1 * HOUR
TRIES = 5

STAY, PARK, LEAVE = "stay", "park", "leave"
#: Ends that a limit brings about: the program gave up, or fell silent. All others have a cause of their own.
ENDS = ("exited", "lingered", "idle", "first", "stalled")
#: What ends by itself; the others need a human.
PASSING, LASTING = ("rate", "usage"), ("money", "auth")


class Terms(Plain):
    """How patient the waits are; all in ms.

    `longest`: a reset further away is misread, and then this is waited. `stale`: one that lies further back than this is
    misread too, or (negative) one that is not so far ahead. `first` and `last` bound the waits of our own, `tries` the
    resumes to no effect (0: no bound). `guess`: what was never stated is waited for all the same.
    """

    __slots__ = ("first", "guess", "last", "longest", "stale", "tries")

    def __init__(
        self, longest: int, stale: int, first: int, last: int, tries: int = 0, *, guess: bool = False
    ) -> None:
        self.longest = longest
        self.stale = stale
        self.first = first
        self.last = last
        self.tries = tries
        self.guess = guess


RUN = Terms(LONGEST, STALE, WAIT_FIRST, WAIT_LAST, TRIES)
#: Nobody waits for a harness, so it waits longer, and for what nobody states as well. A reset that is less than a
#: minute away is one that does not hold.
HARNESS = Terms(8 * 24 * HOUR, -1 * MINUTE, 15 * MINUTE, 6 * HOUR, guess=True)


class Limited(Plain):
    """What a provider says of a limit: its class, its end as a wall instant (None: it does not say), its words."""

    __slots__ = ("cls", "text", "until")

    def __init__(self, cls: str, until: int | None = None, text: str = "") -> None:
        self.cls = cls
        self.until = until
        self.text = text


class Halt(Plain):
    """How an incarnation ended under a limit.

    `cls` and `until` are what the provider states (until: None where it does not say); `reason` is the termination
    reason; `progressed` whether it got anything done; `resumable` whether its conversation can be taken up again;
    `attended` whether a human had it on the screen, whose exit is then the human's.
    """

    __slots__ = ("attended", "cls", "progressed", "reason", "resumable", "until")

    def __init__(
        self, reason: str, cls: str, until: int | None, *, progressed: bool = False, resumable: bool = True,
        attended: bool = False,
    ) -> None:  # fmt: skip
        self.reason = reason
        self.cls = cls
        self.until = until
        self.progressed = progressed
        self.resumable = resumable
        self.attended = attended


class Windows(Plain):
    """What is remembered between incarnations: the window that was waited for last, and resumes to no effect in a row."""

    __slots__ = ("fruitless", "until")

    def __init__(self, until: int | None = None, fruitless: int = 0) -> None:
        self.until = until
        self.fruitless = fruitless


class Verdict(Plain):
    """What to do: `STAY` (no limit ended it), `PARK` until an instant and resume then, `LEAVE` it to a human.

    `why` of PARK: stated, over (the reset has just passed), clamped (too far away), again (it still holds), guessed
    (nobody says until when). Of LEAVE: money, auth, left (by hand), unstated, unknown (its conversation), fruitless, late (its time is over before that).
    """

    __slots__ = ("action", "until", "why", "windows")

    def __init__(self, action: str, windows: Windows, why: str = "", until: int = 0) -> None:
        self.action = action
        self.windows = windows
        self.why = why
        self.until = until


def wait(fruitless: int, terms: Terms = RUN) -> int:
    """Return the least wait in ms after so many resumes to no effect."""
    return min(terms.first << min(max(fruitless, 1) - 1, 16), terms.last)


def decide(
    halt: Halt, windows: Windows, wall: int, drawn: float, *, latest: int | None = None, terms: Terms = RUN
) -> Verdict:
    """Return what follows; `drawn` in [0, 1) spreads the resume, `latest` is when the time of the run is over."""
    if halt.reason not in ENDS or halt.cls not in (*PASSING, *LASTING):
        return Verdict(STAY, windows)
    fruitless = windows.fruitless + 1 if windows.until is not None and not halt.progressed else 0
    stated = None if halt.until is None or halt.until < wall - terms.stale else halt.until
    if stated is None and terms.guess:
        # The first wait of our own is a guess as well, so the next one is longer.
        fruitless = max(fruitless, 1)
    fresh = stated is not None and (windows.until is None or stated > windows.until + SAME)
    if why := _left(halt, fruitless, terms, known=stated is not None, fresh=fresh):
        return Verdict(LEAVE, windows, why)
    due, why = _due(stated, wall, terms)
    if fruitless or not fresh:
        # The same window once more: what it says of its end was not true.
        due = max(due, wall + wait(fruitless, terms))
        why = "guessed" if windows.until is None else "again"
    resume = due + int(JITTER * drawn)
    if latest is not None and resume >= latest:
        return Verdict(LEAVE, windows, "late", due)
    return Verdict(PARK, Windows(due, fruitless), why, resume)


def _due(stated: int | None, wall: int, terms: Terms) -> tuple[int, str]:
    """Return when the limit ends by what is stated, and how that was read."""
    if stated is None or stated <= wall:
        return wall, "over"
    if stated > wall + terms.longest:
        return wall + terms.longest, "clamped"
    return stated, "stated"


def _left(halt: Halt, fruitless: int, terms: Terms, *, known: bool, fresh: bool) -> str:
    """Return why it is a human's turn; empty where it is not."""
    if halt.cls in LASTING:
        return halt.cls
    if halt.attended and halt.reason == "exited":
        return "left"
    if not halt.resumable:
        return "unknown"
    if not known and not fruitless:
        return "unstated"
    return "fruitless" if terms.tries and fruitless >= terms.tries and not fresh else ""


class Used(Plain):
    """What a run has used up of its limits of time before this incarnation.

    `elapsed` counts everything since its first start, `worked` what is neither a wait between incarnations nor a
    credited pause, `credited` these pauses; all in ms.
    """

    __slots__ = ("credited", "elapsed", "worked")

    def __init__(self, elapsed: int = 0, worked: int = 0, credited: int = 0) -> None:
        self.elapsed = elapsed
        self.worked = worked
        self.credited = credited

    def and_life(self, lasted: int, parked: int, credit: int) -> "Used":
        """Return this with one more incarnation, of whose time `parked` ms were pauses; `credit` is what is left of it."""
        credited = min(parked, credit)
        return Used(self.elapsed, self.worked + lasted - credited, self.credited + credited)


def carried(spec: Spec, used: Used) -> Spec:
    """Take off a spec what earlier incarnations have used up, and return it.

    `timeout` is elapsed time, whatever happens. `ceiling` and `soft` bound work: the provider's waits are not its
    doing, between incarnations as little as within one. A soft limit that was told is told no more.
    """
    for name, spent in (("timeout", used.elapsed), ("ceiling", used.worked), ("soft", used.worked)):
        if name in spec.limits:
            spec.limits[name].spent = spent
    if "soft" in spec.limits and spec.limits["soft"].spent >= spec.limits["soft"].window:
        del spec.limits["soft"]
    spec.pause_credit = max(0, spec.pause_credit - used.credited)
    return spec
