"""The conversations of harnesses: which one each had last, and whether it is to go on.

They stand on the disk, so that neither a crash nor a boot loses one. What an agent calls its conversation is its own
word, and is taken for an id only if it can be nothing else: it becomes a word of a command line.
"""

from longwatch.core.batch import ITEM
from longwatch.core.harness import RESIDENT, SCHEDULED
from longwatch.core.record import Plain
from longwatch.daemon.state import Remembered
from longwatch.errors import StoreError
from longwatch.preset_table import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from longwatch.core.harness import Harness

FILE = "agents.json"
SCHEMA = 1
_LONGEST_ID = 200


class Conversation(Plain):
    """A conversation of a harness: its id, where and with what it was held, and how its last life ended.

    `over` where it is finished or of no more use; `ready` where nothing was left to do until somebody speaks; `limited`
    where a provider's limit ended it.
    """

    __slots__ = ("cwd", "limited", "over", "preset", "ready", "reason", "session")

    def __init__(
        self, session: str = "", reason: str = "", *, cwd: str = "", preset: str = "", over: bool = False,
        ready: bool = False, limited: bool = False,
    ) -> None:  # fmt: skip
        self.session = session
        self.reason = reason
        self.cwd = cwd
        self.preset = preset
        self.over = over
        self.ready = ready
        self.limited = limited


class Conversations:
    """Of all harnesses of one supervisor, in its `folder`; `say` tells people what went wrong."""

    def __init__(self, folder: str, say: "Callable[[str], object]") -> None:
        self._file = Remembered(folder, FILE)
        self._say = say
        self._known = _understood(self._file.read())
        self._unsaved = False
        if self._file.problem:
            say(f"{self._file.problem}; conversations start afresh")

    def of(self, name: str) -> Conversation:
        """Return what is remembered of a harness."""
        return self._known.get(name, Conversation())

    def learned(self, harness: "Harness", session: str) -> None:
        """A run told which one it has: from now on that can go on, however it ends."""
        before = self.of(harness.name)
        if before.session != session or before.reason:
            self.keep(harness, Conversation(session))

    def keep(self, harness: "Harness", conversation: Conversation) -> None:
        """Remember how one stands."""
        conversation.cwd, conversation.preset = harness.cwd, harness.preset or ""
        self._known[harness.name] = conversation
        self._save()

    def forget(self, name: str) -> None:
        """A harness is gone for good."""
        if self._known.pop(name, None) is not None:
            self._save()

    def _save(self) -> None:
        told = {
            "schema": SCHEMA,
            "conversations": {name: each.as_dict() for name, each in self._known.items()},
        }
        try:
            self._file.write(told)
            self._unsaved = False
        except StoreError as error:
            if not self._unsaved:
                self._say(str(error))
            self._unsaved = True


def goes_on(harness: "Harness", conversation: Conversation) -> bool:
    """Whether the next run is about what the last one was: each firing is a task of its own, but for a limit.

    Whether an item of a batch is begun anew is decided before: then its conversation was forgotten.
    """
    lived = bool(conversation.session or conversation.reason) and not conversation.over
    return lived and (
        harness.kind in (RESIDENT, ITEM) or (harness.kind == SCHEDULED and conversation.limited)
    )


def filled(template: "Iterable[str]", session: str) -> list[str]:
    """Return a command line with the id of a conversation in it. Raises ValueError where it would be a hole, or a flag."""
    if not is_session(session):
        raise ValueError(f"{session!r} is no conversation")
    return [word.replace(SESSION, session) for word in template]


def is_session(session: str) -> bool:
    """Whether a word can be the id of one: it is the agent's word, and must be neither a flag nor a path."""
    bare = session.replace("-", "").replace("_", "").replace(".", "").replace(":", "")
    return 0 < len(session) <= _LONGEST_ID and session[0] not in "-." and bare.isascii() and bare.isalnum()


def _understood(told: "Mapping[str, Any]") -> dict[str, Conversation]:
    """Return what was remembered; of a file of another shape what can be understood."""
    found = {}
    known = told.get("conversations")
    for name, each in known.items() if isinstance(known, dict) else ():
        try:
            found[str(name)] = Conversation(**each)
        except TypeError:
            continue
    return found
