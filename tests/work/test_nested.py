"""How deep batches may be nested, and how many may be at work in one tree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.work.nested import CLAMP, BlockedError, Session, entered


@pytest.mark.capability("CAP-57")
def test_a_root_names_its_tree_and_hands_it_down() -> None:
    """Each level is one deeper, in the same tree, under the same limits."""
    root = Session.of({})
    inner = Session.of(root.variables())
    assert (root.depth, inner.depth, inner.tree) == (0, 1, root.tree)
    assert (inner.deepest, inner.most) == (3, 10)
    assert Session.of({}).tree != root.tree


@pytest.mark.capability("CAP-57")
@pytest.mark.parametrize(
    ("told", "deepest"),
    [("5", 5), ("99999999999", 3), ("1000", CLAMP), ("-1", 3), ("x", 3), ("", 3), ("٣", 3), ("0", 0)],
)
def test_a_forged_limit_is_clamped(told: str, deepest: int) -> None:
    """What makes no sense is not believed, what is huge is cut."""
    assert Session.of({"LONGWATCH_TREE_MAX_DEPTH": told}).deepest == deepest


@pytest.mark.capability("CAP-57")
def test_it_goes_no_deeper_than_it_may(tmp_path: Path) -> None:
    """The reason names how deep it is, and the variable."""
    session = Session.of({})
    for _ in range(3):
        with entered(session, str(tmp_path)):
            session = Session.of(session.variables())
    with (
        pytest.raises(BlockedError, match=r"nested 3 deep, and 3 is the most \(LONGWATCH_TREE_MAX_DEPTH\)"),
        entered(session, str(tmp_path)),
    ):
        pass
    assert list((tmp_path / "trees").iterdir()) == []


@pytest.mark.capability("CAP-57")
def test_no_more_are_at_work_than_may_be(tmp_path: Path) -> None:
    """Counted are those alive: one that was killed leaves its place."""
    session = Session("tree", most=2)
    holder = (
        "import sys, time\nfrom longwatch.work.nested import Session, entered\n"
        "with entered(Session('tree', most=2), sys.argv[1]):\n    print(flush=True); time.sleep(60)\n"
    )
    with (
        subprocess.Popen([sys.executable, "-c", holder, str(tmp_path)], stdout=subprocess.PIPE) as other,
        entered(session, str(tmp_path)),
    ):
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(BlockedError, match="2 batches are at work"), entered(session, str(tmp_path)):
            pass
        other.kill()
        other.wait()
        with entered(session, str(tmp_path)):
            assert len(os.listdir(tmp_path / "trees" / "tree")) == 2
    assert not (tmp_path / "trees" / "tree").exists()
