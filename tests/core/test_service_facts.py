"""Facts of harnesses and of the daemon: a closed set of plain values."""

import inspect
import json

import pytest

from longwatch.core.facts import Fact
from longwatch.core.service_facts import FACTS, wire_name


@pytest.mark.parametrize("name", FACTS)
def test_a_fact(name: str) -> None:
    """Each has its name on the wire, says when, holds what it was given, and is a value that JSON knows."""
    kind = FACTS[name]
    parameters = list(inspect.signature(kind).parameters)
    given = {
        parameter: {} if parameter == "record" else number for number, parameter in enumerate(parameters)
    }
    fact = kind(**given)
    assert isinstance(fact, Fact)
    assert fact.name == name == wire_name(kind)
    assert fact.as_dict() == given
    assert fact.at == 0
    assert json.loads(json.dumps(fact.as_dict())) == given
    assert fact == kind(**given)


def test_the_set() -> None:
    """What others rely on is there, and nothing stands twice."""
    assert len(FACTS) == 32
    assert {"state_changed", "run_closed", "stalled", "gave_up", "parked", "daemon_started"} <= set(FACTS)
