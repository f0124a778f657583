"""Git work trees of workstreams: made, found again, brought home, removed when nothing in them is waited for.

A tree is a branch of its own beside the user's. What it holds is never thrown away unseen: a tree with uncommitted
changes stays, and the tip of a branch that is begun anew stays reachable under `refs/longwatch/kept/`.
"""

import os
import time
from binascii import crc32
from collections.abc import Callable

from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, SECOND
from longwatch.paths import safe_name
from longwatch.work.steps import Command, Done, Shared, Steps, Turns, WorkError, tried

#: How long steps over a network may take, by the clock: a look at a remote, its default branch, a clone, a fetch.
PROBE, LOOK, CLONE, FETCH = 10 * SECOND, 30 * SECOND, 5 * MINUTE, 60 * SECOND
#: Steps on this machine; a checkout of a large repository is the slowest.
LOCAL, CHECKOUT = 30 * SECOND, 5 * MINUTE
#: Below so many bytes no tree is made: a disk that fills up costs every item its work.
FREE = 5 * 1000**3

#: Git asks nobody, speaks plainly, and takes no lock that it can do without.
_ENV = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
_LOCKED = ("index.lock", "could not lock", "unable to create", "cannot lock ref", "for writing")


class Place(Plain):
    """Where a workstream works: the repository (a folder of ours or the user's), the tree, its branch, what it began from."""

    __slots__ = ("base", "branch", "commit", "notes", "path", "repository")

    def __init__(
        self, repository: str, path: str, branch: str, base: str, commit: str, notes: tuple[str, ...] = ()
    ) -> None:
        self.repository = repository
        self.path = path
        self.branch = branch
        self.base = base
        self.commit = commit
        self.notes = notes


