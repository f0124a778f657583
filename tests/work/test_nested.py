"""How deep batches may be nested, and how many may be at work in one tree."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from longwatch.work import nested
from longwatch.work.nested import CLAMP, BlockedError, Session, entered


@pytest.mark.capability("CAP-57")
def test_a_root_names_its_tree_and_hands_it_down() -> None:
    """Each level is one deeper, in the same tree, under the same limits."""
    root = Session.of({})
    inner = Session.of(root.variables())
    assert (root.depth, inner.depth, inner.tree) == (0, 1, root.tree)
    assert (inner.deepest, inner.most) == (3, 10)
    names = {"ID": root.tree, "DEPTH": "1", "MAX_DEPTH": "3", "MAX_SESSIONS": "10"}
    assert root.variables() == {f"LONGWATCH_TREE_{name}": value for name, value in names.items()}
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


def test_two_that_come_at_the_same_moment_see_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has taken a place and not yet held it keeps it: the other one waits until that is done."""
    session, real = Session("tree", most=1), fcntl.flock
    refused: list[str] = []

    def come() -> None:
        try:
            with entered(session, str(tmp_path)):
                refused.append("")
        except BlockedError as error:
            refused.append(str(error))

    other = threading.Thread(target=come)

    def flock(fd: int, how: int) -> None:
        taken = os.path.dirname(os.readlink(f"/proc/self/fd/{fd}")).endswith("/tree")
        if taken and not other.ident:
            other.start()
            other.join(0.2)
        real(fd, how)

    monkeypatch.setattr(nested.fcntl, "flock", flock)
    with entered(session, str(tmp_path)):
        other.join(10)
        assert ["1 batches are at work" in why for why in refused] == [True]
    assert list((tmp_path / "trees").iterdir()) == []
