"""One suite for the ways into a watch: the same observations give the same decisions through each of them.

A guard under asyncio, under trio and in a blocking program; and the effects of a run, which hear what an observer
tells. All code is real; the clock is the test's.
"""

import pytest

from guarded import END, HANG, START, Told, World, collect
from longwatch import LimitReached, Limits
from longwatch.core import facts as f
from longwatch.observe.events import (
    Failed,
    Heartbeat,
    Limited,
    Permission,
    Restarted,
    Retry,
    Subagent,
    Text,
    ToolCalled,
    ToolResult,
    TurnEnded,
    TurnStarted,
)

S, MIN = 1_000, 60_000
WORD = Text("word")

#: What both kinds of effects do in their own way: signals, exits, notes at half a window, whose time it was.
OWN = (f.LimitNoted, f.Lapse, f.StopBegan, f.LeaderExited, f.KillSent, f.RunStarted)


def decisions(facts):
    """Return what a watch decided: each fact with its instant, ends by their reason alone."""
    found = []
    for fact in facts:
        if isinstance(fact, f.RunEnded):
            found.append((fact.at - START, "ended", fact.termination_reason, fact.limit))
        elif not isinstance(fact, OWN):
            fields = fact.as_dict()
            fields.pop("at")
            if "since" in fields:
                fields["since"] -= START
            if fields.get("until"):
                fields["until"] -= START
            found.append((fact.at - START, fact.name, fields))
    return found


def through_run(script, limits):
    return decisions(Told(limits).play(script))


def _guarded(host, script, limits):
    world = World()

    async def main():
        stream = world.guard(world.source(script), limits)
        try:
            await collect(stream)
        except (LimitReached, ConnectionError):
            pass
        return decisions(stream._watched.story.facts)

    return getattr(world, host)(main)


def through_asyncio(script, limits):
    return _guarded("asyncio", script, limits)


def through_trio(script, limits):
    return _guarded("trio", script, limits)


def through_blocking(script, limits):
    stream = World().blocking(script, limits)
    try:
        list(stream)
    except (LimitReached, ConnectionError):
        pass
    return decisions(stream._watched.story.facts)


SCRIPTS = {
    "silence from the start": ([(0, HANG)], Limits(idle=5)),
    "silence after words": ([(1 * S, WORD), (4 * S, WORD), (0, HANG)], Limits(idle=5)),
    "an end by itself": ([(1 * S, WORD), (2 * S, END)], Limits(idle=5)),
    "an error of the source": ([(1 * S, WORD), (2 * S, ConnectionError())], Limits(idle=5)),
    "unreadable events": ([(s * S, object()) for s in range(1, 9)] + [(0, HANG)], Limits(idle=5)),
    "a silent tool": (
        [(1 * S, ToolCalled("1", "Bash")), (31 * S, ToolResult("1")), (0, HANG)], Limits(idle=5),
    ),
    "a tool that never ends": ([(1 * S, ToolCalled("1", "Bash")), (0, HANG)], Limits(idle=5, call=60)),
    "a tool with a budget of its own": (
        [(1 * S, ToolCalled("1", "Bash")), (2 * S, ToolCalled("2", "Read")), (0, HANG)],
        Limits(idle=5, call={"Bash": 300, "": 60}),
    ),
    "a batch of tools": (
        [*((1 * S, ToolCalled(c)) for c in "abc"), *((9 * S + n, ToolResult(c)) for n, c in enumerate("bca")), (0, HANG)],
        Limits(idle=5),
    ),
    "a stream that was reopened": (
        [(1 * S, ToolCalled("1")), (9 * S, Restarted()), (0, HANG)], Limits(idle=5),
    ),
    "keep-alives": ([(s * S, Heartbeat()) for s in range(1, 30)], Limits(idle=5)),
    "retries": ([(s * S, Retry(attempt=s)) for s in range(1, 30)], Limits(idle=5)),
    "errors of the provider": ([(s * S, Failed(status=529)) for s in range(1, 30)], Limits(idle=5)),
    "a pause with an end": ([(1 * S, Limited(span=600 * S)), (0, HANG)], Limits(idle=60)),
    "a pause without one": ([(1 * S, Limited(span=None)), (0, HANG)], Limits(idle=60)),
    "a pause that is lifted": (
        [(1 * S, Limited(span=600 * S)), (60 * S, Limited(lifted=True)), (0, HANG)], Limits(idle=60),
    ),
    "a question": (
        [(1 * S, Permission("waiting", "q")), (600 * S, Permission("allowed", "q")), (0, HANG)],
        Limits(idle=60, ask=300),
    ),
    "a delegation without a name": (
        [(1 * S, Subagent("start")), (99 * S, Subagent("end")), (0, HANG)], Limits(idle=60),
    ),
    "a finished turn": (
        [(1 * S, TurnEnded()), (600 * S, TurnStarted()), (601 * S, WORD), (0, HANG)], Limits(idle=60),
    ),
    "pauses and a ceiling": (
        [(m * MIN, Retry(delay=5 * S)) for m in (5, 15, 25, 35)] + [(m * MIN + 1, WORD) for m in range(36, 99)],
        Limits(idle=0),
    ),
    "the incident": (
        [(0, WORD), (81 * S, Limited(cls="usage", span=45 * MIN)), (45 * MIN, Limited(lifted=True)), (46 * MIN, WORD),
         (0, HANG)],
        Limits(),
    ),
    "first": ([(0, HANG)], Limits(first=3, idle=60)),
    "first word in time": ([(2 * S, WORD), (0, HANG)], Limits(first=3, idle=60)),
    "a timeout": ([(s * S, WORD) for s in range(1, 60)], Limits(idle=5, timeout=30)),
    "a stall": ([(s * S, WORD) for s in range(1, 60)], Limits(idle=5, stall=20)),
    "the same call again and again": (
        [e for s in range(1, 20, 2) for e in ((s * S, ToolCalled(str(s), "Bash", "ls")),
                                               (s * S + S, ToolResult(str(s), result="same")))],
        Limits(idle=60, loop=8),
    ),
    "a notice only": ([(1 * S, WORD), (20 * S, WORD), (40 * S, END)], Limits(idle=5, idle_action="notify")),
}  # fmt: skip


@pytest.mark.parametrize("way", [through_asyncio, through_trio, through_blocking])
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_decisions(way, name):
    """What is decided, and when to the millisecond, does not depend on the way in."""
    script, limits = SCRIPTS[name]
    expected = through_run(script, limits)
    assert expected[-1][1] == "ended"
    assert way(script, limits) == expected
