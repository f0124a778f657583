"""The closed set of events that a trace may hold, and their fields.

It is written twice on purpose: `Name` is what a type checker holds a caller to, `EVENTS` what is checked at run time
and published as a JSON Schema. A test compares them.
"""

from collections.abc import Mapping
from typing import Any, Literal

from longwatch.core.record import Plain

Scalar = str | int | bool
Name = Literal[
    "stream_started", "limit_noted", "idle_fired", "first_fired", "stall_fired", "call_fired", "ceiling_fired",
    "timeout_fired", "soft_fired", "ask_fired", "linger_fired", "effect_fired", "loop_fired", "extension_granted",
    "pause_began", "pause_ended", "hold_began", "hold_ended", "lapse", "source_changed", "loop_suspected",
    "stop_averted", "stop_began", "stream_stuck", "stream_ended", "turn_started", "turn_retried", "turn_ended",
    "wave_started", "wave_ended", "aborted", "sealed",
]  # fmt: skip

_FIRED = {
    "action": str, "window_ms": int, "elapsed_ms": int, "last_event": str, "subject?": str, "source?": str,
}  # fmt: skip
#: Each event: what it means, and its fields. A `?` marks one that may be missing.
EVENTS: dict[str, tuple[str, dict[str, type]]] = {
    "stream_started": ("A stream is watched from now on.", {}),
    "limit_noted": ("Half of a limit's window has passed.", {"limit": str, "window_ms": int}),
    "idle_fired": ("No progress, and nothing explains it.", _FIRED),
    "first_fired": ("The first progress did not come.", _FIRED),
    "stall_fired": ("No call succeeded.", _FIRED),
    "call_fired": ("One call took too long; `subject` is its tool.", _FIRED),
    "ceiling_fired": ("The ceiling is reached; no credit is left for it.", _FIRED),
    "timeout_fired": ("The fixed time is over.", _FIRED),
    "soft_fired": ("The soft limit is reached: the turn is told to wrap up.", _FIRED),
    "ask_fired": ("A question was not answered.", _FIRED),
    "linger_fired": ("The final result is out, and the stream goes on.", _FIRED),
    "effect_fired": ("Nothing of the work changed.", _FIRED),
    "loop_fired": ("The same call came too often in a row.", _FIRED),
    "extension_granted": (
        "Pauses of the provider moved a limit: by this grant, by how much in all, and what may still be granted.",
        {"limit": str, "grant_ms": int, "total_ms": int, "remaining_ms": int, "count": int, "pause": str},
    ),
    "pause_began": ("The provider said wait; `span_ms` until the pause ends by itself.", {"span_ms": int}),
    "pause_ended": ("The provider's pause is over.", {}),
    "hold_began": (
        "Silence is expected: `hold` is call, asked, quiet or ready.",
        {"hold": str, "subject?": str, "tool?": str, "span_ms?": int},
    ),
    "hold_ended": ("Silence is no longer expected for this reason.", {"hold": str, "subject?": str}),
    "lapse": ("Nobody watched for so long; that silence does not count.", {"span_ms": int}),
    "source_changed": ("A source became readable (`found`) or unreadable (`lost`).", {"source": str, "state": str}),
    "loop_suspected": (
        "The same call, with the same result, came `count` times within the last `window`.",
        {"tool": str, "count": int, "window": int},
    ),
    "stop_averted": ("A limit was reached, and a fresh look saved the stream.", {"limit": str, "why": str}),
    "stop_began": ("The stream is cancelled from now on.", {"reason": str, "origin?": str}),
    "stream_stuck": ("The stream was cancelled and did not end.", {}),
    "stream_ended": ("The stream is over.", {"reason": str, "origin?": str, "limit?": str}),
    "turn_started": ("A turn runs.", {"attempt": int}),
    "turn_retried": (
        "The stream was cut; the turn starts afresh after the delay.", {"attempt": int, "delay_ms": int},
    ),
    "turn_ended": (
        "A turn is over; nothing of it has been released yet. `timeout`: time ran out, here or above it.",
        {
            "state": str, "stop_reason": str, "attempts": int, "chars": int, "results": int, "duration_ms": int,
            "timeout": bool, "origin?": str, "error?": str,
        },
    ),
    "wave_started": ("Several turns run, so many at a time.", {"tasks": int, "width": int, "fail_fast": bool}),
    "wave_ended": (
        "All turns of a wave are over.",
        {"succeeded": int, "failed": int, "cancelled": int, "duration_ms": int},
    ),
    "aborted": (
        "A part of the graph is aborted; `reached` names who is, before any of them is told.",
        {"node": str, "root": str, "origin": str, "cause": str, "count": int, "reached": str, "reason?": str},
    ),
    "sealed": (
        "The last event. `unfinished` children did not end in time, `refused` events were wrong or not written.",
        {"children": int, "unfinished": int, "refused": int, "duration_ms": int},
    ),
}  # fmt: skip
NAMES: tuple[str, ...] = tuple(EVENTS)
#: Any event may say whose it is.
WHOSE: dict[str, type] = {"stream?": str, "turn?": str}


