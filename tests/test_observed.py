"""A known program whose records cannot be read here: what is said of it, and what follows for its limits."""

from types import SimpleNamespace
from typing import Any

import pytest

from longwatch import presets
from longwatch.core.observations import SourceLost
from longwatch.core.sight import TRANSCRIPT
from longwatch.observed import Observed


def made(monkeypatch: pytest.MonkeyPatch, missing: str, preset: str = "claude") -> tuple[Observed, list[str]]:
    """Return who would read a program's records where a package is missing, and what was said of that."""
    said: list[str] = []

    def agent(*_: Any) -> Any:
        raise ImportError(name=missing)

    monkeypatch.setattr(Observed, "_agent", agent)
    nobody: Any = SimpleNamespace(pumps={})
    return Observed(presets.named(preset), [preset, "-p", "x"], nobody, nobody, say=said.append), said


def test_an_agent_that_cannot_be_read_is_watched_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is named with its installation; nothing of an agent is claimed."""
    found, said = made(monkeypatch, "msgspec")
    assert (found.blinded, found.resident, found.sources) == (True, False, None)
    assert found.blind() == "longwatch cannot read claude's records here"
    assert ("the package msgspec" in said[0], "its output alone is watched" in said[0]) == (True, True)
    assert list(found.look(5)) == [(5, SourceLost(TRANSCRIPT))]
    assert (found.ended(5), list(found.remarks())) == ({"agent": None, "resume": None}, [])


def test_a_defect_is_no_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is ours to repair is not blamed on an installation."""
    with pytest.raises(ImportError):
        made(monkeypatch, "longwatch.observe.agent")


def test_who_keeps_no_records_is_not_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing that could be read."""
    known = [preset.name for preset in presets.PRESETS if preset.dialect is None]
    found, said = made(monkeypatch, "msgspec", known[0])
    assert (found.blinded, found.blind(), said) == (False, "", [])
