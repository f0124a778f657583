"""Agents that work in one directory: which of the files that belong to it can only be ours.

For agents that tell in no way which process writes which file. Where nobody else of that program works in the
directory, what is written there since the run began is ours: also a second file, for a conversation may move and
sub-agents have files of their own. Beside a *rival* only a new file is, and only if no rival can have begun it: all
that can already had files of their own when we began, or began after the file did. Else nobody guesses.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from longwatch.observe.places import Place, State


class Worker(Protocol):
    """A process: its start in ms on the watch's clock and in the kernel's ticks, its directory, its arguments."""

    pid: int
    started: int
    ticks: int
    folder: str
    words: list[str]

    def plays(self, names: Collection[str]) -> bool:
        """Whether it is a program of one of these names."""


class Company(Protocol):
    """The processes of the run, and those beside them; `posix.belongings` knows both."""

    def members(self) -> Iterable[Worker]:
        """Return the living processes of the run."""

    def written(self, wanted: Callable[[str], bool]) -> Iterable[str]:
        """Return the wanted ones among the files that processes of the run hold open for writing."""

    def beside(self, names: Collection[str], folders: Collection[str]) -> Iterable[Worker]:
        """Return the processes of others that are one of these programs and work in one of these folders."""


class Conversations(Protocol):
    """All conversations of one agent and one user, each by the path of its file or by its name in a database."""

    place: Place

    def all(self) -> Iterator[str]:
        """Yield all of them."""

    def of_session(self, session: str) -> Iterator[str]:
        """Yield those with this name."""

    def holds(self, path: str) -> bool:
        """Whether a file with this path would be one."""

    def helpers(self, main: str) -> Iterator[str]:
        """Yield those of the sub-agents of one."""

    def registries(self, pid: int) -> Iterator[str]:
        """Yield where it may stand which one a process has."""

    def state(self, path: str) -> State | None:
        """Return what one looks like now."""

    def belongs(self, path: str, folders: Collection[str]) -> bool:
        """Whether one belongs to one of these folders."""

    def begun(self, path: str) -> int | None:
        """Return when one began, in ms since 1970."""

    def is_id(self, word: str) -> bool:
        """Whether a word looks like the name of one."""


class Neighbours:
    """Tells what is written in our directory from what others write there.

    `before` is what there was before, by path; it moves on with what counts as another's. `wall` turns an instant of
    the watch's clock into ms since 1970.
    """

    def __init__(
        self, shelf: Conversations, company: Company, before: dict[str, State], started: int,
        wall: Callable[[int], int],
    ) -> None:  # fmt: skip
        self.before = before
        #: Why nothing is ours although there was something.
        self.doubt = ""
        self._shelf = shelf
        self._names = shelf.place.names
        self._company = company
        self._started = started
        self._wall = wall
        self._at_start = dict(before)
        #: Where ours works, or worked: who has ended left its last words, or all of them, a moment before.
        self._folders = {member.folder for member in company.members()} - {""}
        self._rivals = list(company.beside(self._names, self._folders))

    def ours(self, members: Iterable[Worker], files: Mapping[str, State]) -> list[str]:
        """Return which of the files are ours.

        A rival of the last look may have written until right before this one. Beside rivals all that changed, and is
        not surely ours, counts as theirs; it is looked at again when it changes without them.
        """
        here = {member.folder for member in members if member.plays(self._names)} - {""}
        folders = self._folders = here or self._folders
        changed = {path: state for path, state in files.items() if state != self.before.get(path)}
        changed = {path: state for path, state in changed.items() if self._shelf.belongs(path, folders)}
        if not changed:
            return []
        now = list(self._company.beside(self._names, folders))
        suspects = {rival.pid: rival for rival in [*self._rivals, *now]}
        self._rivals = now
        if not suspects:
            return list(changed)
        mine = self._surely(changed, suspects.values(), folders)
        self.before.update((path, state) for path, state in changed.items() if path not in mine)
        self.doubt = (
            f"another {self._names[0]} works in the same folder: no telling which transcript is whose"
        )
        return mine

    def _surely(
        self, changed: Mapping[str, State], rivals: Iterable[Worker], folders: Collection[str]
    ) -> list[str]:
        """Return the new files that no rival was there to begin; else the only one, where each rival had its own."""
        rivals = list(rivals)
        new = [path for path in changed if path not in self.before]
        able = {path: self._able(self._shelf.begun(path), rivals) for path in new}
        alone = [path for path in new if able[path] == []]
        if alone or len(new) != 1:
            return alone
        suspects = able[new[0]]
        return new if suspects is not None and self._settled(suspects, folders) else []

    def _able(self, begun: int | None, rivals: list[Worker]) -> list[Worker] | None:
        """Return the rivals that were there when a file was begun. None: nobody knows when.

        Older than the run is the first record of a conversation that was copied, and says nothing of its file.
        """
        if begun is None or begun < self._wall(self._started):
            return None
        return [rival for rival in rivals if self._wall(rival.started) <= begun]

    def _settled(self, rivals: list[Worker], folders: Collection[str]) -> bool:
        """Whether each of them had written a file of its own before we began, which a later one cannot have."""
        starts = sorted((self._wall(rival.started) for rival in rivals), reverse=True)
        recent = {
            path: at.written for path, at in self._at_start.items() if starts and at.written >= starts[-1]
        }
        theirs = sorted(written for path, written in recent.items() if self._shelf.belongs(path, folders))
        return all(theirs and theirs.pop() >= start for start in starts)
