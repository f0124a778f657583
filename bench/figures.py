"""One measured figure beside its goal, and the table of all of them."""

from typing import NamedTuple

REACHED, MISSED, SKIPPED = "reached", "not reached", "skipped"
COLUMNS = ("id", "what", "goal", "measured", "verdict")
#: The longest description that the table gives a column for.
WIDEST = 72


class Figure(NamedTuple):
    """What was measured, in `unit`, against a bound; `measured` None: skipped, and `note` says why."""

    goal: str
    what: str
    measured: float | None
    sense: str
    bound: float
    unit: str = "×"
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return SKIPPED
        holds = self.measured <= self.bound if self.sense == "≤" else self.measured >= self.bound
        return REACHED if holds else MISSED

    def row(self) -> tuple[str, ...]:
        measured = "-" if self.measured is None else f"{number(self.measured)} {self.unit}"
        verdict = f"{self.verdict}: {self.note}" if self.measured is None else self.verdict
        return self.goal, self.what, f"{self.sense} {self.bound:g} {self.unit}", measured, verdict

    def record(self) -> dict[str, object]:
        return {**self._asdict(), "verdict": self.verdict}


def at_most(
    goal: str, what: str, measured: float | None, bound: float, unit: str = "×", note: str = ""
) -> Figure:
    return Figure(goal, what, measured, "≤", bound, unit, note)


def at_least(
    goal: str, what: str, measured: float | None, bound: float, unit: str = "×", note: str = ""
) -> Figure:
    return Figure(goal, what, measured, "≥", bound, unit, note)


def number(value: float) -> str:
    """Return a figure with as many digits as it deserves."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(figures: list[Figure]) -> str:
    """Return the figures as aligned columns; notes stand below their row."""
    rows = [COLUMNS, *(figure.row() for figure in figures)]
    widths = [min(WIDEST, max(len(row[column]) for row in rows)) for column in range(len(COLUMNS))]
    lines = []
    for row, figure in zip(rows, [None, *figures], strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if figure is not None and figure.measured is not None and figure.note:
            lines.append(f"{'':{widths[0]}}  ({figure.note})")
    return "\n".join(lines)
