"""Plain records, and the vocabulary that is made of them."""

import inspect

import pytest

from longwatch.core import commands, facts, observations
from longwatch.core.facts import GaveUp, LimitFired, LoopSuspected, RunEnded
from longwatch.core.observations import CallBegan, CallEnded, Drained
from longwatch.core.record import Plain

# The words that the design lists, and the few that an answer needs.
OBSERVATIONS = {
    "ProgressSeen", "CallBegan", "CallProgressed", "CallEnded", "Paused", "Resumed", "Asked", "Answered",
    "QuietBegan", "QuietEnded", "TurnEnded", "ResultSeen", "SourceLost", "SourceFound", "StreamRestarted", "Lapsed",
    "Vetoed", "SpawnFailed", "Exited", "Drained", "TreeGone", "StopRequested",
    # beyond the list: signs that are no progress, the other end of a turn, the effect source, answers to commands
    "AliveSeen", "TurnBegan", "EffectChanged", "Prepared", "LeftoversFound",
}  # fmt: skip
COMMANDS = {
    "CapturePostMortem", "SignalTree", "Nudge", "AbandonPipes", "CancelStream", "Notify", "Record",
    "SweepTree",  # beyond the list: look for what the leader left
}  # fmt: skip
FACTS = {"RunStarted", "LimitFired", "ExtensionGranted", "LoopSuspected", "GaveUp", "RunEnded"}


def words(module: object, base: type[Plain]) -> dict[str, type[Plain]]:
    """Return the classes that a module adds to a base."""
    found = inspect.getmembers(module, inspect.isclass)
    return {name: kind for name, kind in found if issubclass(kind, base) and kind is not base}


EVERY = {
    **words(observations, observations.Observation),
    **words(commands, commands.Command),
    **words(facts, facts.Fact),
}


def test_records_are_equal_by_class_and_fields() -> None:
    """Two records are equal when class and fields are; equal records have equal hashes."""
    assert CallBegan("1", "Bash") == CallBegan("1", "Bash")
    assert CallBegan("1", "Bash") != CallBegan("2", "Bash")
    assert CallBegan("1") != CallEnded("1")
    assert Drained() != "Drained()"
    assert len({CallBegan("1"), CallBegan("1"), CallEnded("1")}) == 2


def test_records_show_their_fields() -> None:
    """The text of a record is its class and its fields, and the plain form keeps their order."""
    assert repr(CallEnded("1", ok=False)) == "CallEnded(call='1', mark='', ok=False)"
    assert list(CallBegan("1", "Bash").as_dict().items()) == [("call", "1"), ("mark", ""), ("tool", "Bash")]


def test_the_vocabulary_is_closed() -> None:
    """A watch is told exactly these words and answers with exactly these; a new one has to be written down here."""
    assert set(words(observations, observations.Observation)) == OBSERVATIONS
    assert set(words(commands, commands.Command)) == COMMANDS
    assert set(words(facts, facts.Fact)) >= FACTS


@pytest.mark.parametrize("name", sorted(EVERY))
def test_slots_are_the_arguments(name: str) -> None:
    """Every field of a record is an argument and a slot, so nothing is lost in its plain form."""
    kind = EVERY[name]
    parameters = inspect.signature(kind).parameters if kind.__slots__ else ()
    assert sorted(kind.__slots__) == sorted(parameters)
    assert not hasattr(kind.__new__(kind), "__dict__")


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (RunEnded(1, "exited"), "run_ended"),
        (LimitFired(1, "idle", 2, 0, "stop"), "limit_fired"),
        (LoopSuspected(1, "Bash", 5, 20), "loop_suspected"),
        (GaveUp(1, "intensity"), "gave_up"),
    ],
)
def test_facts_have_a_name_on_the_wire(fact: facts.Fact, name: str) -> None:
    """A fact's wire name is its class in lower case with underscores."""
    assert fact.name == name
    assert fact.at == 1


@pytest.mark.parametrize("name", sorted(words(facts, facts.Fact)))
def test_every_fact_says_when(name: str) -> None:
    """Every fact carries its instant."""
    assert "at" in EVERY[name].__slots__
