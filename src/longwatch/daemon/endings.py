"""What ended a run of a harness: a provider's limit, a refused login, a full context, or none of these.

An agent that writes about limits is not limited. So there are two kinds of evidence. What its records state as an error
counts, unless something followed. Words count only at the very end of what it printed, and only where it failed or
fell silent: the user's own patterns for any program, and what providers are known to say for agents.
"""

import re

from longwatch.core.record import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from longwatch.observe.standing import AgentLimit as Limit
    from longwatch.resets import Reset

    class Wording:
        """What providers say in words (see `observe.wording`)."""

        limit_class: Callable[[str], str]
        reset: Callable[[str, float], Reset]


RATE, USAGE, MONEY, AUTH, CONTEXT = "rate", "usage", "money", "auth", "context"
_KNOWN = (RATE, USAGE, MONEY, AUTH, CONTEXT)
#: Ends in which a program gave up, or fell silent; all others have a cause of their own.
_SILENT = ("idle", "first", "stalled")
#: So many lines that say something are the very end: a sentence, where to read more, and a blank farewell.
LAST_LINES = 3
_WORDS = 200
_MOST = 8 << 10
#: What a terminal is told (colours, the cursor) is no word.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class End(Plain):
    """How a run ended, for whoever decides what follows.

    `cls` is rate, usage, money, auth, context or None; `until` when that is over, in ms since 1970 (None: nobody says);
    `sure` where a record stated it. `session` is the conversation that may go on; `progressed` whether a call went
    well; `last_error` what the agent, or else the last line, complained of.
    """

    __slots__ = ("cls", "last_error", "progressed", "session", "sure", "text", "until")

    def __init__(
        self, cls: str | None = None, until: int | None = None, text: str = "", *, session: str | None = None,
        progressed: bool = False, last_error: str = "", sure: bool = False,
    ) -> None:  # fmt: skip
        self.cls = cls
        self.until = until
        self.text = text
        self.session = session
        self.progressed = progressed
        self.last_error = last_error
        self.sure = sure


class Patterns:
    """The user's patterns of limits. A group named `reset` says when it ends, else the line is read for that."""

    def __init__(self, patterns: "Iterable[str]") -> None:
        """Compile them. Raises ValueError with a line for people."""
        self._rules = [_compiled(pattern) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def find(self, lines: "Iterable[str]") -> tuple[str, str] | None:
        """Return the first of some lines in which one is found, and what in it says when the limit ends."""
        for line in lines:
            for rule in self._rules:
                if found := rule.search(line):
                    named = found.groupdict().get("reset")
                    return line, named or line
        return None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"limit_patterns: {pattern!r} is no regular expression: {error}") from error


def failed(report: "Mapping[str, Any]") -> bool:
    """Whether a run gave up or was stopped for its silence, as its report says."""
    reason = report.get("termination_reason")
    return reason in _SILENT or reason == "signaled" or (reason == "exited" and report.get("exit_code") != 0)


def stated(report: "Mapping[str, Any]", limit: "Limit | None") -> "Limit | None":
    """Return the limit that ended a run by its records; None where it ended for another reason."""
    by_itself = report.get("termination_reason") in ("exited", "lingered")
    return limit if limit is not None and (by_itself or failed(report)) else None


def last_lines(report: "Mapping[str, Any]", stream: str) -> list[str]:
    """Return the last lines of a stream that say something, the newest first."""
    told = report.get(stream) or {}
    text = f"{told.get('head', '')}{told.get('tail', '')}"[-_MOST:]
    lines = (plain(line) for line in reversed(text.replace("\r", "\n").split("\n")))
    return [line for line in lines if line][:LAST_LINES]


def plain(text: str) -> str:
    """Return a line without what only a terminal understands."""
    bare = _SEQUENCES.sub("", text)
    return " ".join("".join(c if c.isprintable() else " " for c in bare).split())[:1_000]


def judge(
    report: "Mapping[str, Any]", *, limit: "Limit | None" = None, patterns: Patterns | None = None,
    wording: "Wording | None" = None, trouble: str = "", wall: int,
) -> End:  # fmt: skip
    """Return how a run ended.

    `limit` is what the agent's records state, `trouble` its newest error that nothing has followed; `wording` is given
    for agents. `wall` is when the last words came, in ms since 1970.
    """
    lines = [line for stream in ("stderr", "stdout") for line in last_lines(report, stream)]
    complaint = trouble or (lines[0] if lines and failed(report) else "")
    if (found := stated(report, limit)) is not None:
        return End(found.cls, found.until, found.text[:_WORDS], last_error=complaint[:_WORDS], sure=True)
    end = End(last_error=complaint[:_WORDS])
    if not failed(report):
        return end
    if patterns and (said := patterns.find(lines)):
        end.cls, end.text = USAGE, said[0][:_WORDS]
        end.until = _until(said[1], wall)
    elif wording is not None:
        _read(end, [trouble, *lines], wording, wall)
    return end


def _read(end: End, lines: "Iterable[str]", wording: "Wording", wall: int) -> None:
    """Take what a provider says in the first line that says anything of a limit."""
    for line in lines:
        cls = wording.limit_class(line) if line else ""
        if cls in _KNOWN:
            end.cls, end.text = cls, line[:_WORDS]
            end.until = _until(line, wall) if cls in (RATE, USAGE) else None
            return


def _until(text: str, wall: int) -> int | None:
    """Return when a limit ends by its words; one that is over by them ends now."""
    from longwatch.observe.wording import reset  # noqa: PLC0415 - loaded with the first pattern or agent

    found = reset(text, wall / 1000)
    if found.span is not None:
        return wall + found.span
    return wall if "is over" in found.note else None
