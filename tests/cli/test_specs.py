"""From the words of a command line to what is watched."""

import pytest

from longwatch import presets
from longwatch.cli.specs import NAMES, Known, limits_for_people, setter_of, sources_of, spec_of
from longwatch.core.spec import HOUR, MINUTE, LimitSpec, Spec
from longwatch.options import PRESET, Values, parse


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


def limits(*words: str, **variables: str) -> dict[str, LimitSpec]:
    """Return the limits under these words."""
    values, _ = parse("run", [*words, "true"], variables)
    return spec_of(values, merged=False).limits


def test_the_built_in_hour_of_a_call_only_tells() -> None:
    """Nobody named it; a budget that somebody named acts, for its tool or for all."""
    assert limits()["call"] == LimitSpec(3_600_000, "notify")
    assert limits("--call", "30m")["call"] == LimitSpec(1_800_000, "stop")
    assert limits("--call", "Bash=30m")["call"] == LimitSpec(3_600_000, "notify", {"Bash": 1_800_000})
    named = limits(LONGWATCH_CALL="Bash=30m,10m")["call"]
    assert named == LimitSpec(600_000, "stop", {"Bash": 1_800_000})
    assert "call" not in limits("--call", "off")
    assert limits("--call", "off", "--call", "Bash=1m")["call"] == LimitSpec(0, "stop", {"Bash": 60_000})


def test_the_step_of_each_limit() -> None:
    """Who stalls, asks or changes nothing may be right, so those tell; --action says otherwise."""
    named = ("--stall", "1m", "--ask", "1m", "--effect", "1m", "--linger", "1m", "--first", "1m")
    assert {name: limit.action for name, limit in limits(*named).items()} == {
        "idle": "notify", "first": "stop", "stall": "notify", "ask": "notify", "linger": "stop",
        "effect": "notify", "call": "notify",
    }  # fmt: skip
    said = limits(*named, "--action", "stall=stop", "--action", "first=none", "--action", "call=stop")
    assert (said["stall"].action, said["first"].action, said["call"].action) == ("stop", "none", "stop")


def test_a_loop_is_counted() -> None:
    """--loop is the number of equal calls in a row."""
    values, _ = parse("run", ["--loop", "10", "true"], {})
    assert spec_of(values, merged=False).loop == 10


def preset_spec(*words: str, name: str = "claude", **known: bool) -> tuple[Spec, Values]:
    """Return what is watched of a program with a preset, and the values that this comes from."""
    values, argv = parse("run", [*words, name], {})
    lent = presets.lend(presets.named(name), values, argv)
    settings = {"observed": True, "gentle": False, "resident": False} | known
    return spec_of(values, merged=False, known=Known(name, lent=lent, **settings)), values


@pytest.mark.capability("NEW-15")
def test_a_preset_sets_what_nobody_named() -> None:
    """Its windows stop and need the records that they were argued for; what is named by anybody else stays as it is."""
    spec, values = preset_spec("--first", "1m")
    idle, first, call = (spec.limits[name] for name in ("idle", "first", "call"))
    assert (idle.window, idle.action, idle.sighted) == (12 * MINUTE, "stop", True)
    assert (first.window, first.action, first.sighted) == (MINUTE, "stop", False)
    assert (call.window, call.action, call.budgets["Task"], call.budget_action) == (
        HOUR,
        "stop",
        4 * HOUR,
        "stop",
    )
    assert setter_of(values, "idle", Known("claude")) == "preset claude"
    assert limits_for_people(values, spec)["idle"]["source"] == PRESET
    assert (spec.observed, spec.resident) == (True, False)


def test_at_a_terminal_a_preset_only_tells() -> None:
    """A human is there to judge; what was named stops all the same, a budget beside lent ones too."""
    spec, _ = preset_spec("--call", "Bash=5m", gentle=True, resident=True)
    assert {name: limit.action for name, limit in spec.limits.items()} == {
        "idle": "notify", "first": "notify", "linger": "notify", "call": "notify",
    }  # fmt: skip
    call = spec.limits["call"]
    assert (call.budgets["Bash"], call.budgets["Task"]) == (5 * MINUTE, 4 * HOUR)
    assert call.budget_action == "stop"
    assert set(call.lent) == {"Task", "Agent", "subagent"}
    assert preset_spec("--idle-action", "stop", gentle=True)[0].limits["idle"].action == "stop"
    assert preset_spec("--call", "10m", gentle=True)[0].limits["call"].action == "stop"
    assert preset_spec("--action", "linger=stop", gentle=True)[0].limits["linger"].action == "stop"


def test_every_known_name_is_looked_at() -> None:
    """The names for which the table is loaded are exactly those that it knows, and what they stand behind."""
    known = {program.split()[0] for preset in presets.PRESETS for program in preset.programs}
    assert {name for name in known if not name.startswith("@")} | set(presets.words_before()) == set(NAMES)
