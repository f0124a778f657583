"""What carries a notice: the user's command, or apprise in a process of its own. Each is a short bounded command.

No shell reads its words. What a channel is told comes on its stdin; an address never stands in an argument, where
every user of the machine could read it.
"""

import os
import sys

from longwatch.jsonlean import dumps
from longwatch.notify.secrets import service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from longwatch.notify.settings import Settings

    class Command(Protocol):
        """A command that runs."""

        def cancel(self) -> None:
            """End it, with its tree."""

    Document = Mapping[str, Any]
    #: argv, limit_ms, on_done(code or None, output), env, stdin. Raises OSError.
    RunBounded = Callable[..., Command]

OK, ERROR, TIMEOUT = "ok", "error", "timeout"
HOOK = "hook"
#: Our own variables would make the hook a part of a run, or set the options of one that it starts.
PREFIX = "LONGWATCH_"
#: How much of a failing command's output is kept, in characters.
OUTPUT = 2048
#: Our own folder is that of all threads, so it is a shell that goes to the hook's; it reads none of the words.
_IN_FOLDER = ("/bin/sh", "-c", 'cd -- "$1" 2>/dev/null; shift; exec "$@"', "longwatch")
_KINDS = {"recovered": "success", "unparked": "success", "test": "info", "asked": "info", "parked": "warning"}


class Hook:
    """The user's command. It finds the notice as JSON on stdin, and the five words that matter as variables.

    It runs in `folder`, or where that is gone in `/`: a notice is needed then too.
    """

    def __init__(self, argv: tuple[str, ...], folder: str = "") -> None:
        self.name = HOOK
        self.argv = [*_IN_FOLDER, folder, *argv] if folder else list(argv)

    def stdin(self, document: "Document") -> bytes:
        """Return what the command reads."""
        return dumps(document).encode() + b"\n"

    def variables(self, document: "Document") -> dict[str, str]:
        """Return what the command finds in its environment."""
        words = ("event", "harness", "host", "state", "message")
        return {PREFIX + word.upper(): str(document[word] or "") for word in words}


class Apprise:
    """One address of apprise."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.argv = [sys.executable, "-P", "-m", "longwatch.notify.by_apprise"]

    def stdin(self, document: "Document") -> bytes:
        """Return what our sender reads."""
        lines = (document["message"], document["cause"], *document["tree"], document["hint"])
        told = {
            "url": self.url,
            "title": f"{document['title']} ({document['host']})",
            "body": "\n".join(line for line in lines if line),
            "kind": _KINDS.get(document["event"], "failure"),
        }
        return dumps(told).encode()

    def variables(self, document: "Document") -> dict[str, str]:
        """Return nothing: all is on stdin."""
        return {}


def channels(settings: "Settings", folder: str = "") -> "dict[str, Hook | Apprise]":
    """Return the channels by name: `hook`, and each address by its service, numbered where that is not enough."""
    found: dict[str, Hook | Apprise] = {}
    if settings.hook:
        found[HOOK] = Hook(settings.hook, folder)
    for url in settings.urls:
        name = base = f"apprise:{service(url)}"
        number = 1
        while name in found:
            number += 1
            name = f"{base}:{number}"
        found[name] = Apprise(name, url)
    return found


def apprise_is_missing() -> bool:
    """Whether the package is not there. Nothing is loaded to find out."""
    return not any(finder.find_spec("apprise", None) for finder in sys.meta_path)


def clean_environment(redact: "Callable[[str], str]") -> dict[str, str]:
    """Return our environment without our own variables, and without those that hold a harness's secret."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(PREFIX) and redact(value) == value
    }


def _end_of(text: str, length: int) -> str:
    """Return the end of an output of that length. Its first line may begin within a secret: it goes."""
    if length > OUTPUT:
        text = text.partition("\n")[2][-OUTPUT:]
    return text.strip()


def send(
    channel: "Hook | Apprise", document: "Document", run_bounded: "RunBounded", *, limit: int,
    env: "Mapping[str, str]", redact: "Callable[[str], str]", done: "Callable[[str, str], object]",
) -> "Command | None":  # fmt: skip
    """Start a channel on one notice. `done(result, error)` comes once it is over; at once where it cannot start."""

    def over(code: int | None, output: str) -> None:
        said = _end_of(redact(output), len(output))
        if code == 0:
            done(OK, "")
        elif code is None:
            done(
                TIMEOUT,
                f"took longer than {limit // 1000}s and was stopped" + (f"; it said: {said}" * bool(said)),
            )
        else:
            done(
                ERROR,
                said
                if isinstance(channel, Apprise) and said
                else f"exited {code}" + f": {said}" * bool(said),
            )

    try:
        return run_bounded(
            channel.argv, limit_ms=limit, on_done=over, env={**env, **channel.variables(document)},
            stdin=channel.stdin(document),
        )  # fmt: skip
    except OSError as error:
        done(ERROR, f"cannot be started: {redact(str(error))}")
        return None
