"""The events of an observed agent, from the folder of its run (see `runtime.agent_log`), for `logs`."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from longwatch.store.run_folders import Folder

_NAME = "agent.jsonl"


def path_of(folder: Folder) -> str:
    """Return the file of the newest events; it need not exist."""
    return os.path.join(folder.path, _NAME)


def has_events(folder: Folder) -> bool:
    """Whether an agent's events are kept of a run, or will be: its agent is observed, and it runs."""
    awaited = folder.live and os.path.exists(os.path.join(folder.path, "agent.json"))
    return awaited or os.path.exists(path_of(folder))


def stored(folder: Folder, lines: int | None) -> list[dict[str, Any]]:
    """Return the last events that are kept, or all of them, oldest first."""
    pieces: list[bytes] = []
    for path in (path_of(folder) + ".1", path_of(folder)):
        with suppress(OSError), open(path, "rb") as file:
            pieces += [file.read(), b"\n"]
    found = list(parsed(pieces))
    return found if lines is None else found[len(found) - min(lines, len(found)) :]


def parsed(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the events in pieces of a file; a line that is torn, or no event, is passed over.

    A result is kept without the name of its tool; it is told with it.
    """
    rest, tools = b"", dict[str, Any]()
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                yield _named(event, tools)


def _named(event: dict[str, Any], tools: dict[str, Any]) -> dict[str, Any]:
    call = str(event.get("call"))
    if event.get("kind") == "tool_call":
        tools[call] = event.get("tool")
    if event.get("kind") != "tool_result" or call not in tools:
        return event
    tool = tools[call] if event.get("partial") else tools.pop(call)
    return {**event, "tool": tool}
