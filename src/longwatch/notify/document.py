"""The document of a notice: what channels are told. Version 1, keys are only added.

A title is a name and two or three words, a message is one sentence, a hint is the command that comes next.
"""

from longwatch import vocabulary
from longwatch.paths import rfc3339

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.notify.incidents import Telling
    from longwatch.notify.word import Word

VERSION = 1
#: How many names a sentence can hold; all of them are in `harnesses`.
NAMES = 40
#: How many a command can.
_HINTED = 8
#: Verbs that take one name, or none.
_OF_ONE, _OF_NONE = ("why", "attach"), ("doctor",)
_SUBJECTS = {"ledger": "the record of runs", "late": "the supervisor", "test": "a test notice"}


def document(telling: "Telling", host: str, wall: int, config: str = "") -> dict[str, object]:
    """Return what a channel is told: version 1, keys are only added. Times are RFC 3339, spans ms; not yet redacted.

    `harness` is null where the notice is of several, or of the daemon itself. `config` is the file
    that its commands have to name, if any.
    """
    words = telling.words
    one = words[0] if len(words) == 1 else None
    first, names = words[0], [word.harness for word in words if word.harness]
    return {
        "version": VERSION,
        "event": telling.event,
        "harness": (one.harness or None) if one else None,
        "harnesses": names,
        "host": host,
        "state": (one.state or None) if one else None,
        "title": f"{_subject(telling)} {first.what if one else first.many}",
        "message": _one(first, telling) if one else _several(telling, names),
        "cause": "; ".join(dict.fromkeys(word.cause for word in words if word.cause)) or None,
        "hint": _hint(first, names, config) or None,
        "time": rfc3339(wall),
        "exit_code": one.exit_code if one else None,
        "restarts": one.restarts if one else None,
        "tool": (one.tool or None) if one else None,
        "count": one.count if one else len(words),
        "run": (one.run or None) if one else None,
        "idle_ms": max((word.idle_ms for word in words if word.idle_ms is not None), default=None),
        "tree": list(one.tree) if one else [],
        "still_out": list(telling.still_out),
    }


def _subject(telling: "Telling") -> str:
    words = telling.words
    if len(words) > 1:
        return f"{len(words)} harnesses"
    # The end of a trouble of the daemon itself can only be that of its record.
    return words[0].harness or _SUBJECTS.get(telling.event, _SUBJECTS["ledger"])


def _one(word: "Word", telling: "Telling") -> str:
    joint = " " if word.detail.startswith(("and ", "until ", "after ", "for ")) else ": "
    return f"{_subject(telling)} {word.what}{joint * bool(word.detail)}{word.detail}{_others(telling)}"


def _several(telling: "Telling", names: list[str]) -> str:
    listed = ", ".join(names[:NAMES]) + (f" and {len(names) - NAMES} more" if len(names) > NAMES else "")
    together = "; what they share may be the cause: network, provider, disk" if telling.incident else ""
    return f"{_subject(telling)} {telling.words[0].many}: {listed}{together}{_others(telling)}"


def _others(telling: "Telling") -> str:
    return f"; not yet: {', '.join(telling.still_out[:NAMES])}" if telling.still_out else ""


def _hint(word: "Word", names: list[str], config: str) -> str:
    if len(names) > 1 and (not word.hint or len(names) > _HINTED or word.hint in _OF_ONE):
        return vocabulary.command("ls", config=config)
    return vocabulary.command(word.hint, () if word.hint in _OF_NONE else names, config) if word.hint else ""
