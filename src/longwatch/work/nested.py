"""Batches inside of batches: how deep they may go, and how many of them may be at work in one tree.

An agent that starts a batch whose agents start batches is stopped before it fills the machine. The tree is named by
variables that every item inherits; who is at work holds a lock on a file, so a dead one never counts.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping

from longwatch.core.record import Plain
from longwatch.errors import LongwatchError
from longwatch.paths import ensure, safe_name

TREE = "LONGWATCH_TREE_ID"
DEPTH = "LONGWATCH_TREE_DEPTH"
MAX_DEPTH = "LONGWATCH_TREE_MAX_DEPTH"
MAX_SESSIONS = "LONGWATCH_TREE_MAX_SESSIONS"
DEEPEST, MOST = 3, 10
#: Whoever writes the variables cannot ask for more than this.
CLAMP = 32


class BlockedError(LongwatchError):
    """No further batch may begin in this tree; str(e) says why."""


class Session(Plain):
    """Where a batch stands in its tree: the tree's id, its own depth (0 at the root), what is allowed."""

    __slots__ = ("deepest", "depth", "most", "tree")

    def __init__(self, tree: str, depth: int = 0, deepest: int = DEEPEST, most: int = MOST) -> None:
        self.tree = tree
        self.depth = depth
        self.deepest = deepest
        self.most = most

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Session":
        """Return the session that the variables tell of; a root of its own where they do not, or make no sense."""
        depth = _number(environ.get(DEPTH), 0)
        tree = safe_name(environ.get(TREE, "")) if environ.get(TREE) else os.urandom(6).hex()
        return cls(
            tree,
            depth,
            min(_number(environ.get(MAX_DEPTH), DEEPEST), CLAMP),
            min(_number(environ.get(MAX_SESSIONS), MOST), CLAMP),
        )

    def variables(self) -> dict[str, str]:
        """Return what each item inherits: one level further down."""
        return {
            TREE: self.tree, DEPTH: str(self.depth + 1), MAX_DEPTH: str(self.deepest), MAX_SESSIONS: str(self.most)
        }  # fmt: skip


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 9 else default


@contextlib.contextmanager
def entered(session: Session, state: str) -> Iterator[None]:
    """Be at work in the tree. Raises BlockedError where it goes no deeper, or where enough are at work already."""
    if session.depth >= session.deepest:
        raise BlockedError(
            f"batches are nested {session.depth} deep, and {session.deepest} is the most ({MAX_DEPTH})"
        )
    trees = ensure(os.path.join(state, "trees"))
    folder = os.path.join(trees, session.tree)
    with _alone(trees):
        path, descriptor = _taken(session, ensure(folder))
    try:
        yield
    finally:
        with _alone(trees):
            os.unlink(path)
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        os.close(descriptor)


@contextlib.contextmanager
def _alone(trees: str) -> Iterator[None]:
    """Be the only one who comes or goes: between a look at who is there and the next step nobody else does."""
    descriptor = os.open(trees, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _taken(session: Session, folder: str) -> tuple[str, int]:
    """Take a place in the tree: a file that is held."""
    at_work = sum(_is_held(os.path.join(folder, name)) for name in os.listdir(folder))
    if at_work >= session.most:
        raise BlockedError(
            f"{at_work} batches are at work in this tree, and {session.most} is the most ({MAX_SESSIONS})"
        )
    path = os.path.join(folder, f"{os.getpid()}-{os.urandom(3).hex()}")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return path, descriptor


def _is_held(path: str) -> bool:
    """Whether somebody alive holds the file; one that nobody holds is removed."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
