"""From the words of a command line to what is watched."""

import pytest

from longwatch.cli.specs import sources_of, spec_of
from longwatch.options import parse


def action(*words: str, **variables: str) -> str | None:
    """Return the highest rung of the idle limit under these words."""
    values, _ = parse("run", [*words, "true"], variables)
    limit = spec_of(values, merged=False).limits.get("idle")
    return None if limit is None else limit.action


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "notify"),  # the built-in window is nobody's wish
        (("--idle", "5m"), "stop"),  # a named one holds, also when it is as long as the built-in
        (("--idle-action", "stop"), "stop"),  # the action was named: the window is wanted as it is
        (("--idle-action", "none"), "none"),
        (("--idle", "5m", "--idle-action", "notify"), "notify"),
        (("--nudge", "go on", "--pty"), "notify"),
        (("--idle", "1s", "--nudge", "go on", "--pty"), "stop"),
        (("--idle-action", "nudge", "--nudge", "go on", "--pty"), "nudge"),
        (("--idle", "off"), None),
    ],
)
def test_only_what_was_named_stops(words: tuple[str, ...], expected: str | None) -> None:
    """A window or an action that somebody named acts; the built-in one only tells."""
    assert action(*words) == expected


def test_a_variable_names_too() -> None:
    """A variable is somebody's word as much as a flag is."""
    assert action(LONGWATCH_IDLE="1m") == "stop"
    assert action(LONGWATCH_IDLE_ACTION="stop") == "stop"
    assert action(LONGWATCH_IDLE="5") == "notify"


@pytest.mark.parametrize(
    ("progress", "merged", "held", "sampled"),
    [
        (("output",), False, ("stdout", "stderr"), ()),
        (("output",), True, ("stdout",), ()),
        (("stderr",), True, ("stdout",), ()),  # one pipe for both: either name means it
        (("stdout", "file:log"), False, ("stdout",), ("file:log",)),
        (("output", "stdout"), False, ("stdout", "stderr"), ()),
        ((), False, (), ()),
    ],
)
def test_sources(
    progress: tuple[str, ...], merged: bool, held: tuple[str, ...], sampled: tuple[str, ...]
) -> None:
    """What we hold ourselves is known from the start; what must first appear is not."""
    assert sources_of(progress, merged=merged) == (held, sampled)