class Trees:
    """The work trees of one batch; `folder` holds clones of repositories that are not on this machine."""

    def __init__(self, folder: str, drawn: Callable[[], float]) -> None:
        self._folder = os.path.realpath(folder)
        self._drawn = drawn
        #: Items begin side by side, and many with the same repository.
        self._fetching: Shared[tuple[str, ...]] = Shared()
        #: What git tidies up for one could be what it is about to write for another.
        self._adding = Turns()

    def prepare(
        self, repository: str, path: str, branch: str, base: str = "", *, resume: bool = False
    ) -> Steps[Place]:
        """Make the tree at `path` on `branch`, begun from `base` (the default branch); `resume` takes it as it stands.

        Raises WorkError: no space, no repository, no such base, a branch that is checked out elsewhere.
        """
        _require_space(os.path.dirname(path))
        home, notes = yield from self._repository(repository)
        if resume and os.path.isdir(path):
            commit = yield from _out(home, "rev-parse", "HEAD", cwd=path)
            return Place(home, path, branch, base, commit, notes)
        if not base:
            base, more = yield from self._default_branch(home)
            notes += more
        name, start = yield from self._start(home, base)
        yield from self._make(home, path, branch, start)
        return Place(home, path, branch, name, start, notes)

    def _repository(self, repository: str) -> Steps[tuple[str, tuple[str, ...]]]:
        """Return a repository on this machine: the user's own folder, or a clone of what is elsewhere."""
        local = os.path.expanduser(repository)
        if os.path.isdir(local):
            done = yield _git("rev-parse", "--git-common-dir", cwd=local)
            if not done.ok:
                raise WorkError(f"{repository}: no git repository")
            return os.path.realpath(local), ()
        clone = os.path.join(self._folder, f"{safe_name(repository)}-{crc32(repository.encode()):08x}.git")
        return clone, (yield from self._fetching.go(clone, self._fetch(repository, clone)))

    def _fetch(self, repository: str, clone: str) -> Steps[tuple[str, ...]]:
        """Have a clone that is as new as can be; return what is to be told of it."""
        if os.path.isdir(clone):
            done = yield from tried(
                _git("fetch", "--prune", "--quiet", "origin", cwd=clone, limit=FETCH), self._drawn
            )
            return () if done.ok else (f"{repository}: not fetched ({_why(done)}); what is here is used",)
        done = yield _git("ls-remote", "--quiet", repository, "HEAD", limit=PROBE)
        if not done.ok:
            raise WorkError(f"{repository}: {_why(done)}", transient=True)
        yield from self._clone(repository, clone)
        return ()

    def _clone(self, repository: str, clone: str) -> Steps[None]:
        """Make a repository without branches of its own: those of the remote stay the remote's."""
        half = f"{clone}.{os.getpid()}.new"
        yield _git("init", "--quiet", "--bare", half)
        yield _git("remote", "add", "origin", repository, cwd=half)
        done = yield from tried(_git("fetch", "--quiet", "origin", cwd=half, limit=CLONE), self._drawn)
        if not done.ok:
            yield Command(("rm", "-rf", half), LOCAL)
            raise WorkError(f"{repository}: {_why(done)}", transient=True)
        os.rename(half, clone)

    def _default_branch(self, home: str) -> Steps[tuple[str, tuple[str, ...]]]:
        """Return what work begins from where nobody said: what is checked out, or what the remote calls its head."""
        if not self._is_clone(home):
            done = yield _git("symbolic-ref", "--short", "HEAD", cwd=home)
            if done.ok and done.words:
                return done.words, ()
        done = yield _git("ls-remote", "--symref", "origin", "HEAD", cwd=home, limit=LOOK)
        for line in done.said.splitlines():
            if line.startswith("ref: refs/heads/"):
                return line.split()[1].removeprefix("refs/heads/"), ()
        return "main", (f"{home}: its default branch is not known ({_why(done)}); main is taken",)

    def _is_clone(self, home: str) -> bool:
        return os.path.dirname(home) == self._folder

    def _start(self, home: str, base: str) -> Steps[tuple[str, str]]:
        """Return the name of what work begins from, and its commit."""
        for name in (base, f"refs/remotes/origin/{base}"):
            done = yield _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=home)
            if done.ok:
                return name, done.words
        raise WorkError(f"{home}: no branch, tag or commit {base}")

    def _make(self, home: str, path: str, branch: str, start: str) -> Steps[None]:
        yield from self._adding.take(home, self._add(home, path, branch, start))
        done = yield _git("checkout", "--quiet", "--force", cwd=path, limit=CHECKOUT)
        if not done.ok:
            yield _git("worktree", "remove", "--force", path, cwd=home)
            raise WorkError(f"{path}: {_why(done)}", transient=done.code is None)

    def _add(self, home: str, path: str, branch: str, start: str) -> Steps[None]:
        """Have git know of the tree; its files come later, for they take longer."""
        yield from self._put_away(home, path, branch)
        command = _git(
            "worktree", "add", "--quiet", "--force", "--no-checkout", "-B", branch, path, start, cwd=home
        )
        done = yield command
        if any(word in done.said for word in _LOCKED):  # others make trees of the same repository
            done = yield from tried(command, self._drawn)
        if not done.ok:
            raise WorkError(f"{path}: {_why(done)}", transient=done.code is None)

    def _put_away(self, home: str, path: str, branch: str) -> Steps[None]:
        """Clear the way for a tree that is begun anew; what the branch held stays under a name of ours.

        Raises WorkError where it cannot: what would be lost is not touched.
        """
        if os.path.isdir(path):
            changed = yield from dirty(path)
            if changed:
                aside = f"{path}.kept-{_stamp()}"
                done = yield _git("worktree", "move", path, aside, cwd=home)
                if not done.ok:
                    raise WorkError(f"{path}: it holds changes, and cannot be moved aside ({_why(done)})")
                # A checkout would look at the index first, and that may be in the middle of a merge.
                tip = yield from _out(aside, "rev-parse", "HEAD")
                yield from _out(aside, "update-ref", "--no-deref", "HEAD", tip)
            else:
                yield _git("worktree", "remove", "--force", path, cwd=home)
        yield _git("worktree", "prune", cwd=home)
        done = yield _git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", cwd=home)
        if done.ok:
            yield from _out(home, "update-ref", f"refs/longwatch/kept/{branch}/{_stamp()}", done.words)
        elif done.code != 1:  # it may be there
            raise WorkError(f"{home}: {_why(done)}", transient=True)


