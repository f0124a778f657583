"""`Limits`: spans in seconds or words, variables for what is left out, and what all of it comes to."""

import math
import pickle

import pytest

from longwatch import Limits, UsageError
from longwatch.core.spec import LimitSpec
from longwatch.options import from_environment
from longwatch.testing import children


def idle_of(limits, **environ):
    """Return the idle limit that holds in an environment; None where there is none."""
    return limits.resolve(environ).specs.get("idle")


def test_built_ins():
    """With nothing said 300 s of silence stop, and nothing else does."""
    found = Limits().resolve({})
    assert found.specs == {"idle": LimitSpec(300_000, "stop")}
    assert (found.grace, found.complaints) == (10_000, [])


def test_given_fields():
    """Every field comes to a limit of its name in ms; `soft` never stops."""
    limits = Limits(
        idle=5, first="1m", ceiling=0.25, timeout="1h30m", soft=1.5, idle_action="notify", grace=2
    )
    found = limits.resolve({})
    assert found.specs == {
        "idle": LimitSpec(5_000, "notify"),
        "first": LimitSpec(60_000),
        "ceiling": LimitSpec(250),
        "timeout": LimitSpec(5_400_000),
        "soft": LimitSpec(1_500, "notify"),
    }
    assert found.grace == 2_000


@pytest.mark.parametrize("off", [0, 0.0, None, "0", "off", -1, math.inf, -math.inf, math.nan])
def test_off(off):
    """Everything that is no span of time switches a limit off, also where a variable sets one."""
    assert idle_of(Limits(idle=off), LONGWATCH_IDLE="5s") is None


