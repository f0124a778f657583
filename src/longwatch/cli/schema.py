"""The JSON Schemas that longwatch publishes: options, report, events. Each derives from the table it describes."""

from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from longwatch.core import facts
from longwatch.core.outcomes import ORIGINS, OUTCOMES, REASONS
from longwatch.option_kinds import describe, signal_names
from longwatch.option_table import SOURCES, Option
from longwatch.options import RUN_OPTIONS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: 0 and off, or numbers with units from the largest to the smallest.
DURATION = r"^(0|off|(?=[\d.])([\d.]+d)?([\d.]+h)?([\d.]+m)?([\d.]+s)?([\d.]+ms)?)$"
SIZE = r"^(0|off|[\d.]+([kKmMgGtT]([iI]?[bB])?|[bB]))$"

Schema = dict[str, Any]


def options_schema() -> Schema:
    """Describe an object that sets options of `run` by their keys; an unknown key is refused."""
    properties = {option.key: _option_schema(option) for option in RUN_OPTIONS if option.key}
    return {
        "$schema": DIALECT,
        "title": "longwatch options",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _option_schema(option: Option) -> Schema:
    schema = {"description": option.help, **_kind_schema(option)}
    if option.kind in ("sources", "flag"):
        default = list(option.default) if isinstance(option.default, tuple) else option.default
    else:
        default = None if option.default is None else describe(option, option.default)
    return schema if default is None else {**schema, "default": default}


def _kind_schema(option: Option) -> Schema:
    by_kind: dict[str, Schema] = {
        "duration": {"type": "string", "pattern": DURATION},
        "span": {"type": "string", "pattern": DURATION, "not": {"enum": ["0", "off"]}},
        "size": {"type": "string", "pattern": SIZE},
        "flag": {"type": "boolean"},
        "choice": {"enum": list(option.choices)},
        "signal": {"anyOf": [{"enum": list(signal_names())}, {"type": "integer", "minimum": 1}]},
        "name": {"type": "string", "pattern": r"^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,38}[A-Za-z0-9_])?$"},
        "sources": {"type": "array", "items": {"anyOf": [{"enum": list(SOURCES)}, {"pattern": "^file:."}]}},
        "statuses": {
            "type": "object",
            "propertyNames": {"enum": list(REASONS)},
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 255},
        },
    }
    return by_kind.get(option.kind, {"type": "string", "minLength": 1})


def events_schema() -> Schema:
    """Describe one line of a run's events.jsonl: what every event has, and the fields of each."""
    kinds = {kind.__name__: kind for kind in vars(facts).values() if _is_fact(kind)}
    return {
        "$schema": DIALECT,
        "title": "longwatch event",
        "type": "object",
        "properties": {
            "schema": {"const": 1},
            "seq": {"type": "integer", "minimum": 1},
            "at": {"type": "string", "format": "date-time"},
            "mono_ms": {"type": "integer"},
            "event": {"type": "string"},
        },
        "required": ["schema", "seq", "at", "mono_ms", "event"],
        "oneOf": [_event_schema(kind) for kind in kinds.values()],
    }


def _is_fact(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, facts.Fact) and kind is not facts.Fact


def _event_schema(kind: type[facts.Fact]) -> Schema:
    fields = get_type_hints(kind.__init__)
    # The instant of a fact stands in `at` and `mono_ms` of the line.
    properties = {name: _type_schema(fields[name]) for name in kind.__slots__ if name != "at"}
    return {
        "description": (kind.__doc__ or "").split("\n")[0],
        "properties": {"event": {"const": fact_name(kind)}, **properties},
        "required": sorted(properties),
    }


def fact_name(kind: type[facts.Fact]) -> str:
    """Return a fact's name on the wire."""
    return kind.__new__(kind).name


def _type_schema(hint: Any) -> Schema:
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _type_schema(get_args(hint)[0])}
    if isinstance(hint, UnionType):
        return {"type": [_type_schema(part)["type"] for part in get_args(hint)]}
    return {"type": {str: "string", int: "integer", bool: "boolean", NoneType: "null"}[hint]}


