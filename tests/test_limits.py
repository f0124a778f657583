"""`Limits`: spans in seconds or words, variables for what is left out, and what all of it comes to."""

import math
import pickle

import pytest

from longwatch import Limits, UsageError
from longwatch.core.spec import LimitSpec
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
