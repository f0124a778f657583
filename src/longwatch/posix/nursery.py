"""A process that adopts a run's orphans in our place, and how it is told whose they are.

A subreaper is handed the orphans of all runs below it alike. A program can shed its session, its environment and
its image, but hardly anyone touches a limit that means nothing: the kernel has not counted file locks since 2.4.25,
and still hands that limit down to every child. So each run is born with a number of its own in it, its *brand*.
"""

import os
import sys
import time

from longwatch.core.record import Plain
from longwatch.posix import kin
from longwatch.posix.identity import Identity, process, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

if sys.platform == "linux":
    import resource

_RLIMIT_LOCKS = 10
_LINE = b"Max file locks"
#: Beyond any number that a person would set, and within what every reader of JSON holds exactly.
_LEAST, _BITS = 1 << 40, 52


#: A list of so long ago (ns), or of so many times as long as it took to make, does for a look that proves nothing.
RECENT, DEAR = 20_000_000, 16


class Kept(Plain):
    """One run of a nursery: who leads it, and its brand (0: it has none)."""

    __slots__ = ("brand", "leader")

    def __init__(self, leader: Identity, brand: int) -> None:
        self.leader = leader
        self.brand = brand


class Runs:
    """All that one nursery keeps now, by id; and whose pids are those of leaders."""

    __slots__ = ("_by_id", "_cost", "_leaders", "_listed", "_listed_at")

    def __init__(self) -> None:
        self._listed: list[int] = []
        self._listed_at = -1
        self._cost = 0
        self._by_id: dict[str, Kept] = {}
        self._leaders: dict[bytes, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._by_id

    def get(self, run_id: str) -> Kept | None:
        """Return one of them."""
        return self._by_id.get(run_id)

    def all(self) -> "list[tuple[str, Kept]]":
        """Return all of them with their ids."""
        return list(self._by_id.items())

    def put(self, run_id: str, kept: Kept) -> None:
        """From now on it is kept."""
        self.drop(run_id)
        self._by_id[run_id] = kept
        self._leaders[b"%d" % kept.leader.pid] = run_id

    def drop(self, run_id: str) -> None:
        """It is kept no more; no error where it was not."""
        kept = self._by_id.pop(run_id, None)
        if kept is not None and self._leaders.get(word := b"%d" % kept.leader.pid) == run_id:
            del self._leaders[word]

    def adopted(self, keeper: int, since: int | None) -> list[int]:
        """Return the children of the nursery's process that lead no run; by the last list where that is of after `since`."""
        begun, leaders = time.monotonic_ns(), self._leaders
        if since == kin.LATELY:
            since = begun - max(RECENT, self._cost * DEAR)
        if since is None or self._listed_at < since:
            self._listed_at = begun
            if kin.has_children_files():
                words: Iterable[bytes] = kin.children_words(keeper)
            else:
                words = (b"%d" % pid for pid in kin.children_in(kin.table())(keeper))
            self._listed = [int(pid) for pid in set(words).difference(leaders)]
            self._cost = time.monotonic_ns() - begun
        return self._listed


class Nursery:
    """The nursery of one run: the process `keeper`, and `runs`, all that it keeps now.

    Its owner changes `runs` as runs come and go. `keeper` has to be a subreaper. Without a `run_id` it is that of
    all runs together.
    """

    __slots__ = ("keeper", "run_id", "runs")

    def __init__(self, keeper: Identity, run_id: str, runs: Runs) -> None:
        self.keeper = keeper
        self.run_id = run_id
        self.runs = runs

    def alive(self) -> bool:
        """Return whether it still adopts; when it is gone, orphans go where all others do."""
        return self.keeper.alive()

    def orphans(self, variable: str, since: int | None = None) -> list[int]:
        """Return the adopted children that belong to the run, zombies included; no leaders. For `since` see `Tree.infos`."""
        found = self.runs.adopted(self.keeper.pid, since)
        return [pid for pid in found if self._ours(pid, variable)] if self.run_id else found

    def _ours(self, pid: int, variable: str) -> bool:
        """Tell by the brand. What has none, or one that was made below us, is told by session, group and mark.

        And what has none at all can only belong to the one run that there is.
        """
        kept, brand = self.runs.get(self.run_id), brand_of(pid)
        if kept is not None:
            if brand and brand == kept.brand:
                return True
            if brand and any(brand == other.brand for _, other in self.runs.all()):
                return False
            info = process(pid)
            if info is not None and kept.leader.pid in (info.sid, info.pgid):
                return True
            if len(self.runs) == 1 and not (brand and kept.brand):
                return True
        return kin.carries(pid, f"{variable}={self.run_id}")


def new_brand() -> int:
    """Return a number that no other run has."""
    return _LEAST | int.from_bytes(os.urandom(8), sys.byteorder) >> 64 - _BITS


def wear(brand: int) -> bool:
    """Take on a brand that whatever is started from now on is born with. False where that is not possible."""
    try:
        resource.setrlimit(_RLIMIT_LOCKS, (brand, resource.getrlimit(_RLIMIT_LOCKS)[1]))
    except (OSError, ValueError):
        return False  # somebody has limited it for real: runs are told apart by the other signs
    return True


def brand_of(pid: int) -> int:
    """Return a process's brand; 0 when it has none, or is gone."""
    _, found, rest = (read(f"/proc/{pid}/limits") or b"").partition(_LINE)
    value = rest.split(None, 1)[0] if found else b""
    return int(value) if value.isdigit() and int(value) >= _LEAST else 0
