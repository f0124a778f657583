"""What is worth telling: one notice per trouble, one when it is over, and one for all whom the same thing hit.

Words are gathered for a moment before they are told. Those of one event that come together become one notice. Of
several about one harness the gravest stays: a program that gives up has flapped, stalled or failed just before.
What was told stays open until the harness is well again; of a common trouble the end is told when all are back, or
some minutes after the first of them, naming those who are not. Pure: instants are arguments, in ms of any clock.
"""

from longwatch.core.record import Plain
from longwatch.core.spec import MINUTE, SECOND
from longwatch.notify.word import Word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

#: A notice waits until nothing like it has come for so long, and not longer than that.
QUIET, LONGEST = 3 * SECOND, 30 * SECOND
#: How long the first who are back wait for the others.
PATIENCE = 5 * MINUTE
SUPPRESSED = "suppressed"

#: Troubles of one kind have one end. Within a kind the graver one stands for the others.
HEALTH, PARK, LEDGER = "health", "park", "ledger"
KINDS = {
    "flapping": (HEALTH, 1), "limit": (HEALTH, 2), "stalled": (HEALTH, 2), "failed": (HEALTH, 3),
    "gave_up": (HEALTH, 4), "parked": (PARK, 1), "ledger": (LEDGER, 1),
}  # fmt: skip
_ENDS = {HEALTH: "recovered", PARK: "unparked", LEDGER: "recovered"}


class Incident(Plain):
    """A trouble that was told. `out` has rank and episode of each who is still in it, `back` who was.

    `told` is None while the notice is on its way, False when no channel could deliver it.
    """

    __slots__ = ("back", "event", "out", "patience", "since", "told")

    def __init__(
        self, event: str, since: int, out: dict[str, tuple[int, str]], back: list[str] | None = None,
        told: bool | None = None, patience: int | None = None,
    ) -> None:  # fmt: skip
        self.event = event
        self.since = since
        self.out = out
        self.back = back or []
        self.told = told
        self.patience = patience


class Telling:
    """A notice to be sent: the words it is made of, and the trouble that it opens."""

    __slots__ = ("event", "incident", "still_out", "words")

    def __init__(
        self, event: str, words: list[Word], incident: Incident | None = None, still_out: tuple[str, ...] = ()
    ) -> None:
        self.event = event
        self.words = words
        self.incident = incident
        self.still_out = still_out


class _Gather:
    """Words of one event on their way, and who of them is well again already, or stopped."""

    __slots__ = ("back", "first", "gone", "last", "still_out", "words")

    def __init__(self, at: int) -> None:
        self.words: dict[str, Word] = {}
        self.back: list[str] = []
        self.gone: list[str] = []
        self.still_out: dict[str, None] = {}
        self.first = self.last = at

    @property
    def due(self) -> int:
        return min(self.last + QUIET, self.first + LONGEST)


