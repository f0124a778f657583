"""Work trees of git: made, found again, brought home, removed only when nothing in them is waited for."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from longwatch.core.spec import SECOND
from longwatch.work import trees
from longwatch.work.steps import WorkError, walk
from longwatch.work.trees import Place, Trees, bring_home, bundle, dirty, merged, remove
from repositories import commit, git, side_by_side


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Trees]:
    return Trees(str(tmp_path / "clones"), lambda: 0.5)  # type: ignore[return-value]


def place(made: Trees, repository: Path | str, name: str = "a", **words: object) -> Place:
    path = str(Path(made._folder).parent / "work" / name)
    return walk(made.prepare(str(repository), path, f"agent/{name}", **words))  # type: ignore[arg-type]


def test_a_tree_begins_from_what_is_checked_out(made: Trees, repository: Path) -> None:
    """A branch of its own beside the user's, who sees nothing move."""
    first = git(repository, "rev-parse", "HEAD")
    found = place(made, repository)
    assert (found.base, found.commit, found.branch) == ("trunk", first, "agent/a")
    assert git(found.path, "branch", "--show-current") == "agent/a"
    assert git(repository, "branch", "--show-current") == "trunk"
    assert git(repository, "status", "--porcelain") == ""


@pytest.mark.capability("CAP-45")
def test_a_tree_that_is_resumed_stands_as_it_was_left(made: Trees, repository: Path) -> None:
    """Commits and changes of the attempt before are there."""
    found = place(made, repository)
    tip = commit(found.path, "work")
    Path(found.path, "draft").write_text("half")
    again = place(made, repository, resume=True)
    assert (again.path, again.commit) == (found.path, tip)
    assert Path(again.path, "draft").read_text() == "half"


@pytest.mark.capability("CAP-46")
@pytest.mark.fault("T2")
def test_a_tree_that_begins_anew_throws_nothing_away(made: Trees, repository: Path) -> None:
    """The old tip stays reachable, a tree with changes is moved aside, a clean one is replaced."""
    found = place(made, repository)
    tip = commit(found.path, "work")
    again = place(made, repository)
    assert again.commit == git(repository, "rev-parse", "trunk")
    kept = git(repository, "for-each-ref", "--format=%(objectname)", "refs/longwatch/kept/agent/a")
    assert kept == tip
    Path(again.path, "draft").write_text("half")
    place(made, repository)
    (aside,) = Path(again.path).parent.glob("a.kept-*")
    assert (aside / "draft").read_text() == "half"
    assert not Path(again.path, "draft").exists()


def test_a_tree_that_cannot_be_kept_is_not_begun_anew(made: Trees, repository: Path) -> None:
    """Changes stay where they are, and the branch where it was; the line says why."""
    found = place(made, repository)
    tip = commit(found.path, "work")
    Path(found.path, "draft").write_text("half")
    git(repository, "worktree", "lock", found.path)
    with pytest.raises(WorkError, match="a: it holds changes, and cannot be moved aside"):
        place(made, repository)
    assert Path(found.path, "draft").read_text() == "half"
    git(repository, "worktree", "unlock", found.path)
    git(repository, "update-ref", "refs/longwatch/kept", tip)
    with pytest.raises(WorkError, match="cannot lock ref"):
        place(made, repository)
    assert git(repository, "rev-parse", "agent/a") == tip


def test_a_tree_in_the_middle_of_a_merge_is_kept_as_it_is(
    made: Trees, repository: Path, tmp_path: Path
) -> None:
    """The item begins anew beside it."""
    found = place(made, repository)
    commit(found.path, "work")
    commit(repository, "second")
    with pytest.raises(subprocess.CalledProcessError):
        git(found.path, "merge", "--quiet", "trunk")
    assert Path(place(made, repository).path, "file").read_text() == "second"
    (kept,) = (tmp_path / "work").glob("a.kept-*")
    assert git(kept, "status", "--porcelain") == "UU file"


def test_a_branch_whose_tree_was_removed_by_hand_gets_another_one(
    made: Trees, repository: Path, tmp_path: Path
) -> None:
    """Git still believes in the old one; nobody has to tidy up first."""
    shutil.rmtree(place(made, repository).path)
    found = walk(made.prepare(str(repository), str(tmp_path / "elsewhere"), "agent/a"))
    assert git(found.path, "branch", "--show-current") == "agent/a"


def test_many_trees_of_one_repository(made: Trees, repository: Path) -> None:
    """Each on its branch, from the base that was named."""
    git(repository, "tag", "v1")
    commit(repository, "second")
    found = [place(made, repository, name, base="v1") for name in ("a", "b", "c")]
    assert {one.commit for one in found} == {git(repository, "rev-parse", "v1")}
    assert git(repository, "worktree", "list").count("agent/") == 3