def dirty(path: str) -> Steps[bool]:
    """Return whether a tree holds what is in no commit. One that cannot be looked at counts as if."""
    done = yield _git("status", "--porcelain", cwd=path)
    return not done.ok or bool(done.said.strip())


def merged(place: Place) -> Steps[bool]:
    """Return whether all that the branch holds is in its base: as it is, or commit by commit in other words."""
    done = yield _git("merge-base", "--is-ancestor", place.branch, place.base, cwd=place.repository)
    if done.ok:
        return True
    done = yield _git("cherry", place.base, place.branch, cwd=place.repository)
    return done.ok and not any(line.startswith("+") for line in done.said.splitlines())


def stays(place: Place) -> Steps[str]:
    """Return why a tree must not be removed: unmerged, or with changes that are in no commit; empty where nothing is lost."""
    if not (yield from merged(place)):
        return f"{place.branch} is not merged into {place.base}"
    if os.path.isdir(place.path) and (yield from dirty(place.path)):
        return "it holds changes that are in no commit"
    return ""


def remove(place: Place) -> Steps[str]:
    """Remove the tree and its branch, which must be merged; return why it stays, or nothing where it is gone."""
    why = yield from stays(place)
    if why:
        return why
    if os.path.isdir(place.path):
        done = yield _git("worktree", "remove", place.path, cwd=place.repository)
        if not done.ok:
            return _why(done)
    yield _git("branch", "-D", place.branch, cwd=place.repository)
    return ""


def bundle(place: Place, file: str) -> Steps[bool]:
    """Write what the branch has beyond what it began from into a bundle; False where that is nothing."""
    done = yield _git("rev-list", "--count", f"{place.commit}..{place.branch}", cwd=place.repository)
    if done.ok and done.words == "0":
        return False
    done = yield _git(
        "bundle", "create", "--quiet", file, f"{place.commit}..{place.branch}", cwd=place.repository
    )
    if not done.ok:
        raise WorkError(f"{place.branch}: {_why(done)}")
    return True


def bring_home(repository: str, file: str, branch: str) -> Steps[str]:
    """Verify a bundle, then move the branch forward to what it holds; return the commit. Never moves it back or aside.

    Raises WorkError for a bundle that is damaged, does not fit this repository, or would drop commits of the branch.
    """
    done = yield _git("bundle", "verify", "--quiet", file, cwd=repository)
    if not done.ok:
        raise WorkError(f"{file}: {_why(done)}; nothing was changed")
    done = yield _git(
        "fetch", "--quiet", file, f"refs/heads/{branch}:refs/heads/{branch}", cwd=repository, limit=FETCH
    )
    if not done.ok:
        raise WorkError(
            f"{branch} cannot be moved forward to what came back ({_why(done)}); it stays as it is, and {file} too"
        )
    return (yield from _out(repository, "rev-parse", f"refs/heads/{branch}"))


def _out(home: str, *words: str, cwd: str | None = None) -> Steps[str]:
    done = yield _git(*words, cwd=cwd or home)
    if not done.ok:
        raise WorkError(f"{cwd or home}: {_why(done)}")
    return done.words


def _git(*words: str, cwd: str | None = None, limit: int = LOCAL) -> Command:
    # Tidying up in the background is for who has the time.
    return Command(
        ("git", "-c", "gc.auto=0", "-c", "maintenance.auto=false", *words), limit, cwd, {**os.environ, **_ENV}
    )


def _why(done: Done) -> str:
    return (
        "git took too long"
        if done.code is None
        else done.words.removeprefix("fatal: ") or f"git exited {done.code}"
    )


def _require_space(folder: str) -> None:
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    found = os.statvfs(there)
    free = found.f_bavail * found.f_frsize
    if free < FREE:
        raise WorkError(
            f"{folder}: {free / 1000**3:.1f} GB are free, a work tree is made from {FREE // 1000**3} GB on"
        )


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime())