class Incidents:
    """`heard`, `back`, `gone` as it happens; `ripe` at `due`. `count(event, result)` hears what is not told."""

    def __init__(self, events: "Iterable[str]", cooldown: int, count: "Callable[[str, str], object]") -> None:
        self.events = frozenset(events)
        self.cooldown = cooldown
        self._count = count
        self._stamps: dict[tuple[str, str], int] = {}
        self._gathers: dict[str, _Gather] = {}
        self._open: dict[tuple[str, str], Incident] = {}

    # -- what happens

    def heard(self, word: Word, at: int) -> None:
        """Something happened that may be worth a notice."""
        if word.event not in self.events:
            return
        waiting = self._gathers[word.event].words.get(word.harness) if word.event in self._gathers else None
        if waiting is not None:
            waiting.take_over(word)
            return
        if self._known(word) or self._graver_is_on_its_way(word) or self._cooling(word, at):
            self._count(word.event, SUPPRESSED)
            return
        self._stamps[word.harness, word.key] = at
        self._take_over_lesser(word)
        self._gather(word, at)

    def _gather(self, word: Word, at: int) -> _Gather:
        gather = self._gathers.setdefault(word.event, _Gather(at))
        gather.words[word.harness] = word
        gather.last = at
        return gather

    def _known(self, word: Word) -> bool:
        """Whether this trouble, or a graver one, was told and is not over."""
        kind, rank = KINDS.get(word.event, ("", 0))
        incident = self._open.get((kind, word.harness))
        if incident is None or incident.told is False:
            return False
        before, episode = incident.out[word.harness]
        return before > rank or (before == rank and episode == word.episode)

    def _cooling(self, word: Word, at: int) -> bool:
        stamp = self._stamps.get((word.harness, word.key))
        return stamp is not None and at < stamp + self.cooldown

    def _waiting(self, word: Word) -> "list[tuple[int, _Gather]]":
        """Return where other words of this kind about the harness wait, with their rank."""
        kind, _ = KINDS.get(word.event, ("", 0))
        return [
            (KINDS[event][1], gather)
            for event, gather in self._gathers.items()
            if event != word.event
            and event in KINDS
            and KINDS[event][0] == kind
            and word.harness in gather.words
        ]

    def _graver_is_on_its_way(self, word: Word) -> bool:
        return any(rank > KINDS[word.event][1] for rank, _ in self._waiting(word))

    def _take_over_lesser(self, word: Word) -> None:
        for _, gather in self._waiting(word):
            lesser = gather.words.pop(word.harness)
            self._stamps.pop((word.harness, lesser.key), None)
            word.take_over(lesser)

    def back(self, kind: str, harness: str, at: int) -> None:
        """The harness is well again; nobody hears of it who did not hear of the trouble."""
        for event, gather in self._gathers.items():
            if KINDS.get(event, ("",))[0] == kind and harness in gather.words:
                gather.back.append(harness)
                return
        self._stamps = {key: stamp for key, stamp in self._stamps.items() if key[0] != harness}
        incident = self._open.pop((kind, harness), None)
        if incident is None:
            return
        del incident.out[harness]
        incident.back.append(harness)
        if incident.patience is None:
            incident.patience = at + PATIENCE
        if not incident.out:
            self._over(incident, at)

    def gone(self, harness: str, at: int) -> None:
        """Somebody has stopped it: whatever was wrong with it is over, and nothing is told of that."""
        for event, gather in self._gathers.items():
            if harness in gather.words and KINDS.get(event, ("",))[0] == HEALTH:
                gather.gone.append(harness)
        incident = self._open.pop((HEALTH, harness), None)
        if incident is not None:
            self._leave(incident, harness, at)

    def _leave(self, incident: Incident, harness: str, at: int) -> None:
        """It has no part in this trouble any more; the others may be all back by now."""
        del incident.out[harness]
        if incident.back and not incident.out:
            self._over(incident, at)

    def tried_again(self, harness: str) -> None:
        """Somebody has started what had failed: what comes now is news, though it is not well yet."""
        incident = self._open.get((HEALTH, harness))
        if incident is not None:
            incident.out[harness] = (0, "")

    def answered(self, event: str, harness: str) -> None:
        """What was to be told is over, before it was or after; the next one is another matter."""
        if event in self._gathers:
            self._gathers[event].words.pop(harness, None)
        self._stamps.pop((harness, event), None)

    def _over(self, incident: Incident, at: int) -> None:
        """Tell that it is over, for those who are back."""
        event = _ENDS[KINDS[incident.event][0]]
        back, incident.back, incident.patience = incident.back, [], None
        if event in self.events:
            for harness in back:
                gather = self._gather(Word.end(event, harness, incident, at), at)
                gather.still_out |= dict.fromkeys(incident.out)

    # -- what is told

    def due(self) -> int | None:
        """Return when `ripe` has something; None: nothing waits."""
        waiting = [gather.due for gather in self._gathers.values()]
        waiting += [i.patience for i in self._open.values() if i.patience is not None]
        return min(waiting, default=None)

    def ripe(self, at: int, *, all_of_it: bool = False) -> list[Telling]:
        """Return what is to be told now, in the order in which it began."""
        for incident in list(self._open.values()):
            if incident.patience is not None and at >= incident.patience:
                self._over(incident, at)
        ready = [event for event, gather in self._gathers.items() if all_of_it or at >= gather.due]
        tellings = []
        for event in ready:
            gather = self._gathers.pop(event)
            if gather.words:
                tellings.append(self._telling(event, gather, at))
            for harness in gather.back:
                self.back(KINDS[event][0], harness, at)
            for harness in gather.gone:
                self.gone(harness, at)
        self._stamps = {key: stamp for key, stamp in self._stamps.items() if at < stamp + self.cooldown}
        return tellings

    def _telling(self, event: str, gather: _Gather, at: int) -> Telling:
        words = list(gather.words.values())
        kind, rank = KINDS.get(event, ("", 0))
        # What hit several at once is no ordinary stall of one, even where each is restarted by itself.
        members = words if len(words) > 1 else [word for word in words if word.opens]
        if not kind or not members:
            return Telling(event, words, still_out=tuple(gather.still_out))
        incident = Incident(event, gather.first, {word.harness: (rank, word.episode) for word in members})
        for word in members:
            before = self._open.get((kind, word.harness))
            if before is not None:
                incident.since = min(incident.since, before.since)
                self._leave(before, word.harness, at)
            self._open[kind, word.harness] = incident
        return Telling(event, words, incident)

    def settled(self, telling: Telling, *, delivered: bool) -> None:
        """It was delivered by some channel, or by none: then the next word of the same may be told at once."""
        if telling.incident is not None:
            telling.incident.told = delivered
        if not delivered:
            for word in telling.words:
                self._stamps.pop((word.harness, word.key), None)

    # -- what the next daemon has to know

    @property
    def open(self) -> list[Incident]:
        """The troubles that are not over."""
        return list({id(incident): incident for incident in self._open.values()}.values())

    def as_dict(self, shift: int) -> "dict[str, Any]":
        """Return what lasts, as values that JSON knows; `shift` is added to every instant."""
        stamps = [[*key, stamp + shift] for key, stamp in self._stamps.items()]
        incidents = [
            {
                **incident.as_dict(),
                "since": incident.since + shift,
                "patience": _moved(incident.patience, shift),
            }
            for incident in self.open
        ]
        return {"stamps": stamps, "incidents": incidents}

    def restore(self, told: "Mapping[str, Any]", shift: int) -> None:
        """Take over what `as_dict` gave; `shift` is taken off every instant."""
        for harness, key, stamp in told["stamps"]:
            self._stamps[harness, key] = stamp - shift
        for values in told["incidents"]:
            out = {harness: (rank, episode) for harness, (rank, episode) in values["out"].items()}
            patience = _moved(values["patience"], -shift)
            incident = Incident(
                values["event"], values["since"] - shift, out, list(values["back"]), values["told"], patience
            )
            for harness in out:
                self._open[KINDS[incident.event][0], harness] = incident


def _moved(instant: int | None, shift: int) -> int | None:
    return None if instant is None else instant + shift
