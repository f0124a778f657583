"""A local repository on its way to where an item works: what the item begins from, as one bundle for all that begin there.

Nothing is written into the user's repository: what git needs a name for gets it in a clone of ours that shares its
objects.
"""

import os
from binascii import crc32

from longwatch.core.record import Plain
from longwatch.paths import ensure, safe_name
from longwatch.work.steps import Command, Steps, WorkError
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


def pack(
    repository: str, folder: str, *, base: str = "", branch: str = "", resumed: bool = False
) -> Steps[Parcel]:
    """Make the bundle of what an item begins from: `base`, else what is checked out; resumed, its own branch if it is here.

    Raises WorkError: no repository, no such base.
    """
    done = yield _git("rev-parse", "--absolute-git-dir", cwd=repository)
    if not done.ok:
        raise WorkError(f"{repository}: no git repository")
    home = done.words
    name, commit = yield from _start(home, base, branch if resumed else "")
    scratch = os.path.join(ensure(folder), f"{safe_name(repository)}-{crc32(home.encode()):08x}.git")
    if not os.path.isdir(scratch):
        done = yield _git("clone", "--quiet", "--bare", "--shared", home, scratch, limit=CHECKOUT)
        if not done.ok:
            raise WorkError(f"{repository}: {_why(done)}")
    start = f"start-{commit[:16]}"
    file = os.path.join(folder, f"{os.path.basename(scratch)[:-4]}-{start}.bundle")
    if not os.path.exists(file):
        yield from _out(scratch, "update-ref", f"refs/heads/{start}", commit)
        half = f"{file}.{os.getpid()}-{os.urandom(3).hex()}.new"
        done = yield _git(
            "bundle", "create", "--quiet", half, f"refs/heads/{start}", cwd=scratch, limit=CHECKOUT
        )
        if not done.ok:
            yield Command(("rm", "-f", half), LOCAL)
            raise WorkError(f"{repository}: {_why(done)}")
        os.rename(half, file)
    return Parcel(file, os.path.basename(file), start, commit, name)


def _start(home: str, base: str, own: str) -> Steps[tuple[str, str]]:
    """Return the name of what the item begins from, and its commit."""
    if not base:
        done = yield _git("symbolic-ref", "--short", "HEAD", cwd=home)
        base = done.words if done.ok and done.words else "HEAD"
    for name in ([f"refs/heads/{own}"] if own else []) + [base, f"refs/remotes/origin/{base}"]:
        done = yield _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=home)
        if done.ok:
            return (base if name != base else name), done.words
    raise WorkError(f"{home}: no branch, tag or commit {base}")
