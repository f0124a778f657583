"""What an item begins from, as one file for wherever it is placed."""

import os
from pathlib import Path

import pytest

from longwatch.work.sending import Parcel, Parcels
from longwatch.work.steps import WorkError, walk
from repositories import commit, git, side_by_side


@pytest.fixture
def parcels(tmp_path: Path) -> Parcels:
    return Parcels(str(tmp_path / "send"))


def heads(parcel: Parcel) -> list[str]:
    """Return the commits and names in a bundle, as git says them anywhere."""
    return git("/", "bundle", "list-heads", parcel.file).splitlines()


def test_a_bundle_holds_what_is_checked_out(repository: Path, parcels: Parcels) -> None:
    """It is named after the commit, and nothing is written into the user's repository."""
    before = git(repository, "for-each-ref")
    found = walk(parcels.pack(str(repository)))
    assert (found.base, found.commit) == ("trunk", git(repository, "rev-parse", "HEAD"))
    assert heads(found) == [f"{found.commit} refs/heads/{found.branch}"]
    assert found.name == os.path.basename(found.file)
    assert git(repository, "for-each-ref") == before


def test_items_that_begin_side_by_side_share_one_bundle(
    repository: Path, parcels: Parcels, tmp_path: Path
) -> None:
    """All of them get it, and nothing half is left beside it."""
    ends = side_by_side(*(parcels.pack(str(repository)) for _ in range(4)))
    assert len({parcel and parcel.file for parcel, _ in ends}) == 1
    assert {error and str(error) for _, error in ends} == {None}
    left = sorted(name.rpartition(".")[2] for name in os.listdir(tmp_path / "send"))
    assert left == ["bundle", "git"]


def test_a_bundle_is_made_once_for_each_commit(repository: Path, parcels: Parcels) -> None:
    """The next item that begins from the same one takes the file that is there; a new commit has its own."""
    first = walk(parcels.pack(str(repository)))
    made = os.stat(first.file)
    assert walk(parcels.pack(str(repository))) == first
    assert os.stat(first.file).st_mtime_ns == made.st_mtime_ns
    second = commit(repository, "second")
    later = walk(parcels.pack(str(repository)))
    assert (later.commit, later.file != first.file) == (second, True)
    assert heads(later) == [f"{second} refs/heads/{later.branch}"]


def test_what_was_left_half_is_made_anew(repository: Path, parcels: Parcels, tmp_path: Path) -> None:
    """A batch that was killed meanwhile costs the next one nothing."""
    first = walk(parcels.pack(str(repository)))
    (clone,) = (tmp_path / "send").glob("*.git")
    clone.rename(f"{clone}.new")
    (tmp_path / "send" / f"{clone.name}.new" / "HEAD").unlink()
    second = commit(repository, "second")
    bundle = first.file.replace(first.commit[:16], second[:16])
    for left in (".new", ".new.lock"):
        Path(bundle + left).touch()
    found = walk(parcels.pack(str(repository)))
    assert (found.file, heads(found)) == (bundle, [f"{second} refs/heads/{found.branch}"])


@pytest.mark.parametrize(
    ("base", "resumed", "start"),
    [
        ("v1", False, "v1"),
        ("", True, "task"),
        ("v1", True, "task"),
        ("", False, "trunk"),
        ("far", False, "origin/far"),
    ],
)
def test_where_an_item_begins(
    repository: Path, parcels: Parcels, base: str, resumed: bool, start: str
) -> None:
    """From its base, a branch of the remote too; resumed from its own branch; else from what is checked out."""
    git(repository, "tag", "v1")
    git(repository, "branch", "task")
    git(repository, "update-ref", "refs/heads/task", commit(repository, "second"))
    git(repository, "update-ref", "refs/remotes/origin/far", commit(repository, "third"))
    commit(repository, "fourth")
    found = walk(parcels.pack(str(repository), base=base, branch="task", resumed=resumed))
    assert found.commit == git(repository, "rev-parse", start)


def test_a_branch_that_is_not_here_begins_from_the_base(repository: Path, parcels: Parcels) -> None:
    """A resumed item whose branch never came back begins where it began."""
    found = walk(parcels.pack(str(repository), branch="task", resumed=True))
    assert (found.base, found.commit) == ("trunk", git(repository, "rev-parse", "HEAD"))


def test_without_a_branch_checked_out_it_begins_from_the_commit(repository: Path, parcels: Parcels) -> None:
    """A head that is detached is a commit as good as any."""
    git(repository, "checkout", "--quiet", "--detach")
    assert walk(parcels.pack(str(repository))).base == "HEAD"


def test_what_cannot_be_packed_says_why(repository: Path, parcels: Parcels, tmp_path: Path) -> None:
    """One line names what is missing, and nothing is made."""
    with pytest.raises(WorkError, match="no branch, tag or commit nowhere"):
        walk(parcels.pack(str(repository), base="nowhere"))
    (tmp_path / "plain").mkdir()
    with pytest.raises(WorkError, match="plain: no git repository"):
        walk(parcels.pack(str(tmp_path / "plain")))
    assert not (tmp_path / "send").exists()