@pytest.mark.capability("CAP-58")
def test_too_little_space_is_refused(made: Trees, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is made, with what is free and what is wanted."""
    monkeypatch.setattr(trees, "FREE", 10**18)
    with pytest.raises(WorkError, match="GB are free"):
        place(made, repository)
    assert not Path(made._folder).parent.joinpath("work").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [({"base": "nowhere"}, "no branch, tag or commit nowhere"), ({}, "no git repository")],
)
def test_what_cannot_be_made_says_why(
    made: Trees, repository: Path, tmp_path: Path, words: dict[str, str], why: str
) -> None:
    """One line each."""
    folder = repository if words else tmp_path
    with pytest.raises(WorkError, match=why) as error:
        place(made, folder, **words)
    assert "\n" not in str(error.value)


def test_a_branch_that_somebody_has_checked_out_is_not_taken_away(made: Trees, repository: Path) -> None:
    """Git's own words say where."""
    git(repository, "checkout", "--quiet", "-b", "agent/a")
    with pytest.raises(WorkError, match=r"work/a: .*(already|cannot)"):
        place(made, repository, base="trunk")
    assert git(repository, "branch", "--show-current") == "agent/a"


@pytest.mark.capability("CAP-58")
def test_a_repository_elsewhere_is_cloned_once_and_fetched_then(made: Trees, repository: Path) -> None:
    """Its default branch is what the remote calls its head; what is new there is seen by the next tree."""
    url = f"file://{repository}"
    found = place(made, url)
    assert found.base == "refs/remotes/origin/trunk"
    tip = commit(repository, "second")
    assert place(made, url, "b").commit == tip
    assert len(os.listdir(made._folder)) == 1


def test_items_that_begin_side_by_side_have_a_tree_each(
    made: Trees, repository: Path, tmp_path: Path
) -> None:
    """Git tidies up for one while it makes the tree of another; each one is there, whole."""
    names = [f"n{number}" for number in range(6)]
    steps = [made.prepare(str(repository), str(tmp_path / "work" / name), name) for name in names]
    assert [error for _, error in side_by_side(*steps)] == [None] * len(names)
    for name in names:
        assert Path(tmp_path, "work", name, "file").read_text() == "first"
        assert git(tmp_path / "work" / name, "status", "--porcelain") == ""


def test_a_tree_whose_files_do_not_come_is_not_left_half(
    made: Trees, repository: Path, tmp_path: Path
) -> None:
    """The next try begins with nothing in its way."""
    Path(repository, ".gitattributes").write_text("file filter=broken\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "--quiet", "-m", "broken")
    git(repository, "config", "filter.broken.smudge", "false")
    git(repository, "config", "filter.broken.required", "true")
    with pytest.raises(WorkError, match="filter"):
        place(made, repository)
    assert list((tmp_path / "work").iterdir()) == []
    git(repository, "config", "filter.broken.smudge", "cat")
    assert Path(place(made, repository).path, "file").exists()


@pytest.mark.capability("CAP-58")
def test_items_that_begin_side_by_side_share_one_clone(made: Trees, repository: Path, tmp_path: Path) -> None:
    """One of them makes it, or brings it up to date; each has its own tree."""
    url = f"file://{repository}"

    def begun(*names: str) -> set[tuple[str | None, str | None]]:
        steps = [made.prepare(url, str(tmp_path / "work" / name), name) for name in names]
        return {(found and found.commit, error and str(error)) for found, error in side_by_side(*steps)}

    assert begun("a", "b", "c") == {(git(repository, "rev-parse", "HEAD"), None)}
    assert len(os.listdir(made._folder)) == 1
    second = commit(repository, "second")
    assert begun("d", "e") == {(second, None)}


@pytest.mark.capability("CAP-58")
def test_a_remote_that_is_not_there_is_told_and_may_come_back(made: Trees, tmp_path: Path) -> None:
    """The look at it is short; nothing is left of the try."""
    with pytest.raises(WorkError) as error:
        place(made, f"file://{tmp_path}/nowhere")
    assert error.value.transient
    assert not os.path.isdir(made._folder) or os.listdir(made._folder) == []


@pytest.mark.capability("CAP-58")
def test_a_remote_without_a_head_falls_back_and_says_so(
    made: Trees, repository: Path, tmp_path: Path
) -> None:
    """The note names what was taken."""
    bare = tmp_path / "headless.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), str(bare))
    git(bare, "branch", "-m", "trunk", "main")
    git(bare, "symbolic-ref", "HEAD", "refs/heads/gone")
    found = place(made, f"file://{bare}")
    assert found.base == "refs/remotes/origin/main"
    assert "main is taken" in found.notes[0]


def test_a_clone_that_cannot_be_fetched_is_used_as_it_is(
    made: Trees, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage of the remote costs what is new there, not the work."""
    url = f"file://{repository}"
    first = place(made, url)
    repository.rename(repository.with_name("moved"))
    monkeypatch.setattr("longwatch.work.steps.BUDGET", 0)
    monkeypatch.setattr(trees, "tried", lambda command, drawn: _once(command))
    second = place(made, url, "b", base="trunk")
    assert second.commit == first.commit
    assert "not fetched" in second.notes[0]


def _once(command: trees.Command):  # type: ignore[no-untyped-def]
    return (yield command)


@pytest.mark.capability("CAP-54")
def test_only_a_merged_tree_without_changes_is_removed(made: Trees, repository: Path) -> None:
    """Why it stays is said; gone is the folder and the branch."""
    found = place(made, repository)
    commit(found.path, "work")
    assert walk(remove(found)) == "agent/a is not merged into trunk"
    git(repository, "merge", "--quiet", "agent/a")
    Path(found.path, "draft").write_text("half")
    assert walk(remove(found)) == "it holds changes that are in no commit"
    os.unlink(Path(found.path, "draft"))
    assert walk(remove(found)) == ""
    assert not os.path.exists(found.path)
    assert git(repository, "branch", "--list", "agent/a") == ""


@pytest.mark.capability("CAP-54")
def test_the_same_changes_in_other_commits_are_merged(made: Trees, repository: Path) -> None:
    """A rebase or a cherry-pick is a merge, too."""
    found = place(made, repository)
    tip = commit(found.path, "work")
    Path(repository, "other").write_text("x")
    git(repository, "add", "other")
    git(repository, "commit", "--quiet", "-m", "other")
    assert not walk(merged(found))
    git(repository, "cherry-pick", tip)
    assert walk(merged(found))


def test_a_tree_that_cannot_be_looked_at_counts_as_changed(tmp_path: Path) -> None:
    """What is not known to be clean is not removed."""
    assert walk(dirty(str(tmp_path)))


def test_a_bundle_comes_home_only_forward(made: Trees, repository: Path, tmp_path: Path) -> None:
    """Verified first; a branch moves forward to it, and never back or aside."""
    found = place(made, repository)
    file = str(tmp_path / "a.bundle")
    assert not walk(bundle(found, file))
    tip = commit(found.path, "work")
    assert walk(bundle(found, file))
    home = tmp_path / "home"
    git(tmp_path, "clone", "--quiet", "-b", "trunk", str(repository), str(home))
    assert walk(bring_home(str(home), file, "agent/a")) == tip
    assert walk(bring_home(str(home), file, "agent/a")) == tip
    git(home, "checkout", "--quiet", "agent/a")
    own = commit(home, "of another")
    git(home, "checkout", "--quiet", "trunk")
    commit(found.path, "more work")
    walk(bundle(found, file))
    git(home, "reset", "--quiet", "--hard", "trunk")
    with pytest.raises(WorkError, match="cannot be moved forward"):
        walk(bring_home(str(home), file, "agent/a"))
    assert git(home, "rev-parse", "agent/a") == own


@pytest.mark.parametrize("damage", ["cut", "not one", "foreign"])
def test_a_damaged_bundle_changes_nothing(made: Trees, repository: Path, tmp_path: Path, damage: str) -> None:
    """Cut off, no bundle at all, or of another repository."""
    home = tmp_path / "home"
    git(tmp_path, "clone", "--quiet", "--no-local", str(repository), str(home))
    found = place(made, repository)
    commit(found.path, "work")
    file = tmp_path / "a.bundle"
    walk(bundle(found, str(file)))
    if damage == "foreign":
        home = tmp_path / "foreign"
        git(tmp_path, "init", "--quiet", "-b", "trunk", str(home))
        commit(home, "another")
    else:
        file.write_bytes(file.read_bytes()[:-30] if damage == "cut" else b"nothing")
    before = git(home, "for-each-ref")
    with pytest.raises(WorkError):
        walk(bring_home(str(home), str(file), "agent/a"))
    assert git(home, "for-each-ref") == before


def test_the_limits_of_network_steps() -> None:
    """A look is short, a clone may take minutes; each has an end by the clock."""
    assert (trees.PROBE, trees.LOOK, trees.CLONE) == (10 * SECOND, 30 * SECOND, 300 * SECOND)


def test_a_bundle_that_cannot_be_written_is_no_bundle(made: Trees, repository: Path, tmp_path: Path) -> None:
    """Nobody takes the work for brought home; the line names the branch."""
    found = place(made, repository)
    commit(found.path, "work")
    with pytest.raises(WorkError, match=r"^agent/a: "):
        walk(bundle(found, str(tmp_path / "no" / "folder")))


def test_a_tree_that_is_no_tree_any_more_is_named(made: Trees, repository: Path) -> None:
    """It is the folder that has to be looked at, not the repository."""
    found = place(made, repository)
    Path(found.path, ".git").unlink()
    with pytest.raises(WorkError, match=f"^{found.path}: "):
        place(made, repository, resume=True)
