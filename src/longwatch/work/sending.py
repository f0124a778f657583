"""A local repository on its way to where an item works: what the item begins from, as one bundle for all that begin there.

Nothing is written into the user's repository: what git needs a name for gets it in a clone of ours that shares its
objects.
"""

import os
from binascii import crc32

from longwatch.core.record import Plain
from longwatch.paths import ensure, safe_name
from longwatch.work.steps import Command, Shared, Steps, WorkError
from longwatch.work.trees import CHECKOUT, LOCAL, _git, _out, _why


class Parcel(Plain):
    """What is sent: the file, its name there, the branch in it that the item begins from, its commit, what it is called here."""

    __slots__ = ("base", "branch", "commit", "file", "name")

    def __init__(self, file: str, name: str, branch: str, commit: str, base: str) -> None:
        self.file = file
        self.name = name
        self.branch = branch
        self.commit = commit
        self.base = base


class Parcels:
    """The bundles of one batch in a folder; items that begin side by side from the same commit share one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._making: Shared[None] = Shared()

    def pack(
        self, repository: str, *, base: str = "", branch: str = "", resumed: bool = False
    ) -> Steps[Parcel]:
        """Make the bundle of what an item begins from: `base`, else what is checked out; resumed, its own branch if it is here.

        Raises WorkError: no repository, no such base.
        """
        done = yield _git("rev-parse", "--absolute-git-dir", cwd=repository)
        if not done.ok:
            raise WorkError(f"{repository}: no git repository")
        home = done.words
        name, commit = yield from _start(home, base, branch if resumed else "")
        known = f"{safe_name(repository)}-{crc32(home.encode()):08x}"
        scratch = os.path.join(ensure(self._folder), f"{known}.git")
        yield from self._making.go(scratch, _clone(home, scratch))
        start = f"start-{commit[:16]}"
        file = os.path.join(self._folder, f"{known}-{start}.bundle")
        yield from self._making.go(file, _bundle(scratch, start, commit, file))
        return Parcel(file, os.path.basename(file), start, commit, name)


def _clone(home: str, scratch: str) -> Steps[None]:
    """Make the clone that names are given in, unless it is there: whole, or not at all."""
    if os.path.isdir(scratch):
        return
    half = f"{scratch}.new"
    yield Command(("rm", "-rf", "--", half), LOCAL)
    done = yield _git("clone", "--quiet", "--bare", "--shared", home, half, limit=CHECKOUT)
    if not done.ok:
        raise WorkError(f"{home}: {_why(done)}")
    os.rename(half, scratch)


def _bundle(scratch: str, start: str, commit: str, file: str) -> Steps[None]:
    """Make a bundle, unless it is there: whole, or not at all."""
    if os.path.exists(file):
        return
    yield from _out(scratch, "update-ref", f"refs/heads/{start}", commit)
    half = f"{file}.new"
    yield Command(("rm", "-f", "--", half, f"{half}.lock"), LOCAL)
    done = yield _git("bundle", "create", "--quiet", half, f"refs/heads/{start}", cwd=scratch, limit=CHECKOUT)
    if not done.ok:
        raise WorkError(f"{scratch}: {_why(done)}")
    os.rename(half, file)


def _start(home: str, base: str, own: str) -> Steps[tuple[str, str]]:
    """Return the base, and the commit that the item begins from: of its own branch where that is here."""
    if not base:
        done = yield _git("symbolic-ref", "--short", "HEAD", cwd=home)
        base = done.words if done.ok and done.words else "HEAD"
    for name in ([f"refs/heads/{own}"] if own else []) + [base, f"refs/remotes/origin/{base}"]:
        done = yield _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=home)
        if done.ok:
            return base, done.words
    raise WorkError(f"{home}: no branch, tag or commit {base}")
