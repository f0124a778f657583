"""Windows from history: how long silences were that ended by themselves, and which limit would have been wrong how often.

A limit is wrong about a session that it would have stopped although the session went on by itself. So of each session
the longest such silence counts, and the window that is proposed is the smallest round one that at most the wanted
share of the sessions would have reached. Nothing here reads a file or asks for the time.
"""

from bisect import bisect_right
from fractions import Fraction
from math import ceil

from longwatch.core.holds import ASKED, CALL, PAUSED, READY
from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, MINUTE, SECOND
from longwatch.learn.replay import WORKING, Replay
from longwatch.learn.stretches import Gap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from longwatch.observe.record import Record

    #: A state, and the tool of a call: ANY for the calls of all tools.
    Key = tuple[str, str]
    Spans = Iterable[tuple[int, int]]

#: From a run's start to the first record of its agent.
FIRST = "first"
ANY = ""
#: The tool of a call that does not name one.
UNNAMED = "?"
#: The limit that bounds a state; of the others nothing is expected, so nothing bounds them.
LIMIT_OF = {WORKING: "idle", CALL: "call", FIRST: "first"}
#: What is counted of a session: silences of these lengths and more are nights, and say nothing of an agent.
LONGEST = 6 * HOUR
#: Windows that people set. Below the first the machine's load decides, the last one no counted silence reaches.
ROUND = (
    30 * SECOND, 45 * SECOND,
    *(n * MINUTE for n in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 45)),
    HOUR, 90 * MINUTE, 2 * HOUR, 3 * HOUR, 4 * HOUR, LONGEST,
)  # fmt: skip
#: Where none of n sessions went wrong, at most 3/n of all do, in 19 cases of 20.
RULE_OF_THREE = 3
#: Why a silence is not counted.
LONG, ASLEEP, PARKED, HAND, QUESTION = "long", "asleep", "paused", "by_hand", "asked"
LEFT_OUT = (LONG, ASLEEP, PARKED, HAND, QUESTION)
#: Three digits end here.
THOUSAND = 1_000


class Spread:
    """How spans are spread: `counts` of them, each rounded down to three digits; the longest is kept as it is."""

    __slots__ = ("count", "counts", "longest")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.count = 0
        self.longest = 0

    def add(self, span: int, times: int = 1) -> None:
        """Take in a span."""
        scale = 1
        while span >= THOUSAND * scale:
            scale *= 10
        rounded = span // scale * scale
        self.counts[rounded] = self.counts.get(rounded, 0) + times
        self.count += times
        self.longest = max(self.longest, span)

    def join(self, other: "Spread") -> None:
        """Take in all of another one."""
        for span, times in other.counts.items():
            self.add(span, times)
        self.longest = max(self.longest, other.longest)

    def below(self, share: Fraction) -> int:
        """Return the smallest span that so large a share of all is not above; 0 where there is none."""
        rank = max(1, ceil(share * self.count))
        for span in sorted(self.counts):
            rank -= self.counts[span]
            if rank <= 0:
                return span
        return 0


class Sleeps:
    """When the machine slept: spans in ms since 1970, in any order."""

    def __init__(self, spans: "Spans" = ()) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        for begin, end in sorted(spans):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def __len__(self) -> int:
        return len(self._begins)

    def within(self, begin: int, end: int) -> bool:
        """Whether it slept at some time between two instants."""
        before = bisect_right(self._begins, end - 1)
        return before > 0 and self._ends[before - 1] > begin


NEVER = Sleeps()


class Seen:
    """What one session has shown: its silences by state and tool, and how many of them do not count, by reason.

    `asking` are tools that ask a human: how long the answer takes is no matter of the tool's.
    """

    __slots__ = ("left_out", "spreads")

    def __init__(self, gaps: "Iterable[Gap]", sleeps: Sleeps = NEVER, asking: "Collection[str]" = ()) -> None:
        self.spreads: dict[Key, Spread] = {}
        self.left_out: dict[str, int] = {}
        for gap in gaps:
            reason = why_not(gap, sleeps, asking)
            if reason:
                self.left_out[reason] = self.left_out.get(reason, 0) + 1
                continue
            self._add((gap.state, ANY), gap.span)
            if gap.state == CALL:
                self._add((CALL, gap.subject or UNNAMED), gap.span)

    def _add(self, key: "Key", span: int) -> None:
        self.spreads.setdefault(key, Spread()).add(span)


