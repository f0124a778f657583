"""Where the known agents keep the records of their conversations, and by what each says which process writes which.

Versions in which this was seen: Claude Code 2.1, Codex 0.171, Copilot CLI 1.0, Gemini CLI 0.61, Qwen
Code 0.15, opencode 1.18, pi 0.73.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping

from longwatch.core.record import Plain
from longwatch.observe.record import instant
from longwatch.posix.files import Walk, matches

#: So much of a file tells whose it is: its first records name the directory and the time.
_HEAD = 64 << 10
_STAMPS = (b'"timestamp":"', b'"startTime":"')
_ID = 36


class Place(Plain):
    """One agent's place, below `root` (or below the folder that the variable `variable` names).

    `main` is the pattern of a conversation's file, `{id}` standing for its conversation and `{id8}` for the first part
    of that; `helpers` the pattern of its sub-agents' files beside that (`{stem}` is its name without the ending); `registry`
    the file that tells which conversation the process `{pid}` has, by its folder `{id}` or by what stands in it.
    `by_folder`: the agent tells in no such way. `names` are the names of its program.
    """

    __slots__ = ("by_folder", "helpers", "main", "names", "registry", "root", "variable")

    def __init__(
        self, names: tuple[str, ...], root: str, main: str, *, variable: str = "", helpers: str = "",
        registry: str = "", by_folder: bool = False,
    ) -> None:  # fmt: skip
        self.names = names
        self.root = root
        self.main = main
        self.variable = variable
        self.helpers = helpers
        self.registry = registry
        self.by_folder = by_folder

    def folder(self, environ: Mapping[str, str]) -> str:
        """Return the real folder that an agent with this environment writes below."""
        home = environ.get("HOME") or os.path.expanduser("~")
        return os.path.realpath(environ.get(self.variable) or self.root.replace("~", home, 1))


PLACES = {
    # Opens its file for each record. Its registry has the status of each process, left behind by one that was killed.
    "claude": Place(
        ("claude",), "~/.claude", "projects/*/{id}.jsonl", variable="CLAUDE_CONFIG_DIR",
        helpers="{stem}/subagents/**/*.jsonl", registry="sessions/{pid}.json",
    ),
    # Keeps its file open, and those of its sub-agents.
    "codex": Place(("codex",), "~/.codex", "sessions/*/*/*/rollout-*{id}.jsonl", variable="CODEX_HOME"),
    "copilot": Place(
        ("copilot",), "~/.copilot", "session-state/{id}/events.jsonl", variable="COPILOT_HOME",
        registry="session-state/{id}/inuse.{pid}.lock",
    ),
    "gemini": Place(
        ("gemini",), "~/.gemini", "tmp/*/chats/session-*{id8}.jsonl", helpers="{id8}-*/*.jsonl", by_folder=True,
    ),
    # One database for all conversations; what is below `main` is its path.
    "opencode": Place(
        ("opencode",), "~/.local/share", "opencode/opencode.db", variable="XDG_DATA_HOME", by_folder=True,
    ),
    "qwen": Place(("qwen",), "~/.qwen", "projects/*/chats/{id}.jsonl", by_folder=True),
    "pi": Place(
        ("pi",), "~/.pi/agent", "sessions/*/*{id}.jsonl", variable="PI_CODING_AGENT_DIR", by_folder=True,
    ),
}  # fmt: skip


class State(Plain):
    """What a look at a conversation showed; `written` in ms since 1970."""

    __slots__ = ("inode", "size", "written")

    def __init__(self, inode: int, size: int, written: int) -> None:
        self.inode = inode
        self.size = size
        self.written = written


class Shelf:
    """One agent's place for one user, where each conversation is a file (a database: see `rows`)."""

    def __init__(self, place: Place, environ: Mapping[str, str]) -> None:
        self.place = place
        self.root = place.folder(environ)

    def all(self) -> Iterator[str]:
        """Yield the files of all conversations, as far as one look at folders goes."""
        return iter(Walk(self._main("*", "*")))

    def of_session(self, session: str) -> Iterator[str]:
        """Yield the files of one conversation. A name that would lead out of the folder is nobody's."""
        if _is_word(session):
            found = Walk(self._main(session, session[:8]))
            yield from (path for path in found if os.path.exists(path))

    def holds(self, path: str) -> bool:
        """Whether a file with this path would be a conversation's."""
        parts, names = self._main("*", "*").split("/"), path.split("/")
        return len(names) == len(parts) and all(map(matches, names, parts))

    def helpers(self, main: str) -> Iterator[str]:
        """Yield the files of a conversation's sub-agents."""
        if self.place.helpers:
            folder, name = os.path.split(main)
            stem = os.path.splitext(name)[0]
            below = self.place.helpers.replace("{stem}", stem).replace("{id8}", stem.rpartition("-")[2])
            yield from Walk(f"{folder}/{below}")

    def registries(self, pid: int) -> Iterator[str]:
        """Yield where it may stand which conversation a process has; not all of these paths need to exist."""
        if self.place.registry:
            pattern = self.place.registry.replace("{pid}", str(pid)).replace("{id}", "*")
            yield from Walk(f"{self.root}/{pattern}")

    def state(self, path: str) -> State | None:
        """Return what a file looks like now; None when it cannot be looked at."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return State(found.st_ino, found.st_size, found.st_mtime_ns // 1_000_000)

    def belongs(self, path: str, folders: Collection[str]) -> bool:
        """Whether a conversation's first records name one of these folders, by its path or by the hash of that."""
        first = head(path)
        paths = (
            json.dumps(folder, ensure_ascii=False).encode(errors="surrogateescape") for folder in folders
        )
        hashes = (hashlib.sha256(os.fsencode(folder)).hexdigest().encode() for folder in folders)
        return any(mark in first for mark in (*paths, *hashes))

    def begun(self, path: str) -> int | None:
        """Return the first time in a conversation, in ms since 1970; None where there is none."""
        first = head(path)
        places = [(first.find(stamp), len(stamp)) for stamp in _STAMPS if stamp in first]
        if not places:
            return None
        at, size = min(places)
        return instant(first[at + size :].partition(b'"')[0].decode(errors="replace"))

    def is_id(self, word: str) -> bool:
        """Whether a word is a UUID, as these agents name their conversations."""
        return len(word) == _ID and word.count("-") == 4 and _is_word(word)

    def _main(self, session: str, short: str) -> str:
        return f"{self.root}/{self.place.main}".replace("{id}", session).replace("{id8}", short)


def head(path: str) -> bytes:
    """Return the first 64 KiB of a file; nothing of one that cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _is_word(name: str) -> bool:
    """Whether a name may stand in a path: whatever an agent calls its conversations, it is letters, digits and bars."""
    return bool(name) and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