def test_small_and_huge_spans():
    """A span is never rounded down to off, and none is too large for a timer."""
    assert idle_of(Limits(idle=1e-9)).window == 1
    assert idle_of(Limits(idle=1e300)).window == 100 * 365 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("text", "field"), [("5", "idle"), ("5minutes", "timeout"), ("", "grace"), ("-5s", "first")]
)
def test_wrong_texts_name_the_field(text, field):
    """A text that is no duration is refused in one line that names the field."""
    with pytest.raises(UsageError, match=rf"^{field} ") as caught:
        Limits(**{field: text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("action", ["nudge", "halt", ""])
def test_wrong_actions(action):
    """An action that the library does not have is refused, and the others are named."""
    with pytest.raises(UsageError, match="write one of stop, notify, none"):
        Limits(idle_action=action)


@pytest.mark.capability("CAP-12")
class TestVariable:
    """What LONGWATCH_IDLE says where no window is given."""

    @pytest.mark.parametrize("text", ["", "  "])
    def test_unset_or_empty(self, text):
        """Nothing said is the built-in, and it stops."""
        assert idle_of(Limits(), LONGWATCH_IDLE=text) == idle_of(Limits()) == LimitSpec(300_000, "stop")

    def test_a_duration(self):
        """A duration counts, spaces around it do not, and it stops."""
        found = Limits().resolve({"LONGWATCH_IDLE": " 42s "})
        assert (found.specs, found.complaints) == ({"idle": LimitSpec(42_000, "stop")}, [])

    @pytest.mark.parametrize("text", ["0", "off", " 0 "])
    def test_off(self, text):
        """Off is off."""
        assert idle_of(Limits(), LONGWATCH_IDLE=text) is None

    @pytest.mark.parametrize("text", ["garbage", "-5s", "42", "5 minutes", "inf"])
    def test_garbage(self, text):
        """What is no duration leaves the built-in, and one line names variable and value."""
        found = Limits().resolve({"LONGWATCH_IDLE": text})
        assert found.specs == {"idle": LimitSpec(300_000, "stop")}
        assert len(found.complaints) == 1
        assert f"LONGWATCH_IDLE={text}" in found.complaints[0]


@pytest.mark.capability("CAP-14")
@pytest.mark.parametrize("text", ["1h", "garbage", "off"])
def test_a_given_window_wins(text):
    """Where a window is given its variable is not even read; the others still are."""
    found = Limits(idle=5).resolve({"LONGWATCH_IDLE": text, "LONGWATCH_TIMEOUT": "1m"})
    assert found.specs == {"idle": LimitSpec(5_000), "timeout": LimitSpec(60_000)}
    assert found.complaints == []


def test_every_field_has_its_variable():
    """Each field that is left out is taken from the variable of its option."""
    environ = {
        "LONGWATCH_FIRST": "1s",
        "LONGWATCH_CEILING": "2s",
        "LONGWATCH_TIMEOUT": "3s",
        "LONGWATCH_SOFT": "4s",
        "LONGWATCH_IDLE_ACTION": "none",
        "LONGWATCH_KILL_AFTER": "5s",
    }
    found = Limits().resolve(environ)
    assert {name: spec.window for name, spec in found.specs.items()} == {
        "idle": 300_000, "first": 1_000, "ceiling": 2_000, "timeout": 3_000, "soft": 4_000,
    }  # fmt: skip
    assert (found.specs["idle"].action, found.grace) == ("none", 5_000)


def test_variables_of_others_are_not_read():
    """A variable that the library has no use for is no reason to complain."""
    assert Limits().resolve({"LONGWATCH_LOG_MAX": "garbage", "LONGWATCH_STDIN": "x"}).complaints == []


def test_values():
    """Limits are values: equal by what was given, hashable, picklable, and shown as they would be written."""
    limits = Limits(idle=90, timeout=0)
    assert limits == Limits(idle="1m30s", timeout="off") != Limits(idle=90)
    assert len({limits, Limits(idle=90, timeout=0), Limits()}) == 2
    assert pickle.loads(pickle.dumps(limits)) == limits
    assert repr(limits) == "Limits(idle='1m30s', timeout='off')"
    assert eval(repr(limits), {"Limits": Limits}) == limits
    assert repr(Limits()) == "Limits()"


@pytest.mark.capability("CAP-12")
def test_a_wrong_variable_warns_at_the_caller(monkeypatch):
    """A run under a wrong variable warns once, at the line that called it, and goes on."""
    import longwatch

    monkeypatch.setenv("LONGWATCH_IDLE", "5")
    with pytest.warns(UserWarning, match="LONGWATCH_IDLE=5") as caught:
        assert longwatch.run(children.exits(3)).exit_code == 3
    assert [warning.filename for warning in caught] == [__file__]


def guarded(limits=None, **environ):
    """Return what limits come to for a guarded stream."""
    return (limits or Limits()).resolve(environ, "guard")


class TestGuard:
    """The same words for a guarded stream: other variables, other built-ins."""

    @pytest.mark.capability("CAP-73", "CAP-85", "CAP-92")
    def test_built_ins(self):
        """8 minutes of silence, an hour for a call, 45 minutes in all, told to wrap up at 40."""
        found = guarded()
        assert found.specs == {
            "idle": LimitSpec(480_000),
            "call": LimitSpec(3_600_000),
            "ceiling": LimitSpec(2_700_000),
            "soft": LimitSpec(2_400_000, "notify", derived=True),
        }
        assert (found.grace, found.loop, found.complaints) == (5_000, 0, [])

    @pytest.mark.capability("CAP-92")
    @pytest.mark.parametrize(
        ("ceiling", "soft"),
        [("45m", "40m"), ("2m", None), ("120001ms", 90_001), ("10m", "510s"), ("2h", "115m"), (0, None)],
    )
    def test_time_to_wrap_up(self, ceiling, soft):
        """15 % of the ceiling are kept, at least 30 s and at most 5 minutes; two minutes are too short for that."""
        found = guarded(Limits(ceiling=ceiling)).specs.get("soft")
        wanted = Limits(soft=soft / 1000 if isinstance(soft, int) else soft).resolve({}).specs.get("soft")
        assert (found and found.window) == (wanted and wanted.window)

    @pytest.mark.parametrize("soft", ["10m", "off"])
    def test_a_soft_limit_that_was_named(self, soft):
        """A named one is taken as it is, and does not move with the ceiling."""
        assert guarded(LONGWATCH_GUARD_SOFT=soft).specs.get("soft") == guarded(Limits(soft=soft)).specs.get(
            "soft"
        )
        assert not getattr(guarded(Limits(soft=soft)).specs.get("soft"), "derived", False)

    @pytest.mark.capability("CAP-81")
    @pytest.mark.parametrize(
        ("text", "window"),
        [
            ("", 480_000), ("  ", 480_000), ("garbage", 480_000), ("-1", 480_000), ("5", 480_000), ("300000 ms", 300_000),
            ("0", None), ("off", None), ("30d", 2_592_000_000), ("99999999999999999d", 36_525 * 86_400_000),
        ],
    )  # fmt: skip
    def test_variable(self, text, window):
        """Nothing and garbage leave the built-in, 0 is off, and what no timer can hold is held to a century."""
        found = guarded(LONGWATCH_GUARD_IDLE=text)
        assert getattr(found.specs.get("idle"), "window", None) == window
        assert len(found.complaints) == (text in ("garbage", "-1", "5"))

    @pytest.mark.capability("CAP-80", "CAP-81")
    @pytest.mark.parametrize("idle", [0, -1, math.inf, math.nan, None, 7])
    def test_a_given_value_wins(self, idle):
        """What the task says wins over the variable, also where it switches the limit off."""
        found = guarded(Limits(idle=idle), LONGWATCH_GUARD_IDLE="5s").specs.get("idle")
        assert found == (LimitSpec(7_000) if idle == 7 else None)

    def test_the_variables_of_run_are_not_its(self):
        """A run's variables say nothing of a stream, nor the other way round."""
        assert guarded(LONGWATCH_IDLE="5s", LONGWATCH_CEILING="1m").specs == guarded().specs
        assert Limits().resolve({"LONGWATCH_GUARD_IDLE": "5s"}).specs == Limits().resolve({}).specs

    def test_budgets_by_tool(self):
        """A call's budget may depend on the tool; the empty name is for all others."""
        found = guarded(Limits(call={"Bash": "30m", "": "5m", "Ask": 0})).specs["call"]
        assert (found.window, found.budgets) == (300_000, {"Bash": 1_800_000, "": 300_000, "Ask": 0})
        assert guarded(Limits(call={"Bash": "2h"})).specs["call"].window == 3_600_000
        assert Limits(call={"Bash": "2h"}).resolve({}).specs["call"].budgets == {"Bash": 7_200_000}
        assert "call" not in guarded(Limits(call=0)).specs
        with pytest.raises(UsageError, match="call of Bash"):
            Limits(call={"Bash": "5"})

    def test_steps(self):
        """A stalled or asking program may be right: those notify; the others stop."""
        specs = guarded(Limits(stall=1, ask=1, first=1, timeout=1, idle_action="notify")).specs
        steps = {name: spec.action for name, spec in specs.items()}
        assert steps == {
            "idle": "notify", "first": "stop", "stall": "notify", "call": "stop", "ceiling": "stop",
            "timeout": "stop", "soft": "notify", "ask": "notify",
        }  # fmt: skip

    @pytest.mark.parametrize(("given", "loop"), [(None, 0), (0, 0), (-3, 0), (2, 2), (10, 10)])
    def test_loop(self, given, loop):
        """So many equal calls stop; none, zero and less are off."""
        assert guarded(Limits(loop=given)).loop == loop
        assert guarded(LONGWATCH_GUARD_LOOP="7").loop == 7
        with pytest.raises(UsageError, match="no repetition"):
            Limits(loop=1)

    def test_they_are_values(self):
        """Equal limits are equal, budgets included, and show what they are."""
        limits = Limits(idle=5, loop=3, call={"Bash": "30m", "": "5m"})
        assert limits == Limits(idle=5, loop=3, call={"": "5m", "Bash": "30m"})
        assert hash(limits) == hash(Limits(idle=5, loop=3, call={"Bash": "30m", "": "5m"}))
        assert limits != Limits(idle=5, loop=3, call={"Bash": "31m", "": "5m"})
        assert repr(limits) == "Limits(idle='5s', call={'Bash': '30m', '': '5m'}, loop=3)"


@pytest.mark.capability("CAP-104")
@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("1", 1),
        ("32", 32),
        ("0", 8),
        ("33", 8),
        ("8x", 8),
        ("+4", 8),
        ("4.0", 8),
        ("٣", 8),
        ("", 8),
        ("off", 8),
    ],
)
def test_width(text, width):
    """1 to 32 in plain digits; anything else leaves 8 and warns once."""
    values = from_environment({"LONGWATCH_GUARD_WIDTH": text}, "guard")
    assert values.width == width
    assert len(values.warnings) == (width == 8 and text != "")