class TraceEvent(Plain):
    """One event: its `name`, its place `seq` (from 1), its instant `at` in ms on the watch's clock, its `fields`.

    An event that exists is right: ValueError for an unknown name, a field that is missing, unknown or not of its
    type (None is no scalar, a bool is no number), a negative span.
    """

    __slots__ = ("at", "fields", "name", "seq")

    def __init__(self, name: str, seq: int, at: int, fields: Mapping[str, Any]) -> None:
        _check(name, fields)
        self.name = name
        self.seq = seq
        self.at = at
        self.fields: dict[str, Scalar] = dict(fields)

    def as_dict(self) -> dict[str, object]:
        """Return the event as it is written in one line of JSON."""
        return {"schema": 1, "seq": self.seq, "mono_ms": self.at, "event": self.name, **self.fields}


def _check(name: str, fields: Mapping[str, Any]) -> None:
    if name not in EVENTS:
        raise ValueError(f"{name!r} is no event of a trace; EVENTS lists them")
    shape = {**EVENTS[name][1], **WHOSE}
    for field, value in fields.items():
        wanted = shape.get(field) or shape.get(field + "?")
        if wanted is None:
            raise ValueError(
                f"{name} has no field {field!r}; it has {', '.join(f.rstrip('?') for f in shape)}"
            )
        if type(value) is not wanted:
            raise ValueError(f"{name}.{field} is {value!r}; it has to be of type {wanted.__name__}")
        if field.endswith("_ms") and isinstance(value, int) and value < 0:
            raise ValueError(f"{name}.{field} is {value}; a span is never negative")
    missing = [field for field in shape if not field.endswith("?") and field not in fields]
    if missing:
        raise ValueError(f"{name} needs its field {missing[0]!r}")


_JSON = {str: "string", int: "integer", bool: "boolean"}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of one line of a trace: what every event has, and the fields of each."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "longwatch trace event",
        "type": "object",
        "properties": {
            "schema": {"const": 1},
            "seq": {"type": "integer", "minimum": 1},
            "mono_ms": {"type": "integer"},
            "event": {"enum": list(NAMES)},
        },
        "required": ["schema", "seq", "mono_ms", "event"],
        "oneOf": [_event_schema(name, *shape) for name, shape in EVENTS.items()],
        "unevaluatedProperties": False,
    }


def _event_schema(name: str, description: str, fields: dict[str, type]) -> dict[str, Any]:
    shape = {**fields, **WHOSE}
    return {
        "description": description,
        "properties": {
            "event": {"const": name},
            **{f.rstrip("?"): _field_schema(f, kind) for f, kind in shape.items()},
        },
        "required": sorted(field for field in fields if not field.endswith("?")),
    }


def _field_schema(field: str, kind: type) -> dict[str, Any]:
    spans = {"minimum": 0} if field.rstrip("?").endswith("_ms") else {}
    return {"type": _JSON[kind], **spans}


__all__ = ["EVENTS", "NAMES", "WHOSE", "Name", "Scalar", "TraceEvent", "schema"]
