"""Any program that prints or writes JSON lines: rules say which record means what.

A rule is one line, `KIND: CONDITIONS -> FIELDS`. A condition is `path=value`, `path!=value` or `path` (it is there and
neither null nor false), a path is keys and places in arrays joined by dots. A field is `name=path`, where to find it:

    tool_call: type=tool.begin -> call=id tool=name arguments=input
    tool_result: type=tool.end -> call=id failed=error exit_code=code
    text: role=assistant -> text=content.0.text
    limit: error.status=429 -> until=error.reset

The kind `record` says what all records have: `record: -> at=ts session=sid uid=n`. Without rules every record is a sign
of life and no progress.
"""

from longwatch.core.record import Plain
from longwatch.errors import UsageError
from longwatch.observe import events as e
from longwatch.observe.dialects.base import Dialect, Reader
from longwatch.observe.dialects.loose import amount, count, kind_of, number, text, words
from longwatch.observe.record import DISK, Record
from longwatch.units import nearest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Events = tuple[e.Event, ...]
    Get = Callable[[str], Any]

#: What each kind of rule may have for fields.
FIELDS: dict[str, tuple[str, ...]] = {
    "record": ("at", "session", "uid", "sub"),
    "session_start": ("session", "cwd", "model"),
    "session_end": ("failed", "reason"),
    "turn_start": (),
    "turn_end": ("failed",),
    "text": ("text",),
    "thinking": ("text",),
    "tool_call": ("call", "tool", "arguments"),
    "tool_result": ("call", "tool", "failed", "exit_code", "result"),
    "heartbeat": ("call",),
    "retry": ("attempt", "delay", "status"),
    "limit": ("until", "span", "message", "status"),
    "permission": ("question", "tool"),
    "answer": ("question",),
    "compaction": (),
    "error": ("message", "status"),
    "usage": ("message", "input", "output", "cached", "cost"),
}
#: Where times stand in most formats.
_TIMES = ("timestamp", "time", "ts", "at", "created_at")


class Rule(Plain):
    """One rule; `conditions` are (path, operator, value), `fields` are paths by name."""

    __slots__ = ("conditions", "fields", "kind")

    def __init__(
        self, kind: str, conditions: tuple[tuple[str, str, str], ...] = (), fields: dict[str, str] | None = None
    ) -> None:  # fmt: skip
        self.kind = kind
        self.conditions = conditions
        self.fields = fields or {}

    def matches(self, value: object) -> bool:
        """Whether all conditions hold for a record."""
        return all(_holds(find(value, path), operator, wanted) for path, operator, wanted in self.conditions)


def parse(line: str) -> Rule:
    """Read a rule. Raises UsageError."""
    kind, colon, rest = line.partition(":")
    kind = kind.strip()
    if not colon:
        raise UsageError(f"{shown(line)}: no rule; write KIND: CONDITIONS -> FIELDS")
    if kind not in FIELDS:
        guess = nearest(kind, FIELDS)
        hint = f"did you mean {guess}?" if guess else f"kinds are {', '.join(FIELDS)}"
        raise UsageError(f"{shown(kind)}: no such kind of rule; {hint}")
    conditions, _, fields = rest.partition("->")
    found: dict[str, str] = {}
    for word in fields.split():
        name, equals, path = word.partition("=")
        if not equals or not path or name not in FIELDS[kind]:
            known = ", ".join(FIELDS[kind]) or "none"
            raise UsageError(f"{shown(word)}: no field of {kind}; write NAME=PATH, names are {known}")
        found[name] = path
    return Rule(kind, tuple(_condition(word) for word in conditions.split()), found)


def with_rules(lines: "Sequence[str]") -> Dialect:
    """Return the dialect of these rules. Raises UsageError for a rule that is none."""
    rules = tuple(parse(line) for line in lines)
    return Dialect("generic", lambda source: GenericReader(source, rules), lambda records: "")


