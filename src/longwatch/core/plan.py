"""A plan under way: which items may start, what an end brings about, and when to stop starting more.

Pure: it is told what happened and asked what is due. Items wait for those they need; a failed one is tried again as
often as it may, after a growing delay, unless it fails at once and with the same last words again and again; items
whose need cannot be met any more are left out, and say why. Where several items fail alike and at once, one after the
other, the cause is not theirs: nothing more is started.
"""

from itertools import islice

from longwatch.core.record import Plain
from longwatch.core.restarts import QUICK, backoff
from longwatch.core.workstream import (
    ABANDONED,
    COMPLETED,
    FAILED,
    FAILED_TERMINAL,
    INTERRUPTED,
    PENDING,
    RUNNING,
    resumable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: So many at a time, as CI services and build tools start about as many as a large laptop has cores.
JOBS = 8
#: So many items in a row fail at once and with the same last words, and the rest is not tried.
ALIKE = 5
#: So many tries of one item end so, and it is not tried again.
TRIES_ALIKE = 3


class Item(Plain):
    """What deciding needs of an item: its id, the ids that have to be completed before, how often a failure is tried again."""

    __slots__ = ("id", "needs", "retries")

    def __init__(self, id: str, needs: tuple[str, ...] = (), retries: int = 0) -> None:  # noqa: A002 - its name everywhere
        self.id = id
        self.needs = needs
        self.retries = retries


def faults(items: "Iterable[Item]") -> list[tuple[str, str]]:
    """Return what makes the items no plan: each with the id it is about. Twice the same id, unknown needs, circles."""
    found, known = [], {}
    for item in items:
        if item.id in known:
            found.append((item.id, f"the id {item.id} is given twice"))
        known[item.id] = item
    for item in known.values():
        found += [
            (item.id, f"{item.id} needs {need}, which is no item") for need in item.needs if need not in known
        ]
    return found or _circle(known)


def _circle(known: "dict[str, Item]") -> list[tuple[str, str]]:
    done: set[str] = set()
    left = dict(known)
    while left:
        free = [name for name, item in left.items() if done.issuperset(item.needs)]
        if not free:
            name = min(left)
            return [(name, f"items need each other in a circle: {', '.join(sorted(left))}")]
        done.update(free)
        for name in free:
            del left[name]
    return []


class Plan:
    """The items of one run of a batch. `kept` are the lifecycles of an earlier run that this one resumes.

    With `only` no other item is started.
    """

    def __init__(
        self,
        items: "Iterable[Item]",
        jobs: int = JOBS,
        *,
        kept: "Mapping[str, str] | None" = None,
        only: "Iterable[str] | None" = None,
        alike: int = ALIKE,
    ) -> None:
        self.items = {item.id: item for item in items}
        self.jobs = jobs
        self.alike = alike
        #: The words that items failed with alike; empty while they do not.
        self.broken = ""
        self.held = False
        self._lifecycles = {name: _carried((kept or {}).get(name, PENDING)) for name in self.items}
        self._tried = dict.fromkeys(self.items, 0)
        self._not_before: dict[str, int] = {}
        self._running: dict[str, None] = {}
        wanted = self.items if only is None else frozenset(only)
        #: Those that are still to be started, in the order of the plan.
        self._waiting = {
            name: None for name in self.items
            if name in wanted and self._lifecycles[name] in (PENDING, INTERRUPTED)
        }  # fmt: skip
        #: The last words of the items that failed at once, and of the last ones that did so alike, who they are.
        self._words: dict[str, tuple[str, int]] = {}
        self._row: dict[str, None] = {}

    def lifecycle(self, name: str) -> str:
        """Return where an item stands."""
        return self._lifecycles[name]

    @property
    def running(self) -> list[str]:
        """The items that run."""
        return list(self._running)

    def due(self, now: int) -> list[str]:
        """Return which items are to be started now, in the order of the plan, as many as there are places."""
        free = self.jobs - len(self._running)
        if free <= 0 or self.stopped:
            return []
        ripe = (name for name in self._waiting if self._not_before.get(name, now) <= now)
        return list(islice((name for name in ripe if self._ready(name)), free))

    def next_due(self, now: int) -> int | None:
        """Return when an item that waits out a delay may start; None while none does."""
        waits = [at for name, at in self._not_before.items() if at > now and self._ready(name)]
        return None if self.stopped else min(waits, default=None)

    @property
    def stopped(self) -> bool:
        """Whether nothing more is started."""
        return self.held or bool(self.broken)

    @property
    def over(self) -> bool:
        """Whether nothing runs and nothing more will."""
        return not self._running and (self.stopped or not any(map(self._ready, self._waiting)))

    def _ready(self, name: str) -> bool:
        return all(self._lifecycles[need] == COMPLETED for need in self.items[name].needs)

    def waits(self, name: str) -> bool:
        """Whether an item is still to be started."""
        return name in self._waiting

    def to_come(self) -> list[str]:
        """Return what this run can still bring to an end, in the order of the plan: no need of it has failed for good."""
        lost = {
            name for name, lifecycle in self._lifecycles.items()
            if name not in self._waiting and name not in self._running and lifecycle != COMPLETED
        }  # fmt: skip
        size = -1
        while size != len(lost):
            size = len(lost)
            lost |= {name for name, item in self.items.items() if lost.intersection(item.needs)}
        return [name for name in self.items if name not in lost and self._lifecycles[name] != COMPLETED]

    def started(self, name: str) -> None:
        """An item was started."""
        self._lifecycles[name] = RUNNING
        self._running[name] = None
        self._waiting.pop(name, None)
        self._not_before.pop(name, None)
        self._tried[name] += 1

    def again(self, name: str) -> bool:
        """Somebody wants an item to be run, whatever became of it; False where it runs, or nothing more is started."""
        if name in self._running or self.stopped:
            return False
        self._lifecycles[name] = _carried(self._lifecycles[name], finished=PENDING)
        self._tried[name] = 0
        self._not_before.pop(name, None)
        self._waiting[name] = None
        return True

    def put_off(self, name: str, until: int) -> None:
        """Start an item no sooner than that: a provider wants nothing of it."""
        self._not_before[name] = until

    def leave(self, name: str) -> None:
        """Somebody does not want an item to be started."""
        self._waiting.pop(name, None)
        self._not_before.pop(name, None)

    def ended(
        self, name: str, lifecycle: str, now: int, *, span: int, words: str = "", drawn: float = 0.5,
        until: int | None = None,
    ) -> bool:  # fmt: skip
        """An attempt ended after `span` ms, with these last words; return whether another one follows in this run.

        `until` is the instant up to which a provider wants nothing of it; it is taken up then, and that is no retry.
        """
        self._lifecycles[name] = lifecycle
        self._running.pop(name, None)
        self._note_alike(name, words if _is_failure(lifecycle) and span < QUICK else "")
        parked = until is not None
        again = not self.stopped and (parked or (_is_failure(lifecycle) and self._tried_on(name)))
        if again:
            self._waiting[name] = None
            self._not_before[name] = until if until is not None else now + backoff(self._tried[name], drawn)
        if again and parked:
            self._tried[name] -= 1
        return again

    def _tried_on(self, name: str) -> bool:
        """Whether a failure is followed by another try."""
        hopeless = self._words[name][1] >= TRIES_ALIKE
        return self._tried[name] <= self.items[name].retries and not hopeless

    def _note_alike(self, name: str, words: str) -> None:
        """Count who fails at once and with the same words: the item by itself, and items one after the other."""
        last, count = self._words.get(name, ("", 0))
        self._words[name] = (words, count + 1 if words == last else 1) if words else ("", 0)
        alike = bool(words) and all(self._words[other][0] == words for other in self._row)
        if not alike:
            self._row.clear()
        if words:
            self._row[name] = None
        if self.alike and len(self._row) >= self.alike:
            self.broken = words

    def hold(self) -> None:
        """Start nothing more: somebody wants it to end."""
        self.held = True

    def left_out(self) -> dict[str, str]:
        """Return the items that were not tried, and why."""
        why = {}
        for name, item in self.items.items():
            if self._lifecycles[name] == PENDING:
                unmet = [need for need in item.needs if self._lifecycles[need] != COMPLETED]
                if unmet:
                    why[name] = f"needs {', '.join(unmet)}"
                elif self.stopped:
                    why[name] = f"items failed alike: {self.broken}" if self.broken else "the run was ended"
                elif name not in self._waiting:
                    why[name] = "nobody asked for it"
        return why


def _is_failure(lifecycle: str) -> bool:
    return lifecycle in FAILED and lifecycle != INTERRUPTED


def _carried(lifecycle: str, finished: str = "") -> str:
    """Return where a run that goes on begins: what can be gone on with is tried again, what is over stays so."""
    if resumable(lifecycle):
        return INTERRUPTED
    return (finished or lifecycle) if lifecycle in (COMPLETED, FAILED_TERMINAL, ABANDONED) else PENDING
