"""Readers of agents' event streams: what an event of an SDK means, in the closed model of `observe.events`.

Nothing of an SDK is imported. An event is known by the root of its class's module, its fields are looked up by name,
and an odd one raises nothing. A module of ours is loaded when the first event of its SDK comes.

A *reader* is a callable that takes an event and returns what it means; it serves one stream, because a whole message
may repeat parts that were told before. Three answers are kept apart: events; no events for a typed event that has no
word of its own, which is progress all the same (only retries and keep-alives are not); and an event that says so
where nothing moved (`Heartbeat`, `Retry`, `Limited`, `Failed`).
"""

import json
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from longwatch.observe.events import Event

    Read = Callable[[Any], Iterable[Event]]

#: Whose events each module reads, by the root of their classes' module. Graphs of langgraph stream plain dicts and
#: tuples, and the lines of a program are bytes: there a reader has to be named.
ROOTS = {
    "claude_agent_sdk": "claude",
    "agents": "openai_agents",
    "pydantic_ai": "pydantic_ai",
    "acp": "acp",
}
#: Our own lines: `ndjson.lines` makes them, so no reader need be named for them.
_LINES = "longwatch.streams.adapters.ndjson"


def for_type(cls: type, readers: "dict[str, Read] | None" = None) -> "Read | None":
    """Return what reads events of this class, or None where no SDK that we know made it.

    `readers` is the memory of one stream, empty at first: all classes of an SDK share the stream's one reader. Left
    out, the reader is a fresh one. The answer for a class never changes within a stream, so keep it.
    """
    module = cls.__module__
    name = "ndjson" if module == _LINES else ROOTS.get(module.partition(".")[0])
    if name is None:
        return None
    known: dict[str, Read] = {} if readers is None else readers
    if name not in known:
        known[name] = import_module(f"{__name__}.{name}").reader()
    return known[name]


def parsed(arguments: object) -> object:
    """Return a call's arguments as values where they are JSON in a text: the order of keys makes no other call."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
