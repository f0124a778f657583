"""The rungs of a limit: note at half its window; at the window notify, nudge, stop, up to its step.

Each rung is recorded and acts at most once per episode. A nudge without a text is skipped, and so is one for a
limit of time, which nothing moves; one that was typed gives one more window. The stop rung only asks for the post-mortem: the tree is signalled after a fresh look.
"""

from longwatch.core.commands import CapturePostMortem, Command, Notify, Nudge, Record
from longwatch.core.facts import LimitFired, LimitNoted, Nudged
from longwatch.core.limits import Limit
from longwatch.core.spec import NONE, NUDGE, STOP


def note(limit: Limit, now: int) -> LimitNoted:
    """Half of the window has passed."""
    limit.noted = True
    return LimitNoted(now, limit.name, limit.window)


def climb(limit: Limit, action: str, nudge: str | None, source: str | None, now: int) -> list[Command]:
    """The window has passed: climb all rungs up to `action`; the limit then waits for its next episode.

    A stop is asked for by a `CapturePostMortem` as the last command.
    """
    out: list[Command] = []
    if not limit.fired:
        limit.fired = True
        subject = limit.tool or limit.subject or None
        fact = LimitFired(now, limit.name, limit.window, limit.since, action, source, subject)
        out.append(Record(fact))
        if action != NONE:
            out.append(Notify(fact))
    if action in (NUDGE, STOP) and nudge is not None and limit.lapses and not limit.nudged:
        limit.nudged = True
        limit.extend(now)
        return [*out, Record(Nudged(now, limit.name)), Nudge(nudge)]
    limit.spent = True
    if action == STOP:
        out.append(CapturePostMortem(limit.name))
    return out
