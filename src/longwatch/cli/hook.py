"""`longwatch hook`: the hook command of agents that have hooks. What one says of itself becomes a line in its run.

The agent waits for us at every call of a tool, so this loads little, reads what it is given, and is gone: with status
0 whatever happened, and without a word, because agents take both for an opinion. Outside a run nothing is done, so it
may stand in the settings of every conversation.

Kept are kinds, names and ids. What was asked, said or answered never leaves this process: of arguments and results
there is a mark, equal for equal ones within a run, and of a failed request the words of the provider.
"""

import os
import select
import time

from longwatch.channel import append_line
from longwatch.jsonlean import dumps, parse_object
from longwatch.paths import run_folder, state
from longwatch.posix import now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _blake2 import blake2s
    from typing import Any, NoReturn
else:
    try:
        from _blake2 import blake2s
    except ImportError:  # pragma: no cover - another Python
        from hashlib import blake2s

#: A message that is larger (a picture in a result) is read by its ends.
MOST = 1 << 20
_END = 64 * 1024
#: An agent writes its message at once and closes the pipe; we do not wait for one that does not.
PATIENCE_MS = 2_000
#: A run whose agent is that talkative has its transcript.
FULL = 32 << 20
_WORD, _WORDS = 200, 300
#: Texts of a message that are kept, and what they are called in ours.
_KEPT = {
    "session_id": "session",
    "tool_name": "tool",
    "tool_use_id": "call",
    "agent_id": "sub",
    "notification_type": "type",
    "source": "source",
    "reason": "reason",
    "model": "model",
    "transcript_path": "transcript",
}
#: What is looked for in a message whose middle is missing.
_OUTERMOST = ("hook_event_name", "session_id", "tool_name", "tool_use_id", "agent_id", "transcript_path")
#: Whose `reason` is a word and not somebody's sentence.
_REASONED = ("SessionEnd",)
#: What a notification says in versions that do not name its type.
_TYPES = (("permission", "permission_prompt"), ("waiting for your input", "idle_prompt"))
_CODE = "Exit code "


def main(_argv: "list[str]") -> "NoReturn":
    """Pass on what stdin holds, if this is inside a run, and end with 0."""
    try:
        data = read(0)
        run = os.environ.get("LONGWATCH_RUN_ID", "")
        if run:
            _pass_on(data, os.path.join(run_folder(state(), run), "channel"), run)
    finally:
        # Whatever went wrong here, the agent's work goes on, and it hears nothing of it.
        os._exit(0)


def _pass_on(data: bytes, channel: str, run: str) -> None:
    """Append what is kept of a message to a run's channel; where the run has no folder this fails, as it should."""
    kept = outline(data, run)
    if kept and _size(channel) < FULL:
        stamps = {"op": "hook", "at_ms": now(), "wall_ms": time.time_ns() // 1_000_000}
        append_line(channel, {**stamps, **kept})


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def read(descriptor: int) -> bytes:
    """Return what a pipe holds up to its end; of more than a MiB both ends. Empty when the end does not come."""
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    deadline = now() + PATIENCE_MS
    data, cut = b"", False
    while (left := deadline - now()) > 0 and ready.poll(left):
        chunk = os.read(descriptor, _END)
        if not chunk:
            return data
        data += chunk
        if len(data) > MOST or (cut and len(data) > 3 * _END):
            data, cut = data[:_END] + data[-_END:], True
    return b""


def outline(data: bytes, run: str) -> "dict[str, Any]":
    """Return what is kept of a message; nothing of what is none. Marks are good within the run."""
    found = parse_object(data) or _ends(data)
    event = found.get("hook_event_name")
    if not isinstance(event, str):
        return {}
    kept: dict[str, Any] = {"event": event[:_WORD]}
    for name, ours in _KEPT.items():
        value = found.get(name)
        if isinstance(value, str) and value and (name != "reason" or event in _REASONED):
            kept[ours] = value if ours == "transcript" else value[:_WORD]
    _add_call(kept, found, run)
    if event == "Notification" and "type" not in kept:
        said = str(found.get("message"))
        kept["type"] = next((word for part, word in _TYPES if part in said), "")
    if event == "StopFailure":
        # Words of the provider, in a record that is an error: they may say when a limit ends.
        kept["error"] = str(found.get("error", ""))[:_WORD]
        kept["said"] = str(found.get("error_details") or found.get("last_assistant_message") or "")[:_WORDS]
    return kept


def _add_call(kept: "dict[str, Any]", found: "dict[str, object]", run: str) -> None:
    """Add what tells one call from another, and how it ended."""
    given, answer, error = found.get("tool_input"), found.get("tool_response"), found.get("error")
    if given is not None:
        kept["mark"] = _mark(given, run)
        if isinstance(given, dict) and given.get("run_in_background") is True:
            kept["background"] = True
    if answer is not None:
        kept["result"] = _mark(answer, run)
    if kept["event"] == "PostToolUseFailure":
        kept["result"] = _mark(error, run)
        kept["interrupt"] = found.get("is_interrupt") is True
        code = str(error).removeprefix(_CODE)[:4].split("\n")[0]
        if str(error).startswith(_CODE) and code.isdecimal():
            kept["code"] = int(code)


def _mark(value: object, run: str) -> str:
    """Return a short text that is equal for equal values of one run, and tells nothing of them."""
    return blake2s(dumps(value).encode(), digest_size=8, key=run.encode()[-32:]).hexdigest()


def _ends(data: bytes) -> "dict[str, object]":
    """Return the texts in a message whose middle is missing.

    Inside of a text every quote is escaped, so a bare key is a key. Ours are the outermost: first in the head, else
    last in the tail.
    """
    found: dict[str, object] = {}
    if len(data) < 2 * _END:
        return found
    for name in _OUTERMOST:
        key = b'"%s":' % name.encode()
        at = data.find(key, 0, _END)
        at = data.rfind(key) if at < 0 else at
        if at >= 0:
            value = data[at + len(key) :].lstrip()[:4096]
            text = (
                parse_object(b'{"v":"' + value[1:].partition(b'"')[0] + b'"}') if value[:1] == b'"' else None
            )
            if text is not None:
                found[name] = text["v"]
    return found


def __getattr__(name: str) -> "Any":
    """Make the click command when the group asks for it; agents take the way that needs none."""
    if name != "command":
        raise AttributeError(name)
    from longwatch.cli.hook_config import command_around  # noqa: PLC0415

    return command_around(main)


__all__ = ["main", "outline", "read"]