_TEXT, _COUNT, _TEXTS = (
    {"type": "string"},
    {"type": "integer", "minimum": 0},
    {"type": "array", "items": {"type": "string"}},
)
_STREAM: Schema = {
    "type": ["object", "null"],
    "properties": {
        "bytes": _COUNT,
        "head": _TEXT,
        "tail": _TEXT,
        "truncated": {"type": "boolean"},
        "lost": _COUNT,
    },
}
_WORD_OR_NONE = {"type": ["string", "null"]}
_AGENT: Schema = {
    "type": ["object", "null"],
    "description": "How the observed agent stood at the end; null where none was observed",
    "properties": {
        "preset": _WORD_OR_NONE,
        "dialect": _WORD_OR_NONE,
        "headless": {"type": "boolean"},
        "live": {"type": "boolean", "description": "Whether it printed its records"},
        "session": {"type": "string", "description": "The id of its conversation"},
        "model": _TEXT,
        "state": {"enum": ["working", "call", "ready", "asked", "paused"]},
        "limit": {
            "type": ["object", "null"],
            "properties": {
                "cls": {"enum": ["rate", "usage", "money", "auth"]},
                "until": _WORD_OR_NONE,
                "text": _TEXT,
            },
        },
        "last_error": _TEXT,
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"call": _TEXT, "tool": _TEXT, "since_ms": _COUNT, "sub": _TEXT},
            },
        },
        "questions": {
            "type": "array",
            "items": {"type": "object", "properties": {"question": _TEXT, "since_ms": _COUNT}},
        },
        "counts": {"type": "object", "additionalProperties": _COUNT},
        "usage": {
            "type": "object",
            "description": "What it has used in this run, as it tells; a cost that it has not told is null",
            "properties": {
                "input_tokens": _COUNT,
                "output_tokens": _COUNT,
                "cached_tokens": _COUNT,
                "total_tokens": _COUNT,
                "cost_usd": {"type": ["number", "null"], "minimum": 0},
            },
        },
        "longest": {
            "type": "array",
            "items": {"type": "object", "properties": {"ms": _COUNT, "state": _TEXT, "tool": _TEXT}},
        },
        "result_ok": {"type": ["boolean", "null"]},
        "pending": {
            "type": "string",
            "description": "Why none of its records was read; empty when some were",
        },
        "files": {
            "type": "array",
            "items": {"type": "object", "properties": {"path": _TEXT, "why": _TEXT}},
        },
    },
}
#: The fields of the report in their order, and what they hold.
REPORT_FIELDS: dict[str, Schema] = {
    "schema": {"const": 1},
    "run": {"type": "string", "description": "NAME-xxxxxx"},
    "name": _TEXT,
    "attempt": {"type": "integer", "minimum": 1},
    "termination_reason": {"enum": list(REASONS)},
    "origin": {"enum": [*ORIGINS, None], "description": "Who cancelled it"},
    "outcome": {"enum": list(OUTCOMES)},
    "verdict": {"enum": ["success", "failure", None], "description": "None where nobody was waiting for it"},
    "exit_code": {"type": ["integer", "null"], "description": "The child's own"},
    "signal": {"type": ["string", "null"], "description": "What the child died of, as TERM"},
    "limit": {"type": ["object", "null"], "description": "The limit that stopped it"},
    "started_at": {"type": "string", "format": "date-time"},
    "duration_ms": _COUNT,
    "idle_ms": {**_COUNT, "description": "The silence before the first signal, or before the end"},
    "progress": {"type": "object", "description": "By source: when it was last seen, and how often"},
    "pauses": {"type": "object", "properties": {"parked_ms": _COUNT}},
    "stdout": _STREAM,
    "stderr": _STREAM,
    "merged": {"type": "boolean", "description": "Both streams are in stdout"},
    "leftovers": {
        "type": "object",
        "description": "What the program left running when it ended by itself",
        "properties": {"count": _COUNT, "processes": _TEXTS, "kept": {"type": "boolean"}},
    },
    "rungs": {"type": "array", "description": "What was done about silence, and when"},
    "survivors": {**_TEXTS, "description": "What could not be ended; empty is the promise"},
    "proof": {**_TEXT, "description": "What that promise rests on"},
    "stopped": {
        "type": ["object", "null"],
        "description": "How it was stopped, and how long that took",
        "properties": {"how": _TEXT, "ms": _COUNT},
    },
    "post_mortem": {
        "type": ["object", "null"],
        "description": "What the tree was doing before the first signal",
    },
    "notes": {**_TEXTS, "description": "What else a reader should know"},
    "agent": _AGENT,
    "resume": {"type": ["string", "null"], "description": "The command that goes on"},
}


def report_schema() -> Schema:
    """Describe the report of a run. Keys are only added within a schema number, so others are allowed."""
    return {
        "$schema": DIALECT,
        "title": "longwatch report",
        "type": "object",
        "properties": REPORT_FIELDS,
        "required": list(REPORT_FIELDS),
    }
