"""PLAN/ITEM, as the verbs that take a run take it: an item of a batch, by what is kept of it."""

import os
import time
from typing import Any

from longwatch.cli.kept import Kept
from longwatch.cli.render import UNKNOWN, clean, fail
from longwatch.core.spec import GRACE
from longwatch.core.workstream import RUNNING, TIMED_OUT
from longwatch.paths import inner_id, state
from longwatch.store import batches
from longwatch.store.workstreams import Workstreams
from longwatch.units import nearest

#: Beside the grace: how long a batch may take to see to what it is asked.
PATIENCE = 15.0
_POLL = 0.05


class Item:
    """An item of a plan that was run."""

    def __init__(self, known: batches.Known, name: str) -> None:
        self.known = known
        self.name = name
        self._shelf = Workstreams(known.base, read=True)

    @property
    def title(self) -> str:
        """How people call it."""
        return f"{clean(self.known.name)}/{clean(self.name)}"

    def state(self) -> dict[str, Any]:
        """Return what is kept of it; empty where nothing is."""
        return self._shelf.load(self.name) or {}

    @property
    def run(self) -> str | None:
        """Its newest run."""
        return self.state().get("run")

    def log(self) -> Kept:
        """Return its log: that of all its runs."""
        return Kept(self.name, self._shelf.log(self.name))

    def names(self) -> list[str]:
        """Return the items of its plan that were begun or left out."""
        return [str(state["id"]) for state in self._shelf.items()]

    def runs(self) -> bool:
        """Whether it runs, as far as its state says."""
        kept = self.state()
        return kept.get("lifecycle") in (RUNNING, TIMED_OUT) and kept.get("reason") is None


def of(word: str | None) -> Item | None:
    """Return the item that a word means; None where it means none. Ends the verb where the plan has no such item."""
    found = batches.named(state(), word) if word and "/" in word else None
    if found is None:
        return None
    item = Item(*found)
    names = item.names()
    if item.name not in names:
        guess = nearest(item.name, names)
        hint = f"; did you mean {guess}?" if guess else ""
        fail(f"no item {clean(item.name)} of {clean(item.known.plan)} was begun{hint}", UNKNOWN)
    return item


def require_right(item: Item) -> None:
    """A caller inside a supervised run may have a say in that run, in no other: limits belong to the human."""
    own = inner_id(os.environ.get("LONGWATCH_RUN_ID", ""))
    if own and own != item.run:
        fail(f"{item.title}: from inside {clean(own)} nothing else may be started or stopped")


def ask_to_stop(item: Item, grace: int | None) -> dict[str, Any]:
    """Have an item stopped, and wait until it is over; return what is kept of it then."""
    run, gone = item.run, _gone(item)
    if not item.runs():
        fail(f"{item.title} does not run: it is {clean(item.state().get('lifecycle', 'pending'))}")
    if gone:
        fail(
            f"{item.title} was left by a batch that is gone; longwatch batch run {clean(item.known.plan)} --resume "
            "takes it up"
        )
    batches.ask(item.known.base, op="stop", item=item.name, grace_ms=grace)
    until = time.monotonic() + (GRACE if grace is None else grace) / 1000 + PATIENCE
    while True:
        gone = _gone(item)
        if item.run != run or not item.runs():
            return item.state()
        if gone or time.monotonic() > until:
            fail(f"{item.title} is not over yet; longwatch why {item.title} shows what it waits for")
        time.sleep(_POLL)


def ask_to_start(item: Item) -> str | None:
    """Have the batch that runs the plan start an item; return its run, or None where no batch runs the plan."""
    if _gone(item):
        return None
    before = item.run
    if item.runs():
        fail(f"{item.title} runs already")
    batches.ask(item.known.base, op="start", item=item.name)
    until = time.monotonic() + PATIENCE
    while True:
        gone, run = _gone(item), item.run
        if run != before:
            return run
        if gone:
            return None
        if time.monotonic() > until:
            return ""
        time.sleep(_POLL)


def _gone(item: Item) -> bool:
    """Whether no batch runs the plan. Asked before a look at the item: what a batch that is gone has left is final."""
    return batches.holder(item.known.base) is None
