"""The small closed sets that facts, states and reports are made of, in words: the same for notices, logs and verbs.

Each table has every member of its set, and a test holds them together. What is put together from the words stands
where it is said; only what is said in more than one place is a function here.
"""

import time

from longwatch.units import ago, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from longwatch.core.service_facts import Stalled

#: A limit that was reached, whether it stopped something or not.
LIMITS = {
    "idle": "no {what} for {window}",
    "first": "no first {what} within {window}",
    "stall": "no successful call for {window}",
    "call": "a call{of} took longer than {window}",
    "ceiling": "reached its ceiling of {window}",
    "timeout": "took longer than {window}",
    "soft": "worked for {window} and should wrap up",
    "ask": "a question waited longer than {window} for its answer",
    "linger": "stayed for {window} after its result",
    "effect": "changed nothing for {window}",
    "loop": "the same call{of} with the same result, again and again",
}
#: What follows a stall, by the action of its limit.
ACTIONS = {
    "none": "it runs on",
    "notify": "it runs on",
    "nudge": "it is nudged",
    "stop": "it is stopped",
    "restart": "it is restarted",
}
ONLY_TOLD = "its stalls are only reported from now on"
#: Why restarts end.
GAVE_UP = {
    "alike": "it failed soon after each start, with the same error",
    "intensity": "it was restarted too often",
    "quick": "it ended soon after each start",
    "spawn": "it could not be started",
    "stalls": "it stalled again and again, and restarts did not help",
}
#: What keeps one back that is wanted, where nobody gives a reason of its own.
HOLDS = {
    "hours": "outside its hours",
    "park": "a limit of its provider",
    "cost": "the money for today is spent",
    "runs": "its runs for today are used",
    "slots": "all places are taken",
    "login": "its provider refused the login",
    "money": "its provider wants money",
    "limit": "a limit of its provider that is left to you",
    "budget": "its budget is spent",
}
#: Why a run began; any other word is the trigger of that name.
TRIGGERS = {
    "autostart": "with the daemon",
    "restart": "after the end of the one before",
    "release": "after a hold",
    "manual": "by hand",
    "schedule": "by the clock",
}
#: Why a firing waits, or came to nothing; a hold is another reason.
FIRINGS = {
    "busy": "its last run is not over",
    "queued": "another firing waits already",
    "replaced": "a newer firing took its place",
    "stopped": "it was stopped by hand",
    "removed": "it is gone from the file",
    "shutdown": "the daemon was about to end",
    "resident": "it lives all the time and is not fired",
}
#: What a provider refuses with, by the class of its limit.
PROVIDER = {
    "rate": "a rate limit",
    "usage": "a usage limit",
    "money": "lack of credit",
    "auth": "a refused login",
}
#: Who wanted the end of a run.
ORIGINS = {
    "explicit": "by hand",
    "cascade": "along with its parent",
    "shutdown": "along with longwatch",
    "replaced": "for a newer firing",
    "hours": "outside its hours",
    "budget": "its budget is spent",
}


def limit(name: str, window: int, what: str = "progress", subject: str | None = None) -> str:
    """Return a limit that was reached; `what` was missed where it is one of silence, `subject` is the tool of a call."""
    of = f" of {subject}" if subject else ""
    return LIMITS[name].format(what=what, window=format_duration(window), of=of)


def stall(fact: "Stalled") -> str:
    """Return what is to be known of a stall: how long, how often in a row, what follows."""
    row = f", {fact.stalls} stalls in a row" if fact.stalls > 1 else ""
    follows = ONLY_TOLD if fact.gave_up else ACTIONS[fact.action]
    return f"no successful call for {ago(fact.idle)} (window {format_duration(fact.window)}){row}; {follows}"


def late(span: int) -> str:
    """Return for how long the supervisor was held up, and what that means for those it looks after."""
    return f"for {ago(span)} (stopped, asleep or starved); silence in that time does not count"


def trigger(word: str) -> str:
    """Return why a run began."""
    return TRIGGERS.get(word, f"by {word}")


def firing(why: str) -> str:
    """Return why a firing waits or came to nothing."""
    return FIRINGS.get(why) or HOLDS.get(why, why)


def clock(wall: int, now: int) -> str:
    """Return an instant (ms since 1970) in local time, as short as it is clear: 15:04:05 today, else with its day."""
    then, today = time.localtime(wall / 1000), time.localtime(now / 1000)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M:%S", then)
    return time.strftime("%b %d %H:%M" if then[0] == today[0] else "%Y-%m-%d", then)


def command(verb: str, names: "Iterable[str]" = (), config: str = "") -> str:
    """Return a command as it can be typed; `config` is the file that it has to name, if any."""
    return " ".join(["longwatch", verb, *names, *(["--config", _quoted(config)] if config else [])])


def _quoted(path: str) -> str:
    plain = all(c.isalnum() or c in "/._-" for c in path)
    return path if plain else "'" + path.replace("'", "'\\''") + "'"
