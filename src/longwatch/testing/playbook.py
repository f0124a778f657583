"""A test of decisions as a script: observations one way, commands and facts the other, compared as a whole.

The script is written in the order of time. `tell` pushes an observation at its instant; `expect` names what the
watch must answer, and when. `play` runs the script against a fresh watch that is woken exactly at its deadlines,
and fails with a line diff of two transcripts: `>` lines were told, `<` lines were answered.

A script that was never played proves nothing, so it fails the test: the error comes out of its finalizer, where
pytest picks it up as an unraisable exception.
"""

import difflib
from typing import Any, Self

from longwatch.core.commands import Command, Record
from longwatch.core.facts import Fact
from longwatch.core.observations import Observation
from longwatch.core.record import Plain
from longwatch.core.spec import Spec
from longwatch.core.watch import Watch


class Like:
    """Stands for any record of a class that has the given fields; other fields may be what they are."""

    def __init__(self, kind: type[Plain], **fields: object) -> None:
        unknown = [name for name in fields if name not in kind.__slots__]
        if unknown:
            raise TypeError(
                f"{kind.__name__} has no field {unknown[0]!r}; it has {', '.join(kind.__slots__)}"
            )
        self.kind = kind
        self.fields = fields

    def __repr__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in self.fields.items()]
        return f"{self.kind.__name__}({', '.join([*fields, '...'])})"

    def matches(self, record: object) -> bool:
        """Whether the record is of the class and has the fields; a fact may come inside its `Record`."""
        if isinstance(record, Record) and self.kind is not Record:
            record = record.fact
        if type(record) is not self.kind:
            return False
        return all(getattr(record, name) == value for name, value in self.fields.items())


#: Reads better in a script: `expect(5_000, like(LimitFired, limit="idle"))`.
like = Like

#: What may be expected: a command, a fact (short for the `Record` of it), or something like either.
Expected = Command | Fact | Like
Line = tuple[int, str, Any]


class Playbook:
    """One script for one watch. Instants are ms on the watch's clock; the run starts at `start`.

    `ignore` are classes of facts whose `Record` the script does not care for, such as `LimitNoted`.
    `ticks` are instants at which the watch is also woken without need: they must change nothing.
    """

    def __init__(
        self, spec: Spec, *, start: int = 0, ignore: tuple[type[Fact], ...] = (), ticks: tuple[int, ...] = ()
    ) -> None:
        self.watch = Watch(spec, start)
        self._ignore = ignore
        self._ticks = ticks
        self._script: list[Line] = []
        self._until = self._clock = start
        self._played = False

    def tell(self, at: int, *observations: Observation) -> Self:
        """Tell the watch something at an instant in ms, not before the last one told."""
        if at < self._until:
            raise ValueError(f"{at} ms is before {self._until} ms: a script is written in the order of time")
        self._until = at
        self._script += [(at, ">", observation) for observation in observations]
        return self

    def expect(self, at: int, *answers: Expected) -> Self:
        """Expect answers at an instant in ms, in this order, after what was written above."""
        self._until = max(self._until, at)
        self._script += [(at, "<", Record(each) if isinstance(each, Fact) else each) for each in answers]
        return self

    def until(self, at: int) -> Self:
        """Let the script end at this instant, not with its last line: nothing else may happen up to then."""
        self._until = max(self._until, at)
        return self

    def play(self) -> Watch:
        """Run the script and return the watch as it is then. Raises AssertionError with a line diff."""
        self._played = True
        happened = self._run()
        expected = _resolve(self._script, happened)
        if expected != [_text(line) for line in happened]:
            diff = difflib.unified_diff(
                expected, [_text(line) for line in happened], "the script", "what happened", lineterm="", n=50
            )
            raise AssertionError("the playbook went another way:\n" + "\n".join(diff))
        return self.watch

    def _run(self) -> list[Line]:
        lines: list[Line] = []
        told = [line for line in self._script if line[1] == ">"]
        ticks = [(at, "tick", None) for at in self._ticks]
        for line in sorted([*told, *ticks], key=lambda line: line[0]):
            at, kind, observation = line
            self._wake(at, lines)
            if kind == ">":
                lines.append(line)
                self._note(at, self.watch.observe(observation, at), lines)
        self._wake(self._until, lines)
        return lines

    def _wake(self, at: int, lines: list[Line]) -> None:
        """Wake the watch at each of its deadlines up to an instant, and at that."""
        while (due := self.watch.next_deadline()) is not None and due <= at:
            # What fell due while a stop was prepared is done when that is settled, not in the past.
            self._clock = max(self._clock, due)
            self._note(self._clock, self.watch.advance(self._clock), lines)
        self._clock = max(self._clock, at)
        self._note(at, self.watch.advance(at), lines)

    def _note(self, at: int, commands: list[Command], lines: list[Line]) -> None:
        lines += [(at, "<", command) for command in commands if not self._ignored(command)]

    def _ignored(self, command: Command) -> bool:
        return isinstance(command, Record) and isinstance(command.fact, self._ignore)

    def __del__(self) -> None:
        if not getattr(self, "_played", True):
            raise AssertionError("a playbook was written and never played: call play()")


def _resolve(script: list[Line], happened: list[Line]) -> list[str]:
    """Return the script's lines, in the words of what happened wherever the two agree."""
    lines = []
    for place, (at, way, record) in enumerate(script):
        other = happened[place] if place < len(happened) else None
        if (
            isinstance(record, Like)
            and other is not None
            and other[:2] == (at, way)
            and record.matches(other[2])
        ):
            record = other[2]  # noqa: PLW2901
        lines.append(_text((at, way, record)))
    return lines


def _text(line: Line) -> str:
    at, way, record = line
    return f"{at:>9} {way} {record!r}"
