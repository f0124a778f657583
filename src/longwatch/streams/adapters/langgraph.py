"""langgraph: what `astream(stream_mode=...)` and `astream_events()` yield. Its events are plain, so name the reader.

Of the modes, `tasks` tells when a node begins and ends, `messages` the model's words as they come, `updates` what a
node has written. A node is a call like a tool's, with one exception: nodes that ask the model (`models`) hold
nothing, for a silent model is exactly what an idle limit is to find. A graph's end is the end of its stream.
"""

from longwatch.observe import events as e
from longwatch.observe.acp import look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ClassVar

    from longwatch.observe.acp import Events
    from longwatch.streams.adapters import Read

#: The names that the library's own agents give to the node that asks the model.
MODELS = ("model", "agent")
_MODES = ("tasks", "messages", "updates", "values", "custom", "checkpoints", "debug")


def reader(models: "Iterable[str]" = MODELS) -> "Read":
    """Return what reads one run of a graph; `models` are the nodes that ask the model."""
    return Graph(models).read


class Graph:
    """Reads the events of one run of a graph, in their order."""

    __slots__ = ("_models", "_streamed")

    def __init__(self, models: "Iterable[str]" = MODELS) -> None:
        self._models = frozenset(models)
        self._streamed = False  # words come as messages, so updates only repeat them

    def read(self, event: object) -> "Events":
        """Return what an event means; nothing for one without a meaning of its own."""
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            reader = self._EVENTS.get(event["event"])
            return () if reader is None else reader(self, event)
        mode, data = _part(event)
        reader = self._PARTS.get(mode)
        return () if reader is None else reader(self, data)

    # -- stream modes

    def _task(self, task: object) -> "Events":
        call, node = str(look(task, "id")), str(look(task, "name"))
        if not isinstance(task, dict) or node in self._models:
            return ()
        if "input" in task:
            return (_began(call, node, task["input"]),)
        asked = task.get("interrupts")
        why, result = _outcome(task.get("error"), task.get("result"))
        why = "interrupted" if asked and not why else why
        return (e.ToolResult(call, not why, why=why, result=result), *_asked(asked, node))

    def _debug(self, record: object) -> "Events":
        return self._task(look(record, "payload")) if look(record, "type") in ("task", "task_result") else ()

    def _message(self, pair: object) -> "Events":
        self._streamed = True
        message = pair[0] if isinstance(pair, tuple | list) and pair else pair
        return _words(message)

    def _update(self, update: object) -> "Events":
        found: list[e.Event] = []
        for node, written in update.items() if isinstance(update, dict) else ():
            if node == "__interrupt__":
                found += _asked(written, "")
            elif not self._streamed:
                messages = look(written, "messages")
                for message in messages if isinstance(messages, list | tuple) else ():
                    found += _words(message)
        return tuple(found)

    # -- astream_events

    def _tool_began(self, event: "dict[str, Any]") -> "Events":
        given = look(event.get("data"), "input")
        return (e.ToolCalled(str(event.get("run_id")), str(event.get("name") or ""), given),)

    def _tool_over(self, event: "dict[str, Any]") -> "Events":
        data = event.get("data")
        output, error = look(data, "output"), look(data, "error")
        ok = error is None and look(output, "status") != "error"
        result = error if error is not None else look(output, "content")
        return (e.ToolResult(str(event.get("run_id")), ok, why="" if ok else "error", result=result),)

    def _chunk(self, event: "dict[str, Any]") -> "Events":
        return _words(look(event.get("data"), "chunk"))

    _PARTS: "ClassVar[dict[str, Callable[[Graph, Any], Events]]]" = {
        "tasks": _task,
        "debug": _debug,
        "messages": _message,
        "updates": _update,
    }
    _EVENTS: "ClassVar[dict[str, Callable[[Graph, Any], Events]]]" = {
        "on_tool_start": _tool_began,
        "on_tool_end": _tool_over,
        "on_tool_error": _tool_over,
        "on_chat_model_stream": _chunk,
    }


def _part(event: object) -> tuple[str, object]:
    """Return an event's mode and data: they are wrapped differently for one mode, several, and with subgraphs."""
    if isinstance(event, dict):
        return _alone(event)
    if not isinstance(event, tuple | list) or len(event) not in (2, 3):
        return "", event
    if isinstance(event[-2], str) and event[-2] in _MODES:
        return event[-2], event[-1]
    if isinstance(event[0], tuple):  # a subgraph's name, and one mode alone
        return _part(event[-1])
    return "messages", event


def _alone(event: "dict[str, Any]") -> tuple[str, object]:
    """Tell by its keys what a record is: newer versions name the mode, one mode alone goes unnamed."""
    if "data" in event and event.get("type") in _MODES:
        return str(event["type"]), event["data"]
    if "payload" in event and "type" in event:
        return "debug", event
    if "id" in event and "name" in event and ("input" in event or "result" in event):
        return "tasks", event
    return "updates", event


def _began(call: str, node: str, given: object) -> e.Event:
    """A node begins. Where it carries out one call of a tool, the tool's name and arguments count.

    What a graph hands to its nodes is no question that a model repeats, so no two of them are the same call.
    """
    asked = look(given, "tool_call") or (given[0] if isinstance(given, list) and len(given) == 1 else None)
    if isinstance(asked, dict) and asked.get("name"):
        return e.ToolCalled(call, str(asked["name"]), asked.get("args"))
    return e.ToolCalled(call, node, call)


def _outcome(error: object, written: object) -> tuple[str, object]:
    """Return why a node failed, if it did, and what it came to.

    A tool's failure may be handed to the model as a message. Of messages only what they say counts: their ids would
    make every answer another one.
    """
    if error:
        return "error", error
    messages = look(written, "messages")
    tools = (
        [one for one in messages if look(one, "type") == "tool"] if isinstance(messages, list | tuple) else []
    )
    bad = any(look(one, "status") == "error" for one in tools)
    return "error" if bad else "", [look(one, "content") for one in tools] or written


def _asked(interrupts: object, node: str) -> "list[e.Event]":
    asked = interrupts if isinstance(interrupts, list | tuple) else ()
    return [e.Permission("waiting", str(look(question, "id") or ""), node) for question in asked]


def _words(message: object) -> "Events":
    """Return the model's words of a message or a part of one; those of tools and people are none."""
    if str(look(message, "type")) not in ("ai", "AIMessageChunk"):
        return ()
    content = look(message, "content")
    parts = content if isinstance(content, list | tuple) else [content]
    texts = [part if isinstance(part, str) else look(part, "text") or "" for part in parts]
    words = "".join(map(str, texts))
    return (e.Text(words),) if words else (e.Thinking(),)