class GenericReader(Reader):
    """Reads records by rules; of several that match, each counts."""

    def __init__(self, source: str = DISK, rules: tuple[Rule, ...] = ()) -> None:
        super().__init__(source)
        self.common = [rule for rule in rules if rule.kind == "record"]
        self.rules = [rule for rule in rules if rule.kind != "record"]

    def interpret(self, value: "dict[str, Any]") -> "Iterable[Record]":
        """Return what a record means."""
        common = {
            name: find(value, path)
            for rule in self.common
            if rule.matches(value)
            for name, path in rule.fields.items()
        }
        self.session = _word(common.get("session")) or self.session
        at = common.get("at", next((value[name] for name in _TIMES if name in value), None))
        events: Events = ()
        note = ""
        for rule in self.rules:
            if rule.matches(value):
                found, said = self._events(rule, value, at)
                events, note = events + found, note or said
        uid = _word(common.get("uid"))
        if uid and not self.said.add(uid):
            events = ()
        yield self.made(
            *events, at=at, sub=_word(common.get("sub")), raw_type=kind_of(value), uid=uid, note=note
        )

    def _events(self, rule: Rule, value: object, at: object) -> "tuple[Events, str]":
        def get(name: str) -> "Any":
            path = rule.fields.get(name)
            return None if path is None else find(value, path)

        if rule.kind == "limit":
            span = number(get("span"))
            status = number(get("status"))
            return self.limited(words(get("message")), status, at, cls="usage", until=get("until"), span=span)
        return self._event(rule.kind, get), ""

    def _event(self, kind: str, get: "Get") -> "Events":
        call = _word(get("call")) or _word(get("tool")) or "call"
        if kind == "tool_call":
            return self.calls.began(call, _word(get("tool")), get("arguments"))
        if kind == "tool_result":
            failed = bool(get("failed"))
            code, why = number(get("exit_code")), "error" if failed else ""
            return self.calls.ended(
                e.ToolResult(call, not failed, code, why, result=get("result")), _word(get("tool"))
            )
        if kind == "turn_end":
            return self.ended("error" if get("failed") else "end_turn")
        if kind == "session_end":
            return self.closed(ok=not get("failed"), reason=_word(get("reason")))
        return (_SIMPLE[kind](get),)


_SIMPLE: "dict[str, Callable[[Get], e.Event]]" = {
    "session_start": lambda get: e.SessionStarted(
        _word(get("session")), cwd=_word(get("cwd")), model=_word(get("model"))
    ),
    "turn_start": lambda get: e.TurnStarted("user"),
    "text": lambda get: e.Text(words(get("text"))),
    "thinking": lambda get: e.Thinking(len(words(get("text")))),
    "heartbeat": lambda get: e.Heartbeat(
        "tool_progress" if get("call") else "keep_alive", _word(get("call"))
    ),
    "retry": lambda get: e.Retry(number(get("attempt")) or 0, number(get("delay")), number(get("status"))),
    "permission": lambda get: e.Permission("waiting", _word(get("question")), _word(get("tool"))),
    "answer": lambda get: e.Permission("allowed", _word(get("question"))),
    "compaction": lambda get: e.Compacted("end"),
    "error": lambda get: e.Failed(status=number(get("status")), message=words(get("message"))),
    "usage": lambda get: e.Usage(
        _word(get("message")),
        count(get("input")),
        count(get("output")),
        count(get("cached")),
        amount(get("cost")),
    ),
}


def find(value: object, path: str) -> "Any":
    """Return what stands at a path; None where nothing does. A key that has dots in it is found too."""
    if isinstance(value, dict) and path in value:
        return value[path]
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif (
            isinstance(value, list)
            and key.isascii()
            and key.isdigit()
            and len(key) < 6
            and int(key) < len(value)
        ):
            value = value[int(key)]
        else:
            return None
    return value


def _condition(word: str) -> tuple[str, str, str]:
    for operator in ("!=", "="):
        path, found, wanted = word.partition(operator)
        if found:
            return path, operator, wanted
    return word, "", ""


def _holds(found: object, operator: str, wanted: str) -> bool:
    if not operator:
        return found is not None and found is not False
    return (_word(found) == wanted) is (operator == "=")


def _word(value: object) -> str:
    """Return a value as it would be written in a rule."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return text(value) if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


DIALECT = with_rules(())
