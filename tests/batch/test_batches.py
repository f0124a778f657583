"""Which plans were run, and what is asked of the batch that runs one."""

import fcntl
import os
from pathlib import Path

import pytest

from longwatch.errors import StoreError, UsageError
from longwatch.store import batches
from longwatch.store.batches import Asks, Known, all_known, ask, holder, named, remember


def known(state: str, folder: Path, name: str) -> Known:
    """Note a plan that was run."""
    (folder / name).mkdir(parents=True)
    one = Known(name, str(folder / f"{name}.toml"), str(folder / name))
    remember(state, one)
    return one


def test_a_plan_is_found_by_its_name_or_its_file(tmp_path: Path) -> None:
    """From anywhere; a word without an item, or of no plan, means none."""
    state = str(tmp_path / "state")
    assert all_known(state) == []
    a, b = known(state, tmp_path, "a"), known(state, tmp_path, "b")
    assert all_known(state) == [a, b]
    assert named(state, "a/one") == (a, "one")
    assert named(state, f"{b.plan}/two") == (b, "two")
    assert [named(state, word) for word in ("a", "a/", "/one", "c/one")] == [None] * 4


def test_of_plans_with_one_name_the_file_tells(tmp_path: Path) -> None:
    """The name alone is refused with the files."""
    state = str(tmp_path / "state")
    one, other = known(state, tmp_path / "x", "a"), known(state, tmp_path / "y", "a")
    with pytest.raises(UsageError, match=f"a is the name of several plans; .*{one.plan}, {other.plan}"):
        named(state, "a/item")
    assert named(state, f"{other.plan}/item") == (other, "item")


def test_what_is_gone_or_damaged_is_passed_over(tmp_path: Path) -> None:
    """A plan whose states were removed is forgotten."""
    state = str(tmp_path / "state")
    gone = known(state, tmp_path, "gone")
    os.rmdir(gone.base)
    (tmp_path / "state" / "batches" / "bad.json").write_text("{")
    assert all_known(state) == []
    assert os.listdir(tmp_path / "state" / "batches") == ["bad.json"]
    (tmp_path / "flat").write_text("")
    with pytest.raises(StoreError):
        remember(str(tmp_path / "flat"), gone)


def test_who_runs_a_plan_is_told_by_its_lock(tmp_path: Path) -> None:
    """Its pid while it is held; nobody once it is free, or where there is none."""
    assert holder(str(tmp_path)) is None
    with (tmp_path / batches.LOCK).open("w") as file:
        file.write("77")
        file.flush()
        assert holder(str(tmp_path)) is None
        fcntl.flock(file, fcntl.LOCK_EX)
        assert holder(str(tmp_path)) == 77
        file.truncate(0)
        assert holder(str(tmp_path)) == 0


def test_what_is_asked_is_heard_once(tmp_path: Path) -> None:
    """From now on, whole lines, in order; what was asked of an earlier batch is not heard."""
    ask(str(tmp_path), op="stop", item="old")
    asks = Asks(str(tmp_path))
    assert asks.read() == []
    ask(str(tmp_path), op="stop", item="a")
    with (tmp_path / batches.ASKS).open("a") as file:
        file.write('no json\n{"op": "st')
        file.flush()
        assert asks.read() == [{"op": "stop", "item": "a"}]
        file.write('art"}\n')
    assert asks.read() == [{"op": "start"}]
    assert asks.read() == []
    asks.close()
    with pytest.raises(StoreError):
        ask(str(tmp_path / "gone"), op="stop")
