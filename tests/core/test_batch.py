"""What a workstream is, as plain values."""

from longwatch.core.batch import ITEM, Workstream, changed
from longwatch.core.facts import RunParked
from longwatch.core.harness import Harness
from longwatch.core.plan import Item


def test_a_workstream_is_its_item_and_how_it_runs() -> None:
    """Its id is the item's; what nobody said is as little as can be."""
    work = Workstream(Item("a", ("b",)), Harness("a", ("true",), kind=ITEM), labels={"gpu": "yes"})
    assert (work.id, work.item.needs, work.harness.command) == ("a", ("b",), ("true",))
    assert (work.git, work.prompt, work.levels, work.result) == (None, None, (), False)
    assert work.labels == {"gpu": "yes"}
    assert work.values_from == {}


def test_a_parked_run_says_until_when() -> None:
    """And by which kind of limit."""
    fact = RunParked(5, "usage", 9_000)
    assert (fact.name, fact.as_dict()) == ("run_parked", {"at": 5, "cls": "usage", "until": 9_000})


def test_a_harness_with_other_values_is_a_new_one() -> None:
    """What is not named stays as it was; the old one is untouched."""
    old = Harness("a", ("true",), kind=ITEM, cwd="/tmp")
    new = changed(old, command=("false",))
    assert (new.command, new.cwd, old.command) == (("false",), "/tmp", ("true",))
    assert changed(new, command=("true",)) == old