class Proposal(Plain):
    """What a state's silences were like, and the `window` proposed: None where `missing` sessions are too few.

    `sessions` is in how many there was one; `stopped` how many of those the window would have stopped wrongly.
    """

    __slots__ = (
        "longest", "missing", "p50", "p99", "p999", "sessions", "silences", "state", "stopped", "tool", "window",
    )  # fmt: skip

    def __init__(self, key: "Key", spread: Spread, worst: "Sequence[int]", rate: Fraction) -> None:
        self.state, self.tool = key
        self.sessions = len(worst)
        self.silences = spread.count
        self.p50, self.p99, self.p999 = (spread.below(Fraction(n, 1_000)) for n in (500, 990, 999))
        self.longest = spread.longest
        bounded = self.state in LIMIT_OF and self.tool != UNNAMED
        self.missing = max(0, needed(rate) - self.sessions) if bounded else 0
        self.window: int | None = None
        self.stopped = 0
        if bounded and not self.missing:
            self.window, self.stopped = smallest(worst, rate)


class History:
    """What many sessions have shown."""

    def __init__(self, seen: "Iterable[Seen]" = ()) -> None:
        self.left_out = dict.fromkeys(LEFT_OUT, 0)
        self._spreads: dict[Key, Spread] = {}
        #: The longest silence of each session, by state and tool.
        self._worst: list[dict[Key, int]] = []
        for each in seen:
            self.add(each)

    def add(self, seen: Seen) -> None:
        """Take in a session; one in which nothing counts is none."""
        for reason, count in seen.left_out.items():
            self.left_out[reason] += count
        for key, spread in seen.spreads.items():
            self._spreads.setdefault(key, Spread()).join(spread)
        if seen.spreads:
            self._worst.append({key: spread.longest for key, spread in seen.spreads.items()})

    @property
    def sessions(self) -> int:
        """How many sessions there were in which something counts."""
        return len(self._worst)

    def proposals(self, rate: Fraction) -> list[Proposal]:
        """Return one for each state and tool that was seen: at work, in calls (all first, then the most used), others."""
        worst: dict[Key, list[int]] = {key: [] for key in self._spreads}
        for session in self._worst:
            for key, longest in session.items():
                worst[key].append(longest)
        found = [Proposal(key, self._spreads[key], worst[key], rate) for key in worst]
        order = (WORKING, CALL, FIRST, ASKED, READY)
        return sorted(found, key=lambda each: (order.index(each.state), each.tool != ANY, -each.silences))

    def stopped(self, windows: "Mapping[Key, int]") -> int:
        """Return how many sessions these windows would have stopped wrongly together; a tool's own goes before ANY's."""
        return sum(any(_over(key, longest, windows) for key, longest in each.items()) for each in self._worst)


def _over(key: "Key", longest: int, windows: "Mapping[Key, int]") -> bool:
    state, tool = key
    if state == CALL and tool == ANY:
        return False  # each of its calls stands under its tool as well
    window = windows.get(key, windows.get((state, ANY)))
    return window is not None and longest >= window


def silences(records: "Iterable[Record]", starts: "Iterable[int]" = ()) -> "Iterator[Gap]":
    """Yield what counts for limits of a session's records, and forget it: silences at work, calls, first records.

    `starts` are instants at which a run of the agent began that went on with this session. Without times: nothing.
    """
    replay = Replay({})
    pending = sorted(starts, reverse=True)
    for record in records:
        if not record.events:
            continue  # a sign of life, which ends no silence
        now = replay.tell(record)
        while pending and replay.timed and now >= pending[-1]:
            began = pending.pop()
            if not pending or now < pending[-1]:
                yield Gap(began, now - began, FIRST)
        for gap in replay.gaps if replay.timed else ():
            if gap.state != CALL:
                yield gap
        replay.gaps.clear()
        if replay.calls or replay.stretches.done:
            yield from replay.stretches.done if replay.timed else ()
            replay.stretches.done.clear()
            replay.calls.clear()


def why_not(gap: Gap, sleeps: Sleeps, asking: "Collection[str]" = ()) -> str:
    """Return why a silence does not count; "" where it does."""
    if gap.span >= LONGEST:
        return LONG
    if sleeps.within(gap.began, gap.began + gap.span):
        return ASLEEP
    if gap.state == PAUSED or (gap.state in LIMIT_OF and 2 * gap.parked >= gap.span):
        return PARKED
    if gap.state == CALL and gap.subject in asking:
        return QUESTION
    return HAND if gap.by_hand and gap.state in LIMIT_OF else ""


def needed(rate: Fraction) -> int:
    """Return how many sessions it takes to tell that at most this share goes wrong."""
    return ceil(RULE_OF_THREE / rate)


def smallest(worst: "Sequence[int]", rate: Fraction) -> tuple[int, int]:
    """Return the smallest round window that at most this share of the sessions reached, and how many did."""
    for window in ROUND:
        reached = sum(longest >= window for longest in worst)
        if reached <= rate * len(worst):
            return window, reached
    raise AssertionError("no counted silence reaches the last window")
