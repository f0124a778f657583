"""What is lent to a known program under the library: to one that can be read, and never over what somebody set."""

from types import SimpleNamespace
from typing import Any

import pytest

from longwatch import Limits, known, presets
from longwatch.core.spec import MINUTE, NOTIFY, STOP, LimitSpec
from longwatch.limits import Resolved


class Seen:
    """Who would read the records of a program, as far as `known` makes it."""

    def __init__(self, *, reads: bool = True) -> None:
        self.agent = object() if reads else None
        self.headless = True
        self.made: list[dict[str, Any]] = []

    def __call__(self, preset: Any, argv: list[str], process: Any, tree: Any, **words: Any) -> Any:
        self.made.append({"preset": preset.name, "argv": argv, "process": process, "tree": tree, **words})
        return self


def observed(
    monkeypatch: pytest.MonkeyPatch, seen: Seen, *argv: str, pty: bool = False
) -> tuple[Any, Resolved]:
    """Return who was made, and the limits as they are then."""
    monkeypatch.setattr(known, "Observed", seen)
    resolved = Limits().resolve({})
    made = known.observed([*argv], "process", "tree", resolved, say=print, pty=pty)  # type: ignore[arg-type]
    return made, resolved


@pytest.mark.parametrize(("pty", "size"), [(False, None), (True, (24, 80))])
def test_a_known_program_is_read_and_lent_its_windows(
    monkeypatch: pytest.MonkeyPatch, pty: bool, size: tuple[int, int] | None
) -> None:
    """At a terminal what it draws is a picture of the usual size."""
    seen = Seen()
    made, resolved = observed(monkeypatch, seen, "claude", "-p", "x", pty=pty)
    assert made is seen
    assert seen.made == [
        {"preset": "claude", "argv": ["claude", "-p", "x"], "process": "process", "tree": "tree", "size": size, "say": print}
    ]  # fmt: skip
    lent = presets.named("claude").limits
    assert {name: spec.window for name, spec in resolved.specs.items() if name in lent} == {
        name: setting.window for name, setting in lent.items()
    }
    assert all(resolved.specs[name].sighted for name in lent)


def test_who_cannot_be_read_is_lent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its windows are argued for what records tell."""
    made, resolved = observed(monkeypatch, Seen(reads=False), "claude", "-p", "x")
    assert made is not None
    assert resolved == Limits().resolve({})


@pytest.mark.parametrize("argv", [("mine",), ("npm", "install")])
def test_who_keeps_no_records_is_not_read(monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]) -> None:
    """Unknown programs, and known ones that are no agents."""
    seen = Seen()
    assert observed(monkeypatch, seen, *argv)[0] is None
    monkeypatch.setenv("LONGWATCH_PRESET", "none")
    assert observed(monkeypatch, seen, "claude")[0] is None
    assert seen.made == []


@pytest.mark.parametrize("headless", [True, False])
def test_only_who_ends_by_itself_may_linger(monkeypatch: pytest.MonkeyPatch, headless: bool) -> None:
    """One that converses with somebody stays after its result because it should."""
    seen = Seen()
    seen.headless = headless
    _, resolved = observed(monkeypatch, seen, "claude", "-p", "x")
    assert ("linger" in resolved.specs) is headless


def test_what_a_limit_may_do_stays_as_it_was() -> None:
    """Only its window is lent; one that was off may stop, budgets of tools climb as the rest."""
    preset: Any = SimpleNamespace(
        limits={name: SimpleNamespace(window=3 * MINUTE) for name in ("idle", "first", "ceiling")},
        call={"": SimpleNamespace(window=9 * MINUTE), "bash": SimpleNamespace(window=2 * MINUTE)},
    )
    resolved = Resolved({"idle": LimitSpec(MINUTE, NOTIFY)}, 0, [], named=frozenset({"ceiling"}))
    known.lend(preset, resolved, lingers=True)
    assert resolved.specs == {
        "idle": LimitSpec(3 * MINUTE, NOTIFY, sighted=True),
        "first": LimitSpec(3 * MINUTE, STOP, sighted=True),
        "call": LimitSpec(9 * MINUTE, STOP, {"bash": 2 * MINUTE}, lent=("bash",)),
    }


@pytest.mark.parametrize(
    ("call", "named", "lent"),
    [
        (None, (), None),
        ({"bash": SimpleNamespace(window=MINUTE)}, (), LimitSpec(0, STOP, {"bash": MINUTE}, lent=("bash",))),
        ({"": SimpleNamespace(window=MINUTE)}, ("call",), None),
    ],
)
def test_calls_are_bounded_where_something_is_known_of_them(call: Any, named: Any, lent: Any) -> None:
    """A budget of one tool bounds no other one; what somebody has set stays."""
    resolved = Resolved({}, 0, [], named=frozenset(named))
    preset: Any = SimpleNamespace(limits={}, call=call)
    known.lend(preset, resolved, lingers=True)
    assert resolved.specs.get("call") == lent
